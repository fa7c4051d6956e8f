"""Canonical wording: a question with each wording replaced by the standard one.

"The most affordable book" is read as "the cheapest book", "books apart from novels" as "books that
are not novels". What is a name, a quotation, or a word of the graph itself stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.lexicon.english import words as lexicon
from kgqa.lexicon.entries import ANY, CONTRACTED, NUMBER, OWN, Match, longest
from kgqa.lexicon.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from kgqa.lexicon.tokens import Token

_NEAR = 3  # words beside a wording that may belong to a name with it
_GAP = re.compile(r"[\s‐-―-]*")
_MOST_PASSES = 3  # a polite form may hide how a question begins, a contraction a "not longer"


@dataclass(frozen=True, slots=True)
class Canonical:
    """A question in canonical wording, and the replacements made."""

    text: str
    question: str
    changes: tuple[tuple[str, str], ...] = ()


def canonical(
    question: str,
    *,
    own: Container[str] = (),
    names: Callable[[list[str]], Iterable[str]] | None = None,
) -> Canonical:
    """Return ``question`` in the canonical wording, which all readers use.

    ``own``: words of the graph's classes, relations and properties, which are kept. ``names``:
    returns which of some texts are names in the graph; wordings inside names are kept.

    >>> canonical("Please count all books").text
    'How many books'
    >>> canonical("The most affordable book apart from novels").text
    'The cheapest book that are not novels'
    >>> canonical("books thicker than 300 pages", own={"pages"}).text
    'books more than 300 pages'
    """
    changes: list[tuple[str, str]] = []
    text = question
    for _ in range(_MOST_PASSES):
        text, made = _once(text, own, names)
        changes += made
        if not made:
            break
    return Canonical(text, question, tuple(changes))


def _once(
    question: str, own: Container[str], names: Callable[[list[str]], Iterable[str]] | None
) -> tuple[str, list[tuple[str, str]]]:
    """Replace the longest lexicon wordings from left to right once; return text and replacements.

    A replacement is (words of the question, new words). Wordings that are ``own`` words or inside
    ``names`` are kept, see :func:`canonical`.
    """
    words = tokens(question)
    found: list[Match] = []
    at = 0

    def joined(place: int) -> bool:
        """Return whether only a space or a hyphen separates a token from the one before."""
        return bool(_GAP.fullmatch(question, words[place - 1].end, words[place].start))

    while at < len(words):
        match = longest(words, at, own.__contains__, joined)
        if match is not None and _is_own(words, match, own):
            match = None
        if match is None and _is_contracted(words, at, joined):
            match = Match(CONTRACTED, at, at + 2, {OWN: at})
        if match is None:
            at += 1
            continue
        found.append(match)
        at = match.end
    if names is not None and found:
        found = _outside_names(question, words, found, names)
    changes = []
    text = question
    for match in reversed(found):
        start, end = words[match.start].start, words[match.end - 1].end
        says = match.entry.says
        for sign in (NUMBER, OWN, ANY):
            if sign in match.held:
                token = words[match.held[sign]]
                said = question[token.start : token.end]
                whole = token.word if match.entry is CONTRACTED else said  # "wo" is "will"
                says = says.replace(sign, whole if said[0].islower() else whole.capitalize())
        if says.lower() == question[start:end].lower():
            continue
        changes.append((question[start:end], says))
        text = _replaced(text, start, end, says)
    return text, changes[::-1]


def _replaced(text: str, start: int, end: int, says: str) -> str:
    """Return ``text`` with the span ``start:end`` replaced by ``says``, or removed if that is "".

    The sentence keeps its capital letter and final mark.
    """
    before, after = text[:start], text[end:]
    if not says:
        before, after = before.rstrip(" ,"), after.lstrip(" ,")
        joint = " " if before and after and after[0] not in "?.!" else ""
        text = f"{before}{joint}{after}"
        return text if before else text[:1].upper() + text[1:]
    if not before.strip() and text[start].isupper():
        says = says[0].upper() + says[1:]
    return f"{before}{says}{after}"


def _is_own(words: list[Token], match: Match, own: Container[str]) -> bool:
    """Return whether a match is one word, and that a word of the graph's schema (``own``)."""
    return match.end - match.start == 1 and words[match.start].word in own


def _is_contracted(words: list[Token], at: int, joined: Callable[[int], bool]) -> bool:
    """Return whether the token ``at`` and its "n't" may be written out: "does not".

    Not for the first word, as in "isn't Bonn …", nor before a pronoun, as in "… wasn't he".
    """
    if not (0 < at < len(words) - 1 and words[at + 1].contracted and joined(at)):
        return False
    return at + 2 == len(words) or words[at + 2].word not in lexicon("references")


def _outside_names(
    question: str,
    words: list[Token],
    found: list[Match],
    names: Callable[[list[str]], Iterable[str]],
) -> list[Match]:
    """Return the matches of ``found`` that are not inside a name of the graph.

    ``names``: returns which of some texts are names.
    """
    texts: dict[str, set[int]] = {}
    for number, match in enumerate(found):
        for first in range(max(0, match.start - _NEAR), match.start + 1):
            for last in range(match.end, min(len(words), match.end + _NEAR) + 1):
                text = question[words[first].start : words[last - 1].end]
                texts.setdefault(text, set()).add(number)
    inside = {number for text in names([*texts]) for number in texts[text]}
    return [match for number, match in enumerate(found) if number not in inside]
