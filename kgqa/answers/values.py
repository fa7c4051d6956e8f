"""Values as text → numbers and days that can be compared, and what a question asks of values.

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
Operator: TypeAlias = Literal[">", "<", ">=", "<=", "=", ".."]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"  # fmt: skip # noqa: E501
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    rf"{_DAY} (?:of )?{_MONTH}\.?,? \d{{4}}|{_MONTH}\.? {_DAY},? \d{{4}}|{_MONTH}\.?,? \d{{4}}"
    r"|\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{4}|[12]\d{3}s?"
)
_NUMBER = r"\d{1,3}(?:[,  ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?"
_CURRENCY = r"[€£$¥]|\b(?:eur|usd|gbp|chf)\b"
_SCALE = r"(?:k|m|mn|bn|thousand|million|billion)"
_AMOUNT = (
    rf"(?:{_CURRENCY})?\s?(?:{_NUMBER})(?:\s?{_SCALE}\b)?"
    r"(?:\s?(?:%|°|[€£$¥]|[^\W\d_]{1,14}\b)(?:\s?vol\b)?)?"
)
_ISO = re.compile(r"(-?\d{4})(?:-(\d\d)(?:-(\d\d)(?:t[\d:.]+)?)?)?(?:z|[+-]\d\d:\d\d)?")
_PART = re.compile(
    rf"({_CURRENCY})?\s?({_NUMBER})\s?({_SCALE}(?![^\W\d_]))?\s?"
    r"((?:%|°|[€£$¥]|[^\W\d_]{1,14})(?:\s?vol)?)?\s*"
)
_SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9}
_BASES: dict[str, dict[str, float]] = {
    "m": {"mm": 1e-3, "cm": 1e-2, "m metre metres meter meters": 1, "ft feet foot": 0.3048,
          "km kilometre kilometres kilometer kilometers": 1e3, "mi mile miles": 1609.34},
    "kg": {"mg": 1e-6, "g gram grams": 1e-3, "kg kilo kilos": 1, "lb lbs pounds": 0.4536,
           "t tonne tonnes ton tons": 1e3},
    "l": {"ml": 1e-3, "cl": 1e-2, "l litre litres liter liters": 1, "hl": 100},
    "s": {"s sec secs seconds second": 1, "min mins minute minutes": 60,
          "h hr hrs hour hours": 3600, "d day days": 86400, "week weeks": 604800,
          "month months": 2629746, "year years yr yrs": 31556952},
    "ha": {"ha hectare hectares": 1, "acre acres": 0.4047}, "%": {"% percent %vol": 1},
    "€": {"€ eur euro euros": 1}, "$": {"$ usd dollar dollars": 1}, "£": {"£ gbp": 1},
}  # fmt: skip
_UNITS = {
    name: (base, times)
    for base, units in _BASES.items()
    for names, times in units.items()
    for name in names.split()
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value: the range of days that it may be, or an amount with its unit; a year may be both."""

    days: tuple[float, float] | None = None
    amount: float | None = None
    unit: str = ""

    def range(self, kind: Kind) -> tuple[float, float] | None:
        """Return the range of the value as days or as an amount, None if it is neither."""
        if kind == "days":
            return self.days
        return None if self.amount is None else (self.amount, self.amount)


def read_value(text: str) -> Value | None:
    """Return the value that the whole of ``text`` is, None if it is none.

    >>> read_value("1 h 10 min"), read_value("€1.2 million").amount
    (Value(days=None, amount=4200.0, unit='s'), 1200000.0)
    >>> read_value("INC-2014"), read_value("1998").amount
    (None, 1998.0)
    """
    low = " ".join(text.casefold().split())
    days = _days(low)
    parts, at = [], 0
    while (found := _PART.match(low, at)) is not None:
        parts.append(found)
        at = found.end()
    if not parts or at < len(low):
        return None if days is None else Value(days)
    amount, unit = 0.0, ""
    for number, part in enumerate(parts):
        currency, digits, scale, after = part.groups()
        named = (currency or after or "").replace(" ", "")
        base, times = _UNITS.get(named, (named, 1.0))
        if number and (base != unit or named not in _UNITS):
            return None if days is None else Value(days)
        if scale == "m" and not currency:  # metres
            base, times, scale = *_UNITS["m"], None
        amount += _number(digits) * _SCALES.get(scale or "", 1.0) * times
        unit = base
    return Value(days, amount, unit)


def _number(digits: str) -> float:
    if re.fullmatch(r"\d{1,3}(?:[,  ]\d{3})+(?:\.\d+)?", digits):
        digits = re.sub(r"[,  ]", "", digits)
    return float(digits.replace(",", "."))


