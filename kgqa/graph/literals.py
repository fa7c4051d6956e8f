"""Literal values: their types, their ids as nodes, and how people write them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kgqa.graph.amounts import number_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.amounts import NumberForm
    from kgqa.graph.schema import Value, ValueType

XSD = "http://www.w3.org/2001/XMLSchema#"
LONG_TEXT = 200  # characters beyond which a text is shown and searched, and not walked
_LONG_LIST = 16  # numbers beyond which a list is an embedding
_NUMBERS = frozenset({"decimal", "integer", "int", "long", "float", "double", "nonNegativeInteger"})
_DATATYPES = {  # of the types of JSON's values
    "integer": "integer",
    "float": "double",
    "boolean": "boolean",
    "date": "date",
    "time": "time",
    "datetime": "dateTime",
    "duration": "duration",
}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CLOCK = re.compile(r"(-?\d{4,}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_TIME = r"(?:[01]\d|2[0-4]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?(?:\[[\w/+-]+\])?"
_DAY = r"-?\d{4,}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_FORMS: tuple[tuple[ValueType, re.Pattern[str]], ...] = (
    ("date", re.compile(_DAY)),
    ("datetime", re.compile(f"{_DAY}[T ]{_TIME}")),
    ("time", re.compile(_TIME)),
    (
        "duration",
        re.compile(
            r"-?P(?=.)(?:-?\d+Y)?(?:-?\d+M)?(?:-?\d+W)?(?:-?\d+D)?"
            r"(?:T(?=.)(?:-?\d+H)?(?:-?\d+M)?(?:-?\d+(?:\.\d+)?S)?)?"
        ),
    ),
    ("point", re.compile(r"(?:SRID=\d+;)?POINT ?Z? ?\([-+.\deE ]+\)")),
)
_MARKS = frozenset("0123456789PS-")  # what a text of one of these forms begins with
_VALUE_ID = re.compile(r'"(.*)"(?:@[\w-]+|\^\^(?:xsd:(\w+)|<.*>))?', re.DOTALL)
_MOST_DIGITS = 15  # beyond, a float would change the number


def value_type(value: Value) -> ValueType:
    """Return the type of a JSON scalar; dates, times, durations and points by their form.

    >>> value_type(3), value_type("1999-03-31"), value_type("P1Y"), value_type("12")
    ('integer', 'date', 'duration', 'text')
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "float"
    if value[:1] in _MARKS and len(value) <= LONG_TEXT:
        for name, form in _FORMS:
            if form.fullmatch(value):
                return name
    return "text"


def cast_values(values: Sequence[Value], form: NumberForm | ValueType | None) -> list[Value]:
    """Convert the values of a numeric property, some of them texts, to numbers.

    Texts that are not numbers are dropped; values of a non-numeric property are all kept.
    ``form``: how texts are parsed, or the type of numbers in a program's notation.
    """
    if form is None or (isinstance(form, str) and form not in ("integer", "float")):
        return list(values)
    read, type_ = (number_in, form) if isinstance(form, str) else (form.read, form.type)
    numbers = (read(value) if isinstance(value, str) else value for value in values)
    known = [number for number in numbers if number is not None]
    return [float(number) for number in known] if type_ == "float" else list(known)


def members(value: Any) -> list[Value]:
    """Return the scalars of a property's value: a list's members, without nulls, "" and objects."""
    parts = value if isinstance(value, list) else [value]
    return [part for part in parts if isinstance(part, bool | int | float | str) and part != ""]


def is_walked(value: Any) -> bool:
    """Return whether a property's value becomes edges: not empty, a long text or an embedding."""
    values = members(value)
    if len(values) > _LONG_LIST and not any(isinstance(part, str) for part in values):
        return False
    return bool(values) and not any(
        len(part) > LONG_TEXT for part in values if isinstance(part, str)
    )


