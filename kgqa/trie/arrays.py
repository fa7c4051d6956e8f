"""A trie of token sequences as arrays in breadth-first order: the form to decode from.

Node 0 is the root. ``token[n]`` leads to node n; the children of n are the nodes
``first_child[n] … first_child[n + 1] - 1``, ascending by token; ``leaf[n]`` is the number of the
sequence that ends in n, or -1. A sequence may be the prefix of another.

What this does not do: know what a sequence means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray


@dataclass(frozen=True, slots=True)
class Sequences:
    """Token sequences of different lengths: ``tokens`` joined, ``offsets`` of shape ``[n + 1]``."""

    tokens: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> list[int]:
        ids: list[int] = self.tokens[self.offsets[number] : self.offsets[number + 1]].tolist()
        return ids

    def take(self, rows: IntArray) -> Sequences:
        """Return some of the sequences, in the order of ``rows``."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return Sequences(self.tokens[ranges(self.offsets[:-1][rows], lengths)], offsets)

    def matrix(self) -> NDArray[np.uint32]:
        """Return ``[n, longest]`` ids plus one, 0 beyond the end, so that prefixes sort first."""
        lengths = np.diff(self.offsets)
        wide = np.zeros((len(self), int(lengths.max(initial=0))), np.uint32)
        rows = np.repeat(np.arange(len(self)), lengths)
        columns = ranges(np.zeros(len(self), np.int64), lengths)
        wide[rows, columns] = self.tokens + 1
        return wide


def sequences(rows: Sequence[Sequence[int]]) -> Sequences:
    """Return Python lists of token ids as joined arrays."""
    lengths = np.array([len(row) for row in rows], np.int64)
    tokens = np.fromiter((token for row in rows for token in row), np.int64, int(lengths.sum()))
    return Sequences(tokens, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def joined(several: Sequence[Sequences]) -> Sequences:
    """Return the sequences of ``several``, one after another."""
    lengths = np.concatenate([np.diff(one.offsets) for one in several])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sequences(np.concatenate([one.tokens for one in several]), offsets)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Distinct sequences in token order, a prefix before what it begins.

    ``lengths`` and ``shared``, of shape ``[distinct]``: how many tokens each has, and how many of
    the first it has in common with the one above it. ``own``: the tokens beyond those, joined.
    ``number`` says for each given sequence which of the distinct ones it is.
    """

    lengths: IntArray
    shared: IntArray
    own: IntArray
    number: IntArray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nodes(self) -> int:
        """The number of nodes of their trie, the root included."""
        return 1 + len(self.own)


def in_order(all_of: Sequences) -> Ordered:
    """Return the distinct sequences in token order, whatever they are made of."""
    wide = all_of.matrix()
    if not wide.size:
        none, number = np.zeros(min(len(all_of), 1), np.int64), np.zeros(len(all_of), np.int64)
        return Ordered(none, none, all_of.tokens, number)
    # big-endian rows compare as bytes in token order
    view = np.ascontiguousarray(wide.astype(">u4")).view(f"V{wide.shape[1] * 4}").ravel()
    _, first, number = np.unique(view, return_index=True, return_inverse=True)
    shared = np.zeros(len(first), np.int64)
    shared[1:] = (wide[first[1:]] != wide[first[:-1]]).argmax(axis=1)
    lengths = np.diff(all_of.offsets)[first]
    own = all_of.tokens[ranges(all_of.offsets[first] + shared, lengths - shared)]
    return Ordered(lengths, shared, own, number.reshape(-1))


@dataclass(frozen=True, slots=True)
class TokenTrie:
    """The arrays: ``token`` and ``leaf`` of shape ``[nodes]``, ``first_child`` ``[nodes + 1]``."""

    token: IntArray
    first_child: IntArray
    leaf: IntArray

    @property
    def nodes(self) -> int:
        """The number of nodes, the root included."""
        return len(self.token)

    def children(self, node: int) -> tuple[IntArray, int]:
        """Return the tokens out of ``node`` and the first of the nodes they lead to, in order."""
        first = int(self.first_child[node])
        return self.token[first : int(self.first_child[node + 1])], first


def build_trie(ordered: Ordered) -> TokenTrie:
    """Return the trie of the sequences, whose numbers its leaves have."""
    # a sequence (row) opens a node for each of its own tokens
    shared, nodes = ordered.shared, len(ordered.own)
    counts = ordered.lengths - shared
    depth = ranges(shared, counts)
    levels = np.bincount(depth)
    narrow = np.min_scalar_type(len(levels))  # numbers of few bits are sorted by counting
    by_depth = np.argsort(depth.astype(narrow), kind="stable")
    place = np.empty(nodes, np.int64)  # of each opened node among all, breadth first
    place[by_depth] = np.arange(1, nodes + 1)
    # its parent is the node that the row opened just before; a row's first node has the last one
    # that a row above opened one level up
    parent = np.zeros(nodes, np.int64)
    parent[1:] = place[:-1]
    rows = np.flatnonzero(counts)
    first = (np.cumsum(counts) - counts)[rows]
    opened = np.repeat(np.arange(len(levels)) * nodes, levels) + by_depth
    parent[first] = np.searchsorted(opened, (shared[rows] - 1) * nodes + first)  # 0: the root
    children = np.bincount(parent, minlength=nodes + 1)
    token = np.full(nodes + 1, -1, np.int64)
    token[1:] = ordered.own[by_depth]
    leaf = np.full(nodes + 1, -1, np.int64)
    leaf[place[first + counts[rows] - 1]] = rows
    if len(ordered) and ordered.lengths[0] == 0:
        leaf[0] = 0
    first_child = 1 + np.concatenate([np.zeros(1, np.int64), np.cumsum(children)])
    return TokenTrie(token, first_child, leaf)
