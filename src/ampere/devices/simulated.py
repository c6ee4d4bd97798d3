"""Devices that nobody has at hand: the paper's five, simulated from public figures.

Their joules are simulated: good for trying ampere out, for demos and for tests, worth nothing as
figures of the real hardware. Every parameter stands in `simulations/<name>.json` with its unit and
its source; `physics` has the formulas, docs/simulated.md explains them. None is fitted to anything.

Heat follows power, dT/dt = (ambient + R · power − T) / settling; every tick a governor (like
Linux's step_wise) lowers the clock by a step if the device is above `throttle_c` and gets warmer,
and raises it by one if it is below `release_c` and does not.

The sensor samples every `sensor_period_s` and shows it `sensor_delay_s` late: a counter the joules
so far, in steps of `sensor_step_j`; others the mean power, in steps of `sensor_step_w`, which is
held until the next and summed up by the driver. Noise is a function of the seed and the clock: each
burst's own factors, and ticks in which something else wakes up.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer, structure_of
from ampere.core.types import Json
from ampere.core.workloads import IDLE_STEP_S, REFERENCE, Workload
from ampere.devices.base import Burst, Loaded
from ampere.devices.physics import STAGES, Hardware, Pace, held_bytes, load_hardware, paces
from ampere.errors import DeviceError, OutOfMemory
from ampere.frameworks.models import layers_of, with_features
from ampere.meters.base import Provenance, Reading, Resolution, energy_between
from ampere.meters.surroundings import Watched

# What is known of it are its features: a layer counts as one call.
REFERENCE_LAYERS = tuple(
    replace(layer, kind=replace(layer.kind, structure=None)) for layer in REFERENCE.layers
)


class Sensor:
    """What the device's meter shows: the sum of held samples of power, or a counter of joules."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._counts = hardware.sensor_step_j > 0
        self._samples = 0
        self._sampled_j = 0.0  # true joules up to the last sample
        self._late: deque[tuple[float, float, float]] = deque()  # seconds, watts and joules to show
        self._shown_s, self._shown_w, self._shown_j = 0.0, hardware.idle_w, 0.0

    def watch(self, start_s: float, end_s: float, energy_j: float, power_w: float) -> None:
        """Power was constant for a while; `energy_j` is the true total at its beginning."""
        period_s = self._hardware.sensor_period_s
        while (at_s := (self._samples + 1) * period_s) <= end_s:
            total_j = energy_j + power_w * (at_s - start_s)
            mean_w = (total_j - self._sampled_j) / period_s
            self._late.append((at_s + self._hardware.sensor_delay_s, mean_w, total_j))
            self._samples += 1
            self._sampled_j = total_j

    def read(self, time_s: float) -> Reading:
        """What it shows at this time of the clock."""
        while self._late and self._late[0][0] <= time_s:
            at_s, power_w, total_j = self._late.popleft()
            self._shown_j = total_j if self._counts else self._held_j(at_s)
            self._shown_s, self._shown_w = at_s, _whole(power_w, self._hardware.sensor_step_w)
        return Reading(self._now_j(time_s), time_s, Provenance.SIMULATED)

    def _now_j(self, time_s: float) -> float:
        if not self._counts:
            return self._held_j(time_s)
        step_j = self._hardware.sensor_step_j
        return math.floor(self._shown_j / step_j) * step_j

    def _held_j(self, time_s: float) -> float:
        return self._shown_j + self._shown_w * (time_s - self._shown_s)


def _whole(value: float, step: float) -> float:
    return round(value / step) * step if step else value


