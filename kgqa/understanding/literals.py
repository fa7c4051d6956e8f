# ruff: noqa: E501  # patterns
"""Parses the literals of a question: numbers and dates with their comparisons, quoted text.

English. One reading serves plans (:func:`stated`), which tell a number that limits ("the top three
films") from one that is compared, and the conditions of path ranking (:func:`value_conditions`):
these have superlatives, too, and days of every week or year.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.graph.quantities import AMOUNT, BASES, UNITS, Kind, Value, read_value
from kgqa.lexicon.vocabulary import FUNCTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

Operator: TypeAlias = Literal[">", "<", ">=", "<=", "=", "<>", ".."]

_UP_TO_TWELVE = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS = {word: number for number, word in enumerate(_UP_TO_TWELVE.split())} | {
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "fifty": 50,
    "hundred": 100,
    "dozen": 12,
}
_SCALES = dict.fromkeys(("k", "thousand"), 10**3) | dict.fromkeys(("m", "million"), 10**6)
_SCALES |= dict.fromkeys(("bn", "billion"), 10**9)
_NUMBER = re.compile(
    r"(?<![\w.])[$€£]?\s?(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?)"
    r"(?:\s?(k|thousand|m|million|bn|billion)\b)?(?:%|\b|$|(?=(?:st|nd|rd|th)\b))(?![\w-]*\w-)",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(
    rf"\b(?:({'|'.join(_WORDS)}|(?<=than )once|twice)|a(?= (?:thousand|million|billion)))\b"
    r"(?: (thousand|million|billion)\b)?",
    re.IGNORECASE,
)
_WORDS |= {"once": 1, "twice": 2}
_MONTHS = "january february march april may june july august september october november december"
_MONTH = "|".join(f"{month_name}|{month_name[:3]}" for month_name in _MONTHS.split()) + "|sept"
_DATE = re.compile(
    rf"\b(?:(\d{{4}})-(\d\d)(?:-(\d\d))?(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"
    rf"|(?:(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?({_MONTH})\.?\s+(?:(\d{{1,2}})(?:st|nd|rd|th)?,?\s+)?(\d{{4}}))\b",
    re.IGNORECASE,
)
_NUMERIC_DATE = re.compile(r"(?<![\d./-])(\d{1,2})([/.-])(\d{1,2})\2([12]\d{3})(?![\d/-]|\.\d)")
_DECADE = re.compile(
    r"\b(?:the\s+)?(?:(1[89]|20)(\d)0s|(twent|thirt|fort|fift|sixt|sevent|eight|ninet)ies)\b", re.I
)
_FULL_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_DECADES = ("twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet")
_QUOTED = re.compile(
    r"(?<!\w)(?:'((?:[^']|(?<=\w)'(?=\w))+)'|\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’)(?!\w)"
)
_QUARTERS = ("first", "second", "third", "fourth")
_QUARTER = re.compile(
    rf"\b(?:the )?(?:q([1-4])|({'|'.join(_QUARTERS)}) quarter)(?: of)?,? ([12]\d{{3}})\b|\b([12]\d{{3}})[ -]?q([1-4])\b",
    re.IGNORECASE,
)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_EACH = re.compile(  # of every week or year
    rf"\b(?:on|in|during|every)\s+(?:an?\s+|the\s+)?(?:({_DAYS.replace(' ', '|')})s?"
    rf"|(?:(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?({_MONTH})\b(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?)?)\b(?!,?\s+\d)",
    re.IGNORECASE,
)
_BEFORE: tuple[tuple[str, Operator], ...] = (
    (r"(?:no|not) (?:more|later|greater|higher|larger) than|at most|up to|(?:a )?maximum(?: of)?|until|till|by|not after", "<="),
    (r"(?:no|not) (?:less|fewer|earlier|lower) than|at least|(?:a )?minimum(?: of)?|since|starting|not before", ">="),
    (r"(?:more|greater|higher|larger|bigger|longer|later|better|other|heavier) than|over|above|"
     r"exceed(?:s|ing|ed)?|beyond|after|surpass(?:es|ing)?|past|upwards of", ">"),
    (r"(?:less|fewer|lower|smaller|shorter|earlier|cheaper|worse) than|under|below|before|prior to|"
     r"beneath", "<"),
    (r"not equal to|other than|not", "<>"),
    (r"in|during|on|of|from|dated", "="),
)  # fmt: skip
_AFTER: tuple[tuple[str, Operator], ...] = (
    (
        r"or (?:more|above|higher|greater|later|over|older|after(?:wards)?)|and (?:above|over|later)|on(?:wards?)?\b(?! \w)|plus\b|\+",
        ">=",
    ),
    (r"or (?:less|fewer|below|under|lower|earlier|younger|before)|and (?:below|under)", "<="),
)
_LIMIT = re.compile(
    r"(?:\b(?:top|first|last|any|bottom|best|worst|latest|newest|oldest|largest|smallest|highest|lowest)"
    r"|^\s*(?:list|show(?: me)?|name|which|what(?: are)?|who are|identify|find|give(?: me)?|get|display|"
    r"provide|return|the|tell me)(?:\s+(?:the|any|me|all|up to|only|out))*(?:\s+\w+ of)?"
    r"|\b(?:the|of any|limit(?:ed)?(?: \w+){0,2} to|are the|which|what)(?:\s+names? of)?)\s*$",
    re.IGNORECASE,
)
_EXACTLY = re.compile(r"\b(?:exactly|precisely|only|just)\s+$", re.IGNORECASE)
_ALONE = re.compile(r"\b(?:top|first|bottom|limit(?:ed)?(?: \w+){0,2} to)\s*$", re.IGNORECASE)
_ABOUT: dict[str, tuple[str, int, int]] = {  # -> a question about x, the signs of days, amounts
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
    "expensive dear pricey costly valuable": ("how much does x cost? what is x worth?", 0, 1),
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
}
_BY_ADJECTIVE = {word: meant for words, meant in _ABOUT.items() for word in words.split()}
_THAN = re.compile(r"\b(?:(no|not) )?(\w+er|more (\w+)|less (\w+)) than(?: the)?$", re.IGNORECASE)
_FILLER = r"(?:\s+(?:or equal to|than|the(?: year)?|year|a|an|age|of))*"
_OR_EQUAL, _EQUAL_TO_OR = "or equal to", "equal to or "
_OR_EQUAL_TO: dict[Operator, Operator] = {"<": "<=", ">": ">="}
_SIGN = re.compile(r"(<=|=<|>=|=>|<>|!=|[<>≤≥≠])\s*$")
_BY_SIGN: dict[str, Operator] = {  # the characters of each sign in one order
    "=<": "<=", "≤": "<=", "<": "<", ">=": ">=", "≥": ">=", ">": ">", "><": "<>", "≠": "<>",
    "=!": "<>",
}  # fmt: skip
_QUANTITY = re.compile(AMOUNT)
_UNIT_WORD = re.compile(r"\s+([a-z]+)")
_NO_UNIT = FUNCTION | {"or", "and", "that", "who", "which"}
_SUPERLATIVE = re.compile(
    r"(?<!at )(?<!at the )(?<!for the )\b(most recent|\w{2,}est|fewest"
    r"|(?:most|least|first|last)\b(?! of\b| and foremost| names?\b| time\b| likely\b))"
    r"(?: (?:number|amount) of)?(?: ([^\W\d_]+))?"
)
_ONE = re.compile(r"(?:\b(?:the|its|his|her|their|our|my|your)|'s) \||\|\W*$")  # "the first"
_MOST_COUNTED = 1000  # answers requested
_WINDOW = 5  # words before a comparison that say what it is about


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """A condition of a question on a value of its answers.

    ``words``: its words in the question; ``about``: the question, about an entity ``x``, that the
    value itself would answer. A comparison has an ``operator`` and bounds; a superlative the signs
    by which days and amounts are ordered, the highest first; 0 if it is not about them.
    """

    words: str
    about: str
    operator: Operator | None = None
    low: Value | None = None
    high: Value | None = None
    days: int = 1
    amount: int = 1
    each: tuple[str, str] | None = None

    def met_by(self, value: Value, kind: Kind) -> bool:
        """Return whether ``value`` satisfies the comparison.

        ``kind``: whether to compare days or amounts. False if a value lacks that kind, or units
        differ.
        """
        mine = value.range(kind)
        if self.each is not None:
            return mine is not None and all(
                0 < day < date.max.toordinal()
                and date.fromordinal(int(day)).strftime(self.each[0]) == self.each[1]
                for day in mine
            )
        assert self.low is not None
        low = self.low.range(kind)
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


@dataclass(frozen=True, slots=True)
class Stating:
    """A literal of a question at ``start:end``, with the plan operator that it is compared by.

    ``read``: the value with its unit, which ends at ``until``; ``compared``: the comparing words,
    from ``said`` on. A quarter or a decade is two literals; the first one has the value.
    """

    kind: Literal["number", "date", "text"]
    value: float | int | str
    operator: str
    start: int
    end: int
    compared: Operator = "="
    said: int = -1
    read: Value | None = None
    until: int = -1


@dataclass(frozen=True, slots=True)
class Stated:
    """The literals of a question, in order, and ``limit``: the number of answers requested."""

    limit: int | None
    literals: tuple[Stating, ...]


def short_year(text: str) -> str:
    """Return the last two digits of a year, as in names of properties; "" for other text.

    >>> short_year("1985"), short_year("3985"), short_year("deaths")
    ('85', '', '')
    """
    return text[-2:] if _FULL_YEAR.fullmatch(text) else ""


def stated(question: str, numbered: Set[str] = frozenset()) -> Stated:
    """Parse the literals of a question.

    ``numbered``: nouns of which things have a number, in the singular: "two room flats" are any.

    >>> stated("the three products over 1.5 million").limit, stated("Which rank best? List the top 5.").limit
    (3, 5)
    >>> stated("List two room flats").limit, stated("List two room flats", {"room"}).limit
    (2, None)
    >>> [(one.value, one.operator) for one in stated("orders between 5 and 10, after 1997").literals]
    [(5, '>='), (10, '<='), (1997, '>')]
    >>> [(one.value, one.operator) for one in stated("the nineties, or Q3 2020").literals]
    [('1990', '>='), ('2000', '<'), ('2020-07-01', '>='), ('2020-10-01', '<')]
    """
    taken = [False] * len(question)
    literals: list[Stating] = []
    for match in _QUOTED.finditer(question):
        text = next(group for group in match.groups() if group is not None).strip()
        if text and not _DATE.fullmatch(text) and _take(taken, match):
            operator = _text_operator(question, match.start())
            literals.append(Stating("text", text, operator, *match.span()))
    for match, value in _dates(question):
        if _take(taken, match):
            literals.append(_stating("date", value, question, *match.span(), read_value(value)))
    for match, first, after, days in _periods(question):
        if _take(taken, match):
            literals += _period(question, match.span(), first, after, Value(days))
    for match in _EACH.finditer(question):
        if _take(taken, match) and match[3] and not (match[2] or match[4]):
            literals.append(Stating("date", _in_common(match)[1], "=", *match.span()))
    limit, numbers = _limit_and_numbers(question, taken, numbered)
    return Stated(limit, tuple(sorted([*literals, *numbers], key=attrgetter("start"))))


def _take(taken: list[bool], match: re.Match[str]) -> bool:
    """Return whether ``match`` overlaps no literal yet; reserve its span in either case."""
    start, end = match.span()
    free = not any(taken[start:end])
    taken[start:end] = [True] * (end - start)
    return free


def _stating(
    kind: Literal["number", "date"],
    value: float | str,
    question: str,
    start: int,
    end: int,
    read: Value | None,
    until: int | None = None,
) -> Stating:
    """Return the literal at ``start:end`` with the operator that its words give it."""
    operator, said = _operator(question, start, end, read)
    return Stating(kind, value, operator, start, end, operator, said, read, until or end)


def _periods(
    question: str,
) -> Iterator[tuple[re.Match[str], str, str, tuple[float, float]]]:
    """Yield the quarters and decades of a question, with where they begin and what follows them.

    Last come a period's first and last day.
    """
    for match in _QUARTER.finditer(question):
        quarter = int(match[1] or match[5] or _QUARTERS.index(match[2].lower()) + 1)
        year = int(match[3] or match[4])
        begin = date(year, 3 * quarter - 2, 1)
        after = date(year + quarter // 4, 3 * quarter % 12 + 1, 1)
        yield match, f"{begin}", f"{after}", (begin.toordinal(), after.toordinal() - 1)
    for match in _DECADE.finditer(question):
        word = match[3]
        year = 1920 + 10 * _DECADES.index(word.lower()) if word else int(f"{match[1]}{match[2]}0")
        days = date(year, 1, 1).toordinal(), date(year + 9, 12, 31).toordinal()
        yield match, f"{year}", f"{year + 10}", days


def _period(
    question: str, span: tuple[int, int], first: str, after: str, read: Value
) -> list[Stating]:
    """Return the literals of a period at ``span``, from ``first`` until before ``after``.

    ``read``: its first and last day. Words such as "since" and "before" give one literal, otherwise
    there are two.
    """
    operator, said = _operator(question, *span, read)
    sides = {
        ">=": [(first, ">=")],
        "<": [(first, "<")],
        ">": [(after, ">=")],
        "<=": [(after, "<")],
    }
    (value, side), *other = sides.get(operator, [(first, ">="), (after, "<")])
    whole = Stating("date", value, side, *span, operator, said, read, span[1])
    return [whole, *(Stating("date", *end, *span) for end in other)]


def _limit_and_numbers(
    question: str, taken: Sequence[bool], numbered: Set[str]
) -> tuple[int | None, list[Stating]]:
    """Return the number of answers requested, if any, and the numbers that compare something.

    Ordinals and a bare "one" are left out, not "exactly one". ``numbered``: as for :func:`stated`.
    """
    limit: int | None = None
    numbers: list[Stating] = []
    for size, start, end in _numbers(question, taken):
        before, after = question[:start], question[end:]
        value = int(size) if size.is_integer() else size
        number = _stating(
            "number", value, question, start, end, *_amount(question, start, end, value)
        )
        bare = number.operator == "="
        counted = isinstance(value, int) and 0 < value <= _MOST_COUNTED
        noun = re.match(r"\s+[A-Za-z]", after) or _ALONE.search(before)
        if numbered & {*after.lower().split()[:1]} and len(after.split()) > 1:
            noun = None  # the things have so many
        if limit is None and bare and counted and noun and _LIMIT.search(before):
            limit = int(size)
        elif not bare or not (
            re.match(r"(?:st|nd|rd|th)\b", after)
            or (question[start:end].lower() == "one" and not _EXACTLY.search(before))
        ):
            numbers.append(number)
    return limit, numbers


def _dates(question: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the matched dates of a question and their ISO forms; "2020-05" if the day is missing.

    Numeric dates that the calendar lacks are skipped.
    """
    for match in _DATE.finditer(question):
        year, month, day, first, name, second, last = match.groups()
        if name:
            year, month, day = last, _month_number(name), first or second
        yield match, f"{year}-{month}" + (f"-{int(day):02}" if day else "")
    for match in _NUMERIC_DATE.finditer(question):
        if (numeric := _numeric_date(match)) is not None:
            yield match, f"{numeric}"


