"""FLOPs of grouped convolutions are those of their groups, one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.models import read


def counted(counter: FlopCounterMode, *parts: tuple[nn.Module, torch.Tensor]) -> int:
    with counter:
        for module, x in parts:
            module(x).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("groups", [1, 2, 4, 12])
@pytest.mark.parametrize(
    ("kind", "size", "more"),
    [
        (nn.Conv1d, (15,), {"stride": 2}),
        (nn.Conv2d, (9, 7), {"padding": 1}),
        (nn.Conv3d, (5, 5, 5), {}),
        (nn.ConvTranspose2d, (6, 6), {"stride": 2}),
    ],
)
@pytest.mark.parametrize("first", [False, True], ids=["", "no gradient of the input"])
def test_a_grouped_convolution_is_its_groups_one_after_the_other(
    kind: type[nn.Module], size: tuple[int, ...], more: dict[str, int], groups: int, first: bool
) -> None:
    def made(channels: int, out: int, groups: int) -> tuple[nn.Module, torch.Tensor]:
        module = kind(channels, out, 3, groups=groups, device="meta", **more)
        return module, torch.empty((2, channels, *size), device="meta", requires_grad=not first)

    alone = [made(12 // groups, 24 // groups, 1) for _ in range(groups)]
    expected = counted(FlopCounterMode(display=False), *alone)
    assert counted(flop_counter(), made(12, 24, groups)) == expected


def flops(layers: tuple[Layer, ...]) -> dict[str, float]:
    return {
        work.operation: work.features.flops or 0.0
        for layer in layers
        for work in layer.work
        if work.features.flops
    }


def test_a_layer_beside_a_depthwise_convolution_has_the_flops_that_it_has_alone() -> None:
    """They were shared out over all calls of a block, so that these looked cheap per FLOP."""
    block = nn.Sequential(
        nn.Conv2d(8, 64, 1), nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.Conv2d(64, 8, 1)
    )
    found = flops(read(block, (8, 10, 10), training=Training(2)))
    rows = 2 * 10 * 10
    assert found["convolution"] in (2.0 * rows * 8 * 64 * 2, 2.0 * rows * 8 * 64 * 3)
    assert found["depthwise"] == pytest.approx(2.0 * rows * 64 * 9 * 3, rel=1e-6)
