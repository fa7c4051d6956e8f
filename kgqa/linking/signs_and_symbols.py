"""Signs and symbols in names, which look-ups ignore: C against C++, 26 against -26."""

from __future__ import annotations

import re
import unicodedata

from kgqa.graph.amounts import number_in
from kgqa.graph.names import normalise
from kgqa.graph.quantities import read_value

_SIGNS = "+-\u2212"
_VALUE = re.compile(  # a number, its currency before it or its unit behind it
    r"(?:[€£$¥]\s?)?([-+\u2212]?\d[\d,.]*)\s?(?:%|°|[€£$¥]|[^\W\d_]{1,4})?"
)
_AROUND = f"{_SIGNS}#%*°"  # what stands against a word and is a part of it


def as_written(question: str, start: int, end: int) -> str:
    """Return a mention with the signs and symbols attached to it: C becomes C++.

    >>> as_written("is it -26?", 7, 9), as_written("a C++ team", 2, 3), as_written("in A-26", 5, 7)
    ('-26', 'C++', '26')
    """
    signed = question[start - 1 : start] in tuple(_SIGNS) and not question[: start - 1][-1:].strip()
    while question[end : end + 1] in tuple(_AROUND):
        end += 1
    return question[start - signed : end].rstrip("-\u2212")


def is_other_value(text: str, name: str, *, partial: bool = False) -> bool:
    """Return whether ``name`` is a value, and ``text`` does not equal it.

    Signs are not punctuation, and no value is a misspelling of another. A number in words may be an
    alias of it. ``partial``: ``text`` matched only a part of the name, such as the unit: without a
    number it does not equal it.

    >>> is_other_value("26", "-26"), is_other_value("26.0", "26"), is_other_value("five", "5")
    (True, False, False)
    >>> is_other_value("5000 EUR", "500 EUR"), is_other_value("EUR", "500 EUR", partial=True)
    (True, True)
    >>> is_other_value("May 2024", "20 May 2024", partial=True)
    True
    >>> is_other_value("20 May", "20 May 2024", partial=True)
    False
    """
    known = _VALUE.fullmatch(name.strip())
    if known is None:
        value = read_value(name.casefold()) if partial else None
        if value is None:
            return False
        said = read_value(text.casefold())
        if value.amount is None:  # a day, which may be said without its year
            return said is not None and said.amount is None and said != value
        return said != value
    written = _VALUE.fullmatch(text.strip())
    if written is None:
        return partial or any(map(str.isdigit, text))
    return _number(written[1]) != _number(known[1])


def is_taken_for(text: str, name: str) -> bool:
    """Return whether ``text`` equals ``name`` only if symbols are ignored.

    >>> is_taken_for("C", "C++"), is_taken_for("23", "23%"), is_taken_for("check out", "Check-out")
    (True, True, False)
    """
    return normalise(text) == normalise(name) and _symbols(text) != _symbols(name)


def _number(text: str) -> int | float | None:
    """Return a text as a number, None if it is not one."""
    return number_in(text.strip().replace("\u2212", "-").replace(",", ""))


def _symbols(text: str) -> list[str]:
    """Return the symbols in a text, in order."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    return [sign for sign in plain if sign in "#%*" or unicodedata.category(sign).startswith("S")]
