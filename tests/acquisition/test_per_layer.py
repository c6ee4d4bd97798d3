"""Per layer: what always occurs together is told apart where that is asked for, and marked else.

Every whole network here has a stem and a block at the same width: they alone never tell which of
both takes the joules.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import ampere
from ampere.acquisition.families import Network, read_network
from ampere.acquisition.prober import ENOUGH, LINES, Prober, make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.boundary.fields import Fields
from ampere.core.layers import Features, Layer, Role, network_identity
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.errors import DataError
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import fit as fit_profile
from ampere.records.measurement import Measurement
from fakes import FakeDevice, known_cost
from priced_rows import conv, kind, linear, price

NOISE = 0.02
SHARE = 0.2  # of what stem and block take together, that the stem takes
EACH = 40  # candidates of a kind


def stem(width: int) -> Layer:
    return _sized("stem", Role.FIRST, width)


def block(width: int) -> Layer:
    return _sized("block", Role.HIDDEN, width)


def _sized(name: str, role: Role, width: int) -> Layer:
    known = Features(1e6 * width, 1e5 * width, 1e3 * width)
    return Layer(name, kind(role, name), Widths({"width": width}), known)


def whole(a: int, b: int) -> tuple[Layer, ...]:
    return stem(a), block(a), conv(a, b), linear(b)


def truth(layer: Layer) -> float:
    """Stem and block look alike, and one takes four times what the other does."""
    parts = {"stem": SHARE, "block": 1 - SHARE}
    if layer.name in parts:
        return parts[layer.name] * (4e-3 + 1.5e-3 * layer.widths["width"])
    return price(layer)


def measured(layers: Sequence[Layer]) -> Measurement:
    """The same network is always off by the same."""
    rng = random.Random(repr(network_identity(layers)))
    total = (4e-3 + sum(map(truth, layers))) * (1 + rng.gauss(0.0, NOISE))
    return Measurement(tuple(layers), total, 0.2 * total + 1e-3)


def wholes(n: int, seed: int) -> list[tuple[Layer, ...]]:
    rng = random.Random(seed)
    return [whole(rng.randint(4, 64), rng.randint(4, 64)) for _ in range(n)]


def apart(n: int, seed: int) -> list[tuple[Layer, ...]]:
    """Variants: each layer with as few others as possible."""
    rng = random.Random(seed)
    drawn = [rng.randint(4, 64) for _ in range(n)]
    ends = [(linear(width),) for width in drawn]
    return [*ends, *((each(width), linear(width)) for width in drawn for each in (stem, block))]


def networks(every: Sequence[Sequence[Layer]]) -> list[Network]:
    return [Network(f"{i}", Workload(tuple(each)), tuple(each)) for i, each in enumerate(every)]


MODEL = whole(48, 32)
WHOLES = networks([MODEL, *wholes(EACH, seed=1)])
PROBES = networks([MODEL, *wholes(EACH, seed=1), *apart(EACH // 4, seed=2)])
ASKED = wholes(12, seed=3)


def learned(prober: Prober) -> list[Measurement]:
    """What it asked for, until it stopped."""
    rows: list[Measurement] = []
    while not prober.should_stop:
        for probe in prober.ask(2):
            rows.append(measured(probe.layers))
            prober.tell(rows[-1])
    return rows


def said_of_model(rows: list[Measurement]) -> Estimate:
    return fit_profile(rows).estimate(MODEL)


def unsettled(said: Estimate) -> set[str]:
    return {line.layer.name for line in said.lines if line.unsettled}


@pytest.fixture(scope="module")
def without() -> Estimate:
    return said_of_model(learned(Prober(PROBES, ASKED, tolerance=1e-9, limit=24)))


@pytest.fixture(scope="module")
def settled() -> Estimate:
    return said_of_model(learned(Prober(PROBES, ASKED, tolerance=1e-9, limit=24, divided=[MODEL])))


def test_whole_networks_leave_open_what_always_occurs_together(without: Estimate) -> None:
    assert unsettled(without) >= {"stem", "block"}
    assert "conv" not in unsettled(without)
    (warning,) = (text for text in without.warnings if "--per-layer" in text)
    assert "stem" in warning and "conv" not in warning
    rows = {row["name"]: row["unsettled"] for row in without.to_json()["layers"]}
    assert rows["stem"] is True and rows["conv"] is False


def test_variants_that_are_asked_for_settle_it(without: Estimate, settled: Estimate) -> None:
    assert unsettled(settled) == set()
    assert not any("--per-layer" in text for text in settled.warnings)
    for name in ("stem", "block"):
        (before,), (after,) = (
            [line for line in said.lines if line.layer.name == name] for said in (without, settled)
        )
        true = truth(after.layer)
        assert after.cost.energy_j_std < before.cost.energy_j_std / 3
        assert abs(after.cost.energy_j - true) < abs(before.cost.energy_j - true) / 3
        assert abs(after.cost.energy_j - true) < 1.645 * after.cost.energy_j_std


def test_the_whole_is_known_either_way(without: Estimate, settled: Estimate) -> None:
    for said in (without, settled):
        low, high = said.energy_j_interval
        assert low < 4e-3 + sum(map(truth, MODEL)) < high
        assert high / low < 1.3


def test_it_goes_on_until_lines_are_known() -> None:
    plain = Prober(PROBES, ASKED, tolerance=0.1)
    rows = learned(plain)
    assert plain.half_interval <= 0.1
    assert plain.line_half_interval == 0.0
    divided = Prober(PROBES, ASKED, tolerance=0.1, divided=[MODEL])
    for row in rows:
        divided.tell(row)
    assert divided.half_interval == pytest.approx(plain.half_interval)
    assert divided.line_half_interval > LINES * 0.1
    assert not divided.should_stop
    more = learned(divided)
    assert 0 < len(more) < divided.limit - len(rows)
    assert divided.half_interval <= 0.1
    assert divided.line_half_interval <= LINES * 0.1


def test_it_ends_at_the_limit_where_nothing_tells_layers_apart() -> None:
    prober = Prober(WHOLES, ASKED, tolerance=0.1, limit=16, divided=[MODEL])
    assert len(learned(prober)) == 16
    assert prober.half_interval <= 0.1
    assert prober.line_half_interval > LINES * 0.1


def test_too_few_networks_are_never_enough() -> None:
    prober = Prober(PROBES, ASKED, tolerance=0.99, divided=[MODEL])
    assert prober.line_half_interval == float("inf")
    assert len(learned(prober)) > ENOUGH


def _net(width: int):
    from torch import nn

    return nn.Sequential(
        nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)
    )


def test_lines_of_the_model_matter_or_those_of_candidates() -> None:
    itself, other = (read_network(_net(width), (8,), Training()) for width in (24, 7))
    assert make_prober(itself, Strategy()).divided == []
    own = make_prober(itself, Strategy(per_layer=True))
    assert own.divided == [itself.layers]
    given = make_prober(itself, Strategy(per_layer=True), [other.layers])
    assert given.divided == [other.layers]
    for prober, network in ((own, itself), (given, other)):
        variants = {each.layers[0].identity for each in prober.probes if len(each.layers) < 3}
        assert {network.layers[0].identity, network.layers[-1].identity} <= variants


def test_from_end_to_end_lines_are_better_known_for_the_same_number(tmp_path: Path) -> None:
    errors = {}
    for per_layer in (False, True):
        profile = ampere.profile(
            _net(24),
            (8,),
            path=tmp_path / f"{per_layer}.ampere",
            device=FakeDevice(noise=0.01, seed=3),
            strategy=Strategy(max_measurements=14, tolerance=1e-9, per_layer=per_layer),
        )
        lines = profile.estimate(_net(24), (8,)).lines[:-1]
        errors[per_layer] = sum(
            abs(line.cost.energy_j - known_cost(line.layer).energy_j) for line in lines
        )
    assert errors[True] < errors[False] / 2


def test_the_papers_method_has_no_use_for_it() -> None:
    with pytest.raises(DataError, match="isolates each kind of layer anyway"):
        Strategy("paper", per_layer=True)


def test_a_file_keeps_it() -> None:
    assert Strategy.of_file(Fields({"per_layer": True})).per_layer
    assert not Strategy.of_file(Fields({})).per_layer
    with pytest.raises(DataError, match="per_layer must be true or false"):
        Strategy.of_file(Fields({"per_layer": 1}))