def _month_number(name: str) -> str:
    """Return the two-digit number of a month from the first three letters of its name."""
    names = [month_name[:3] for month_name in _MONTHS.split()]
    return f"{names.index(name[:3].lower()) + 1:02}"


def _numeric_date(match: re.Match[str]) -> date | None:
    """Return the day of a date in numbers, None if the calendar lacks it.

    If both orders are possible, the month is first between slashes ("9/5/2016"), else the day.
    """
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    month_first = (first, second), (second, first)
    for month, day in month_first if match[2] == "/" else reversed(month_first):
        with suppress(ValueError):
            return date(year, month, day)
    return None


def _numbers(question: str, taken: Sequence[bool]) -> list[tuple[float, int, int]]:
    """Return (number, start, end) of the numbers in digits and words, in order.

    Those that overlap ``taken`` characters are left out.
    """
    spans = []
    for match in _NUMBER.finditer(question):
        amount, scale = float(match[1].replace(",", "")), (match[2] or "").lower()
        if scale != "m" or match[0][0] in "$€£" or (amount < 1000 and " " not in match[0]):
            amount *= _SCALES.get(scale, 1)  # else metres
        spans.append((amount, *match.span()))
    for match in _NUMBER_WORD.finditer(question):
        scale = _SCALES[match[2].lower()] if match[2] else 1
        spans.append((float(scale * _WORDS[(match[1] or "one").lower()]), *match.span()))
    return sorted((span for span in spans if not any(taken[span[1] : span[2]])), key=itemgetter(1))


