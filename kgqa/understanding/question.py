"""A parsed question: what it asks for, its conditions and its order, as a value.

It is read of the one wording of :mod:`kgqa.understanding.canonical` with the same entries, so that
questions that differ by a synonym are equal. No graph is asked: which words name something of it is
the alignment's to say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kgqa.lexicon.english import words
from kgqa.lexicon.entries import NUMBER, Match, longest
from kgqa.lexicon.lemmas import stem
from kgqa.lexicon.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.lexicon.tokens import Token

_SCOPE = 6  # words that a negation denies, at most
_ASKS = ("who", "whom", "whose", "which", "what", "where", "when", "why", "how much")
_WHETHER = ("is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can")


@dataclass(frozen=True, slots=True)
class Order:
    """A superlative: the most (``sign`` 1) or the least of a ``dimension``; ``word``: as said."""

    sign: int
    dimension: str
    word: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison: ``operator`` in words, the ``value`` as written, and the word after it."""

    operator: str
    value: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Understood:
    """The parsed parts of a question.

    ``asks``: its question word, ``how many``, ``whether``, or "" for a description. ``of``: the
    first noun that it asks for. ``negations``: the words that each negation covers. ``groups``:
    what each row stands for. ``references``: pronouns that refer to earlier turns. ``names``: texts
    set off as names. ``words``: all other words, without plurals.
    """

    question: str = field(compare=False)
    asks: str = ""
    of: str = ""
    aggregates: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    comparisons: tuple[Compared, ...] = ()
    negations: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the parts on one line.

        >>> str(understood("How many books that are not novels have more than 300 pages?"))
        'how many: book; not: novel; more than 300 pages; words: book, novel, page'
        """
        asked = f"{self.asks or 'asks for'}: {self.of}" if self.of else self.asks
        parts = [asked] if asked else []
        parts += [f"calculated: {', '.join(self.aggregates)}"] if self.aggregates else []
        parts += [f"ordered: {', '.join(each.word for each in self.order)}"] if self.order else []
        parts += [f"not: {denied}" for denied in self.negations]
        parts += [
            " ".join(filter(None, (each.operator, each.value, each.unit)))
            for each in self.comparisons
        ]
        parts += [f"each: {group}" for group in self.groups]
        parts += [f"refers back: {', '.join(self.references)}"] if self.references else []
        parts += [f"names: {', '.join(self.names)}"] if self.names else []
        parts += [f"words: {', '.join(self.words)}"] if self.words else []
        return "; ".join(parts)

    def to_dict(self, residual: Sequence[str] = ()) -> dict[str, Any]:
        """Return the parts as a dictionary for JSON.

        ``residual``: words not used for the answer.
        """
        parts = {one.name: getattr(self, one.name) for one in fields(self)}
        parts |= {name: map(asdict, parts[name]) for name in ("order", "comparisons")}
        parts = {name: one if isinstance(one, str) else [*one] for name, one in parts.items()}
        return {"question": self.question, "text": str(self), **parts, "residual": [*residual]}


def understood(question: str) -> Understood:
    """Parse a question in the wording of :func:`canonical`.

    >>> understood("What is the cheapest book by Ann Li?").order[0].dimension
    'price'
    >>> understood("Is it older than 30 years?").asks
    'whether'
    """
    every = tokens(question)
    matches = _matches(every)
    held = {at for match in matches for sign, at in match.held.items() if sign != NUMBER}
    covered = {at for match in matches for at in range(match.start, match.end)} - held
    left = [token for at, token in enumerate(every) if at not in covered]
    content = [token for token in left if _is_content(token)]
    counts = [match for match in matches if match.entry.says.startswith("how many")]
    superlatives = (match.entry for match in matches if match.entry.kind == "superlative")
    return Understood(
        question=question,
        asks="how many" if counts else _asks(every),
        of=stem(content[0].word) if content else "",
        aggregates=tuple(
            match.entry.says
            for match in matches
            if match.entry.kind == "aggregate" and match not in counts
        ),
        order=tuple(Order(one.sign, one.dimension, one.says) for one in superlatives),
        comparisons=tuple(
            _compared(every, match) for match in matches if match.entry.kind == "comparison"
        ),
        negations=tuple(
            _scope(every, match.end) for match in matches if match.entry.kind == "negation"
        ),
        groups=tuple(
            stem(noun.word)
            for each, noun in pairwise(every[2:])
            if each.word in words("groups") and not noun.name
        ),
        references=tuple(
            dict.fromkeys(
                token.word for token in left if token.word in words("references") and not token.name
            )
        ),
        names=_names(question, every),
        words=tuple(dict.fromkeys(stem(token.word) for token in content)),
    )


def _is_content(token: Token) -> bool:
    """Return whether a token is neither a number nor a name, small word or group word."""
    if token.number or token.name:
        return False
    small = token.word == "not" or token.word in words("small")
    return not small and token.word not in words("groups")


def _matches(every: Sequence[Token]) -> list[Match]:
    """Return the longest lexicon matches from left to right, without overlaps or polite phrases."""
    found = []
    at = 0
    while at < len(every):
        match = longest(every, at, said=True)
        if match is None or match.entry.kind == "polite":
            at += 1
            continue
        found.append(match)
        at = match.end
    return found


def _asks(every: Sequence[Token]) -> str:
    """Return the question word at the start, "whether" for a yes-or-no question, "" for none."""
    if every and every[0].word in _WHETHER:
        return "whether"
    said = " ".join(token.word for token in every[:2])
    if said in _ASKS:
        return said
    return next((token.word for token in every[:3] if token.word in _ASKS), "")


def _compared(every: Sequence[Token], match: Match) -> Compared:
    """Return a matched comparison with its value and the unit after it, "" where missing."""
    at = match.held.get(NUMBER, match.end)
    value = every[at].word if at < len(every) else ""
    after = every[at + 1] if at + 1 < len(every) else None
    unit = after.word if after is not None and after.word not in words("small") else ""
    operator = match.entry.says.partition(NUMBER)[0].strip()
    return Compared(operator, value, unit if every[at : at + 1] and every[at].number else "")


def _scope(every: Sequence[Token], start: int) -> str:
    """Return the words that a negation before the token number ``start`` covers.

    Small words are left out. They end at a boundary word, after a verb, or after ``_SCOPE`` tokens.
    """
    said: list[str] = []
    for token in every[start : start + _SCOPE]:
        if token.word in words("boundaries") and not token.name:
            break
        if token.word not in words("small"):
            said.append(token.word if token.name else stem(token.word))
        if said and token.word in words("verbs"):
            break
    return " ".join(said)


def _names(question: str, every: Sequence[Token]) -> tuple[str, ...]:
    """Return the texts of the question that are set off as names, adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for before, token in zip([None, *every], every, strict=False):
        if not token.name:
            continue
        if found and before is not None and before.name and before.end == found[-1][1]:
            found[-1] = found[-1][0], token.end
        else:
            found.append((token.start, token.end))
    return tuple(question[start:end] for start, end in found)
