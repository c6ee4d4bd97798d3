"""Parts of the model that are left out are really gone, and the table says what that changes."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampere.estimators.additive import AdditiveFit
from ampere.estimators.encoding.places import BYTES
from ampere.estimators.fitting import fit_additive
from ampere.estimators.processes import sum_process
from ampere_paper.published.cases import Case, Split

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
ablation: Any = importlib.import_module("ablation")
bias: Any = importlib.import_module("bias")
DOCS = importlib.import_module("machine").DOCS

NONE = 1e-6


def deviation(*names: str) -> Callable[[AdditiveFit], bool]:
    return lambda fit: all(getattr(fit.energy.hyper, name) < NONE for name in names)


def bytes_do_not_matter(fit: AdditiveFit) -> bool:
    return not fit.energy.layers.x[:, fit.encoder.coordinates.index(BYTES)].any()


# Whether a part is gone from a fit.
GONE: dict[str, Callable[[AdditiveFit], bool]] = {
    "M52 of an operation": deviation("operation"),
    "M52 of a kind": deviation("kind"),
    "M12": deviation("short"),
    "roughness": deviation("rough"),
    "b: coefficients are uncertain": deviation("coefficient"),
    "stairs": lambda fit: not fit.energy.layers.stairs.any(),
    "depth": deviation("depth"),
    "drift": deviation("sitting", "slow"),
    "noise falls with size": lambda fit: fit.energy.hyper.fading == 0,
    "traits": lambda fit: not fit.energy.layers.traits.any(),
    "bytes as a coordinate": bytes_do_not_matter,
    "tiles in the mean": lambda fit: not fit.encoder.rounded,
    "doubt beyond what was measured": deviation("beyond"),
}
# Tested below.
ELSEWHERE = {"step by step", "Student's distribution", "widening by rows left out"}


@pytest.fixture(autouse=True)
def searched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests remember of searches knows nothing of the constants that are replaced here."""
    monkeypatch.setattr(sum_process, "search", sum_process.search.__wrapped__)


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    """Enough for tiles, with widths that lie between them: these are likelier with tiles."""
    rng = random.Random(0)
    made = []
    for _ in range(10):
        n = rng.choice((1, 3, 9, 17, 31, 33, 40, 64, 65))
        layers = (bias.conv(bias.Role.FIRST, 3, n, 32), bias.linear(n))
        made.append(bias.Measurement(layers, 1e-3 * (1 + -(-n // 32))))
    return made


@pytest.mark.parametrize("part", GONE)
def test_a_part_that_is_left_out_is_gone(part: str, rows: list[Any]) -> None:
    with ablation.PARTS[part]():
        assert GONE[part](fit_additive(rows))


def test_nothing_is_gone_afterwards(rows: list[Any]) -> None:
    fit = fit_additive(rows)
    assert [part for part, gone in GONE.items() if gone(fit)] == ["noise falls with size"] * (
        fit.energy.hyper.fading == 0
    )


def test_every_part_is_looked_at() -> None:
    assert set(ablation.PARTS) == {*GONE, *ELSEWHERE, ablation.AS_IS}


def test_intervals_are_narrower_without_students_distribution(rows: list[Any]) -> None:
    layers = rows[0].layers
    usual = fit_additive(rows).predict(layers).total
    with ablation.PARTS["Student's distribution"]():
        found = fit_additive(rows).predict(layers).total
    assert found.energy_j == usual.energy_j
    assert found.energy_j_std < usual.energy_j_std


def test_no_interval_is_widened_without_rows_left_out(rows: list[Any]) -> None:
    rough = [
        replace(row, energy_j_per_step=row.energy_j * 2 ** (i % 3)) for i, row in enumerate(rows)
    ]
    assert fit_additive(rough).energy.solution.stretch > 1
    with ablation.PARTS["widening by rows left out"]():
        assert fit_additive(rough).energy.solution.stretch == 1


def test_a_recurrent_layer_starts_once_without_step_by_step() -> None:
    kind = bias.LayerKind("rnn", bias.Role.FIRST, "rnn", {"length": 50})
    layer = bias.Layer("rnn", kind, bias.Widths({"out": 8}), bias.Features(1.0, 1.0, 1.0))
    encoder = ablation.Encoder.of([layer])
    assert encoder.features([layer])[0, 1] == 50
    with ablation.PARTS["step by step"]():
        assert encoder.features([layer])[0, 1] == 1


def test_changes_are_shares_of_the_mean_and_sure_where_splits_agree() -> None:
    assert ablation.change([0.1, 0.3], [0.2, 0.4]) == (pytest.approx(0.5), True)
    share, sure = ablation.change([0.1, 0.3], [0.2, 0.2])
    assert share == pytest.approx(0.0)
    assert not sure
    assert ablation.change([0.1], [0.2]) == (pytest.approx(1.0), False)


def test_tables_of_published_and_kept_rows(
    rows: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case("made up", (Split(rows[:4], rows[4:6]),))
    some = {part: ablation.PARTS[part] for part in (ablation.AS_IS, "M12")}
    monkeypatch.setattr(ablation, "PARTS", some)
    monkeypatch.setattr(ablation, "SHORT", ("made up",))
    monkeypatch.setattr(ablation, "machine_line", lambda settings: "here.")
    own = ablation.Question("own", case.splits)
    monkeypatch.setattr(ablation, "of_families", lambda: own)
    monkeypatch.setattr(ablation, "of_two_threads", lambda: ablation.replace(own, name="two"))
    out = tmp_path / "ablation.json"
    before = (DOCS / "published.md").read_bytes()
    ablation.main([case], out, docs=False)
    assert (DOCS / "published.md").read_bytes() == before
    kept = json.loads(out.read_text())
    assert set(kept["parts"]) == set(some)
    printed = capsys.readouterr().out
    assert "| left out | made up | own | two |" in printed
    assert printed.count("\n| M12 | ") == 2
    assert np.isfinite(kept["parts"]["M12"]["two"]["mape"]).all()


def test_what_two_threads_are_asked_is_kept() -> None:
    splits = ablation.of_two_threads().splits
    assert [len(split.asked) for split in splits] == [10] * ablation.TIMES
    assert all(row.sitting for split in splits for row in split.known)
