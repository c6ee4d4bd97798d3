"""Contexts: depth, and blocks of calls that deviate as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import ampere
from ampere.core.layers import Layer
from ampere.core.variants import MOST_LAYERS
from ampere.estimators.encoding.contexts import contexts_of, depth_context
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.processes.light import light
from ampere.estimators.processes.totals import Context, alike_blocks, beside, beside_var
from ampere.estimators.survey import SurveyFit, calls_of, fit_survey
from ampere.records.measurement import Measurement
from fakes import HIDDEN, plain_layer
from random_rows import HYPER, all_beside, seeds, some_contexts
from surveyed import drawn, joules, surveyed

FUSED = 0.6  # of what its calls cost takes a block that a device fuses


def resnet(*widths: int) -> Sequence[Layer]:
    return ampere.read_layers(f"zoo:resnet(widths={list(widths)})")


def test_depth_is_in_octaves_above_the_largest_variant() -> None:
    layer = plain_layer(HIDDEN, in_=4, out=4)
    assert MOST_LAYERS == 3
    assert [depth_context([layer] * n) for n in (1, 2, 3, 6, 12)] == [0, 0, 0, 1, 2]
    assert depth_context([]) == 0
    assert depth_context([plain_layer(HIDDEN, 5, in_=4, out=4), layer]) == 1


@given(seeds)
def test_contexts_covary_as_defined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = some_contexts(rng, 5), some_contexts(rng, 3)
    np.testing.assert_allclose(beside(one, two, HYPER), all_beside(one, two, HYPER), atol=1e-12)
    own = beside(one, one, HYPER)
    np.testing.assert_allclose(beside_var(one, HYPER), np.diagonal(own), atol=1e-12)
    few = np.array([3, 0])
    np.testing.assert_allclose(beside(one[few], two, HYPER), beside(one, two, HYPER)[few])


def test_layers_have_no_blocks_and_calls_stand_in_theirs() -> None:
    layers = resnet(16, 32, 64)
    assert contexts_of([layers]).share.shape == (1, 0)
    calls = calls_of(layers)
    assert {id(call.within) for call in calls} == set(map(id, layers))
    told = contexts_of([(*calls, STEP), calls_of(layers[:1]), calls[:0]])
    assert told.share.sum(1) == pytest.approx([1, 1, 0])
    assert told.share[1].max() == pytest.approx(1)
    assert told.depth[0] == depth_context(calls)
    assert list(contexts_of([calls, calls[:3]], depth=2.5).depth) == [2.5, 2.5]
    copies = [call for call in calls if call.kind.operation == "activation"]
    assert not any(call.features.flops for call in copies)
    assert contexts_of([copies]).share.sum() == pytest.approx(1)


def test_calls_of_which_nobody_says_where_they_stand_are_in_doubt_each() -> None:
    calls = [replace(call, within=None) for call in calls_of(resnet(16, 32, 64))]
    flat = contexts_of([calls])
    assert flat.share.sum() == pytest.approx(1)
    assert flat.share.shape[1] == len({call.identity for call in calls})
    blocks = contexts_of([calls_of(resnet(16, 32, 64))])
    assert alike_blocks(flat, blocks).item() == 0  # a call is not the layer of its name
    assert 0 < beside_var(flat, HYPER)[0] - HYPER.depth**2 * flat.depth[0] < HYPER.block**2


def test_many_networks_of_many_blocks_are_light_and_say_the_same() -> None:
    rng = np.random.default_rng(0)
    share = rng.uniform(size=(90, 400)) * (rng.uniform(size=(90, 400)) < 0.05)
    block = np.column_stack([rng.permutation(400) % 7, rng.permutation(400) % 40, np.arange(400)])
    dense, thin = (Context(np.zeros(90), each, block) for each in (share, light(share)))
    assert not isinstance(thin.share, np.ndarray)
    for one, two in ((thin, thin), (thin[:5], dense), (dense[:5], thin)):
        expected = alike_blocks(dense[: len(one)], dense)
        np.testing.assert_allclose(alike_blocks(one, two), expected)
    np.testing.assert_allclose(beside_var(thin, HYPER), beside_var(dense, HYPER))


def test_blocks_are_alike_by_operation_kind_and_layer() -> None:
    layers = [layer for layer in resnet(16, 32, 64) if layer.kind.operation == "2×conv2d"]
    narrower = [layer for layer in resnet(12, 32, 64) if layer.kind.operation == "2×conv2d"]
    same, kind, operation = (
        alike_blocks(*(contexts_of([calls_of([layer])]) for layer in pair)).item()
        for pair in (
            (layers[0], layers[0]),
            (layers[0], narrower[0]),
            (layers[0], layers[-1]),
        )
    )
    assert (same, kind, operation) == pytest.approx((1, 2 / 3, 1 / 3))


def test_what_networks_have_in_common_does_not_depend_on_who_else_is_asked() -> None:
    networks = [calls_of(layers) for layers in drawn()[:6]]
    whole = contexts_of(networks)
    alone = [contexts_of([network]) for network in networks]
    for i, one in enumerate(alone):
        np.testing.assert_allclose(alike_blocks(one, whole)[0], alike_blocks(whole, whole)[i])
    assert len(Context.at(np.ones(3))[:2]) == 2


def apart(layers: Sequence[Layer]) -> list[Layer]:
    """The same calls in blocks of another make."""
    return [
        replace(layer, kind=replace(layer.kind, name=f"apart {layer.kind.name}", operation="apart"))
        for layer in layers
    ]


def fused(layers: Sequence[Layer]) -> Measurement:
    """A row of a device that does residual blocks as a whole for less than their calls."""
    cheaper = [layer for layer in layers if layer.kind.operation == "2×conv2d"]
    return surveyed(layers, 1 - (1 - FUSED) * joules(cheaper) / joules(layers))


@pytest.fixture(scope="module")
def fit() -> SurveyFit:
    widths = ((16, 32, 64), (24, 24, 48), (8, 56, 40), (32, 16, 24))
    members = [resnet(*each) for each in widths]
    rows = [*map(surveyed, drawn()[:20]), *map(fused, members), *map(fused, map(apart, members))]
    return fit_survey(rows)


def test_a_block_that_costs_less_than_its_calls_is_known_again(fit: SurveyFit) -> None:
    layers = resnet(20, 40, 32)
    cheap, dear = fused(layers).energy_j, joules(layers)
    assert dear > 1.3 * cheap
    assert fit.predict(layers).total.energy_j == pytest.approx(cheap, rel=0.1)
    assert fit.predict(apart(layers)).total.energy_j == pytest.approx(dear, rel=0.1)
    assert fit.calls.energy.hyper.block > 0.1


def test_lines_and_operations_add_up_where_blocks_deviate(fit: SurveyFit) -> None:
    said = fit.predict(resnet(20, 40, 32))
    total = said.total
    assert total.time_s is not None
    assert sum(line.cost.energy_j for line in said.lines) == pytest.approx(total.energy_j)
    assert sum(line.cost.time_s or 0.0 for line in said.lines) == pytest.approx(total.time_s)
    step_j = said.lines[-1].cost.energy_j
    shares = sum(share.cost.energy_j for share in said.shares)
    assert shares + step_j == pytest.approx(total.energy_j)
