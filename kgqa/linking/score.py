"""The score of an entity for a mention: features in 0..1, weighted and summed.

A score is the sum of its features' points (not below 0, nor above 1), and so explains itself. The
weights are fitted on questions with known topic entities (``docs/internals.md`` says how).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from kgqa.linking.mentions import Mention

Match: TypeAlias = Literal["name", "alias", "form", "partial"]

# The name itself; an alias; another form of the mention (plural, abbreviation, demonym); a name
# that only contains the mention ("Hitler" for Adolf Hitler).
MATCH_WEIGHT: dict[Match, float] = {"name": 1.0, "alias": 0.85, "form": 0.75, "partial": 0.6}
WEIGHTS: dict[str, float] = {
    "length": 0.33,
    "match": 0.17,
    "spelling": 0.025,
    "popularity": 0.085,
    "best_known": 0.115,
    "emphasis": 0.115,
    "beside": 0.14,
    "type": 0.075,
    "everyday": -0.36,
    "inside": -0.30,
    "no_edges": -0.25,
}
_POPULAR = 10_000  # edges at which popularity is full


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a candidate's score, each in 0..1.

    ``length``: how specific the mention is. ``match``: by which kind of name, and how much of it.
    ``spelling``: the question spells the name exactly as the KG does. ``popularity``: the logarithm
    of the entity's edges; ``best_known``: the same relative to the candidate with most edges for
    the same words. ``emphasis``: quotes or capitals. ``beside``: a related entity is named directly
    after it ("Utica, New York"): 1 if the two are neighbours in the KG. ``type``: how many words of
    the question its relations' names have ("film", "born"), relative to other candidates.

    Negative features: ``everyday``, a lower-case mention of everyday words; ``inside``, a longer
    mention around this one is an entity, too; ``no_edges``, no path can start there.
    """

    length: float
    match: float
    spelling: float
    popularity: float
    best_known: float
    emphasis: float
    beside: float
    type: float
    everyday: float
    inside: float
    no_edges: float

    def values(self) -> dict[str, float]:
        """Return the value of each feature by name."""
        return {field.name: round(getattr(self, field.name), 4) for field in fields(self)}

    def points(self) -> dict[str, float]:
        """Return each feature's weighted contribution to the score."""
        return {
            field.name: round(WEIGHTS[field.name] * getattr(self, field.name), 4) + 0.0  # no -0.0
            for field in fields(self)
        }

    @property
    def score(self) -> float:
        """The sum of the contributions, clipped to 0..1."""
        total = math.fsum(WEIGHTS[field.name] * getattr(self, field.name) for field in fields(self))
        return round(min(1.0, max(0.0, total)), 6)


def features_of(
    mention: Mention,
    match: Match,
    degree: int,
    *,
    coverage: float = 1.0,
    best_known: float = 1.0,
    inside: float = 0.0,
    beside: float = 0.0,
    type_fit: float = 0.0,
    spelling: float = 0.0,
) -> Features:
    """Return the features of an entity with ``degree`` edges for ``mention``.

    ``coverage``: the fraction of the name that the mention has (1: all of it), or the likelihood of
    a variant; the others are as in :class:`Features`.
    """
    everyday = mention.common and not mention.emphasised
    # Function words count a little: "Lord of the Rings" says more than "Lord Rings".
    said = mention.content + 0.5 * (mention.words - mention.content)
    return Features(
        length=1.0 - 0.5**said,
        match=MATCH_WEIGHT[match] * (coverage if match == "form" else 0.5 + 0.5 * coverage),
        spelling=spelling,
        popularity=popularity(degree),
        best_known=best_known,
        emphasis=1.0 if mention.quoted else 0.7 if mention.emphasised else 0.0,
        beside=beside,
        type=type_fit,
        everyday=(1.0 if everyday else 0.4 if mention.common and not mention.quoted else 0.0)
        / mention.words,
        inside=inside,
        no_edges=0.0 if degree else 1.0,
    )


def popularity(degree: int) -> float:
    """Return log ``degree`` relative to that of a very well connected entity."""
    return min(1.0, math.log1p(degree) / math.log1p(_POPULAR))
