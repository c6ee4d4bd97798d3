"""Training steps of whatever a workload describes: inputs, outputs, losses, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, Role
from ampere.core.training import Training
from ampere.core.variants import isolate
from ampere.core.workloads import REFERENCE, ModelSpec, Settings, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import plan_variants
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.runtime.trainer import OPTIMIZERS, Trainer, make_trainer

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    input = "4, ids=3:int64<7, mask=3:bool"

    def __init__(self):
        super().__init__()
        self.one, self.table, self.head = nn.Linear(4, 6), nn.Embedding(7, 6), nn.Linear(6, 3)

    def forward(self, x, *, ids, mask):
        assert x.shape == (5, 4) and ids.shape == mask.shape == (5, 3) and mask.dtype == torch.bool
        tokens = (self.table(ids) * mask[:, :, None]).sum(1)
        return {"scores": self.head(self.one(x) + tokens), "tokens": tokens, "ids": ids}

class Frozen(Net):
    def forward(self, x, *, ids, mask):
        with torch.no_grad():
            return super().forward(x, ids=ids, mask=mask)

def own(output):
    return output["scores"].mean()
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return path


def weights(trainer: Trainer) -> list[Tensor]:
    return [p.detach().clone() for p in trainer.model.parameters()]


def changed(trainer: Trainer, before: Sequence[Tensor]) -> list[bool]:
    return [not torch.equal(a, b) for a, b in zip(before, weights(trainer), strict=True)]


def chain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def layers(**settings: Any) -> tuple[Layer, ...]:
    return read_layers(chain(), parse_inputs("4"), Training(7, **settings))


# --- models by name ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["auto", "mse", "cross_entropy", "bce", "sum"])
def test_a_model_with_several_inputs_and_outputs_trains(models: Path, loss: str) -> None:
    spec = ModelSpec(f"{models}:Net", training=Training(5, loss=loss))
    trainer = make_trainer(Workload(model=spec), Settings())
    assert len(trainer.args) == 1 and set(trainer.kwargs) == {"ids", "mask"}
    before = weights(trainer)
    trainer.step()
    assert all(changed(trainer, before))


def test_the_users_loss_is_what_a_model_is_trained_with(models: Path) -> None:
    spec = ModelSpec(f"{models}:Net", training=Training(5, loss=f"{models}:own"))
    trainer = make_trainer(Workload(model=spec), Settings())
    before = weights(trainer)
    trainer.step()
    *_, bias = weights(trainer)
    # The mean of three scores moves each bias by a third of the learning rate.
    assert torch.allclose(bias, before[-1] - 1e-3 / 3)


def test_inputs_of_a_model_are_said_by_the_spec(models: Path) -> None:
    text = "4, ids=3:int64<1, mask=3:bool"
    trainer = make_trainer(
        Workload(model=ModelSpec(f"{models}:Net", text, Training(5))), Settings()
    )
    assert not trainer.kwargs["ids"].any()


def test_a_model_without_any_gradient_is_refused(models: Path) -> None:
    spec = ModelSpec(f"{models}:Frozen", training=Training(5))
    with pytest.raises(ModelError, match="returns has a gradient: there is no training"):
        make_trainer(Workload(model=spec), Settings())


def test_the_reference_trains() -> None:
    trainer = make_trainer(REFERENCE, Settings())
    before = weights(trainer)
    trainer.step()
    assert all(changed(trainer, before))


# --- networks of layers --------------------------------------------------------------------------


def test_the_loss_of_layers_is_what_their_last_layer_says(models: Path) -> None:
    head = [(layer.kind.role, layer.kind.attributes.get("loss")) for layer in layers(loss="sum")]
    assert head == [(Role.FIRST, None), (Role.HIDDEN, None), (Role.LAST, "sum")]
    trainer = make_trainer(Workload(layers(loss="sum")), Settings())
    before = weights(trainer)
    trainer.step()
    assert torch.allclose(weights(trainer)[-1], before[-1] - 7 * 1e-3)  # a batch of 7
    assert "loss" not in layers()[-1].kind.attributes
    assert layers(loss="auto") == layers() != layers(loss="sum")


@pytest.mark.parametrize("part", [slice(0, 1), slice(1, 2), slice(0, 2)])
def test_layers_without_a_last_one_have_no_loss(part: slice) -> None:
    network = layers()[part]
    trainer = make_trainer(Workload(network), Settings())
    assert trainer.loss is None
    (end,) = trainer.forward()
    assert end.shape == (7, 6 if part == slice(0, 1) else 5)
    before = weights(trainer)
    trainer.step()
    assert all(changed(trainer, before))
    (x,) = trainer.args
    assert (x.grad is not None) == (network[0].kind.role is not Role.FIRST)


def test_gradients_are_random_small_and_made_once() -> None:
    trainer = make_trainer(Workload(layers()[1:2]), Settings())
    (gradient,) = trainer.gradients
    assert gradient is not None and gradient.shape == (7, 5)
    assert 0.3 < gradient.std() * gradient.numel() < 3
    state = torch.get_rng_state()
    trainer.step()
    assert torch.equal(torch.get_rng_state(), state)
    for _ in range(300):
        trainer.step()
    assert all(p.isfinite().all() and p.abs().max() < 10 for p in trainer.model.parameters())


class Halves(nn.Module):
    """Splits what it has, and one half skips a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = map(nn.Linear, (4, 6, 4, 4), (6, 8, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.b(self.a(x)).chunk(2, 1)
        return self.d(self.c(left).relu() + right)


def test_what_no_layer_reads_gets_a_gradient_beside_the_loss() -> None:
    network = read_layers(Halves(), parse_inputs("4"), Training(7))
    splits = network[1].kind
    plan = plan_variants(network)
    isolation = next(each for each in plan.isolations if each.kind == splits)
    variant = isolate(isolation, network[1].widths)
    trainer = make_trainer(Workload(variant.layers), Settings())
    assert trainer.loss is not None
    of_loss, of_right = trainer.gradients
    assert of_loss is None
    assert of_right is not None and of_right.shape == (7, 4)
    trainer.step()
    weight = next(trainer.model.parameters())
    assert weight.grad is not None
    (x,) = trainer.args
    assert torch.allclose(weight.grad[4:], of_right.T @ x, atol=1e-6)
    assert weight.grad[:4].abs().sum() > 0  # and from the loss


class Branches(nn.Module):
    """Takes two tensors, one of them in place, and returns several."""

    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(4, 3)
        self.requires_grad_(not frozen)

    def forward(self, x: Tensor, y: Tensor, ids: Tensor) -> Any:
        return self.a(x.relu_()), {"b": self.b(y), "ids": ids, "y": y.detach()}


def branches(**options: Any) -> Trainer:
    x, y = torch.randn(7, 4, requires_grad=True), torch.randn(7, 4)
    ids = torch.zeros(7, 2, dtype=torch.int64)
    frozen = options.pop("frozen", False)
    training = Training(loss=options.pop("loss", "auto"))
    options = {"ends": training.loss != "auto", "copies": True, **options}
    return Trainer(Branches(frozen), ((x, y, ids), {}), training, Settings(), **options)


def test_several_inputs_and_outputs_each_with_a_gradient_of_its_own() -> None:
    trainer = branches()
    of_a, of_b = trainer.gradients
    assert of_a is not None and of_a.shape == (7, 6)
    assert of_b is not None and of_b.shape == (7, 3)
    for _ in range(2):
        trainer.step()
        x, y, ids = trainer.args
        model = trainer.model
        assert isinstance(model, Branches)
        assert y.grad is None and ids.grad is None
        assert model.b.weight.grad is not None and x.grad is not None
        assert torch.allclose(model.b.weight.grad, of_b.T @ y, atol=1e-6)
        assert torch.equal(x.grad == 0, x <= 0)  # of this step alone, and not in place


def test_without_copies_a_leaf_would_be_worked_on_in_place() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        branches(copies=False)


def test_only_what_hands_a_gradient_back_runs_backward() -> None:
    trainer = branches(frozen=True)
    assert trainer.trains
    (gradient,) = trainer.gradients  # through x alone
    assert gradient is not None and gradient.shape == (7, 6)
    trainer.step()
    assert trainer.optimizer is None
    assert trainer.args[0].grad is not None


@pytest.mark.parametrize("ends", [False, True])
def test_what_is_wholly_frozen_only_runs_forward(ends: bool) -> None:
    model = chain().requires_grad_(False)
    trainer = Trainer(model, ((torch.randn(7, 4),), {}), Training(), Settings(), ends=ends)
    assert not trainer.trains
    for stage in ("step", "forward", "backward", "update"):
        trainer.stage(stage)()


def tie(parameter: nn.Parameter) -> nn.Parameter:
    """Mark a parameter as another layer's, as building does."""
    parameter.shared = True
    return parameter


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_tied_weights_of_another_layer_get_a_gradient_and_no_update(optimizer: str) -> None:
    model = chain()
    shared = tie(model.get_parameter("2.weight"))
    trainer = Trainer(model, ((torch.randn(7, 4),), {}), Training(optimizer=optimizer), Settings())
    before = weights(trainer)
    trainer.step()
    assert changed(trainer, before) == [True, True, False, True, True, True]
    assert shared.grad is not None
    once = shared.grad.clone()
    assert once.abs().sum() > 0
    if optimizer == "sgd":
        for p, old in zip(model.parameters(), before, strict=True):
            p.data.copy_(old)
        trainer.step()  # the gradient of this step alone, not of both
        assert torch.allclose(shared.grad, once)


def test_a_model_that_is_all_tied_weights_has_no_optimiser() -> None:
    model = nn.Linear(4, 3)
    for p in model.parameters():
        tie(p)
    trainer = Trainer(model, ((torch.randn(7, 4),), {}), Training(optimizer="adam"), Settings())
    trainer.step()
    assert trainer.optimizer is None and model.weight.grad is not None


@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 2)])
def test_stages_are_parts_of_the_step(part: slice) -> None:
    def trainer() -> Trainer:
        torch.manual_seed(0)
        return make_trainer(Workload(layers()[part]), Settings())

    whole, parts = trainer(), trainer()
    whole.step()
    ends = parts.forward()
    parts.backward(ends)
    assert parts.optimizer is not None
    parts.optimizer.step()
    for a, b in zip(weights(whole), weights(parts), strict=True):
        assert torch.equal(a, b)
    for stage in ("forward", "backward", "update"):
        run = trainer().stage(stage)
        for _ in range(3):
            run()


