"""The semantics of values in plans: comparison, parts of dates, order; equal on every store.

A date or a time in a plan stands for the half-open interval that it is: a year, a quarter, a month,
a day, a minute, a second. It is by the clock of where each value was written, unless it says its
distance from UTC: then instants are compared, and they are what is ordered. Durations are ordered
by their length. Text is equal exactly; ``contains`` and its kind disregard case (``lower()``,
Cypher's ``toLower``).
"""

from __future__ import annotations

import math
import operator
import re
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kgqa.graph.moments import days_between, has_zone, length, moment
from kgqa.queries.plan import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.graph.moments import Moment
    from kgqa.graph.schema import Value
    from kgqa.queries.plan import Comparison

_TEXT: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "starts with": str.startswith,
    "ends with": str.endswith,
}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CALCULATED: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
DATE_PARTS = {"year": (0, 4), "quarter": (5, 2), "month": (5, 2), "day": (8, 2)}
"""Where each part of a date stands in its text, and how long it is."""
DATES = ("date", "datetime")
MOMENTS = (*DATES, "time")
_STEPS = (  # what a literal of a form lasts, in seconds
    (re.compile(r"(?:.*T)?\d\d?:\d\d(?:Z|[+-]\d\d:\d\d)?"), 60),
    (re.compile(r"(?:.*T)?\d\d?:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)?"), 1),
    (re.compile(r"-?\d{4,}-\d\d-\d\d"), 86400),
)


def interval(literal: str) -> tuple[Moment, Moment] | None:
    """Return the half-open interval of moments that a date or time literal covers.

    None if the day does not exist. A literal with a UTC offset covers instants, any other one local
    clock times.

    >>> interval("1970-01-02"), interval("1970"), interval("00:01:00.5")
    (((86400, ''), (172800, '')), ((0, ''), (31536000, '')), ((60, '5'), (60, '5:')))
    """
    literal = literal.replace(" ", "T")
    first, after = _months(literal)
    start = moment(first, on_clock=not has_zone(first))
    if start is None:
        return None
    if after:
        end = moment(after)
        assert end is not None
        return start, end
    lasts = lasting(literal)
    # a part of a second stands for all that goes on with it
    return start, (start[0] + lasts, "") if lasts else (start[0], f"{start[1]}:")


def lasting(literal: str) -> int:
    """Return how many seconds a time literal covers: a day, minute or second; 0 below."""
    text = literal.replace(" ", "T")
    return next((seconds for form, seconds in _STEPS if form.fullmatch(text)), 0)


def interval_texts(literal: str) -> tuple[str, str]:
    """Return the start and end of a literal's interval as ISO texts, to compare with dates.

    The dates have no zone; the end, which may end in ``~``, is not in the interval.

    >>> interval_texts("1997"), interval_texts("1997-Q4"), interval_texts("1997-12-31")
    (('1997', '1998'), ('1997-10', '1998'), ('1997-12-31', '1997-12-31~'))
    >>> interval_texts("2024-01-01T09:00:00+09:00")
    ('2024-01-01T00:00:00', '2024-01-01T00:00:00~')
    """
    first, after = _months(literal.replace(" ", "T"))
    if has_zone(first) and "T" in first:
        with suppress(ValueError, OverflowError):
            first = datetime.fromisoformat(first).astimezone(UTC).replace(tzinfo=None).isoformat()
    return first, after or f"{first}~"  # after whatever goes on with it


def _months(literal: str) -> tuple[str, str]:
    """Return the ISO text of the start of a year, quarter or month, and of the start of the next.

    Another literal is returned as it is, with "" for the second text.
    """
    match = re.fullmatch(r"(-?\d{4,})(?:-(?:Q([1-4])|(\d\d)))?", literal)
    if match is None:
        return literal, ""
    year, quarter, month = match.groups()
    if not quarter and not month:
        return literal, _year(int(year) + 1)
    first = int(month) if month else 3 * int(quarter) - 2
    after = first + (1 if month else 3)
    text = f"{_year(int(year))}-{first:02}"
    if after > 12:
        return text, _year(int(year) + 1)
    return text, f"{_year(int(year))}-{after:02}"


def _year(year: int) -> str:
    """Return a year as ISO text."""
    return f"{year:05}" if year < 0 else f"{year:04}"


def satisfies(
    values: Sequence[Value], comparison: Comparison, right: Sequence[Value], type_: str = ""
) -> bool:
    """Return whether the values of a property (a list's members) satisfy ``comparison``.

    ``right``: the values compared with; one that fits suffices. Without a value only "missing" and
    "missing or …" hold. ``type_``: of the property.
    """
    if comparison.affirmed == "missing":
        return bool(values) == comparison.negated
    if not values or not right:
        return not values and comparison.operator.startswith(OPEN)
    sign = "=" if comparison.affirmed == "in" else comparison.affirmed.removeprefix(OPEN)
    spans = type_ in MOMENTS and isinstance(comparison.right, tuple)
    holds = any(
        _in_interval(str(value), sign, str(other)) if spans else _holds(value, sign, other, type_)
        for value in values
        for other in right
    )
    return holds != comparison.negated


