"""The path language of topic entities, composed on the fly from one-hop tries over the graph.

It accepts what a stored trie of the same rules does, at the cost of what the decoder asks of it: a
few store calls for each batch of states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import TAIL, PathTable, admissible, empty_paths, hops_out_of, ordered
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segments

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon

_ONWARD = -1  # the last column of a path: whether a walk may leave the entity it ends in


class ComposedConstraint(LazyConstraint):
    """All paths out of ``topics`` under ``rules``, for one thread. Raises EmptyLanguageError."""

    def __init__(
        self, store: GraphStore, topics: IntArray, rules: WalkRules, lexicon: PathLexicon
    ) -> None:
        self._hops = rules.hops
        walks = _Walks(store, rules, lexicon)
        topics = walks.with_hops(np.unique(topics))
        if not len(topics):
            raise nothing_to_write("The topic entities have no path")
        rows = np.full((len(topics), 4 * rules.hops + 2), -1, np.int64)
        rows[:, 0] = topics
        rows[:, _ONWARD] = True
        super().__init__(walks, [walks.heads(rows)], rules.hops)

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        ended = self._ended(state)
        if not ended:
            return empty_paths(self._hops)
        rows = np.concatenate(ended)
        hops = _hops_of(rows)
        return ordered(PathTable(rows[:, 0], (hops[:, :, TAIL] >= 0).sum(axis=1), hops))


def _hops_of(rows: IntArray) -> IntArray:
    return rows[:, 1:_ONWARD].reshape(len(rows), rows.shape[1] // 4, 4)


class _Walks(Segments):
    """Segments of walks; the hops out of an entity are read once."""

    def __init__(self, store: GraphStore, rules: WalkRules, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._rules = rules
        self._out: dict[int, tuple[IntArray, IntArray]] = {}  # hops, and the kinds of their tails

    def with_hops(self, keys: IntArray) -> IntArray:
        """Return those of the distinct ``keys`` that a walk can leave."""
        self._read(keys)
        return keys[[len(self._out[key][0]) > 0 for key in keys.tolist()]]

    def _read(self, keys: IntArray) -> None:
        new = np.array([key for key in keys.tolist() if key not in self._out], np.int64)
        if not len(new):
            return
        hops = hops_out_of(self._store, new, self._rules)
        offsets = hops.offsets(len(new)).tolist()
        for number, key in enumerate(new.tolist()):
            part = slice(offsets[number], offsets[number + 1])
            self._out[key] = (hops.hop[part], hops.kind[part].astype(np.int64))

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        paths = [(depth, rows[rows[:, _ONWARD] > 0]) for depth, rows in paths]
        self._read(np.unique(np.concatenate([rows[:, 4 * depth] for depth, rows in paths])))
        return [self._one_more(depth, rows) for depth, rows in paths]

    def _one_more(self, depth: int, rows: IntArray) -> IntArray:
        out = [self._out[key] for key in rows[:, 4 * depth].tolist()]
        added = np.concatenate([np.empty((0, 4), np.int64), *(hops for hops, _ in out)])
        kind = np.concatenate([np.empty(0, np.int64), *(kinds for _, kinds in out)])
        rows = np.repeat(rows, [len(kinds) for _, kinds in out], axis=0)
        good = admissible(rows[:, 0], _hops_of(rows), depth, added)
        rows = rows[good]
        rows[:, 4 * depth + 1 : 4 * depth + 5] = added[good]
        rows[:, _ONWARD] = kind[good] != Kind.VALUE
        return rows
