"""Probing: which network to measure next, so that what will be asked is known best, per second.

The additive method learns from any network, so the profiler may ask for whole members of a family
as well as for variants. Each candidate is judged by how much measuring it will lower the variance
of what the user will ask about (members of the family or models that were given, and, if wanted,
lines of single layers), relative to its cost, for each second that measuring it takes. Variance
does not depend on what is measured, so several are chosen at once, each as if those before it were
known already.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from ampere.acquisition.families import Network, members, resampled
from ampere.acquisition.questions import Question, Questions
from ampere.acquisition.strategy import TOLERANCES, Strategy
from ampere.core import units
from ampere.core.arrays import Array
from ampere.core.choices import smallest
from ampere.core.layers import Layer, network_identity
from ampere.core.variants import sample, tell_apart
from ampere.core.workloads import Workload
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import usable
from ampere.estimators.encoding.contexts import contexts_of, depth_of
from ampere.estimators.encoding.encoder import distinct
from ampere.estimators.fitting import fit_additive
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.seconds import per_joule
from ampere.frameworks.models import plan_variants, with_features
from ampere.records.failure import Cause
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort

START = 2  # networks that are measured before anything is known: the first in the list
ENOUGH = 4  # networks, before intervals are believed
POOL = 32  # members of a family that may be measured, and as many whose interval matters
VARIANTS = 3  # of each kind that may be measured
REFIT = 1.25  # hyper-parameters are fitted anew when there are so many times as many rows
LINES = 2.0  # times the tolerance of a model: what a line may be off by, where lines matter
REACH = NormalDist().inv_cdf(0.95)


@dataclass
class Prober:
    """The ask and tell of the additive method; its state is a function of what it was told.

    `asked_about` are the models whose interval matters; it ends when their half interval (90 %,
    without the noise of one more measurement) is `tolerance` of their cost on average, or after
    `limit` measurements. Where models are `divided`, the intervals of their lines matter, too.
    """

    probes: Sequence[Network]
    asked_about: Sequence[Sequence[Layer]]
    tolerance: float = TOLERANCES["additive"]
    limit: int = 40
    guide: str = "energy"  # or time, where joules come too late to guide
    effort: Effort = field(default_factory=Effort)
    divided: Sequence[Sequence[Layer]] = ()
    start: int = START
    refit: float = REFIT
    lenders: Lenders | None = None  # other devices, that this one may be like
    ended: bool = field(default=False, init=False)
    cut_short: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not self.probes or not self.asked_about:
            raise DataError("there is no network to measure, or none to ask about")
        self._questions = Questions.about(self.asked_about, self.divided)
        self._rows: list[Measurement] = []
        self._open: dict[object, Network] = {}
        for probe in self.probes:  # of two that are alike, the first
            self._open.setdefault(network_identity(probe.layers), probe)
        self._kinds = {layer.kind.name for probe in self.probes for layer in probe.layers}
        self._asked: set[object] = set()
        self._fit: AdditiveFit | None = None
        self._too_large = math.inf  # bytes
        self._told: tuple[int, tuple[float, float]] | None = None  # half intervals at so many rows
        self._fitted = self._added = 0  # rows that the last full fit had, and that are in it now

    def ask(self, n: int = 1, affordable: float = float("inf")) -> list[Network]:
        """Up to n networks to measure next; none if there is no time, or nothing left to ask."""
        measured = self._measured
        least = 2 - len(self._rows)  # without two there is no fit; unless they fail and fail
        room = int(min(n, self.limit - measured, max(affordable, least)))
        free = [probe for key, probe in self._open.items() if key not in self._asked]
        if room < 1 or not free:
            return []
        fit = self._refit()
        missing = self.start - measured
        chosen = free[: min(room, missing)] if fit is None or missing > 0 else []
        if not chosen and fit is not None:
            chosen = self._best(fit, free, room)
        self._asked |= {network_identity(probe.layers) for probe in chosen}
        return chosen

    def offer(self, probe: Network) -> None:
        """One more network that may be measured, unless it is known that it does not fit."""
        if _bytes(probe) < self._too_large:
            self._open.setdefault(network_identity(probe.layers), probe)

    def tell(self, row: Measurement) -> None:
        """Learn from a measurement; one that failed is told too."""
        if row.stage != "step":
            return
        self._rows.append(row)
        key = network_identity(row.layers)
        probe = self._open.pop(key, None)
        self._asked.discard(key)
        failed = row.failed
        if failed is not None and failed.cause is Cause.MEMORY and probe is not None:
            # What is larger will not fit either.
            self._too_large = min(self._too_large, _bytes(probe))
            self._open = {k: p for k, p in self._open.items() if _bytes(p) < self._too_large}

    @property
    def should_stop(self) -> bool:
        """Whether the answers are sharp enough, or the measurements used up."""
        measured = self._measured
        if self.ended or measured >= self.limit or not self._open:
            return True
        if measured <= ENOUGH:
            return False
        model, line = self._half_intervals()
        return model <= self.tolerance and line <= LINES * self.tolerance

    @property
    def _measured(self) -> int:
        """Networks of these kinds of layers; a journal may hold others, and some again."""
        return len(
            {
                network_identity(row.layers)
                for row in usable(self._rows)
                if any(layer.kind.name in self._kinds for layer in row.layers)
            }
        )

    @property
    def fitted(self) -> AdditiveFit | None:
        """The fit, once there are enough rows to say how well anything is known."""
        return self._refit() if self._measured > max(ENOUGH, self.start) else None

    @property
    def half_interval(self) -> float:
        """Half of the 90 % interval that a model asked about has on average, relative to it."""
        return self._half_intervals()[0]

    @property
    def line_half_interval(self) -> float:
        """Half of that of a line, relative to it, by its share of the cost; 0 where none matter."""
        return self._half_intervals()[1]

    @property
    def remaining(self) -> int:
        """How many more measurements it takes at most."""
        return max(0, min(self.limit - self._measured, len(self._open)))

    by_calls = False

    @property
    def state(self) -> str:
        """How well models are known by now, once there are enough rows to say."""
        if self._measured <= ENOUGH:
            return ""
        return f"models known to ±{units.percent(self.half_interval)}:"

    def end_phase(self) -> None:
        """End it: there is no time for more, or nothing left to measure."""
        self.cut_short = bool(self._open) and self.remaining > 0
        self.ended = True

    def _refit(self) -> AdditiveFit | None:
        """The fit of what was told; between full fits, rows are only added.

        When it is full depends on the rows alone, so whoever is told them at once, out of a
        journal, goes on as one who was told them one by one.
        """
        rows = usable(self._rows)
        if len(rows) < 2:
            return None
        full = _last_refit(len(rows), self.refit)
        if self._fit is None or self._fitted < full:
            self._fit, self._fitted = fit_additive(rows[:full], lenders=self.lenders), full
            self._added = full
        while self._added < len(rows):
            new = _at_once(self._fit, rows[self._added :])
            try:
                self._fit = self._fit.tell(*new)
            except DataError:  # a kind that was not seen before, or a surprise
                self._fitted = self._added + len(new)
                self._fit = fit_additive(rows[: self._fitted], lenders=self.lenders)
            self._added += len(new)
        return self._fit

    def _best(self, fit: AdditiveFit, free: Sequence[Network], n: int) -> list[Network]:
        """The probes that lower the relative variance of what is asked about most, per second."""
        probes = [Question.of_step(probe.layers) for probe in free]
        mean, covariance = self._answers(fit, [*probes, *self._questions.all])
        k = len(free)
        weights = self._questions.weights(mean[k:])
        noise = self._process(fit).noise_var(mean[:k])
        price = self._seconds(fit, probes)
        chosen: list[int] = []
        while len(chosen) < min(n, k):
            var = np.maximum(np.diagonal(covariance)[:k], 0.0) + noise
            lowered = np.square(covariance[:k, k:]) @ weights / var
            lowered[chosen] = -1.0
            best = int(np.argmax(lowered / price))
            chosen.append(best)
            covariance = covariance - np.outer(covariance[:, best], covariance[best]) / var[best]
        return [free[i] for i in chosen]

    def _half_intervals(self) -> tuple[float, float]:
        """Half of the 90 % intervals of models and of lines, each kind of question on average."""
        fit = self._refit()
        if fit is None:
            return math.inf, math.inf
        if self._told is not None and self._told[0] == len(self._rows):
            return self._told[1]
        mean, covariance = self._answers(fit, self._questions.all)
        std = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        half = REACH * fit.energy.widening * std * self._questions.weights(mean)
        many = len(self._questions.models)
        told = float(half[:many].sum()), float(half[many:].sum())
        self._told = len(self._rows), told
        return told

    def _answers(self, fit: AdditiveFit, questions: Sequence[Question]) -> tuple[Array, Array]:
        """Joules, and the covariance of their logarithms; or of what else guides."""
        layers, counts = distinct([question.layers for question in questions])
        contexts = contexts_of(
            [question.layers for question in questions], [question.depth for question in questions]
        )
        encoded = fit.encoder.encode(layers)
        process = self._process(fit)
        if process is fit.time:
            encoded = per_joule(encoded, fit.energy.costs(encoded))
        return process.predict(encoded, counts, contexts)

    def _process(self, fit: AdditiveFit) -> SumProcess:
        return fit.time if self.guide == "time" and fit.time is not None else fit.energy

    def _seconds(self, fit: AdditiveFit, probes: Sequence[Question]) -> Array:
        """What measuring networks takes: warming up, and bursts of at least one step."""
        rounds = (self.effort.min_rounds + self.effort.max_rounds) / 2
        steps = np.maximum(fit.seconds([probe.layers for probe in probes]), self.effort.burst_s)
        return 0.2 + self.effort.warmup_s + rounds * steps


def _at_once(fit: AdditiveFit, rows: Sequence[Measurement]) -> Sequence[Measurement]:
    """The rows that a fit is told next: one, since each is judged by those before it.

    Rows of a survey are not, so these are all that come before one with a call that is new.
    """
    if not fit.of_calls:
        return rows[:1]
    return list(itertools.takewhile(fit.knows, rows)) or rows[:1]


def _last_refit(rows: int, growth: float) -> int:
    """The largest number up to `rows` at which everything is fitted anew."""
    last, following = 2, 3
    while following <= rows:
        last, following = following, max(following + 1, math.ceil(growth * following))
    return last


def _bytes(network: Network) -> float:
    """What it holds, roughly: activations and parameters."""
    return math.fsum(
        layer.count
        * layer.part
        * ((layer.features.activation_bytes or 0.0) + (layer.features.parameter_bytes or 0.0))
        for layer in network.layers
    )


def make_prober(
    itself: Network,
    strategy: Strategy,
    asked_about: Sequence[Sequence[Layer]] = (),
    effort: Effort | None = None,
    recorded: Sequence[Network] = (),
    pool: int = POOL,
    lenders: Lenders | None = None,
) -> Prober:
    """Who asks for members of a model's family, the ends of its widths first, and for variants.

    Where only `recorded` networks can be measured, it chooses among these. `pool` is how many
    members may be measured, and of how many the interval matters.
    """
    rng = random.Random(f"probes {strategy.seed}")  # not the stream that evaluations draw from
    spec = itself.workload.model
    family = members(spec, rng) if spec else resampled(itself.name, itself.layers, rng)
    drawn = list(itertools.islice(family, 2 * pool))
    probed, others = drawn[::2], drawn[1::2]  # what is measured, and what is asked about
    divided = (asked_about or [itself.layers]) if strategy.per_layer else []
    variants = [
        sample(isolation, rng)
        for isolation in plan_variants(itself.layers).isolations
        for _ in range(VARIANTS)
    ]
    for layers in divided:
        variants += tell_apart(layers, plan_variants(layers))

    def built(name: str, layers: Sequence[Layer]) -> Network:
        counted = tuple(with_features(layer) for layer in layers)
        return Network(name, Workload(counted), counted)

    candidates = [built(f"candidate {i}", layers) for i, layers in enumerate(asked_about, 1)]
    # What depth costs is learned where it was measured: the deepest must be among the first.
    deepest = max([itself, *candidates], key=lambda network: depth_of(network.layers))
    probes = recorded or [
        deepest,
        built(f"smallest {itself.name}", smallest(itself.layers)),
        itself,
        *probed,
        *candidates,
        *(built(str(variant), variant.layers) for variant in variants),
    ]
    return Prober(
        probes,
        asked_about or [network.layers for network in others] or [itself.layers],
        strategy.effective_tolerance,
        strategy.max_measurements,
        strategy.guide,
        effort or Effort(),
        divided,
        lenders=lenders,
    )
