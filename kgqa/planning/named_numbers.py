"""Numbers of a question that are part of a property's name: of sales in 2019, ``sales_2019``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kgqa.paths.words import relation_phrase
from kgqa.understanding.literals import short_year

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.understanding.literals import Stated, Stating

_DIGITS = re.compile(r"\d{2,4}")


class NamedNumbers(NamedTuple):
    """A question's literals, those that name a property, and properties of other numbers."""

    literals: Stated
    named: tuple[Stating, ...]
    others: frozenset[str]


def without_named(literals: Stated, names: Iterable[str]) -> NamedNumbers:
    """Return literals without those that say which property is meant, so compare with nothing.

    ``names``: of the schema's properties. All numbers of a name are to be in the question; of a
    year the last two digits are enough where the name has two numbers.

    >>> from kgqa.understanding.literals import stated
    >>> asked = stated("Which airline had the most deaths from 1985 to 1999?")
    >>> found = without_named(asked, ["deaths_85_99", "deaths_00_14", "year"])
    >>> found.literals.literals, found.others
    ((), frozenset({'deaths_00_14'}))
    >>> len(without_named(asked, ["deaths_00_14", "year"]).literals.literals)
    2
    """
    said: set[Stating] = set()
    meant: dict[str, set[str]] = {}
    by_rest: dict[str, list[str]] = {}
    for name in names:
        words = relation_phrase(name).split()
        numbers = [word for word in words if _DIGITS.fullmatch(word)]
        if not numbers:
            continue
        rest = " ".join(word for word in words if word not in numbers)
        by_rest.setdefault(rest, []).append(name)
        saying = [
            [one for one in literals.literals if _says(one, number, len(numbers))]
            for number in numbers
        ]
        if all(saying):
            meant.setdefault(rest, set()).add(name)
            said.update(one for some in saying for one in some)
    if not said:
        return NamedNumbers(literals, (), frozenset())
    left = tuple(one for one in literals.literals if one not in said)
    named = tuple(one for one in literals.literals if one in said)
    others = {name for rest, some in meant.items() for name in by_rest[rest] if name not in some}
    return NamedNumbers(replace(literals, literals=left), named, frozenset(others))


def _says(literal: Stating, number: str, among: int) -> bool:
    text = str(literal.value)
    if literal.kind == "text":
        return False
    return text == number or (among > 1 and short_year(text) == number)
