"""Leave one out: what a profile's rows say of each other, without any new measurement.

Each is left out in turn, with the hyper-parameters of all rows kept: quick, and kinder than a test
on fresh models, which only `ampere evaluate` is. The additive method is asked for whole networks;
the paper's for what subtraction left of each layer, since it knows nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.intervals import interval
from ampere.estimators.methods import ProfileFit
from ampere.estimators.paper import PaperFit
from ampere.estimators.survey import SurveyFit, stretch_by_others

ENOUGH = 4  # without one of fewer, little is left to predict from


@dataclass(frozen=True, eq=False)
class Validation:
    """What all others say of each network, or layer, and what was metered of it."""

    of: str  # network or layer
    energy_j: Array
    energy_j_std: Array
    metered_j: Array

    def __len__(self) -> int:
        return len(self.metered_j)

    @property
    def errors(self) -> Array:
        """Signed relative errors; what subtraction left below 0 has none."""
        fair = self.metered_j > 0
        return np.asarray(self.energy_j[fair] / self.metered_j[fair] - 1)

    @property
    def mape(self) -> float:
        """Mean absolute percentage error."""
        return 100 * float(np.abs(self.errors).mean())

    @property
    def median(self) -> float:
        """Median absolute percentage error: a few layers next to nothing do not decide it."""
        return 100 * float(np.median(np.abs(self.errors)))

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """90 % intervals."""
        pairs = zip(self.energy_j.tolist(), self.energy_j_std.tolist(), strict=True)
        method = "additive" if self.of == "network" else "paper"
        return [interval(mean, std, method) for mean, std in pairs]

    @property
    def inside(self) -> int:
        """How many lie inside their 90 % interval."""
        pairs = zip(self.intervals, self.metered_j.tolist(), strict=True)
        return sum(low <= value <= high for (low, high), value in pairs)


def validate(fit: ProfileFit) -> Validation | None:
    """Leave out each row that was fitted; None if they are too few, or all of them say nothing."""
    if isinstance(fit, PaperFit):
        validation = _layers(fit)
    elif isinstance(fit, SurveyFit):
        validation = _networks(fit.calls, stretch_by_others(fit.calls.energy))
    else:
        validation = _networks(fit)
    return validation if validation is not None and len(validation.errors) >= ENOUGH else None


def _networks(fit: AdditiveFit, stretch: float | Array = 1.0) -> Validation:
    """As estimates are said: those of a survey are less sure by `stretch`."""
    log_j, std = fit.energy.left_out
    energy_j = np.exp(log_j)
    return Validation(
        of="network",
        energy_j=energy_j,
        energy_j_std=stretch * fit.energy.widening * std * energy_j,
        metered_j=fit.energy.rows.y,
    )


def _layers(fit: PaperFit) -> Validation | None:
    means: list[float] = []
    stds: list[float] = []
    metered: list[float] = []
    for process in fit.processes.values():
        if len(process.points) < ENOUGH:
            continue
        left = [point.cost.energy_j for point in process.points]
        metered += left
        means += (np.array(left) - process.energy.leave_one_out()).tolist()
        stds += process.energy.leave_one_out_std().tolist()
    if not metered:
        return None
    return Validation(
        of="layer",
        energy_j=np.array(means),
        energy_j_std=np.array(stds),
        metered_j=np.array(metered),
    )
