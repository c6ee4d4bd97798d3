"""Descriptions: whoever has only the plain numbers builds the network that ampere would build."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ampere.core.choices import resample
from ampere.core.description import describe
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.sizes import Size, SizePower
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.core.variants import sample
from ampere.frameworks.models import plan_variants
from ampere.pytorch.models import read
from ampere.pytorch.runtime.builder import Network, build, network_inputs
from ampere.pytorch.runtime.losses import returned_tensors
from ampere.zoo.families import family_names
from reference_models import REFERENCES

RUNNER = Path(__file__).parents[2] / "examples" / "runner.py"
MODELS = [f"zoo:{name}" for name in family_names()]
BY_RUNNER = [f"zoo:{name}" for name in family_names() if name != "transformer"]  # bare parameters


@cache
def layers_of(name: str) -> tuple[Layer, ...]:
    if name.startswith("zoo:"):
        return read(name, None, Training(3))
    reference = REFERENCES[name]
    return read(reference.build(reference.width), reference.inputs, Training(3))


@cache
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runner", RUNNER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- an interpreter of all that a description can say --------------------------------------------


class Built(nn.Module):
    """A network made from its description alone."""

    def __init__(self, network: Mapping[str, Json]) -> None:
        super().__init__()
        self.network = network
        self.held = nn.ModuleDict()
        for k, call in enumerate(network["calls"], len(network["inputs"])):
            given = {name: literal(value) for name, value in call.get("arguments", {}).items()}
            if call["op"] in ("parameter", "buffer"):
                value = torch.ones(
                    given["shape"], dtype=getattr(torch, given.get("dtype", "float32"))
                )
                if call["op"] == "parameter":
                    self.register_parameter(f"at{k}", nn.Parameter(value, not call.get("frozen")))
                else:
                    self.register_buffer(f"at{k}", value)
            elif "." not in call["op"] and "again" not in call:
                module = getattr(nn, call["op"])(**given)
                module.requires_grad_(not call.get("frozen", False))
                for name in call.get("frozen_parts", ()):
                    module.get_parameter(name).requires_grad_(False)
                self.held[str(k)] = module

    def forward(self, *inputs: Tensor) -> Any:
        values: list[Any] = list(inputs)
        for k, call in enumerate(self.network["calls"], len(inputs)):
            args = [literal(part, values) for part in call["inputs"]]
            options = {
                name: literal(part, values) for name, part in call.get("options", {}).items()
            }
            with torch.set_grad_enabled(not call.get("detached", False)):
                made = self._step(k, call)(*args, **options)
            values.append(args[0] if made is None else made)
        self.values = values
        return literal(self.network["result"], values)

    def _step(self, k: int, call: Mapping[str, Json]) -> Any:
        if call["op"] in ("parameter", "buffer"):
            return lambda: getattr(self, f"at{k}")
        if "." not in call["op"]:
            return self.held[str(call.get("again", k))]
        found: Any = torch
        for part in call["op"].split(".")[1:]:
            found = getattr(found, part)
        return found


def literal(tree: Json, values: list[Any] | None = None) -> Any:
    if isinstance(tree, list):
        return tuple(literal(part, values) for part in tree)
    if not isinstance(tree, dict):
        return tree
    ((tag, what),) = tree.items()
    if tag == "value":
        assert values is not None
        first, *path = what if isinstance(what, list) else [what]
        found = values[first]
        for step in path:
            found = found[step]
        return found
    read_as = {
        "slice": lambda: slice(*literal(what, values)),
        "list": lambda: list(literal(what, values)),
        "dict": lambda: {key: literal(part, values) for key, part in what.items()},
        "dtype": lambda: getattr(torch, what),
        "memory_format": lambda: getattr(torch, what),
        "float": lambda: float(what),
        "ellipsis": lambda: Ellipsis,
        "device": lambda: torch.device("cpu"),
    }
    return read_as[tag]()


def data(network: Mapping[str, Json]) -> list[Tensor]:
    """Plain tensors, cloned so that a layer may work on them in place."""
    return [runner().sample(**spec).clone() for spec in network["inputs"]]


def shapes(output: Any) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in returned_tensors(output)]


def parameters(model: nn.Module) -> list[tuple[tuple[int, ...], bool]]:
    return sorted((tuple(p.shape), p.requires_grad) for p in model.parameters())


def plain(network: dict[str, Json]) -> dict[str, Json]:
    """As it arrives elsewhere: through strict JSON, and nothing is left to work out."""
    text = json.dumps(network, allow_nan=False)
    assert json.loads(text) == network
    for tag in tags(network["calls"]):
        assert tag not in ("size", "power")
    return network


def tags(tree: Json) -> Iterator[str]:
    """What stands for something else in the inputs and arguments of calls."""
    for call in tree:
        named = [*call.get("arguments", {}).values(), *call.get("options", {}).values()]
        todo = [*call["inputs"], *named]
        while todo:
            part = todo.pop()
            if isinstance(part, dict):
                yield from part
            todo += (
                part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            )


def assert_same(layers: tuple[Layer, ...], built: nn.Module | None = None) -> None:
    network = plain(describe(layers))
    torch.manual_seed(0)
    ours = build(layers).train()
    theirs = (built or Built(network)).train()
    assert parameters(theirs) == parameters(ours)
    wanted = ours(*(x.clone() for x in network_inputs(layers)))
    if isinstance(ours, Network) and ours.dangling:
        wanted, unread = wanted
        assert len(network["unread"]) == len(unread)
    else:
        assert "unread" not in network
    assert shapes(theirs(*data(network))) == shapes(wanted)


# --- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS, *REFERENCES])
def test_the_same_network_is_built_from_the_numbers_alone(name: str) -> None:
    layers = layers_of(name)
    assert_same(layers)
    network = describe(layers)
    assert (network["optimizer"], network["loss"]) == ("sgd", "auto")


@pytest.mark.parametrize("name", ["unet", "gpt", "bilstm", "encoder_decoder", "swin", "zoo:lstm"])
def test_so_it_is_at_other_widths_and_in_variants(name: str) -> None:
    rng = random.Random(3)
    layers = layers_of(name)
    assert_same(tuple(resample(layers, rng)))
    for isolation in plan_variants(layers).isolations:
        assert_same(sample(isolation, rng).layers)


@pytest.mark.parametrize("name", BY_RUNNER)
def test_the_runner_builds_the_zoo(name: str) -> None:
    network = describe(layers_of(name))
    assert_same(layers_of(name), runner().Network(**network))


def test_it_computes_what_the_model_does() -> None:
    model = REFERENCES["unet"].build(8).eval()
    layers = read(model, "3x16x16", Training(2))
    built = Built(plain(describe(layers))).eval()
    for mine, copy in zip(model.parameters(), built.parameters(), strict=True):
        copy.data.copy_(mine.data)
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(built(x), model(x))


def test_several_inputs_keep_their_order_and_their_ids() -> None:
    network = describe(layers_of("encoder_decoder"))
    assert [spec["shape"] for spec in network["inputs"]] == [[3, 16], [3, 12]]
    assert [spec["below"] for spec in network["inputs"]] == [50, 50]
    assert {spec["dtype"] for spec in network["inputs"]} == {"int64"}


def test_a_loss_and_an_optimiser_are_told() -> None:
    network = describe(read("zoo:lenet5", training=Training(optimizer="adam", loss="mse")))
    assert (network["optimizer"], network["loss"]) == ("adam", "mse")


def test_what_ends_before_the_model_has_no_loss() -> None:
    assert describe(layers_of("zoo:lenet5")[:-1])["loss"] is None


# --- single layers --------------------------------------------------------------------------------


def layer(structure: Structure, **widths: int) -> Layer:
    kind = LayerKind("odd", Role.LAST, "odd", {"batch": 2, "optimizer": "sgd"}, structure)
    return Layer("odd", kind, Widths(widths))


def test_names_of_arguments_options_and_results_mean_nothing() -> None:
    """`nn.Upsample` has one named size, `F.pad` one named value; a model may name results so."""
    structure = Structure(
        (Port((Size("in"), 4, 4)),),
        (Port((Size("in"), 10, 10)),),
        (
            Call("Upsample", {"size": (8, 8)}, (ValueRef(0),)),
            Call("torch.nn.functional.pad", {}, (ValueRef(1), (1, 1, 1, 1)), {"value": 0.5}),
        ),
        {"size": ValueRef(2), "value": (ValueRef(1),)},
        multiples={"in": 1},
    )
    network = plain(describe([layer(structure, **{"in": 3})]))
    assert network["inputs"][0]["shape"] == [2, 3, 4, 4]
    assert network["calls"][0]["arguments"] == {"size": [8, 8]}
    assert network["calls"][1]["options"] == {"value": 0.5}
    made = Built(network)(*data(network))
    assert made["size"].shape == (2, 3, 10, 10)
    assert made["value"][0].shape == (2, 3, 8, 8)


def test_sizes_and_powers_are_filled_in_wherever_they_stand() -> None:
    structure = Structure(
        (Port((Size("in"),)),),
        (Port((Size("in", 1, 2), 2)),),
        (
            Call("Linear", {"in_features": Size("in"), "out_features": Size("in", 2)},
                 (ValueRef(0),)),
            Call("torch.mul", {}, (ValueRef(1), SizePower(Size("in"), -0.5))),
            Call("torch.Tensor.reshape", {}, (ValueRef(2), (-1, Size("in", 1, 2), 4))),
        ),
        ValueRef(3),
        multiples={"in": 2},
    )  # fmt: skip
    network = plain(describe([layer(structure, **{"in": 16})]))
    linear, scaled, shaped = network["calls"]
    assert linear["arguments"] == {"in_features": 16, "out_features": 32}
    assert scaled["inputs"] == [{"value": 1}, 0.25]
    assert shaped["inputs"] == [{"value": 2}, [-1, 8, 4]]
    assert network["result"] == {"value": 3}


def test_inputs_that_nobody_reads_are_left_out_and_outputs_that_nobody_reads_are_said() -> None:
    two = Structure(
        (Port((4,)),),
        (Port((4,)), Port((4,))),
        (Call("torch.relu", {}, (ValueRef(0),)), Call("torch.tanh", {}, (ValueRef(0),))),
        (ValueRef(1), ValueRef(2)),
    )
    end = Structure((Port((4,)),), (Port((4,)),), (Call("Tanh", {}, (ValueRef(0),)),), ValueRef(1))
    first = replace(layer(two), reads=((-1, 1),))
    network = plain(describe([first, replace(layer(end), reads=((0, 1),))]))
    assert len(network["inputs"]) == 1
    assert [call["inputs"] for call in network["calls"]] == [
        [{"value": 0}],
        [{"value": 0}],
        [{"value": 2}],
    ]
    assert network["unread"] == [{"value": 1}]
    assert network["result"] == {"value": 3}


def test_a_single_layer_with_several_inputs_needs_no_reads() -> None:
    both = Structure(
        (Port((4,)), Port((4,), "int64", 9, False)),
        (Port((4,)),),
        (Call("torch.add", {}, (ValueRef(0, (0,)), ValueRef(0, (1,)))),),
        ValueRef(1),
    )
    network = plain(describe([layer(both)]))
    assert network["inputs"][1] == {"shape": [2, 4], "dtype": "int64", "grad": False, "below": 9}
    assert network["calls"][0]["inputs"] == [{"value": 0}, {"value": 1}]


def test_a_module_that_runs_again_is_one() -> None:
    square = {"in_features": 4, "out_features": 4}
    port = (Port((4,)),)
    plain_end = Structure(port, port, (Call("Tanh", {}, (ValueRef(0),)),), ValueRef(1))
    twice = Structure(
        port,
        port,
        (Call("Linear", square, (ValueRef(0),)), Call("Linear", square, (ValueRef(1),), again=1)),
        ValueRef(2),
    )
    network = plain(describe([layer(plain_end), layer(twice)]))
    assert [call.get("again") for call in network["calls"]] == [None, None, 2]
    for built in (Built(network), runner().Network(**network)):
        assert sum(p.numel() for p in built.parameters()) == 4 * 4 + 4
        assert built(*data(network)).shape == (2, 4)
