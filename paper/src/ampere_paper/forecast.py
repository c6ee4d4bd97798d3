"""Forecast: how long a run will take, before it starts and while it goes on."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ampere.acquisition.progress import Event, Watch
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.lab.plans import Plan

DOUBT_S = 300.0  # so many seconds of expected work tell half of the pace
DRAWING_S = 1.5
FITTING = 0.05  # of the time of a run that measures


class Clock:
    """How long the rest will take: what was expected of it, at the pace of what is done."""

    def __init__(self, expected: Mapping[str, float], watch: Watch) -> None:
        self.watch, self.total = watch, len(expected)
        self.left = dict(expected)
        self.expected = self.spent = 0.0  # of what is done
        self.done = 0
        self.start = time.monotonic()
        self.name = ""

    def begin(self, experiment: Experiment) -> None:
        """An experiment is about to start."""
        self.start, self.name = time.monotonic(), experiment.name
        self.tell(Event(experiment.title, 0, 1, 0.0))

    def end(self, experiment: Experiment) -> None:
        """It is over."""
        spent, expected = time.monotonic() - self.start, self.left.pop(experiment.name)
        if spent > expected / 5:  # else its data were kept, which says nothing of the rest
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
    plan: Plan, chosen: Sequence[Experiment], kept: Collection[str] = (), refit: bool = False
) -> dict[str, float]:
    """Seconds of each experiment.

    Those whose data are `kept` are only drawn; a trial is counted where it is needed first.
    """
    tried: set[tuple[str, str]] = set()
    expected: dict[str, float] = {}
    for experiment in chosen:
        expected[experiment.name] = DRAWING_S
        if experiment.name in kept:
            continue
        for bench in plan.benches:
            sizes = plan.sizes[bench.name]
            families = experiment.families if experiment.needs_trials_on(bench) else ()
            needed = {(bench.name, each) for each in families if each in sizes.families}
            networks = experiment.networks(sizes)
            networks += sum(sizes.of_trial(family) for _, family in needed - tried)
            tried |= needed
            expected[experiment.name] += experiment.fitting_s * len(needed)
            expected[experiment.name] += (FITTING if refit else 1) * sizes.seconds(networks, bench)
    return expected
