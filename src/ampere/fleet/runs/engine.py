"""Engine: whoever brings orders to workers and their answers back; Dask, or a fake for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ampere.errors import AmpereError


class EngineLost(AmpereError):
    """The engine is gone: with another one the runner goes on."""


class WorkerLost(AmpereError):
    """A worker is gone before it could be asked."""


@dataclass(frozen=True)
class Returned:
    """What came back of a chunk: an answer with a checkpoint, or why there is none."""

    chunk: int
    text: object = None
    weights: bytes = b""
    lost: str = ""


class Engine(Protocol):
    """Whoever brings orders to workers; all of it raises `EngineLost` once it is gone."""

    def workers(self) -> Mapping[str, str]:
        """Names and addresses of those that are there."""
        ...

    def greet(self, address: str) -> object:
        """What a worker says of itself."""
        ...

    def submit(self, chunk: int, address: str, order: str, checkpoint: bytes | None) -> None:
        """Have a worker, and no other, run an order."""
        ...

    def wait(self, time_s: float) -> Sequence[Returned]:
        """What came back meanwhile, as soon as anything does."""
        ...
