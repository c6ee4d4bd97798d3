"""Simulated devices: devices like others, with stairs, caches, heat and coarse sensors."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from ampere.core.layers import Features
from ampere.core.workloads import IDLE, REFERENCE, ModelSpec, Workload
from ampere.devices.base import Device
from ampere.devices.physics import load_hardware, paces
from ampere.devices.simulated import Sensor, SimulatedDevice
from ampere.errors import DeviceError, MeasurementFailed, MeterFault, ModelError
from ampere.meters.base import Provenance
from ampere.sittings.measure import measure
from ampere.sittings.reference import take_reference
from fakes import plain_model

from .hardware import MAP, NAMES, conv, cost, with_work

PHONES = ("iphone", "oppo")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestDevice:
    def test_it_is_a_device_whose_joules_are_called_simulated(self, name: str) -> None:
        device: Device = SimulatedDevice(name)
        assert device.provenance is Provenance.SIMULATED
        assert device.provenance.metered == "simulated"
        assert device.meter["name"] == "simulated"
        assert device.fingerprint.identity["device"] == f"simulated {name}"

    def test_it_loads_runs_and_forgets(self, name: str) -> None:
        with SimulatedDevice(name) as device:
            workloads = (IDLE, REFERENCE, Workload((conv(32, 64),)))
            handles = [device.load(workload).handle for workload in workloads]
            assert len(set(handles)) == 3
            for handle in handles:
                start_s = device.clock_s
                burst = device.burst(handle, 200_000)
                assert burst.steps == 200_000
                assert (
                    burst.time_s == pytest.approx(device.clock_s - start_s) and burst.energy_j > 0
                )
            device.unload(handles[0])
            device.unload(handles[0])
            with pytest.raises(DeviceError, match=rf"no workload {handles[0]} .*{name}"):
                device.burst(handles[0], 1)
        with pytest.raises(DeviceError, match="no workload"):
            device.burst(handles[1], 1)

    def test_handles_are_not_used_twice(self) -> None:
        device = SimulatedDevice("tx2")
        first = device.load(IDLE).handle
        device.unload(first)
        assert device.load(IDLE).handle != first

    @pytest.mark.parametrize("steps", [0, -1])
    def test_a_burst_of_nothing_is_refused(self, steps: int) -> None:
        device = SimulatedDevice("tx2")
        with pytest.raises(DeviceError, match="use 1 or more"):
            device.burst(device.load(IDLE).handle, steps)

    def test_unknown_names_are_answered_with_the_known_ones(self) -> None:
        with pytest.raises(DeviceError, match=f"'nokia': use one of {', '.join(NAMES)}"):
            SimulatedDevice("nokia")

    def test_unknown_stages_are_refused(self) -> None:
        with pytest.raises(DeviceError, match="step, forward, backward, update"):
            SimulatedDevice("tx2").load(Workload((conv(4, 4),), stage="sideways"))

    def test_fingerprints_differ_by_device_and_not_by_seed(self) -> None:
        found = {SimulatedDevice(n).fingerprint.id for n in NAMES}
        assert len(found) == len(NAMES)
        same, other = SimulatedDevice("oppo", seed=1), SimulatedDevice("oppo", seed=2)
        assert same.fingerprint == other.fingerprint

    def test_a_changed_parameter_is_another_device(self) -> None:
        hardware = load_hardware("oppo")
        assert hardware.digest == load_hardware("oppo").digest
        assert replace(hardware, idle_w=0.51).digest != hardware.digest

    def test_noise_is_the_seeds(self) -> None:
        def bursts(seed: int) -> list[tuple[float, float]]:
            device = SimulatedDevice("oppo", seed=seed)
            handle = device.load(Workload((conv(32, 64),))).handle
            run = [device.burst(handle, 200) for _ in range(20)]
            return [(burst.energy_j, burst.time_s) for burst in run]

        assert bursts(1) == bursts(1) != bursts(2)
        seconds = [time_s for _, time_s in bursts(1)]
        assert 1.0 < max(seconds) / min(seconds) < 1.3

    def test_nothing_else_draws_on_chance(self) -> None:
        state = random.getstate()
        device = SimulatedDevice("oppo")
        device.burst(device.load(IDLE).handle, 1000)
        assert random.getstate() == state

    def test_idle_power_is_right(self, name: str) -> None:
        device = SimulatedDevice(name)
        burst = device.burst(device.load(IDLE).handle, 100_000)
        assert burst.time_s == pytest.approx(1000, rel=0.1)
        assert burst.energy_j / burst.time_s == pytest.approx(load_hardware(name).idle_w, rel=0.05)

    def test_too_much_is_out_of_memory(self) -> None:
        large = Workload((conv(512, 512, 100 * MAP),))
        with pytest.raises(MeasurementFailed, match=r"out of memory: it needs 3\.\d GB"):
            SimulatedDevice("iphone").load(large)
        assert SimulatedDevice("server").load(large)

    def test_layers_that_cannot_be_counted_are_refused(self) -> None:
        unknown = replace(conv(4, 4), features=Features(flops=1e6))
        with pytest.raises(ModelError, match="no structure"):
            SimulatedDevice("tx2").load(Workload((unknown,)))

    def test_models_come_by_name(self) -> None:
        pytest.importorskip("torch")
        device = SimulatedDevice("xavier")
        spec = ModelSpec("zoo:lenet5")
        whole = device.burst(device.load(Workload(model=spec)).handle, 10_000)
        forward = device.burst(device.load(Workload(model=spec, stage="forward")).handle, 10_000)
        assert 0 < forward.time_s < whole.time_s / 2


class TestHeat:
    @staticmethod
    def minutes(device: SimulatedDevice, handle: int, minutes: float) -> list[float]:
        """Seconds of a step, minute by minute."""
        steps = round(60 / paces(load_hardware("oppo"), [conv(128, 128)])[0].time_s)
        found = []
        until_s = device.clock_s + 60 * minutes
        while device.clock_s < until_s:
            found.append(device.burst(handle, steps).time_s / steps)
        return found

    @pytest.mark.parametrize("phone", PHONES)
    def test_phones_throttle_after_minutes_and_recover(self, phone: str) -> None:
        device = SimulatedDevice(phone)
        clocks = load_hardware(phone).clocks_mhz
        handle = device.load(Workload((conv(128, 128),))).handle
        seconds = self.minutes(device, handle, 1)
        assert float(device.fingerprint.conditions["clock_mhz"]) == round(clocks[0])
        seconds += self.minutes(device, handle, 20)
        conditions = device.fingerprint.conditions
        assert clocks[-1] < float(conditions["clock_mhz"]) < clocks[1]
        assert seconds[-1] > 1.2 * seconds[0]
        assert abs(float(conditions["temperature_c"]) - load_hardware(phone).throttle_c) < 4
        device.burst(device.load(IDLE).handle, 360_000)
        assert float(device.fingerprint.conditions["clock_mhz"]) == round(clocks[0])
        assert self.minutes(device, handle, 1)[0] < 1.1 * seconds[0]

    @pytest.mark.parametrize("cool", ["server", "tx2", "xavier"])
    def test_what_has_a_fan_does_not(self, cool: str) -> None:
        device = SimulatedDevice(cool)
        before = device.fingerprint.conditions
        handle = device.load(Workload((conv(128, 128),))).handle
        steps = round(1200 / paces(load_hardware(cool), [conv(128, 128)])[0].time_s)
        device.burst(handle, steps)
        after = device.fingerprint.conditions
        assert after["clock_mhz"] == before["clock_mhz"]
        assert float(after["temperature_c"]) > float(before["temperature_c"]) + 10


class TestSensor:
    def test_a_counter_counts_whole_steps(self) -> None:
        device = SimulatedDevice("server")
        handle = device.load(REFERENCE).handle
        for _ in range(5):
            steps = device.burst(handle, 3000).energy_j / 0.001
            assert steps == pytest.approx(round(steps), abs=1e-6)

    def test_power_comes_in_steps(self) -> None:
        device = SimulatedDevice("xavier")
        device.burst(device.load(IDLE).handle, 100)
        burst = device.burst(device.load(IDLE).handle, 5)
        steps = burst.energy_j / burst.time_s / 0.152
        assert steps == pytest.approx(round(steps), abs=1e-6)
        assert burst.energy_j / burst.time_s != pytest.approx(load_hardware("xavier").idle_w)

    def test_a_burst_that_a_counter_misses_is_a_fault_and_time_passes(self) -> None:
        device = SimulatedDevice("server")
        with pytest.raises(MeterFault, match="did not move"):
            device.burst(device.load(REFERENCE).handle, 1)
        assert device.clock_s > 0

    def test_the_resolution_covers_its_errors(self, name: str) -> None:
        device = SimulatedDevice(name)
        layers = (conv(16, 16),)
        handle = device.load(Workload(layers)).handle
        joules, seconds = cost(load_hardware(name), *layers)
        steps = math.ceil(device.resolution.window_s(joules / seconds, 0.02) / seconds)
        device.burst(device.load(IDLE).handle, 6000)
        before_j = device._energy_j
        burst = device.burst(handle, steps)
        # Each of two readings may be off by so much.
        assert burst.energy_j == pytest.approx(device._energy_j - before_j, rel=0.04)

    def test_watts_are_held_and_late(self) -> None:
        hardware = replace(
            load_hardware("xavier"), sensor_period_s=1.0, sensor_delay_s=0.5, sensor_step_w=0.5
        )
        sensor = Sensor(hardware)
        sensor.watch(0.0, 2.0, 0.0, 1.3)
        sensor.watch(2.0, 3.0, 2.6, 4.0)
        shown = [sensor.read(time_s).energy_j for time_s in (1.4, 1.6, 3.4, 4.0)]
        idle_j = 1.5 * hardware.idle_w
        assert shown == pytest.approx(
            [1.4 * hardware.idle_w, idle_j + 0.1 * 1.5, idle_j + 1.9 * 1.5, idle_j + 3 + 0.5 * 4]
        )

    def test_counts_are_whole_and_late(self) -> None:
        hardware = replace(
            load_hardware("server"), sensor_period_s=1.0, sensor_delay_s=0.5, sensor_step_j=1.0
        )
        sensor = Sensor(hardware)
        sensor.watch(0.0, 2.0, 0.0, 1.3)
        sensor.watch(2.0, 3.0, 2.6, 4.0)
        shown = [sensor.read(time_s).energy_j for time_s in (1.4, 1.6, 2.6, 3.4, 3.6)]
        assert shown == [0.0, 1.0, 2.0, 2.0, 6.0]


@pytest.mark.parametrize("name_", ["server", "xavier", "oppo"])
def test_a_family_can_be_measured_on_it(name_: str) -> None:
    hardware, device = load_hardware(name_), SimulatedDevice(name_)
    models = [tuple(map(with_work, plain_model(*widths))) for widths in ((32, 64), (64,), (8, 8))]
    nominal = take_reference(device)
    assert nominal.idle_w == pytest.approx(hardware.idle_w, rel=0.1)
    for row, layers in zip(
        measure(device, [(Workload(layers), layers) for layers in models], nominal),
        models,
        strict=True,
    ):
        joules, seconds = cost(hardware, *layers)
        assert (row.failed, row.provenance) == (None, Provenance.SIMULATED)
        assert row.energy_j_per_step == pytest.approx(joules, rel=0.1)
        assert row.time_s_per_step == pytest.approx(seconds, rel=0.1)
