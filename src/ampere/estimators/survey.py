"""By calls: what operations cost at their sizes, learned from networks of any kind.

A layer is a sum of calls (`Layer.work`), and the additive method learns what the parts of sums
cost, whatever they are: here calls take the place of layers. So a layer of a kind that was never
measured is a sum of calls that were. Layers whose calls nobody recorded stay whole, and are kept
apart from calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Cost, Line, Prediction, Rejection, Share
from ampere.estimators.drift import STEADY
from ampere.estimators.encoding.contexts import calls_in, contexts_of, depth_context, is_call
from ampere.estimators.encoding.encoder import STEP, distinct
from ampere.estimators.fitting import fit_additive, rebuild_additive
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.processes.mode import Solution
from ampere.estimators.processes.sum_process import SumProcess
from ampere.records.measurement import Measurement

TINY = 1e-300
INSIDE = 0.9  # of left-out rows shall lie inside their intervals
MORE = 2.0  # octaves beyond the calls of any surveyed network that are worth telling
ADVICE = "survey longer, or add --after-steps 20"
NOTABLE = 0.1  # share of what is not known well, from which a line or an operation says so


def calls_of(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The calls of layers, each as a layer by itself; one whose calls nobody told is one whole."""
    return tuple(
        call for layer in layers for call in (layer.calls if layer.work else (_whole(layer),))
    )


def _whole(layer: Layer) -> Layer:
    """A layer among calls: a layer `linear` is more than the call `linear`, so it is named so."""
    if is_call(layer):
        return layer
    kind = layer.kind
    named = replace(kind, name=f"{kind.name} (layer)", operation=f"{kind.operation} (layer)")
    return replace(layer, kind=named)


def is_survey(measurements: Iterable[Measurement]) -> bool:
    """Whether rows are fitted by calls: some of them were measured for that."""
    return any(row.by_calls for row in measurements)


def by_calls(row: Measurement) -> Measurement:
    """A row as a sum of calls."""
    return replace(row, layers=calls_of(row.layers))


