"""Dates, times and durations as text → keys that are ordered as the moments and lengths are.

ISO 8601. A year may be before 1 (``-0044``) or have more than four digits, a second any number of
decimals. A date-time with a distance from UTC is an instant; one without is taken as UTC.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Moment: TypeAlias = tuple[int, str]
"""Whole seconds since 1970, and the digits of the part of a second, without zeros at the end."""

_DATE = r"(?P<year>[+-]?\d{4,})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?"
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?"
    r"\s?(?P<zone>Z|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?(?:\[[\w/+-]+\])?"
)
_MOMENT = re.compile(rf"{_DATE}(?:[T ]{_CLOCK})?", re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?=.)(?:(?P<Y>-?\d+)Y)?(?:(?P<M>-?\d+)M)?(?:(?P<W>-?\d+)W)?(?:(?P<D>-?\d+)D)?"
    r"(?:T(?=.)(?:(?P<h>-?\d+)H)?(?:(?P<m>-?\d+)M)?(?:(?P<s>-?\d+)(?:\.(?P<part>\d+))?S)?)?"
)
_LENGTHS = {"Y": 31556952, "M": 2629746, "W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar; None if invalid."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTHS[month - 1] + (month == 2 and leap):
        return None
    before = year - (month < 3)
    days = 365 * before + before // 4 - before // 100 + before // 400
    return days + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469


@lru_cache(65_536)
def moment(text: str, *, on_clock: bool = False) -> Moment | None:
    """Parse a date, date-time or time of day into a sortable key; None for another text.

    ``on_clock``: local time, ignoring the offset from UTC.

    >>> moment("2024-01-01T09:00:00+09:00") < moment("2024-01-01T00:00:00.5Z")
    True
    >>> moment("-0044-03-15") < moment("-0043-12-07") < moment("0014-08-19")
    True
    """
    match = _MOMENT.fullmatch(text) or _TIME.fullmatch(text)
    if match is None:
        return None
    found = match.groupdict()
    days: int | None = 0
    if year := found.get("year"):
        days = _days(int(year), int(found["month"] or 1), int(found["day"] or 1))
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if days is None or hour > 24 or minute > 59 or second > 60:
        return None
    zone = "" if on_clock else found["zone"] or ""
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - _utc_offset(zone)
    return seconds, (found["part"] or "").rstrip("0")


def _utc_offset(zone: str) -> int:
    """Return the seconds of a time zone offset such as ``+09:00``."""
    if zone in ("", "Z"):
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return -seconds if zone[0] == "-" else seconds


def has_zone(text: str) -> bool:
    """Return whether a date-time or a time states its offset from UTC.

    >>> has_zone("2024-01-01T09:00:00+09:00"), has_zone("2024-01-01")
    (True, False)
    """
    match = _MOMENT.fullmatch(text) or _TIME.fullmatch(text)
    return match is not None and bool(match["zone"])


def needs_reading(text: str) -> bool:
    """Return whether a date or time must be parsed to be ordered; False for any other text."""
    match = _MOMENT.fullmatch(text) or _TIME.fullmatch(text)
    if match is None:
        return False
    found = match.groupdict()
    year = found.get("year") or ""
    away = (found["zone"] or "Z") not in ("Z", "+00:00")
    return away or len(year) > 4 or len(found["hour"] or "00") < 2


def days_between(later: str, earlier: str) -> float | None:
    """Return the days from ``earlier`` to ``later``; None unless both are dates or date-times.

    >>> days_between("2024-03-01", "2024-02-28T12:00"), days_between("2024", "soon")
    (1.5, None)
    """
    end, start = moment(later), moment(earlier)
    if end is None or start is None:
        return None
    end_part, start_part = (float(f"0.{digits or 0}") for _, digits in (end, start))
    return (end[0] - start[0] + end_part - start_part) / 86400


@lru_cache(65_536)
def length(text: str) -> Moment | None:
    """Parse a duration into a sortable key; None if it is not one. A month is 365.2425 / 12 days.

    >>> length("PT20M"), length("PT1H") < length("P1D") < length("P1M") < length("P1Y")
    ((1200, ''), True)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    part = (match["part"] or "").rstrip("0")
    parts = sum(int(match[name] or 0) * seconds for name, seconds in _LENGTHS.items())
    negative = (match["sign"] == "-") != (match["s"] or "").startswith("-")
    if match["sign"] == "-":
        parts = -parts
    if part and negative:  # -1.25 is -2 and .75
        digits = len(part)
        return parts - 1, str(10**digits - int(part)).rjust(digits, "0").rstrip("0")
    return parts, part


def length_text(seconds: float) -> str:
    """Format a number of seconds as an ISO 8601 duration.

    >>> length_text(7200), length_text(5400.5), length_text(0)
    ('PT2H', 'PT1H30M0.5S', 'PT0S')
    """
    whole, part = divmod(abs(seconds), 1)
    minutes, left = divmod(int(whole), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count]
    if left or part or not parts:
        parts.append(f"{left}{f'{part:.9f}'.rstrip('0').lstrip('0').rstrip('.')}S")
    return f"{'-' if seconds < 0 else ''}PT{''.join(parts)}"


def date_text(days: int) -> str:
    """Format the date ``days`` after 1970-01-01 in ISO 8601, of any year.

    >>> date_text(0), date_text(-719529), date_text(-735525)
    ('1970-01-01', '-0001-12-31', '-0044-03-15')
    """
    era, day = divmod(days + 719468, 146097)
    of_era = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * of_era + of_era // 4 - of_era // 100
    month = (5 * day + 2) // 153
    day += 1 - (153 * month + 2) // 5
    month += 3 if month < 10 else -9
    year = of_era + 400 * era + (month < 3)
    return f"{year:05}-{month:02}-{day:02}" if year < 0 else f"{year:04}-{month:02}-{day:02}"


def moment_text(seconds: int, nanoseconds: int, zone: str = "") -> str:
    """Format a date-time of any year in ISO 8601, from its local seconds since 1970.

    >>> moment_text(-63549327600, 500_000_000, "+01:00")
    '-0044-03-15T09:00:00.5+01:00'
    """
    days, clock = divmod(seconds, 86400)
    part = f".{nanoseconds:09}".rstrip("0").rstrip(".")
    hours, minutes = clock // 3600, clock // 60 % 60
    return f"{date_text(days)}T{hours:02}:{minutes:02}:{clock % 60:02}{part}{zone}"
