"""JAX as a runtime: layers of its own dialect, and of torch's by translation, under jit.

How many threads XLA uses on a processor cannot be said to it: its pool has one for each core that
the process may run on when the first array is made. So `threads` keeps the process on so many
cores, which bounds its own code and XLA's alike; afterwards it cannot be changed.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import jax
from ampere.core.layers import structure_of
from ampere.core.program.structure import TORCH
from ampere.core.workloads import Settings, Workload
from ampere.errors import DeviceError, ModelError
from ampere.jax.runtime import modules
from ampere.jax.runtime.trainer import Trainer
from ampere.jax.runtime.translation import table
from ampere.programs.wiring import program_of

PLATFORMS = {"cpu": "cpu", "cuda": "cuda"}


class JaxRuntime:
    """Trains networks of layers, and models of flax.nnx by their own code where that is."""

    name = "jax"
    stages = ("step",)

    def __init__(self) -> None:
        self._trainers: weakref.WeakSet[Trainer] = weakref.WeakSet()
        self._threads: int | None = None  # that the pool was made with

    def apply(self, settings: Settings) -> tuple[str, int]:
        """Put settings into force; returns the version and the threads."""
        if settings.accelerator not in PLATFORMS:
            raise DeviceError(f"JAX is not run on {settings.accelerator}: use --accelerator cpu")
        if settings.threads is not None and settings.threads != self._threads:
            if self._threads is not None:
                raise DeviceError(f"JAX has made its {self._threads} threads: start a new process")
            keep_to_cores(settings.threads)
        platform = PLATFORMS[settings.accelerator]
        try:
            jax.config.update("jax_platforms", platform)
            jax.devices(platform)
        except RuntimeError:
            raise DeviceError(
                f"JAX sees no {platform} device here: use --accelerator cpu"
            ) from None
        jax.block_until_ready(jax.numpy.zeros(1) + 1)  # the pool of threads is made now
        self._threads = self._threads or len(cores())
        return f"jax {jax.__version__}", self._threads

    def synchronise(self, settings: Settings) -> None:
        """Wait until every step that was started has ended."""
        pending: list[Any] = [trainer.results for trainer in self._trainers]
        jax.block_until_ready(pending)

    def trainer(self, workload: Workload, settings: Settings) -> Trainer:
        """Build what a workload describes, and compile it."""
        trainer = make_trainer(workload)
        self._trainers.add(trainer)
        return trainer


def make_trainer(workload: Workload, **given: Any) -> Trainer:
    """A trainer of a network of layers, or of a model by name.

    Args:
        workload: What is trained.
        given: First weights, inputs and targets, as `Trainer` takes them.
    """
    if workload.model is not None:
        from ampere.jax.runtime.own_models import model_trainer

        return model_trainer(workload.model, **given)
    dialects = {structure_of(layer.kind).dialect for layer in workload.layers}
    if dialects == {TORCH}:
        return Trainer(program_of(workload.layers), table.apply, **given)
    if dialects != {"jax"}:
        raise ModelError(f"JAX cannot train layers of {' and '.join(sorted(dialects))} together")
    program = program_of(workload.layers, modules.holding)
    return Trainer(program, modules.apply, channels_last=True, **given)


def cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def keep_to_cores(threads: int) -> None:
    """Keep this process, and so the pool of XLA's threads, on so many cores."""
    mine = cores()
    if threads == len(mine):
        return
    if threads > len(mine) or not hasattr(os, "sched_setaffinity"):
        raise DeviceError(
            f"JAX runs on {len(mine)} threads here, one a core, and cannot have {threads}:"
            " leave --threads out"
        )
    os.sched_setaffinity(0, mine[:threads])


RUNTIME = JaxRuntime()