def _amount(question: str, start: int, end: int, number: float) -> tuple[Value | None, int]:
    """Return the number at ``start:end`` as a value with its unit, and where the unit ends.

    The value is None if it cannot be read; without a unit the second is ``end``. ``number``: what a
    word such as "two" means.
    """
    low = question.casefold()
    word = _UNIT_WORD.match(low, end) if low[start:end].isalpha() else None
    if word is not None and word[1] in UNITS:
        return read_value(f"{number} {word[1]}"), word.end()
    match = _QUANTITY.match(low, start)
    if match is None or match.end() < end or len(low) != len(question):
        return read_value(low[start:end]), end
    text = match[0].rstrip()
    unit = text.rpartition(" ")[2]
    if (unit in _NO_UNIT and unit not in UNITS) or read_value(text) is None:
        text = text[: len(text) - len(unit)].rstrip()
    return read_value(text), start + len(text)


def _operator(question: str, start: int, end: int, value: Value | None) -> tuple[Operator, int]:
    """Return the operator of the literal at ``start:end``, and where its comparing words start.

    ``value``: the literal's, which distinguishes dates. "=" if no words compare it; ``start`` if
    they follow it or there are none.
    """
    before, after = question[:start].rstrip(" $€£'\""), question[end:].lstrip(" '\"")
    return (
        _end_of_range(question[:start], before, after)
        or _by_comparative(before, value)
        or _by_words(before, after, value, start)
        or ("=", start)
    )


