"""Relative dates in English questions: "last month", "today".

They are written out before the question is read, so that all methods take them as the same dates.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_RELATIVE = re.compile(
    r"\b(?:(?P<in>in|during|on|of|from|for|over|within)\s+)?"
    r"(?:(?<!the )(?P<which>this|the current|last|the previous|next|the coming)\s+"
    r"(?P<unit>week|month|quarter|year)(?!\s+of\b)"
    r"|(?P<day>today|yesterday|tomorrow)"
    r"|(?:the\s+)?(?:last|past)\s+(?P<count>\d{1,4})\s+(?P<units>day|week|month|year)s"
    r"|the\s+(?:last|past)\s+(?P<one>day|week|month|year)"
    r"|(?<=for )(?P<for>\d{1,4})\s+(?P<fors>day|week|month|year)s)\b(?!['’]s\s+[A-Z])",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\bnot|n['’]t|\bnever|\bno)\b[^,;.]*$", re.IGNORECASE)
_COMPARED = re.compile(r"\b(?:since|before|after|until|till|by|than|between|and)\s+$", re.I)
_AWAY = {
    "today": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "last": -1,
    "previous": -1,
    "next": 1,
    "coming": 1,
}
_DAYS = {"day": 1, "week": 7}


def written_out(
    question: str, names: Sequence[str], today: str | None = None, zone: str | None = None
) -> tuple[str, list[str]]:
    """Replace relative dates as "last month" in ``question``; return it and a note on each.

    ``names``: the words that name its topic entities, which are kept. ``today``: the day of the
    question, as YYYY-MM-DD; by default the clock's in the time ``zone``, or in the machine's own.
    Raises UsageError if the day or zone does not exist.

    >>> written_out("Who left last month, or since this year?", [], "2024-01-31")[0]
    'Who left in December 2023, or since 2024?'
    >>> written_out("Who has not come in the last 2 weeks?", [], "2024-01-31")[0]
    'Who has not come since 2024-01-17?'
    >>> written_out("Who came yesterday or in the last 2 weeks?", [], "2024-01-31")[0]
    'Who came on 2024-01-30 or between 2024-01-17 and 2024-01-31?'
    """
    matches = [
        match
        for match in _RELATIVE.finditer(question)
        if not any(match[0].casefold() in name.casefold() for name in names)
        and (not match["for"] or _DENIED.search(question[: match.start()]))
    ]
    if not matches:
        return question, []
    now, where = today_of(today, zone)
    notes = []
    for match in reversed(matches):
        before = question[: match.start()]
        bare = not match["in"] and bool(_COMPARED.search(before))
        text = _dates(match, now, bare=bare, denied=bool(_DENIED.search(before)))
        question = question[: match.start()] + text + question[match.end() :]
        notes.append(f'Took "{match[0]}" for "{text}": today is {now}{where}.')
    return question, notes[::-1]


def today_of(today: str | None, zone: str | None) -> tuple[date, str]:
    """Return the day of the question, and its time zone in words, "" if ``today`` is given.

    ``today``: as YYYY-MM-DD, None: the clock's day in ``zone`` or the machine's time zone. Raises
    UsageError.
    """
    try:
        if today is not None:
            return date.fromisoformat(today), ""
        now = datetime.now(ZoneInfo(zone)) if zone else datetime.now().astimezone()
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise UsageError(
            f"This day or time zone does not exist: {today if today is not None else zone}.",
            "Give `today` as 2024-01-31, `zone` as Europe/Berlin.",
        ) from None
    return now.date(), f" ({now.tzname()})"


def _dates(match: re.Match[str], now: date, *, bare: bool, denied: bool) -> str:
    """Return the text of the dates that a matched phrase means on the day ``now``.

    ``bare``: a comparing word stands before it, so the text has no preposition, and of days or
    weeks only the first day. ``denied``: behind a negation "in the last week" is "since" its first
    day.
    """
    if match["day"]:
        day = now + timedelta(_AWAY[match["day"].lower()])
        return f"{day}" if bare else f"on {day}"
    if match["count"] or match["one"] or match["for"]:
        unit = (match["units"] or match["one"] or match["fors"]).lower()
        count = int(match["count"] or match["for"] or 1)
        first = now - timedelta(count * _DAYS[unit]) if unit in _DAYS else None
        first = first or _months_on(now, -count * (12 if unit == "year" else 1))
        if denied and not bare:
            return f"since {first}"
        return f"{first}" if bare else f"between {first} and {now}"
    away = _AWAY.get(match["which"].lower().rpartition(" ")[2], 0)
    match match["unit"].lower():
        case "year":
            text = f"{now.year + away}"
        case "month":
            text = f"{_months_on(now.replace(day=1), away):%B %Y}"
        case "quarter":
            first = _months_on(now.replace(day=1), 3 * away)
            text = f"Q{(first.month + 2) // 3} {first.year}"
        case _:
            monday = now + timedelta(7 * away - now.weekday())
            return f"{monday}" if bare else f"between {monday} and {monday + timedelta(6)}"
    return text if bare else f"in {text}"


def _months_on(day: date, months: int) -> date:
    """Return the day ``months`` later, or the last day of that month if it has no such day."""
    month = day.year * 12 + day.month - 1 + months
    year, month = max(month // 12, 1), month % 12 + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))
