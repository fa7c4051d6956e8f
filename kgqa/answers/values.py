"""What a question asks of values: comparisons and superlatives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kgqa.graph.quantities import AMOUNT, BASES, DATE, Kind, Value, read_value

Operator: TypeAlias = Literal[">", "<", ">=", "<=", "=", ".."]


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
            and {value.unit, self.low.unit} <= BASES.keys()
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
_VALUE = rf"(?:the )?((?<![\w.])(?:{DATE}|{AMOUNT})(?![\w]))"
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
    conditions: list[ValueCondition] = []

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
        conditions.append(ValueCondition(words.strip(), about, operator, bounds[0], bounds[-1]))

    for match in _BETWEEN.finditer(low):
        add(match, "..", [group for group in match.groups() if group])
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
        conditions.append(superlative)
    return conditions


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
    for form in (stem, f"{stem}e", f"{stem[:-1]}y" if stem.endswith("i") else stem, stem[:-1]):
        if form in _BY_ADJECTIVE:
            return form
    return word
