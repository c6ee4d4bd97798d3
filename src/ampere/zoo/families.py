"""Families: what the zoo has, listed without torch; a family's module is imported to build it.

A family has an original (its `defaults`) and the members that the paper draws at random from it
(section 4.1).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ampere.core.inputs import Inputs, parse_inputs
from ampere.errors import ModelError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Family:
    """Models of one architecture that differ in width, and some in depth.

    `model` names the class in the family's module. `defaults` are the arguments of the original;
    those that are numbers, or lists of them, are drawn from 1 to the original unless `choices`
    says otherwise.
    """

    name: str
    title: str
    input: Inputs
    model: str
    defaults: Mapping[str, Any]
    choices: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the family does not take.

        Raises:
            ModelError: One is not known, or has another form.
        """
        for name, value in arguments.items():
            if name not in self.defaults:
                takes = ", ".join(self.defaults)
                raise ModelError(f"zoo:{self.name} has no argument {name!r}; it takes {takes}")
            if not _fits(value, self.defaults[name]):
                example = self.describe({name: self.defaults[name]})
                raise ModelError(f"zoo:{self.name} cannot have {name}={value!r}; e.g. {example}")

    def build(self, **arguments: Any) -> nn.Module:
        """Build a member with fresh weights; arguments left out are those of the original."""
        self.check(arguments)
        model = getattr(import_module(f"ampere.zoo.{self.name}"), self.model)
        built: nn.Module = model(**{**self.defaults, **arguments})
        return built

    def sample(self, rng: random.Random) -> dict[str, Any]:
        """Draw the arguments of a member, each width uniformly from 1 to the original."""
        drawn: dict[str, Any] = {}
        for name, original in self.defaults.items():
            if name in self.choices:
                drawn[name] = rng.choice(self.choices[name])
            elif isinstance(original, int):
                drawn[name] = rng.randint(1, original)
            elif isinstance(original, list):
                drawn[name] = [rng.randint(1, width) for width in original]
        return drawn

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The text that names a member, e.g. `zoo:cnn5(channels=[16, 32, 64, 64])`."""
        listed = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"zoo:{self.name}({listed})" if listed else f"zoo:{self.name}"


def _fits(value: Any, original: Any) -> bool:
    """Whether a value has the form of the original's; without one the model itself checks."""
    if original is None:
        return True
    if isinstance(original, list):
        return (
            isinstance(value, (list, tuple))
            and len(value) == len(original)
            and all(map(_fits, value, original))
        )
    if isinstance(original, int):
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return isinstance(value, type(original))


_FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="lenet5",
            title="LeNet-5 for 28×28 grey images",
            input=parse_inputs("1x28x28"),
            model="LeNet5",
            defaults={"channels": [6, 16], "hidden": [120, 84]},
        ),
        Family(
            name="cnn5",
            title="5-layer CNN for 32×32 colour images",
            input=parse_inputs("3x32x32"),
            model="CNN5",
            defaults={"channels": [32, 64, 128, 128]},
        ),
        Family(
            name="har",
            title="1-D CNN for human activity, 128 samples of 9 motion signals",
            input=parse_inputs("9x128"),
            model="HAR",
            defaults={"channels": [32, 64, 64], "hidden": [128]},
        ),
        Family(
            name="lstm",
            title="LSTM classifier for texts of 32 tokens",
            input=parse_inputs("32:int64<2000"),
            model="LSTM",
            defaults={"embedding": 64, "hidden": 128},
        ),
        Family(
            name="transformer",
            title="Transformer encoder for texts of 64 tokens",
            input=parse_inputs("64:int64<1000"),
            model="Transformer",
            defaults={"d_model": 128, "layers": 4},
            choices={"d_model": range(4, 129, 4)},  # a multiple of the heads
        ),
        Family(
            name="resnet",
            title="ResNets for 32×32 colour images, 8 to 32 layers deep",
            input=parse_inputs("3x32x32"),
            model="ResNet",
            defaults={"widths": [16, 32, 64], "depth": 20, "blocks": None, "block": "basic"},
            choices={"depth": (8, 14, 20, 26, 32)},
        ),
    )
}


def family_names() -> tuple[str, ...]:
    """Names of all families."""
    return tuple(_FAMILIES)


def find_family(name: str) -> Family:
    """The family of this name."""
    if name not in _FAMILIES:
        raise ModelError(f"the zoo has no {name!r}; it has {', '.join(_FAMILIES)}")
    return _FAMILIES[name]
