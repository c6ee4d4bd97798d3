"""Grids: the layers of a family at every size, and their FLOPs from a few that are counted."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ampere.core.choices import Choice
from ampere.core.layers import Features, Layer
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.fitting import fit_additive
from ampere.profiles.tables import grid as grid_module
from ampere.profiles.tables.grid import Grid, Place, places_of
from priced_rows import ROWS, conv, first, linear, network

LAYERS = network(8, 12, 8)  # first, conv, conv, linear
FREE = [
    Choice(((0, "out"), (1, "in")), (Fraction(1), Fraction(1)), 8, 1, False),
    Choice(((1, "out"), (2, "in")), (Fraction(1), Fraction(1)), 12, 4, False),
]


def count(layer: Layer) -> Layer:
    """FLOPs and bytes as the priced layers have them."""
    sizes = list(layer.widths.values())
    made = {"conv": conv if len(sizes) == 2 else first, "linear": linear}
    return replace(layer, features=made[layer.kind.operation](*sizes).features)


@pytest.fixture(scope="module")
def fit() -> AdditiveFit:
    return fit_additive(ROWS)


def some_grid(fit: AdditiveFit) -> Grid:
    return Grid(places_of(LAYERS, FREE), largest=(8, 12), steps=(1, 4), fit=fit, count=count)


def test_places_follow_the_choices_that_their_widths_are_tied_to() -> None:
    places = places_of(LAYERS, FREE)
    assert [place.axes for place in places] == [(0,), (0, 1), (1,), ()]
    assert places[1].follows == {"in": (0, Fraction(1)), "out": (1, Fraction(1))}
    assert [place.layer for place in places] == list(LAYERS)


def test_equal_layers_are_one_place_as_often_as_they_occur() -> None:
    layers = (first(8), conv(8, 8), conv(8, 8, count=3), conv(8, 9), linear(9))
    assert [place.count for place in places_of(layers, [])] == [1, 4, 1, 1]


def test_a_level_is_a_size_in_steps_and_level_zero_counts_as_one(fit: AdditiveFit) -> None:
    grid = some_grid(fit)
    assert grid.sizes == [9, 4]
    assert grid.shape((0, 1)) == (9, 4)
    widths = grid.widths(grid.places[1])
    assert widths["in"].reshape(9, 4)[:, 0].tolist() == [1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert widths["out"].reshape(9, 4)[0].tolist() == [4, 4, 8, 12]


def test_a_width_may_be_a_multiple_of_the_choice(fit: AdditiveFit) -> None:
    place = Place(linear(24), 1, {"in": (0, Fraction(3, 2))})
    grid = Grid([place], largest=(16,), steps=(2,), fit=fit, count=count)
    assert grid.widths(place)["in"].tolist() == [3, 3, 6, 9, 12, 15, 18, 21, 24]


def test_features_of_all_sizes_are_those_that_counting_would_give(fit: AdditiveFit) -> None:
    grid = some_grid(fit)
    for number, place in enumerate(grid.places):
        widths = grid.widths(place)
        for entry, features in enumerate(grid.features[number]):
            sizes = {name: int(values[entry]) for name, values in widths.items()}
            layer = count(replace(place.layer, widths=type(place.layer.widths)(sizes)))
            assert Features(*features) == layer.features


def test_encoded_they_are_what_the_encoder_makes_of_each(fit: AdditiveFit) -> None:
    grid = some_grid(fit)
    encoded = grid.layers(1)
    for entry, levels in enumerate(np.ndindex(9, 4)):
        if 0 in levels:
            continue
        _, layer, *_ = grid.layers_at(np.array(levels))
        one = fit.encoder.encode([layer])
        np.testing.assert_array_equal(encoded.features[entry], one.features[0])
        np.testing.assert_array_equal(encoded.x[entry], one.x[0])
        assert (encoded.op[entry], encoded.kind[entry]) == (one.op[0], one.kind[0])
        measured = any(layer.widths == each.widths for each in fit.layers if each == layer)
        assert (encoded.id[entry] == one.id[0]) == measured


def test_the_layers_of_one_candidate(fit: AdditiveFit) -> None:
    layers = list(some_grid(fit).layers_at(np.array([5, 2])))
    assert [dict(layer.widths) for layer in layers] == [
        {"out": 5},
        {"in": 5, "out": 8},
        {"in": 8, "out": 8},
        {"in": 8},
    ]
    assert [layer.features for layer in layers] == [count(layer).features for layer in layers]


def bent(layer: Layer) -> Layer:
    flops = float(2 ** (sum(layer.widths.values()) % 7))
    return replace(layer, features=Features(flops, 1.0, 1.0))


def test_features_on_no_polynomial_are_counted_one_by_one_if_they_are_few(
    fit: AdditiveFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(linear(30), 1, {"in": (0, Fraction(1))})
    grid = Grid([place], largest=(30,), steps=(1,), fit=fit, count=bent)
    assert grid.features[0][1:, 0].tolist() == [2.0 ** (width % 7) for width in range(1, 31)]
    monkeypatch.setattr(grid_module, "FEW", 29)
    with pytest.raises(DataError, match="no polynomial"):
        Grid([place], largest=(30,), steps=(1,), fit=fit, count=bent)


def test_a_table_that_would_be_too_large_is_refused(
    fit: AdditiveFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid_module, "LARGEST", 35)
    with pytest.raises(DataError, match="too many sizes"):
        some_grid(fit)
    monkeypatch.setattr(grid_module, "LARGEST", 36)
    some_grid(fit)
