"""Linking features from candidates' edges: related mentions, and matching relation names.

Neighbours are read in one call, of the likeliest candidates, up to a number of edges in all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.graph.schema import PropertyGraph
from kgqa.lexicon.english import english
from kgqa.lexicon.vocabulary import FUNCTION, SYNONYMS
from kgqa.paths.words import relation_phrase
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.linking.lookup import Hit
    from kgqa.linking.mentions import QuestionWords

WEIGHTS = weights("linking")
_MOST_EDGES = 12_000  # edges that are read for a question
_MOST_OF_ONE = 3_000  # edges of an entity that is read
_MOST_READ = 48  # entities that are read
MOST_CLASSES = 100  # of a KG whose classes' words are separated from names
_MOST_RELATIONS = 1_000  # of a KG whose relations' words are separated from names
_GAP = re.compile(r",?\s+")
_ENDINGS = (
    "ings", "ing", "ions", "ion", "ors", "ers", "or", "er", "ies", "ed", "es", "s", "e", "y",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NeighbourhoodFeatures:
    """Edge features: ``beside`` in 0..1 by (key, start of mention), relation ``stems`` by key."""

    beside: Mapping[tuple[int, int], float] = field(default_factory=dict)
    stems: Mapping[int, frozenset[str]] = field(default_factory=dict)


def look_around(
    store: GraphStore,
    question: QuestionWords,
    hits: Sequence[tuple[int, Hit]],
    degrees: Mapping[int, int],
    likely: Sequence[int],
) -> NeighbourhoodFeatures:
    """Read the edges of ``hits``' entities, within limits, and return features from them.

    ``degrees``: numbers of edges by key; ``likely``: keys, the likeliest first. Hubs are not read,
    and have no ``stems``.
    """
    pairs = _pairs(question.text, hits)
    firsts = dict.fromkeys(key for key, _, _ in pairs)
    edges = 0
    chosen: list[int] = []
    for key in dict.fromkeys([*firsts, *likely]):
        if len(chosen) == _MOST_READ or edges + degrees[key] > _MOST_EDGES:
            break
        if degrees[key] <= _MOST_OF_ONE:
            chosen.append(key)
            edges += degrees[key]
    alone = WEIGHTS["only_beside"]
    if not chosen:
        return NeighbourhoodFeatures({(key, start): alone for key, start, _ in pairs})
    keys = keys_array(sorted(chosen))
    neighbours = store.neighbours(keys, "both")
    touching = set(zip(keys[neighbours.row].tolist(), neighbours.target.tolist(), strict=True))
    beside = {
        (key, start): 1.0 if any((key, other) in touching for other in after) else alone
        for key, start, after in pairs
    }
    return NeighbourhoodFeatures(beside, _stems(store, keys, neighbours.row, neighbours.step))


@lru_cache(65_536)
def stems_of(words: str) -> frozenset[str]:
    """Return the stems of the content words in ``words`` (normalised), synonyms unified.

    >>> sorted(stems_of("what movies were directed by the director"))
    ['direct', 'film']
    """
    return frozenset(_stem(word) for word in words.split() if word not in FUNCTION)


def schema_words(store: GraphStore, question: QuestionWords) -> frozenset[str]:
    """Return the normalised words of ``question`` that are in names of the KG's relations.

    Empty for a KG with many relations, whose names have nearly every word.
    """
    names = store.relations().names
    if len(names) > _MOST_RELATIONS:
        return frozenset()
    stems = _stems_of_all(tuple(names))
    return frozenset(word.form for word in question.words if stems_of(word.form) & stems)


@lru_cache(16)
def _stems_of_all(names: tuple[str, ...]) -> frozenset[str]:
    """Return the stems of all words of relation names."""
    return frozenset().union(*(stems_of(relation_phrase(name)) for name in names))


def class_words(store: GraphStore) -> frozenset[str]:
    """Return the stems of one-word class names; empty for a KG with many classes.

    With them "orders" does not match an entity named "Order 11077".
    """
    if not isinstance(store, PropertyGraph):
        return frozenset()
    types = store.schema().types
    if len(types) > MOST_CLASSES:
        return frozenset()
    stems = (
        stems_of(relation_phrase(text)) for type_ in types for text in (type_.name, *type_.also)
    )
    return frozenset().union(*(each for each in stems if len(each) == 1))


def property_words(store: GraphStore) -> set[frozenset[str]]:
    """Return the stems of each property name of the KG's classes; empty for many classes.

    Raises GraphError.
    """
    if not isinstance(store, PropertyGraph):
        return set()
    types = store.schema().types
    if len(types) > MOST_CLASSES:
        return set()
    return name_stems(
        text
        for type_ in types
        for property_ in type_.properties
        if property_.name not in type_.names
        for text in (property_.name, *property_.also)
    )


def name_stems(names: Iterable[str]) -> set[frozenset[str]]:
    """Return the set of stems of each name; names without content words are dropped.

    >>> name_stems(["BigRiver", ""]) == {stems_of("big rivers")}
    True
    """
    return {stems_of(relation_phrase(name)) for name in names} - {frozenset()}


def stems_outside(
    question: QuestionWords, spans: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], frozenset[str]]:
    """Return for each span (start, end) the stems of the question's words outside it."""
    words = [(word.start, word.end, stems_of(word.form)) for word in question.words]
    return {
        (start, end): frozenset().union(
            *(stems for first, last, stems in words if last <= start or end <= first)
        )
        for start, end in spans
    }


def _pairs(question: str, hits: Sequence[tuple[int, Hit]]) -> list[tuple[int, int, set[int]]]:
    """Return (key, start, keys named directly after it) for entities that another one follows.

    Partial matches and everyday words are left out.
    """
    sure = [
        (key, hit.mention) for key, hit in hits if hit.match != "partial" and not hit.mention.common
    ]
    at: dict[int, set[int]] = {}
    for key, mention in sure:
        at.setdefault(mention.start, set()).add(key)
    after: dict[tuple[int, int], set[int]] = {}
    for key, mention in sure:
        gap = _GAP.match(question, mention.end)
        if gap and (following := at.get(gap.end(), set()) - {key}):
            after.setdefault((key, mention.start), set()).update(following)
    return [(key, start, following) for (key, start), following in after.items()]


def _stems(
    store: GraphStore, keys: IntArray, rows: IntArray, steps: IntArray
) -> dict[int, frozenset[str]]:
    """Return the stems of the names of each entity's relations, by key.

    ``rows``: of edges, into ``keys``; ``steps``: of edges (2 * relation, + 1 reversed).
    """
    names = store.relations().names
    pairs = np.unique(rows * len(names) + steps // 2)  # as numbers they are sorted faster
    by_key: dict[int, set[str]] = {key: set() for key in keys.tolist()}
    for pair in pairs.tolist():
        row, relation = divmod(pair, len(names))
        by_key[int(keys[row])] |= _stems_of_relation(names[relation])
    return {key: frozenset(stems) for key, stems in by_key.items()}


@lru_cache(maxsize=100_000)
def _stems_of_relation(name: str) -> frozenset[str]:
    """Return the stems of a relation's name."""
    return stems_of(f"{normalise(name)} {relation_phrase(name)}")


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """Return a word's stem, after replacing synonyms and plurals."""
    word = SYNONYMS.get(word, word)
    word = english()["plurals"].get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
