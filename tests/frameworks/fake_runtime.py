"""A runtime in plain Python whose steps cost what a table says: joules and seconds are known.

It spends them on a purse that the meter `fake` of its worker shows, so nothing has to be waited
for. A worker that has it is started by `serve`; `FakeRuntimeDevice` is a device with such a worker.
Where a test is about a worker and not about torch, whose import takes seconds, one is started by
`stand_in`, with any meter; `StandInDevice` has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import ampere
from ampere.core.layers import Layer, structure_of
from ampere.core.program.structure import TORCH
from ampere.core.workloads import Settings, Workload
from ampere.devices import worker
from ampere.devices.local import LocalDevice
from ampere.errors import DeviceError, ModelError
from ampere.frameworks.runtimes import RUNTIMES, RuntimeEntry
from ampere.meters.base import Provenance, Reading
from ampere.meters.drivers.fake import FakeMeter

NAME = "fake"
UNTRAINABLE = ("Softmax", "torch.softmax", "torch.nn.functional.softmax")
STEP_S, LAYER_S, WIDTH_S = 2e-4, 1e-4, 2e-6
POWER_W, IDLE_W, LOOK_S = 5.0, 1.0, 1e-7


def known_s(layers: Iterable[Layer]) -> float:
    """Seconds of a step: some for itself, some a layer, some a channel."""
    return STEP_S + sum(
        layer.count * (LAYER_S + WIDTH_S * sum(layer.widths.values())) for layer in layers
    )


def known_j(layers: Iterable[Layer]) -> float:
    """Joules of a step."""
    return POWER_W * known_s(layers)


class Purse:
    """What steps have spent in this process; every look at it takes a little, as idling does."""

    def __init__(self) -> None:
        self.energy_j = self.time_s = 0.0

    def spend(self, energy_j: float, time_s: float) -> None:
        self.energy_j += energy_j
        self.time_s += time_s

    def read(self) -> Reading:
        """What the meter shows."""
        self.spend(IDLE_W * LOOK_S, LOOK_S)
        return Reading(self.energy_j, self.time_s, Provenance.SIMULATED)


PURSE = Purse()


class FakeTrainer:
    """Layers whose step is paid, not run."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._cost = known_j(layers), known_s(layers)

    def step(self) -> None:
        PURSE.spend(*self._cost)

    def stage(self, name: str) -> Callable[[], None]:
        assert name == "step"
        return self.step


class FakeRuntime:
    name = NAME
    stages = ("step",)

    def apply(self, settings: Settings) -> tuple[str, int]:
        if settings.accelerator != "cpu":
            raise DeviceError("fake runs on a processor only: use --accelerator cpu")
        return "fake 1.0", settings.threads or 1

    def synchronise(self, settings: Settings) -> None:
        pass

    def trainer(self, workload: Workload, settings: Settings) -> FakeTrainer:
        for layer in workload.layers:
            for call in structure_of(layer.kind).calls:
                if call.op in UNTRAINABLE:
                    raise ModelError(
                        f"the runtime fake cannot train {call.op} (layer {layer.name})"
                    )
        return FakeTrainer(workload.layers)


ENTRY = RuntimeEntry(NAME, FakeRuntime, (NAME,))


def serve() -> None:
    """A worker that has this runtime, and a meter that shows its purse."""
    RUNTIMES[NAME] = ENTRY
    FakeMeter.read = lambda meter: PURSE.read()  # type: ignore[method-assign]
    worker.main()


def stand_in() -> None:
    """A worker that has this runtime in the place of torch."""
    RUNTIMES[TORCH] = replace(ENTRY, name=TORCH)
    worker.main()


PLACES = [str(Path(__file__).parents[1]), str(Path(ampere.__file__).parents[1])]
IMPORTED = f"import sys; sys.path[:1] = {PLACES!r}; from frameworks import fake_runtime"
STAND_IN = (sys.executable, "-u", "-c", f"{IMPORTED}; fake_runtime.stand_in()")


class StandInDevice(LocalDevice):
    """This machine with a worker that starts in no time."""

    def _command(self) -> Sequence[str]:
        return STAND_IN


class FakeRuntimeDevice(LocalDevice):
    """This machine with a worker that has the fake runtime."""

    def __init__(self, settings: Settings = Settings(runtime=NAME, threads=1)) -> None:
        super().__init__(settings, "fake")

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-u", "-c", f"{IMPORTED}; fake_runtime.serve()"]
