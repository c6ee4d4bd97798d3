"""The additive method: any measured network teaches all of its layers (see sum_process.py).

Rows need not isolate a layer: a variant, a whole member of a family, a production job, a few steps
of the very model that is asked about are all sums of layers, and condition the same process. What
the rows cannot explain is answered by doubt, not by a guess: kinds that were never measured borrow
from their operation, depths and sizes beyond the measured ones widen the interval, and rows that
contradict all the others are left out, with the reason (see rejection.py).

Seconds are learned as seconds per joule: the second process has what the first says of each layer
for its mean. So lines of joules and of seconds divide a network alike, and imply watts that a
device can draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.errors import DataError
from ampere.estimators.base import Cost, Line, Prediction, Rejection, usable
from ampere.estimators.drift import STEADY
from ampere.estimators.encoding.contexts import (
    CALLS,
    LAYERS,
    contexts_of,
    depth_context,
    depth_of,
    is_call,
)
from ampere.estimators.encoding.encoder import (
    STEP,
    Encoder,
    Networks,
    bounds_by_kind,
    count,
    distinct,
    in_order,
    is_beyond,
)
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.mode import Solution
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.processes.threads import single_threaded
from ampere.estimators.processes.totals import Context
from ampere.estimators.rejection import (
    absurd,
    open_seconds,
    told_of_flops,
    wrong_joules,
    wrong_seconds,
)
from ampere.estimators.seconds import by_the_clock, learn_seconds, per_joule, with_seconds
from ampere.estimators.selection import arrays_of
from ampere.records.measurement import Measurement

ROUGH = 0.1  # relative scatter above which the user is told
NOTABLE = 0.03  # relative difference between a network and its layers that is worth telling
DEEPER = 0.5  # octaves beyond the deepest measured network that are worth telling
ADVICE = "profile the largest that you will ask about (--candidate), or add --after-steps 20"

Bounds = Mapping[str, Mapping[str, tuple[float, float]]]


@dataclass(frozen=True)
class AdditiveFit:
    """Processes over sums, one for joules and one for seconds, and the rows left out of them."""

    encoder: Encoder
    measurements: tuple[Measurement, ...]  # whose joules are fitted, in order
    timed: tuple[Measurement, ...]  # whose seconds are
    layers: tuple[Layer, ...]  # the distinct ones of all rows, as the processes number them
    energy: SumProcess
    time: SumProcess | None
    bounds: Bounds
    rejected: tuple[Rejection, ...] = ()
    unused: int = 0  # rows more than a fit takes
    refused: tuple[str, ...] = ()  # other devices, that these rows contradict
    method: str = field(default="additive", init=False)

    @classmethod
    def of(
        cls,
        rows: Sequence[Measurement],
        layers: Sequence[Layer],
        encoder: Encoder,
        energy: SumProcess,
    ) -> AdditiveFit:
        """The fit of the joules of these rows, which have these layers."""
        lent = encoder.lenders.layers if encoder.lenders else ()
        return cls(
            encoder=encoder,
            measurements=tuple(rows),
            timed=(),
            layers=tuple(layers),
            energy=energy,
            time=None,
            bounds=bounds_by_kind([*layers, *lent]),
        )

    @classmethod
    def conditioned(
        cls,
        rows: Sequence[Measurement],
        solution: Solution,
        encoder: Encoder | None = None,
        lenders: Lenders | None = None,
    ) -> AdditiveFit:
        """The fit of the joules of these rows by what was found before."""
        layers, counts = distinct([(*row.layers, STEP) for row in rows])
        joules = arrays_of(rows, counts, [row.energy_j for row in rows])
        encoder = encoder or Encoder.of(layers, solution.rounded, lenders)
        energy = sum_process.condition(encoder.encode(layers), joules, solution)
        return cls.of(rows, layers, encoder, energy)

    def with_seconds_of(
        self,
        rows: Sequence[Measurement],
        solution: Solution | None = None,
        drift: float = STEADY,
    ) -> AdditiveFit:
        """The fit with the seconds of these rows."""
        if not rows:
            return self
        counts = count([(*row.layers, STEP) for row in rows], self.layers)
        time = learn_seconds(rows, counts, self.energy, drift, solution)
        return replace(self, time=time, timed=tuple(rows))

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """Lines and total, with the covariance between layers in the total's deviation."""
        covered = [layer for layer in layers if self.encoder.covers(layer)]
        if not any(map(self.encoder.is_familiar, covered)):
            return Prediction((), Cost(math.nan, math.nan), tuple(layers))  # nothing is familiar
        uncovered = tuple(layer for layer in layers if not self.encoder.covers(layer))
        whole = (*covered, STEP)
        pairs = [(layer, STEP) for layer in whole]
        networks = [*((layer,) for layer in whole), *pairs, whole, whole]
        contexts = contexts_of(networks, depth_context(covered))
        *costs, mean, total = self.costs(distinct(networks), contexts, noisy=True)
        lines = tuple(
            Line(layer, cost, self.is_extrapolated(layer), self._is_borrowed(layer))
            for layer, cost in zip(whole, costs[: len(whole)], strict=True)
        )
        stds = [cost.energy_j_std for cost in costs]
        open_j = tuple(map(min, stds[: len(whole)], stds[len(whole) :]))
        doubts = self._doubts(covered)
        lent = self.lent(whole)
        return Prediction(lines, total, uncovered, mean.energy_j_std, doubts, open_j, lent=lent)

    def _is_borrowed(self, layer: Layer) -> bool:
        """Whether its kind was never measured, here or on a device that lends."""
        return layer.kind.name not in self.bounds

    def lent(self, layers: Sequence[Layer]) -> dict[str, float]:
        """How much of what is said of a network comes from each of the other devices."""
        lenders = self.encoder.lenders
        if not isinstance(lenders, Lenders):
            return {}
        some, counts = distinct([layers])
        encoded = self.encoder.encode(some)
        share = counts[0] * self.energy.costs(encoded)
        share /= share.sum()
        return lenders.parts(some, share, self.energy.point.w, self.energy.openness(encoded, share))

    def _doubts(self, layers: Sequence[Layer]) -> tuple[str, ...]:
        """What a network has that no measured one had."""
        depth, deepest = depth_of(layers), max(depth_of(row.layers) for row in self.measurements)
        if depth_context(layers) - self.energy.rows.context.depth.max() <= DEEPER:
            return ()
        return (f"{depth} layers, and no profiled network has more than {deepest}: {ADVICE}",)

    def alone(self, layers: Sequence[Layer]) -> list[Cost]:
        """What each of these layers costs in a network as small as a variant; they are covered."""
        networks = [[layer] for layer in layers]
        return self.costs(distinct(networks), contexts_of(networks, depth=0.0), noisy=False)

    def tell(self, *rows: Measurement) -> AdditiveFit:
        """The fit with more rows; coefficients and hyper-parameters stay.

        A row that the fit does not expect at all, or of kinds that it does not know, is refused:
        all rows must be fitted anew, to tell who is wrong.
        """
        told = usable(rows)
        if not told:
            return self
        for row in told:
            if not self.knows(row):
                raise DataError(f"{row!r} has layers of new kinds: fit all rows anew")
            if self.time is None and row.time_s_per_step is not None:
                raise DataError("it has the first time of all rows: fit all rows anew")
            if reason := self._surprise(row):
                raise DataError(f"{reason}: fit all rows anew")
        every = in_order([*self.measurements, *told])
        fit = self.conditioned(every, self.energy.solution, self.encoder)
        if self.time is not None:
            timed = in_order([*self.timed, *with_seconds(told)])
            fit = fit.with_seconds_of(timed, self.time.solution)
        return replace(fit, rejected=self.rejected, refused=self.refused, unused=self.unused)

    def knows(self, row: Measurement) -> bool:
        """Whether layers of all its kinds were measured, and nothing of them is new."""
        known = (self.encoder.knows(each) and self.encoder.covers(each) for each in row.layers)
        return all(known) and not self.encoder.encode(row.layers).novel.any()

    @cached_property
    def of_calls(self) -> bool:
        """Whether its rows are told in calls: a survey's."""
        return any(map(is_call, self.layers))

    def _surprise(self, row: Measurement) -> str | None:
        """Why a row cannot be true, if it cannot; of a survey only what is far from any sense."""
        if not self.of_calls:
            return wrong_joules(row, self) or wrong_seconds(row, self)
        told = distinct([(*row.layers, STEP)])
        (cost,) = self.costs(told, contexts_of([row.layers]), noisy=False)
        return absurd(row, cost)

    def seconds(self, networks: Sequence[Sequence[Layer]]) -> Array:
        """What a step of each of these networks takes; 0 where no row has told seconds."""
        if self.time is None:
            return np.zeros(len(networks))
        layers, counts = distinct(networks)
        encoded = self.encoder.encode(layers)
        return counts @ self.time.costs(per_joule(encoded, self.energy.costs(encoded)))

    def _is_timed(self, layers: Sequence[Layer]) -> bool:
        """Whether seconds of any of their operations are known; foreign ones tell nothing."""
        return any(self.encoder.operation(layer) in self._timed_operations for layer in layers)

    @cached_property
    def _timed_operations(self) -> frozenset[str]:
        timed = (layer for row in self.timed for layer in row.layers)
        return frozenset(map(self.encoder.operation, timed))

    def is_extrapolated(self, layer: Layer) -> bool:
        """Whether widths or attributes lie outside those of its kind that were measured."""
        return is_beyond(layer, self.bounds.get(layer.kind.name, {}))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how well layers add up here."""
        texts = [f"left out: {each.reason}" for each in self.rejected] + open_seconds(self.timed)
        if self.refused:
            names = ", ".join(self.refused)
            texts.append(f"nothing is borrowed from {names}: the rows here are likelier without")
        if self.unused:
            used = len(self.measurements)
            texts.append(f"{used} rows drawn at random were fitted, {self.unused} were not used")
        if not self.of_calls:
            texts += told_of_flops(self.layers, self.measurements, self.encoder)
        rough = max(self.energy.hyper.rough, self.energy.hyper.noise)
        if rough > ROUGH:
            texts.append(
                f"measurements scatter by {rough:.0%} without a pattern (cliffs, or a busy"
                " machine): intervals are wide"
            )
        deepest = float(self.energy.rows.context.depth.max())
        if deepest > 0:
            mean, std = self.energy.dearer(deepest)
            if abs(mean) > max(NOTABLE, 2 * std):
                word = "more" if mean > 0 else "less"
                least, parts, small = CALLS if self.of_calls else LAYERS
                texts.append(
                    f"not quite additive: networks of {round(least * 2**deepest)} {parts} take"
                    f" {abs(math.expm1(mean)):.0%} ± {std:.0%} {word} than their {parts} in {small}"
                )
        return tuple(texts)

    @single_threaded
    def costs(self, networks: Networks, contexts: Context, noisy: bool) -> list[Cost]:
        """What networks cost in contexts; the last with the noise of a measurement, if wanted."""
        layers, counts = networks

        def spread(process: SumProcess, mean: Array, var: Array) -> Array:
            doubt = var.copy()
            if noisy:
                doubt[-1] += process.noise_var(mean[-1])
            return np.asarray(process.widening * np.sqrt(doubt) * mean)

        encoded = self.encoder.encode(layers)
        asked = self.energy.ask(encoded, counts, contexts)
        var = self.energy.left_open(asked)
        columns = [asked.total, spread(self.energy, asked.total, var)]
        if self.time is not None and self._is_timed(layers):
            seconds, time_var = self.time.expected(per_joule(encoded, asked.cost), counts, contexts)
            clock = self._by_the_clock
            same = len(clock.rows) == len(self.energy.rows)
            asked = asked if same else clock.ask(encoded, counts, contexts)
            time_var = time_var + np.minimum(clock.left_open(asked), var)
            columns += [seconds, spread(self.time, seconds, time_var)]
        return [Cost(*map(float, numbers)) for numbers in zip(*columns, strict=True)]

    @cached_property
    def _by_the_clock(self) -> SumProcess:
        return by_the_clock(self.energy, self.measurements, self.time, self.timed)
