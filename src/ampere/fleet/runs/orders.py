"""Orders: what a worker is asked to train, what it answers, and how it introduces itself.

All of it is plain data that goes over a network: a public model's name or layers, numbers of steps
and joules. No code goes either way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.model_names import parse_name
from ampere.core.fingerprint import Fingerprint
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.fleet.runs.events import MOST_J, MOST_STEPS, NAME, PROVENANCES
from ampere.meters.base import Provenance

# How a chunk ended: all steps; the battery was down to its reserve; the process was killed; it is
# not known to the worker, which never began it.
DONE, FLAT, INTERRUPTED, UNKNOWN = "done", "flat", "interrupted", "unknown"
STATES = (DONE, FLAT, INTERRUPTED, UNKNOWN)
MOST_LAYERS = 10**5


@dataclass(frozen=True)
class Routine:
    """What a job does again and again: batches for each step, validations between steps.

    Args:
        steps: Of the whole job.
        batches: That go into each step.
        validations: Of the whole job, evenly spread over its steps.
        validation_batches: Of each validation.
    """

    steps: int
    batches: int = 1
    validations: int = 0
    validation_batches: int = 0

    @classmethod
    def of(cls, read: Fields) -> Routine:
        """Read what was sent."""
        return cls(
            steps=read.whole("steps", least=1, most=MOST_STEPS),
            batches=read.whole("batches", least=1, most=MOST_STEPS),
            validations=read.whole("validations", most=MOST_STEPS),
            validation_batches=read.whole("validation_batches", most=MOST_STEPS),
        )

    def validated(self, first: int, last: int) -> int:
        """Batches of the validations that are due after steps `first` + 1 to `last`."""
        due = self.validations * last // self.steps - self.validations * first // self.steps
        return due * self.validation_batches


@dataclass(frozen=True)
class ChunkOrder:
    """What a worker is asked to train.

    Args:
        key: Of the run and the chunk: an answer is given once more, never made anew.
        job: Whose steps these are; it seeds weights and data.
        first: The step that it begins with.
        steps: How many.
        limit_j: What it may take.
        routine: What goes into steps, and between them.
        workload: The network; None where only an answer is asked for that may be there.
    """

    key: str
    job: str
    first: int
    steps: int
    limit_j: float
    routine: Routine
    workload: Mapping[str, Json] | None

    def text(self) -> str:
        """As it is sent."""
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @classmethod
    def of(cls, text: str) -> ChunkOrder:
        """Read what was sent.

        Raises:
            DataError: It is something else, or names code.
        """
        read = Fields(parse_json(text), "order:")
        workload = read.inner("workload").row if "workload" in read else None
        if workload is not None:
            refuse_private(workload)
        return cls(
            key=read.text("key", most=NAME),
            job=read.text("job", most=NAME),
            first=read.whole("first", most=MOST_STEPS),
            steps=read.whole("steps", least=1, most=MOST_STEPS),
            limit_j=read.number("limit_j", least=0, most=MOST_J),
            routine=Routine.of(read.inner("routine")),
            workload=workload,
        )


def refuse_private(workload: Mapping[str, Json]) -> None:
    """Raise unless a workload's network has a public name, or is told by its layers."""
    read = Fields(workload, "workload:")
    if read.text("loader", None) is not None:
        raise DataError("a fleet trains on no loaders: they are code")
    if read.choice("stage", ("step",)) and "model" in read:
        name = read.inner("model").text("model")
        if not parse_name(name).is_settled:
            raise DataError(f"{name} is code of one machine: its layers can be sent")
        return
    read.items("layers", least=1, most=MOST_LAYERS)


@dataclass(frozen=True)
class Answer:
    """What a chunk came to: its steps, its joules, and what meter and battery showed after it."""

    key: str
    state: str
    steps: int
    energy_j: float
    meter_j: float
    battery_j: float | None
    provenance: Provenance

    def text(self) -> str:
        """As it is sent."""
        row = {**asdict(self), "provenance": self.provenance.value}
        return json.dumps(row, sort_keys=True, allow_nan=False)

    @classmethod
    def of(cls, text: object) -> Answer:
        """Read what a worker said.

        Raises:
            DataError: It is something else, or says what went wrong.
        """
        read = _fields(text, "answer:")
        if "failed" in read:
            raise DataError(read.text("failed"))
        return cls(
            key=read.text("key", most=NAME),
            state=read.choice("state", STATES),
            steps=read.whole("steps", most=MOST_STEPS),
            energy_j=read.number("energy_j", least=0, most=MOST_J),
            meter_j=read.number("meter_j", least=0, most=MOST_J),
            battery_j=read.number("battery_j", None, least=0, most=MOST_J),
            provenance=Provenance(read.choice("provenance", PROVENANCES)),
        )


def failure(error: Exception) -> str:
    """What a worker answers when it could not train."""
    return json.dumps({"failed": str(error)})


@dataclass(frozen=True)
class Greeting:
    """How a worker introduces itself: whose device it is, and what meter and battery show."""

    member: str
    fingerprint: Fingerprint
    provenance: Provenance
    meter_j: float
    battery_j: float | None
    clock_s: float

    def text(self) -> str:
        """As it is sent."""
        row = {
            "member": self.member,
            "identity": dict(self.fingerprint.identity),
            "provenance": self.provenance.value,
            "meter_j": self.meter_j,
            "battery_j": self.battery_j,
            "clock_s": self.clock_s,
        }
        return json.dumps(row, sort_keys=True, allow_nan=False)

    @classmethod
    def of(cls, text: object) -> Greeting:
        """Read what a worker said."""
        read = _fields(text, "greeting:")
        return cls(
            member=read.text("member", most=NAME),
            fingerprint=Fingerprint(read.texts("identity")),
            provenance=Provenance(read.choice("provenance", PROVENANCES)),
            meter_j=read.number("meter_j", least=0, most=MOST_J),
            battery_j=read.number("battery_j", None, least=0, most=MOST_J),
            clock_s=read.number("clock_s", least=0, most=1e12),
        )


def _fields(text: object, where: str) -> Fields:
    if not isinstance(text, str):
        raise DataError(f"{where} it must be a text of JSON")
    return Fields(parse_json(text), where)
