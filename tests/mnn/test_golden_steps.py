"""One step of MNN from the same weights and data is torch's, for each operation and family."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import Settings
from ampere.mnn.operations.registry import BY_NAME
from ampere.programs.wiring import program_of
from ampere.zoo.families import family_names
from programs.golden import Golden, errors, golden_step
from programs.networks import built, family_layers, layers_of

from .cases import CASES, SMALL_FAMILIES, Case

pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")

RATE = 10.0  # a step so long that what is rounded away does not count
# Other names of the same functions, which torch's tracer does not write for these models.
ALIASES = """clip clamp_ clamp_min elu_ leaky_relu_ hardtanh_ sigmoid_ tanh_ hardsigmoid hardswish
    __iadd__ __isub__ __imul__ __itruediv__ __rmatmul__ subtract multiply divide true_divide __abs__
    masked_fill_ type_as concat split_with_sizes broadcast_to expand_as swapaxes swapdims unflatten
    ravel mm embedding Dropout Identity __add__ __ge__ __gt__ __le__ __lt__ __matmul__ __mul__
    __neg__ __radd__ __rmul__ __sub__ __truediv__ eq reshape to"""


@functools.cache
def layers_for(case: Case) -> list[Layer]:
    return layers_of(case.model(), case.inputs)


@pytest.fixture(autouse=True)
def applied() -> None:
    from ampere.mnn.engine import RUNTIME

    RUNTIME.apply(Settings(threads=1))


def stepped(golden: Golden, rate: float, steps: int = 1) -> dict[Any, Any]:
    from ampere.mnn.trainer import MnnTrainer

    trainer = MnnTrainer(golden.program, golden.values, golden.data, golden.targets, rate)
    for _ in range(steps):
        trainer.step()
    return trainer.values()


def worst(layers: list[Layer]) -> float:
    golden = golden_step(layers)
    return max(errors(golden, stepped(golden, RATE), RATE).values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operation_is_trained_as_by_torch(case: Case) -> None:
    assert worst(layers_for(case)) < case.tolerance


@pytest.mark.parametrize("name", family_names())
def test_a_family_is_trained_as_by_torch(name: str) -> None:
    error = worst(family_layers(name, Training(4), **SMALL_FAMILIES.get(name, {})))
    assert error < (2e-3 if name == "transformer" else 2e-5)  # by its GELU


def test_every_operation_has_a_case() -> None:
    programs = [program_of(layers_for(case)) for case in CASES]
    programs += [program_of(family_layers(name)) for name in family_names()]
    met = {step.op.rpartition(".")[2] for program in programs for step in program.steps}
    assert set(BY_NAME) - met == set(ALIASES.split())


@pytest.mark.parametrize(("name", "rate"), [("momentum", 1e-2), ("adam", 1e-4)])
def test_other_optimisers_go_where_those_of_torch_go(name: str, rate: float) -> None:
    golden = golden_step(family_layers("lenet5", Training(4, optimizer=name)))
    layers = family_layers("lenet5")
    network, held = built(layers)
    for key, tensor in held.items():
        tensor.data.copy_(torch.from_numpy(golden.values[key]))
    made = {"momentum": lambda p: torch.optim.SGD(p, lr=rate, momentum=0.9),
            "adam": lambda p: torch.optim.Adam(p, lr=rate)}  # fmt: skip
    optimizer = made[name](network.parameters())
    (x,), (labels,) = golden.data, golden.targets
    for _ in range(3):
        optimizer.zero_grad()
        out = network(torch.from_numpy(x))
        torch.nn.functional.cross_entropy(out, torch.from_numpy(labels)).backward()
        optimizer.step()
    after = stepped(golden, rate, steps=3)
    for key, tensor in held.items():
        # A gradient of nothing becomes a step of Adam all the same, in a direction that chance has.
        moved = np.abs(golden.gradients[key]) > 1e-4
        torch_moved = (tensor.detach().numpy() - golden.values[key])[moved]
        mnn_moved = (after[key] - golden.values[key])[moved]
        if torch_moved.size:
            error = np.linalg.norm(mnn_moved - torch_moved) / np.linalg.norm(torch_moved)
            assert error < 2e-2
