from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import MeterError
from ampere.meters import Provenance, Reading
from ampere.meters.replay import ReplayMeter, _integrate

Log = Callable[[str], str]


def replay(path: str, readings: int) -> list[tuple[float, float]]:
    meter = ReplayMeter(path)
    return [(r.time_s, r.energy_j) for r in (meter.read() for _ in range(readings))]


def test_replays_running_totals_row_by_row(log: Log) -> None:
    path = log("time_s,energy_j\n10,100\n11,102.5\n\n11,102.5\n")
    assert replay(path, 3) == [(10, 100), (11, 102.5), (11, 102.5)]


def test_integrates_power_by_trapezoids(log: Log) -> None:
    path = log("time_s, power_w\n5,2\n6,4\n8,0\n")
    assert replay(path, 3) == [(5, 0), (6, 3), (8, 7)]


@given(
    start_s=st.floats(0, 1e3),
    steps_s=st.lists(st.floats(0, 10), max_size=20),
    slope=st.floats(0, 5),
)
def test_integral_of_linear_power_is_exact(
    start_s: float, steps_s: list[float], slope: float
) -> None:
    times = [start_s]
    for step_s in steps_s:
        times.append(times[-1] + step_s)
    *_, (end_s, energy_j) = _integrate([(t, 1 + slope * t) for t in times])
    expected_j = (end_s - start_s) * (1 + slope * (start_s + end_s) / 2)
    assert energy_j == pytest.approx(expected_j, rel=1e-9, abs=1e-9)


def test_joules_are_called_recorded(log: Log) -> None:
    assert ReplayMeter(log("time_s,energy_j\n0,1\n")).read() == Reading(1, 0, Provenance.RECORDED)


def test_bytes_before_the_header_of_a_spreadsheet_are_skipped(log: Log) -> None:
    assert replay(log("\ufefftime_s,energy_j\r\n1,2\r\n"), 1) == [(1, 2)]


def test_end_of_the_log_is_an_error_each_time(log: Log) -> None:
    meter = ReplayMeter(log("time_s,energy_j\n0,0\n"))
    meter.read()
    for _ in range(2):
        with pytest.raises(MeterError, match="log is exhausted after 1 readings"):
            meter.read()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("nan,5", "not finite"),
        ("2,inf", "not finite"),
        ("2,lots", "not two numbers"),
        ("2", "not two numbers"),
        ("2,5,6", "not two numbers"),
        ("0.5,5", "time runs back from 1 to 0.5 s"),
        ("2,1", "total falls from 2 to 1 J"),
    ],
)
def test_impossible_rows_are_named_when_the_log_is_opened(
    log: Log, row: str, complaint: str
) -> None:
    path = log(f"time_s,energy_j\n\n1,2\n{row}\n3,9\n")
    with pytest.raises(MeterError, match=f"line 4: .*{complaint}"):
        ReplayMeter(path)


def test_negative_power_is_refused(log: Log) -> None:
    with pytest.raises(MeterError, match="line 3: power is negative"):
        ReplayMeter(log("time_s,power_w\n0,2\n1,-2\n"))


def test_falling_power_is_not(log: Log) -> None:
    assert replay(log("time_s,power_w\n0,2\n1,0\n"), 2)[-1] == (1, 1)


@pytest.mark.parametrize(
    "text", ["", "\n1,2", "energy_j\n1", "time,energy\n1,2", "time_s,energy_j,power_w\n1,2,3"]
)
def test_other_headers_are_refused(log: Log, text: str) -> None:
    with pytest.raises(MeterError, match="line 1: the header must be"):
        ReplayMeter(log(text))


def test_log_without_rows_is_refused(log: Log) -> None:
    with pytest.raises(MeterError, match="no readings"):
        ReplayMeter(log("time_s,energy_j\n"))


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"time_s,energy_j\n\xff\xfe\n")
    with pytest.raises(MeterError, match="not a text file"):
        ReplayMeter(str(path))
    with pytest.raises(MeterError, match="cannot be read"):
        ReplayMeter(str(tmp_path / "absent.csv"))
    with pytest.raises(MeterError, match="cannot be read"):
        ReplayMeter(str(tmp_path))
