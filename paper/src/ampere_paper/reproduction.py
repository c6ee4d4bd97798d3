"""Reproduction: every figure and table of the paper, from one command.

An experiment that fails is reported, and the others go on. How long things take: see
`lab/plans.py`; what is written where: see `results/folder.py`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import AmpereError, DataError, NotCovered
from ampere_paper.experiments import choose
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.figures.style import styled
from ampere_paper.forecast import Clock, expected_s
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.notebooks import journal_file
from ampere_paper.lab.plans import FULL, Plan
from ampere_paper.published.datasets import refuse_incomplete
from ampere_paper.results.folder import Results
from ampere_paper.results.outcome import Outcome


@dataclass(frozen=True)
class Reproduction:
    """A run: what became of each experiment, and where everything is."""

    folder: Path
    plan: Plan
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Experiments that failed."""
        return tuple(each for each in self.outcomes if each.failed is not None)

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere reproduce --json` prints it."""
        return {
            "folder": str(self.folder),
            "plan": self.plan.name,
            "devices": list(self.plan.sizes),
            "experiments": {
                each.experiment.name: {
                    "claim": each.experiment.claim,
                    "found": each.finding,
                    "failed": each.failed,
                    "seconds": each.seconds,
                }
                for each in self.outcomes
            },
        }

    def __repr__(self) -> str:
        return Page(
            f"{units.plural(len(self.outcomes), 'experiment')} of the {self.plan.name} plan",
            facts=[
                *((each.experiment.name, each.finding) for each in self.outcomes),
                ("written", f"{self.folder / 'index.html'} (and index.md)"),
            ],
        ).text()


def reproduce(
    folder: str | Path,
    plan: Plan = FULL,
    only: Iterable[str] = (),
    watch: Watch = unwatched,
    refit: bool = False,
) -> Reproduction:
    """Run experiments in order; what the folder holds of the same plan is not measured again.

    Args:
        folder: Where everything goes; made if it is not there.
        plan: How much is measured where.
        only: Names of experiments; all unless given.
        watch: Told what is going on, and how long it will take.
        refit: Measure nothing, and make data anew from the folder's journals, on whatever machine
            they were measured. What they cannot tell stays as it is.

    Raises:
        DataError: The plan has no device, an experiment is unknown, matplotlib is missing, or the
            folder holds another plan's measurements.
    """
    folder, chosen = Path(folder), choose(only)
    if not plan.sizes:
        raise DataError("there is no device to run on: name some that the plan has")
    if plan.recorded is not None:
        refuse_incomplete(plan.recorded)
    with styled():  # better missing now than after two hours
        pass
    if refit:
        plan = plan.on(_measured(folder, plan), plan.recorded)
    results = Results.claim(folder, plan)
    results.refuse_damaged(made_anew=chosen if refit else ())
    outcomes: dict[str, Outcome] = {}
    kept = {
        each.name for each in chosen if not refit and results.earlier_data(each, plan) is not None
    }
    clock = Clock(expected_s(plan, chosen, kept, refit), watch)
    try:
        with Laboratory(folder, plan, clock.tell, refit) as lab:
            for experiment in chosen:
                clock.begin(experiment)
                outcomes[experiment.name] = _run(experiment, lab, results)
                clock.end(experiment)
    finally:  # an interrupted run shows what it has
        results.write_pages(outcomes)
    watch(Event("done", len(chosen), len(chosen), 0.0))
    return Reproduction(folder, plan, tuple(outcomes.values()))


def _run(experiment: Experiment, lab: Laboratory, results: Results) -> Outcome:
    """Get data and draw; a failure is an outcome too."""
    start = time.monotonic()
    results.keep_error(experiment, "")
    data, failed = None, None
    try:
        data = _data(experiment, lab, results)
        results.show(experiment, data)
        finding = experiment.sentence(data)
    except NotCovered as reason:
        finding = f"Left out: {reason}."
    except Exception as error:  # whatever it is, the others can do without
        results.keep_error(experiment, traceback.format_exc())
        failed = str(error) if isinstance(error, AmpereError) else repr(error)
        data, finding = None, f"Failed: {failed}."
    return Outcome(experiment, finding, data, failed, time.monotonic() - start)


def _data(experiment: Experiment, lab: Laboratory, results: Results) -> Json:
    """What the folder holds, unless it is to be fitted anew; else what measuring tells."""
    without = experiment.recorded and lab.plan.recorded is None  # what others have recorded
    if without or not lab.refit:
        kept = results.earlier_data(experiment, lab.plan)
        if kept is not None:
            return kept
    results.refuse_fewer(experiment, lab.plan)
    try:
        data = experiment.measure(lab)
    except NotCovered:
        kept = results.earlier_data(experiment, lab.plan)
        if kept is None:
            raise
        return kept
    results.keep(experiment, lab.plan, data, lab.refit)
    return data


def _measured(folder: Path, plan: Plan) -> list[str]:
    """The benches that a folder has journals of.

    Raises:
        DataError: There are none.
    """
    Results.open(folder)
    names = [name for name in plan.sizes if journal_file(folder / "journals", name).exists()]
    if not names:
        raise DataError(f"{folder / 'journals'} has no journals: measure without --refit first")
    return names
