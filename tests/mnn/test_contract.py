"""MNN does what every runtime must do."""

from __future__ import annotations

from torch import nn

from frameworks.contract import RuntimeContract
from programs.networks import layers_of

GROUPED = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(4 * 6 * 6, 3))


class TestMnn(RuntimeContract):
    name = "mnn"
    models = ("zoo:lenet5", "zoo:har", "zoo:lstm")
    untrainable = (layers_of(GROUPED, "4x8x8")[0], "Conv2d")
