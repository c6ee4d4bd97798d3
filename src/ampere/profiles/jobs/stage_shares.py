"""Stage shares: what of a training step is the forward pass, and what the update of the weights.

A profile tells whole steps. What a step's parts take is counted from the calls of its layers:

    forward    FLOPs of one pass of each call, and what any call costs (dropout is off)
    backward   as much again for every further pass
    update     bytes of the weights, read and written, with the optimiser's own numbers

How far that is from what was metered, `benchmarks/stages.py` finds out (docs/paper/stages.md); the
errors below are from there. Where calls are not known, what is usual counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ampere.core.layers import CHECKPOINTED, Layer, Work
from ampere.estimators.base import Share

CALL = 6e5  # FLOPs that starting a call costs as much as
UPDATED = 4.0  # FLOPs that a byte of an update costs as much as
FORWARD_ERROR = 0.25  # relative standard errors
UPDATE_ERROR = 0.8
UPDATE = "update"


@dataclass(frozen=True)
class StageShares:
    """Shares of a step, each with its relative standard error."""

    forward: float = 1 / 3
    update: float = 0.05
    forward_error: float = FORWARD_ERROR
    update_error: float = UPDATE_ERROR

    @property
    def forward_basis(self) -> str:
        """How sure the forward pass is, in words."""
        return f"forward only, {self.forward:.2f} of a step ± {100 * self.forward_error:.0f} %"


def stage_shares(layers: Sequence[Layer], operations: Sequence[Share] = ()) -> StageShares:
    """What is counted of these layers; what a survey says of updates is better."""
    forward = backward = update = 0.0
    for layer in layers:
        for work in layer.work:
            once, later, updating = (layer.count * each for each in _weights(work))
            if layer.kind.attributes.get(CHECKPOINTED):  # half of what runs forward runs later
                once, later = once / 2, later + once / 2
            forward, backward, update = forward + once, backward + later, update + updating
    whole = forward + backward + update
    if not forward:
        return StageShares()
    counted = StageShares(forward / whole, update / whole)
    return _with_operations(counted, operations)


def _weights(work: Work) -> tuple[float, float, float]:
    """What calls cost forward, backward and as an update, in FLOPs."""
    flops, moved, _ = (value or 0.0 for value in work.features.numbers)
    if work.operation == UPDATE:
        states = _number(work, "states")
        return 0.0, 0.0, UPDATED * (3 + 2 * states) * moved * work.count
    if work.operation == "view":
        return 0.0, 0.0, 0.0
    passes = _number(work, "passes") or (1 if _number(work, "forward") else 2)
    once = (flops / passes + CALL) * work.count
    if work.operation == "dropout":
        return 0.0, passes * once, 0.0
    return once, (passes - 1) * once, 0.0


def _number(work: Work, name: str) -> float:
    value = work.attributes.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _with_operations(counted: StageShares, operations: Sequence[Share]) -> StageShares:
    """The same, with the share that was estimated for updates, where it was."""
    whole = sum(share.cost.energy_j for share in operations)
    for share in operations:
        if share.operation == UPDATE and share.cost.energy_j > 0:
            error = min(share.cost.energy_j_std / share.cost.energy_j, UPDATE_ERROR)
            rest = (1 - share.cost.energy_j / whole) / (1 - counted.update)
            return StageShares(
                counted.forward * rest,
                share.cost.energy_j / whole,
                counted.forward_error,
                error,
            )
    return counted
