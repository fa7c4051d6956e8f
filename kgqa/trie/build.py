"""From id paths to token sequences: parts tokenised once, joined by array operations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import FIRST, SECOND, TAIL, ranges
from kgqa.trie.arrays import Sequences

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import PathTable
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class PathParts:
    """What the sequences of a path table are joined from.

    The parts are the table's heads, its relation texts (each a distinct pair of first and second
    step), its tails, each ascending, and the closing token. ``number`` has shape
    ``[paths, 2 * hops + 2]``: the parts of each path in order, -1 beyond its end.
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
class JoinedSequences(Sequences):
    """Sequences with the parts they are joined from: their ids one after another, their lengths."""

    part_tokens: IntArray
    part_lengths: IntArray


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


def join_parts(parts: PathParts, tokens: IntArray, lengths: IntArray) -> JoinedSequences:
    """Return the sequence of each path, given the ids of all parts and how many each part has."""
    starts = np.cumsum(lengths) - lengths
    used = parts.number >= 0
    total = np.where(used, lengths[parts.number], 0).sum(axis=1)
    order = parts.number[used]
    joined = tokens[ranges(starts[order], lengths[order])]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(total)])
    return JoinedSequences(joined, offsets, tokens, lengths)


def path_tokens(store: GraphStore, table: PathTable, lexicon: PathLexicon) -> JoinedSequences:
    """Return the token sequence of each path of ``table``, from opening to closing token."""
    if not len(table):
        none = np.empty(0, np.int64)
        return JoinedSequences(none, np.zeros(1, np.int64), none, none)
    parts = path_parts(table)
    names = store.relations().names
    labels = [lexicon.form.relation(first, second, names) for first, second in parts.pairs.tolist()]
    ids = [
        *lexicon.heads(names_of(store, parts.heads)),
        *lexicon.relations(labels),
        *lexicon.tails(names_of(store, parts.tails)),
        (lexicon.closing,),
    ]
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    return join_parts(parts, np.fromiter(chain.from_iterable(ids), np.int64), lengths)


def names_of(store: GraphStore, keys: IntArray) -> list[str]:
    """Return the name of each key as it stands in a path: the id where there is no name."""
    entities = store.entities(keys)
    return [name or id_ for name, id_ in zip(entities.names, entities.ids, strict=True)]
