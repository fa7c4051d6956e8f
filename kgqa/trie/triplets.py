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

from kgqa.paths.triplets import as_paths, joined_rows
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, Segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.triplets import Triplets
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import PathLexicon


class TripletLanguage(Segments):
    """Triplets of one graph as tokens: what is known of an entity is shared by all constraints.

    ``triplets``: the graph to walk in, all of it in ``store``. Not for use by several threads.
    """

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._triplets = triplets
        self._around: dict[int, Segment | None] = {}  # heads of the triplets that touch an entity

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of all triplets that touch one of ``visited`` (entity keys).

        Raises EmptyLanguageError if there is none, GraphError if the store fails.
        """
        keys = np.unique(np.array(list(visited), np.int64))
        self._read(np.array([key for key in keys.tolist() if key not in self._around], np.int64))
        heads = [found for key in keys.tolist() if (found := self._around[key]) is not None]
        if not heads:
            raise nothing_to_write("No triplet touches the entities")
        return TripletConstraint(self, heads, 1)

    def _read(self, keys: IntArray) -> None:
        if not len(keys):
            return
        found = self._triplets.around(keys)
        heads = [rows[:, 0] for rows in found if len(rows)]
        if heads:  # into the lexicon's memory, from where each segment takes its own
            self._lexicon.heads(self._store, np.unique(np.concatenate(heads)))
        for key, rows in zip(keys.tolist(), found, strict=True):
            self._around[key] = self.heads(rows) if len(rows) else None


class TripletConstraint(LazyConstraint):
    """The language of one step of a chain. A :class:`kgqa.trie.constraint.Constraint`."""

    def ground(self, state: int) -> PathTable:
        """Return every triplet that the text of the end ``state`` stands for, as a path, sorted."""
        return as_paths(joined_rows(self._ended(state)))
