"""The check finds additivity where there is some, and says so where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ampere.acquisition.progress import Event
from ampere.core.layers import Layer, Role
from ampere.errors import MeasurementFailed
from ampere.evaluation.check import DEPTHS, check
from fakes import FakeDevice, known_cost, plain_kind, plain_layer

ENDS = (
    plain_layer(plain_kind(Role.FIRST), out=16),
    plain_layer(plain_kind(Role.LAST), in_=16),
)
STACKED = plain_layer(plain_kind(Role.HIDDEN, "A"), in_=16, out=16)
OTHER = plain_layer(plain_kind(Role.HIDDEN, "B"), in_=16, out=16)


def test_an_additive_device_gives_the_layers_cost_as_the_slope() -> None:
    found = check(FakeDevice(), ENDS, STACKED, OTHER)
    assert found.slope_j == pytest.approx(known_cost(STACKED).energy_j)
    assert found.r2 == pytest.approx(1.0)
    assert found.largest_deviation < 1e-9
    assert found.order_deviation < 1e-9
    assert found.additive and found.quiet
    assert found.idle_w == pytest.approx(FakeDevice.idle_w)


def test_a_device_whose_deep_networks_cost_more_than_their_layers_is_not_additive() -> None:
    def thrashing(layers: Sequence[Layer]) -> float:
        return 1 + 0.15 * max(0, len(layers) - 5)

    found = check(FakeDevice(interaction=thrashing), ENDS, STACKED, OTHER)
    assert not found.additive
    assert found.largest_deviation > 0.1
    assert "additive  no:" in repr(found)


def test_a_device_where_position_matters_is_not_additive() -> None:
    def early_is_dear(layers: Sequence[Layer]) -> float:
        return 1.5 if layers[1].kind.operation == "B" else 1.0

    found = check(FakeDevice(interaction=early_is_dear), ENDS, STACKED, OTHER)
    assert found.order_deviation > 0.1
    assert not found.additive


def test_a_noisy_machine_is_not_quiet() -> None:
    found = check(FakeDevice(noise=0.8, seed=3), ENDS, STACKED, OTHER)
    assert not found.quiet
    assert found.additive is not True


def test_a_network_that_fails_ends_the_check_with_its_reason() -> None:
    class Broken(FakeDevice):
        def load(self, workload):
            if len(workload.layers) == 2 + DEPTHS[-1]:
                raise MeasurementFailed("out of memory")
            return super().load(workload)

    with pytest.raises(MeasurementFailed, match="out of memory"):
        check(Broken(), ENDS, STACKED, OTHER)


def test_it_can_be_watched_to_the_end() -> None:
    events: list[Event] = []
    check(FakeDevice(), ENDS, STACKED, OTHER, watch=events.append)
    assert events[-1].done == events[-1].total
    assert [event.done for event in events] == sorted(event.done for event in events)
