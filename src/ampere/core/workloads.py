"""Workloads: what a device is asked to repeat, as plain data that goes to other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Tuple  # for Python 3.8, on old devices

from ampere.core.layers import Features, Layer, LayerIdentity, LayerKind, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import TORCH, Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.errors import DeviceError

WorkloadIdentity = Tuple[str, Tuple[Tuple[LayerIdentity, int], ...]]

ACCELERATORS = ("cpu", "cuda", "mps")
OPTIONS_OF_TORCH = ("compile", "tf32", "onednn")
RUNTIME_AND_PLACE = ("runtime", "accelerator")
IDLE_STEP_S = 0.01  # what a step of doing nothing takes


@dataclass(frozen=True)
class Settings:
    """Which runtime trains on the device, and how: part of its fingerprint.

    `compile`, `tf32` and `onednn` belong to torch; of other runtimes they are not said.
    """

    accelerator: str = "cpu"
    threads: int | None = None
    compile: bool = False
    tf32: bool = False
    onednn: bool = True
    runtime: str = TORCH

    def __post_init__(self) -> None:
        if self.accelerator not in ACCELERATORS:
            names = ", ".join(ACCELERATORS)
            raise DeviceError(f"unknown accelerator {self.accelerator!r}: use one of {names}")
        if self.threads is not None and self.threads < 1:
            raise DeviceError(f"{self.threads} threads cannot run anything: use 1 or more")
        if self.runtime != TORCH:
            self._refuse_options_of_torch()

    def _refuse_options_of_torch(self) -> None:
        usual = {name: getattr(type(self), name) for name in OPTIONS_OF_TORCH}
        changed = [name for name, value in usual.items() if getattr(self, name) != value]
        if changed:
            names = ", ".join(changed)
            raise DeviceError(
                f"only torch has {names}: leave it out for the runtime {self.runtime}"
            )

    def told(self) -> dict[str, str]:
        """What a fingerprint says of them, but for the threads, which the runtime chooses.

        torch is not named, so that fingerprints from before there were other runtimes stay valid.
        """
        own = ("accelerator", *OPTIONS_OF_TORCH) if self.runtime == TORCH else RUNTIME_AND_PLACE
        return {name: str(getattr(self, name)) for name in own}


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
    alone; `reference` is the step of the reference workload. With neither layers nor model it is
    `idle`, or `loading`: batches of a user's own loader, by the name of what makes it.
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


def _reference() -> tuple[Layer, Layer]:
    """A convolution, ReLU and a linear layer, batch 8, SGD: what they do in a step is counted."""
    attributes = {"batch": 8, "optimizer": "sgd"}
    convolution = Structure(
        inputs=(Port((8, 16, 16), grad=False),),
        outputs=(Port((Size("out", 256),)),),
        calls=(
            Call(
                "Conv2d",
                {
                    "in_channels": 8,
                    "out_channels": Size("out"),
                    "kernel_size": (3, 3),
                    "stride": (1, 1),
                    "padding": (1, 1),
                    "dilation": (1, 1),
                    "groups": 1,
                    "bias": True,
                    "padding_mode": "zeros",
                },
                inputs=(ValueRef(0),),
            ),
            Call("ReLU", {"inplace": False}, inputs=(ValueRef(1),)),
            Call("Flatten", {"start_dim": 1, "end_dim": -1}, inputs=(ValueRef(2),)),
        ),
        result=ValueRef(3),
        multiples={"out": 1},
    )
    linear = Structure(
        inputs=(Port((Size("in"),)),),
        outputs=(Port((16,)),),
        calls=(
            Call(
                "Linear",
                {"in_features": Size("in"), "out_features": 16, "bias": True},
                inputs=(ValueRef(0),),
            ),
        ),
        result=ValueRef(1),
        multiples={"in": 1},
    )
    return (
        Layer(
            "convolution",
            LayerKind("reference convolution", Role.FIRST, "conv2d", attributes, convolution),
            Widths({"out": 16}),
            Features(flops=9_437_184, activation_bytes=262_144, parameter_bytes=4_672),
        ),
        Layer(
            "linear",
            LayerKind("reference linear", Role.LAST, "linear", attributes, linear),
            Widths({"in": 4096}),
            Features(flops=3_145_728, activation_bytes=512, parameter_bytes=262_208),
        ),
    )


# How long it takes says how fast a machine is at the moment.
REFERENCE = Workload(_reference(), stage="reference")
IDLE = Workload(stage="idle")
LOADING = "loading"  # the stage of a loader
