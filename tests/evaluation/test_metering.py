"""Metering: in other company every time, and never again what is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.acquisition.families import Network
from ampere.acquisition.progress import Event
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.workloads import Workload
from ampere.devices.base import Loaded
from ampere.errors import MeasurementFailed
from ampere.evaluation.metering import (
    TOGETHER,
    Memory,
    Metering,
    companies,
    meter_unseen,
    network_key,
    single_stages,
)
from ampere.sittings.effort import Effort
from ampere.sittings.reference import take_reference
from fakes import FakeDevice, known_cost, total

EFFORT = Effort(burst_s=0.01, warmup_s=0.0, min_rounds=2, max_rounds=2)


def networks(count: int) -> list[Network]:
    kind = LayerKind("linear", Role.HIDDEN, "linear")
    layers = [(Layer("linear", kind, Widths({"in": 1 + i, "out": 4})),) for i in range(count)]
    return [Network(f"net{i}", Workload(each), each) for i, each in enumerate(layers)]


class Diary(FakeDevice):
    """Writes down which networks are loaded, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[int] = []
        self.broken: int | None = None

    def load(self, workload: Workload) -> Loaded:
        width = workload.layers[0].widths.get("in") if workload.layers else None
        if width is not None:
            if width == self.broken:
                raise MeasurementFailed("too large")
            self.loads.append(width - 1)
        return super().load(workload)


@pytest.fixture
def device() -> Diary:
    return Diary()


def metering(device: Diary, ledger: Memory, watched: list[Event] | None = None) -> Metering:
    watch = (lambda event: None) if watched is None else watched.append
    nominal = take_reference(device, EFFORT)
    device.loads.clear()
    return Metering(device, nominal, ledger, EFFORT, watch)


def test_companies_are_others_every_turn_and_leave_nobody_out() -> None:
    every = networks(12)
    first, second = ([[n.name for n in group] for group in companies(every, t)] for t in (0, 1))
    assert [len(group) for group in first] == [TOGETHER, TOGETHER, 2]
    for groups in (first, second):
        assert sorted(name for group in groups for name in group) == sorted(n.name for n in every)
    assert {frozenset(group) for group in first}.isdisjoint(map(frozenset, second))


def test_every_network_is_metered_so_many_times(device: Diary) -> None:
    ledger, watched = Memory(), list[Event]()
    every = networks(7)
    rows = metering(device, ledger, watched).meter(every, passes=2)
    assert [len(pair) for pair in rows] == [2] * 7
    assert len(ledger.measurements) == 14
    for network, pair in zip(every, rows, strict=True):
        for row in pair:
            assert row.layers == network.layers
            assert row.energy_j == pytest.approx(total(network.layers, known_cost).energy_j)
    assert [(event.done, event.total) for event in watched] == [(0, 14), (5, 14), (7, 14), (12, 14)]


def test_what_the_ledger_has_is_not_metered_again(device: Diary) -> None:
    ledger = Memory()
    every = networks(6)
    once = metering(device, ledger).meter(every[:4])
    device.loads.clear()
    rows = metering(device, ledger).meter(every, passes=1)
    assert set(device.loads) == {4, 5}
    assert rows[:4] == once
    device.loads.clear()
    twice = metering(device, ledger).meter(every, passes=2)
    assert set(device.loads) == set(range(6))
    assert [pair[:1] for pair in twice] == rows


def test_another_stage_or_count_is_another_network() -> None:
    (plain,) = networks(1)
    (layer,) = plain.layers
    forward = replace(plain, workload=replace(plain.workload, stage="forward"))
    double = replace(plain, layers=(replace(layer, count=2),))
    assert len({network_key(each) for each in (plain, forward, double)}) == 3
    assert network_key(replace(plain, name="another")) == network_key(plain)


def test_a_few_steps_come_right_before_the_first_time(device: Diary) -> None:
    ledger = Memory()
    every = networks(7)
    metered = meter_unseen(metering(device, ledger), every, steps=3)
    companions = [[int(n.name[3:]) for n in group] for group in companies(every, 0)]
    assert device.loads[:5] == companions[0]  # one by one
    assert set(device.loads[5:10]) == set(companions[0])  # interleaved
    assert [each.network for each in metered] == every
    assert all(each.few_steps.bursts["steps"] == 3 for each in metered)
    assert all(each.first is not each.second for each in metered)
    assert len(ledger.measurements) == 14  # a few steps are no measurement of a profile


def test_what_fails_is_told_and_not_tried_again(device: Diary) -> None:
    ledger = Memory()
    every = networks(3)
    device.broken = 2
    metered = meter_unseen(metering(device, ledger), every)
    assert [each.failed for each in metered] == [None, "net1: too large", None]
    assert len(ledger.measurements) == 6


def test_single_stages_are_of_each_kind_alone() -> None:
    from ampere.pytorch.models import read

    layers = read("zoo:lstm")
    stages = single_stages(layers, levels=2)
    assert {each.workload.stage for each in stages} == {"forward", "backward", "update"}
    assert all(len(each.layers) == 1 for each in stages)
    assert {each.layers[0].kind.name for each in stages} == {layer.kind.name for layer in layers}
    assert len({network_key(each) for each in stages}) == len(stages)
