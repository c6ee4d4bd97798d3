"""The trainer: what it refuses, what its guard catches, and networks that are parts of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ampere.core.inputs import parse_inputs
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.errors import DeviceError, ModelError
from programs.networks import family_layers, layers_of

pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")

from ampere.mnn.engine import RUNTIME
from ampere.mnn.operations import registry
from ampere.mnn.operations.base import Operation
from ampere.mnn.trainer import MnnTrainer
from ampere.programs.wiring import program_of
from ampere.pytorch.graph.model_reading import read_layers

from .cases import Between


@pytest.fixture(autouse=True)
def applied() -> None:
    RUNTIME.apply(Settings(threads=1))


def trainer_of(model: nn.Module, inputs: str, training: Training | None = None) -> MnnTrainer:
    return MnnTrainer(program_of(layers_of(model, inputs, training)))


def test_a_runtime_says_its_version_and_threads() -> None:
    version, threads = RUNTIME.apply(Settings(threads=2))
    assert version.startswith("mnn 3.") and threads == 2
    _, threads = RUNTIME.apply(Settings())
    assert threads >= 1


def test_other_accelerators_models_and_stages_are_refused() -> None:
    with pytest.raises(DeviceError, match="use --accelerator cpu"):
        RUNTIME.apply(Settings(accelerator="cuda"))
    with pytest.raises(ModelError, match="not a model's own code"):
        RUNTIME.trainer(Workload(model=ModelSpec("zoo:lenet5")), Settings())
    trainer = RUNTIME.trainer(Workload(tuple(family_layers("lenet5"))), Settings())
    with pytest.raises(ModelError, match="no stage backward"):
        trainer.stage("backward")
    assert trainer.stage("step")() is None


class Indexed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, [0, 2]]


def over(name: str, make: Callable[[], Any]) -> nn.Module:
    return Between(name, make())


REFUSED = [
    ("maps", lambda: nn.Conv2d(4, 4, 3, groups=2), "2 groups of 2 channels get wrong gradients"),
    ("maps", lambda: nn.Conv2d(4, 4, 3, padding_mode="circular", padding=1), "pad with zeros"),
    ("maps", lambda: nn.MaxPool2d(3, 2, 1), "MaxPool2d in layer 0, stem: its gradients are wrong"),
    ("maps", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), "rounds up"),
    ("maps", lambda: lambda x: F.avg_pool2d(x, 3, 2, 0, True), "has gaps, or rounds"),
    ("maps", lambda: lambda x: F.avg_pool2d(x, 2, 2, 0, False, True, 3), "number of its own"),
    ("maps", lambda: nn.AvgPool2d(2, divisor_override=3), "divides by a number"),
    ("rows", lambda: nn.Softplus(threshold=0.1), "a line from below 20 on"),
    ("rows", lambda: lambda x: torch.div(x, 0.1, rounding_mode="floor") + x, "it rounds"),
    ("maps", lambda: nn.AdaptiveAvgPool2d(3), "no multiple"),
    ("maps", lambda: nn.BatchNorm2d(4, affine=False), "no scale"),
    (
        "maps",
        lambda: nn.Upsample(scale_factor=2),
        "Upsample in layer 0, stem: it has no translation",
    ),
    ("rows", Indexed, "by a list or a tensor"),
    ("rows", lambda: lambda x: x**1.5, "its exponent must be one of"),
    ("tokens", lambda: lambda x: x.max(1).values, "max in layer 1"),
]


@pytest.mark.parametrize(("name", "make", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_mnn_cannot_train_is_refused(name: str, make: Any, why: str) -> None:
    with pytest.raises(ModelError, match=why) as refused:
        trainer_of(over(name, make), {"maps": "3x8x8", "rows": "6", "tokens": "5x6"}[name])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("error", [TypeError("'NoneType' object\nis not"), KeyError()])
def test_what_an_operation_stumbles_over_is_told_with_its_layer(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(call: Any) -> Any:
        raise error

    monkeypatch.setitem(registry.BY_NAME, "relu", Operation(("relu",), stumble, "nothing"))
    with pytest.raises(ModelError, match=r"mnn cannot train .*relu in layer 0, conv1: ") as refused:
        MnnTrainer(program_of(family_layers("lenet5")))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("training", "why"),
    [
        (Training(4, optimizer="adamw"), "no optimizer adamw: use one of sgd, momentum, adam"),
        (Training(4, amp=True), r"trains in float32, not in float32\+amp"),
    ],
)
def test_other_trainings_are_refused(training: Training, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        MnnTrainer(program_of(family_layers("lenet5", training)))


def test_the_guard_refuses_what_would_not_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """As MNN's own wrappers did: a cast, behind which nothing is trained."""
    from ampere.mnn.library import F as mnn  # noqa: N811

    def cast(call: Any) -> Any:
        return mnn.relu(mnn.cast(call.plain_x, mnn.dtype.float), 0.0)

    monkeypatch.setitem(registry.BY_NAME, "relu", Operation(("relu",), cast, "a cast"))
    with pytest.raises(ModelError, match="8 get none") as refused:
        MnnTrainer(program_of(family_layers("lenet5")))
    assert "weight of Conv2d in layer 0, conv1" in str(refused.value)


def test_a_part_of_a_model_starts_from_random_gradients_and_reaches_its_input() -> None:
    layers = family_layers("resnet")[1:3]
    trainer = MnnTrainer(program_of(layers))
    assert "input 0" in trainer.holding.wanted
    trainer.step()
    before = trainer.values()
    trainer.step()
    after = trainer.values()
    assert all((before[key] != after[key]).any() for key in trainer.reach.parameters)


class Dangling(nn.Module):
    """Two heads, one of which is frozen, and a part that has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.frozen = nn.Linear(6, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        return self.head(F.relu(self.frozen(x)) + x.detach()), x.sum(1)


def test_what_is_frozen_stays_and_all_results_have_a_loss() -> None:
    trainer = trainer_of(Dangling(), "6")
    trainer.step()
    before = trainer.values()
    trainer.step()
    after = trainer.values()
    moved = {key for key in before if (before[key] != after[key]).any()}
    assert moved == trainer.reach.parameters and len(moved) == 4
    assert len(trainer._parts) == 2


def test_everything_frozen_runs_forward_only() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).requires_grad_(False)
    trainer = trainer_of(model, "6")
    trainer.step()
    before = trainer.values()
    trainer.step()
    assert before
    assert trainer.optimizer is None
    assert all((before[key] == value).all() for key, value in trainer.values().items())


def test_half_of_the_numbers_are_dropped() -> None:
    layers = read_layers(nn.Sequential(nn.Linear(6, 500), nn.Dropout(0.5)), parse_inputs("6"))
    trainer = MnnTrainer(program_of(layers))
    dropped = np.array(trainer._forward()[-1].read()) == 0
    assert 0.3 < dropped.mean() < 0.7


def test_statistics_of_batches_are_kept_as_torch_keeps_them() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3)
    layers = layers_of(nn.Sequential(norm, nn.Flatten(), nn.Linear(48, 2)), "3x4x4")
    x = np.random.default_rng(0).standard_normal((4, 3, 4, 4)).astype(np.float32) + 1.0
    program = program_of(layers)
    trainer = MnnTrainer(program, data=[x])
    trainer.step()
    norm.train()(torch.from_numpy(x))
    key = next(key for key in trainer.values() if key[2] == "running_mean")
    assert trainer.values()[key] == pytest.approx(norm.running_mean.numpy(), abs=1e-6)
