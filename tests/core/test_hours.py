"""Files of hours: what holds when, the mean of a window, and everything that is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.hours import DAY_S, HOUR_S, Hours, read_hours
from ampere.errors import DataError

T0 = 1_700_000_000.0 - 1_700_000_000.0 % DAY_S  # midnight in UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def read(tmp_path: Path, text: str | bytes) -> Hours:
    path = tmp_path / "hours.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_hours(path, lambda title: ("g", 1.0) if title == "value" else None, "write value")


def test_times_hold_until_the_next(tmp_path: Path) -> None:
    hours = read(
        tmp_path,
        "time,value\n2026-01-31T14:00Z,10\n2026-01-31T15:00Z,20\n\n2026-01-31T16:00+00:00,60\n",
    )
    begin = hours.begins_s[0]
    assert hours.mean == 30.0
    assert hours.over(begin, begin + HOUR_S) == (10.0, 1.0)
    assert hours.over(begin + 1800, begin + 5400) == (15.0, 1.0)
    assert hours.over(begin, begin + 3 * HOUR_S) == pytest.approx((30.0, 1.0))
    mean, known = hours.over(begin + 2 * HOUR_S, begin + 4 * HOUR_S)  # half of it is beyond
    assert (mean, known) == (45.0, 0.5)
    assert hours.over(begin - 9e5, begin - 8e5) == (30.0, 0.0)


def test_a_gap_in_the_file_is_not_filled_by_the_hour_before(tmp_path: Path) -> None:
    rows = "".join(f"{T0 + HOUR_S * h:.0f},{v}\n" for h, v in ((0, 0), (1, 0), (2, 0), (9, 100)))
    hours = read(tmp_path, f"time,value\n{rows}")
    assert hours.over(T0 + 2 * HOUR_S, T0 + 4 * HOUR_S) == (12.5, 0.5)  # 0, then the mean of 25


def test_hours_of_a_day_come_back(tmp_path: Path) -> None:
    hours = read(tmp_path, "hour,value\n" + "".join(f"{h},{h}\n" for h in range(24)))
    assert hours.mean == 11.5
    assert hours.over(T0 + 5 * HOUR_S, T0 + 7 * HOUR_S) == (5.5, 1.0)
    assert hours.over(T0 + 23 * HOUR_S, T0 + 25 * HOUR_S) == (11.5, 1.0)  # 23 and 0
    assert hours.over(T0, T0 + 1000 * DAY_S) == pytest.approx((11.5, 1.0))
    mean, known = hours.over(T0 + 9 * HOUR_S, T0 + DAY_S + 10 * HOUR_S)  # a day, and once more 9
    assert (mean, known) == pytest.approx(((24 * 11.5 + 9) / 25, 1.0))


def test_hours_are_those_of_the_clock_on_the_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = read(tmp_path, "hour,value\n" + "".join(f"{h},{h}\n" for h in range(24)))
    monkeypatch.setenv("TZ", "Etc/GMT-2")  # two hours ahead
    time.tzset()
    assert hours.over(T0, T0 + HOUR_S) == (2.0, 1.0)


@given(st.floats(0, 4e9), st.floats(1, 1e9), st.sets(st.integers(0, 23), min_size=1))
def test_a_mean_is_between_the_values(begin_s: float, length_s: float, known: set[int]) -> None:
    begins = tuple(h * HOUR_S for h in sorted(known))
    values = tuple(float(h) for h in sorted(known))
    hours = Hours(begins, tuple(b + HOUR_S for b in begins), values, daily=True)
    mean, share = hours.over(begin_s, begin_s + length_s)
    assert min(values) - 1e-6 <= mean <= max(values) + 1e-6
    assert 0 <= share <= 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "its first line is '': write value"),
        ("hour,price\n1,2\n", "its first line is 'hour,price': write value"),
        ("hour,value,more\n1,2,3\n", "its first line is 'hour,value,more'"),
        ("value,hour\n1,2\n", "its first line"),
        ("hour,value\n", "it has no rows"),
        ("hour,value\n24,1\n", "line 2: '24' is no hour of a day"),
        ("hour,value\n1.5,1\n", "line 2: '1.5' is no hour"),
        ("hour,value\n1,1\n1,2\n", "line 3: '1' does not come after"),
        ("hour,value\n1,nan\n", "line 2: 'nan' is no number from 0"),
        ("hour,value\n1,-1\n", "line 2: '-1' is no number from 0"),
        ("hour,value\n1,1e99\n", "is no number"),
        ("hour,value\n1\n", "line 2 has 1 cells"),
        ("time,value\nyesterday,1\n", "line 2: 'yesterday' is no time"),
        ("time,value\n99999999999999,1\n", "is no time"),
        ("time,value\n2026-01-31T15:00Z,1\n2026-01-31T14:00Z,2\n", "line 3"),
        (b"\xff\xfe", "no UTF-8 text"),
        ("hour,value\n1,\x00\n", "line 2"),
    ],
)
def test_anything_else_is_refused_in_a_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "hours.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_hours(tmp_path / "absent.csv", lambda title: ("g", 1.0), "")