def _days(low: str) -> tuple[float, float] | None:
    if iso := _ISO.fullmatch(low):
        year, month, day = (None if one is None else int(one) for one in iso.groups())
        return _span(year or 0, month, day)
    if decade := re.fullmatch(r"([12]\d{2}0)s", low):
        return _span(int(decade[1]))[0], _span(int(decade[1]) + 9)[1]  # type: ignore[index]
    if numbers := re.fullmatch(r"(\d{1,2})[./](\d{1,2})[./](\d{4})", low):
        day, month, year = map(int, numbers.groups())
        return _span(year, month, day) if month <= 12 else _span(year, day, month)
    if re.fullmatch(_DATE, low) and (name := re.search(_MONTH, low)):
        day_is = re.search(r"\b\d{1,2}(?!\d)", low)
        month = _MONTHS.index(name[0][:3]) + 1
        return _span(int(low[-4:]), month, int(day_is[0]) if day_is else None)
    return None


def _span(
    year: int, month: int | None = None, day: int | None = None
) -> tuple[float, float] | None:
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


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """What a question asks of a value of its answers.

    ``words``: those of the question; ``about``: the question that the value itself would answer, of
    an entity ``x``. A comparison has an ``operator`` and its bounds; a superlative the sign by
    which days and amounts are ordered, the highest first, 0 if it is not about such.
    """

    words: str
    about: str
    operator: Operator | None = None
    low: Value | None = None
    high: Value | None = None
    days: int = 1
    amount: int = 1

    def met_by(self, value: Value, kind: Kind) -> bool:
        """Return whether ``value`` meets a comparison."""
        assert self.low is not None
        mine, low = value.range(kind), self.low.range(kind)
        high = (self.high or self.low).range(kind)
        if mine is None or low is None or high is None:
            return False
        if (
            kind == "amount"
            and {value.unit, self.low.unit} <= _BASES.keys()
            and value.unit != self.low.unit
        ):
            return False
        match self.operator:
            case ">":
                return mine[0] > high[1]
            case "<":
                return mine[1] < low[0]
            case ">=":
                return mine[0] >= low[0]
            case "<=":
                return mine[1] <= high[1]
        return low[0] <= mine[0] and mine[1] <= high[1]


# What stands before a value.
_OPERATORS: dict[Operator, str] = {
    ">=": r"at least|no(?:t)? (?:less|fewer|lower|earlier) than|not before|since|a minimum of"
          r"|from(?= \S+ on)",
    "<=": r"at most|no(?:t)? (?:more|higher|later) than|up to|until|till|by|a maximum of|not after",
    ">": r"after|more than|over|above|exceeding|upwards of|later than|beyond",
    "<": r"before|prior to|less than|fewer than|under|below|earlier than",
    "=": r"in|during|on|of|from|dated",
}  # fmt: skip
_ABOUT: dict[str, tuple[str, int, int]] = {  # -> the question about x, the sign of days, of amounts
    "old eldest": ("how old is x? when was x built, founded or born?", -1, 1),
    "young new": ("how old is x? when was x built, founded or born?", 1, -1),
    "early first": ("when was x?", -1, 0),
    "late latest last recent": ("when was x?", 1, 0),
    "large big great": ("how big is x?", 0, 1),
    "small tiny little": ("how big is x?", 0, -1),
    "long": ("how long is x? how long does x take?", 0, 1),
    "short": ("how long is x? how long does x take?", 0, -1),
    "tall high": ("how high is x?", 0, 1),
    "low": ("how high is x?", 0, -1),
    "cheap affordable inexpensive": ("how much does x cost? what is the price of x?", 0, -1),
    "expensive dear pricey costly valuable": (
        "how much does x cost? what is x worth?", 0, 1),
    "heavy": ("how heavy is x? what does x weigh?", 0, 1),
    "light": ("how heavy is x? what does x weigh?", 0, -1),
    "strong": ("how strong is x?", 0, 1),
    "weak": ("how strong is x?", 0, -1),
    "fast quick": ("how fast is x?", 0, 1),
    "slow": ("how fast is x?", 0, -1),
    "deep": ("how deep is x?", 0, 1),
    "shallow": ("how deep is x?", 0, -1),
    "wide": ("how wide is x?", 0, 1),
    "narrow": ("how wide is x?", 0, -1),
}  # fmt: skip
_BY_ADJECTIVE = {word: meant for words, meant in _ABOUT.items() for word in words.split()}
_VALUE = rf"(?:the )?((?<![\w.])(?:{_DATE}|{_AMOUNT})(?![\w]))"
_BETWEEN = re.compile(rf"\bbetween {_VALUE} and {_VALUE}|\bfrom {_VALUE} (?:to|until) {_VALUE}")
_THAN = re.compile(rf"\b(\w+er|more (\w+)|less (\w+)) than {_VALUE}")
_SUPERLATIVE = re.compile(
    r"(?<!at )(?<!at the )(?<!for the )\b(most recent|\w{2,}est|fewest"
    r"|(?:most|least|first|last)\b(?! of\b| and foremost| names?\b| time\b| likely\b))"
    r"(?: (?:number|amount) of)?(?: ([^\W\d_]+))?"
)
_ONE = re.compile(r"(?:\b(?:the|its|his|her|their|our|my|your)|'s) \||\|\W*$")  # "the first"
_WINDOW = 5  # words before a comparison that say what it is about


