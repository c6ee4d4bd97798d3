"""Bytes of a training step, against sums by hand and against what torch allocates."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.errors import ModelError
from ampere.pytorch.memory import KEPT, step_memory
from ampere.pytorch.models import read
from ampere.pytorch.runtime.trainer import OPTIMIZERS, Trainer, make_trainer


def test_a_linear_layer_by_hand() -> None:
    """Weights and batch; then what comes out, and gradients as they are made."""
    layers = read(nn.Linear(100, 10, bias=False), (100,), Training(7, "adam"))
    memory = step_memory(layers)
    weights, batch = 4 * 1000, 4 * 700
    assert memory.parameters == weights + batch
    assert memory.optimizer_state == 2 * weights
    assert 4 * 70 + weights <= memory.working <= 3 * 4 * 70 + weights + 8
    assert memory.total == memory.parameters + memory.optimizer_state + memory.working


def test_every_optimiser_keeps_what_it_is_said_to() -> None:
    assert set(KEPT) == set(OPTIMIZERS)
    for name, make in OPTIMIZERS.items():
        weight = nn.Parameter(torch.ones(1000))
        optimizer = make([weight])
        weight.sum().backward()
        optimizer.step()
        kept = [x for x in optimizer.state[weight].values() if isinstance(x, torch.Tensor)]
        assert sum(x.numel() for x in kept if x.numel() > 1) == KEPT[name] * 1000, name


def test_what_is_frozen_has_no_state() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    whole = step_memory(read(model, (64,), Training(2, "adam")))
    model[0].requires_grad_(False)
    frozen = step_memory(read(model, (64,), Training(2, "adam")))
    assert frozen.parameters == whole.parameters
    assert whole.optimizer_state - frozen.optimizer_state == 2 * 4 * (64 * 64 + 64)
    assert frozen.working < whole.working


def test_activations_grow_with_the_batch() -> None:
    small, large = (step_memory(read("zoo:cnn5", None, Training(n))) for n in (8, 16))
    assert large.working / small.working == pytest.approx(2, rel=0.15)
    assert large.optimizer_state == small.optimizer_state == 0


def allocated(trainer: Trainer) -> int:
    """The peak of a second step, in which the optimiser has its state already."""
    trainer.step()
    assert trainer.optimizer is not None
    state = [x for kept in trainer.optimizer.state.values() for x in kept.values()]
    held = [*trainer.model.parameters(), *trainer.model.buffers(), *trainer.args, *state]
    now = peak = sum(x.numel() * x.element_size() for x in held if isinstance(x, torch.Tensor))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        trainer.step()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize("model", ["zoo:cnn5", "zoo:resnet", "zoo:transformer"])
def test_it_is_near_what_torch_allocates(model: str) -> None:
    training = Training(8, "momentum")
    trainer = make_trainer(Workload(model=ModelSpec(model, None, training)), Settings(threads=1))
    said = step_memory(read(model, None, training)).total
    assert said == pytest.approx(allocated(trainer), rel=0.15)


def test_layers_of_a_file_cannot_be_built() -> None:
    row = {"kind": "conv", "attributes": {"batch": 8, "optimizer": "sgd"}}
    with pytest.raises(ModelError, match="no structure to build it from"):
        step_memory([Layer.from_json(row)])


def test_an_optimiser_that_is_not_known_is_named() -> None:
    row = {"kind": "conv", "attributes": {"batch": 8, "optimizer": "lion"}}
    with pytest.raises(ModelError, match="what 'lion' keeps is not known"):
        step_memory([Layer.from_json(row)])
