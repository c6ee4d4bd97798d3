"""Human activity recognition from windows of 128 samples of 9 motion signals."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class HAR(nn.Module):
    """Three 1-D convolutions, each halving the window, a hidden layer and a head of 6 classes."""

    def __init__(self, channels: Sequence[int], hidden: Sequence[int]) -> None:
        super().__init__()
        c1, c2, c3 = channels
        (h1,) = hidden
        self.features = nn.Sequential(
            nn.Conv1d(9, c1, 9, padding=4),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(c1, c2, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(c2, c3, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(c3 * 16, h1),
            nn.ReLU(),
            nn.Linear(h1, 6),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of windows."""
        x = self.classifier(self.features(x))
        return x
