"""ResNets for 32×32 colour images: three stages of basic or bottleneck blocks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ampere.errors import ModelError

EXPANSION = 4


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Nothing where the shape stays, otherwise a projection."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
    )


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    convolutions = 2

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps, smaller by the stride."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3×3 convolution between two 1×1 ones at a quarter of the width, beside a shortcut."""

    convolutions = 3

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        if outputs % EXPANSION:
            raise ModelError(f"width {outputs} of bottlenecks must be a multiple of {EXPANSION}")
        middle = outputs // EXPANSION
        self.conv1 = nn.Conv2d(inputs, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps, smaller by the stride."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + self.shortcut(x))


BLOCKS: dict[str, type[BasicBlock] | type[Bottleneck]] = {
    "basic": BasicBlock,
    "bottleneck": Bottleneck,
}


class ResNet(nn.Module):
    """A stem, three stages of blocks, and a head of 10 classes.

    `widths` are what the stages put out, `blocks` how many blocks each has. Without `blocks` all
    have the same number, such that stem, blocks and head are `depth` layers.
    """

    def __init__(
        self, widths: Sequence[int], depth: int, blocks: Sequence[int] | None, block: str
    ) -> None:
        super().__init__()
        if block not in BLOCKS:
            raise ModelError(f"no block {block!r}; use {' or '.join(BLOCKS)}")
        kind = BLOCKS[block]
        if blocks is None:
            per_stage, rest = divmod(depth - 2, 3 * kind.convolutions)
            if rest or per_stage < 1:
                depths = ", ".join(str(3 * kind.convolutions * n + 2) for n in range(1, 6))
                raise ModelError(f"no depth {depth} with {block} blocks; use {depths}, ...")
            blocks = [per_stage] * 3
        if len(blocks) != 3 or min(blocks) < 1:
            raise ModelError(f"blocks={blocks} must be three numbers from 1, e.g. blocks=[3, 3, 3]")
        self.conv = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(widths[0])
        self.stages = nn.Sequential()
        inputs = widths[0]
        for width, count, stride in zip(widths, blocks, (1, 2, 2), strict=True):
            stage = nn.Sequential(kind(inputs, width, stride))
            stage.extend(kind(width, width, 1) for _ in range(count - 1))
            self.stages.append(stage)
            inputs = width
        self.fc = nn.Linear(inputs, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = F.relu(self.bn(self.conv(x)))
        x = self.stages(x)
        x = F.adaptive_avg_pool2d(x, 1)
        x = self.fc(torch.flatten(x, 1))
        return x
