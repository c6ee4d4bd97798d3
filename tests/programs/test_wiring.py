"""Layers as one list of calls: each is given what it would be given in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from ampere.core.layers import Role
from ampere.core.program.terms import DType, InputDevice, MemoryFormat, ValueRef
from ampere.core.program.trees import map_leaves
from ampere.core.training import Training
from ampere.core.workloads import Settings
from ampere.errors import ModelError
from ampere.programs.gradients import reach_of
from ampere.programs.program import Step, pick, run
from ampere.programs.wiring import program_of
from ampere.pytorch.runtime.builder import dtype_named, network_inputs
from ampere.pytorch.runtime.functions import find_function
from ampere.pytorch.runtime.trainer import Trainer
from reference_models import REFERENCES

from .networks import built, family_layers, layers_of

NAMES = sorted(set(REFERENCES) - {"inplace"})  # it writes through a view
SMALL = 16


def reference_layers(name: str) -> Any:
    reference = REFERENCES[name]
    return layers_of(reference.build(SMALL), reference.inputs)


def test_numbers_count_through_all_layers() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 5))
    program = program_of(layers_of(net, "3x8x8"))
    assert [step.op for step in program.steps] == ["Conv2d", "ReLU", "Flatten", "Linear"]
    assert [step.sources for step in program.steps] == [
        (ValueRef(0, (0,)),), (ValueRef(1),), (ValueRef(2),), (ValueRef(3),)
    ]  # fmt: skip
    assert program.result == ValueRef(4) and program.ends_in_loss
    assert program.steps[0].arguments["in_channels"] == 3
    assert [each.shape for each in program.held] == [(4, 3, 3, 3), (4,), (5, 144), (5,)]
    assert program.inputs[0].shape == (4, 3, 8, 8)


def torch_apply(held: Mapping[Any, Any], modules: Mapping[Any, nn.Module]) -> Any:
    """Steps run by torch itself, so that wiring alone is looked at."""

    def leaf(part: Any) -> Any:
        if isinstance(part, DType):
            return dtype_named(part.name)
        if isinstance(part, MemoryFormat):
            return getattr(torch, part.name)
        return torch.device("cpu") if isinstance(part, InputDevice) else part

    def apply(step: Step, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if step.op in ("parameter", "buffer"):
            return held[step.held[0].key]
        args, options = map_leaves(leaf, args), map_leaves(leaf, options)
        if step.in_place:  # values do not change here
            args = (args[0].clone(), *args[1:])
        first = step.held[0].key[:2] if step.held else step.at
        function = modules.get(first) or modules.get(step.at) or find_function(step.op)
        result = function(*args, **options)
        return args[0] if result is None else result

    return apply


def modules_of(layers: Any, network: nn.Module) -> dict[tuple[int, int], nn.Module]:
    from ampere.core.layers import structure_of
    from ampere.pytorch.runtime.builder import modules_in

    pieces = [network] if len(layers) == 1 else list(getattr(network, "pieces", network.children()))
    return {
        (i, k): module
        for i, (layer, piece) in enumerate(zip(layers, pieces, strict=True))
        for k, module in modules_in(piece, structure_of(layer.kind)).items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_the_network_does(name: str) -> None:
    layers = reference_layers(name)
    program = program_of(layers)
    network, held = built(layers)
    network.eval()
    args = [x.detach() for x in network_inputs(layers)]
    with torch.no_grad():
        whole = network(*[x.clone() for x in args])
        values = run(program, args, torch_apply(held, modules_of(layers, network)))
        result = pick(values, program.result)
        rest = [pick(values, ref) for ref in program.dangling]
    if getattr(network, "dangling", None):
        whole, others = whole
        torch.testing.assert_close(tuple(rest), tuple(others))
    torch.testing.assert_close(result, whole)


@pytest.mark.parametrize("name", NAMES)
def test_what_gets_a_gradient_is_what_gets_one_in_torch(name: str) -> None:
    layers = reference_layers(name)
    reach = reach_of(program_of(layers))
    network, held = built(layers)
    in_place = any(call.works_in_place for call in layers[0].kind.structure.calls)
    trainer = Trainer(
        network,
        (network_inputs(layers), {}),
        Training(4),
        Settings(),
        ends=layers[-1].kind.role is Role.LAST,
        copies=in_place,
    )
    trainer.backward(trainer.forward())
    assert reach.parameters == {key for key, p in held.items() if p.grad is not None}


def test_layers_without_a_loss_and_with_a_gradient_of_the_input() -> None:
    layers = family_layers("resnet")[1:3]
    program = program_of(layers)
    reach = reach_of(program)
    assert not program.ends_in_loss and reach.inputs == (0,) and len(reach.ends) == 1


class Overwritten(nn.Module):
    def __init__(self, through_a_view: bool) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(6, 6), nn.Linear(6, 3)
        self.through_a_view = through_a_view

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        part = x[:, :3] if self.through_a_view else x
        part.mul_(2.0)
        return self.head(x)


def test_who_reads_a_value_that_was_overwritten_is_given_the_new_one() -> None:
    program = program_of(layers_of(Overwritten(False), "6"))
    ops = [step.op.rpartition(".")[2] for step in program.steps]
    assert program.steps[ops.index("mul_") + 1].sources == (ValueRef(ops.index("mul_") + 1),)


def test_writing_through_a_view_is_refused() -> None:
    with pytest.raises(ModelError, match="writes through a view"):
        program_of(layers_of(Overwritten(True), "6"))
    with pytest.raises(ModelError, match="writes through a view"):
        program_of(reference_layers("inplace"))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x * torch.sigmoid(self.linear(torch.relu(self.linear(x)))))


def test_what_another_layer_holds_is_shared() -> None:
    program = program_of(layers_of(Twice(), "6"))
    assert [held.shared for held in program.held] == [False, False, True, True, False, False]
    assert all(held.trains for held in program.held)


class Again(nn.Module):
    """Twice through one activation with weights, inside one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.head = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(torch.relu(self.norm(self.linear(x)))))


def test_a_module_that_runs_again_holds_what_it_held() -> None:
    program = program_of(layers_of(Again(), "6"))
    norms = [step for step in program.steps if step.op == "LayerNorm"]
    assert len(norms) == 2
    assert norms[0].held == norms[1].held
    assert norms[1].key("weight") == (*norms[0].at, "weight") != (*norms[1].at, "weight")
