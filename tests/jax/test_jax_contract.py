"""JAX does what every runtime must do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from torch import nn

from frameworks.contract import RuntimeContract
from programs.networks import layers_of

POOLED = nn.Sequential(nn.Conv2d(4, 4, 3), nn.LPPool2d(2, 2), nn.Flatten(), nn.Linear(36, 3))


@pytest.fixture(autouse=True)
def cores() -> Iterator[None]:
    """One thread keeps the process on one core: others get theirs back."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


class TestJax(RuntimeContract):
    name = "jax"
    models = ("zoo:lenet5", "zoo:lstm")
    untrainable = (layers_of(POOLED, "4x8x8")[0], "LPPool2d")
