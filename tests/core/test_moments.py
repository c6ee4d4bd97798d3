"""Moments: what a date or a time of day is in seconds from a beginning."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary import moments
from ampere.core.boundary.moments import Calendar, parse_moment, parse_zone
from ampere.errors import DataError

BEGINS_S = parse_moment("2026-11-18T22:30:00Z")
BERLIN = Calendar(BEGINS_S, parse_zone("Europe/Berlin"))


def test_a_moment_with_an_offset_says_itself_when_it_is() -> None:
    stated = datetime.fromisoformat("2026-11-19T06:00:00+01:00")
    assert Calendar(BEGINS_S).seconds(stated) == 6.5 * 3600
    assert Calendar(BEGINS_S).seconds(stated - timedelta(days=1)) == -17.5 * 3600


def test_without_an_offset_a_zone_is_needed() -> None:
    for stated in (datetime(2026, 11, 19, 6), time(6)):
        assert BERLIN.seconds(stated) == 6.5 * 3600
        with pytest.raises(DataError, match="06:00:00 has no offset"):
            Calendar(BEGINS_S).seconds(stated)


@pytest.mark.parametrize("text", ["2026-10-25T02:30:00", "2026-03-29T02:30:00"])
def test_what_is_there_twice_or_never_needs_its_offset(text: str) -> None:
    with pytest.raises(DataError, match=r"twice or never.*write its offset"):
        BERLIN.seconds(datetime.fromisoformat(text))


def test_a_day_on_which_clocks_change_does_not_matter_to_others() -> None:
    saturday = Calendar(parse_moment("2026-10-24T12:00:00Z"), BERLIN.zone)
    assert saturday.before(time(2, 30), 0.0) == -11.5 * 3600
    with pytest.raises(DataError, match="twice or never"):
        saturday.seconds(time(2, 30))


@pytest.mark.parametrize("text", ["Mars", "", "+1:00", "+24:00", "../etc", "/etc/passwd", "a\0b"])
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is no zone"):
        parse_zone(text)


def test_where_there_are_no_zones_they_are_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "available_timezones", set)
    with pytest.raises(DataError, match="no zones are installed here: pip install tzdata"):
        parse_zone("Mars")


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "9" * 30])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is no moment"):
        parse_moment(text)


@given(begins=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), stated=st.times())
def test_the_next_and_the_last_one_are_a_day_apart(begins: datetime, stated: time) -> None:
    calendar = Calendar(begins.replace(tzinfo=timezone.utc).timestamp(), timezone.utc)
    after_s, before_s = calendar.after(stated, 0.0), calendar.before(stated, 0.0)
    assert before_s < 0 <= after_s
    assert after_s - before_s == pytest.approx(86400, abs=1e-3)
