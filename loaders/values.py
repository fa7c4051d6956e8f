"""Literals as value nodes: a stable id, and the name that a person would write.

What it does not do: say which literals are worth a node.
"""

from __future__ import annotations

import re

XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = frozenset({"decimal", "integer", "int", "long", "float", "double", "nonNegativeInteger"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CLOCK = re.compile(r"(-?\d{4,}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_MOST_DIGITS = 15  # beyond, a float would change the number


def value_id(text: str, language: str | None, datatype: str | None) -> str:
    """Return the id of a literal: its text in quotes, with its type or language.

    >>> value_id("1968-01-01", None, XSD + "date")
    '"1968-01-01"^^xsd:date'
    """
    if language:
        return f'"{text}"@{language}'
    if not datatype:
        return f'"{text}"'
    short = f"xsd:{datatype.removeprefix(XSD)}" if datatype.startswith(XSD) else f"<{datatype}>"
    return f'"{text}"^^{short}'


def value_name(text: str, datatype: str | None) -> str:
    """Return the literal as a person writes it.

    >>> value_name("5.30", XSD + "double"), value_name("2010-05-01T10:00:00Z", XSD + "dateTime")
    ('5.3', '2010-05-01 10:00')
    """
    if datatype is None:
        return text
    kind = datatype.removeprefix(XSD)
    if kind in _NUMBERS:
        return _number(text)
    if kind == "dateTime" and (match := _CLOCK.fullmatch(text)):
        day, minutes, seconds, zone = match.groups()
        seconds = "" if seconds in (None, ":00") else seconds
        zone = "" if zone in (None, "Z", "+00:00") else f" {zone}"
        return f"{day} {minutes}{seconds}{zone}"
    return text


def is_number(text: str) -> bool:
    """Return whether ``text`` is written as a number."""
    return _NUMBER.fullmatch(text) is not None


def _number(text: str) -> str:
    if not is_number(text):
        return text
    if "e" in text or "E" in text:
        number = float(text)
        if abs(number) >= 10**_MOST_DIGITS or (number and abs(number) < 1e-6):
            return text
        text = f"{number:.{_MOST_DIGITS}g}"
        text = text if "e" not in text else f"{number:.12f}"
    text = text.removeprefix("+")
    return text.rstrip("0").rstrip(".") if "." in text else text
