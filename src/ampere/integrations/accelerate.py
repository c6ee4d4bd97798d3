"""Accelerate: a loop of one's own, on one device or many, that stops inside its budget.

    accelerator = Accelerator(gradient_accumulation_steps=4)
    gate = EnergyGate(ampere.gate(budget="2Wh", steps=2000), accelerator)
    with gate:
        for batch in loader:
            with accelerator.accumulate(model):
                ...
            if not gate.step():
                gate.save("checkpoint")
                break

`accelerator.load_state("checkpoint")`, before the loop, goes on with the joules that were spent.

All processes stop at the same step. `Accelerator.set_trigger` would do that, too, but it has one
flag for everything, which reading it clears: a loop that uses it for something else would end as
if its budget was spent, and the other way round.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

try:
    from accelerate import Accelerator
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "accelerate":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.accelerate needs Accelerate: pip install 'ampere-energy[accelerate]'",
        name="accelerate",
    ) from None

from ampere.core.types import Json
from ampere.gates.story import Reason
from ampere.integrations.gated import Gated, GatedRun


class EnergyGate:
    """Gates a loop that an `Accelerator` runs.

    Args:
        gate: What decides; give it `steps`, since Accelerate does not know them.
        accelerator: Its checkpoints hold the gate's state from now on, its trackers are told.
        every: Steps between two exchanges, where several processes train.
    """

    def __init__(self, gate: Gated, accelerator: Accelerator, every: int | None = None) -> None:
        self._run = GatedRun(gate, every)
        self._accelerator = accelerator
        self._steps = 0
        accelerator.register_for_checkpointing(self)

    def __enter__(self) -> EnergyGate:
        self._run.begin()
        self._steps = 0
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run.end(None if error is None else Reason.FAILED)

    @property
    def should_stop(self) -> bool:
        """Whether the loop has to end, in all processes."""
        return self._run.gate.should_stop

    def step(self) -> bool:
        """After each batch: counts it if the optimiser made a step; False if the loop must end."""
        if self._accelerator.sync_gradients:
            self._steps += 1
            self._run.reach(self._steps)
            if figures := self._run.figures():
                self._accelerator.log(figures, step=self._run.gate.step_count)
        return not self.should_stop

    def save(self, folder: str | os.PathLike[str]) -> None:
        """`accelerator.save_state`, whose joules are kept in reserve for the next time."""
        with self._run.saving():
            self._accelerator.save_state(str(folder))
        if self.should_stop:
            self._run.stop(f"go on with accelerator.load_state({str(folder)!r}) before the loop")

    def state_dict(self) -> dict[str, Json]:
        """For Accelerate's checkpoints."""
        return self._run.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From Accelerate's checkpoint."""
        self._run.restore(state)
