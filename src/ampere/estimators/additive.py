"""The additive method: any measured network teaches all of its layers (see sum_process.py).

Rows need not isolate a layer: a variant, a whole member of a family, a production job, a few steps
of the very model that is asked about are all sums of layers, and condition the same process. What
the rows cannot explain is answered by doubt, not by a guess: kinds that were never measured borrow
from their operation, depths and widths beyond the measured ones widen the interval, and rows that
contradict all the others are left out, with the reason (see rejection.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.variants import MOST_LAYERS
from ampere.errors import DataError
from ampere.estimators.base import Cost, Line, Prediction, Rejection, inflation, usable
from ampere.estimators.encoding import STEP, Encoder, count, depth_context, distinct, in_order
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.sum_process import Solution, SumProcess
from ampere.estimators.processes.totals import Rows
from ampere.estimators.rejection import ENOUGH, gross_faults, suspects, wrong_joules, wrong_seconds
from ampere.records.measurement import Measurement

TILES = (0, 8, 16, 32)  # what a device may round widths up to; the data choose
TILE_ROWS = 40  # that many of them
ROUGH = 0.1  # relative scatter above which the user is told
NOTABLE = 0.03  # relative difference between a network and its layers that is worth telling

Bounds = Mapping[str, Mapping[str, tuple[int, int]]]


@dataclass(frozen=True)
class AdditiveFit:
    """Processes over sums, one for joules and one for seconds, and the rows left out of them."""

    encoder: Encoder
    layers: tuple[Layer, ...]  # the distinct ones of all rows, as the processes number them
    energy: SumProcess
    time: SumProcess | None
    bounds: Bounds
    rejected: tuple[Rejection, ...] = ()
    method: str = field(default="additive", init=False)

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """Lines and total, with the covariance between layers in the total's deviation."""
        covered = [layer for layer in layers if self.encoder.covers(layer)]
        if not any(self.encoder.operation(layer) in self.encoder.operations for layer in covered):
            return Prediction((), Cost(math.nan, math.nan), tuple(layers))  # nothing is familiar
        uncovered = tuple(layer for layer in layers if not self.encoder.covers(layer))
        networks = [*([layer] for layer in (*covered, STEP)), (*covered, STEP)]
        costs = self._costs(networks, depth_context(covered), noisy=True)
        lines = tuple(
            Line(layer, cost, self.is_extrapolated(layer), not self.encoder.knows(layer))
            for layer, cost in zip((*covered, STEP), costs, strict=False)
        )
        return Prediction(lines, costs[-1], uncovered)

    def alone(self, layers: Sequence[Layer]) -> list[Cost]:
        """What each of these layers costs in a network as small as a variant; they are covered."""
        return self._costs([[layer] for layer in layers], context=0.0, noisy=False)

    def tell(self, row: Measurement) -> AdditiveFit:
        """The fit with one more row; hyper-parameters stay.

        A row that the fit does not expect at all, or of kinds that it does not know, is refused:
        all rows must be fitted anew, to tell who is wrong.
        """
        if not usable([row]):
            return self
        network = (*row.layers, STEP)
        if not all(
            self.encoder.knows(layer) and self.encoder.covers(layer) for layer in row.layers
        ):
            raise DataError(f"{row!r} has layers of new kinds: fit all rows anew")
        if self.time is None and row.time_s_per_step is not None:
            raise DataError("it has the first time of all rows: fit all rows anew")
        if reason := wrong_joules(row, self):
            raise DataError(f"{reason}: fit all rows anew")
        measured = {layer.identity for layer in self.layers}
        new = {layer.identity: layer for layer in network if layer.identity not in measured}
        layers = (*self.layers, *new.values())
        counts = count([network], layers)
        encoded = self.encoder.encode(layers)

        def added(process: SumProcess, value: float) -> SumProcess:
            return process.add(encoded, _rows([row], counts, [value]))

        time = self.time
        if time is not None and row.time_s_per_step is not None:
            time = added(time, row.time_s)
        return replace(
            self,
            layers=layers,
            energy=added(self.energy, row.energy_j),
            time=time,
            bounds=_bounds([*self.layers, *row.layers]),
        )

    def _is_timed(self, layers: Sequence[Layer]) -> bool:
        """Whether seconds of any of their operations are known; foreign ones tell nothing."""
        return any(self.encoder.operation(layer) in self._timed_operations for layer in layers)

    @cached_property
    def _timed_operations(self) -> frozenset[str]:
        if self.time is None:
            return frozenset()
        seen = np.flatnonzero(self.time.rows.counts.any(0))
        timed = [self.layers[i] for i in seen if self.layers[i] != STEP]
        return frozenset(map(self.encoder.operation, timed))

    def is_extrapolated(self, layer: Layer) -> bool:
        """Whether the layer's widths lie outside those of its kind that were measured."""
        bounds = self.bounds.get(layer.kind.name, {})
        return any(
            name not in bounds or not bounds[name][0] <= width <= bounds[name][1]
            for name, width in layer.widths.items()
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how well layers add up here."""
        texts = [f"left out: {rejection.reason}" for rejection in self.rejected]
        rough = max(self.energy.hyper.rough, self.energy.hyper.noise)
        if rough > ROUGH:
            texts.append(
                f"measurements scatter by {rough:.0%} without a pattern (cliffs, or a busy"
                " machine): intervals are wide"
            )
        deepest = float(self.energy.rows.context.max())
        if deepest > 0:
            mean, std = self.energy.dearer(deepest)
            if abs(mean) > max(NOTABLE, 2 * std):
                word = "more" if mean > 0 else "less"
                texts.append(
                    f"not quite additive: networks of {round(MOST_LAYERS * 2**deepest)} layers take"
                    f" {abs(mean):.0%} ± {std:.0%} {word} than their layers in variants"
                )
        return tuple(texts)

    def _costs(
        self, networks: Sequence[Sequence[Layer]], context: float, noisy: bool
    ) -> list[Cost]:
        """What networks cost in a context; the last with the noise of a measurement, if wanted."""
        layers, counts = distinct(networks)
        encoded = self.encoder.encode(layers)

        def spread(process: SumProcess) -> tuple[Array, ...]:
            contexts = np.full(len(networks), context)
            mean, covariance = process.predict(encoded, counts, contexts)
            var = np.maximum(np.diagonal(covariance), 0.0)
            if noisy:
                var[-1] += process.noise_var(mean[-1])
            return mean, inflation(len(process.rows)) * np.sqrt(var)

        columns = spread(self.energy)
        if self.time is not None and self._is_timed(layers):
            columns += spread(self.time)
        return [Cost(*map(float, numbers)) for numbers in zip(*columns, strict=True)]


def fit_additive(measurements: Sequence[Measurement]) -> AdditiveFit:
    """Fit all whole training steps; their order does not matter."""
    rows = in_order(usable(measurements))
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    wrong = gross_faults(rows)
    rejected = [Rejection(rows[i], reason) for i, reason in wrong.items()]
    rows = [row for i, row in enumerate(rows) if i not in wrong]
    tile = _choose_tile(rows)
    fit = _fit(rows, tile)
    for _ in range(3):  # one fault hides another
        doubted = suspects(fit.energy)
        if not doubted:
            break
        without = _fit([row for i, row in enumerate(rows) if i not in doubted], tile)
        wrong = {i: reason for i in doubted if (reason := wrong_joules(rows[i], without))}
        if not wrong:
            break
        rejected += [Rejection(rows[i], reason) for i, reason in wrong.items()]
        rows = [row for i, row in enumerate(rows) if i not in wrong]
        fit = without if len(wrong) == len(doubted) else _fit(rows, tile)
    fit, late = _without_wrong_seconds(rows, fit)
    return replace(fit, rejected=(*rejected, *late))


def rebuild_additive(
    measurements: Sequence[Measurement],
    *,
    tile: int,
    energy: Solution,
    time: Solution | None,
    rejected: Sequence[Rejection],
) -> AdditiveFit:
    """The fit that `fit_additive` made of these rows, from what it found: nothing is searched for.

    Rejections hold rows of `measurements` themselves, not others that are equal.
    """
    faulty = {id(rejection.row) for rejection in rejected if not rejection.seconds_only}
    mistimed = {id(rejection.row) for rejection in rejected}
    rows = [row for row in in_order(usable(measurements)) if id(row) not in faulty]
    fit = replace(_fit(rows, tile, energy, timed=False), rejected=tuple(rejected))
    if time is None:
        return fit
    return _timed(fit, [row for row in _with_seconds(rows) if id(row) not in mistimed], time)


def _without_wrong_seconds(
    rows: Sequence[Measurement], fit: AdditiveFit
) -> tuple[AdditiveFit, list[Rejection]]:
    """The fit without seconds that all others contradict; the joules beside them are kept."""
    timed = _with_seconds(rows)
    doubted = suspects(fit.time) if fit.time else []
    if not doubted:
        return fit, []
    without = _timed(fit, [row for i, row in enumerate(timed) if i not in doubted])
    wrong = {i: reason for i in doubted if (reason := wrong_seconds(timed[i], without))}
    if not wrong:
        return fit, []
    kept = [row for i, row in enumerate(timed) if i not in wrong]
    rejected = [Rejection(timed[i], reason, seconds_only=True) for i, reason in wrong.items()]
    return _timed(fit, kept), rejected


def _fit(
    rows: Sequence[Measurement], tile: int, solution: Solution | None = None, timed: bool = True
) -> AdditiveFit:
    """The fit of all of these rows, with their seconds if wanted."""
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    encoder = Encoder.of(layers, tile)
    joules = _rows(rows, counts, [row.energy_j for row in rows])
    fit = AdditiveFit(
        encoder=encoder,
        layers=tuple(layers),
        energy=_process(encoder, layers, joules, solution),
        time=None,
        bounds=_bounds(layers),
    )
    with_seconds = _with_seconds(rows) if timed else []
    return _timed(fit, with_seconds) if with_seconds else fit


def _timed(
    fit: AdditiveFit, rows: Sequence[Measurement], solution: Solution | None = None
) -> AdditiveFit:
    """The fit with the seconds of these rows."""
    counts = count([(*row.layers, STEP) for row in rows], fit.layers)
    seconds = _rows(rows, counts, [row.time_s for row in rows])
    time = _process(fit.encoder, fit.layers, seconds, solution, start=fit.energy.hyper)
    return replace(fit, time=time)


def _process(
    encoder: Encoder,
    layers: Sequence[Layer],
    rows: Rows,
    solution: Solution | None = None,
    start: Hyper | None = None,
) -> SumProcess:
    encoded = encoder.encode(layers)
    if solution is not None:
        return sum_process.condition(encoded, rows, solution)
    return sum_process.fit(encoded, rows, start=start)


def _rows(rows: Sequence[Measurement], counts: Array, values: Sequence[float]) -> Rows:
    """Measurements as arrays, with their joules or their seconds as values."""
    return Rows(
        counts=counts,
        y=np.array(values),
        known_std=np.array([row.error for row in rows]),
        context=np.array([depth_context(row.layers) for row in rows]),
        when=np.array([row.timestamp for row in rows]),
    )


def _with_seconds(rows: Sequence[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.time_s_per_step is not None]


def _choose_tile(rows: Sequence[Measurement]) -> int:
    """The tile under which the rows are likeliest; none if they are too few to tell."""
    if len(rows) < ENOUGH or not any(layer.widths for row in rows for layer in row.layers):
        return 0
    if len(rows) > TILE_ROWS:
        chosen = sorted(np.random.default_rng(0).permutation(len(rows))[:TILE_ROWS].tolist())
        rows = [rows[i] for i in chosen]
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    joules = _rows(rows, counts, [row.energy_j for row in rows])

    def density(tile: int) -> float:
        process = _process(Encoder.of(layers, tile), layers, joules)
        return round(process.solution.log_density, 3)

    return max(TILES, key=density)


def _bounds(layers: Sequence[Layer]) -> dict[str, dict[str, tuple[int, int]]]:
    """The smallest and largest of each width that was measured, kind by kind."""
    by_kind: dict[str, dict[str, tuple[int, int]]] = {}
    for layer in layers:
        bounds = by_kind.setdefault(layer.kind.name, {})
        for name, width in layer.widths.items():
            low, high = bounds.get(name, (width, width))
            bounds[name] = (min(low, width), max(high, width))
    return by_kind