def _end_of_range(whole: str, before: str, after: str) -> tuple[Operator, int] | None:
    """Return the operator of an end of "between 5 and 10", None for another literal.

    ``whole``: the text before the literal, ``before`` without a sign of money.
    """
    first = re.search(r"\b(?:between|from)\s+(?:\S+\s+){0,4}?$", whole, re.IGNORECASE)
    if first and re.match(r"(?:and|to|until|-|–)\s*\S*\d", after):
        return ">=", first.start()
    second = re.search(
        r"\b(?:between|from)\s+\S*\d[^,;?]{0,20}\s+(?:and|to|until|-|–)$", before, re.IGNORECASE
    )
    return ("<=", second.start()) if second else None


def _by_comparative(before: str, value: Value | None) -> tuple[Operator, int] | None:
    """Return the operator of a literal after "older than" or "no more expensive than", else None.

    Older is an earlier date, or a higher age.
    """
    than = _THAN.search(before)
    meant = than and _BY_ADJECTIVE.get(_adjective((than[3] or than[4] or than[2]).lower()))
    if not than or not meant:
        return None
    dated = value is not None and value.days and _adjective(than[2].lower()) in ("old", "young")
    up = ((meant[1] if dated else meant[2] or meant[1]) > 0) != bool(than[4])
    operators: tuple[Operator, Operator] = ("<=", ">=") if than[1] else (">", "<")
    if before[: than.start()].casefold().endswith(_EQUAL_TO_OR):
        operators = (">=", "<=")
    return operators[not up], than.start()


