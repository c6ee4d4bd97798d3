"""Probing: what is asked for next, when it ends, and what failures do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ampere
from ampere.acquisition.families import Network
from ampere.acquisition.loop import open_journal, run_profiler
from ampere.acquisition.prober import START, Prober
from ampere.core.choices import resample
from ampere.core.layers import Layer, Role
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import DataError
from ampere.estimators.base import Cost
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from fakes import FakeDevice, exact, known_cost, plain_kind, plain_layer, plain_model, total


def probe(*widths: int) -> Network:
    layers = plain_model(*widths)
    return Network(str(widths), Workload(layers), layers)


def pool(n: int = 20, seed: int = 0, largest: int = 64) -> list[Network]:
    rng = random.Random(seed)
    drawn = {tuple(rng.randint(1, largest) for _ in range(3)) for _ in range(n)}
    return [probe(*widths) for widths in sorted(drawn)]


def asked(n: int = 8) -> list[tuple[Layer, ...]]:
    return [each.layers for each in pool(n, seed=9)]


def answer(prober: Prober, probes: list[Network]) -> None:
    for each in probes:
        prober.tell(exact(each.layers))


def test_the_first_ones_come_in_order_then_the_best() -> None:
    probes = pool()
    prober = Prober(probes, asked())
    first = prober.ask(START)
    assert first == probes[:START]
    answer(prober, first)
    following = prober.ask(3)
    assert len(following) == 3
    assert len({each.name for each in (*first, *following)}) == START + 3


def test_what_was_asked_is_not_asked_again_before_it_is_told() -> None:
    prober = Prober(pool(), asked())
    first, second = prober.ask(2), prober.ask(2)
    assert not {p.name for p in first} & {p.name for p in second}


def test_it_asks_for_what_is_asked_about() -> None:
    """Of two candidates it takes the one that resembles the models in question."""
    near, far = probe(60, 60, 60), probe(2, 2, 2)
    start = [probe(20, 30, 40), probe(30, 20, 20), probe(40, 40, 20), probe(25, 25, 25)]
    prober = Prober([*start, far, near], [plain_model(62, 58, 60)] * 3)
    answer(prober, prober.ask(START))
    (chosen,) = prober.ask(1)
    assert chosen == near


def test_it_ends_when_models_are_known_well_enough() -> None:
    prober = Prober(pool(40), asked(), tolerance=0.08, limit=40)
    assert prober.state == ""
    told = 0
    while not prober.should_stop:
        probes = prober.ask(2)
        answer(prober, probes)
        told += len(probes)
    assert START < told < 40
    assert prober.half_interval <= 0.08
    assert prober.state == f"models known to ±{100 * prober.half_interval:.1f} %:"


def test_it_ends_at_the_limit_and_says_what_is_left() -> None:
    prober = Prober(pool(40), asked(), tolerance=1e-9, limit=6)
    assert prober.remaining == 6
    answer(prober, prober.ask(4))
    assert prober.remaining == 4  # the first two are asked for alone
    answer(prober, prober.ask(4))
    assert prober.should_stop and prober.ask(4) == []
    assert not prober.cut_short


def test_lack_of_time_cuts_it_short_but_two_are_measured() -> None:
    prober = Prober(pool(), asked())
    first = prober.ask(4, affordable=0.3)
    assert len(first) == 2
    answer(prober, first)
    assert prober.ask(4, affordable=0.3) == []
    prober.end_phase()
    assert prober.should_stop and prober.cut_short


def test_what_is_larger_than_what_ran_out_of_memory_is_not_tried() -> None:
    probes = [
        Network(str(size), Workload(plain_model(size)), _sized(size))
        for size in (32, 8, 16, 48, 64)
    ]
    prober = Prober(probes, asked())
    prober.tell(Measurement(probes[0].layers, failed=Failure("out of memory", Cause.MEMORY)))
    names = {each.name for each in prober.ask(10)}
    assert names == {"8", "16"}


def _sized(size: int) -> tuple[Layer, ...]:
    from dataclasses import replace

    features = ampere.Features(1.0, float(size), 0.0)
    return tuple(replace(layer, features=features) for layer in plain_model(size))


def test_a_journal_told_again_resumes_it() -> None:
    rows = [exact(each.layers) for each in pool()[:6]]
    one, two = Prober(pool(), asked()), Prober(pool(), asked())
    for row in rows:
        one.tell(row)
    for row in rows:
        two.tell(row)
    assert [p.name for p in one.ask(3)] == [p.name for p in two.ask(3)]
    assert not {p.name for p in one.ask(10)} & {p.name for p in pool()[:6]}


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(DataError, match="no network to measure"):
        Prober([], asked())
    with pytest.raises(DataError, match="none to ask about"):
        Prober(pool(), [])


def test_from_end_to_end_members_are_estimated_from_few_networks(tmp_path: Path) -> None:
    device = FakeDevice()
    profile = ampere.profile(
        _net(24),
        (8,),
        path=tmp_path / "p.ampere",
        device=device,
        strategy=ampere.Strategy(max_measurements=14, tolerance=1e-9),
    )
    assert len(profile.measurements) == 14 + 2  # and two of them again, at the end
    from ampere.pytorch.models import read

    layers = read(_net(24), (8,))
    for seed in range(5):
        drawn = resample(layers, random.Random(100 + seed))
        said = profile.estimate(drawn)
        assert said.energy_j == pytest.approx(total(drawn, known_cost).energy_j, rel=0.06)
    again = ampere.profile(
        _net(24),
        (8,),
        path=tmp_path / "p.ampere",
        device=device,
        strategy=ampere.Strategy(max_measurements=14, tolerance=1e-9),
    )
    assert len(again.measurements) == 14 + 2  # it knew enough, and nothing was measured


def test_it_comes_back_to_a_model_by_name_as_such(tmp_path: Path) -> None:
    """What is built from its layers is another program, and may cost something else."""
    probes = [
        Network(each.name, Workload(model=ModelSpec(each.name)), each.layers) for each in pool(6)
    ]
    device = Named()
    journal, _ = open_journal(tmp_path / "p.ampere", device)
    with journal:
        run_profiler(Prober(probes, asked(), tolerance=1e-9, limit=6), device, journal)
        assert len(journal.measurements) == 6 + 2
    models = [workload.model for workload in device.seen if workload.stage == "step"]
    assert models[-2:] == models[:2]


class Named(FakeDevice):
    """All models cost the same."""

    def _once(self, workload: Workload) -> Cost:
        return super()._once(workload) if workload.model is None else Cost(0.02, 0.0, 0.005, 0.0)


def test_joules_may_be_limited(tmp_path: Path) -> None:
    profile = ampere.profile(
        _net(24), (8,), path=tmp_path / "p.ampere", device=FakeDevice(), energy_limit_j=1e-3
    )
    assert len(profile.measurements) <= 4
    assert any("limit" in note for note in profile.notes)


def test_candidates_are_what_it_is_for(tmp_path: Path) -> None:
    small = _net(4)
    profile = ampere.profile(
        _net(24), (8,), path=tmp_path / "p.ampere", device=FakeDevice(), candidates=[small],
        strategy=ampere.Strategy(max_measurements=8),
    )  # fmt: skip
    said = profile.estimate(small, (8,))
    low, high = said.energy_j_interval
    assert (high - low) / said.energy_j < 0.3


def test_where_only_recorded_networks_can_be_measured_it_chooses_among_them() -> None:
    from ampere.acquisition.families import read_network
    from ampere.acquisition.prober import make_prober
    from ampere.acquisition.strategy import Strategy
    from ampere.core.training import Training

    itself = read_network(_net(24), (8,), Training())
    layers = itself.layers
    recorded = [
        Network(f"recorded {seed}", Workload(drawn), drawn)
        for seed in range(9)
        for drawn in [tuple(resample(layers, random.Random(seed)))]
    ]
    prober = make_prober(itself, Strategy(tolerance=1e-9), recorded=recorded)
    asked: list[Network] = []
    while not prober.should_stop:
        chosen = prober.ask(4)
        answer(prober, chosen)
        asked += chosen
    assert sorted(map(str, asked)) == sorted(map(str, recorded))
    free = make_prober(itself, Strategy())
    assert itself in free.probes and not set(recorded) & set(free.probes)


def test_rows_of_another_family_are_no_part_of_the_limit() -> None:
    prober = Prober(pool(40), asked(), tolerance=1e-9, limit=6)
    other = plain_kind(Role.LAST, "attention")
    for width in (2, 4, 8):
        prober.tell(exact((plain_layer(other, in_=width),)))
    assert prober.remaining == 6
    told = 0
    while not prober.should_stop:
        probes = prober.ask(4)
        answer(prober, probes)
        told += len(probes)
    assert told == 6


def _net(width: int):
    from torch import nn

    return nn.Sequential(
        nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)
    )


def test_what_ran_out_of_memory_is_as_large_as_all_of_its_layers_together() -> None:
    from dataclasses import replace

    deep = tuple(replace(layer, count=50) for layer in _sized(8))
    probes = [Network("deep", Workload(deep), deep)]
    probes += [Network(str(n), Workload(plain_model(n)), _sized(n)) for n in (32, 64)]
    prober = Prober(probes, asked())
    prober.tell(Measurement(deep, failed=Failure("out of memory", Cause.MEMORY)))
    assert {each.name for each in prober.ask(10)} == {"32", "64"}