def _in_interval(value: str, sign: str, literal: str) -> bool:
    """Return whether ``value`` compares with the interval of ``literal`` as ``sign`` says.

    False if either is not a date or time.
    """
    when, span = moment(value, on_clock=not has_zone(literal)), interval(literal)
    if when is None or span is None:
        return False
    start, end = span
    match sign:
        case "=":
            return start <= when < end
        case "<":
            return when < start
        case "<=":
            return when < end
        case ">":
            return when >= end
        case _:
            return when >= start


def _holds(value: Value, sign: str, other: Value, type_: str) -> bool:
    """Return whether ``value sign other`` holds for values of a type; False for unlike ones."""
    if sign in _TEXT:
        return _TEXT[sign](as_text(value).lower(), as_text(other).lower())
    one, two = order_key(value, type_), order_key(other, type_)
    if one is None or two is None:  # a text that is not what the property is of
        return sign == "=" and value == other
    return one[0] == two[0] and bool(_COMPARED[sign](one[1], two[1]))


def as_text(value: Value) -> str:
    """Return a value as text, as Cypher's ``toString`` does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rank(value: Value) -> int:
    """Return the rank of a value's type in sorting: text, truth values, numbers."""
    return 0 if isinstance(value, str) else 1 if isinstance(value, bool) else 2


def sort_key(value: Value) -> tuple[int, Any]:
    """Return the sort key of values: text before truth before numbers, as in Cypher."""
    return _rank(value), value


def order_key(value: Value, type_: str = "") -> tuple[int, Any] | None:
    """Return a value's sort key; None for a text that cannot be read as the type ``type_``."""
    if isinstance(value, str) and type_ in (*MOMENTS, "duration"):
        when = length(value) if type_ == "duration" else moment(value)
        return None if when is None else (_rank(value), when)
    return sort_key(value)


def calculated(kind: str, values: list[Value], type_: str = "") -> Value | None:
    """Compute an aggregate of values; None for the average or extreme of no values.

    ``kind``: "count" of distinct values, "sum" or "average" of all numbers, "least" or "most".
    ``type_``: the type of the values, by which they are ordered.
    """
    if kind == "count":
        return len(set(map(sort_key, values)))
    if kind in ("least", "most"):
        keyed = [(key, value) for value in values if (key := order_key(value, type_)) is not None]
        best = min if kind == "least" else max
        return best(keyed, key=itemgetter(0))[1] if keyed else None
    numbers = _numbers(values)
    total = (
        math.fsum(numbers) if any(isinstance(number, float) for number in numbers) else sum(numbers)
    )
    if kind == "sum":
        return total
    return total / len(numbers) if numbers else None


def combined(left: Sequence[Value], sign: str, right: Sequence[Value]) -> list[Value]:
    """Return [left sign right], calculated from the first value of each operand.

    The difference of two dates or date-times is in days. [] for other operands that are not both
    numbers, and for a division by 0.

    >>> combined([7], "/", [2]), combined([7], "/", [0])
    ([3.5], [])
    >>> combined(["2024-03-01"], "-", ["2024-02-28T12:00"])
    [1.5]
    """
    if sign == "-" and left and right and isinstance(left[0], str) and isinstance(right[0], str):
        days = days_between(left[0], right[0])
        return [] if days is None else [days]
    numbers = _numbers([*left[:1], *right[:1]])
    if len(numbers) < 2 or (sign == "/" and not numbers[1]):
        return []
    return [_CALCULATED[sign](float(numbers[0]), float(numbers[1]))]


def _numbers(values: Sequence[Value]) -> list[int | float]:
    """Return the numbers among values; texts and truth values are dropped."""
    return [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def part_of(value: Value, part: str) -> int | None:
    """Return the ``part`` "year", "quarter", "month" or "day" of a date, None if it lacks that.

    >>> part_of("1997-05-17T10:00", "quarter"), part_of("1997", "month")
    (2, None)
    """
    text = str(value)
    year = re.match(r"[+-]?(?:\d{4,}(?=-)|\d{4})", text)
    if year is None or part == "year":
        return int(year[0]) if year else None
    start, size = DATE_PARTS[part]
    digits = text[year.end() + start - 4 :][:size]
    if len(digits) != size or not digits.isdecimal():
        return None
    return (int(digits) + 2) // 3 if part == "quarter" else int(digits)
