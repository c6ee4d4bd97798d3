"""This machine as a device: a worker process runs the steps, so that a crash costs one variant."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from ampere.core.workloads import Settings
from ampere.devices import worker
from ampere.devices.worker_device import WorkerDevice
from ampere.meters.base import AUTO
from ampere.meters.registry import choose_meter

# Not -m: that looks for every module in the present folder first, and runs a `queue.py` there.
START = f"import sys; sys.path.remove(''); from {worker.__name__} import main; main()"


class LocalDevice(WorkerDevice):
    """This machine, in certain settings, under a certain meter."""

    builds_models = True
    alone = False

    def __init__(
        self,
        settings: Settings | None = None,
        meter: str = AUTO,
        meter_settings: Mapping[str, float | str] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        accelerator = (settings or Settings()).accelerator
        super().__init__(settings, choose_meter(meter, accelerator), meter_settings, patience_s)

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-u", "-c", START]
