"""Surveying: a device is profiled by calls, so that any model can be asked about afterwards.

Candidates are networks that are drawn at random (see pytorch/generator). Which of them is measured
next is what a `Prober` decides: the one that lowers the expected error over a catalogue of real
architectures most, for each second that measuring it takes. All of that is told in calls: a
candidate, a measured row and a question are sums of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist

from ampere.acquisition.families import Network
from ampere.acquisition.prober import REACH, Prober
from ampere.core import units
from ampere.core.layers import Layer, network_identity
from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.survey import by_calls, calls_of, stretch_of
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort

# FLOPs of a step: from what is over at once to what takes seconds on a phone.
LEAST_FLOPS, MOST_FLOPS = 3e6, 1.6e10
FIRST_FLOPS = 1e9  # the most of those that are measured before it is known what a device can do
START = 12  # networks that are measured before anything is chosen: of each genre two
POOL = 48  # candidates to choose from
REFIT = 1.5  # everything is fitted anew when there are so many times as many rows
NEVER = 1e-9
TYPICAL = NormalDist().inv_cdf(0.75)  # standard deviations of the median error


class Surveyor:
    """The ask and tell of a survey.

    It ends when the expected error of the architectures that are `asked_about`, told in calls, is
    `tolerance` in the middle, or after `limit` networks. What `known` rows of the device hold is
    told first; candidates are not those of the survey that measured them.
    """

    by_calls = True

    def __init__(
        self,
        asked_about: Sequence[Sequence[Layer]],
        known: Sequence[Measurement] = (),
        *,
        tolerance: float = 0.03,
        limit: int = 10_000,
        guide: str = "energy",
        effort: Effort | None = None,
        training: Training = Training(),
        seed: int = 0,
        lenders: Lenders | None = None,
    ) -> None:
        self._drawn = candidates(f"survey {seed} {len(known)}", training, asked_about)
        self._networks: dict[object, Network] = {}
        self._begun: float | None = None
        self._tolerance = tolerance
        self._prober = Prober(
            [self._candidate() for _ in range(POOL)],
            asked_about,
            NEVER,  # how well it is known is judged here
            limit,
            guide,
            effort or Effort(),
            start=START,
            refit=REFIT,
            lenders=lenders,
        )
        for row in known:
            self.tell(row)

    def ask(self, n: int = 1, affordable: float = float("inf")) -> list[Network]:
        """Up to n networks to measure next."""
        chosen = self._prober.ask(n, affordable)
        for _ in chosen:
            self._prober.offer(self._candidate())
        return [self._networks[network_identity(each.layers)] for each in chosen]

    def tell(self, row: Measurement) -> None:
        """Learn from a row of any network; one that failed is told too."""
        self._prober.tell(by_calls(row))

    def end_phase(self) -> None:
        """There is no time for more."""
        self._prober.end_phase()

    @property
    def should_stop(self) -> bool:
        """Whether enough is known."""
        return self._prober.should_stop or self.expected_error <= self._tolerance

    @property
    def remaining(self) -> int:
        """How many more measurements it takes at most."""
        return self._prober.remaining

    @property
    def cut_short(self) -> bool:
        """Whether it was ended before it was done."""
        return self._prober.cut_short

    @property
    def state(self) -> str:
        """How the expected error has fallen."""
        if self._prober.fitted is None:
            return "first networks:"
        now = self.expected_error
        self._begun = self._begun or now
        return f"median expected error {units.percent(self._begun)} -> {units.percent(now)}:"

    @property
    def expected_error(self) -> float:
        """The error that an architecture of the catalogue is expected to have, in the middle."""
        fit = self._prober.fitted
        if fit is None:
            return math.inf
        return stretch_of(fit.energy) * self._prober.half_interval / REACH * TYPICAL

    def _candidate(self) -> Network:
        """The next one that is drawn, told in calls."""
        network = next(self._drawn)
        calls = calls_of(network.layers)
        self._networks[network_identity(calls)] = network
        return replace(network, layers=calls)


def candidates(
    seed: str, training: Training, like: Sequence[Sequence[Layer]] = ()
) -> Iterator[Network]:
    """Networks of all genres in turn, small ones first; precision is as it shall be trained.

    From then on every second one has calls of architectures that it shall be `like`.
    """
    from ampere.pytorch.generator.network import GENRES, drawn_layers

    rng = random.Random(seed)
    for number in range(10**9):
        genre = (
            GENRES[number // 2 % len(GENRES)] if number >= START else GENRES[number % len(GENRES)]
        )
        alike = rng.choice(like) if like and number >= START and number % 2 else ()
        most = FIRST_FLOPS if number < START else MOST_FLOPS
        flops = LEAST_FLOPS * (most / LEAST_FLOPS) ** rng.random()
        layers = drawn_layers(rng, genre, MOST_FLOPS / 2 if alike else flops, training, alike)
        name = f"{'like' if alike else genre} {number + 1}"
        yield Network(name, Workload(layers), layers)
