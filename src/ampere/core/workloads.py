"""Workloads: what a device is asked to repeat, as plain data that goes to other processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ampere.core.layers import Json, Layer, LayerKind, Role, Structure, Widths
from ampere.core.training import Training
from ampere.errors import DeviceError

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
            known = ", ".join(ACCELERATORS)
            raise DeviceError(f"unknown accelerator {self.accelerator!r}: use one of {known}")
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
    alone. With neither layers nor model it is the `reference` workload, or `idle`.
    """

    layers: tuple[Layer, ...] = ()
    model: ModelSpec | None = None
    stage: str = "step"

    def to_json(self) -> Json:
        """Plain data for the worker; `from_json` reads it back."""
        return {
            "stage": self.stage,
            "model": None if self.model is None else self.model.to_json(),
            "layers": [
                {
                    "name": layer.name,
                    "kind": layer.kind.name,
                    "operation": layer.kind.operation,
                    "role": layer.kind.role.value,
                    "attributes": dict(layer.kind.attributes),
                    "structure": layer.kind.structure.to_json() if layer.kind.structure else None,
                    "widths": dict(layer.widths),
                    "reads": [list(source) for source in layer.reads],
                }
                for layer in self.layers
            ],
        }

    @classmethod
    def from_json(cls, row: Json) -> Workload:
        """Read back what `to_json` wrote."""
        return cls(
            tuple(
                Layer(
                    layer["name"],
                    LayerKind(
                        layer["kind"],
                        Role(layer["role"]),
                        layer["operation"],
                        layer["attributes"],
                        Structure.from_json(layer["structure"]) if layer["structure"] else None,
                    ),
                    Widths(layer["widths"]),
                    reads=tuple((int(k), int(n)) for k, n in layer["reads"]),
                )
                for layer in row["layers"]
            ),
            None if row["model"] is None else ModelSpec.from_json(row["model"]),
            row["stage"],
        )


REFERENCE = Workload(stage="reference")
IDLE = Workload(stage="idle")
