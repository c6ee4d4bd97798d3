from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Reading
from ampere.meters.drivers.replay import ReplayMeter

Log = Callable[[str], str]


def replay(path: str, readings: int) -> list[tuple[float, float]]:
    meter = ReplayMeter(path)
    return [(r.time_s, r.energy_j) for r in (meter.read() for _ in range(readings))]


def test_replays_running_totals_row_by_row(log: Log) -> None:
    path = log("time_s,energy_j\n10,100\n11,102.5\n\n12,102.5\n")
    assert replay(path, 3) == [(10, 100), (11, 102.5), (12, 102.5)]


def test_integrates_power_by_trapezoids(log: Log) -> None:
    path = log("time_s, power_w\n5,2\n6,4\n8,0\n")
    assert replay(path, 3) == [(5, 0), (6, 3), (8, 7)]


def test_replays_the_logs_of_lab_meters(log: Log) -> None:
    path = log("Time (s),Main Avg Power (mW)\n0,2000\n1,2000\n")
    assert replay(path, 2) == [(0, 0), (1, 2)]


def test_joules_are_called_recorded(log: Log) -> None:
    meter = ReplayMeter(log("time_s,energy_j\n0,1\n1,2\n"))
    assert meter.read() == Reading(1, 0, Provenance.RECORDED)


def test_end_of_the_log_is_an_error_each_time(log: Log) -> None:
    meter = ReplayMeter(log("time_s,energy_j\n0,0\n1,1\n"))
    meter.read()
    meter.read()
    for _ in range(2):
        with pytest.raises(MeterError, match="log is exhausted after 2 readings"):
            meter.read()


def test_impossible_rows_are_named_when_the_log_is_opened(log: Log) -> None:
    with pytest.raises(MeterError, match="line 4: '2,lots': could not convert"):
        ReplayMeter(log("time_s,energy_j\n\n1,2\n2,lots\n3,9\n"))


def test_reading_after_a_gap_is_a_fault_once(log: Log) -> None:
    meter = ReplayMeter(log("time_s,power_w\n" + "".join(f"{t},2\n" for t in (0, 1, 2, 50, 51))))
    for _ in range(3):
        meter.read()
    with pytest.raises(MeterFault, match="nothing usable for 48 s"):
        meter.read()
    assert meter.read().time_s == 51


def test_power_that_is_negative_all_the_time_is_refused(log: Log) -> None:
    with pytest.raises(MeterError, match="too few usable samples"):
        ReplayMeter(log("time_s,power_w\n0,-2\n1,-2\n2,-2\n"))


@pytest.mark.parametrize("text", ["", "\n1,2", "energy_j\n1", "hours,energy\n1,2"])
def test_other_columns_are_refused(log: Log, text: str) -> None:
    with pytest.raises(MeterError, match="no columns that can be read"):
        ReplayMeter(log(text))


def test_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="cannot be read"):
        ReplayMeter(str(tmp_path / "absent.csv"))
