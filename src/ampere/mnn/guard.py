"""The guard: what gets a gradient from MNN is exactly what must get one.

MNN passes over operations without a gradient in silence: what stands behind them is not trained,
and a step is as cheap as that. So every network is asked for its gradients once, before it is run:
as expressions only, nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ampere.errors import ModelError
from ampere.mnn.library import constant
from ampere.programs.program import Program


def check_gradients(program: Program, loss: Any, wanted: Mapping[str, Any]) -> None:
    """Raise unless a loss has a gradient for all that is wanted.

    Raises:
        ModelError: Names the first layer that would not be trained.
    """
    from MNN import optim

    if not wanted:
        return
    seed = constant(1.0)
    found, _ = optim.Grad().grad([loss], [seed], list(wanted.values()))
    got = {var.name for var in found}
    missed = [name for name in wanted if name not in got]
    if missed:
        place = _place(program, missed)
        raise ModelError(
            f"mnn cannot train {place}: of {len(wanted)} tensors that must get a gradient,"
            f" {len(missed)} get none, since MNN passes over an operation behind them"
        )


def _place(program: Program, missed: list[str]) -> str:
    for step in program.steps:
        for held in step.held:
            if str(held.key) in missed:
                return f"{held.key[2]} of {step.where}"
    return missed[0]