def value_node(value: Value) -> tuple[str, str]:
    """Return id and name of the value node of a scalar.

    >>> value_node(1999), value_node("Neo"), value_node(True)
    (('"1999"^^xsd:integer', '1999'), ('"Neo"', 'Neo'), ('"true"^^xsd:boolean', 'true'))
    """
    kind = value_type(value)
    text = str(value).lower() if kind == "boolean" else str(value)
    datatype = XSD + _DATATYPES[kind] if kind in _DATATYPES else None
    return value_id(text, None, datatype), value_name(text, datatype)


@lru_cache(65_536)
def read_value(id_: str) -> tuple[Value, ValueType]:
    """Parse a value node's id into its scalar and type; another id is returned as a text.

    >>> read_value('"1968-01-01"^^xsd:date'), read_value('"5.30"^^xsd:double')
    (('1968-01-01', 'date'), (5.3, 'float'))
    """
    match = _VALUE_ID.fullmatch(id_)
    if match is None:
        return id_, "text"
    text, datatype = match.groups()
    if datatype == "boolean" and text in ("true", "false", "1", "0"):
        return text in ("true", "1"), "boolean"
    if datatype in _NUMBERS or datatype in ("gYear", "short", "byte"):
        number = number_in(text)
        if number is not None:
            return number, value_type(number)
    return text, value_type(text)


def is_ill_typed(id_: str) -> bool:
    """Return whether a value node's id has a numeric or boolean datatype that its text violates.

    >>> is_ill_typed('"1.5"^^xsd:decimal'), is_ill_typed('"one"^^xsd:decimal')
    (False, True)
    """
    match = _VALUE_ID.fullmatch(id_)
    return (
        match is not None
        and (match[2] == "boolean" or match[2] in _NUMBERS)
        and read_value(id_)[1] not in ("integer", "float", "boolean")
    )


def common_type(types: Sequence[ValueType]) -> ValueType:
    """Return the most specific type that fits values of all these types, "text" if none does."""
    value_types = set(types)
    if len(value_types) == 1:
        return value_types.pop()
    if value_types == {"integer", "float"}:
        return "float"
    return "datetime" if value_types == {"date", "datetime"} else "text"


def value_id(text: str, language: str | None, datatype: str | None) -> str:
    """Return the id of a literal: its quoted text with its datatype or language.

    >>> value_id("1968-01-01", None, XSD + "date")
    '"1968-01-01"^^xsd:date'
    """
    if language:
        return f'"{text}"@{language}'
    if not datatype:
        return f'"{text}"'
    short = f"xsd:{datatype.removeprefix(XSD)}" if datatype.startswith(XSD) else f"<{datatype}>"
    return f'"{text}"^^{short}'


def is_renamed(datatype: str | None) -> bool:
    """Return whether literals of a datatype are shown otherwise than as their text."""
    kind = (datatype or "").removeprefix(XSD)
    return kind in _NUMBERS or kind == "dateTime"


def value_name(text: str, datatype: str | None) -> str:
    """Return a literal's text as people write it; only numbers and date-times are changed.

    >>> value_name("5.30", XSD + "double"), value_name("2010-05-01T10:00:00Z", XSD + "dateTime")
    ('5.3', '2010-05-01 10:00')
    """
    kind = (datatype or "").removeprefix(XSD)
    if kind in _NUMBERS:
        return _short_number(text)
    match = _CLOCK.fullmatch(text) if kind == "dateTime" else None
    if match is None:
        return text
    day, minutes, seconds, zone = match.groups()
    seconds = "" if seconds in (None, ":00") else seconds
    zone = "" if zone in (None, "Z", "+00:00") else f" {zone}"
    return f"{day} {minutes}{seconds}{zone}"


def _short_number(text: str) -> str:
    """Shorten a number's text: no exponent, plus sign or trailing zeros; other texts unchanged."""
    if not _NUMBER.fullmatch(text):
        return text
    if "e" in text or "E" in text:
        number = float(text)
        if abs(number) >= 10**_MOST_DIGITS or (number and abs(number) < 1e-6):
            return text
        text = f"{number:.{_MOST_DIGITS}g}"
        text = text if "e" not in text else f"{number:.12f}"
    text = text.removeprefix("+")
    return text.rstrip("0").rstrip(".") if "." in text else text