class SimulatedDevice:
    """A device of the paper on a clock of its own, which every burst advances and nobody waits for.

    Args:
        name: One of `simulated_devices()`.
        seed: Of the noise; it is no part of the device's identity.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        self.clock_s = 0.0
        self._opened_s = time.time()  # when its clock began
        self._name, self._seed, self._hardware = name, int(seed), load_hardware(name)
        self._temperature_c = self._settled_c(self._hardware.idle_w)
        self._level = 0  # of the clocks, highest first
        self._tick = 0
        self._energy_j = 0.0
        self._sensor = Sensor(self._hardware)
        self._loaded: dict[int, list[Pace]] = {}
        self._handles = 0

    @property
    def fingerprint(self) -> Fingerprint:
        """Name and parameters; how warm it is and how fast it runs at present."""
        identity = {"device": f"simulated {self._name}", "parameters": self._hardware.digest}
        conditions = {
            "clock_mhz": f"{self._hardware.clocks_mhz[self._level]:.0f}",
            "temperature_c": f"{self._temperature_c:.0f}",
        }
        return Fingerprint(identity, conditions)

    @property
    def provenance(self) -> Provenance:
        """Simulated, whatever they look like."""
        return Provenance.SIMULATED

    @property
    def resolution(self) -> Resolution:
        """How finely the simulated sensor tells."""
        return self._hardware.resolution

    @property
    def meter(self) -> Mapping[str, Json]:
        """The simulated sensor."""
        return {"name": "simulated", "settings": {"seed": self._seed}}

    @property
    def spent_j(self) -> float:
        """What it took so far, which its sensor shows late and rounded."""
        return self._energy_j

    def load(self, workload: Workload) -> Loaded:
        """Work out what a workload takes at every clock."""
        layers = _layers_of(workload)
        self._handles += 1
        self._loaded[self._handles] = self._paces(workload.stage, layers)
        features = tuple(layer.features for layer in layers)
        return Loaded(self._handles, features, tuple(layer.work for layer in layers))

    def burst(self, handle: int, steps: int) -> Burst:
        """Run steps between two readings of the sensor.

        Raises:
            MeterFault: A counter did not move, since the burst was too short for it.
        """
        if handle not in self._loaded:
            raise DeviceError(f"no workload {handle} is loaded on the simulated {self._name}")
        if steps < 1:
            raise DeviceError(f"a burst of {steps} steps runs nothing: use 1 or more")
        before = self._sensor.read(self.clock_s)
        self._run(self._loaded[handle], steps)
        window = energy_between(before, self._sensor.read(self.clock_s))
        return Burst(steps, window.energy_j, window.time_s)

    def unload(self, handle: int) -> None:
        """Forget a workload."""
        self._loaded.pop(handle, None)

    def watch(self, time_s: float) -> Watched:
        """Let time pass with nothing to do; nobody else is there."""
        start_s = self.clock_s
        self._run([Pace(IDLE_STEP_S)] * len(self._hardware.clocks_mhz), time_s / IDLE_STEP_S)
        return Watched(self.clock_s - start_s)

    def now(self) -> float:
        """Its own clock, which began when it was opened."""
        return self._opened_s + self.clock_s

    def close(self) -> None:
        """Forget all workloads."""
        self._loaded.clear()

    def __enter__(self) -> SimulatedDevice:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _paces(self, stage: str, layers: tuple[Layer, ...]) -> list[Pace]:
        if stage == "idle":
            return [Pace(IDLE_STEP_S)] * len(self._hardware.clocks_mhz)
        if stage == "reference":
            return paces(self._hardware, REFERENCE_LAYERS)
        if stage != "step" and stage not in STAGES:
            raise DeviceError(f"unknown stage {stage!r}: use one of {', '.join(['step', *STAGES])}")
        needed_bytes = _training_bytes(layers)
        if needed_bytes > self._hardware.memory_bytes:
            raise OutOfMemory(
                f"out of memory: it needs {needed_bytes / 1e9:.1f} GB, the simulated {self._name}"
                f" has {self._hardware.memory_bytes / 1e9:.1f} GB"
            )
        return paces(self._hardware, layers, stage)

    def _run(self, at_clock: list[Pace], steps: float) -> None:
        chance = random.Random(f"burst {self._seed} {self.clock_s!r}")
        slower, hungrier = (math.exp(chance.gauss(0.0, self._hardware.jitter)) for _ in range(2))
        while steps > 0:
            pace = at_clock[self._level]
            awake = self._background()
            time_s = pace.time_s * slower / (1 - awake * self._hardware.background_share)
            power_w = (
                self._hardware.idle_w
                + pace.active_w
                + hungrier * pace.dynamic_j / time_s
                + awake * self._hardware.background_w
            )
            tick_end_s = (self._tick + 1) * self._hardware.tick_s
            end_s = self.clock_s + steps * time_s
            if end_s < tick_end_s:
                self._spend(end_s, power_w)
                return
            steps -= (tick_end_s - self.clock_s) / time_s
            self._spend(tick_end_s, power_w)
            self._tick += 1
            self._govern(warming=self._settled_c(power_w) > self._temperature_c)

    def _background(self) -> bool:
        """Whether something else is awake in this tick."""
        chance = random.Random(f"tick {self._seed} {self._tick}").random()
        return chance < self._hardware.background_per_s * self._hardware.tick_s

    def _spend(self, end_s: float, power_w: float) -> None:
        """Let time pass at this power."""
        self._sensor.watch(self.clock_s, end_s, self._energy_j, power_w)
        time_s = end_s - self.clock_s
        left = math.exp(-time_s / self._hardware.settling_s)
        settled_c = self._settled_c(power_w)
        self._temperature_c = settled_c + (self._temperature_c - settled_c) * left
        self._energy_j += power_w * time_s
        self.clock_s = end_s

    def _settled_c(self, power_w: float) -> float:
        return self._hardware.ambient_c + self._hardware.resistance_k_per_w * power_w

    def _govern(self, *, warming: bool) -> None:
        if warming and self._temperature_c > self._hardware.throttle_c:
            self._level = min(self._level + 1, len(self._hardware.clocks_mhz) - 1)
        elif not warming and self._temperature_c < self._hardware.release_c:
            self._level = max(self._level - 1, 0)


def _training_bytes(layers: tuple[Layer, ...]) -> float:
    """Activations wait for the backward pass, one gradient of them and those of all weights."""
    sizes = [[layer.count * size for size in held_bytes(layer)] for layer in layers]
    largest = max((activations for activations, _ in sizes), default=0.0)
    return sum(activations + 2 * parameters for activations, parameters in sizes) + largest


def _counted(layer: Layer) -> Layer:
    """The layer with all its features; they are counted where any is missing."""
    if None not in layer.features.numbers:
        return layer
    structure_of(layer.kind)  # without one there is nothing to count
    return with_features(layer)


def _layers_of(workload: Workload) -> tuple[Layer, ...]:
    if workload.model is None:
        return tuple(map(_counted, workload.layers))
    return tuple(map(_counted, layers_of(workload.model)))
