"""The run that docs/ keeps."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest

from ampere.meters.base import Provenance
from ampere.records.journal import read_journal
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import span
from ampere_paper.lab.benches import bench_names
from ampere_paper.lab.plans import FOUR, FULL
from ampere_paper.results.folder import Results

from .small import KEPT, data_of, numbers


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_the_kept_run_is_of_the_present_plan_and_told_in_the_docs(experiment: Experiment) -> None:
    data = Results.open(KEPT).earlier_data(experiment, FULL)
    assert data is not None  # else redrawing it would measure
    assert all(map(math.isfinite, numbers(data)))
    page = KEPT / ("recorded.md" if experiment.name == "recorded" else "index.md")
    assert experiment.sentence(data) in page.read_text()


def test_the_kept_journals_are_small_and_say_what_their_joules_are() -> None:
    paths = sorted((KEPT / "journals").glob("*.gz"))
    assert sum(path.stat().st_size for path in paths) < 5e6
    for path in paths:
        simulated = path.name.split("-")[0].split(".")[0] in bench_names(["simulated"])
        told = Provenance.SIMULATED if simulated else Provenance.MODELLED
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        assert {row["provenance"] for row in rows} == {told.value}, path


def test_the_kept_journals_are_read() -> None:
    for path in sorted((KEPT / "journals").glob("*.gz"))[::8]:  # all of them take long
        header, rows = read_journal(path)
        assert {row.provenance for row in rows} <= {header.provenance}, path


def mape(rows: Sequence[Any], method: str) -> list[float]:
    return [row["mape"][method] for row in rows]


@pytest.fixture(scope="module")
def scores() -> list[Any]:
    """Of every family on every device."""
    return [row for name in ("fig8", "fig9", "fig10") for row in data_of(KEPT, name)]


PAGE = (KEPT.parent / "results.md").read_text(encoding="utf-8")


def test_the_short_page_has_the_means_of_the_kept_run(scores: list[Any]) -> None:
    methods = ("additive", "paper", "roofline", "neuralpower", "flops", "repeat")
    means = " | ".join(f"{fmean(mape(scores, method)):.1f}" for method in methods)
    assert f"| {len(scores)} pairs of family and device, mean | {means} |" in PAGE
    additive = mape(scores, "additive")
    wins = {
        other: sum(own <= its for own, its in zip(additive, mape(scores, other), strict=True))
        for other in ("paper", "roofline")
    }
    assert f"no worse than the paper's method in {wins['paper']} of {len(scores)} pairs" in PAGE
    assert f"no worse than the roofline in {wins['roofline']}." in PAGE


def test_the_short_page_has_the_spans_of_this_machine(scores: list[Any]) -> None:
    here = [row for row in scores if row["bench"] == "threads1"]
    spans = [span(mape(here, method), "") for method in ("additive", "paper", "flops", "repeat")]
    assert "| this machine, six families | {} | {} | | | {} | {} |".format(*spans) in PAGE
    four = [row for row in here if row["family"] in FOUR]
    assert f"gives numbers for ({span(mape(four, 'paper'))})" in PAGE


def test_the_short_page_has_the_kernels_of_the_kept_run() -> None:
    rows = data_of(KEPT, "kernels")
    best, other, worst = (fmean(mape(rows, kernel)) for kernel in ("matern52", "matern12", "dot"))
    assert f"({best:.1f} %; Matérn 1/2 {other:.1f} %)" in PAGE
    assert f"clearly worse ({worst:.1f} %)" in PAGE


def test_pages_by_topic_have_all_tables_that_benchmarks_write() -> None:
    called = r'write_section\(\s*"(\w+\.md)",\s*"([\w ]+)"'
    for script in (KEPT.parents[1] / "benchmarks").glob("*.py"):
        for page, name in re.findall(called, script.read_text(encoding="utf-8")):
            text = (KEPT / page).read_text(encoding="utf-8")
            assert f"<!-- {name}: begin -->" in text, script.name
            assert f"<!-- {name}: end -->" in text, script.name
