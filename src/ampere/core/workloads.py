"""Workloads: what a device is asked to repeat, as plain data that goes to other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Tuple  # for Python 3.8, on old devices

from ampere.core.layers import Layer, LayerIdentity
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.errors import DeviceError

WorkloadIdentity = Tuple[str, Tuple[Tuple[LayerIdentity, int], ...]]

ACCELERATORS = ("cpu", "cuda", "mps")
IDLE_STEP_S = 0.01  # what a step of doing nothing takes


@dataclass(frozen=True)
class Settings:
    """How the framework runs on the device: part of its fingerprint."""

    accelerator: str = "cpu"
    threads: int | None = None
    compile: bool = False
    tf32: bool = False
    onednn: bool = True

    def __post_init__(self) -> None:
        if self.accelerator not in ACCELERATORS:
            names = ", ".join(ACCELERATORS)
            raise DeviceError(f"unknown accelerator {self.accelerator!r}: use one of {names}")
        if self.threads is not None and self.threads < 1:
            raise DeviceError(f"{self.threads} threads cannot run anything: use 1 or more")


@dataclass(frozen=True)
class ModelSpec:
    """A model by name, so that another process can build it: what stands on the command line."""

    model: str
    input: str | None = None
    training: Training = field(default_factory=Training)

    def to_json(self) -> dict[str, Json]:
        """Plain data; `from_json` reads it back."""
        return {"model": self.model, "input": self.input, "training": self.training.to_json()}

    @classmethod
    def from_json(cls, row: Json) -> ModelSpec:
        """Read back what `to_json` wrote."""
        return cls(row["model"], row["input"], Training(**row["training"]))


@dataclass(frozen=True)
class Workload:
    """What a device repeats: a network described by its layers, or a model given by name.

    `stage` is `step` (forward, loss, backward, update) or one of `forward`, `backward` and `update`
    alone. With neither layers nor model it is the `reference` workload, or `idle`, or `loading`:
    batches of a user's own loader, by the name of what makes it.
    """

    layers: tuple[Layer, ...] = ()
    model: ModelSpec | None = None
    stage: str = "step"
    loader: str | None = None

    def to_json(self) -> Json:
        """Plain data for the worker; `from_json` reads it back."""
        return {
            "stage": self.stage,
            "model": None if self.model is None else self.model.to_json(),
            "layers": [layer.to_json(with_structure=True) for layer in self.layers],
            "loader": self.loader,
        }

    @classmethod
    def from_json(cls, row: Json) -> Workload:
        """Read back what `to_json` wrote."""
        return cls(
            layers=tuple(Layer.from_json(layer, with_structure=True) for layer in row["layers"]),
            model=None if row["model"] is None else ModelSpec.from_json(row["model"]),
            stage=row["stage"],
            loader=row.get("loader"),
        )


def workload_identity(stage: str, layers: Sequence[Layer]) -> WorkloadIdentity:
    """What makes two workloads the same one: the stage, and the layers in their order."""
    return stage, tuple((layer.identity, layer.count) for layer in layers)


REFERENCE = Workload(stage="reference")
IDLE = Workload(stage="idle")
LOADING = "loading"  # the stage of a loader
