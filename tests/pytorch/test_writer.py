"""Calls written down as layers: structures with symbolic sizes, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ampere.core.graph.borders import Borders
from ampere.core.graph.calls import Value
from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, Role, structure_of
from ampere.core.program.structure import Structure
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph.sizes import follow
from ampere.pytorch.graph.trace import trace
from ampere.pytorch.graph.writer import Writer
from ampere.pytorch.models import read
from written import Written


def layers_of(model: nn.Module, input: str) -> tuple[Layer, ...]:
    return read(model, input, Training(4))


def written(layer: Layer) -> Any:
    return structure_of(layer.kind).to_json()


def calls_of(run: Callable[[Any, Tensor], Any], input: str = "6") -> list[Any]:
    """The calls of a hidden layer that begins with `run`, without the linear one in it."""
    model = Written(
        lambda m, x: m.last(m.hidden(run(m, m.enter(x)))),
        enter=nn.Linear(6, 8), hidden=nn.Linear(8, 8), last=nn.Linear(8, 2),
    )  # fmt: skip
    every = [call for layer in layers_of(model, input) for call in written(layer)["calls"]]
    return [call for call in every if call["op"] != "Linear"]


def test_sizes_are_written_as_widths() -> None:
    first, hidden, last = layers_of(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 1), nn.Flatten(), nn.Linear(96, 2)),
        "3x6x6",
    )
    assert [dict(layer.widths) for layer in (first, hidden, last)] == [
        {"out": 8}, {"in": 8, "out": 6}, {"in": 6},
    ]  # fmt: skip
    (conv,) = written(hidden)["calls"]
    assert conv["op"] == "Conv2d" and conv["inputs"] == [{"value": 0}]
    assert conv["arguments"]["in_channels"] == {"size": "in"}
    assert conv["arguments"]["out_channels"] == {"size": "out"}
    assert conv["arguments"]["kernel_size"] == [1, 1]
    assert written(hidden)["input"] == ["in", 4, 4] and written(hidden)["output"] == ["out", 4, 4]
    flatten, linear = written(last)["calls"]
    assert flatten["op"] == "Flatten" and flatten["arguments"] == {"start_dim": 1, "end_dim": -1}
    assert linear["inputs"] == [{"value": 1}]
    assert linear["arguments"]["in_features"] == {"size": "16*in"}
    assert linear["arguments"]["out_features"] == 2  # what comes out stays
    assert written(last)["result"] == {"value": 2}


def test_what_enters_and_leaves_alike_is_one_width() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x: Tensor) -> Any:
            return x + self.b(self.a(x))

    _, block, _ = layers_of(nn.Sequential(nn.Linear(6, 8), Block(), nn.Linear(8, 2)), "6")
    assert dict(block.widths) == {"width": 8}
    arguments = [call["arguments"] for call in written(block)["calls"] if "arguments" in call]
    assert arguments[0]["out_features"] == arguments[1]["in_features"] == {"size": "4*width"}


def test_a_view_that_flattens_is_written_as_flatten() -> None:
    flat = {"op": "torch.flatten", "inputs": [{"value": 0}], "options": {"start_dim": 1}}
    for run in (lambda x: x.view(-1, 8 * 36), lambda x: x.reshape(len(x), -1), torch.flatten):
        way = run if run is not torch.flatten else (lambda x: torch.flatten(x, 1))
        model = Written(
            lambda m, x, way=way: m.last(way(m.conv(x))),
            conv=nn.Conv2d(3, 8, 3), last=nn.Linear(8 * 36, 2),
        )  # fmt: skip
        assert written(layers_of(model, "3x8x8")[-1])["calls"][0] == flat


def test_arguments_are_plain_data() -> None:
    (masked,) = calls_of(lambda m, x: x.clamp(min=-0.5, max=float("inf")))
    assert masked["options"] == {"min": -0.5, "max": {"float": "inf"}}
    (cast,) = calls_of(lambda m, x: x.to(torch.float32, memory_format=torch.contiguous_format))
    assert cast["inputs"][1] == {"dtype": "float32"}
    assert cast["options"] == {"memory_format": {"memory_format": "contiguous_format"}}
    (index,) = calls_of(lambda m, x: x[..., [7, 6, 5, 4, 3, 2, 1, 0]])
    assert index["inputs"][1] == [{"ellipsis": True}, {"list": [7, 6, 5, 4, 3, 2, 1, 0]}]
    (part,) = calls_of(lambda m, x: x[:, 0:])
    assert part["inputs"][1][0] == {"slice": [None, None, None]}
    (softmax,) = calls_of(lambda m, x: x.softmax(-1))
    assert softmax["inputs"] == [{"value": 0}, -1] or softmax["inputs"] == [{"value": 1}, -1]


def test_what_is_no_plain_data_is_refused() -> None:
    with pytest.raises(ModelError, match=r"cannot write down \(2\+0j\) in torch.Tensor.mul"):
        calls_of(lambda m, x: x.mul(complex(2, 0)).real)


def test_a_module_that_runs_twice_is_built_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.again = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            return x + self.again(torch.relu(self.again(x)))

    _, block, _ = layers_of(nn.Sequential(nn.Linear(6, 8), Twice(), nn.Linear(8, 2)), "6")
    again = [call.get("again") for call in written(block)["calls"] if call["op"] == "Linear"]
    assert again == [None, 1]


def test_frozen_and_shared_parameters_are_told() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    model[2].weight = model[1].weight
    first, partly, shared, _ = (written(layer)["calls"][0] for layer in layers_of(model, "6"))
    assert first["frozen"] is True and "frozen_parts" not in first
    assert partly["frozen_parts"] == ["bias"] and "frozen" not in partly
    assert shared["shared_parts"] == ["weight"]


def test_a_shared_weight_counts_where_it_is_first() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    model[1].weight = model[0].weight
    assert [layer.params for layer in layers_of(model, "8")] == [72, 8, 18]


def test_a_held_tensor_is_a_call_of_its_own() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(8))
            self.register_buffer("shift", torch.ones(1, dtype=torch.float64))
            self.enter, self.last = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Any:
            return self.last((self.enter(x) * self.gain) + self.shift.float())

    every = [call for layer in layers_of(Holds(), "6") for call in written(layer)["calls"]]
    held = {call["op"]: call for call in every if call["op"] in ("parameter", "buffer")}
    assert held["parameter"]["arguments"] == {"shape": [{"size": "out"}]}
    assert held["buffer"]["arguments"] == {"shape": [1], "dtype": "float64"}


def test_ids_stay_below_the_table_that_they_are_looked_up_in() -> None:
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large, self.small = nn.Embedding(50, 8), nn.Embedding(20, 8)

        def forward(self, x: Tensor) -> Any:
            return self.large(x) + self.small(x)

    model = nn.Sequential(nn.Sequential(Tables()), nn.Linear(8, 2))
    first = layers_of(model, "5:int64<9")[0]
    assert len(written(first)["calls"]) == 3
    assert structure_of(first.kind).inputs[0].below == 20


def test_a_width_stays_a_multiple_of_what_its_layers_ask_for() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.GroupNorm(4, 8), nn.Conv2d(8, 6, 1, groups=2),
        nn.Flatten(), nn.Linear(6 * 16, 2),
    )  # fmt: skip
    steps = [dict(structure_of(layer.kind).multiples) for layer in layers_of(model, "3x4x4")]
    assert steps == [{"out": 4}, {"in": 4, "out": 2}, {"in": 2}]


def test_a_layer_can_be_written_without_widths() -> None:
    inputs = parse_inputs("6")
    traced = trace(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2)), inputs, 4)
    writer = Writer(traced, follow(traced), inputs, Training(4))
    first, last = traced.calls
    borders = Borders((Value(0, (0,)),), (Value(1),), Value(1))
    free = writer.layer("a", [first], borders, Role.FIRST)
    fixed = writer.layer("a", [first], borders, Role.FIRST, resizable=False)
    assert dict(free.widths) == {"out": 8} and dict(fixed.widths) == {}
    assert written(fixed)["calls"][0]["arguments"]["out_features"] == 8
    assert writer.hold([first]) == 56 and writer.hold([first, last]) == 18


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_is_written_is_read_back(width: int, inner: int, norm: bool) -> None:
    model = nn.Sequential(
        nn.Linear(6, width), nn.LayerNorm(width) if norm else nn.ReLU(), nn.Linear(width, inner),
        nn.Linear(inner, 2),
    )  # fmt: skip
    for layer in layers_of(model, "6"):
        structure = structure_of(layer.kind)
        again = Structure.from_json(structure.to_json())
        assert again == structure and again.digest == structure.digest
        assert layer.kind.name.endswith(f"#{structure.digest}")
