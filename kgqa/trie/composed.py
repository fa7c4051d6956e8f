"""The path language of topic entities, composed on the fly from one-hop tries over the graph.

It accepts the same language as a stored trie of the same rules, and costs what the decoder asks of
it, not what the language holds: relations out of the entities reached, then tails of a relation.
One batch of states costs at most a few store calls, whatever the number of states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    PathTable,
    admissible,
    empty_paths,
    hops_out_of,
    ordered,
)
from kgqa.trie.build import distinct_pairs
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, segment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.lexicon import PathLexicon

_ONWARD = -1  # the column of a path that says whether a walk may leave its last entity


class ComposedConstraint(LazyConstraint):
    """The language of all paths out of ``topics`` under ``rules``, never built as a whole.

    Raises EmptyLanguageError if the topics have no path at all. Not for use by several threads.
    """

    # Paths are rows of integers: the topic, the four columns of each hop, _ONWARD. So the entity
    # that a path of some hops ends in stands in column 4 * hops, the topic's own included.

    def __init__(
        self, store: GraphStore, topics: IntArray, rules: WalkRules, lexicon: PathLexicon
    ) -> None:
        self._store = store
        self._rules = rules
        self._lexicon = lexicon
        self._hops: dict[int, tuple[IntArray, IntArray]] = {}  # out of an entity; kinds of tails
        topics = np.unique(topics)
        self._fetch(topics)
        topics = topics[[len(self._hops[key][0]) > 0 for key in topics.tolist()]]
        if not len(topics):
            raise nothing_to_write("The topic entities have no path")
        rows = np.full((len(topics), 4 * rules.hops + 2), -1, np.int64)
        rows[:, 0] = topics
        rows[:, _ONWARD] = True
        heads = segment_of(0, rows, lexicon.heads(store, topics), np.arange(len(topics)))
        super().__init__([heads], rules.hops, lexicon.closing)

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        ended = self._ended(state)
        if not ended:
            return empty_paths(self._rules.hops)
        rows = np.concatenate(ended)
        hops = self._hops_of(rows)
        return ordered(PathTable(rows[:, 0], (hops[:, :, TAIL] >= 0).sum(axis=1), hops))

    def _hops_of(self, rows: IntArray) -> IntArray:
        return rows[:, 1:_ONWARD].reshape(len(rows), self._rules.hops, 4)

    def _follow(self, ends: Sequence[tuple[Segment, int]]) -> None:
        rows = [segment.of(leaf) for segment, leaf in ends]
        onward = [
            one[one[:, _ONWARD] > 0, 2 * segment.level]
            for (segment, _), one in zip(ends, rows, strict=True)
            if segment.level % 2 == 0
        ]
        if onward:
            self._fetch(np.unique(np.concatenate(onward)))
        tails = [
            one[:, 2 * (segment.level + 1)]
            for (segment, _), one in zip(ends, rows, strict=True)
            if segment.level % 2
        ]
        if tails:
            named, number = np.unique(np.concatenate(tails), return_inverse=True)
            texts = self._lexicon.tails(self._store, named)
        done = 0
        for (segment, leaf), one in zip(ends, rows, strict=True):
            if segment.level % 2 == 0:
                segment.following[leaf] = self._relations(segment.level + 1, one)
                continue
            mine, text_of = np.unique(number[done : done + len(one)], return_inverse=True)
            segment.following[leaf] = segment_of(segment.level + 1, one, texts.take(mine), text_of)
            done += len(one)

    def _fetch(self, keys: IntArray) -> None:
        """Read the hops out of every one of the distinct ``keys`` that has not been left yet."""
        new = np.array([key for key in keys.tolist() if key not in self._hops], np.int64)
        if not len(new):
            return
        hops = hops_out_of(self._store, new, self._rules)
        offsets = hops.offsets(len(new)).tolist()
        for number, key in enumerate(new.tolist()):
            part = slice(offsets[number], offsets[number + 1])
            self._hops[key] = (hops.hop[part], hops.kind[part].astype(np.int64))

    def _relations(self, level: int, rows: IntArray) -> Segment:
        """Return the relations that may follow ``rows``, the paths extended by a hop each."""
        depth = level // 2
        rows = rows[rows[:, _ONWARD] > 0]
        out = [self._hops[key] for key in rows[:, 4 * depth].tolist()]
        added = np.concatenate([np.empty((0, 4), np.int64), *(hops for hops, _ in out)])
        kind = np.concatenate([np.empty(0, np.int64), *(kinds for _, kinds in out)])
        rows = np.repeat(rows, [len(kinds) for _, kinds in out], axis=0)
        good = admissible(rows[:, 0], self._hops_of(rows), depth, added)
        rows, added = rows[good], added[good]
        rows[:, 4 * depth + 1 : 4 * depth + 5] = added
        rows[:, _ONWARD] = kind[good] != Kind.VALUE
        pairs, pair_of = distinct_pairs(added[:, FIRST], added[:, SECOND])
        return segment_of(level, rows, self._lexicon.relations(self._store, pairs), pair_of)