@dataclass(frozen=True)
class SurveyFit:
    """What calls cost, and layers as sums of them."""

    calls: AdditiveFit
    rejected: tuple[Rejection, ...] = ()
    method: str = field(default="additive", init=False)

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """Lines of layers, shares of operations, and the total, of one posterior."""
        encoder = self.calls.encoder
        told = [(layer, calls_of((layer,))) for layer in layers]
        familiar = {
            encoder.operation(call) in encoder.operations for _, calls in told for call in calls
        }
        covered = [each for each in told if all(map(encoder.covers, each[1]))]
        if not covered or True not in familiar:
            return Prediction((), Cost(math.nan, math.nan), tuple(layers))
        named = [layer for layer, _ in covered]
        whole = (*(call for _, calls in covered for call in calls), STEP)
        blocks = [*(calls for _, calls in covered), (STEP,)]
        different, lines = distinct(blocks)
        every = lines.sum(0)
        operations = _by_operation(different, every)
        asked = np.vstack([lines, *operations.values(), np.eye(len(different)), every, every])
        of_operations = [[c for c in whole if c.kind.operation == name] for name in operations]
        alone: list[tuple[Layer, ...]] = [()] * len(different)
        networks = [*blocks, *of_operations, *alone, whole, whole]
        contexts = contexts_of(networks, depth_context(whole))
        answers = self.calls.costs((different, asked), contexts, noisy=True)
        *costs, mean, total = map(self._stretched, answers)
        of_lines, costs = costs[: len(lines)], costs[len(lines) :]
        shares, singles = costs[: len(operations)], costs[len(operations) :]
        of_lines = _adding_up(of_lines, [mean])
        shares = _adding_up(shares, of_lines[:-1])
        marks_of = self._marks(different, singles)
        return Prediction(
            tuple(
                Line(layer, cost, *(share > NOTABLE for share in marks_of(counts)))
                for layer, cost, counts in zip([*named, STEP], of_lines, lines, strict=True)
            ),
            total,
            tuple(layer for layer, calls in told if not all(map(encoder.covers, calls))),
            mean.energy_j_std,
            doubts=self._doubts(whole),
            shares=tuple(
                Share(name, cost, *marks_of(counts))
                for (name, counts), cost in zip(operations.items(), shares, strict=True)
            ),
            lent=self.calls.lent(whole),
        )

    def _marks(
        self, calls: Sequence[Layer], costs: Sequence[Cost]
    ) -> Callable[[Array], tuple[float, float]]:
        """Of so many of each call: which share of the joules is extrapolated, which borrowed."""
        energy_j = np.array([cost.energy_j for cost in costs])
        beyond = energy_j * np.array([self.calls.is_extrapolated(call) for call in calls])
        new = energy_j * np.array([not self.calls.encoder.knows(call) for call in calls])

        def shares(counts: Array) -> tuple[float, float]:
            total_j = max(float(counts @ energy_j), TINY)
            return float(counts @ beyond) / total_j, float(counts @ new) / total_j

        return shares

    def _doubts(self, calls: Sequence[Layer]) -> tuple[str, ...]:
        """What a network has that no surveyed one had."""
        if depth_context(calls) - self.calls.energy.rows.context.depth.max() <= MORE:
            return ()
        most = max(calls_in(row.layers) for row in self.calls.measurements)
        many = f"{calls_in(calls):.0f} calls, and no surveyed network has more than {most:.0f}"
        return (f"{many}: {ADVICE}",)

    @cached_property
    def stretch(self) -> float:
        """By how much deviations of joules are wider than the process itself believes."""
        return stretch_of(self.calls.energy)

    @cached_property
    def time_stretch(self) -> float:
        """The same of seconds."""
        return 1.0 if self.calls.time is None else stretch_of(self.calls.time)

    def _stretched(self, cost: Cost) -> Cost:
        time_std = None if cost.time_s_std is None else self.time_stretch * cost.time_s_std
        return replace(cost, energy_j_std=self.stretch * cost.energy_j_std, time_s_std=time_std)

    def tell(self, row: Measurement) -> SurveyFit:
        """The fit with one more row; see `AdditiveFit.tell`."""
        return replace(self, calls=self.calls.tell(by_calls(row)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of it."""
        return self.calls.notes


def stretch_of(process: SumProcess) -> float:
    """By how much rows are further from what all others say of them than these believe.

    Networks of a survey are all different, so each is to the others what an unseen one will be.
    """
    return _stretch(process.leave_one_out)


def stretch_by_others(process: SumProcess) -> Array:
    """The same for each row by the other half of the rows: nobody judges by itself."""
    off, half = process.leave_one_out, np.arange(len(process.rows)) % 2
    return np.where(half == 0, _stretch(off[half == 1]), _stretch(off[half == 0]))


def _stretch(off: Array) -> float:
    if not len(off):
        return 1.0
    far = float(np.quantile(np.abs(off), INSIDE))
    return max(far / NormalDist().inv_cdf((1 + INSIDE) / 2), 1.0)


def _adding_up(parts: Sequence[Cost], whole: Sequence[Cost]) -> list[Cost]:
    """What adds up to as much as something else does, by as small a factor for each.

    Blocks deviate in the exponent, and by how much of a network each of them is told but roughly:
    the whole is what rows are conditioned on, and its parts are told so that they make it.
    """
    energy = math.fsum(c.energy_j for c in whole) / math.fsum(c.energy_j for c in parts)
    seconds = [math.fsum(c.time_s or 0.0 for c in costs) for costs in (whole, parts)]
    time = seconds[0] / seconds[1] if seconds[1] else 1.0
    return [
        Cost(
            energy * cost.energy_j,
            energy * cost.energy_j_std,
            None if cost.time_s is None else time * cost.time_s,
            None if cost.time_s_std is None else time * cost.time_s_std,
        )
        for cost in parts
    ]


def _by_operation(calls: Sequence[Layer], counts: Array) -> dict[str, Array]:
    """How many of each call a network has, operation by operation."""
    operations = dict.fromkeys(call.kind.operation for call in calls if call.kind != STEP.kind)
    of_each = np.array([call.kind.operation for call in calls])
    return {name: counts * (of_each == name) for name in operations}


def fit_survey(
    measurements: Sequence[Measurement], drift: float = STEADY, lenders: Lenders | None = None
) -> SurveyFit:
    """Fit all whole training steps by their calls; lenders are surveys of other devices."""
    told = [by_calls(row) for row in measurements]
    return _of_rows(fit_additive(told, drift, lenders), told, measurements)


def rebuild_survey(
    measurements: Sequence[Measurement],
    *,
    energy: Solution,
    time: Solution | None,
    rejected: Sequence[Rejection],
    lenders: Lenders | None = None,
) -> SurveyFit:
    """The fit that `fit_survey` made of these rows; see `rebuild_additive`."""
    told = [by_calls(row) for row in measurements]
    as_calls = {id(row): each for row, each in zip(measurements, told, strict=True)}
    left_out = [replace(each, row=as_calls[id(each.row)]) for each in rejected]
    calls = rebuild_additive(told, energy=energy, time=time, rejected=left_out, lenders=lenders)
    return _of_rows(calls, told, measurements)


def _of_rows(
    calls: AdditiveFit, told: Sequence[Measurement], rows: Sequence[Measurement]
) -> SurveyFit:
    """The fit of calls, with what it rejects as the rows that they were."""
    origin = {id(each): row for each, row in zip(told, rows, strict=True)}
    rejected = tuple(replace(each, row=origin[id(each.row)]) for each in calls.rejected)
    return SurveyFit(calls, rejected)
