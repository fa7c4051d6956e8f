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


def unique_sequences(all_of: Sequences) -> tuple[Sequences, IntArray]:
    """Return the distinct sequences in token order, and for each given one its number there."""
    wide = all_of.matrix()
    if not wide.size:
        kept = min(len(all_of), 1)
        return Sequences(all_of.tokens, np.zeros(kept + 1, np.int64)), np.zeros(
            len(all_of), np.int64
        )
    # big-endian rows compare as bytes in token order
    view = np.ascontiguousarray(wide.astype(">u4")).view(f"V{wide.shape[1] * 4}").ravel()
    _, first, number = np.unique(view, return_index=True, return_inverse=True)
    lengths = np.diff(all_of.offsets)[first]
    tokens = all_of.tokens[ranges(all_of.offsets[first], lengths)]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sequences(tokens, offsets), number.reshape(-1)


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


def build_trie(ordered: Sequences) -> TokenTrie:
    """Return the trie of distinct sequences that stand in token order."""
    wide = ordered.matrix()
    lengths = np.diff(ordered.offsets)
    rows = len(ordered)
    leaf_of_root = np.full(1, -1, np.int64)
    if rows and lengths[0] == 0:
        leaf_of_root[0] = 0
    # a row opens a new node at every depth from where it first differs from the row above
    shared = np.zeros(rows, np.int64)
    if rows > 1 and wide.size:
        same = wide[1:] == wide[:-1]
        shared[1:] = np.where(same.all(axis=1), wide.shape[1], same.argmin(axis=1))
    tokens, leaves, counts = [np.full(1, -1, np.int64)], [leaf_of_root], []
    above = np.zeros(min(rows, 1), np.int64)  # the rows that opened the nodes one level up
    for depth in range(wide.shape[1]):
        opened = np.flatnonzero((shared <= depth) & (depth < lengths))
        parent = np.searchsorted(above, opened, side="right") - 1
        counts.append(np.bincount(parent, minlength=max(len(above), 1)))
        tokens.append(wide[opened, depth].astype(np.int64) - 1)
        leaves.append(np.where(lengths[opened] == depth + 1, opened, -1))
        above = opened
    counts.append(np.zeros(max(len(above), 1), np.int64))
    children = np.concatenate(counts).astype(np.int64)
    token = np.concatenate(tokens)
    first = 1 + np.concatenate([np.zeros(1, np.int64), np.cumsum(children[: len(token)])])
    return TokenTrie(token, first, np.concatenate(leaves))
