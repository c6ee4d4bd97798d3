"""A study as it is told, written and read back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.meters.base import Provenance
from ampere_paper.study.study import Contender, Curve, Study

from .test_case_study import message_of

positive = st.floats(1e-6, 1e6)


@st.composite
def curves(draw: st.DrawFn, name: str) -> Curve:
    count = draw(st.integers(1, 4))
    numbers = st.lists(positive, min_size=count, max_size=count).map(tuple)
    growing = st.lists(st.integers(1, 99), min_size=count, max_size=count)
    steps, energy_j = (tuple(itertools.accumulate(draw(growing))) for _ in range(2))
    energy = tuple(each / 7 for each in energy_j)
    return Curve(name, steps, draw(numbers), draw(numbers), energy, draw(numbers))


@st.composite
def studies(draw: st.DrawFn) -> Study:
    def contender(name: str) -> Contender:
        widths = draw(st.dictionaries(st.text(max_size=5), st.integers(1, 512), max_size=2))
        return Contender(
            draw(curves(name)), draw(st.integers(1, 10**9)), draw(positive), widths,
            *(draw(positive) for _ in range(4)),
        )  # fmt: skip

    text = st.text(max_size=8)
    return Study(
        draw(text), draw(text), "50%", draw(positive), tuple(map(contender, ("full", "energy"))),
        draw(st.integers(1, 99)), "sgd", draw(positive), "random", 0.9, draw(st.integers(0, 9)),
        draw(st.sampled_from(Provenance)), draw(text), draw(text), (draw(text),),
    )  # fmt: skip


@given(studies())
def test_what_is_written_is_read_back(found: Study) -> None:
    text = json.dumps(found.to_json(), allow_nan=False)
    assert Study.from_json(json.loads(text)) == found
    assert str(found.provenance.value) in text


def test_files(tmp_path: Path) -> None:
    found = invented()
    path = tmp_path / "study.json"
    found.save(path)
    assert Study.load(path) == found
    assert "cannot read" in message_of(lambda: Study.load(tmp_path / "none.json"))
    assert "cannot write" in message_of(lambda: found.save(tmp_path / "none" / "a.json"))
    path.write_text("{}")
    assert f"{path}: not a study of ampere" in message_of(lambda: Study.load(path))
    path.write_text("{")
    assert f"{path}: not JSON" in message_of(lambda: Study.load(path))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda row: row.pop("budget"), "budget is missing: it must be a text"),
        (lambda row: row.update(ampere_study=2), "not a study of ampere in format 1"),
        (lambda row: row.update(contenders=[]), "contenders must be a list of 1 to 100 items"),
        (lambda row: row.update(contenders=5), "contenders must be a list of 1 to 100 items"),
        (lambda row: row.update(contenders=[5]), "contenders[0] must be an object, not 5"),
        (lambda row: row.update(warnings=[5]), "warnings[0] must be a text, not 5"),
        (lambda row: row.update(batch_size=2.5), "batch_size must be a whole number"),
        (lambda row: row.update(limit_j=1e999), "limit_j must be a number"),
        (lambda row: row.update(limit_j=10**400), "limit_j must be a number"),
        (lambda row: row.update(seed="7"), "seed must be a whole number"),
        (lambda row: row.update(model="\ud800"), "model is no text that can be written"),
        (lambda row: row["contenders"][1]["curve"].update(steps=[1.5, 2]), "must be whole numbers"),
        (lambda row: row["contenders"][1]["curve"].update(loss=[None, 1]), "has a null in it"),
        (lambda row: row["contenders"][1]["curve"].update(loss="ab"), "must be a list"),
        (lambda row: row["contenders"][1].update(curve=[]), "curve must be an object"),
        (lambda row: row.update(provenance="guessed"), "guessed"),
        (
            lambda row: row["contenders"][1].update(widths=3),
            "contenders[1].widths must be an object",
        ),
        (lambda row: row["contenders"][0]["curve"]["loss"].pop(), "the curve full needs the same"),
        (lambda row: row["contenders"][0]["curve"]["energy_j"].reverse(), "that grow from 0 on"),
    ],
)
def test_what_is_damaged_is_refused(harm: Callable[[Any], Any], says: str) -> None:
    row = json.loads(json.dumps(invented().to_json()))
    harm(row)
    assert says in message_of(lambda: Study.from_json(row))


def invented(provenance: Provenance = Provenance.MODELLED) -> Study:
    """Two turns of 10 steps; the second was a bad moment for the energy-guided model."""

    def contender(name: str, first_j: float, second_j: float, parameters: int) -> Contender:
        joules = (first_j, first_j + second_j)
        curve = Curve(name, (10, 20), (2.0, 0.5), (0.2, 0.9), joules, (1.0, 2.0))
        return Contender(curve, parameters, 1e6 * parameters, {}, first_j / 10, 0.01, 0.5, 0.912)

    models = (
        contender("full", 10, 10, 4000),
        contender("energy", 4, 5, 1500),
        contender("flops", 7, 7, 2000),
    )
    return Study(
        "zoo:x", "digits", "50%", 10.0, models, 10, "sgd", 0.05, "random", 0.9, 0, provenance,
        "a board", "2026-01-01", ("look out",),
    )  # fmt: skip


def test_the_page() -> None:
    assert repr(invented()) == (
        "zoo:x and two cut to 50%, trained on digits: 20 iterations each\n"
        "\n"
        "model   parameters    FLOPs  estimate (J)  modelled (J)  job (J)    share  ± std  budget"
        "   loss  accuracy\n" + "─" * 105 + "\n"
        "full         4,000  100.0 %         1.000         1.000    20.00  100.0 %  0.0 %  OVER  "
        "  0.500    91.2 %\n"
        "energy       1,500   37.5 %         0.400         0.450     9.00   45.0 %  5.0 %  inside"
        "  0.500    91.2 %\n"
        "flops        2,000   50.0 %         0.700         0.700    14.00   70.0 %  0.0 %  OVER  "
        "  0.500    91.2 %\n"
        "\n"
        "budget     50%: 10.0 J for the job\n"
        "energy     joules are modelled from CPU time, not measured; loading and judging are not in"
        " them\n"
        "training   batches of 10, sgd at a rate of 0.05, seed 0\n"
        "search     strategy random, confidence 90.0 %\n"
        "judged by  loss of the last turn in training, accuracy on test samples\n"
        "device     a board\n"
        "warning    look out"
    )
    assert "<th" in invented()._repr_html_()


@pytest.mark.parametrize("provenance", Provenance)
def test_only_hardware_measures(provenance: Provenance) -> None:
    text = repr(invented(provenance))
    measured = provenance.metered == "measured"
    assert ("measured (J)" in text) is measured
    assert measured or "not measured" in text


def test_one_turn_does_not_tell_its_own_error() -> None:
    curve = Curve("full", (5,), (1.0,), (0.5,), (2.0,), (1.0,))
    one = Contender(curve, 10, 1.0, {}, 0.4, 0.1, 1.0, 0.5)
    found = replace(invented(), contenders=(one,))
    assert found.share_std(one) is None
    assert "unknown" in repr(found)
