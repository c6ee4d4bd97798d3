"""Batteries as meters: what a gauge teaches of itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.meters.base import Resolution
from ampere.meters.discharge import Battery, Fineness


@settings(max_examples=60)
@given(
    update_s=st.floats(0.5, 100),
    looks=st.floats(0.01, 10),
    step_j=st.floats(0.1, 1000),
    documented=st.builds(Resolution, st.floats(0.1, 1000), st.floats(0.5, 100)),
)
def test_learns_the_truth_or_nothing(
    update_s: float, looks: float, step_j: float, documented: Resolution
) -> None:
    fineness = Fineness(documented)
    look_s = update_s * looks
    for number in range(1, int(10 / looks) + 20):
        time_s = number * look_s
        fineness.look(time_s, step_j * (time_s // update_s))
    learnt = fineness.resolution
    if looks < 0.2:
        assert learnt.energy_j == pytest.approx(step_j)
        assert learnt.period_s == pytest.approx(update_s, abs=2.1 * look_s)
    elif looks > 1.1:  # rare looks must not make a gauge look coarser than it may be
        assert learnt.energy_j <= documented.energy_j
        assert learnt.period_s <= documented.period_s


def test_few_moves_teach_nothing() -> None:
    documented = Resolution(36.0, 30.0)
    fineness = Fineness(documented)
    for number, value in enumerate([9, 9, 8, 8, 7, 7, 6, 6]):
        fineness.look(float(number), value)
        assert fineness.resolution == documented
    fineness.look(8.0, 5)
    assert fineness.resolution == Resolution(1.0, 3.0)


def test_every_step_shorter_than_a_look_lowers_the_documented_figures() -> None:
    fineness = Fineness(Resolution(36.0, 30.0))
    for number in range(10):
        fineness.look(float(number), 2.0 * number)
    assert fineness.resolution == Resolution(2.0, 2.0)


@pytest.mark.parametrize(
    ("battery", "source", "level"),
    [
        (Battery(energy_j=50.0), "energy", (50.0, 1.0)),
        (Battery(charge_c=9.0, voltage_v=4.0), "charge", (9.0, 4.0)),
        (Battery(charge_c=9.0), "charge", None),
        (Battery(voltage_v=4.0), "charge", None),
        (Battery(power_w=2.0), "energy", None),
    ],
)
def test_what_is_left_in_a_battery_and_its_unit(
    battery: Battery, source: str, level: tuple[float, float] | None
) -> None:
    assert battery.level(source) == level
    assert battery.shows(source) == (level is not None)
    assert battery.shows("power") == (battery.power_w is not None)
