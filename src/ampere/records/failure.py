"""Failure: why a network has no joules and seconds, as a cause to decide by and a text to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ampere.core.boundary.fields import shown
from ampere.core.types import Json
from ampere.errors import AmpereError, Crashed, DataError, Hung, MeterError, ModelError, OutOfMemory


class Cause(str, Enum):
    """What kept a network from being measured."""

    MEMORY = "memory"
    CRASH = "crash"
    HANG = "hang"
    MODEL = "model"  # it cannot be built on the device
    METER = "meter"  # it ran, but what the meter says of it cannot be used
    OTHER = "other"


CAUSES = (  # of errors, by their type
    (OutOfMemory, Cause.MEMORY),
    (Crashed, Cause.CRASH),
    (Hung, Cause.HANG),
    (ModelError, Cause.MODEL),
    (MeterError, Cause.METER),
)


@dataclass(frozen=True)
class Failure:
    """Why a measurement has no numbers; `text` is for people, nothing is decided by it."""

    text: str
    cause: Cause = Cause.OTHER

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, error: AmpereError) -> Failure:
        """The failure that an error stands for."""
        causes = (cause for kind, cause in CAUSES if isinstance(error, kind))
        return cls(str(error), next(causes, Cause.OTHER))

    @classmethod
    def from_json(cls, text: str, cause: Json = None) -> Failure:
        """Read what a row says in `failed` and `cause`.

        Rows of other tools, and of ampere before it wrote the cause, have only the text: one that
        speaks of memory is taken for a lack of it.
        """
        if cause is None:
            return cls(text, Cause.MEMORY if "memory" in text else Cause.OTHER)
        try:
            return cls(text, Cause(cause))
        except ValueError:
            names = ", ".join(each.value for each in Cause)
            raise DataError(f"cause {shown(cause)} is unknown: use one of {names}") from None
