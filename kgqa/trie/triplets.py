"""The triplets that may be written next: those that touch an entity visited before.

Decoding on Graphs (DoG, arXiv 2410.18415) writes one triplet at a time and may take any that
touches an entity of the question or of the triplets before it, at either end. *One entity's* part
of that language depends on nothing else, so it is composed once, when the entity is first visited,
and kept: heads (the entity itself and all that point to it), then the relations of a head, then the
tails of a relation. The language of several visited entities is the union of theirs, so a step of a
chain adds a few tries, and nothing is made again or cut, however large a hub is.

Entities that share a name stay distinct: a text stands for every triplet that it may mean, and
:meth:`TripletConstraint.ground` returns them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.triplets import END, as_paths, joined_rows
from kgqa.trie.build import distinct_pairs
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.triplets import Triplets
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import PathLexicon

_HEADS, _RELATIONS, _TAILS = range(3)  # the levels of a triplet's segments


class TripletLanguage:
    """Triplets of one graph as tokens: what is known of an entity is shared by all constraints.

    ``triplets``: the graph to walk in, all of it in ``store``. Not for use by several threads.
    """

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        self._store = store
        self._triplets = triplets
        self._lexicon = lexicon
        self._heads: dict[int, Segment | None] = {}  # of the triplets that touch an entity

    @property
    def closing(self) -> int:
        """The token that ends a triplet."""
        return self._lexicon.closing

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of all triplets that touch one of ``visited`` (entity keys).

        Raises EmptyLanguageError if there is none, GraphError if the store fails.
        """
        keys = np.unique(np.array(list(visited), np.int64))
        self._read(np.array([key for key in keys.tolist() if key not in self._heads], np.int64))
        heads = [found for key in keys.tolist() if (found := self._heads[key]) is not None]
        if not heads:
            raise nothing_to_write("No triplet touches the entities")
        return TripletConstraint(self, heads)

    def follow(self, ends: Sequence[tuple[Segment, int]]) -> None:
        """Make what follows a leaf of each segment; names are read for all in one call."""
        rows = [segment.of(leaf) for segment, leaf in ends]
        tails = [
            one[:, END]
            for (segment, _), one in zip(ends, rows, strict=True)
            if segment.level == _RELATIONS
        ]
        if tails:  # into the lexicon's memory, from where each segment takes its own
            self._lexicon.tails(self._store, np.unique(np.concatenate(tails)))
        for (segment, leaf), one in zip(ends, rows, strict=True):
            segment.following[leaf] = self._segment(segment.level + 1, one)

    def _read(self, keys: IntArray) -> None:
        if not len(keys):
            return
        found = self._triplets.around(keys)
        heads = [rows[:, 0] for rows in found if len(rows)]
        if heads:
            self._lexicon.heads(self._store, np.unique(np.concatenate(heads)))
        for key, rows in zip(keys.tolist(), found, strict=True):
            self._heads[key] = self._segment(_HEADS, rows) if len(rows) else None

    def _segment(self, level: int, rows: IntArray) -> Segment:
        """Return the segment over the texts that ``rows`` have at ``level``."""
        if level == _RELATIONS:
            pairs, text_of = distinct_pairs(rows[:, 1], rows[:, 3])
            texts = self._lexicon.relations(self._store, pairs)
        else:
            lexicon = self._lexicon
            keys, text_of = np.unique(rows[:, 0 if level == _HEADS else END], return_inverse=True)
            texts = (lexicon.heads if level == _HEADS else lexicon.tails)(self._store, keys)
        return segment_of(level, rows, texts, text_of)


class TripletConstraint(LazyConstraint):
    """The language of one step of a chain. A :class:`kgqa.trie.constraint.Constraint`."""

    def __init__(self, language: TripletLanguage, heads: Iterable[Segment]) -> None:
        super().__init__(heads, 1, language.closing)
        self._language = language

    def ground(self, state: int) -> PathTable:
        """Return every triplet that the text of the end ``state`` stands for, as a path, sorted."""
        return as_paths(joined_rows(self._ended(state)))

    def _follow(self, ends: Sequence[tuple[Segment, int]]) -> None:
        self._language.follow(ends)
