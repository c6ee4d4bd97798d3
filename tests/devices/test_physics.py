"""The physics of simulated hardware: its files, and what a step takes by the formulas."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.devices.physics import STAGES, Hardware, load_hardware, paces, simulated_devices
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.models import read

from .hardware import NAMES, conv, cost, energy_j

DOCS = Path(__file__).parents[2] / "docs" / "simulated.md"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def parameters(name: str) -> dict[str, dict[str, Any]]:
    file = files("ampere.devices").joinpath("simulations", f"{name}.json")
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert set(rows) == {"device", "stands_for", "parameters"}
    given_: dict[str, dict[str, Any]] = rows["parameters"]
    return given_


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
