"""FLOPs of older rows: too many of grouped convolutions were counted, and shared out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from ampere.core.layers import Features, Layer
from ampere.core.training import Training
from ampere.pytorch.models import read
from ampere.records.history import recounted
from ampere.records.measurement import Measurement

BLOCKS = {
    "depthwise": nn.Sequential(
        nn.Conv2d(8, 48, 1), nn.Conv2d(48, 48, 5, 2, 2, groups=48), nn.SiLU(), nn.Conv2d(48, 8, 1)
    ),
    "grouped": nn.Sequential(nn.Conv2d(8, 24, 3, groups=4), nn.ReLU(), nn.Conv2d(24, 8, 1)),
    "plain": nn.Sequential(nn.Conv2d(8, 24, 3), nn.ReLU(), nn.Conv2d(24, 8, 1)),
}


def surplus(layer: Layer, times: float) -> Layer:
    """As it was told up to 0.16: all calls have their part of what is too much."""

    def more(features: Features) -> Features:
        return replace(features, flops=None if features.flops is None else features.flops * times)

    work = tuple(replace(each, features=more(each.features)) for each in layer.work)
    return replace(layer, features=more(layer.features), work=work)


def flops(layers: tuple[Layer, ...]) -> list[float]:
    return [
        features.flops or 0.0
        for layer in layers
        for features in (layer.features, *(work.features for work in layer.work))
    ]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("side", [12, 15])
def test_rows_of_today_stay_as_they_are(block: str, side: int) -> None:
    layers = read(BLOCKS[block], (8, side, side), training=Training(3))
    assert tuple(map(recounted, layers)) == layers
    assert flops(tuple(map(recounted, layers))) == flops(layers)


@pytest.mark.parametrize("block", ["depthwise", "grouped"])
@pytest.mark.parametrize("times", [1.2, 7.0])
def test_the_surplus_of_older_rows_is_taken_out_where_a_journal_is_read(
    block: str, times: float
) -> None:
    layers = read(BLOCKS[block], (8, 12, 12), training=Training(3))
    grouped = tuple(
        surplus(each, times) if any("groups" in w.attributes or w.operation == "depthwise"
                                    for w in each.work) else each
        for each in layers
    )  # fmt: skip
    assert flops(grouped) != flops(layers)
    row = Measurement.from_json(Measurement(grouped, 1.0, 1.0).to_json())
    assert flops(row.layers) == pytest.approx(flops(layers), rel=0.01)


def test_what_has_no_grouped_convolution_is_not_touched() -> None:
    layers = read(BLOCKS["plain"], (8, 12, 12), training=Training(3))
    odd = tuple(surplus(each, 5.0) for each in layers)
    assert tuple(map(recounted, odd)) == odd
    assert flops(tuple(map(recounted, odd))) == flops(odd)
