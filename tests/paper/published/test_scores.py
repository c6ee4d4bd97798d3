"""How far answers are from what was metered, and what is kept of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from ampere.errors import NotCovered
from ampere.records.measurement import Measurement
from ampere_paper.published import board, intel
from ampere_paper.published.answers import Answer, Learned
from ampere_paper.published.cases import Case, Split, by_depth, by_network
from ampere_paper.published.scores import attempt, examine, interval_score
from plain_rows import network, step
from published import write_all, write_more


def test_an_examination_counts_what_it_asks(tmp_path: Path) -> None:
    case = by_depth(intel.broadwell(write_all(tmp_path)), (1, 3), 0.03)
    row = examine(case, "additive")
    assert (row["known"], row["asked"], row["bar"]) == ([4], [8], 0.03)
    assert row["mape_by_split"] == [row["mape"]]
    assert row["coverage_by_split"] == [row["coverage"]]
    assert examine(case, "roofline")["bar"] is None


def test_a_method_that_does_not_apply_says_so(tmp_path: Path) -> None:
    row = examine(by_depth(intel.broadwell(write_all(tmp_path)), (1, 3), 0.03), "paper")
    assert row["mape"] is row["coverage"] is row["score"] is None
    assert row["mape_by_split"] == [None]
    assert "not covered" in row["does_not_apply"]


def test_parts_are_counted_by_their_tags(tmp_path: Path) -> None:
    case = by_network(board.read(write_more(tmp_path)), 14, 3, bar=0.12, median_bar=0.07)
    row = examine(case, "flops_affine")
    parts = {(part["tag"], part["part"]): part for part in row["parts"]}
    assert set(parts) == {
        ("network", "conv"),
        ("network", "mlp"),
        ("optimiser", "Adam and kin"),
        ("optimiser", "plain"),
    }
    for tag in ("network", "optimiser"):
        ours = [part for (name, _), part in parts.items() if name == tag]
        assert sum(part["asked"] for part in ours) == sum(row["asked"])
        weighed = sum(part["asked"] * part["mape"] for part in ours) / sum(row["asked"])
        assert weighed == pytest.approx(row["mape"])


def half_too_low(known: Sequence[Measurement]) -> Learned:
    """Half of the truth, with an interval that reaches 1.2 J."""

    def answers(asked: Sequence[Measurement]) -> list[Answer]:
        return [Answer(row.energy_j / 2, row.energy_j / 4, 1.2) for row in asked]

    return Learned(answers, left_out=2)


def test_thirds_are_by_true_joules() -> None:
    asked = [step(network(1.0, 1.0), joules) for joules in (3.0, 1.0, 2.0)]
    found = attempt(Split([], asked, [{"a": "x"}, {"a": "y"}, {"a": "z"}]), half_too_low)
    assert [each.third for each in found.outcomes] == [2, 0, 1]
    assert [each.inside for each in found.outcomes] == [False, True, False]
    assert [each.error for each in found.outcomes] == [-0.5] * 3
    assert [each.tags["a"] for each in found.outcomes] == ["x", "y", "z"]
    assert found.left_out == 2


def test_a_refusal_is_told() -> None:
    def refuse(known: Sequence[Measurement]) -> Learned:
        raise NotCovered("nothing is isolated")

    assert attempt(Split([], []), refuse).refusal == "nothing is isolated"


def test_scores_are_widths_and_misses() -> None:
    e = math.e
    assert interval_score(Answer(1.0, 1 / e, e), 1.0) == pytest.approx(2.0)
    assert interval_score(Answer(1.0, 1.0, e), 1.0 / e) == pytest.approx(1.0 + 20.0)
    assert interval_score(Answer(1.0, 1 / e, 1.0), e) == pytest.approx(1.0 + 20.0)
    assert math.isfinite(interval_score(Answer(1.0, 0.0, 2.0), 1.0))  # it reaches 0 J
    assert interval_score(Answer(-1.0, 0.0, 0.0), 1.0) > 100  # it cannot be


def test_unknown_methods_are_no_methods() -> None:
    with pytest.raises(KeyError):
        examine(Case("nothing", (Split([], []),)), "guessing")
