"""Networks whose layers have known prices, and rows as a device would have measured them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Prediction
from ampere.records.measurement import Measurement

BATCH = 8


STEP_J = 4e-3


# Joules of a layer, of a FLOP, of a byte of activations and of parameters.
PRICES = {
    "conv": (2e-3, 1e-10, 3e-10, 5e-9),
    "linear": (1e-3, 2e-10, 4e-10, 8e-9),
    "pool": (5e-4, 1e-10, 5e-10, 0.0),
}


Price = Callable[[Layer], float]


def kind(role: Role, operation: str, **attributes: int | str) -> LayerKind:
    words = (role.value, operation, *(f"{name}={value}" for name, value in attributes.items()))
    return LayerKind(" ".join(words), role, operation, {"batch": BATCH, **attributes})


def first(out: int, height: int = 32) -> Layer:
    maps = BATCH * height**2
    known = Features(54.0 * 3 * out * maps, 8.0 * (3 + out) * maps, 108.0 * out)
    return Layer("conv", kind(Role.FIRST, "conv", height=height), Widths({"out": out}), known)


def conv(a: int, b: int, height: int = 16, count: int = 1) -> Layer:
    maps = BATCH * height**2
    known = Features(54.0 * a * b * maps, 8.0 * (a + b) * maps, 36.0 * a * b)
    named = Widths({"in": a, "out": b})
    return Layer("conv", kind(Role.HIDDEN, "conv", height=height), named, known, count=count)


def pool(width: int) -> Layer:
    known = Features(2048.0 * width, 16384.0 * width, 0.0)
    return Layer("pool", kind(Role.HIDDEN, "pool"), Widths({"width": width}), known)


def linear(width: int) -> Layer:
    known = Features(480.0 * width, 32.0 * (width + 10), 40.0 * width)
    return Layer("linear", kind(Role.LAST, "linear"), Widths({"in": width}), known)


def network(*widths: int, height: int = 16) -> tuple[Layer, ...]:
    between = (conv(a, b, height) for a, b in itertools.pairwise(widths))
    return first(widths[0]), *between, linear(widths[-1])


def price(layer: Layer) -> float:
    """Joules of one layer: linear in what it does."""
    base, *rest = PRICES[layer.kind.operation]
    done = [number or 0.0 for number in layer.features.numbers]
    return layer.count * (base + sum(each * n for each, n in zip(rest, done, strict=True)))


def joules(layers: Iterable[Layer], price: Price = price) -> float:
    return STEP_J + sum(map(price, layers))


def measured(layers: Sequence[Layer], factor: float = 1.0, price: Price = price) -> Measurement:
    total = factor * joules(layers, price)
    return Measurement(tuple(layers), total, 0.2 * total + 1e-3)


def members(n: int, seed: int, top: int = 64, hidden: int = 2) -> list[tuple[Layer, ...]]:
    rng = random.Random(seed)
    return [network(*(rng.randint(4, top) for _ in range(hidden + 1))) for _ in range(n)]


def noisy(networks: Iterable[Sequence[Layer]], seed: int, noise: float = 0.03) -> list[Measurement]:
    rng = random.Random(seed)
    return [measured(layers, math.exp(rng.gauss(0, noise))) for layers in networks]


def scaled(row: Measurement, factor: float) -> Measurement:
    return replace(row, energy_j_per_step=factor * row.energy_j_per_step)


def timed(row: Measurement, factor: float) -> Measurement:
    """The row with other seconds."""
    return replace(row, time_s_per_step=factor * row.time_s)


def without_features(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    return tuple(replace(layer, features=Features()) for layer in layers)


def relative_std(said: Prediction) -> float:
    return said.total.energy_j_std / said.total.energy_j


def worst(fit: AdditiveFit, asked: Iterable[Sequence[Layer]], price: Price = price) -> float:
    """The largest relative error of some networks."""
    return max(
        abs(fit.predict(layers).total.energy_j / joules(layers, price) - 1) for layers in asked
    )


ROWS = [measured(layers) for layers in members(12, seed=1)]


OTHERS = members(8, seed=2, top=60)
