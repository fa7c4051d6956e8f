"""Values as text → numbers and days that can be compared.

A date is the range of days that it may mean (a year is all of its days); an amount has a unit, and
known ones are brought to one base. A whole text is a value or it is not: "INC-2014" and "3 Mill
Lane" are names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["days", "amount"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"  # fmt: skip # noqa: E501
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
DATE = (
    rf"{_DAY} (?:of )?{_MONTH}\.?,? \d{{4}}|{_MONTH}\.? {_DAY},? \d{{4}}|{_MONTH}\.?,? \d{{4}}"
    r"|\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{4}|[12]\d{3}s?"
)
_NUMBER = r"\d{1,3}(?:[,  ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?"
_CURRENCY = r"[€£$¥]|\b(?:eur|usd|gbp|chf)\b"
_SCALE = r"(?:k|m|mn|bn|thousand|million|billion)"
AMOUNT = (
    rf"(?:{_CURRENCY})?\s?(?:{_NUMBER})(?:\s?{_SCALE}\b)?"
    r"(?:\s?(?:%|°|[€£$¥]|[^\W\d_]{1,14}\b)(?:\s?vol\b)?)?"
)
_SIGN = re.compile(r"(?:[-−–]|minus )\s?(?=[\d.€£$¥])")
_ISO = re.compile(r"(-?\d{4})(?:-(\d\d)(?:-(\d\d)(?:t[\d:.]+)?)?)?(?:z|[+-]\d\d:\d\d)?")
_PART = re.compile(
    rf"({_CURRENCY})?\s?({_NUMBER})\s?({_SCALE}(?![^\W\d_]))?\s?"
    r"((?:%|°|[€£$¥]|[^\W\d_]{1,14})(?:\s?vol)?)?\s*"
)
_SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9}
BASES: dict[str, dict[str, float]] = {
    "m": {"mm": 1e-3, "cm": 1e-2, "m metre metres meter meters": 1, "ft feet foot": 0.3048,
          "km kilometre kilometres kilometer kilometers": 1e3, "mi mile miles": 1609.34},
    "kg": {"mg": 1e-6, "g gram grams": 1e-3, "kg kilo kilos": 1, "lb lbs pounds": 0.4536,
           "t tonne tonnes ton tons": 1e3},
    "l": {"ml": 1e-3, "cl": 1e-2, "l litre litres liter liters": 1, "hl": 100},
    "s": {"s sec secs seconds second": 1, "min mins minute minutes": 60,
          "h hr hrs hour hours": 3600, "d day days": 86400, "week weeks": 604800,
          "month months": 2629746, "year years yr yrs": 31556952},
    "ha": {"ha hectare hectares": 1, "acre acres": 0.4047}, "%": {"% percent %vol": 1},
    "byte": {"byte bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1024,
             "mib": 1048576, "gib": 1073741824, "tib": 1099511627776},
    "hz": {"hz hertz": 1, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "€": {"€ eur euro euros": 1}, "$": {"$ usd dollar dollars": 1}, "£": {"£ gbp": 1},
}  # fmt: skip
UNITS = {
    name: (base, times)
    for base, units in BASES.items()
    for names, times in units.items()
    for name in names.split()
}


@dataclass(frozen=True, slots=True)
class Value:
    """A parsed value: a range of days, or an amount with a unit; a year may be both."""

    days: tuple[float, float] | None = None
    amount: float | None = None
    unit: str = ""

    def range(self, kind: Kind) -> tuple[float, float] | None:
        """Return first and last day of a date, or an amount twice; None if not of ``kind``."""
        if kind == "days":
            return self.days
        return None if self.amount is None else (self.amount, self.amount)


def read_value(text: str) -> Value | None:
    """Parse the whole of ``text`` as a date or an amount; None if it is neither.

    >>> read_value("1 h 10 min"), read_value("€1.2 million").amount
    (Value(days=None, amount=4200.0, unit='s'), 1200000.0)
    >>> read_value("INC-2014"), read_value("1998").amount, read_value("−26 °").amount
    (None, 1998.0, -26.0)
    """
    low = " ".join(text.casefold().split())
    if sign := _SIGN.match(low):
        value = read_value(low[sign.end() :])
        if value is None or value.amount is None:
            return None
        return Value(_day_range(low), -value.amount, value.unit)
    days = _day_range(low)
    parts, at = [], 0
    while (match := _PART.match(low, at)) is not None:
        parts.append(match)
        at = match.end()
    if not parts or at < len(low):
        return None if days is None else Value(days)
    amount, unit = 0.0, ""
    for number, part in enumerate(parts):
        currency, digits, scale, after = part.groups()
        named = (currency or after or "").replace(" ", "")
        base, times = UNITS.get(named, (named, 1.0))
        if number and (base != unit or named not in UNITS):
            return None if days is None else Value(days)
        if scale == "m" and not currency:  # metres
            base, times, scale = *UNITS["m"], None
        amount += _number(digits) * _SCALES.get(scale or "", 1.0) * times
        unit = base
    return Value(days, amount, unit)


def _number(digits: str) -> float:
    """Parse digits with grouping marks as a float."""
    if re.fullmatch(r"\d{1,3}(?:[,  ]\d{3})+(?:\.\d+)?", digits):
        digits = re.sub(r"[,  ]", "", digits)
    return float(digits.replace(",", "."))


def _day_range(low: str) -> tuple[float, float] | None:
    """Parse a lowercase date, month, year or decade into its first and last day; else None."""
    if iso := _ISO.fullmatch(low):
        year, month, day = (None if group is None else int(group) for group in iso.groups())
        return _date_span(year or 0, month, day)
    if decade := re.fullmatch(r"([12]\d{2}0)s", low):
        return _date_span(int(decade[1]))[0], _date_span(int(decade[1]) + 9)[1]  # type: ignore[index]
    if numbers := re.fullmatch(r"(\d{1,2})[./](\d{1,2})[./](\d{4})", low):
        day, month, year = map(int, numbers.groups())
        return _date_span(year, month, day) if month <= 12 else _date_span(year, day, month)
    if re.fullmatch(DATE, low) and (name := re.search(_MONTH, low)):
        day_is = re.search(r"\b\d{1,2}(?!\d)", low)
        month = _MONTHS.index(name[0][:3]) + 1
        return _date_span(int(low[-4:]), month, int(day_is[0]) if day_is else None)
    return None


def _date_span(
    year: int, month: int | None = None, day: int | None = None
) -> tuple[float, float] | None:
    """Return the first and last day (proleptic ordinals) of a year, month or day.

    None if it does not exist.
    """
    if not 1 <= year <= 9998:  # before our era: about
        return year * 365.2425, (year + 1) * 365.2425 - 1
    try:
        first = date(year, month or 1, day or 1)
        after = first + timedelta(1)
        if day is None:
            last = month or 12
            after = date(year + last // 12, last % 12 + 1, 1)
    except ValueError:
        return None
    return first.toordinal(), after.toordinal() - 1