def _by_words(
    before: str, after: str, value: Value | None, start: int
) -> tuple[Operator, int] | None:
    """Return the operator of a literal by "or more" behind it or "at least" before it, else None.

    "By" compares only dates.
    """
    for words, operator in _AFTER:
        if re.match(words, after, re.IGNORECASE):
            return operator, start
    if (sign := _SIGN.search(before)) is not None:
        return _BY_SIGN["".join(sorted(sign[1], reverse=True))], sign.start()
    for words, operator in _BEFORE:
        match = re.search(rf"\b(?:{words}){_FILLER}$", before, re.IGNORECASE)
        if match and (value is None or value.days or not match[0].lower().startswith("by")):
            said = before[: match.start()].casefold().endswith(_EQUAL_TO_OR)
            equal = operator in _OR_EQUAL_TO and (said or _OR_EQUAL in match[0].casefold())
            return _OR_EQUAL_TO[operator] if equal else operator, match.start()
    return None


def value_conditions(question: str) -> list[ValueCondition]:
    """Return the value comparisons, and the superlative, that ``question`` states.

    ``question`` must not contain its topic entity's name. A superlative comes last; of several the
    first one counts. Uncertain phrases are ignored.

    >>> [one] = value_conditions("Which of x's papers came out after 1975?")
    >>> one.words, one.operator, one.met_by(read_value("1976-03-31"), "days")
    ('after 1975', '>', True)
    >>> [one] = value_conditions("Which of x's shops opened on a Monday?")
    >>> one.words, one.met_by(read_value("2024-01-01"), "days")
    ('on a Monday', True)
    >>> value_conditions("the cheapest of x's dishes")[0].amount
    -1
    """
    text = " ".join(question.split())
    low = text.casefold()
    conditions: list[ValueCondition] = []
    taken: list[tuple[int, int]] = []

    def add(start: int, end: int, operator: Operator, asked: str, **of: Any) -> None:
        """Add a condition, with its words and the question about the value alone."""
        taken.append((start, end))
        before = " ".join(low[:start].split()[-_WINDOW:])
        ahead = " ".join(low[end:].split()[:2])
        about = f"{asked} {before} {low[start:end]} {ahead}".strip()
        conditions.append(ValueCondition(text[start:end].strip(), about, operator, **of))

    literals = [one for one in stated(text).literals if one.read is not None]
    for literal, after in zip_longest(literals, literals[1:]):
        if _overlaps(taken, literal.start, literal.until):
            continue
        operator, last = literal.compared, literal
        if after and (after.compared, after.said) == ("<=", literal.said) != (operator, 0):
            operator, last = "..", after
        if _compares(literal, operator):
            asked = _asked_about(low, literal)
            add(literal.said, last.until, operator, asked, low=literal.read, high=last.read)
    for each in _EACH.finditer(low):
        if not _overlaps(taken, *each.span()):
            add(*each.span(), "=", "when was x?", each=_in_common(each))
    superlative = _superlative(text, low, taken)
    return [*conditions, superlative] if superlative else conditions


