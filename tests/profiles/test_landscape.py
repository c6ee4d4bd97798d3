"""What layers cost over their widths."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.profiles.landscape import landscapes
from ampere.profiles.profile import Profile, fit
from ampere.records.measurement import Measurement
from fakes import FIRST, HIDDEN, LAST, exact, known_cost, plain_layer, plain_model
from reported import made_up


@pytest.fixture(scope="module", params=["additive", "paper"])
def profile(request: pytest.FixtureRequest) -> Profile:
    return made_up(method=request.param)


def test_a_surface_for_two_widths_and_a_curve_for_one(profile: Profile) -> None:
    found = {land.kind.name: land for land in landscapes(profile)}
    assert {name: list(land.axes) for name, land in found.items()} == {
        FIRST.name: ["out"],
        LAST.name: ["in"],
        HIDDEN.name: ["in", "out"],
    }
    hidden = found[HIDDEN.name]
    assert hidden.energy_j.shape == hidden.energy_j_std.shape == (13, 13)
    assert hidden.axes["in"][0] == 1 and hidden.axes["in"][-1] == 64
    assert (hidden.energy_j_std > 0).all()
    assert len(hidden.spots) >= 9


def test_it_is_what_layers_really_cost(profile: Profile) -> None:
    (hidden,) = [land for land in landscapes(profile) if land.kind.name == HIDDEN.name]
    true = [
        [known_cost(plain_layer(HIDDEN, in_=a, out=b)).energy_j for b in hidden.axes["out"]]
        for a in hidden.axes["in"]
    ]
    off = np.abs(hidden.energy_j - true) / np.max(true)
    assert off.max() < 0.15
    for spot in hidden.spots:
        cost = known_cost(plain_layer(HIDDEN, in_=spot.widths["in"], out=spot.widths["out"]))
        assert abs(spot.energy_j - cost.energy_j) < 0.15 * np.max(true)


def test_only_subtraction_tells_single_layers() -> None:
    assert all(land.inferred for land in landscapes(made_up()))
    assert not any(land.inferred for land in landscapes(made_up(method="paper")))


def counted(layers: Sequence[Layer], bent: float = 0.0) -> tuple[Layer, ...]:
    """The layers with FLOPs, which are a polynomial of their widths unless they are bent."""

    def flops(layer: Layer) -> float:
        product = float(np.prod([*layer.widths.values(), 100]))
        return product + round(bent * product**0.7)

    return tuple(
        replace(layer, features=Features(flops(layer), sum(layer.widths.values()), 1000.0))
        for layer in layers
    )


def counted_rows(bent: float = 0.0) -> Profile:
    rng = random.Random(3)
    models = [plain_model(*(rng.randrange(1, 65) for _ in range(3))) for _ in range(12)]
    return fit([replace(exact(m), layers=counted(m, bent)) for m in models])


def test_flops_at_other_widths_follow_from_those_that_were_counted() -> None:
    profile = counted_rows()
    (hidden,) = [land for land in landscapes(profile) if land.kind.name == HIDDEN.name]
    a, b = hidden.axes["in"][4], hidden.axes["out"][7]
    (layer,) = counted([plain_layer(HIDDEN, in_=a, out=b)])
    assert hidden.energy_j[4, 7] == pytest.approx(profile.fit.alone([layer])[0].energy_j)


def test_kinds_whose_flops_follow_nothing_are_left_out() -> None:
    assert landscapes(counted_rows(bent=3.0)) == []


def test_widths_that_never_varied_are_fixed() -> None:
    models = [
        (plain_layer(FIRST, out=8), plain_layer(HIDDEN, in_=8, out=b), plain_layer(LAST, in_=b))
        for b in (1, 10, 20, 30, 50, 64)
    ]
    found = {land.kind.name: land for land in landscapes(fit(map(exact, models)))}
    assert set(found) == {HIDDEN.name, LAST.name}
    assert (list(found[HIDDEN.name].axes), dict(found[HIDDEN.name].fixed)) == (["out"], {"in": 8})


def test_of_three_widths_the_two_that_go_farthest_are_drawn() -> None:
    joined = LayerKind("joined", Role.HIDDEN, "linear")

    def model(a: int, b: int, c: int) -> tuple[Layer, ...]:
        widths = Widths({"left": a, "right": b, "out": c})
        features = Features(100.0 * (a + b) * c, 10.0 * (a + b + c), 4.0 * (a + b) * c)
        first = replace(plain_layer(FIRST, out=a), features=Features(50.0 * a, 10.0 * a, 4.0 * a))
        return (first, Layer("joined", joined, widths, features=features))

    rng = random.Random(5)
    sizes = [(rng.randrange(1, 65), rng.randrange(1, 17), rng.randrange(1, 65)) for _ in range(30)]
    rows = [
        Measurement(
            model(*at), 1e-3 + 1e-6 * sum(layer.features.flops or 0 for layer in model(*at)), 1e-3
        )
        for at in sizes
    ]
    profile = fit(rows)
    (found,) = [land for land in landscapes(profile) if land.kind == joined]
    assert list(found.axes) == ["left", "out"]
    middle = statistics.median_low({b for _, b, _ in sizes})
    assert dict(found.fixed) == {"right": middle}
    assert found.sliced == ("right",)
    a, c = found.axes["left"][4], found.axes["out"][7]
    (cost,) = profile.fit.alone([model(a, middle, c)[1]])
    assert found.energy_j[4, 7] == pytest.approx(cost.energy_j)
