"""Names and attributes of kinds: what people read, and what is held fixed."""

from __future__ import annotations

import pytest
from torch import nn

from ampere.core.layers import LayerKind
from ampere.core.training import Training
from ampere.pytorch.models import read


def first_kind(*modules: nn.Module, input: str, training: Training = Training(8)) -> LayerKind:
    return read(nn.Sequential(*modules, nn.Linear(5, 2)), input, training)[0].kind


def test_a_name_says_role_operations_input_and_training() -> None:
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten())  # these lead into the last layer
    kind = first_kind(nn.Conv2d(3, 5, (3, 1)), nn.ReLU(), *pooled, input="3x6x7")
    role, label, where, *trained = kind.name.split()
    assert (role, label) == ("first", "conv2d3x1+relu")
    assert where == "@3x6x7" and trained[:3] == ["b8", "float32", "sgd"]
    assert trained[-1].startswith("#")
    assert kind.operation == "conv2d"
    assert (kind.attributes["height"], kind.attributes["width"]) == (6, 7)


def test_frozen_layers_say_so() -> None:
    linear = nn.Linear(4, 5).requires_grad_(False)
    assert " frozen #" in first_kind(linear, nn.ReLU(), input="4").name
    assert " frozen" not in first_kind(nn.Linear(4, 5), nn.ReLU(), input="4").name


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_another_optimizer_is_another_kind(optimizer: str) -> None:
    kinds = [
        first_kind(nn.Linear(4, 5), input="4", training=Training(8, name))
        for name in ("sgd", optimizer)
    ]
    assert f" {optimizer} " in kinds[1].name
    assert kinds[0].name != kinds[1].name
