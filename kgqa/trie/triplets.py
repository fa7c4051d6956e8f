"""The triplets that may be written next: those that touch an entity visited before.

As in Decoding on Graphs (DoG, arXiv 2410.18415). One entity's part of the language is composed when
it is first visited, and kept: heads, then relations, then tails; the language is the union of all
visited ones'. A text stands for every triplet that it may mean.
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
    """Triplets of one graph as tokens, shared by all its constraints; for one thread."""

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._triplets = triplets
        self._around: dict[int, Segment | None] = {}  # heads of the triplets that touch an entity

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of triplets that touch ``visited`` (keys).

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
