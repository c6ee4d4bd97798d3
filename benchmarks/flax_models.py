"""Models of flax.nnx that are not in the zoo, at sizes that are worth metering."""

from __future__ import annotations

import sys
from pathlib import Path

from flax import nnx

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from nnx_models import Recurrent, ResidualCNN, Transformer  # those that tests read


def residual() -> nnx.Module:
    """Convolutions beside shortcuts."""
    return ResidualCNN(24, rngs=nnx.Rngs(0))


def transformer() -> nnx.Module:
    """Attention over tokens."""
    return Transformer(256, 3, rngs=nnx.Rngs(0))


def recurrent() -> nnx.Module:
    """A GRU along a sequence."""
    return Recurrent(128, rngs=nnx.Rngs(0))
