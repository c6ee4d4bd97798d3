"""Adding: the additive method. Any measured network teaches all of its layers (see sums.py).

Rows need not isolate a layer: a variant, a whole member of a family, a production job, a few steps
of the very model that is asked about are all sums of layers, and condition the same process. What
the rows cannot explain is answered by doubt, not by a guess: kinds that were never measured borrow
from their operation, depths and widths beyond the measured ones widen the interval, and rows that
contradict all the others are left out, with the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.variants import MOST_LAYERS
from ampere.errors import DataError, NotCovered
from ampere.estimators import linear_mean, sum_process
from ampere.estimators.base import Cost, Layerwise, Line, Prediction, Rejection, usable
from ampere.estimators.encoding import STEP, Encoder, count, depth_context, distinct
from ampere.records.measurement import Measurement

TILES = (0, 8, 16, 32)  # what a device may round widths up to; the data choose
TILE_ROWS = 40  # that many of them
SUSPECT = 3.0  # standard deviations from what all other rows say: worth a closer look
CONTRADICTS = 4.5  # standard deviations from what a fit without it says: left out
GROSS = math.log(20)  # the mean alone may be off by 6: what is further from it is a fault
ENOUGH = 8  # rows, before one of them can be called wrong
ROUGH = 0.1  # relative scatter above which the user is told
NOTABLE = 0.03  # relative difference between a network and its layers that is worth telling

Bounds = Mapping[str, Mapping[str, tuple[int, int]]]


@dataclass(frozen=True)
class AdditiveFit:
    """Processes over sums, one for joules and one for seconds, and the rows left out of them."""

    encoder: Encoder
    layers: tuple[Layer, ...]  # the distinct ones of all rows, as the processes number them
    energy: sum_process.SumProcess
    time: sum_process.SumProcess | None
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
        if reason := _contradiction(row, self):
            raise DataError(f"{reason}: fit all rows anew")
        known = {layer.identity for layer in self.layers}
        new = {layer.identity: layer for layer in network if layer.identity not in known}
        layers = (*self.layers, *new.values())
        counts = count([network], layers)
        encoded = self.encoder.encode(layers)
        context = np.array([depth_context(row.layers)])

        def added(process: sum_process.SumProcess, value: float) -> sum_process.SumProcess:
            known_std, when = np.array([row.error]), np.array([row.timestamp])
            told = sum_process.Rows(counts, np.array([value]), known_std, context, when)
            return process.add(encoded, told)

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
        known = self.bounds.get(layer.kind.name, {})
        return any(
            name not in known or not known[name][0] <= width <= known[name][1]
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
        found, counts = distinct(networks)
        encoded = self.encoder.encode(found)

        def spread(process: sum_process.SumProcess) -> tuple[Array, Array]:
            contexts = np.full(len(networks), context)
            mean, covariance = process.predict(encoded, counts, contexts)
            var = np.maximum(np.diagonal(covariance), 0.0)
            if noisy:
                var[-1] += process.noise_var(mean[-1])
            return mean, inflation(len(process.rows)) * np.sqrt(var)

        seconds = seconds_std = np.full(len(networks), math.nan)
        if self.time is not None and self._is_timed(found):
            seconds, seconds_std = spread(self.time)
        columns = (*spread(self.energy), seconds, seconds_std)
        return [Cost(*map(float, numbers)) for numbers in zip(*columns, strict=True)]


def fit_additive(measurements: Sequence[Measurement]) -> AdditiveFit:
    """Fit all whole training steps; their order does not matter."""
    rows = sorted(usable(measurements), key=_order)
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    wrong = _gross_faults(rows)
    rejected = [Rejection(rows[i], reason) for i, reason in wrong.items()]
    rows = [row for i, row in enumerate(rows) if i not in wrong]
    tile = _choose_tile(rows)
    fit = _fit(rows, tile)
    for _ in range(3):  # one fault hides another
        suspects = _suspects(fit.energy)
        if not suspects:
            break
        # Judged by a fit without them: they would excuse themselves by much noise.
        others = [row for i, row in enumerate(rows) if i not in suspects]
        without = _fit(others, tile)
        wrong = {i: reason for i in suspects if (reason := _contradiction(rows[i], without))}
        if not wrong:
            break
        rejected += [Rejection(rows[i], reason) for i, reason in wrong.items()]
        rows = [row for i, row in enumerate(rows) if i not in wrong]
        fit = without if len(wrong) == len(suspects) else _fit(rows, tile)
    fit, late = _without_wrong_times(rows, fit)
    return replace(fit, rejected=(*rejected, *late))


def _without_wrong_times(
    rows: Sequence[Measurement], fit: AdditiveFit
) -> tuple[AdditiveFit, list[Rejection]]:
    """The fit without seconds that all others contradict; the joules beside them are kept."""
    timed = [row for row in rows if row.time_s_per_step is not None]
    suspects = _suspects(fit.time) if fit.time else []
    if not suspects:
        return fit, []
    without = _timed(fit, [row for i, row in enumerate(timed) if i not in suspects])
    wrong = {i: reason for i in suspects if (reason := _wrong_time(timed[i], without))}
    if not wrong:
        return fit, []
    kept = [row for i, row in enumerate(timed) if i not in wrong]
    return _timed(fit, kept), [Rejection(timed[i], reason) for i, reason in wrong.items()]


@dataclass(frozen=True)
class RooflineFit(Layerwise):
    """The mean of the additive method alone: linear in FLOPs and bytes (paper, section 2.2)."""

    encoder: Encoder
    energy: Array
    time: Array | None
    error: float
    method: str = field(default="roofline", init=False)

    def cost(self, layer: Layer) -> Cost:
        """Coefficients times features."""
        if layer.kind != STEP.kind and not self.encoder.covers(layer):
            raise NotCovered(f"the FLOPs of {layer.name} are not known: add them to its features")
        encoded = self.encoder.encode([layer])
        joules = float(linear_mean.expand(encoded, self.energy).sum())
        if self.time is None:
            return Cost(joules, self.error * joules)
        seconds = float(linear_mean.expand(encoded, self.time).sum())
        return Cost(joules, self.error * joules, seconds, self.error * seconds)

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """The sum over the layers, and what a step costs besides."""
        return super().predict((*layers, STEP))


def fit_roofline(measurements: Sequence[Measurement]) -> RooflineFit:
    """Joules and seconds per FLOP and byte of each operation, by least relative errors."""
    rows = sorted(usable(measurements), key=_order)
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    encoder = Encoder.of([STEP, *(layer for row in rows for layer in row.layers)])
    joules = [row.energy_j for row in rows]
    energy, said = _coefficients(rows, encoder, joules)
    error = float(np.sqrt(np.square(said / joules - 1).mean()))
    timed = [row for row in rows if row.time_s_per_step is not None]
    if not timed:
        return RooflineFit(encoder, energy, None, error)
    time, _ = _coefficients(timed, encoder, [row.time_s for row in timed])
    return RooflineFit(encoder, energy, time, error)


def _coefficients(
    rows: Sequence[Measurement], encoder: Encoder, values: Sequence[float]
) -> tuple[Array, Array]:
    """Coefficients of the mean alone, and what it says of each row."""
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    encoded = encoder.encode(layers)
    beta = linear_mean.fit_coefficients(encoded, counts, np.array(values))
    return beta, counts @ linear_mean.expand(encoded, beta).sum(1)


def inflation(rows: int) -> float:
    """How much wider than a normal interval: the scale itself is known from so many rows only.

    Integrated over, it makes a Student distribution; this is the ratio of their 90 % intervals.
    """
    n = max(rows, 2)
    # Cornish and Fisher's expansion of the 95 % quantile, good to 1 % from n = 4 on.
    z = 1.6448536
    series = (z**2 + 1) / (4 * n) + (5 * z**4 + 16 * z**2 + 3) / (96 * n**2)
    return 1 + series


def _fit(rows: Sequence[Measurement], tile: int) -> AdditiveFit:
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    encoder = Encoder.of(layers, tile)
    energy = _process(rows, encoder, layers, counts, [row.energy_j for row in rows])
    fit = AdditiveFit(encoder, tuple(layers), energy, None, _bounds(layers))
    timed = [row for row in rows if row.time_s_per_step is not None]
    return _timed(fit, timed) if timed else fit


def _timed(fit: AdditiveFit, rows: Sequence[Measurement]) -> AdditiveFit:
    """The fit with the seconds of these rows."""
    counts = count([(*row.layers, STEP) for row in rows], fit.layers)
    seconds = [row.time_s for row in rows]
    start = fit.energy.hyper
    return replace(fit, time=_process(rows, fit.encoder, fit.layers, counts, seconds, start))


def _process(
    rows: Sequence[Measurement],
    encoder: Encoder,
    layers: Sequence[Layer],
    counts: Array,
    values: Sequence[float],
    start: sum_process.Hyper | None = None,
) -> sum_process.SumProcess:
    known_std = np.array([row.error for row in rows])
    context = np.array([depth_context(row.layers) for row in rows])
    when = np.array([row.timestamp for row in rows])
    told = sum_process.Rows(counts, np.array(values), known_std, context, when)
    return sum_process.fit(encoder.encode(layers), told, start=start)


def _choose_tile(rows: Sequence[Measurement]) -> int:
    """The tile under which the rows are likeliest; none if they are too few to tell."""
    if len(rows) < ENOUGH or not any(layer.widths for row in rows for layer in row.layers):
        return 0
    some = rows if len(rows) <= TILE_ROWS else [rows[i] for i in _some(len(rows), TILE_ROWS)]
    layers, counts = distinct([(*row.layers, STEP) for row in some])
    joules = [row.energy_j for row in some]

    def density(tile: int) -> float:
        process = _process(some, Encoder.of(layers, tile), layers, counts, joules)
        return round(process.log_density, 3)

    return max(TILES, key=density)


def _some(n: int, count: int) -> list[int]:
    return sorted(np.random.default_rng(0).permutation(n)[:count].tolist())


def _gross_faults(rows: Sequence[Measurement]) -> dict[int, str]:
    """Rows that are several times what their layers' features suggest: a meter wrapped around."""
    if len(rows) < ENOUGH:
        return {}
    joules = np.array([row.energy_j for row in rows])
    encoder = Encoder.of([STEP, *(layer for row in rows for layer in row.layers)])
    _, said = _coefficients(rows, encoder, joules.tolist())
    off = np.log(joules / said)
    off -= np.median(off)
    limit = max(GROSS, 6 * float(np.median(np.abs(off))) / 0.6745)
    found = np.flatnonzero(np.abs(off) > limit)
    if len(found) > len(rows) // 10 + 1:  # so many are no faults
        return {}
    return {
        i: f"{rows[i]!r} is {math.exp(off[i]):.2g} × what its size suggests"
        for i in map(int, found)
    }


