"""What other models of a device teach: a prior for a new one, and doubt about what is new."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.fitting import fit_additive
from ampere.records.measurement import Measurement

WIDTHS = range(8, 129, 8)


def network(rng: random.Random, kernel: int, side: int) -> tuple[Layer, ...]:
    layers = []
    for _ in range(3):
        width = rng.choice(WIDTHS)
        flops = 48.0 * (kernel * width * side) ** 2
        features = Features(flops, 128.0 * width * side**2, 4.0 * (kernel * width) ** 2)
        settings = {"kernel": kernel, "side": side}
        kind = LayerKind(f"conv{kernel} @{side}", Role.HIDDEN, "conv", settings)
        layers.append(Layer("conv", kind, Widths({"width": width}), features))
    return tuple(layers)


def joules(layers: Sequence[Layer]) -> float:
    parts = (layer.features for layer in layers)
    return 5e-3 + sum(
        2e-3 + 1e-10 * (part.flops or 0) + 3e-9 * (part.activation_bytes or 0) for part in parts
    )


def rows(rng: random.Random, n: int, kernel: int, side: int, sitting: str) -> list[Measurement]:
    drawn = []
    for _ in range(n):
        layers = network(rng, kernel, side)
        noise = math.exp(rng.gauss(0.0, 0.02))
        drawn.append(Measurement(layers, noise * joules(layers), sitting=sitting))
    return drawn


KNOWN = fit_additive(rows(random.Random(9), 16, 3, 16, ""))


def error(fit: AdditiveFit, asked: Sequence[Sequence[Layer]]) -> float:
    return fmean(abs(fit.predict(each).total.energy_j / joules(each) - 1) for each in asked)


def foreign(width: int) -> Layer:
    features = Features(1e4 * width**2, 1e4 * width, 9.0 * width)
    kind = LayerKind("depthwise", Role.HIDDEN, "dwconv", {"kernel": 3, "side": 16})
    return Layer("foreign", kind, Widths({"width": width}), features)


@given(st.lists(st.sampled_from(WIDTHS), min_size=2, max_size=5, unique=True))
@settings(deadline=None, max_examples=20)
def test_unequal_layers_of_one_unknown_kind_do_not_excuse_each_other(widths: list[int]) -> None:
    """They are off together: what is doubtful of one of them is as doubtful of all."""
    known = network(random.Random(1), 3, 16)[0]
    told = KNOWN.predict((known, *map(foreign, widths)))
    lines = [line.cost for line in told.lines if line.layer.kind.operation == "dwconv"]
    share = sum(cost.energy_j for cost in lines) / told.total.energy_j
    least = min(cost.energy_j_std / cost.energy_j for cost in lines)
    assert told.total.energy_j_std / told.total.energy_j > 0.85 * share * least


def test_rows_of_another_model_of_the_device_make_two_own_rows_worth_more() -> None:
    rng = random.Random(0)
    other = [row for i in range(5) for row in rows(rng, 4, 5, 28, f"old {i}")]
    asked = [network(rng, 3, 16) for _ in range(20)]
    alone, together = [], []
    for seed in range(4):
        own = rows(random.Random(seed + 1), 2, 3, 16, "new")
        alone.append(error(fit_additive(own), asked))
        together.append(error(fit_additive([*other, *own]), asked))
    assert fmean(together) < 0.6 * fmean(alone)
    assert fmean(together) < 0.15
