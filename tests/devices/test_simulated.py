"""Simulated devices: devices like others, with stairs, caches, heat and coarse sensors."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.acquisition.measure import measure, take_reference
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.sizes import Size
from ampere.core.structure import Call, Port, Structure
from ampere.core.terms import ValueRef
from ampere.core.widths import Widths
from ampere.core.workloads import IDLE, REFERENCE, ModelSpec, Workload
from ampere.devices.base import Device
from ampere.devices.physics import STAGES, Hardware, Pace, load_hardware, paces, simulated_devices
from ampere.devices.simulated import Sensor, SimulatedDevice
from ampere.errors import DeviceError, MeasurementFailed, MeterFault, ModelError
from ampere.meters.base import Provenance
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.reader import read
from fakes import plain_model

DOCS = Path(__file__).parents[2] / "docs" / "simulated.md"
NAMES = ("iphone", "oppo", "server", "tx2", "xavier")
PHONES = ("iphone", "oppo")
BATCH, MAP = 10, 28 * 28


def conv(
    in_: int, out: int, positions: int = MAP, role: Role = Role.HIDDEN, count: int = 1
) -> Layer:
    """A 3x3 convolution with a batch of ten: what one training step of it does."""
    flops = 3 * 2 * 9 * BATCH * positions * in_ * out
    features = Features(flops, 4 * BATCH * positions * out, 4 * 9 * in_ * out)
    kind = LayerKind(f"{role.value} conv {positions}", role, "conv2d")
    return Layer("conv", kind, Widths({"in": in_, "out": out}), features, count=count)


def with_work(layer: Layer) -> Layer:
    """A plain layer of the fakes as a linear layer over vectors, with its features."""
    in_, out = layer.widths.get("in", 4), layer.widths.get("out", 10)
    work = Features(3 * 2 * BATCH * 64 * in_ * out, 4 * BATCH * 64 * out, 4 * in_ * out)
    return replace(layer, features=work)


def energy_j(hardware: Hardware, pace: Pace) -> float:
    return (hardware.idle_w + pace.active_w) * pace.time_s + pace.dynamic_j


def cost(hardware: Hardware, *layers: Layer) -> tuple[float, float]:
    """Joules and seconds of a step at the highest clock, without any noise."""
    pace = paces(hardware, layers)[0]
    return energy_j(hardware, pace), pace.time_s


def parameters(name: str) -> dict[str, dict[str, Any]]:
    file = files("ampere.devices").joinpath("simulations", f"{name}.json")
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert set(rows) == {"device", "stands_for", "parameters"}
    given_: dict[str, dict[str, Any]] = rows["parameters"]
    return given_


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestFiles:
    def test_the_five_of_the_paper_are_there(self) -> None:
        assert simulated_devices() == NAMES

    def test_every_parameter_has_a_finite_value_a_unit_and_a_source(self, name: str) -> None:
        given_ = parameters(name)
        assert list(given_) == [field.name for field in fields(Hardware)]
        for key, row in given_.items():
            assert set(row) == {"value", "unit", "source"}, key
            values = row["value"] if isinstance(row["value"], list) else [row["value"]]
            assert all(math.isfinite(value) and value >= 0 for value in values), key
            assert row["unit"], key
            kind, _, text = row["source"].partition(": ")
            assert kind in ("data sheet", "published", "derived", "assumed"), key
            assert len(text) > 5, key

    def test_units_are_the_same_in_all_files(self) -> None:
        units = [{key: row["unit"] for key, row in parameters(n).items()} for n in NAMES]
        assert all(each == units[0] for each in units)

    def test_values_make_sense_together(self, name: str) -> None:
        hardware = load_hardware(name)
        assert list(hardware.clocks_mhz) == sorted(hardware.clocks_mhz, reverse=True)
        assert 0 < hardware.utilisation <= 1 and 0 < hardware.voltage_low <= 1
        assert hardware.ambient_c < hardware.release_c < hardware.throttle_c
        assert hardware.cache_byte_j < hardware.dram_byte_j
        assert hardware.cache_bytes_per_s > hardware.dram_bytes_per_s
        assert hardware.background_per_s * hardware.tick_s < 0.1
        assert hardware.voltage(hardware.clocks_mhz[0]) == 1
        assert hardware.voltage(hardware.clocks_mhz[-1]) == pytest.approx(hardware.voltage_low)

    def test_the_table_in_the_docs_shows_the_files(self) -> None:
        lines = DOCS.read_text(encoding="utf-8").splitlines()
        for key in parameters("xavier"):
            rows = [parameters(n)[key] for n in NAMES]
            cells = [f"`{key}`", rows[0]["unit"], *map(shown, rows)]
            assert f"| {' | '.join(cells)} |" in lines


def shown(row: dict[str, Any]) -> str:
    value = row["value"]
    text = f"{value[0]:g} to {value[-1]:g}" if isinstance(value, list) else f"{value:g}"
    return text + "*" * row["source"].startswith("assumed")


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


class TestPhysics:
    def test_small_layers_cost_their_launches(self, name: str) -> None:
        hardware = load_hardware(name)
        small = replace(conv(4, 4), features=Features(1.0, 1.0, 1.0))
        launches = sum(stage.loss_launches for stage in STAGES.values()) + 5
        _, time_s = cost(hardware, small)
        assert time_s == pytest.approx(launches * hardware.launch_s, rel=1e-3)

    def test_large_layers_are_bound_by_flops_or_by_bytes(self, name: str) -> None:
        hardware = replace(load_hardware(name), launch_s=0.0)
        busy = replace(conv(128, 128), features=Features(1e12, 1.0, 1.0))
        _, time_s = cost(hardware, busy)
        assert time_s == pytest.approx(1e12 / hardware.peak_flops / hardware.utilisation)
        moving = replace(conv(128, 128), features=Features(1.0, 1e9, 0.0))
        joules, time_s = cost(hardware, moving)
        assert time_s == pytest.approx(5e9 / hardware.dram_bytes_per_s)
        dynamic_j = joules - (hardware.idle_w + hardware.active_w) * time_s
        assert dynamic_j == pytest.approx(5e9 * hardware.dram_byte_j)

    def test_energy_grows_with_width_and_time_is_flat_on_a_stair(self, name: str) -> None:
        hardware = load_hardware(name)
        tile = hardware.tile
        costs = [cost(hardware, conv(512, out)) for out in range(1, 4 * tile + 1)]
        joules, seconds = zip(*costs, strict=True)
        assert all(a <= b for a, b in itertools.pairwise(joules))
        for stair in range(3):
            first, last, beyond = stair * tile, (stair + 1) * tile - 1, (stair + 1) * tile
            assert seconds[last] == pytest.approx(seconds[first], rel=1e-2)
            assert seconds[beyond] > 1.1 * seconds[last]
            assert joules[beyond] > 1.1 * joules[last]

    def test_each_product_of_a_layer_pads_its_own_sides(self, name: str) -> None:
        hardware = replace(load_hardware(name), launch_s=0.0)
        _, lstm, _ = read("zoo:lstm")

        def joules(wide_in: int) -> float:
            resized = replace(lstm, widths=Widths({"in": wide_in, "out": 128}))
            return cost(hardware, with_features(resized))[0]

        assert joules(1) <= joules(hardware.tile) <= 1.7 * joules(1)  # the recurrence stays
        *_, block, _ = read("zoo:resnet(depth=8)")
        widths = dict(block.widths)
        assert set(widths) == {"in", "out"}
        narrow = with_features(replace(block, widths=Widths({**widths, "in": 1})))
        assert cost(hardware, narrow)[0] <= cost(hardware, block)[0]

    def test_networks_are_not_the_sum_of_their_layers(self, name: str) -> None:
        hardware = load_hardware(name)

        def saved_j(cache_bytes: float) -> float:
            cached = replace(hardware, cache_bytes=cache_bytes)
            (a, _), (b, _) = cost(cached, conv(8, 16)), cost(cached, conv(16, 16))
            together, _ = cost(cached, conv(8, 16), conv(16, 16))
            return a + b - together

        assert saved_j(hardware.cache_bytes) > saved_j(0.0) > 0

    def test_what_a_layer_saves_depends_on_the_next(self) -> None:
        hardware = load_hardware("iphone")
        first = conv(64, 256)
        last = [conv(256, 8), conv(256, 1024)]
        alone = [cost(hardware, each)[0] for each in last]
        together = [cost(hardware, first, each)[0] for each in last]
        more = [b - a for a, b in zip(alone, together, strict=True)]
        assert more[0] < more[1]

    def test_a_count_is_so_many_layers(self) -> None:
        hardware = load_hardware("tx2")
        layer = conv(16, 16)
        assert paces(hardware, [replace(layer, count=3)]) == paces(hardware, [layer] * 3)

    def test_a_step_is_its_stages(self, name: str) -> None:
        hardware = load_hardware(name)
        layers = (conv(3, 16, role=Role.FIRST), conv(16, 32), conv(32, 10, 1, Role.LAST))
        (step, *_) = paces(hardware, layers)
        stages = [paces(hardware, layers, stage)[0] for stage in STAGES]
        assert step.time_s == pytest.approx(sum(stage.time_s for stage in stages))
        assert step.dynamic_j == pytest.approx(sum(stage.dynamic_j for stage in stages))
        assert stages[0].time_s < stages[1].time_s

    def test_calls_are_launched_one_by_one_and_cells_at_every_position(self) -> None:
        ports = (Port((20, Size("in"))),), (Port((20, Size("out"))),)
        cell = Call("LSTM", {"bias": True}, (ValueRef(0),))
        relu = Call("ReLU", {}, (ValueRef(1),))
        structure = Structure(*ports, (cell, relu), 2, {"in": 1, "out": 1})
        kind = LayerKind("lstm", Role.HIDDEN, "lstm", {"length": 20}, structure)
        layer = Layer("lstm", kind, Widths({"in": 4, "out": 4}))
        assert [stage.launches(layer) for stage in STAGES.values()] == [21, 41, 2]

    def test_a_lower_clock_is_slower_and_takes_less_power(self, name: str) -> None:
        hardware = load_hardware(name)
        all_paces = paces(hardware, [conv(128, 128)])
        powers = [energy_j(hardware, pace) / pace.time_s for pace in all_paces]
        assert all(a.time_s < b.time_s for a, b in itertools.pairwise(all_paces))
        assert powers == sorted(powers, reverse=True)

    @given(
        st.sampled_from(NAMES),
        st.lists(
            st.tuples(*[st.floats(0, 1e15)] * 3, st.integers(1, 10_000), st.integers(1, 10_000)),
            max_size=4,
        ),
    )
    def test_any_network_takes_finite_time_and_energy(
        self, name_: str, rows: list[tuple[float, float, float, int, int]]
    ) -> None:
        layers = [
            replace(conv(in_, out), features=Features(flops, activation, parameter))
            for flops, activation, parameter, in_, out in rows
        ]
        for pace in paces(load_hardware(name_), layers):
            assert 0 < pace.time_s < math.inf and 0 <= pace.dynamic_j < math.inf


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
