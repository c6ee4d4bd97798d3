"""Strategy: how a profile is learned, and when it is enough."""

from __future__ import annotations

from dataclasses import dataclass

from ampere.core.boundary.fields import Fields
from ampere.core.units import plural
from ampere.errors import DataError
from ampere.estimators.methods import METHODS
from ampere.estimators.processes.covariance import KERNELS

GUIDES = ("energy", "time")
MOST = 100_000  # measurements that anybody makes
# The paper's own for a kind of layer; for whole models, what a minute of measuring can reach.
TOLERANCES = {"paper": 0.05, "additive": 0.08}


@dataclass(frozen=True)
class Strategy:
    """When to stop, what guides, and which kernel.

    The additive method stops at `max_measurements` in all, or when half of the 90 % interval of the
    models that it was made for is `tolerance` of them; the paper's at `max_points` of each kind, or
    when its largest standard deviation is `tolerance` of it. None is the method's own tolerance.
    With `per_layer` the additive method also asks for what tells the layers of a model apart, and
    goes on until their lines are known.
    """

    method: str = "additive"
    max_measurements: int = 40
    seed: int = 0
    max_points: int = 20
    tolerance: float | None = None
    guide: str = "energy"
    kernel: str = "matern52"
    per_layer: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DataError(f"unknown method {self.method!r}: use one of {', '.join(METHODS)}")
        if self.max_measurements < 2:
            most = plural(self.max_measurements, "measurement")
            raise DataError(f"{most} at most is too few: use 2 or more")
        if self.max_points < 2:
            raise DataError(f"max_points is {self.max_points}: at least the 2 bounds are needed")
        if not 0 < self.effective_tolerance < 1:
            raise DataError(f"tolerance is {self.tolerance}: use a share such as 0.05")
        if self.guide not in GUIDES:
            raise DataError(f"unknown guide {self.guide!r}: use one of {', '.join(GUIDES)}")
        if self.kernel not in KERNELS:
            kernels = ", ".join(KERNELS)
            raise DataError(f"unknown kernel {self.kernel!r}: use one of {kernels}")
        if self.per_layer and self.method == "paper":
            raise DataError(
                "per-layer is for method additive: the paper's isolates each kind of layer anyway"
            )

    @classmethod
    def of_file(cls, fields: Fields) -> Strategy:
        """Read a strategy that a file has kept; whatever it leaves out is as usual."""
        usual = cls()
        return cls(
            method=fields.choice("method", METHODS, usual.method),
            max_measurements=fields.whole("max_measurements", usual.max_measurements, most=MOST),
            seed=fields.whole("seed", usual.seed),
            max_points=fields.whole("max_points", usual.max_points, most=MOST),
            tolerance=fields.number("tolerance", None),
            guide=fields.choice("guide", GUIDES, usual.guide),
            kernel=fields.choice("kernel", tuple(KERNELS), usual.kernel),
            per_layer=fields.flag("per_layer", usual.per_layer),
        )

    @property
    def effective_tolerance(self) -> float:
        """The tolerance in force: the given one, or the method's own."""
        return TOLERANCES[self.method] if self.tolerance is None else self.tolerance
