"""Models in other precisions are read, built, trained and named as what they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ampere.core.inputs import parse_inputs
from ampere.core.training import Training
from ampere.core.variants import Variant, isolate
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.frameworks.models import plan_variants
from ampere.pytorch.models import read
from ampere.pytorch.runtime.builder import build
from ampere.pytorch.runtime.trainer import dtype_of, make_trainer


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )


def test_a_bfloat16_model_is_called_and_trained_bfloat16() -> None:
    layers = read(net().bfloat16(), (3, 8, 8))
    assert all(" bfloat16 " in layer.kind.name for layer in layers)
    assert {p.dtype for p in build(layers).parameters()} == {torch.bfloat16}
    trainer = make_trainer(Workload(layers), Settings())
    assert trainer.args[0].dtype is torch.bfloat16
    trainer.step()
    plain = read(net(), (3, 8, 8))
    halves = [a.features.parameter_bytes / b.features.parameter_bytes
              for a, b in zip(layers, plain, strict=True)]  # fmt: skip
    assert halves == [0.5] * 3


def test_every_variant_of_a_bfloat16_model_trains() -> None:
    plan = plan_variants(read(net().bfloat16(), (3, 8, 8)))
    for isolation in plan.isolations:
        variant: Variant = isolate(isolation, {name: high for name, (_, high) in
                                               isolation.bounds.items()})  # fmt: skip
        trainer = make_trainer(Workload(variant.layers), Settings())
        assert dtype_of(trainer.model) == "bfloat16"
        trainer.step()


def test_a_precision_that_is_asked_for_is_the_models() -> None:
    model = net()
    asked = read(model, (3, 8, 8), Training(dtype="bfloat16"))
    assert asked == read(net().bfloat16(), (3, 8, 8))
    assert dtype_of(model) == "float32"  # the user's own is left alone
    spec = ModelSpec("zoo:lenet5", training=Training(dtype="bfloat16"))
    trainer = make_trainer(Workload(model=spec), Settings())
    assert dtype_of(trainer.model) == "bfloat16"
    trainer.step()


@pytest.mark.parametrize("amp", [False, True])
def test_mixed_precision_is_part_of_the_kind(amp: bool) -> None:
    layers = read(net(), (3, 8, 8), Training(amp=amp))
    assert all((" float32+amp " in layer.kind.name) is amp for layer in layers)
    trainer = make_trainer(Workload(layers), Settings())
    with trainer._autocast():
        output = trainer.model(*trainer.args)
    assert (output.dtype is torch.bfloat16) is amp


def test_most_parameters_decide() -> None:
    mixed = net().bfloat16()
    mixed[1].float()
    assert dtype_of(mixed) == "bfloat16"
    assert dtype_of(nn.ReLU()) == "float32"
    assert parse_inputs("3x8x8").positional[0].dtype == "float32"
