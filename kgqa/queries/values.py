"""What values mean in a plan: comparisons, parts of dates, order; the same on every store.

Dates and times are compared as ISO 8601 text, by the clock of where they were written: a year, a
quarter, a month or a day stands for the half-open interval that it is. Text is equal exactly;
``contains`` and its kind disregard case (``lower()``, Cypher's ``toLower``).
"""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any

from kgqa.queries.plan import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def interval(literal: str) -> tuple[str, str]:
    """Return the half-open interval of ISO texts that a date in a plan stands for.

    >>> interval("1997"), interval("1997-Q4"), interval("1997-12"), interval("1997-12-31")
    (('1997', '1998'), ('1997-10', '1998'), ('1997-12', '1998'), ('1997-12-31', '1997-12-31~'))
    """
    literal = literal.replace(" ", "T")
    year = int(literal[:4])
    quarter = re.fullmatch(r"\d{4}-Q([1-4])", literal)
    if quarter:
        first = 3 * int(quarter[1]) - 2
        return f"{year:04}-{first:02}", _month(year, first + 3)
    if len(literal) == 4:
        return literal, f"{year + 1:04}"
    if len(literal) == 7:
        return literal, _month(year, int(literal[5:]) + 1)
    return literal, literal + "~"  # after whatever goes on with it


def _month(year: int, month: int) -> str:
    return f"{year + 1:04}" if month > 12 else f"{year:04}-{month:02}"


def satisfies(
    values: Sequence[Value], one: Comparison, right: Sequence[Value], *, dates: bool
) -> bool:
    """Return whether ``values`` (of a list: its members) satisfy ``one`` with ``right``."""
    if one.affirmed == "missing":
        return bool(values) == one.negated
    if not values or not right:
        return not values and one.operator.startswith(OPEN)
    sign = "=" if one.affirmed == "in" else one.affirmed.removeprefix(OPEN)
    spans = dates and isinstance(one.right, tuple)
    holds = any(
        _in_interval(str(value), sign, *interval(str(other)))
        if spans
        else _holds(value, sign, other)
        for value in values
        for other in right
    )
    return holds != one.negated


def _in_interval(value: str, sign: str, start: str, end: str) -> bool:
    value = value.replace(" ", "T", 1)
    match sign:
        case "=":
            return start <= value < end
        case "<":
            return value < start
        case "<=":
            return value < end
        case ">":
            return value >= end
        case _:
            return value >= start


def _holds(value: Value, sign: str, other: Value) -> bool:
    if sign in _TEXT:
        return _TEXT[sign](as_text(value).lower(), as_text(other).lower())
    return _rank(value) == _rank(other) and bool(_COMPARED[sign](value, other))


def as_text(value: Value) -> str:
    """Return a value as Cypher's ``toString`` gives it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rank(value: Value) -> int:
    return 0 if isinstance(value, str) else 1 if isinstance(value, bool) else 2


def sort_key(value: Value) -> tuple[int, Any]:
    """Return what values are ordered by: text before truth before numbers, as in Cypher."""
    return _rank(value), value


def calculated(kind: str, values: list[Value]) -> Value | None:
    """Return an aggregate of values; None if there is no value to calculate it of."""
    if kind == "count":
        return len(set(map(sort_key, values)))
    if kind in ("least", "most"):
        best = min if kind == "least" else max
        return best(values, key=sort_key) if values else None
    numbers = _numbers(values)
    total = math.fsum(numbers) if any(isinstance(one, float) for one in numbers) else sum(numbers)
    if kind == "sum":
        return total
    return total / len(numbers) if numbers else None


def combined(left: Sequence[Value], sign: str, right: Sequence[Value]) -> list[Value]:
    """Return what two operands with these values come to; nothing where one is no number.

    >>> combined([7], "/", [2]), combined([7], "/", [0])
    ([3.5], [])
    """
    numbers = _numbers([*left[:1], *right[:1]])
    if len(numbers) < 2 or (sign == "/" and not numbers[1]):
        return []
    return [_CALCULATED[sign](float(numbers[0]), float(numbers[1]))]


def _numbers(values: Sequence[Value]) -> list[int | float]:
    return [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]


def part_of(value: Value, part: str) -> int | None:
    """Return the year, quarter, month or day of a date, None if it has none.

    >>> part_of("1997-05-17T10:00", "quarter"), part_of("1997", "month")
    (2, None)
    """
    text = str(value)
    start, length = DATE_PARTS[part]
    digits = text[start : start + length]
    if len(digits) != length or not digits.isdecimal():
        return None
    return (int(digits) + 2) // 3 if part == "quarter" else int(digits)
