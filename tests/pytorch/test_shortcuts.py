"""Stand-ins on the meta device: the shapes and gradients of what they stand in for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ampere.pytorch.graph.shortcuts import QuickNorms, quick, run_quickly

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch": (lambda: nn.BatchNorm2d(6), (4, 6, 5, 5)),
    "instance": (lambda: nn.InstanceNorm1d(6, affine=True), (4, 6, 5)),
    "group": (lambda: nn.GroupNorm(3, 6), (4, 6, 5)),
    "layer": (lambda: nn.LayerNorm((5, 6)), (4, 5, 6)),
    "root mean square": (lambda: nn.RMSNorm(6), (4, 5, 6)),
    "lstm": (lambda: nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True), (4, 5, 6)),
    "gru": (lambda: nn.GRU(6, 7), (5, 4, 6)),
}


def shapes(result: Any) -> Any:
    if isinstance(result, Tensor):
        return tuple(result.shape), result.requires_grad
    return tuple(map(shapes, result))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_delivers_the_same_shapes_with_gradients(name: str) -> None:
    build, shape = MODULES[name]
    real, meta = build(), build().to("meta")
    result = run_quickly(meta, meta.forward)(torch.empty(shape, device="meta"))
    assert shapes(result) == shapes(real(torch.ones(shape)))


def test_a_tensor_with_numbers_is_worked_out() -> None:
    norm = nn.LayerNorm(6)
    x = torch.arange(12.0).reshape(2, 6)
    assert torch.equal(run_quickly(norm, norm.forward)(x), norm(x))
    assert quick(functional.layer_norm, (x, (6,))) is functional.layer_norm


def test_modules_and_functions_without_a_stand_in_are_left_alone() -> None:
    linear = nn.Linear(2, 2)
    assert run_quickly(linear, linear.forward) == linear.forward
    x = torch.empty(2, 2, device="meta")
    assert quick(functional.relu, (x,)) is functional.relu

    def layer_norm(x: Tensor) -> Tensor:  # another function of the same name
        return x

    assert quick(layer_norm, (x,)) is layer_norm


def test_functions_are_replaced_inside_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(4, 6, device="meta", requires_grad=True)
    weight = torch.empty(6, device="meta", requires_grad=True)
    native: list[str] = []
    real = torch.layer_norm

    def noticed(*args: Any, **options: Any) -> Tensor:
        native.append("layer_norm")
        return real(*args, **options)

    monkeypatch.setattr(torch, "layer_norm", noticed)
    functional.layer_norm(x, (6,), weight)
    assert native == ["layer_norm"]
    with QuickNorms():
        result = functional.layer_norm(x, (6,), weight)
    assert native == ["layer_norm"]
    assert shapes(result) == ((4, 6), True)
