"""Remarks on the FLOPs that rows state, and what a fit makes of features that are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampere.core.layers import Features, Layer
from ampere.estimators.fitting import fit_additive
from priced_rows import OTHERS, ROWS, conv, joules, linear, measured, network, relative_std


def without(layers: Sequence[Layer], operation: str, *, all_of_it: bool) -> tuple[Layer, ...]:
    """The same layers; nobody counted those of an operation, or their bytes."""
    return tuple(
        replace(layer, features=Features() if all_of_it else Features(layer.features.flops))
        if layer.kind.operation == operation
        else layer
        for layer in layers
    )


def test_rows_that_agree_are_not_remarked_on() -> None:
    assert not [note for note in fit_additive(ROWS).notes if "FLOPs" in note]


def test_flops_that_some_layers_lack_are_named() -> None:
    bare = replace(
        measured((conv(7, 9), linear(9))),
        layers=(*without([conv(7, 9)], "conv", all_of_it=True), linear(9)),
    )
    (note,) = [each for each in fit_additive([*ROWS, bare]).notes if "FLOPs" in each]
    assert note.startswith("FLOPs of 1 of ")
    assert "layers of conv are unknown" in note


def test_layers_that_count_as_one_and_differ_are_named() -> None:
    layer = conv(20, 20)
    assert layer.features.flops is not None
    other = replace(layer, features=replace(layer.features, flops=3 * layer.features.flops))
    rows = [*ROWS, measured((layer, linear(20))), measured((other, linear(20)))]
    (note,) = [each for each in fit_additive(rows).notes if "FLOPs" in each]
    assert note.startswith(f"layers of {layer.kind.name} have the same widths and attributes")


def test_bytes_that_nobody_told_are_not_none() -> None:
    """One row without bytes: its operation is known by FLOPs, and by no coordinate that is 0."""
    bare = [replace(row, layers=without(row.layers, "conv", all_of_it=False)) for row in ROWS[:1]]
    fit = fit_additive([*bare, *ROWS[1:]])
    assert fit.encoder.is_unweighed("conv") and not fit.encoder.is_unweighed("linear")
    for layers in OTHERS:
        said = fit.predict(layers).total.energy_j
        assert said == pytest.approx(joules(layers), rel=0.1)
        assert said == pytest.approx(
            fit.predict(without(layers, "conv", all_of_it=False)).total.energy_j
        )


def test_a_question_without_the_bytes_that_rows_have_is_less_sure() -> None:
    fit, layers = fit_additive(ROWS), network(20, 30, 40)
    bare = fit.predict(without(layers, "conv", all_of_it=False))
    assert math.isfinite(bare.total.energy_j)
    assert relative_std(bare) > 2 * relative_std(fit.predict(layers))


def test_seconds_of_what_nobody_counted_are_as_sure_as_its_joules() -> None:
    """They are proportional: the level that is open is open once."""
    rows = [
        measured(without(row.layers, "conv", all_of_it=True), row.energy_j / joules(row.layers))
        for row in ROWS
    ]
    strange = replace(conv(20, 20), kind=replace(conv(20, 20).kind, name="another conv"))
    (asked,) = without([strange], "conv", all_of_it=True)
    total = fit_additive(rows).predict([asked, linear(20)]).total
    assert total.time_s is not None and total.time_s_std is not None
    assert total.time_s_std / total.time_s < 1.2 * total.energy_j_std / total.energy_j
