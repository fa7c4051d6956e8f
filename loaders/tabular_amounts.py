"""Amounts as people write them: thousands, a decimal comma, a unit, a word such as million.

Which mark is that of thousands is decided for a column as a whole: ``1,250`` beside ``980.5`` is a
thousand and more, beside ``9,5`` it is little more than one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.graph.quantities import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable

Mark: TypeAlias = Literal["", ",", "."]

_SCALES = {"thousand": 3, "k": 3, "million": 6, "mn": 6, "mio": 6, "m": 6}
_SCALES |= {"billion": 9, "bn": 9, "trillion": 12}
_CURRENCY = r"[\u0024\u00a2-\u00a5\u20a0-\u20cf]|EUR|USD|GBP|CHF|kr"
_PARTS = re.compile(
    rf"(?P<sign>[-+\u2212])?\s?(?P<before>{_CURRENCY})?\s?(?P<inner>[-+\u2212])?"
    r"(?P<digits>\d[\d.,'\u2019\u00a0\u202f ]*)"
    rf"(?P<scale>(?i:{'|'.join(sorted(_SCALES, key=len, reverse=True))})(?![^\W\d_]))?\s?"
    rf"(?P<after>{_CURRENCY}|%|[^\W\d_]{{1,10}})?"
)
_BLANKS = re.compile(r"(?<=\d)['\u2019\u00a0\u202f ](?=\d{3}(?!\d))")
_POINT = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_COMMA = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Plain numbers, their one unit, and the mark that stands before the decimals."""

    numbers: list[str]
    unit: str
    decimal: Mark


def read_amounts(texts: Iterable[str], decimal: Mark = "") -> Amounts | None:
    """Return texts as numbers; None if one is not an amount, or they have several units.

    ``decimal``: the mark before decimals, if it is known.

    >>> read_amounts(["1.234,50 €", "999,99 €"])
    Amounts(numbers=['1234.50', '999.99'], unit='€', decimal=',')
    >>> read_amounts(["$157 Billion", "$1.5 Million"]).numbers
    ['157000000000', '1500000.0']
    """
    digits: list[str] = []
    scales: list[int] = []
    units: set[str] = set()
    for text in texts:
        match = _PARTS.fullmatch(text)
        if match is None:
            return None
        sign, before, inner, said, scale, after = match.groups()
        if (after and before) or (after and after.casefold() not in UNITS and after != "kr"):
            return None
        if scale in ("m", "k") and not before:  # metres, kelvins
            return None
        units.add(before or after or "")
        minus = "-" if "-" in (sign, inner) or "\u2212" in (sign, inner) else ""
        digits.append(minus + _BLANKS.sub("", said.strip()))
        scales.append(_SCALES[scale.casefold()] if scale else 0)
        if len(units) > 1:
            return None
    marks: tuple[Mark, ...] = (decimal,) if decimal else (".", ",")
    for mark in marks:
        form, other = (_POINT, ",") if mark == "." else (_COMMA, ".")
        if digits and all(form.fullmatch(one.removeprefix("-")) for one in digits):
            plain = [one.replace(other, "").replace(mark, ".") for one in digits]
            numbers = [_scaled(one, scale) for one, scale in zip(plain, scales, strict=True)]
            return Amounts(numbers, units.pop(), mark)
    return None


def _scaled(number: str, zeros: int) -> str:
    return format(Decimal(number) * 10**zeros, "f") if zeros else number
