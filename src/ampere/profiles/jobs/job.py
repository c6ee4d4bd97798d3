"""Job: how long a model is trained, and what goes on around its steps.

    Job(epochs=3, samples=60_000, validation_samples=10_000, loading=Loading(0.02))

A step is one update of the weights. `accumulate` batches go into each, so profiles of single
batches stay valid. Samples are those of all ranks together, and each trains on its share.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_text
from ampere.core.training import MOST_BATCH
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.meters.base import Provenance

MOST = 10**15  # steps, samples and batches of a job that somebody runs
MOST_RANKS = 10**6
MOST_J, MOST_S = 1e12, 1e7  # of a batch
MOST_BYTES = 2**20  # of a file that `ampere measure --loader --json` wrote
MOST_WORKERS = 10**5


@dataclass(frozen=True)
class Loading:
    """What a batch of data takes until training has it.

    Args:
        time_s: Seconds of a batch.
        energy_j: Joules of a batch, idle ones included; None if only the seconds are known.
        error: The relative standard error of both.
        idle_j: Joules of it that the device takes anyway.
        workers: Processes that load beside the training; with none, training waits.
        samples: Of the batch, if it is known: batches of another size take in proportion.
        device: On which it was metered.
        provenance: Where its joules come from, if it was metered.
    """

    time_s: float
    energy_j: float | None = None
    error: float = 0.0
    idle_j: float = 0.0
    workers: int = 0
    samples: int | None = None
    device: str = ""
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        if not 0 < self.time_s <= MOST_S:
            raise DataError(f"loading a batch in {self.time_s:g} s cannot be: use seconds above 0")
        if self.energy_j is not None and not 0 < self.energy_j <= MOST_J:
            raise DataError(f"a batch of {self.energy_j:g} J cannot be: use joules above 0")

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Loading:
        """Read what `ampere measure --loader --json` printed."""
        fields = Fields(row, where)
        provenances = [each.value for each in Provenance]
        return cls(
            time_s=fields.number("time_s_per_batch", above=0.0, most=MOST_S),
            energy_j=fields.number("energy_j_per_batch", above=0.0, most=MOST_J),
            error=fields.number("error", 0.0, least=0.0, most=10.0),
            idle_j=fields.number("idle_j_per_batch", 0.0, least=0.0, most=MOST_J),
            workers=fields.whole("workers", 0, most=MOST_WORKERS),
            samples=fields.whole("samples_per_batch", None, least=1, most=MOST_BATCH),
            device=fields.text("device_name", ""),
            provenance=Provenance(fields.choice("provenance", provenances)),
        )

    def of_batch(self, batch_size: int) -> Loading:
        """The same for batches of this size."""
        by = 1.0 if self.samples is None else batch_size / self.samples
        energy_j = None if self.energy_j is None else by * self.energy_j
        return replace(
            self, time_s=by * self.time_s, energy_j=energy_j, idle_j=by * self.idle_j, samples=None
        )


def read_loading(path: str | os.PathLike[str]) -> Loading:
    """The loader that was metered into a file.

    Raises:
        DataError: The file cannot be read, or is of something else.
    """
    name, text = read_text(path, MOST_BYTES)
    try:
        return Loading.from_json(parse_json(text), f"{name}:")
    except DataError as error:
        told = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise DataError(f"{told}; write it with `ampere measure --loader ... --json`") from None


@dataclass(frozen=True)
class Count:
    """What a job comes to on each of its ranks."""

    steps: int
    batches: int
    validation_batches: int
    ranks: int = 1
    validations: int = 0

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "steps": self.steps,
            "batches": self.batches,
            "validation_batches": self.validation_batches,
            "ranks": self.ranks,
            "validations": self.validations,
        }


@dataclass(frozen=True)
class Job:
    """How long a model is trained: so many steps, or so many epochs over so many samples.

    It is validated `validations` times on `validation_samples`, after each epoch if nothing is
    said. `ranks` processes train on as many devices like the profile's.
    """

    steps: int | None = None
    epochs: int | None = None
    samples: int | None = None
    accumulate: int = 1
    validation_samples: int | None = None
    validations: int | None = None
    loading: Loading | None = None
    ranks: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "samples", "validation_samples", "validations"):
            _check(name, getattr(self, name))
        _check("accumulate", self.accumulate)
        _check("ranks", self.ranks, MOST_RANKS)
        if (self.steps is None) == (self.epochs is None):
            raise DataError("a job is as long as its steps or its epochs: give one of them")
        if (self.epochs is None) != (self.samples is None):
            raise DataError("epochs and samples go together")
        if self.validations is not None and self.validation_samples is None:
            raise DataError("validations need validation_samples: how many are validated on?")
        if self.validation_samples is not None and self.validations is None and not self.epochs:
            raise DataError("without epochs, say how often it is validated: validations")

    @property
    def length(self) -> int:
        """Epochs, or steps."""
        return self.epochs or self.steps or 1

    def shortened(self, length: int) -> Job:
        """The same job with so many epochs, or steps, and as many validations for each."""
        validations = self.validations and max(1, self.validations * length // self.length)
        if self.epochs is not None:
            return replace(self, epochs=length, validations=validations)
        return replace(self, steps=length, validations=validations)

    def remaining(self, steps: int, of: int) -> Job:
        """What is left of it with so many steps of all, and as many validations for each."""
        validations = (self.validations or self.epochs) if self.validation_samples else None
        if validations is not None:
            validations = max(1, -(-validations * steps // of))
        return replace(self, steps=steps, epochs=None, samples=None, validations=validations)

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but steps."""
        around = (self.validation_samples, self.loading)
        return self.accumulate == self.ranks == 1 and around == (None, None)

    def count(self, batch_size: int) -> Count:
        """Steps and batches of each rank; one that is not full is one all the same.

        Raises:
            DataError: They are more than anybody runs.
        """
        if self.epochs is None or self.samples is None:
            steps = self.steps or 1
            batches = steps * self.accumulate
        else:
            an_epoch = self._batches(self.samples, batch_size)
            batches = self.epochs * an_epoch
            steps = self.epochs * -(-an_epoch // self.accumulate)
        validations = (self.validations or self.epochs or 0) if self.validation_samples else 0
        validated = validations * self._batches(self.validation_samples or 0, batch_size)
        if max(batches, validated) > MOST:
            raise DataError(f"these are {max(batches, validated):,} batches, more than {MOST:,}")
        return Count(steps, batches, validated, self.ranks, validations)

    def _batches(self, samples: int, batch_size: int) -> int:
        """Of each rank: samplers fill up, so that all have the same number."""
        own = -(-samples // self.ranks)
        return -(-own // batch_size)


def _check(name: str, value: int | None, most: int = MOST) -> None:
    if value is not None and not (type(value) is int and 1 <= value <= most):
        raise DataError(f"{name} of {value} is no job: use 1 to {most:,}")
