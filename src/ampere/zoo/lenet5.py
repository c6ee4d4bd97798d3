"""LeNet-5 for 28×28 grey images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class LeNet5(nn.Module):
    """Two convolutions, two hidden linear layers and a head of 10 classes."""

    def __init__(self, channels: Sequence[int], hidden: Sequence[int]) -> None:
        super().__init__()
        c1, c2 = channels
        h1, h2 = hidden
        self.conv1 = nn.Conv2d(1, c1, 5, padding=2)
        self.conv2 = nn.Conv2d(c1, c2, 5)
        self.fc1 = nn.Linear(c2 * 5 * 5, h1)
        self.fc2 = nn.Linear(h1, h2)
        self.fc3 = nn.Linear(h2, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = self.fc3(x)
        return x
