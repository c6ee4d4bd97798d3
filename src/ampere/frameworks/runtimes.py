"""Runtimes: who trains layers on a device. It need not be the framework that a model was read with.

               dialect torch    dialect jax
    torch      itself           refused
    mnn        translated       refused
    jax        translated       itself

The table is fixed: what is loaded is what the user named, and this file knows. It goes to devices,
so it is written for Python 3.8, and a runtime's engine is imported where it is asked for only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol

from ampere.core.layers import Layer
from ampere.core.program.structure import TORCH
from ampere.core.types import Json
from ampere.core.workloads import Settings, Workload
from ampere.errors import DeviceError, ModelError

STEP = "step"  # the stage that every runtime has


class Trainer(Protocol):
    """A network with its data, loss and optimiser, ready to run."""

    def step(self) -> object:
        """One whole training step."""
        ...

    def stage(self, name: str) -> Callable[[], object]:
        """One of the runtime's stages, to be called again and again."""
        ...


class Runtime(Protocol):
    """A library that trains networks of layers on the machine that it is called on."""

    @property
    def name(self) -> str:
        """What stands behind `--runtime`."""
        ...

    @property
    def stages(self) -> tuple[str, ...]:
        """What can be run alone: `step`, and what else there is."""
        ...

    def apply(self, settings: Settings) -> tuple[str, int]:
        """Put settings into force; returns name and version (`mnn 3.6.0`), and the threads.

        Raises:
            DeviceError: It cannot run so here.
        """
        ...

    def synchronise(self, settings: Settings) -> None:
        """Wait until everything that was launched has ended: before every reading."""
        ...

    def trainer(self, workload: Workload, settings: Settings) -> Trainer:
        """Build what a workload describes, ready to run steps.

        Raises:
            ModelError: It cannot train this faithfully; names the operation and the layer.
        """
        ...


@dataclass(frozen=True)
class RuntimeEntry:
    """What is known of a runtime before it is loaded.

    Attributes:
        load: Imports its engine.
        packages: The distributions that it needs, its own first.
        stages: Those of the runtime itself.
        dialects: Structures that it can train, its own first.
        builds_models: Whether it runs a model of its framework by the model's own code, where that
            is; else it is given layers.
    """

    name: str
    load: Callable[[], Runtime]
    packages: tuple[str, ...]
    stages: tuple[str, ...] = (STEP,)
    dialects: tuple[str, ...] = (TORCH,)
    builds_models: bool = False

    @property
    def version(self) -> str | None:
        """What is installed here; None if nothing is."""
        try:
            return metadata.version(self.packages[0])
        except metadata.PackageNotFoundError:
            return None

    def to_json(self) -> dict[str, Json]:
        """Plain data: what is known of it here."""
        return {
            "name": self.name,
            "version": self.version,
            "stages": list(self.stages),
            "dialects": list(self.dialects),
            "remedy": None if self.version else self.remedy,
        }

    @property
    def remedy(self) -> str:
        """How to install it: with ampere, or by itself where only a worker runs."""
        return f"pip install 'ampere-energy[{self.name}]' or {' '.join(self.packages)}"


def _torch() -> Runtime:
    from ampere.pytorch.runtime.engine import RUNTIME

    return RUNTIME


def _mnn() -> Runtime:
    from ampere.mnn.engine import RUNTIME

    return RUNTIME


def _jax() -> Runtime:
    from ampere.jax.engine import RUNTIME

    return RUNTIME


RUNTIMES: dict[str, RuntimeEntry] = {
    each.name: each
    for each in (
        RuntimeEntry(
            TORCH,
            _torch,
            ("torch",),
            (STEP, "forward", "backward", "update"),
            builds_models=True,
        ),
        RuntimeEntry("mnn", _mnn, ("MNN",)),
        RuntimeEntry("jax", _jax, ("jax", "flax", "optax"), dialects=("jax", TORCH)),
    )
}


def runtime_entry(name: str) -> RuntimeEntry:
    """What is known of a runtime by its name.

    Raises:
        DeviceError: There is no such runtime.
    """
    if name not in RUNTIMES:
        raise DeviceError(f"unknown runtime {name!r}: use one of {', '.join(RUNTIMES)}")
    return RUNTIMES[name]


def find_runtime(name: str) -> Runtime:
    """The runtime with this name, loaded.

    Raises:
        DeviceError: There is no such runtime, or it is not installed here.
    """
    entry = runtime_entry(name)
    try:
        return entry.load()
    except ImportError as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise DeviceError(
            f"{sys.executable} cannot use {name} ({reason}): install it there ({entry.remedy}), or"
            " choose a Python that has it"
        ) from None


def refuse_foreign(layers: Sequence[Layer], runtime: str) -> None:
    """Raise unless a runtime can be given these layers at all: of its own dialect, or translated.

    Raises:
        ModelError: A layer is of a dialect that is not translated for it.
    """
    dialects = runtime_entry(runtime).dialects
    for layer in layers:
        structure = layer.kind.structure
        if structure is not None and structure.dialect not in dialects:
            raise ModelError(
                f"{layer.name} is a layer of {structure.dialect}, which the runtime {runtime}"
                f" cannot train: use --runtime {structure.dialect}"
            )


def stages_of(runtime: str) -> tuple[str, ...]:
    """What can be run alone on a device of this runtime; of one that is not known, the step."""
    return RUNTIMES[runtime].stages if runtime in RUNTIMES else (STEP,)