def _overlaps(taken: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether ``start:end`` overlaps one of the spans ``taken``."""
    return any(first < end and start < last for first, last in taken)


def _compares(literal: Stating, operator: Operator) -> bool:
    """Return whether a literal states a condition: a bound, or a date that a word introduces."""
    if operator == "=":
        dated = literal.read is not None and literal.read.days is not None
        return dated and literal.said < literal.start
    return operator != "<>"


def _asked_about(low: str, literal: Stating) -> str:
    """Return the question about ``x`` that a compared literal of the text ``low`` answers."""
    than = _THAN.search(low[: literal.start].rstrip(" $€£"))
    if than and (meant := _BY_ADJECTIVE.get(_adjective(than[3] or than[4] or than[2]))):
        return meant[0]
    dated = literal.read is not None and literal.read.days is not None
    return "when was x?" if dated else "how much is x?"


def _in_common(each: re.Match[str]) -> tuple[str, str]:
    """Return the strftime pattern of a matched weekday, month or day of a month, and its text."""
    if each[1]:
        return "%u", str(_DAYS.split().index(each[1].lower()) + 1)
    month = _month_number(each[3])
    day = each[2] or each[4]
    return ("%m-%d", f"{month}-{int(day):02}") if day else ("%m", month)


def _superlative(text: str, low: str, taken: list[tuple[int, int]]) -> ValueCondition | None:
    """Return the first superlative as a condition, None if there is none.

    ``low``: the casefolded ``text``. Superlatives at ``taken`` spans, of unknown adjectives, or
    "first" and "last" that do not single out one, are skipped.
    """
    for match in _SUPERLATIVE.finditer(low):
        if _overlaps(taken, *match.span()):
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
    """Return the base form of a comparative or superlative; an unknown word is unchanged.

    >>> [_adjective(one) for one in ("oldest", "largest", "heavier", "biggest", "dearer", "late")]
    ['old', 'large', 'heavy', 'big', 'dear', 'late']
    """
    if word in _BY_ADJECTIVE:
        return word
    stem = re.sub(r"(?:er|est)$", "", word)
    for adjective in (stem, f"{stem}e", f"{stem[:-1]}y" if stem.endswith("i") else stem, stem[:-1]):
        if adjective in _BY_ADJECTIVE:
            return adjective
    return word


# "involving a bank from 'Malta'" says nothing of the bank's name
_OTHERWISE = r"(?:from|in|by|at|to|is|are|was|were|named|called|with|for)\b"


def _text_operator(question: str, start: int) -> str:
    """Return the text operator stated before a quotation, such as "starts with"; by default "=".

    A negation gives "not starts with" or "<>".
    """
    before = question[:start]
    ends = (
        (r"(?:start|begin)(?:s|ning|ing)?(?: with)?(?: the (?:letters?|words?|text|prefix))?", "starts with"),
        (r"end(?:s|ing)?(?: with| in)(?: the (?:letters?|words?|text|suffix))?", "ends with"),
        (r"(?:contain|includ|mention|featur|involv)(?:s|ing|e|es|ed)?"
         rf"(?: (?!{_OTHERWISE})\w+){{0,4}}?|(?:with|has|have|having) the "
         r"(?:words?|terms?|phrases?|keywords?|text)(?: \w+)?|(?:the )?(?:word|term|phrase|keyword|substring)s?", "contains"),
    )  # fmt: skip
    denied = re.search(r"\b(?:not|n't|never)\s+(?:\w+\s+){0,3}$", before, re.IGNORECASE)
    for words, operator in ends:
        if re.search(rf"\b(?:{words})\s*$", before, re.IGNORECASE):
            return f"not {operator}" if denied else operator
    return "<>" if denied else "="