def _suspects(process: sum_process.SumProcess) -> list[int]:
    """The few rows, if any, that agree worst with all others."""
    n = len(process.rows)
    if n < ENOUGH:
        return []
    surprise = np.abs(process.leave_one_out)
    worst = np.argsort(-surprise)[: n // 20 + 1]
    return [int(i) for i in worst if surprise[i] > SUSPECT]


def _contradiction(row: Measurement, fit: AdditiveFit) -> str | None:
    """How a row contradicts a fit that does not know it; None if it does not."""
    said = _expected(row, fit)
    ratio = _far(row.energy_j, row.error, said.energy_j, said.energy_j_std)
    return f"{row!r} is {ratio} what all other rows say" if ratio else None


def _wrong_time(row: Measurement, fit: AdditiveFit) -> str | None:
    """The same of its seconds."""
    said = _expected(row, fit)
    ratio = _far(row.time_s, row.error, said.time_s, said.time_s_std)
    return f"the seconds of {row!r} are {ratio} what all other rows say" if ratio else None


def _expected(row: Measurement, fit: AdditiveFit) -> Cost:
    """What a fit says of a row; nothing, if it cannot speak for all of its layers."""
    answer = fit.predict(row.layers)
    return Cost(math.nan, math.nan) if answer.uncovered else answer.total


def _far(value: float, error: float, said: float, std: float) -> str | None:
    """How many times what was said, if that is too far to be true."""
    if not math.isfinite(said) or abs(value - said) <= CONTRADICTS * math.hypot(std, error * said):
        return None
    return f"{value / said:.2g} ×" if said > 0 else "far from"


def _bounds(layers: Sequence[Layer]) -> dict[str, dict[str, tuple[int, int]]]:
    """The smallest and largest of each width that was measured, kind by kind."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for layer in layers:
        known = found.setdefault(layer.kind.name, {})
        for name, width in layer.widths.items():
            low, high = known.get(name, (width, width))
            known[name] = (min(low, width), max(high, width))
    return found


def _order(row: Measurement) -> tuple[str, float]:
    """A place for each row that does not depend on when it was told."""
    keys = [[*map(repr, layer.identity), layer.count] for layer in row.layers]
    return json.dumps(keys), row.energy_j
