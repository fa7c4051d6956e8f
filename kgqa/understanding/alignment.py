"""Aligns the words of a question with the names used for its answer.

Plain strings: the names of entities, classes, relations and properties as somebody else found them.
A word has one owner, the name that it says best.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.lexicon.lemmas import stem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.understanding.question import Understood

How: TypeAlias = Literal["exact", "derived"]

_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAME = 4  # letters that two words of one root begin with, at least
_ROOT = 0.6  # share of the longer one that they have in common, at least


@dataclass(frozen=True, slots=True)
class Owner:
    """The ``name`` that a question's ``word`` mentions, equal to it or of the same root."""

    word: str
    name: str
    how: How


@dataclass(frozen=True, slots=True)
class Alignment:
    """The name of each aligned word of a question, and the residual words without a name."""

    owners: tuple[Owner, ...]
    residual: tuple[str, ...]


def align(question: Understood, names: Iterable[str]) -> Alignment:
    """Align each word of a question with the first of ``names`` that it mentions.

    An equal word of a name comes before one of the same root; words without a name are
    ``residual``.

    >>> from kgqa.understanding.question import understood
    >>> align(understood("Which authors published poems?"), ["Author", "publisher"]).residual
    ('poem',)
    """
    parts = [(name, {stem(word) for word in _words(name)}) for name in dict.fromkeys(names)]
    owners: list[Owner] = []
    residual: list[str] = []
    for word in question.words:
        exact = next((name for name, words in parts if word in words), None)
        derived = next(
            (
                name
                for name, words in parts
                if any(_same_root(word, name_word) for name_word in words)
            ),
            None,
        )
        if exact is not None:
            owners.append(Owner(word, exact, "exact"))
        elif derived is not None:
            owners.append(Owner(word, derived, "derived"))
        else:
            residual.append(word)
    return Alignment(tuple(owners), tuple(residual))


def _words(name: str) -> list[str]:
    """Return the lower-case words of a name, also those of camel case."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name))]


def _same_root(word: str, other: str) -> bool:
    """Return whether two words share most of their first letters.

    >>> _same_root("published", "publisher"), _same_root("country", "court")
    (True, False)
    """
    shared = max(_SAME, math.ceil(_ROOT * max(len(word), len(other))))
    return min(len(word), len(other)) >= shared and word[:shared] == other[:shared]
