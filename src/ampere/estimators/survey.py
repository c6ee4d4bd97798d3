"""By calls: what operations cost at their sizes, learned from networks of any kind.

A layer is a sum of calls (`Layer.work`), and the additive method learns what the parts of sums
cost, whatever they are: here calls take the place of layers. So a layer of a kind that was never
measured is a sum of calls that were. Layers whose calls nobody recorded stay as they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from ampere.core.layers import Layer, LayerIdentity
from ampere.estimators.additive import AdditiveFit, fit_additive, rebuild_additive
from ampere.estimators.base import Cost, Line, Prediction, Rejection, Share
from ampere.estimators.drift import STEADY
from ampere.estimators.encoding import STEP, calls_in, depth_context
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
    """The calls of layers, each as a layer by itself; a layer without calls is its own."""
    return tuple(call for layer in layers for call in layer.calls)


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
        calls = calls_of(layers)
        encoder = self.calls.encoder
        covered = [layer for layer in layers if all(map(encoder.covers, layer.calls))]
        known = (encoder.operation(call) in encoder.operations for call in calls)
        if not covered or not any(known):
            return Prediction((), Cost(math.nan, math.nan), tuple(layers))
        uncovered = tuple(layer for layer in layers if layer not in covered)
        operations = _by_operation(calls_of(covered))
        alone = [layer.calls for layer in covered] + [(STEP,)]
        whole = (*calls_of(covered), STEP)
        single = list({call.identity: replace(call, count=1, part=1.0) for call in whole}.values())
        networks = [*alone, *operations.values(), *((call,) for call in single), whole, whole]
        context = depth_context(whole)
        answers = self.calls.costs(networks, context, noisy=True)
        *costs, mean, total = map(self._stretched, answers)
        of_call = dict(zip((call.identity for call in single), costs[-len(single) :], strict=True))
        lines = tuple(
            Line(
                layer,
                cost,
                extrapolated=_share(parts, of_call, self.calls.is_extrapolated) > NOTABLE,
                borrowed=_share(parts, of_call, self._is_new) > NOTABLE,
            )
            for layer, parts, cost in zip((*covered, STEP), alone, costs, strict=False)
        )
        shares = tuple(
            Share(
                name,
                cost,
                extrapolated=_share(parts, of_call, self.calls.is_extrapolated),
                borrowed=_share(parts, of_call, self._is_new),
            )
            for (name, parts), cost in zip(operations.items(), costs[len(alone) :], strict=False)
        )
        return Prediction(
            lines,
            total,
            uncovered,
            mean.energy_j_std,
            doubts=self._doubts(whole),
            shares=shares,
            lent=self.calls.lent(whole),
        )

    def _doubts(self, calls: Sequence[Layer]) -> tuple[str, ...]:
        """What a network has that no surveyed one had."""
        if depth_context(calls) - self.calls.energy.rows.context.max() <= MORE:
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

    def _is_new(self, call: Layer) -> bool:
        return not self.calls.encoder.knows(call)

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
    far = float(np.quantile(np.abs(process.leave_one_out), INSIDE))
    return max(far / NormalDist().inv_cdf((1 + INSIDE) / 2), 1.0)


def _share(
    calls: Sequence[Layer],
    of_call: Mapping[LayerIdentity, Cost],
    is_so: Callable[[Layer], bool],
) -> float:
    """The share of some calls' joules that is of a certain sort."""
    joules = [of_call[call.identity].energy_j * call.count * call.part for call in calls]
    those = math.fsum(j for j, call in zip(joules, calls, strict=True) if is_so(call))
    return those / max(math.fsum(joules), TINY)


def _by_operation(calls: Sequence[Layer]) -> dict[str, tuple[Layer, ...]]:
    groups: defaultdict[str, list[Layer]] = defaultdict(list)
    for call in calls:
        groups[call.kind.operation].append(call)
    return {name: tuple(group) for name, group in groups.items()}


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
