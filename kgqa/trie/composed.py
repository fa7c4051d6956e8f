"""Path languages that are composed on the fly: from the graph, as the decoder reaches it.

That of walks accepts what a stored trie of the same rules does; that of triplets is Decoding on
Graphs' (arXiv 2410.18415).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.triplets import Triplets, as_paths, joined_rows
from kgqa.paths.walk import (
    TAIL,
    PathTable,
    WalkRules,
    admissible,
    empty_paths,
    hops_out_of,
    ordered,
)
from kgqa.trie.arrays import dense
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, Segments, segment_of
from kgqa.trie.stored import distinct_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.trie.lexicon import PathLexicon


_MANY = 1_024  # names of which only the first words are tokenised until one of those is written


class _GraphSegments(Segments):
    """The segments of paths in one graph; names and hops of many paths are read in few calls.

    A row is a path: the topic's key, then four columns for each hop.
    """

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self._store = store
        self._lexicon = lexicon
        self.closing = lexicon.closing

    def heads(self, several: list[IntArray]) -> list[Segment]:
        """Return the head segment of each array of rows; all names are read together."""
        return self._named([(0, rows) for rows in several], begun=False)

    def follow(self, ends: Iterable[tuple[Segment, int]]) -> None:
        """Set in ``following`` the next segments of each (segment, leaf), reading all at once."""
        named: dict[tuple[bool, bool], list[tuple[Segment, int]]] = {}
        relations: list[tuple[Segment, int]] = []
        for segment, leaf in ends:
            if segment.begun or segment.level % 2:
                named.setdefault((segment.begun, segment.level == 0), []).append((segment, leaf))
            else:
                relations.append((segment, leaf))
        if relations:
            paths = [(segment.level // 2, segment.of(leaf)) for segment, leaf in relations]
            for (segment, leaf), rows in zip(relations, self._extended(paths), strict=True):
                level = segment.level + 1
                pairs, text_of = distinct_pairs(rows[:, 2 * level - 1], rows[:, 2 * level + 1])
                texts = self._lexicon.relations(self._store, pairs)
                segment.following[leaf] = segment_of(level, rows, texts, text_of)
        for (begun, _), some in named.items():
            paths = [(segment.level + (not begun), segment.of(leaf)) for segment, leaf in some]
            for (segment, leaf), names in zip(some, self._named(paths, begun=begun), strict=True):
                segment.following[leaf] = names

    def _named(self, paths: list[tuple[int, IntArray]], *, begun: bool) -> list[Segment]:
        """Return, for each (level, rows), the segment of the names of the entities at that level.

        Either all are heads or none. Of many names only the first word is tokenised at first;
        ``begun``: tokenise the rest after it.
        """
        columns = [rows[:, 2 * level] for level, rows in paths]
        keys, number = dense(np.concatenate(columns))
        heads, lexicon = paths[0][0] == 0, self._lexicon
        words = not begun and len(keys) > _MANY and lexicon.encoder.splits_at_spaces
        if words:
            texts, word = lexicon.first_words(self._store, keys, heads=heads)
            number = word[number]
        else:
            texts = (lexicon.heads if heads else lexicon.tails)(self._store, keys)
        split = np.split(number, np.cumsum([len(column) for column in columns[:-1]]))
        moves = []
        for (level, rows), column, of in zip(paths, columns, split, strict=True):
            mine, text_of = dense(of)
            of_mine = texts if len(mine) == len(texts) else texts.take(mine)
            if begun:
                word_, _ = lexicon.first_words(self._store, column[:1], heads=heads)
                of_mine = of_mine.after(len(word_.tokens))
            moves.append(segment_of(level, rows, of_mine, text_of, begun=words))
        return moves

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        """Return, for each (depth, rows), the rows extended by the next hop.

        This class reads whole paths at once and returns them unchanged; subclasses extend them.
        """
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
        super().__init__(walks, walks.heads([rows]), rules.hops)

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of ``state`` stands for; none unless it is an end."""
        ended = self._ended(state)
        if not ended:
            return empty_paths(self._hops)
        rows = np.concatenate(ended)
        hops = _hops_of(rows)
        return ordered(PathTable(rows[:, 0], (hops[:, :, TAIL] >= 0).sum(axis=1), hops))


def _hops_of(rows: IntArray) -> IntArray:
    """Return the hops of rows as ``[paths, hops, 4]``; see :class:`_GraphSegments` for rows."""
    return rows[:, 1:_ONWARD].reshape(len(rows), rows.shape[1] // 4, 4)


class _Walks(_GraphSegments):
    """Segments of walks through the graph; the hops out of each entity are read once."""

    def __init__(self, store: GraphStore, rules: WalkRules, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._rules = rules
        self._out: dict[int, tuple[IntArray, IntArray]] = {}  # hops, and the kinds of their tails

    def with_hops(self, keys: IntArray) -> IntArray:
        """Return those of ``keys`` that have a hop; reads the hops of new ones."""
        self._read(keys)
        return keys[[len(self._out[key][0]) > 0 for key in keys.tolist()]]

    def _read(self, keys: IntArray) -> None:
        """Read the hops out of ``keys`` that are not known yet."""
        new = np.array([key for key in keys.tolist() if key not in self._out], np.int64)
        if not len(new):
            return
        hops = hops_out_of(self._store, new, self._rules)
        offsets = hops.offsets(len(new)).tolist()
        for number, key in enumerate(new.tolist()):
            part = slice(offsets[number], offsets[number + 1])
            self._out[key] = (hops.hop[part], hops.kind[part].astype(np.int64))

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        """Return, for each (depth, rows), the rows extended by every admissible next hop.

        Rows that end in a value are dropped.
        """
        paths = [(depth, rows[rows[:, _ONWARD] > 0]) for depth, rows in paths]
        self._read(np.unique(np.concatenate([rows[:, 4 * depth] for depth, rows in paths])))
        return [self._next_hops(depth, rows) for depth, rows in paths]

    def _next_hops(self, depth: int, rows: IntArray) -> IntArray:
        """Return the ``rows`` of walks of ``depth`` hops, each extended by every admissible hop.

        A row that no hop extends is dropped.
        """
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
    """The triplets of one graph as tokens, shared by the constraints of a chain; for one thread."""

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._triplets = triplets
        self._around: dict[int, Segment | None] = {}  # heads of the triplets that touch an entity

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of triplets that touch ``visited``. Raises EmptyLanguageError."""
        keys = np.unique(np.array(list(visited), np.int64))
        self._read(np.array([key for key in keys.tolist() if key not in self._around], np.int64))
        heads = [around for key in keys.tolist() if (around := self._around[key]) is not None]
        if not heads:
            raise nothing_to_write("No triplet touches the entities")
        return TripletConstraint(self, heads, 1)

    def _read(self, keys: IntArray) -> None:
        """Read the triplets around ``keys``, tokenise their heads, and remember both."""
        if not len(keys):
            return
        triplets = dict(zip(keys.tolist(), self._triplets.around(keys), strict=True))
        self._around |= dict.fromkeys(triplets)
        there = {key: rows for key, rows in triplets.items() if len(rows)}
        if there:
            self._around |= zip(there, self.heads(list(there.values())), strict=True)


class TripletConstraint(LazyConstraint):
    """The triplets of which a chain may write one next.

    A :class:`kgqa.trie.constraint.Constraint`.
    """

    def ground(self, state: int) -> PathTable:
        """Return every triplet that the text of the end ``state`` stands for, as a path, sorted."""
        return as_paths(joined_rows(self._ended(state)))
