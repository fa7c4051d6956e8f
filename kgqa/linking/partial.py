"""How much of a name a mention holds, where it is not the name as it stands.

Words count whatever their order and accents; initials, nicknames and small differences of spelling
count too. What it does not do: look names up.
"""

from __future__ import annotations

import unicodedata
from difflib import SequenceMatcher
from functools import lru_cache

from kgqa.linking.nicknames import same_person
from kgqa.linking.words import COMMON, FUNCTION

_ALIKE = 0.7  # likeness from which two words are spellings of one
_SPELT = 4  # letters of the shortest word that may be spelt otherwise


def folded(form: str) -> str:
    """Return a normalised name without accents on Latin, Greek and Cyrillic letters.

    >>> folded("hugo chávez")
    'hugo chavez'
    """
    if form.isascii():
        return form
    kept: list[str] = []
    base = ""
    for character in unicodedata.normalize("NFD", form):
        if unicodedata.combining(character):
            if base < "\u0530":  # marks of other scripts are letters of their own
                continue
        else:
            base = character
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def partial_coverage(mention: str, name: str) -> float:
    """Return which share of the words of ``name`` the words of ``mention`` are, 0 if not all are.

    Both are normalised; accents do not count. Beside a word that is the same, others may be spelt
    a little differently, which counts half. A share of 1 means the same words, in any order. Where
    the mention has one word more than the whole name, inside it, the share is the name's of it.

    >>> partial_coverage("hitler", "adolf hitler")
    0.5
    >>> partial_coverage("leif ericson", "leif eriksson")
    0.75
    >>> partial_coverage("barack hussein obama", "barack obama")
    0.6666666666666666
    """
    words = folded(mention).split()
    asked, held = set(words), set(folded(name).split())
    same = asked & held
    if not same:
        return 0.0
    if same == held and len(held) > 1 and len(asked) == len(held) + 1:
        return len(held) / len(asked) if words[0] in held and words[-1] in held else 0.0
    near = 0.0
    left = held - same
    for word in sorted(asked - same):
        alike = max(left, key=lambda other: (_likeness(word, other), other), default="")
        if not alike or _likeness(word, alike) < _ALIKE:
            return 0.0
        left.discard(alike)
        near += 1.0 if same_person(word, alike) else 0.5
    return (len(same) + near) / len(held)


@lru_cache(maxsize=50_000)
def _likeness(word: str, other: str) -> float:
    """Return how alike two words are, in 0..1; an initial is like its word, and a nickname."""
    if len(word) == 1:
        return 1.0 if word[0] == other[0] else 0.0
    if same_person(word, other):
        return 1.0
    if word in COMMON or word in FUNCTION or min(len(word), len(other)) < _SPELT:
        return 0.0
    return SequenceMatcher(None, word, other, autojunk=False).ratio()
