# ruff: noqa: E501  # patterns
"""What a question states literally: numbers and dates with how they compare, quoted text.

English. A number that limits ("the top three films") is told from one that is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["number", "date", "text"]

_WORDS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100, "dozen": 12}
_SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_NUMBER = re.compile(
    r"(?<![\w.])[$€£]?\s?(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?)"
    r"(?:\s?(k|thousand|m|million|bn|billion)\b)?(?:%|\b|$|(?=(?:st|nd|rd|th)\b))(?![\w-]*\w-)",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_MONTHS = "january february march april may june july august september october november december"
_MONTH = "|".join(f"{one}|{one[:3]}" for one in _MONTHS.split())
_DATE = re.compile(
    rf"\b(?:(\d{{4}})-(\d\d)(?:-(\d\d))?(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"
    rf"|(?:(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?({_MONTH})\.?\s+(?:(\d{{1,2}})(?:st|nd|rd|th)?,?\s+)?(\d{{4}}))\b",
    re.IGNORECASE,
)
_DECADE = re.compile(
    r"\b(?:the\s+)?(?:(1[89]|20)(\d)0s|(twent|thirt|fort|fift|sixt|sevent|eight|ninet)ies)\b", re.I
)
_DECADES = ("twent", "thirt", "fort", "fift", "sixt", "sevent", "eight", "ninet")
_QUOTED = re.compile(
    r"(?<!\w)(?:'((?:[^']|(?<=\w)'(?=\w))+)'|\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’)(?!\w)"
)
_BEFORE: tuple[tuple[str, str], ...] = (
    (r"(?:no|not) (?:more|later|greater|higher|larger) than|at most|up to|maximum(?: of)?|until", "<="),
    (r"(?:no|not) (?:less|fewer|earlier|lower) than|at least|minimum(?: of)?|since|from|starting", ">="),
    (r"(?:more|greater|higher|larger|bigger|longer|older|later|better|other|heavier) than|over|above|"
     r"exceed(?:s|ing|ed)?|beyond|after|surpass(?:es|ing)?|past|upwards of", ">"),
    (r"(?:less|fewer|lower|smaller|shorter|younger|earlier|cheaper|worse) than|under|below|before|prior to|"
     r"beneath", "<"),
    (r"not equal to|other than|not", "<>"),
)  # fmt: skip
_AFTER = (
    (r"or (?:more|above|higher|greater|later|over|older)|and (?:above|over|later)|plus\b|\+", ">="),
    (r"or (?:less|fewer|below|under|lower|earlier|younger)|and (?:below|under)", "<="),
)
_LIMIT = re.compile(
    r"(?:\b(?:top|first|last|any|bottom|best|worst|latest|newest|oldest|largest|smallest|highest|lowest)"
    r"|^\s*(?:list|show(?: me)?|name|which|what(?: are)?|who are|identify|find|give(?: me)?|get|display|"
    r"provide|return|the|tell me)(?:\s+(?:the|any|me|all|up to|only|out))*(?:\s+(?:names?|titles?|ids?) of)?"
    r"|\b(?:the|of any|limit(?:ed)? to|are the|which|what)(?:\s+names? of)?)\s*$",
    re.IGNORECASE,
)
_EQUAL_SIDE = re.compile(r"\b(?:exactly|precisely|equal to|equals?|of|is|was|in|year)\s*$", re.I)


@dataclass(frozen=True, slots=True)
class Stating:
    """A literal of a question, at ``start:end``; ``operator`` as a plan has it."""

    kind: Kind
    value: float | int | str
    operator: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Stated:
    """What a question states: ``limit``, how many are asked for, and the literals, as they stand."""

    limit: int | None
    literals: tuple[Stating, ...]


def stated(question: str) -> Stated:
    """Return the literals of a question.

    >>> stated("the three products over 1.5 million").limit
    3
    >>> [(one.value, one.operator) for one in stated("orders between 5 and 10, after 1997").literals]
    [(5, '>='), (10, '<='), (1997, '>')]
    >>> [(one.kind, one.value) for one in stated("films called 'The Matrix' of the nineties").literals]
    [('text', 'The Matrix'), ('date', '1990'), ('date', '2000')]
    """
    found: list[Stating] = []
    taken = [False] * len(question)

    def take(kind: Kind, value: float | int | str, operator: str, start: int, end: int) -> None:
        found.append(Stating(kind, value, operator, start, end))
        taken[start:end] = [True] * (end - start)

    for match in _QUOTED.finditer(question):
        text = next(one for one in match.groups() if one is not None).strip()
        if text and not _DATE.fullmatch(text):
            take("text", text, _text_operator(question, match.start()), *match.span())
    for match in _DATE.finditer(question):
        if any(taken[match.start() : match.end()]):
            continue
        year, month, day, first, name, second, last = match.groups()
        if name:
            number = [one[:3] for one in _MONTHS.split()].index(name.lower()[:3]) + 1
            year, month, day = last, f"{number:02}", first or second
        value = f"{year}-{month}" + (f"-{int(day):02}" if day else "")
        take("date", value, _operator(question, *match.span()), *match.span())
    for match in _DECADE.finditer(question):
        if any(taken[match.start() : match.end()]):
            continue
        if match[3]:
            begin = 1920 + 10 * _DECADES.index(match[3].lower())
        else:
            begin = int(match[1] + match[2] + "0")
        take("date", str(begin), ">=", *match.span())
        found.append(Stating("date", str(begin + 10), "<", *match.span()))
    limit = None
    numbers: list[tuple[float, int, int]] = []
    for match in _NUMBER.finditer(question):
        if not any(taken[match.start() : match.end()]):
            amount = float(match[1].replace(",", "")) * _SCALES.get((match[2] or "").lower(), 1)
            numbers.append((amount, *match.span()))
    for match in _NUMBER_WORD.finditer(question):
        if not any(taken[match.start() : match.end()]):
            numbers.append((float(_WORDS[match[1].lower()]), *match.span()))
    for size, start, end in sorted(numbers, key=lambda one: one[1]):
        operator = _operator(question, start, end)
        whole = size.is_integer()
        before, after = question[:start], question[end:]
        noun = bool(re.match(r"\s+[A-Za-z]", after)) or "first" in before[-8:].lower()
        if (
            limit is None
            and whole
            and operator == "="
            and 0 < size <= 1000
            and noun
            and _LIMIT.search(before)
        ):
            limit = int(size)
            continue
        stated_ = int(size) if whole else size
        nth = re.match(r"(?:st|nd|rd|th)\b", after)
        if operator == "=" and (nth or question[start:end].lower() == "one"):
            continue
        take("number", stated_, operator, start, end)
    found.sort(key=lambda one: one.start)
    return Stated(limit, tuple(found))


def _operator(question: str, start: int, end: int) -> str:
    before, after = question[:start].rstrip(" $€£'\""), question[end:].lstrip(" '\"")
    between = re.search(r"\b(?:between|from)\s+(?:\S+\s+){0,4}?$", question[:start], re.IGNORECASE)
    if between and re.match(r"(?:and|to|-|–)\s*\S*\d", after):
        return ">="
    if re.search(
        r"\b(?:between|from)\s+\S*\d[^,;?]{0,20}\s+(?:and|to|-|–)$", before, re.IGNORECASE
    ):
        return "<="
    for words, operator in _AFTER:
        if re.match(words, after, re.IGNORECASE):
            return operator
    for words, operator in _BEFORE:
        if re.search(
            rf"\b(?:{words})(?:\s+(?:or equal to|than|the(?: year)?|year|a|an|of))*$", before, re.I
        ):
            return operator
    return "="


def _text_operator(question: str, start: int) -> str:
    before = question[:start]
    ends = (
        (r"(?:start|begin)(?:s|ning|ing)?(?: with)?(?: the (?:letters?|words?|text|prefix))?", "starts with"),
        (r"end(?:s|ing)?(?: with| in)(?: the (?:letters?|words?|text|suffix))?", "ends with"),
        (r"(?:contain|includ|mention|featur|involv)(?:s|ing|e|es|ed)?(?: \w+){0,4}?|(?:with|has|have|having) the "
         r"(?:words?|terms?|phrases?|keywords?|text)(?: \w+)?|(?:the )?(?:word|term|phrase|keyword|substring)s?", "contains"),
    )  # fmt: skip
    denied = re.search(r"\b(?:not|n't|never)\s+(?:\w+\s+){0,3}$", before, re.IGNORECASE)
    for words, operator in ends:
        if re.search(rf"\b(?:{words})\s*$", before, re.IGNORECASE):
            return f"not {operator}" if denied else operator
    return "<>" if denied else "="
