"""Reproducing: every figure and table of the paper, from one command.

An experiment that fails is reported, and the others go on. How long things take: see
`experiments/plans.py`; what is written where: see `results.py`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import AmpereError, DataError, NotCovered
from ampere_paper import figures
from ampere_paper.experiments import choose
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.laboratory import Laboratory, journal_file
from ampere_paper.plans import FULL, QUICK, Plan
from ampere_paper.published import refuse_incomplete
from ampere_paper.results import Outcome, Results

__all__ = ["FULL", "QUICK", "Plan", "Reproduction", "reproduce"]

DOUBT_S = 300.0  # so many seconds of expected work tell half of the pace
DRAWING_S = 1.5
FITTING = 0.05  # of the time of a run that measures


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
                    "found": each.found,
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
                *((each.experiment.name, each.found) for each in self.outcomes),
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
    with figures.styled():  # better missing now than after two hours
        pass
    if refit:
        plan = plan.on(_measured(folder, plan), plan.recorded)
    results = Results.claim(folder, plan)
    outcomes: dict[str, Outcome] = {}
    known = {each.name for each in chosen if not refit and results.known(each, plan) is not None}
    clock = _Clock(expected_s(plan, chosen, known, refit), watch)
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
    trace = results.folder / "data" / f"{experiment.name}.error"
    trace.unlink(missing_ok=True)
    data, failed = None, None
    try:
        data = _data(experiment, lab, results)
        results.show(experiment, data)
        found = experiment.sentence(data)
    except NotCovered as reason:
        found = f"Left out: {reason}."
    except Exception as error:  # whatever it is, the others can do without
        trace.write_text(traceback.format_exc())
        failed = str(error) if isinstance(error, AmpereError) else repr(error)
        data, found = None, f"Failed: {failed}."
    return Outcome(experiment, found, data, failed, time.monotonic() - start)


def _data(experiment: Experiment, lab: Laboratory, results: Results) -> Json:
    """What is known, unless it is to be fitted anew; else what measuring tells."""
    known = results.known(experiment, lab.plan)
    without = experiment.recorded and lab.plan.recorded is None  # what others have recorded
    if known is not None and (without or not lab.refit):
        return known
    results.refuse_fewer(experiment, lab.plan)
    try:
        data = experiment.measure(lab)
    except NotCovered:
        if known is None:
            raise
        return known
    results.keep(experiment, lab.plan, data, lab.refit)
    return data


def _measured(folder: Path, plan: Plan) -> list[str]:
    """The benches that a folder has journals of.

    Raises:
        DataError: There are none.
    """
    Results.open(folder)
    found = [name for name in plan.sizes if journal_file(folder / "journals", name).exists()]
    if not found:
        raise DataError(f"{folder / 'journals'} has no journals: measure without --refit first")
    return found


class _Clock:
    """How long the rest will take: what was expected of it, at the pace of what is done."""

    def __init__(self, expected: Mapping[str, float], watch: Watch) -> None:
        self.watch, self.total = watch, len(expected)
        self.left = dict(expected)
        self.expected = self.spent = 0.0  # of what is done
        self.done = 0
        self.start = time.monotonic()
        self.name = ""

    def begin(self, experiment: Experiment) -> None:
        self.start, self.name = time.monotonic(), experiment.name
        self.tell(Event(experiment.title, 0, 1, 0.0))

    def end(self, experiment: Experiment) -> None:
        spent, expected = time.monotonic() - self.start, self.left.pop(experiment.name)
        if spent > expected / 5:  # else it was known, which says nothing of the rest
            self.spent += spent
            self.expected += expected
        self.done += 1

    def tell(self, event: Event) -> None:
        """What is going on, among all experiments."""
        pace = (self.spent + DOUBT_S) / (self.expected + DOUBT_S)
        own = pace * self.left.get(self.name, 0.0)
        rest = pace * sum(self.left.values()) - own
        now = max(own - (time.monotonic() - self.start), 0.1 * own)
        self.watch(Event(f"{self.name}: {event.doing}", self.done, self.total, rest + now))


def expected_s(
    plan: Plan, chosen: Sequence[Experiment], known: Collection[str] = (), refit: bool = False
) -> dict[str, float]:
    """Seconds of each experiment; a survey is counted where it is needed first."""
    surveyed: set[tuple[str, str]] = set()
    found = {}
    for experiment in chosen:
        found[experiment.name] = DRAWING_S
        if experiment.name in known:
            continue
        for bench in plan.benches:
            sizes = plan.sizes[bench.name]
            families = experiment.families if experiment.where(bench) else ()
            needed = {(bench.name, each) for each in families if each in sizes.families}
            networks = experiment.networks(sizes)
            networks += sum(sizes.surveyed(family) for _, family in needed - surveyed)
            surveyed |= needed
            found[experiment.name] += experiment.fitting_s * len(needed)
            found[experiment.name] += (FITTING if refit else 1) * sizes.seconds(networks, bench)
    return found
