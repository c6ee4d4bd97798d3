"""A gated run: what callbacks of training frameworks share: from a framework's hooks to a gate.

    framework                 GatedRun                            gate
    training begins   ──▶     begin, foresee        ──▶     start, set_steps
    steps have ended  ──▶     reach, stop           ──▶     step
    saving            ──▶     saving, save          ──▶     checkpoint
    training ends     ──▶     end                   ──▶     finish, unless it is the user's to do

Where several processes train, all of them hear the decision of the one that meters
(`ampere.integrations.distributed`). It needs none of the frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ampere.core.types import Json
from ampere.errors import DataError
from ampere.gates.sinks.base import numbers
from ampere.gates.story import Reason, Status
from ampere.gates.telling import say
from ampere.meters.base import Provenance

GROUP = "ampere"  # of names in loggers


class Gated(Protocol):
    """What callbacks need of a gate."""

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from."""

    @property
    def running(self) -> bool:
        """Whether it has been started, and not finished."""

    @property
    def should_stop(self) -> bool:
        """Whether the run has to end."""

    @property
    def status(self) -> Status | None:
        """The last look at the run; None before there was one, and where nobody looks."""

    @property
    def step_count(self) -> int:
        """Steps so far, those of earlier parts of a resumed run among them."""

    def start(self) -> None:
        """Open the meter and begin to count."""

    def step(self, count: int = 1) -> bool:
        """Count optimiser steps; False as soon as the run must stop."""

    def checkpoint(self) -> AbstractContextManager[None]:
        """Around saving."""

    def finish(self, reason: Reason | None = None) -> None:
        """Tell the end and let go of the meter."""

    def set_steps(self, steps: int) -> None:
        """How many steps the whole run has."""

    def state_dict(self) -> dict[str, Json]:
        """What a checkpoint needs to hold."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""


class GatedRun:
    """A gate behind the hooks of a framework.

    Args:
        gate: What decides. One that the user has started (`with gate:`) is left open at the end,
            so that several fits can share a budget; any other is started and finished here.
        every: Steps between two exchanges, where several processes train.
    """

    def __init__(self, gate: Gated, every: int | None = None) -> None:
        self.gate = gate
        self.stopped = False
        self._every = every
        self._begun = self._own = self._counts = False
        self._reached, self._hint = 0, ""
        self._told: Status | None = None

    def begin(self) -> None:
        """Training begins.

        Raises:
            DataError: The gate has ended with an earlier training.
            AmpereError: The gate refuses to start.
        """
        from ampere.integrations.distributed import share

        if self._begun and not self.gate.running:
            raise DataError(
                "this gate ended with the training before: make another one, or keep it open over"
                " several fits by `with gate:`"
            )
        self.gate = share(self.gate, self._every)
        own = not self.gate.running
        self.gate.start()
        self._begun, self._own = True, own
        self._reached, self._hint = 0, ""
        self.stopped = False

    def foresee(self, remaining: int | None, at: int = 0) -> None:
        """How many steps are to come after the framework's step `at`; None if nobody knows."""
        self._reached = at
        if remaining is not None:
            self.gate.set_steps(self.gate.step_count + max(0, remaining))

    def reach(self, step: int) -> bool:
        """The framework has made its steps up to this one; True if it has to stop now."""
        count, self._reached = step - self._reached, step
        if count <= 0:
            return False
        self._counts = True
        return not self.gate.step(count) and not self.stopped

    def stop(self, hint: str, write: Callable[[], None] | None = None) -> None:
        """The framework stops; `write` saves the run, if the framework does not do so itself.

        Args:
            hint: How to go on, in the framework's words.
            write: Writes a checkpoint.
        """
        self.stopped = True
        if write is None or self.save(write):
            self._hint = hint

    def saving(self) -> AbstractContextManager[None]:
        """Around writing a checkpoint."""
        return self.gate.checkpoint()

    def save(self, write: Callable[[], None]) -> bool:
        """Write a checkpoint of ampere's own; whether it is there: training does not die of it."""
        try:
            with self.saving():
                write()
        except Exception as error:  # a full disk, say
            say(f"the run could not be saved: {error}")
            return False
        return True

    def end(self, reason: Reason | None = None) -> None:
        """Training is over; after a stop it is said how to go on, by the process that meters."""
        if self._own:
            self.gate.finish(reason)
        if self._hint and self.gate.status is not None:
            say(self._hint)
        self._hint = ""

    def state(self) -> dict[str, Json]:
        """For the framework's checkpoint."""
        return self.gate.state_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """From the framework's checkpoint; a gate that watched the run itself knows better."""
        if state and not self._counts:
            self.gate.load_state_dict(state)

    def figures(self, *names: str) -> dict[str, float]:
        """Numbers for the framework's logger, if there are any since the last call.

        Their names tell where the joules come from: `ampere/modelled/spent_j`.

        Args:
            names: Those that are wanted; all, if none is named.
        """
        status = self.gate.status
        if status is None or status is self._told:
            return {}
        self._told = status
        prefix = f"{GROUP}/{status.provenance.value}"
        known = numbers(status)
        return {f"{prefix}/{name}": known[name] for name in known if not names or name in names}
