"""PyTorch as a runtime: one of those that train on a device."""

from __future__ import annotations

from ampere.core.workloads import Settings, Workload
from ampere.pytorch.runtime.trainer import Trainer, apply_settings, make_trainer, synchronise


class TorchRuntime:
    """Trains networks of layers, and models by their own code where that is."""

    name = "torch"
    stages = ("step", "forward", "backward", "update")

    def apply(self, settings: Settings) -> tuple[str, int]:
        """Put settings into force; returns the version and the threads."""
        return apply_settings(settings)

    def synchronise(self, settings: Settings) -> None:
        """Wait until everything that was launched has ended."""
        synchronise(settings)

    def trainer(self, workload: Workload, settings: Settings) -> Trainer:
        """Build what a workload describes."""
        return make_trainer(workload, settings)


RUNTIME = TorchRuntime()