def value_conditions(question: str) -> list[ValueCondition]:
    """Return the comparisons with values, and the superlative, that ``question`` asks for.

    Its topic entity's name has been taken out. A superlative stands last; of several the first one
    counts. What is not surely one of these is none.

    >>> [one] = value_conditions("Which of x's papers came out after 1975?")
    >>> one.words, one.operator, one.met_by(read_value("1976-03-31"), "days")
    ('after 1975', '>', True)
    >>> value_conditions("the cheapest of x's dishes")[0].amount
    -1
    """
    text = " ".join(question.split())
    low = text.casefold()
    taken: list[tuple[int, int]] = []
    found: list[ValueCondition] = []

    def add(match: re.Match[str], operator: Operator, values: list[str], about: str = "") -> None:
        bounds = [read_value(one) or _first_word(one) for one in values]
        start, end = match.span()
        if None in bounds or any(a < end and start < b for a, b in taken):
            return
        if operator == "=" and (bounds[0] is None or bounds[0].days is None):
            return
        taken.append((start, end))
        before = " ".join(low[:start].split()[-_WINDOW:])
        ahead = " ".join(low[end:].split()[:2])
        asked = "when was x?" if bounds[0] is not None and bounds[0].days else "how much is x?"
        about = f"{about or asked} {before} {match[0]} {ahead}".strip()
        words = text[start:end] if len(text) == len(low) else match[0]
        found.append(ValueCondition(words.strip(), about, operator, bounds[0], bounds[-1]))

    for match in _BETWEEN.finditer(low):
        add(match, "..", [one for one in match.groups() if one])
    for match in _THAN.finditer(low):
        word = _adjective(match[2] or match[3] or match[1])
        meant = _BY_ADJECTIVE.get(word)
        if meant is not None:
            sign = meant[2] or meant[1]
            if word in ("old", "young") and (value := read_value(match[4])) and value.days:
                sign = meant[1]
            up = (sign > 0) != (match[3] is not None)
            add(match, ">" if up else "<", [match[4]], meant[0])
    for operator, words in _OPERATORS.items():
        for match in re.finditer(rf"\b(?:{words}) {_VALUE}", low):
            add(match, operator, [match[1]])
    if superlative := _superlative(text, low, taken):
        found.append(superlative)
    return found


def _first_word(text: str) -> Value | None:
    """Return the value that a text begins with: of "20 beds of" that without the last word."""
    return read_value(text.rpartition(" ")[0]) if " " in text else None


def _superlative(text: str, low: str, taken: list[tuple[int, int]]) -> ValueCondition | None:
    for match in _SUPERLATIVE.finditer(low):
        if any(a < match.end() and match.start() < b for a, b in taken):
            continue
        word, noun = match[1], match[2] or ""
        if word in ("first", "last") and not _ONE.search(
            f"{low[: match.start()]}|{low[match.end(1) :]}"
        ):
            continue
        before = " ".join(low[: match.start()].split()[-3:])
        after = " ".join(low[match.end(1) :].split()[:4])
        if word in ("most", "least", "fewest"):
            meant = _BY_ADJECTIVE.get(noun)
            sign = 1 if word == "most" else -1
            if meant is not None:
                about, days, amount = meant[0], meant[1] * sign, meant[2] * sign
            elif noun:
                about, days, amount = f"how many {noun} does x have?", 0, sign
            else:
                continue
        else:
            known = _BY_ADJECTIVE.get(_adjective(word.removeprefix("most ")))
            if known is None:
                continue
            about, days, amount = known
        words = text[match.start() : match.end(1)] if len(text) == len(low) else word
        shown = f"{words} {noun}" if word in ("most", "least", "fewest") else words
        return ValueCondition(shown, f"{about} {before} {word} {after}", days=days, amount=amount)
    return None


def _adjective(word: str) -> str:
    """Return the adjective of a comparative or a superlative.

    >>> [_adjective(one) for one in ("oldest", "largest", "heavier", "biggest", "dearer", "late")]
    ['old', 'large', 'heavy', 'big', 'dear', 'late']
    """
    if word in _BY_ADJECTIVE:
        return word
    stem = re.sub(r"(?:er|est)$", "", word)
    for one in (stem, f"{stem}e", f"{stem[:-1]}y" if stem.endswith("i") else stem, stem[:-1]):
        if one in _BY_ADJECTIVE:
            return one
    return word
