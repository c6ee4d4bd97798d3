"""Work: the jobs of a run, with the networks that workers are sent for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ampere.core.types import Json
from ampere.errors import DataError
from ampere.fleet.member import Fleet, Member
from ampere.fleet.runs.events import Account, Opened, Order
from ampere.fleet.runs.orders import Routine
from ampere.fleet.task import Task

CHUNKS = 20  # of a job that may not be divided in the plan: it is checkpointed all the same


@dataclass(frozen=True)
class Work:
    """Jobs, what is trained of each, and how many steps of which kind that are."""

    tasks: tuple[Task, ...]
    workloads: Mapping[str, Mapping[str, Json]]
    routines: Mapping[str, Routine]

    def opened(self, fleet: Fleet, run: str, begins: str) -> Opened:
        """The first line of a logbook about them.

        Raises:
            DataError: A member would have to run several jobs at once.
        """
        accounts = tuple(_account(member) for member in fleet)
        return Opened(0.0, run, begins, accounts, tuple(map(self._order, self.tasks)))

    def _order(self, task: Task) -> Order:
        """A job as the logbook opens with it; the digest is of what workers are sent."""
        routine = self.routines[task.name]
        told = {**self.workloads[task.name], "routine": asdict(routine)}
        text = json.dumps(told, sort_keys=True, allow_nan=False).encode()
        chunk_steps = task.chunk_steps or max(1, -(-routine.steps // CHUNKS))
        digest = hashlib.sha256(text).hexdigest()
        return Order(task.name, routine.steps, min(routine.steps, chunk_steps), digest)


def _account(member: Member) -> Account:
    """A member as the logbook opens with it."""
    if member.slots > 1:
        raise DataError(
            f"member {member.name} has {member.slots} slots: a worker runs one job at a time, since"
            " its meter cannot tell two apart; write slots = 1 and plan again"
        )
    battery = member.battery
    device = member.profile.header.fingerprint.id
    if battery is None:
        return Account(member.name, device)
    return Account(member.name, device, battery.energy_j, battery.capacity_j, battery.reserve_j)
