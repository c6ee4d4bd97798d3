"""Several processes that train together: one of a machine meters, all stop at the same step.

    gate = share(ampere.gate(budget="2Wh", steps=2000))      # in every process
    with gate:
        for batch in loader:
            train(batch)
            if not gate.step():
                break

    rank 0   meter ─▶ gate ─▶ stop? ┐
    rank 1                          ├─ the largest of all, every few steps, over gloo on the CPU
    rank 2                          ┘

Each process has to call `start`, `step` and the constructor equally often: they wait for each
other. The first process of each machine meters, so the meter has to see the others, too; a budget
is of one machine, and the first machine whose budget is spent ends the run on all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ampere.core.types import Json
from ampere.errors import AmpereError
from ampere.gates.story import Reason, Status, Watching
from ampere.gates.telling import say
from ampere.meters.base import Provenance

if TYPE_CHECKING:
    from ampere.integrations.gated import Gated

EVERY = 10
NEAR = 4  # exchanges until the budget is spent, at least


def share(gate: Gated, every: int | None = None) -> Gated:
    """The gate itself where this process trains alone, else one whose decision all processes hear.

    Args:
        gate: Of each process; only the first of a machine opens its meter.
        every: Steps between two exchanges; fewer where the budget is nearly spent.
    """
    distributed = sys.modules.get("torch.distributed")  # whoever uses it has imported it
    if distributed is None or isinstance(gate, SharedGate):
        return gate
    if not (distributed.is_available() and distributed.is_initialized()):
        return gate
    return SharedGate(gate, every) if distributed.get_world_size() > 1 else gate


class SharedGate(Watching):
    """A gate that all processes of a training hear; the same calls as `Gate`.

    Args:
        gate: What decides, on the first process of a machine; elsewhere it is never started.
        every: Steps between two exchanges. Near the budget they come at every step, so that
            waiting for one costs no more than a quarter of what is left.
    """

    def __init__(self, gate: Gated, every: int | None = None) -> None:
        import torch.distributed as distributed

        self.should_stop = False
        self._source = gate
        self._gate = gate if _leads(distributed) else None
        # Its own, on the CPU: nobody waits for a GPU, and no other message can be mistaken for it.
        self._group = distributed.new_group(backend="gloo")
        self._every = EVERY if every is None else every
        self._until = 1  # steps to the next exchange
        self._steps = 0
        self._running = gate.running

    def start(self) -> None:
        """Start the gates that meter; where one refuses, no process goes on alone.

        Raises:
            AmpereError: A gate refuses to start, here or in another process.
        """
        if self._running:
            return
        error = None
        try:
            if self._gate is not None:
                self._gate.start()
        except Exception as refusal:  # whatever it is: the others would wait for ever
            error = refusal
        for rank, text in enumerate(self._gather(None if error is None else str(error))):
            if error is not None:
                raise error
            if text is not None:
                raise AmpereError(f"rank {rank} does not start: {text}")
        self._running = True
        self._warn()

    def step(self, count: int = 1) -> bool:
        """Count optimiser steps; False, in all processes at the same step, if the run must stop."""
        if not self._running:
            self.start()
        if self._gate is not None:
            self._gate.step(count)
        self._steps += count
        self._until -= count
        if self._until <= 0 and not self.should_stop:
            self._exchange()
        return not self.should_stop

    def checkpoint(self) -> AbstractContextManager[None]:
        """Around saving, which all processes may take part in."""
        return nullcontext() if self._gate is None else self._gate.checkpoint()

    def finish(self, reason: Reason | None = None) -> None:
        """Tell the end and let go of the meter; nobody waits for anybody."""
        self._running = False
        if self._gate is not None:
            self._gate.finish(reason)

    def set_steps(self, steps: int) -> None:
        """How many steps the whole run has."""
        if self._gate is not None:
            self._gate.set_steps(steps)

    @property
    def provenance(self) -> Provenance:
        """Where the joules come from, where they are metered."""
        return self._source.provenance

    @property
    def running(self) -> bool:
        """Whether it has been started, and not finished."""
        return self._running

    @property
    def status(self) -> Status | None:
        """The last look at the run, where it is metered."""
        return None if self._gate is None else self._gate.status

    @property
    def step_count(self) -> int:
        """Steps so far, where they are metered those of earlier parts among them."""
        return self._steps if self._gate is None else self._gate.step_count

    def state_dict(self) -> dict[str, Json]:
        """What a checkpoint needs to hold; nothing from a process that does not meter."""
        return {} if self._gate is None else self._gate.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        if self._gate is not None and state:
            self._gate.load_state_dict(state)

    def _exchange(self) -> None:
        """Whether anybody stops, and when to ask again: the earliest that anybody wants."""
        import torch
        import torch.distributed as distributed

        stops = self._gate is not None and self._gate.should_stop
        answer = torch.tensor([int(stops), -self._patience()])
        distributed.all_reduce(answer, distributed.ReduceOp.MAX, group=self._group)
        stop, wish = answer.tolist()
        self.should_stop, self._until = bool(stop), -wish

    def _patience(self) -> int:
        """Steps until the next exchange: a part of those that the budget lasts for."""
        if self._gate is None:
            return self._every
        status, done = self._gate.status, self._gate.step_count
        if status is None or not status.step:
            return 1
        if status.budget_j is None or not status.spent_j:
            return self._every
        lasts = status.budget_j / (status.spent_j / status.step)
        return max(1, min(self._every, int(lasts - done) // NEAR))

    def _warn(self) -> None:
        if self._gate is None or self._gate.provenance is not Provenance.MODELLED:
            return
        say(
            "several processes train: modelled joules are those of this one and its children; the"
            f" meter 'tree:pid={os.getppid()}' sees all that were started together"
        )

    def _gather(self, text: str | None) -> list[str | None]:
        import torch.distributed as distributed

        texts: list[str | None] = [None] * distributed.get_world_size()
        distributed.all_gather_object(texts, text, group=self._group)
        return texts


def _leads(distributed: Any) -> bool:
    """Whether this process is the first of its machine."""
    local = os.environ.get("LOCAL_RANK")
    return (distributed.get_rank() if local is None else int(local)) == 0
