"""The runtime MNN: trains networks of layers on the processor, one whole step at a time."""

from __future__ import annotations

import os

import MNN
import MNN.expr

from ampere.core.workloads import Settings, Workload
from ampere.errors import DeviceError, ModelError
from ampere.mnn.library import F
from ampere.mnn.trainer import MnnTrainer
from ampere.programs.wiring import program_of

CPU, NORMAL = 0, 0  # backend, and precision: float32


class MnnRuntime:
    """What `--runtime mnn` stands for."""

    name = "mnn"
    stages = ("step",)

    def apply(self, settings: Settings) -> tuple[str, int]:
        """Put settings into force; returns name and version, and the threads."""
        if settings.accelerator != "cpu":
            raise DeviceError("mnn trains on the processor here: use --accelerator cpu")
        threads = settings.threads or _cores()
        F.set_global_executor_config(CPU, NORMAL, threads)
        # Without it everything is computed as it is written, and an optimiser changes nothing.
        MNN.expr.lazy_eval(True)
        return f"mnn {MNN.version()}", threads

    def synchronise(self, settings: Settings) -> None:
        """A step has ended when it returns."""

    def trainer(self, workload: Workload, settings: Settings) -> MnnTrainer:
        """Build a network of layers."""
        if workload.model is not None or not workload.layers:
            raise ModelError("mnn trains layers, not a model's own code")
        return MnnTrainer(program_of(workload.layers))


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


RUNTIME = MnnRuntime()
