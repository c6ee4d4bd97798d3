"""Dice: sizes and company by chance."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ampere.core.inputs import Inputs
from ampere.core.training import Training
from ampere.pytorch.generator.blocks import ACTIVATIONS

OPTIMIZERS = ("sgd", "sgd", "momentum", "adam", "adamw", "adamw", "rmsprop")


@dataclass(frozen=True)
class Drawn:
    """A network, what it is fed, and how it is trained."""

    model: nn.Module
    inputs: Inputs
    training: Training


def octaves(rng: random.Random, low: float, high: float, step: int = 1) -> int:
    """A whole number, each octave as likely as any other."""
    high = max(high, low)
    drawn = 2 ** rng.uniform(math.log2(low), math.log2(high))
    return max(round(drawn / step) * step, step)


@dataclass(frozen=True)
class Dice:
    """What chance decides; a block that can be repeated stands `again` times in a row."""

    rng: random.Random
    again: int = 1

    def width(self, low: float, high: float) -> int:
        """Channels: mostly multiples of 8, as people choose them."""
        step = self.rng.choice((1, 4, 8, 8, 16, 16, 32)) if high > 16 else 1
        low = max(low, high / 8)  # a step that affords more shall take more
        return octaves(self.rng, low, max(high, low), step if high >= 2 * step else 1)

    def some(self, make: Callable[[], nn.Module], *often: float) -> list[nn.Module]:
        """None of it, one, or more, with these chances."""
        return [make() for _ in range(self.rng.choices(range(len(often)), often)[0])]

    def repeated(self, block: nn.Module) -> list[nn.Module]:
        """A block whose output is like its input, as often as blocks stand in a row here."""
        return [block, *(copy.deepcopy(block) for _ in range(self.again - 1))]

    def activation(self) -> str:
        """The name of one."""
        return self.rng.choice(list(ACTIVATIONS))

    def decorated(self, norm: Callable[[], nn.Module]) -> list[nn.Module]:
        """What stands behind a convolution or a linear layer, in any number and order."""
        parts = [
            *self.some(norm, 0.3, 0.6, 0.1),
            *self.some(lambda: ACTIVATIONS[self.activation()](), 0.2, 0.6, 0.2),
            *self.some(lambda: nn.Dropout(0.1), 0.8, 0.2),
        ]
        self.rng.shuffle(parts)
        return parts
