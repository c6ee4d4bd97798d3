"""Names and attributes of kinds: what people read, and what is held fixed."""

from __future__ import annotations

import pytest
import torch
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


class Category(nn.Module):
    """Numbers beside one category for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.table = nn.Linear(6, 8), nn.Embedding(9, 8)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, category: torch.Tensor) -> torch.Tensor:
        both = (self.numbers(x).relu(), self.table(category[:, 0]))
        return self.head(torch.cat(both, dim=-1))  # type: ignore[no-any-return]


def test_a_table_may_be_read_at_one_place_for_each_sample() -> None:
    layers = read(Category(), "6, 1:int64<9", Training(8))
    table = layers[1].kind
    assert table.operation == "embedding" and "length" not in table.attributes
