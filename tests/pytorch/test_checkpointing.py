"""Checkpointed blocks run forward twice: their layers say so, and are counted and built so."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ampere.core.layers import CHECKPOINTED, Layer
from ampere.core.workloads import Settings, Workload
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.models import make_slimmer, read
from ampere.pytorch.runtime.builder import Checkpointed, build_layer
from ampere.pytorch.runtime.trainer import make_trainer
from ampere.pytorch.work.sums import forward_again

INPUT = (3, 8, 8)
kept: Any = lambda block, x: block(x)  # noqa: E731
MANNERS = [partial(checkpoint, use_reentrant=reentrant) for reentrant in (False, True)]


class Net(nn.Module):
    """Two convolutions in a block that may be checkpointed, one before, a linear layer behind."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
        )
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.run(self.block, self.first(x)).mean((2, 3)))
        return y


def flops(layers: tuple[Layer, ...]) -> float:
    return sum((layer.features.flops or 0.0) * layer.count for layer in layers)


@pytest.mark.parametrize("manner", MANNERS)
def test_layers_of_a_checkpointed_block_say_so(manner: Any) -> None:
    layers, plain = read(Net(manner), INPUT), read(Net(kept), INPUT)
    marked = [bool(layer.kind.attributes.get(CHECKPOINTED)) for layer in layers]
    assert marked == [False, True, True, False]
    assert [" checkpointed #" in layer.kind.name for layer in layers] == marked
    assert [layer.kind for layer in layers] != [layer.kind for layer in plain]
    assert (layers[0].kind, layers[3].kind) == (plain[0].kind, plain[3].kind)


@pytest.mark.parametrize("manner", [kept, *MANNERS])
def test_flops_are_those_of_a_real_step(manner: Any) -> None:
    model = Net(manner)
    layers = read(model, INPUT)
    with flop_counter() as counter:
        model(torch.randn(10, *INPUT)).sum().backward()
    assert flops(layers) == counter.get_total_flops()
    for layer in layers:
        assert sum((w.features.flops or 0) * w.count for w in layer.work) == layer.features.flops


def test_what_is_built_runs_twice_too() -> None:
    layers = read(Net(MANNERS[0]), INPUT)
    assert isinstance(build_layer(layers[1]), Checkpointed)
    trainer = make_trainer(Workload(layers), Settings())
    with flop_counter() as counter:
        trainer.step()
    assert counter.get_total_flops() == flops(layers)


def test_a_checkpointed_model_is_cut_as_the_model() -> None:
    slim = make_slimmer(Net(MANNERS[0]), INPUT).slim({"block.0.out": 4})
    assert slim.model.block[0].out_channels == 4


def test_torch_is_as_it_was_after_reading() -> None:
    from torch.utils import checkpoint as module

    before = module._checkpoint_without_reentrant_generator
    read(Net(MANNERS[0]), INPUT)
    assert module._checkpoint_without_reentrant_generator is before


def test_calls_of_the_second_pass_are_forward_alone() -> None:
    block = read(Net(kept), INPUT)[1]
    for work in block.work:
        again = forward_again(work)
        if "passes" in work.attributes:
            assert again.attributes["passes"] == 1
            assert again.features.flops == (work.features.flops or 0) / work.attributes["passes"]
        assert again.count * (again.features.activation_bytes or 0) <= work.count * (
            work.features.activation_bytes or 0
        )
