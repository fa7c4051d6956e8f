"""Decoding straight on the marisa tries of stored paths: only what the decoder reaches is read.

A marisa trie lists the keys under a prefix, but not what follows it. Where a prefix has few keys,
they are listed; where it has more, each byte that may follow is tried.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import PathTable, joined_tables, ordered
from kgqa.trie.arrays import joined, sequences
from kgqa.trie.constraint import nothing_to_write
from kgqa.trie.lazy import LazyConstraint, Segment, Segments, segment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.trie.index.shard import StoredTrie

LARGE = 5_000  # paths from which on this is faster than arrays; see docs/tries.md
_FEW = 512  # keys that are listed before bytes are tried
_PAD = bytes(3)  # so that a code that is cut off is read as another one, and refused


class MarisaConstraint(LazyConstraint):
    """All paths of stored ``tries``, read lazily; for one thread.

    Raises EmptyLanguageError; malformed data raises ShardDamagedError when it is reached.
    """

    def __init__(self, tries: Sequence[StoredTrie], hops: int, closing: int) -> None:
        tries = [trie for trie in tries if trie.paths]
        if not tries:
            raise nothing_to_write("The topic entities have no path")
        self._rows = _Rows(tries, hops, closing)
        self._paths = sum(trie.paths for trie in tries)
        super().__init__(self._rows, [self._rows.heads()], hops)

    @property
    def paths(self) -> int:
        """The number of id paths."""
        return self._paths

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        return self._rows.table(self._ended(state))


class _Rows(Segments):
    """Segments of stored paths.

    A row is a path: the trie's number, the relation just begun or -1, then its hops.
    """

    def __init__(self, tries: Sequence[StoredTrie], hops: int, closing: int) -> None:
        self.closing = closing
        self._tries = tries
        self._hops = hops

    def heads(self) -> Segment:
        """Return the segment of the head entities' names."""
        rows = np.full((len(self._tries), 2 + self._hops), -1, np.int64)
        rows[:, 0] = np.arange(len(rows))
        return segment_of(0, rows, joined([trie.head() for trie in self._tries]), rows[:, 0])

    def follow(self, ends: Iterable[tuple[Segment, int]]) -> None:
        """Set in ``following`` the segments that may follow each leaf of a segment."""
        for segment, leaf in ends:
            rows, level = segment.of(leaf), segment.level
            keys = self._keys(rows)
            column = 1 if level % 2 == 0 else 2 + level // 2
            below = [
                _relations(trie, key)
                if column == 1
                else _hops(trie, key, begun, last=level // 2 == self._hops - 1)
                for trie, key, begun in zip(self._of(rows), keys, rows[:, 1].tolist(), strict=True)
            ]
            rows = np.repeat(rows, np.array(list(map(len, below)), np.int64), axis=0)
            rows[:, 1] = -1
            rows[:, column] = [number for numbers in below for number in numbers]
            segment.following[leaf] = self._segment(level + 1, rows, column)

    def ended(self, segment: Segment, leaf: int) -> IntArray:
        """Return the rows whose text is that of ``leaf`` and which are whole stored paths."""
        rows = segment.of(leaf)
        keys = zip(self._of(rows), self._keys(rows), strict=True)
        return rows[[key in trie.trie for trie, key in keys]]

    def table(self, ended: Sequence[IntArray]) -> PathTable:
        """Return the id paths of rows as one ordered table."""
        rows = np.concatenate([np.empty((0, 2 + self._hops), np.int64), *ended])
        tables = []
        for number, trie in enumerate(self._tries):
            hops = rows[rows[:, 0] == number, 2:]
            tables.append(trie.shard.table_of(hops, trie.key))
        return ordered(joined_tables(tables))

    def _of(self, rows: IntArray) -> list[StoredTrie]:
        """Return the stored trie of each row."""
        return [self._tries[number] for number in rows[:, 0].tolist()]

    def _keys(self, rows: IntArray) -> list[bytes]:
        """Return the marisa key of each of ``rows``, with the code of a relation just begun."""
        return [
            _key(trie, begun, hops)
            for trie, (_, begun, *hops) in zip(self._of(rows), rows.tolist(), strict=True)
        ]

    def _segment(self, level: int, rows: IntArray, column: int) -> Segment:
        """Return the segment of ``rows`` by the texts of the relation or hop in ``column``."""
        distinct, text_of = np.unique(rows[:, [0, column]], axis=0, return_inverse=True)
        texts = []
        for number in np.unique(distinct[:, 0]).tolist():
            shard = self._tries[number].shard
            mine, known = distinct[distinct[:, 0] == number, 1], shard.dictionary
            text = (
                known.relation_text[mine] if column == 1 else known.tail_text[known.hop_tail[mine]]
            )
            texts.append(shard.texts(text.tolist()))
        all_of = joined(texts) if texts else sequences([])
        return segment_of(level, rows, all_of, text_of.reshape(-1))


def _key(trie: StoredTrie, begun: int, hops: Sequence[int]) -> bytes:
    """Return the marisa key of ``hops``, then of the relation ``begun`` unless that is -1.

    ``hops``: numbers of hops, -1 for none.
    """
    known = trie.shard.dictionary
    path = b"".join(known.hop(hop) for hop in hops if hop >= 0)
    return trie.prefix + path + (known.code(begun) if begun >= 0 else b"")


def _relations(trie: StoredTrie, key: bytes) -> list[int]:
    """Return the relations, ascending, by which stored paths continue ``key``; [] at an end.

    Raises ShardDamagedError.
    """
    with trie.shard.checked():
        known = trie.shard.dictionary
        relations = {
            known.relation_at(longer + _PAD, len(key))[0]
            for longer in _longer_keys(trie, key, known.code_length)
        }
        if relations and max(relations) >= len(known.first):
            raise ValueError("a path has a relation that is not there")
        return sorted(relations)


def _hops(trie: StoredTrie, key: bytes, relation: int, *, last: bool) -> list[int]:
    """Return the hops by ``relation`` with which stored paths continue ``key``, ascending.

    ``last``: the hop is the last one that a path may have, so that few keys are longer.
    """
    with trie.shard.checked():
        known, at = trie.shard.dictionary, len(key)
        width, start = int(known.width[relation]), int(known.starts[relation])
        keys = _longer_keys(trie, key, lambda _: width, every=last)
        ranks = {int.from_bytes(longer[at : at + width], "big") for longer in keys}
        short = any(len(longer) < at + width for longer in keys)
        if short or not ranks or max(ranks) >= int(known.starts[relation + 1]) - start:
            raise ValueError("a path has a hop that is not there")
        return [start + rank for rank in sorted(ranks)]


def _longer_keys(
    trie: StoredTrie, key: bytes, length: Callable[[int], int], *, every: bool = False
) -> list[bytes]:
    """Return keys that begin with ``key`` and are longer, at least one for each continuation.

    ``length`` gives the number of bytes of a continuation by its first byte; ``every``: all keys.
    """
    below = trie.trie.iterkeys(key)
    keys = list(below if every else islice(below, _FEW))
    if every or len(keys) < _FEW:
        return [longer for longer in keys if len(longer) > len(key)]
    keys, waiting = [], [key]
    while waiting:
        prefix = waiting.pop()
        for byte in range(256):
            longer = prefix + bytes([byte])
            first = next(trie.trie.iterkeys(longer), None)
            if first is None:
                continue
            if len(longer) - len(key) < length(longer[len(key)]):
                waiting.append(longer)
            else:
                keys.append(first)
    return keys
