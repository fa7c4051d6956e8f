"""From id paths to token sequences: parts tokenised once, joined by array operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import FIRST, SECOND, TAIL
from kgqa.trie.arrays import Sequences, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class PathParts:
    """What the sequences of a path table are joined from.

    The parts are the table's heads, its relation texts (each a distinct pair of first and second
    step), its tails, each ascending, and the closing token. ``number`` has shape
    ``[paths, 2 * hops + 2]``: the parts of each path in order, -1 beyond its end, the closing token
    in the last column.
    """

    heads: IntArray
    pairs: IntArray  # [n, 2]
    tails: IntArray
    number: IntArray

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.heads) + len(self.pairs) + len(self.tails) + 1


@dataclass(frozen=True, slots=True)
class JoinedSequences:
    """The sequences of paths as the parts they are joined from; ``number`` as in PathParts."""

    number: IntArray
    parts: Sequences

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, path: int) -> list[int]:
        number = self.number[path]
        ids: list[int] = self.parts.take(number[number >= 0]).tokens.tolist()
        return ids

    def take(self, rows: IntArray) -> JoinedSequences:
        """Return some of the sequences, in the order of ``rows``."""
        return JoinedSequences(self.number[rows], self.parts)

    def joined(self) -> Sequences:
        """Return the sequences, put together."""
        lengths = np.diff(self.parts.offsets)
        used = self.number >= 0
        total = np.where(used, lengths[self.number], 0).sum(axis=1)
        tokens = self.parts.take(self.number[used]).tokens
        return Sequences(tokens, np.concatenate([np.zeros(1, np.int64), np.cumsum(total)]))


def path_parts(table: PathTable) -> PathParts:
    """Return the parts of the paths of ``table``."""
    heads, head_of = np.unique(table.topic, return_inverse=True)
    there = table.hops[:, :, TAIL] >= 0
    first, second = table.hops[:, :, FIRST][there], table.hops[:, :, SECOND][there]
    wide = int(second.max(initial=-1)) + 2
    pairs, pair_of = np.unique(first * wide + second + 1, return_inverse=True)
    tails, tail_of = np.unique(table.hops[:, :, TAIL][there], return_inverse=True)
    paths, hops = there.shape
    number = np.full((paths, 2 * hops + 2), -1, np.int64)
    number[:, 0] = head_of.reshape(-1)
    number[:, 1:-1:2][there] = len(heads) + pair_of.reshape(-1)
    number[:, 2:-1:2][there] = len(heads) + len(pairs) + tail_of.reshape(-1)
    number[:, -1] = len(heads) + len(pairs) + len(tails)
    return PathParts(heads, np.stack([pairs // wide, pairs % wide - 1], axis=1), tails, number)


def path_tokens(store: GraphStore, table: PathTable, lexicon: PathLexicon) -> JoinedSequences:
    """Return the token sequence of each path of ``table``, from opening to closing token."""
    parts = path_parts(table)
    ids = joined(
        [
            lexicon.heads(store, parts.heads),
            lexicon.relations(store, parts.pairs),
            lexicon.tails(store, parts.tails),
            Sequences(np.array([lexicon.closing]), np.array([0, 1])),
        ]
    )
    return JoinedSequences(parts.number, ids)


def all_joined(several: Sequence[JoinedSequences]) -> JoinedSequences:
    """Return the sequences of several path tables as one; the tables may differ in hops."""
    if len(several) == 1:
        return several[0]
    width = max(one.number.shape[1] for one in several)
    numbers, before = [], 0
    for one in several:
        number = np.full((len(one), width), -1, np.int64)
        number[:, : one.number.shape[1] - 1] = one.number[:, :-1]
        number[:, -1] = one.number[:, -1]
        number[number >= 0] += before
        numbers.append(number)
        before += len(one.parts)
    return JoinedSequences(np.concatenate(numbers), joined([one.parts for one in several]))
