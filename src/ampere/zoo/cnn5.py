"""The paper's 5-layer CNN for 32×32 colour images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class CNN5(nn.Module):
    """Four convolutions, each halving the image, and a head of 10 classes."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        c1, c2, c3, c4 = channels
        self.conv1 = nn.Conv2d(3, c1, 3, padding=1)
        self.conv2 = nn.Conv2d(c1, c2, 3, padding=1)
        self.conv3 = nn.Conv2d(c2, c3, 3, padding=1)
        self.conv4 = nn.Conv2d(c3, c4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(c4 * 2 * 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.pool(F.relu(self.conv3(x)))
        x = self.pool(F.relu(self.conv4(x)))
        x = self.fc(torch.flatten(x, 1))
        return x
