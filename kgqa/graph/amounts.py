"""Texts read as numbers: thousands, a decimal comma, a unit, a word such as million; and codes.

How the texts of a property are read is decided for all of them together: ``1,250`` beside ``980.5``
is a thousand and more, beside ``9,5`` it is little more than one; ``1.10`` beside ``1.1`` is a
version, ``12 kg`` beside ``900 g`` is more, beside ``5 m`` neither.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.graph.quantities import UNITS
from kgqa.lexicon.english import words

if TYPE_CHECKING:
    from collections.abc import Iterable

Mark: TypeAlias = Literal["", ",", "."]

MISSING = (
    "na", "n/a", "n.a.", "n.d.", "-", "--", "\u2013", "\u2014", "?", ".", "..", "...", "\u2026",
    ":", "unknown", "missing", "tbd", "nil", "not available", "not applicable", "no data",
)  # fmt: skip
"""Words that stand for no value where the others are numbers, in small letters."""
READ = 0.99  # the part of a property's texts that must read as a type, so that it is of it
_MOST_WHOLE = 300  # digits of a whole number
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_HALF = 0.5  # share of numbers above which a property of texts has no order
_LONGEST = 40  # characters of an amount
_WHOLE = 1 << 63  # what a whole number of 64 bits is below
_MOST_TOLD_APART = 10_000  # decimals that are compared to tell codes
_SCALES = {"thousand": 3, "k": 3, "million": 6, "mn": 6, "mio": 6, "m": 6}
_SCALES |= {"billion": 9, "bn": 9, "trillion": 12, "b": 9, "t": 12}
_OF_MONEY = ("b", "t")  # scales behind a currency only: else bytes, tonnes
_CURRENCY = r"[\u0024\u00a2-\u00a5\u20a0-\u20cf]|EUR|USD|GBP|CHF|kr"
_PARTS = re.compile(
    rf"(?P<sign>[-+\u2212])?\s?(?P<before>{_CURRENCY})?\s?(?P<inner>[-+\u2212])?"
    r"(?P<digits>\d[\d.,'\u2019\u00a0\u202f ]*)"
    rf"(?P<scale>(?i:{'|'.join(sorted(_SCALES, key=len, reverse=True))})(?![^\W\d_]))?\s?"
    rf"(?P<after>{_CURRENCY}|%|[^\W\d_]{{1,10}})?"
)
_LOSS = re.compile(rf"({_CURRENCY})?\((?![-+\u2212])([^()]+)\)")  # negative, in accounts
_ERA = re.compile(r"([^\W\d_][^\W\d_.]*\.?[^\W\d_]*\.?)? ?(\d{1,5}) ?([^\W\d_][^\d_]{0,6})?")
_BLANKS = re.compile(r"(?<=\d)['\u2019\u00a0\u202f ](?=\d{3}(?!\d))")
_POINT = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_COMMA = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?")
_CODE = re.compile(r"[+-]?0\d+|\d+[eE]\d+|\d+(?:\.\d+){2,}")
_RANGE = re.compile(r"[~<>≈]?\d[\d.,]*(?:[-\u2013:/~]\d|st$|nd$|rd$|th$|$)")
_PART_OF_DATE = re.compile(r"\d{4}-\d{2}.*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


@dataclass(frozen=True, slots=True)
class NumberForm:
    """How the texts of one property are parsed as numbers of ``type``.

    ``unit``: the unit to which amounts are converted. ``plain``: every text is written as programs
    write numbers of 64 bits.
    """

    type: Literal["integer", "float"]
    decimal: Mark = "."
    unit: str = ""
    plain: bool = True

    def read(self, text: str) -> int | float | None:
        """Parse a text as a number of this form; return None if it is not one.

        >>> NumberForm("float", unit="kg").read("900 g"), NumberForm("integer").read("1,250")
        (0.9, 1250)
        """
        number = number_in(text)
        if number is None:
            number = self._amount(text)
        if number is None or self.type == "integer":
            return number
        return float(number)

    def _amount(self, text: str) -> int | float | None:
        """Parse a text as an amount in ``self.unit``; None if malformed or of another dimension."""
        if len(text) > _LONGEST or (parts := _split(text)) is None:
            return None
        digits, zeros, unit = parts
        form, other = (_POINT, ",") if self.decimal == "." else (_COMMA, ".")
        if form.fullmatch(digits.removeprefix("-")) is None:
            return None
        base, times = UNITS.get(unit.casefold(), (unit, 1.0))
        own, of_own = UNITS.get(self.unit.casefold(), (self.unit, 1.0))
        if base != own:
            return None
        exact = Decimal(_scaled(digits.replace(other, "").replace(self.decimal, "."), zeros))
        exact = exact if times == of_own else exact * Decimal(str(times)) / Decimal(str(of_own))
        return int(exact) if exact == exact.to_integral_value() else float(exact)


def number_in(text: str) -> int | float | None:
    """Parse a plain number; return None if the text is not one. "007" stays a text.

    >>> number_in("18.0"), number_in("-3"), number_in("007"), number_in("1e999")
    (18.0, -3, None, None)
    """
    if not _NUMBER.fullmatch(text) or re.match(r"[+-]?0\d", text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text) if len(text) <= _MOST_WHOLE else None
    number = float(text)
    return number if abs(number) < 1e300 else None


def is_amount(text: str) -> bool:
    """Return whether a text is a number, perhaps with a unit.

    >>> is_amount("$157 Billion"), is_amount("12"), is_amount("Area 51"), is_amount("NA")
    (True, True, False, False)
    """
    if len(text) > _MOST_WHOLE or not any(map(str.isdigit, text)) or text.lower() in MISSING:
        return False
    return number_in(text) is not None or (len(text) <= _LONGEST and _split(text) is not None)


def _split(text: str) -> tuple[str, int, str] | None:
    """Split an amount into its signed digits, its power of ten and its unit; None if malformed."""
    if loss := _LOSS.fullmatch(text):
        text = f"-{loss[1] or ''}{loss[2]}"
    match = _PARTS.fullmatch(text)
    if match is None:
        return _year_of_era(text)
    sign, before, inner, said, scale, after = match.groups()
    unit = before or after or ""
    if scale and scale.casefold() in _OF_MONEY and not before:
        if after or scale != "t":
            return None
        unit, scale, after = scale, None, scale
    if after and not before and unit.casefold() not in UNITS and unit != "kr":
        return _year_of_era(text)
    if after and before:
        return None
    if scale in ("m", "k") and not before:  # metres, kelvins
        if scale == "k" or after:
            return None
        unit, scale = "m", None
    minus = "-" if "-" in (sign, inner) or "\u2212" in (sign, inner) else ""
    digits = minus + _BLANKS.sub("", said.strip())
    return digits, _SCALES[scale.casefold()] if scale else 0, unit


def _year_of_era(text: str) -> tuple[str, int, str] | None:
    """Parse a year such as ``44 BC`` or ``AD 9`` into the triple of :func:`_split`; else None."""
    match = _ERA.fullmatch(text)
    if match is None:
        return None
    before, digits, after = match.groups()
    era = re.sub(r"[. ]", "", before or after).casefold()
    if (before and after) or era not in words("before_christ") | words("after_christ"):
        return None
    return ("-" if era in words("before_christ") else "") + digits, 0, ""


def _scaled(number: str, zeros: int) -> str:
    """Multiply a decimal number, given as text, by ten to the power ``zeros``."""
    return format(Decimal(number) * 10**zeros, "f") if zeros else number


@dataclass(slots=True)
class NumberTexts:
    """Statistics of the texts of one property: which are numbers, and how they are written."""

    texts: int = 0
    missing: int = 0
    plain: Counter[str] = field(default_factory=Counter)  # by type
    amounts: Counter[str] = field(default_factory=Counter)  # by unit, with the plain ones
    point: int = 0  # that read with a point before the decimals
    comma: int = 0
    parts: int = 0  # with a fraction
    wide: bool = False
    losses: int = 0  # in parentheses
    ranges: int = 0  # that begin with another number: 10-20, 61:10, 3rd
    codes: int = 0  # as nobody writes a number: 007, 1E5, 1.2.3
    powers: bool = False  # as only numbers are written: 1.5, 1e-3
    twice: bool = False  # two texts are one number: 1.1, 1.10
    lengths: set[int] = field(default_factory=set)
    decimals: dict[float, str] = field(default_factory=dict)

    def add(self, text: str, times: int = 1) -> None:
        """Count a text that occurs ``times`` times; texts such as "NA" count as missing values."""
        self.texts += times
        if text.lower() in MISSING:
            self.missing += times
            return
        if len(self.lengths) < _HALF * _LONGEST:
            self.lengths.add(len(text))
        if len(text) > _MOST_WHOLE or not any(map(str.isdigit, text)):
            return
        number = number_in(text)
        self.powers |= number is not None and bool(re.search(r"\.|[eE][+-]", text))
        if _CODE.fullmatch(text):
            self.codes += times
        if number is not None:
            self.plain["float" if isinstance(number, float) else "integer"] += times
            self.wide |= isinstance(number, int) and not -_WHOLE <= number < _WHOLE
            if isinstance(number, float):
                self._keep_decimal_spellings({number: text})
            digits, unit = text.lstrip("+-"), ""
        elif len(text) <= _LONGEST and (parts := _split(text)):
            digits, unit = parts[0].removeprefix("-"), parts[2]
            self.losses += times * bool(_LOSS.fullmatch(text))
        else:
            self.ranges += times * bool(_RANGE.match(text) and not _PART_OF_DATE.fullmatch(text))
            return
        self.amounts[unit] += times
        as_point = _POINT.fullmatch(digits)
        self.point += times * bool(as_point or number is not None)
        self.comma += times * bool(_COMMA.fullmatch(digits))
        self.parts += times * (not as_point or "." in digits)

    def _keep_decimal_spellings(self, decimals: dict[float, str]) -> None:
        """Record each number's spelling; note a number that is spelled in two ways (1.1, 1.10)."""
        for number, text in decimals.items():
            if len(self.decimals) < _MOST_TOLD_APART:
                known = self.decimals.setdefault(number, text)
                self.twice |= known != text and "." in known and "." in text

    def merge(self, other: NumberTexts) -> None:
        """Add the statistics ``other`` of more texts of the same property."""
        for name in ("texts", "missing", "point", "comma", "parts", "codes", "losses", "ranges"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("wide", "powers", "twice"):
            setattr(self, name, getattr(self, name) or getattr(other, name))
        self.plain += other.plain
        self.amounts += other.amounts
        self.lengths |= other.lengths
        self._keep_decimal_spellings(other.decimals)

    @property
    def said(self) -> int:
        """The number of texts that state a value, unlike "NA"."""
        return self.texts - self.missing

    def _are_codes(self, name: str) -> bool:
        """Return whether the texts are codes, such as 1.10; ``name``: the property's name."""
        if self.twice or (self.codes and not self.powers):
            return True
        has_point = bool(self.plain["float"]) and self.amounts.keys() <= {""}
        return has_point and any(word.lower() in words("codes") for word in _WORD.findall(name))

    def form(self, name: str = "", numbers: Iterable[str] = ()) -> NumberForm | None:
        """Return how the texts are parsed as numbers, None if the property is not numeric.

        ``name``: the property's name; ``numbers``: the types of its values that are not texts.
        """
        if self.said <= self.losses or self._are_codes(name):
            return None  # if all numbers stand in parentheses, none is a loss
        types = {*self.plain, *numbers}
        if self.plain.total() >= READ * self.said:
            return NumberForm("float" if "float" in types else "integer", plain=not self.wide)
        bases = {UNITS.get(unit.casefold(), (unit, 1.0))[0] for unit in self.amounts}
        if len(bases) != 1 or max(self.point, self.comma) < READ * self.said:
            return None
        unit = next(iter(self.amounts)) if len(self.amounts) == 1 else bases.pop()
        decimal: Mark = "." if self.point >= READ * self.said else ","
        whole = not self.parts and len(self.amounts) == 1 and "float" not in types
        return NumberForm("integer" if whole else "float", decimal, unit, plain=False)

    def unread(self, form: NumberForm) -> int:
        """Return how many texts state a value that ``form`` cannot parse as a number."""
        read = self.plain.total() if form.plain else max(self.point, self.comma)
        return max(0, self.said - read)

    @property
    def unordered(self) -> bool:
        """Whether over half of the texts begin with numbers that sort wrongly as text."""
        numbers = max(self.amounts.total() + self.ranges, self.codes)
        return numbers > _HALF * self.said and max(len(self.lengths), len(self.amounts)) > 1


@dataclass(frozen=True, slots=True)
class Amounts:
    """Plain numbers parsed from texts, their common unit, and the decimal mark used."""

    numbers: list[str]
    unit: str
    decimal: Mark


def read_amounts(texts: Iterable[str], decimal: Mark = "") -> Amounts | None:
    """Parse texts as amounts of one unit; None if a text is not an amount or units differ.

    ``decimal``: the decimal mark, if it is known.

    >>> read_amounts(["1.234,50 €", "999,99 €"])
    Amounts(numbers=['1234.50', '999.99'], unit='€', decimal=',')
    >>> read_amounts(["$157 Billion", "$1.5 Million"]).numbers
    ['157000000000', '1500000.0']
    """
    digits: list[str] = []
    scales: list[int] = []
    units: set[str] = set()
    for text in texts:
        parts = _split(text)
        if parts is None or len(units | {parts[2]}) > 1:
            return None
        digits.append(parts[0])
        scales.append(parts[1])
        units.add(parts[2])
    marks: tuple[Mark, ...] = (decimal,) if decimal else (".", ",")
    for mark in marks:
        form, other = (_POINT, ",") if mark == "." else (_COMMA, ".")
        if digits and all(form.fullmatch(one.removeprefix("-")) for one in digits):
            plain = [one.replace(other, "").replace(mark, ".") for one in digits]
            numbers = [_scaled(one, scale) for one, scale in zip(plain, scales, strict=True)]
            return Amounts(numbers, units.pop(), mark)
    return None
