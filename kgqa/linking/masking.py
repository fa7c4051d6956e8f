"""Replaces the topic entity's name in a question, which leaves what is asked about it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from kgqa.lexicon.vocabulary import FUNCTION
from kgqa.linking.forms import folded
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterable

WEIGHTS = weights("linking")
_WORD = re.compile(r"[^\W_]+")
_LINKS = FUNCTION | {"de", "la", "le", "du", "des", "der", "die", "von", "and", "s"}
_SPELT = 4  # letters of the shortest word that may be spelt otherwise, or be cut short


def without_name(question: str, names: Iterable[str], stand_in: str) -> str:
    """Return ``question`` with ``stand_in`` for the words that name one of ``names``.

    Part of a name suffices, in any case and without accents, with small differences of spelling; of
    several places the one with most of a name's words counts, best the name as it stands. A
    question that names none of them is returned as it is.

    >>> without_name("what's inside the B750 pack?", ["Battery pack B750"], "x")
    "what's inside the x?"
    """
    places = [(match.start(), match.end()) for match in _WORD.finditer(question)]
    words = [folded(question[start:end].casefold()) for start, end in places]
    best: tuple[tuple[float, int], int, int] | None = None
    for name in names:
        whole = [folded(word.casefold()) for word in _WORD.findall(name)]
        content = [word for word in whole if word not in _LINKS] or whole
        as_it_stands = (
            (at, at + len(whole) - 1, list(range(at, at + len(whole))))
            for at in range(len(words) - len(whole) + 1)
            if whole and words[at : at + len(whole)] == whole
        )
        for first, last, hits in chain(as_it_stands, _runs(words, content, set(whole))):
            letters = sum(len(words[at]) for at in hits)
            weight = (len(hits) / len(content), letters)
            if best is None or weight > best[0]:
                best = weight, first, last
    if best is None:
        return question
    _, first, last = best
    return question[: places[first][0]] + stand_in + question[places[last][1] :]


def _runs(
    words: list[str], content: list[str], whole: set[str]
) -> Iterable[tuple[int, int, list[int]]]:
    """Yield (first word, last word, matching words), as indices, of each run that names an entity.

    ``content``: its name's words without small ones; ``whole``: all of them.
    """
    run: list[int] = []
    named: set[str] = set()  # words of the name that the run has
    for at, word in enumerate(words):
        alike = {other for other in content if word not in _LINKS and _same(word, other)}
        if not alike:
            continue
        between = words[run[-1] + 1 : at] if run else []
        near = len(between) <= 1 or all(
            between_word in _LINKS or between_word in whole for between_word in between
        )
        if run and near and not alike <= named:
            run.append(at)
            named |= alike
            continue
        if run:
            yield run[0], run[-1], run
        run, named = [at], alike
    if run:
        yield run[0], run[-1], run


@lru_cache(50_000)
def _same(word: str, other: str) -> bool:
    """Return whether two words are equal, one a prefix of the other, or similarly spelt."""
    if word == other:
        return True
    if min(len(word), len(other)) < _SPELT:
        return False
    if word.startswith(other) or other.startswith(word):
        return True
    return SequenceMatcher(None, word, other, autojunk=False).ratio() > WEIGHTS["masked_alike"]
