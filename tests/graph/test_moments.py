"""Moments and durations: their keys are ordered as they are, however they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.moments import date_text, length, moment, moment_text

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
INSTANTS = st.builds(
    lambda when, zone: when.replace(tzinfo=UTC).astimezone(zone),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),
    ZONES,
)


@given(INSTANTS, INSTANTS)
def test_date_times_are_ordered_as_instants(one: datetime, two: datetime) -> None:
    keys = moment(one.isoformat()), moment(two.isoformat())
    assert None not in keys
    assert (keys[0] < keys[1], keys[0] == keys[1]) == (one < two, one == two)  # type: ignore[operator]


@given(st.integers(-4_000_000, 8_000_000))
def test_days_of_all_years_come_one_after_the_other(day: int) -> None:
    assert moment(date_text(day)) == (86_400 * day, "")


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**9 - 1))
def test_what_is_written_is_read(seconds: int, nanoseconds: int) -> None:
    read = moment(moment_text(seconds, nanoseconds))
    assert read is not None
    assert (read[0], Fraction(f"0.{read[1] or 0}")) == (seconds, Fraction(nanoseconds, 10**9))


@given(st.fractions(-(10**6), 10**6, max_denominator=10**6), st.integers(0, 10**5))
def test_durations_are_ordered_by_their_length(seconds: Fraction, more: int) -> None:
    said = round(seconds, 3)
    text = f"PT{float(said):.3f}S"
    longer = f"PT{float(said + more + 1):.3f}S"
    assert length(text) < length(longer)  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["2024-02-30", "2023-13-01", "25:00", "12:60", "1997-Q4", "abc", "", "P", "PT", "12"]
)
def test_what_is_no_moment_and_no_duration_is_none(text: str) -> None:
    assert moment(text) is None
    assert length(text) is None
