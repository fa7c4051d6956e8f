"""Numbers of a question that belong to a property's name: sales in 2019, ``sales_2019``."""

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
    """A question's other literals, those that name a property, and properties of other numbers."""

    literals: Stated
    named: tuple[Stating, ...]
    others: frozenset[str]


def without_named(literals: Stated, names: Iterable[str]) -> NamedNumbers:
    """Split literals into those that select a property by the number in its name, and others.

    ``names``: of the schema's properties. All numbers of a name are to be in the question; of a
    year the last two digits are enough where the name has two numbers, or where there are several
    such names: ``elo98``, ``elo15``.

    >>> from kgqa.understanding.literals import stated
    >>> asked = stated("Which airline had the most deaths from 1985 to 1999?")
    >>> found = without_named(asked, ["deaths_85_99", "deaths_00_14", "year"])
    >>> found.literals.literals, found.others
    ((), frozenset({'deaths_00_14'}))
    >>> len(without_named(asked, ["deaths_00_14", "year"]).literals.literals)
    2
    """
    by_rest: dict[str, dict[str, list[str]]] = {}  # the numbers of each name of the same words
    for name in names:
        words = relation_phrase(name).split()
        if numbers := [word for word in words if _DIGITS.fullmatch(word)]:
            rest = " ".join(word for word in words if word not in numbers)
            by_rest.setdefault(rest, {})[name] = numbers
    said: set[Stating] = set()
    meant: dict[str, set[str]] = {}
    for rest, called in by_rest.items():
        for name, numbers in called.items():
            short = len(numbers) > 1 or len(called) > 1
            saying = [
                [one for one in literals.literals if _says(one, number, short=short)]
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


def _says(literal: Stating, number: str, *, short: bool) -> bool:
    """Return whether a literal is the ``number`` in a property's name; False for a quotation.

    ``short``: two digits of a year suffice.
    """
    text = str(literal.value)
    if literal.kind == "text":
        return False
    return text == number or (short and short_year(text) == number)
