"""Tables say what `estimate` says, of any candidate, and of many at once."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ampere
from ampere.core.choices import resample, resize
from ampere.core.layers import Layer
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.encoding.encoder import STEP, distinct
from ampere.estimators.fitting import fit_additive
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.models import read
from ampere.records.measurement import Measurement
from fakes import known_cost, total

FAMILIES = ("cnn5", "transformer", "resnet", "lstm")


def members(family: str, n: int, seed: int = 0) -> list[tuple[Layer, ...]]:
    rng = random.Random(seed)
    layers = read(f"zoo:{family}")
    drawn = [resample(layers, rng) for _ in range(n)]
    return [tuple(with_features(layer) for layer in each) for each in drawn]


def measured(layers: tuple[Layer, ...], noise: float = 0.0, seed: int = 0) -> Measurement:
    cost = total(layers, known_cost)
    factor = 1 + noise * random.Random(seed).gauss(0, 1)
    return Measurement(layers, factor * cost.energy_j, factor * cost.time_s)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> tuple[FamilyTables, AdditiveFit]:
    rows = [measured(layers, 0.02, i) for i, layers in enumerate(members(request.param, 6))]
    fit = fit_additive(rows)
    return FamilyTables(read(f"zoo:{request.param}"), fit, with_features), fit


def drawn(tables: FamilyTables, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    columns = [
        step * rng.integers(1, largest // step + 1, n)
        for step, largest in zip(tables.steps, tables.largest, strict=True)
    ]
    return np.column_stack(columns)


def test_the_same_numbers_as_estimate(family: tuple[FamilyTables, AdditiveFit]) -> None:
    tables, fit = family
    widths = drawn(tables, 3)
    joules, seconds, std = (
        tables.estimate_many(widths),
        tables.seconds(widths),
        tables.std(widths),
    )
    for i, row in enumerate(widths):
        # Counted by torch, not by the polynomials that the tables are made with.
        layers = [
            with_features(replace(layer, features=ampere.Features()))
            for layer in tables.layers_at(row)
        ]
        said = fit.predict(layers).total
        assert joules[i] == pytest.approx(said.energy_j, rel=1e-9)
        assert seconds[i] == pytest.approx(said.time_s, rel=1e-9)
        assert std[i] == pytest.approx(said.energy_j_std, rel=1e-9)


def test_candidates_that_were_measured_are_known_best(
    family: tuple[FamilyTables, AdditiveFit],
) -> None:
    tables, fit = family
    said = fit.predict(fit_rows(fit)[0]).total
    assert np.median(tables.std(drawn(tables, 200))) > said.energy_j_std * 0.5


def fit_rows(fit: AdditiveFit) -> list[tuple[Layer, ...]]:
    counts = fit.energy.rows.counts
    return [
        tuple(
            replace(layer, count=int(n))
            for layer, n in zip(fit.layers, row, strict=True)
            if n and layer.name != "step"
        )
        for row in counts
    ]


def test_the_doubt_about_a_share_is_that_of_both_together(
    family: tuple[FamilyTables, AdditiveFit],
) -> None:
    """By the joint covariance of a candidate and the whole, each with the noise of a metering."""
    tables, fit = family
    widths = drawn(tables, 8, 4)
    whole = tables.layers_at(tables.largest)
    answers = zip(widths, tables.share_std(widths), tables.share_std(widths, False), strict=True)
    for row, said, of_job in answers:
        networks = [(*tables.layers_at(row.tolist()), STEP), (*whole, STEP)]
        layers, counts = distinct(networks)
        context = contexts_of([each[:-1] for each in networks])
        total, cov = fit.energy.predict(fit.encoder.encode(layers), counts, context)
        noise = fit.energy.noise_var(total).sum() - 2 * fit.energy.drift_var
        var = cov[0, 0] + cov[1, 1] - 2 * cov[0, 1] + noise
        widened = fit.energy.widening
        assert said == pytest.approx(widened * math.sqrt(var), rel=1e-6)
        assert of_job == pytest.approx(widened * math.sqrt(var - noise), rel=1e-6)


def test_the_gradient_is_what_a_channel_costs(family: tuple[FamilyTables, AdditiveFit]) -> None:
    tables, _ = family
    widths = drawn(tables, 20, 3)
    slopes = tables.energy_gradient(widths)
    assert slopes.shape == widths.shape
    for axis, (step, largest) in enumerate(zip(tables.steps, tables.largest, strict=True)):
        up, down = widths.copy(), widths.copy()
        up[:, axis] = np.minimum(up[:, axis] + step, largest)
        down[:, axis] = np.maximum(down[:, axis] - step, step)
        rise = tables.estimate_many(up) - tables.estimate_many(down)
        wanted = rise / np.maximum(up[:, axis] - down[:, axis], 1)
        assert slopes[:, axis] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_flops_are_those_of_the_network_at_these_widths(name: str) -> None:
    layers = read(f"zoo:{name}")
    fit = fit_additive([measured(each) for each in members(name, 3)])
    tables = FamilyTables(layers, fit, with_features)
    widths = drawn(tables, 3)
    for row, flops in zip(widths, tables.flops(widths), strict=True):
        network = resize(layers, dict(zip(tables.names, row.tolist(), strict=True)))
        assert flops == sum(one.count * (with_features(one).features.flops or 0) for one in network)


@given(st.integers(1, 70000))
@settings(max_examples=5, deadline=None)
def test_chunks_do_not_show(n: int) -> None:
    tables = cnn5_tables()
    widths = drawn(tables, n, n)
    joules = tables.estimate_many(widths)
    some = [0, n // 2, n - 1]
    assert joules[some] == pytest.approx(tables.estimate_many(widths[some]), rel=1e-12)


_TABLES: list[FamilyTables] = []


def cnn5_tables() -> FamilyTables:
    if not _TABLES:
        rows = [measured(layers) for layers in members("cnn5", 8)]
        _TABLES.append(FamilyTables(read("zoo:cnn5"), fit_additive(rows), with_features))
    return _TABLES[0]


@pytest.mark.parametrize(
    ("widths", "says"),
    [
        ([[1, 2, 3]], "rows of 4 whole numbers"),
        ([1, 2, 3, 4], "rows of 4 whole numbers"),
        ([[1.5, 2, 3, 4]], "rows of 4 whole numbers"),
        ([[0, 2, 3, 4]], "conv1.out goes from 1 to 32"),
        ([[1, 2, 3, 129]], "conv4.out goes from 1 to 128"),
    ],
)
def test_bad_candidates_are_refused(widths: list[object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        cnn5_tables().estimate_many(widths)


def test_multiples_are_asked_for() -> None:
    rows = [measured(layers) for layers in members("transformer", 8)]
    tables = FamilyTables(read("zoo:transformer"), fit_additive(rows), with_features)
    assert tables.steps == (4,)
    with pytest.raises(DataError, match="multiple of 4"):
        tables.estimate_many([[6]])


def test_no_candidates_are_no_error() -> None:
    assert cnn5_tables().estimate_many(np.zeros((0, 4), int)).shape == (0,)


def test_a_profile_makes_tables_of_the_model_that_it_was_made_for() -> None:
    rows = [measured(layers) for layers in members("cnn5", 8)]
    profile = ampere.fit(rows)
    with pytest.raises(DataError, match="which model"):
        profile.estimate_many([[1, 2, 3, 4]])
    profile = replace(profile, header=replace(profile.header, model="zoo:cnn5"))
    (joules,) = profile.estimate_many([[8, 16, 32, 64]])
    asked = profile.estimate("zoo:cnn5(channels=[8, 16, 32, 64])")
    assert joules == pytest.approx(asked.energy_j, rel=1e-9)
    assert profile.energy_gradient([[8, 16, 32, 64]]).shape == (1, 4)
    with pytest.raises(DataError, match="additive"):
        replace(profile, method="paper").tabulate()


def test_a_width_that_has_one_size_only_is_an_axis_all_the_same() -> None:
    from torch import nn

    net = nn.Sequential(nn.Linear(8, 1), nn.ReLU(), nn.Linear(1, 600), nn.ReLU(), nn.Linear(600, 3))
    layers = read(net, (8,))
    rng = random.Random(0)
    drawn = [tuple(map(with_features, resample(layers, rng))) for _ in range(8)]
    tables = FamilyTables(layers, fit_additive(list(map(measured, drawn))), with_features)
    assert tables.largest == (1, 600)
    assert tables.estimate_many([[1, 5], [1, 600]]).shape == (2,)
    assert tables.energy_gradient([[1, 5]])[0, 0] == 0.0


def test_a_model_without_a_free_width_has_no_tables() -> None:
    from torch import nn

    layers = read(nn.Linear(8, 3), (8,))
    with pytest.raises(DataError, match="use `estimate`"):
        FamilyTables(layers, fit_additive([measured(layers)]), with_features)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_narrow_integers_are_widths_too(dtype: type) -> None:
    widths = drawn(cnn5_tables(), 50).astype(dtype)
    wide = cnn5_tables().estimate_many(widths.astype(int))
    assert cnn5_tables().estimate_many(widths).tolist() == wide.tolist()


def test_tables_of_layers_that_nobody_counted() -> None:
    rows = [measured(each) for each in members("cnn5", 8)]
    bare = [
        replace(row, layers=tuple(replace(one, features=ampere.Features()) for one in row.layers))
        for row in rows
    ]
    fit = fit_additive(bare)
    tables = FamilyTables(read("zoo:cnn5"), fit, with_features)
    widths = drawn(tables, 5)
    for row, joules in zip(widths, tables.estimate_many(widths), strict=True):
        said = fit.predict(tables.layers_at(row)).total.energy_j
        assert joules == pytest.approx(said, rel=1e-9)


def test_tables_say_which_widths_they_take() -> None:
    tables = cnn5_tables()
    assert repr(tables).splitlines()[0].endswith("members of a family")
    for name in tables.names:
        assert name in repr(tables) and name in tables._repr_html_()


def test_a_borrowed_kind_that_occurs_often_is_as_sure_as_estimate_says() -> None:
    """Equal layers of a kind that was never measured share one deviation."""
    fit = fit_additive([measured(layers, 0.02, i) for i, layers in enumerate(members("resnet", 6))])
    deep = "zoo:resnet(depth=20, widths=[16, 32, 48])"
    tables = FamilyTables(read(deep, (3, 24, 24)), fit, with_features)  # other maps: other kinds
    for row, std in zip(widths := drawn(tables, 3), tables.std(widths), strict=True):
        said = fit.predict([with_features(layer) for layer in tables.layers_at(row)])
        assert any(line.borrowed for line in said.lines)
        assert std == pytest.approx(said.total.energy_j_std, rel=1e-9)
