"""How well an entity fits a mention: parts in 0..1, weighed into one score in 0..1.

Pure arithmetic, the same over every store. What it does not do: find candidates, or choose topics.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.linking.words import COMMON, FUNCTION

if TYPE_CHECKING:
    from kgqa.linking.mentions import Mention

Match: TypeAlias = Literal["name", "alias", "form", "partial"]

# The name itself; an alias; another form of the mention (plural, abbreviation, demonym); a name
# that only contains the mention ("Hitler" for Adolf Hitler).
MATCH_WEIGHT: dict[Match, float] = {"name": 1.0, "alias": 0.85, "form": 0.75, "partial": 0.6}
_WEIGHTS = {"length": 0.24, "match": 0.30, "popularity": 0.26, "emphasis": 0.05, "context": 0.15}
_POPULAR = 10_000  # edges at which popularity is full
_COMMON = 0.35  # what a lower-case mention of everyday words keeps
_NO_EDGES = 0.5  # what an entity without an edge keeps: no path can start there
_ALIKE = 0.7  # likeness from which two words are spellings of one
_RESPELT = 0.9  # what is left of a match in other capitals, where the question uses them
_SPELT = 4  # letters of the shortest word that may be spelt otherwise
_INSIDE = 0.75  # what a mention inside a longer one of an exact name keeps


@dataclass(frozen=True, slots=True)
class Parts:
    """What a score is made of, each in 0..1; ``factor`` multiplies the weighed sum of the others.

    ``length``: how much the mention says; ``match``: how the name was met; ``popularity``: the
    logarithm of the entity's edges; ``emphasis``: quotes or capitals; ``context``: its neighbour
    is named right after it ("Utica, New York").
    """

    length: float
    match: float
    popularity: float
    emphasis: float
    context: float
    factor: float

    @property
    def score(self) -> float:
        """The weighed sum, in 0..1."""
        total = (
            _WEIGHTS["length"] * self.length
            + _WEIGHTS["match"] * self.match
            + _WEIGHTS["popularity"] * self.popularity
            + _WEIGHTS["emphasis"] * self.emphasis
            + _WEIGHTS["context"] * self.context
        )
        return round(total * self.factor, 6)


def parts_of(
    mention: Mention,
    match: Match,
    degree: int,
    *,
    coverage: float = 1.0,
    inside: bool = False,
    context: bool = False,
    respelt: bool = False,
) -> Parts:
    """Return the parts of the score of an entity with ``degree`` edges for ``mention``.

    ``coverage`` is the share of the name that the mention holds (1 where all of it),
    or how likely another form means it; ``inside`` says that a longer mention around this one is
    an entity's name; ``context`` that an entity named right after it is a neighbour of this one;
    ``respelt`` that the mention's capitals or punctuation are not those of the name.
    """
    factor = 1.0
    if mention.common and not mention.emphasised:
        factor *= _COMMON ** (1.0 / mention.words)
    if degree == 0:
        factor *= _NO_EDGES
    if inside:
        factor *= _INSIDE
    # Function words count a little: "Lord of the Rings" says more than "Lord Rings".
    said = mention.content + 0.5 * (mention.words - mention.content)
    return Parts(
        length=1.0 - 0.5**said,
        match=MATCH_WEIGHT[match] * (0.5 + 0.5 * coverage) * (_RESPELT if respelt else 1.0),
        popularity=popularity(degree),
        emphasis=1.0 if mention.quoted else 0.7 if mention.emphasised else 0.0,
        context=1.0 if context else 0.0,
        factor=factor,
    )


def popularity(degree: int) -> float:
    """Return the logarithm of ``degree`` as a share of that of a very well connected entity."""
    return min(1.0, math.log1p(degree) / math.log1p(_POPULAR))


def folded(form: str) -> str:
    """Return a normalised name without accents on Latin, Greek and Cyrillic letters.

    >>> folded("hugo chávez")
    'hugo chavez'
    """
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
    a little differently, which counts half. A share of 1 means the same words, in any order.

    >>> partial_coverage("hitler", "adolf hitler")
    0.5
    >>> partial_coverage("leif ericson", "leif eriksson")
    0.75
    """
    asked = set(folded(mention).split())
    held = set(folded(name).split())
    if not asked or not held:
        return 0.0
    same = asked & held
    if not same:
        return 0.0
    near = 0
    left = held - same
    for word in sorted(asked - same):
        alike = max(left, key=lambda other: (_likeness(word, other), other), default="")
        if not alike or _likeness(word, alike) < _ALIKE:
            return 0.0
        left.discard(alike)
        near += 1
    return (len(same) + 0.5 * near) / len(held)


def _likeness(word: str, other: str) -> float:
    """Return how alike two words are spelt, in 0..1; an initial is like its word."""
    if len(word) == 1:
        return 1.0 if word[0] == other[0] else 0.0
    if word in COMMON or word in FUNCTION or min(len(word), len(other)) < _SPELT:
        return 0.0
    return SequenceMatcher(None, word, other, autojunk=False).ratio()
