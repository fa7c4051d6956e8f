"""Aligns the words of a question with the names used for its answer.

Plain strings: the names of entities, classes, relations and properties as somebody else found them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kgqa.lexicon.lemmas import stem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.understanding.question import Understood

_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAME = 4  # letters that two words of one root begin with, at least
_ROOT = 0.6  # share of the longer one that they have in common, at least


def residual(question: Understood, names: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a question that none of ``names`` has, nor another word of their root.

    >>> from kgqa.understanding.question import understood
    >>> residual(understood("Which authors published poems?"), ["Author", "publisher"])
    ('poem',)
    """
    known = {stem(word) for name in names for word in _words(name)}
    return tuple(
        word
        for word in question.words
        if word not in known and not any(_same_root(word, other) for other in known)
    )


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