@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 2)])
def test_mixed_precision(part: slice) -> None:
    trainer = make_trainer(Workload(layers(amp=True)[part]), Settings())
    (gradient,) = trainer.gradients
    assert (gradient is None) == (trainer.loss is not None)
    assert gradient is None or gradient.dtype == torch.bfloat16
    before = weights(trainer)
    trainer.step()
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    assert sum(changed(trainer, before)) > 0


def test_a_loss_that_cannot_be_is_told_when_the_network_is_made() -> None:
    *before, last = layers()
    kind = replace(last.kind, attributes={**last.kind.attributes, "loss": "absent.py:loss"})
    with pytest.raises(ModelError, match="cannot read"):
        make_trainer(Workload((*before, replace(last, kind=kind))), Settings())
    with pytest.raises(ModelError, match="names no loss"):
        branches(loss="magic")


def test_stand_ins_for_the_last_layer_have_its_loss() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 3)
    )
    plan = plan_variants(read_layers(model, parse_inputs("1x8x8"), Training(loss="sum")))
    assert all(each.last for each in plan.isolations if each.kind.role is not Role.LAST)
    last = [each.kind for each in plan.isolations if each.kind.role is Role.LAST]
    assert len(last) > 1
    assert all(kind.attributes["loss"] == "sum" and " sum " in kind.name for kind in last)
