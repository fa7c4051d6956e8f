"""Path languages that are composed on the fly: from the graph, as the decoder reaches it.

That of walks accepts what a stored trie of the same rules does; that of triplets is Decoding on
Graphs' (arXiv 2410.18415).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.triplets import as_paths, joined_rows
from kgqa.paths.walk import TAIL, PathTable, admissible, empty_paths, hops_out_of, ordered
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, Segments, segment_of
from kgqa.trie.stored import distinct_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.triplets import Triplets
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon


class _GraphSegments(Segments):
    """Segments of paths in one graph, the names and hops of many in few calls.

    Their rows: topic key, then four columns a hop.
    """

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self._store = store
        self._lexicon = lexicon
        self.closing = lexicon.closing

    def heads(self, rows: IntArray) -> Segment:
        """Return the segment of the heads of ``rows``."""
        keys, text_of = np.unique(rows[:, 0], return_inverse=True)
        return segment_of(0, rows, self._lexicon.heads(self._store, keys), text_of)

    def follow(self, ends: Iterable[tuple[Segment, int]]) -> None:
        """Put into ``following`` what may follow each leaf of a segment, for all together."""
        names: list[tuple[Segment, int, IntArray]] = []
        relations: list[tuple[Segment, int, IntArray]] = []
        for segment, leaf in ends:
            (relations if segment.level % 2 else names).append((segment, leaf, segment.of(leaf)))
        if names:
            extended = self._extended([(segment.level // 2, rows) for segment, _, rows in names])
            for (segment, leaf, _), rows in zip(names, extended, strict=True):
                level = segment.level + 1
                pairs, text_of = distinct_pairs(rows[:, 2 * level - 1], rows[:, 2 * level + 1])
                texts = self._lexicon.relations(self._store, pairs)
                segment.following[leaf] = segment_of(level, rows, texts, text_of)
        if relations:
            tails = [rows[:, 2 * segment.level + 2] for segment, _, rows in relations]
            keys, number = np.unique(np.concatenate(tails), return_inverse=True)
            texts = self._lexicon.tails(self._store, keys)
            split = np.split(number, np.cumsum([len(one) for one in tails[:-1]]))
            for (segment, leaf, rows), of in zip(relations, split, strict=True):
                mine, text_of = np.unique(of, return_inverse=True)
                of_mine = texts if len(mine) == len(keys) else texts.take(mine)
                following = segment_of(segment.level + 1, rows, of_mine, text_of)
                segment.following[leaf] = following

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        return [rows for _, rows in paths]


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


class _Walks(_GraphSegments):
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
        if not good.all():
            rows, added, kind = rows[good], added[good], kind[good]
        rows[:, 4 * depth + 1 : 4 * depth + 5] = added
        rows[:, _ONWARD] = kind != Kind.VALUE
        return rows


class TripletLanguage(_GraphSegments):
    """Triplets of one graph as tokens, shared by all its constraints; for one thread."""

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._triplets = triplets
        self._around: dict[int, Segment | None] = {}  # heads of the triplets that touch an entity

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of triplets that touch ``visited``. Raises EmptyLanguageError."""
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
