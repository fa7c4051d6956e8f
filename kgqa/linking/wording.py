"""Puts a question into canonical wording, but keeps the words and names of a KG.

What is the KG's own: the words of its classes, relations and properties (of a KG with very many
relations none: those have nearly every word), and names that wordings are part of.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise
from kgqa.graph.schema import PropertyGraph
from kgqa.paths.words import relation_phrase
from kgqa.understanding.canonical import Canonical, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.store import GraphStore

_MOST = 1_000  # names of a schema whose words are taken as the graph's


def worded(store: GraphStore, question: str) -> Canonical:
    """Return ``question`` in canonical wording, except names and schema words of ``store``."""

    def names(texts: Sequence[str]) -> Iterable[str]:
        """Return the texts that are names in the graph."""
        forms = [normalise(text) for text in texts]
        positions, _ = store.find_names(forms)
        return {texts[position] for position in positions.tolist()}

    return canonical(question, own=own_words(store), names=names)


def own_words(store: GraphStore) -> frozenset[str]:
    """Return the words of a KG's classes, relations and properties, and their plurals.

    Empty for a KG with very many of them.
    """
    names = tuple(islice(chain(store.relations().names, _schema_names(store)), _MOST + 1))
    return _words_of(names) if len(names) <= _MOST else frozenset()


def _schema_names(store: GraphStore) -> Iterator[str]:
    """Yield the names of the KG's classes and properties, and synonyms of its relations' too."""
    if isinstance(store, PropertyGraph):
        schema = store.schema()
        for type_ in schema.types:
            yield from (type_.name, *type_.also)
            for property_ in type_.properties:
                yield from (property_.name, *property_.also)
        for pattern in schema.relations:
            yield from (*pattern.also, *(property_.name for property_ in pattern.properties))


@lru_cache(maxsize=16)
def _words_of(names: tuple[str, ...]) -> frozenset[str]:
    """Return the words of names, with plurals."""
    words = {word for name in names for word in relation_phrase(name).split()}
    return frozenset(words | {f"{word}s" for word in words if word[-1:].isalpha()})
