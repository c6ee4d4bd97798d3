from __future__ import annotations

import math

import pytest

from ampere.errors import MeterError
from ampere.meters.base import Provenance, Window, energy_between
from ampere.meters.drivers.fake import FakeMeter


def test_moves_by_what_it_is_told() -> None:
    meter = FakeMeter()
    before = meter.read()
    meter.advance(1.5, 0.25)
    meter.advance(0.5, 0.25)
    assert energy_between(before, meter.read()) == Window(2.0, 0.5)


def test_stands_still_by_itself() -> None:
    meter = FakeMeter()
    assert meter.read() == meter.read()


def test_moves_by_its_steps() -> None:
    meter = FakeMeter(step_j=3.0, step_s=0.5)
    assert energy_between(meter.read(), meter.read()) == Window(3.0, 0.5)


def test_joules_are_called_simulated() -> None:
    assert FakeMeter().read().provenance is Provenance.SIMULATED


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_moves_are_refused(bad: float) -> None:
    for move in [(bad, 1.0), (1.0, bad)]:
        with pytest.raises(MeterError, match="cannot move"):
            FakeMeter().advance(*move)
        with pytest.raises(MeterError, match="cannot move"):
            FakeMeter(*move)
