"""Token sequences as flat arrays, and their trie in breadth-first order: the form to decode from.

Node 0 is the root. ``token[n]`` leads to node n; its children are the nodes ``first_child[n] …
first_child[n + 1] - 1``, by token; ``leaf[n]`` is the sequence that ends there, or -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.paths.walk import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray

_SPARSE = 16  # times as many numbers are possible as there are: beyond, sorting is faster
_MARKED = 1 << 25  # numbers that are marked at most, each by nine bytes
_COMPARED = 1 << 16  # sequences that are compared with others at a time
_PADDED = 1 << 26  # tokens that are sorted as rows of one length; more would fill the memory


def offsets_of(lengths: IntArray) -> IntArray:
    """Return the cumulative offsets of runs with the given lengths, 0 first and the total last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def dense(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct ``numbers``, ascending, and each number's index among them.

    ``numbers`` must not be negative.
    """
    # while the numbers are not far apart, counting is faster than sorting
    most = int(numbers.max(initial=-1)) + 1
    if most > min(_MARKED, _SPARSE * len(numbers) + 4_096):
        distinct, number = np.unique(numbers, return_inverse=True)
        return distinct, number
    met = np.zeros(most, bool)
    met[numbers] = True
    distinct = np.flatnonzero(met)
    number = np.empty(most, np.int64)
    number[distinct] = np.arange(len(distinct))
    return distinct, number[numbers]


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

    @property
    def lengths(self) -> IntArray:
        """The number of tokens of each sequence."""
        return np.diff(self.offsets)

    def take(self, rows: IntArray) -> Sequences:
        """Return the sequences at ``rows``, in that order."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return Sequences(self.tokens[ranges(starts, lengths)], offsets_of(lengths))

    def after(self, count: int) -> Sequences:
        """Return each sequence without its first ``count`` tokens."""
        lengths = self.lengths - count
        tokens = self.tokens[ranges(self.offsets[:-1] + count, lengths)]
        return Sequences(tokens, offsets_of(lengths))

    def shared_prefix(self, first: IntArray, other: IntArray) -> IntArray:
        """Return the length of the common prefix of sequences ``first[i]`` and ``other[i]``."""
        places = np.empty(len(first), np.int64)
        for start in range(0, len(first), _COMPARED):  # in pieces that stay in the caches
            part = slice(start, start + _COMPARED)
            places[part] = self._shared(first[part], other[part])
        return places

    def _shared(self, one: IntArray, other: IntArray) -> IntArray:
        """Return the common prefix lengths of sequences ``one[i]`` and ``other[i]``, at once."""
        shorter = np.minimum(
            *(self.offsets[rows + 1] - self.offsets[rows] for rows in (one, other))
        )
        at = ranges(self.offsets[one], shorter)
        shift = np.repeat(self.offsets[other] - self.offsets[one], shorter)
        differs = np.flatnonzero(self.tokens[at] != self.tokens[at + shift])
        starts = offsets_of(shorter)[:-1]
        first = np.append(differs, len(at))[np.searchsorted(differs, starts)]
        same: IntArray = np.minimum(first - starts, shorter)
        return same


def sequences(rows: Sequence[Sequence[int]]) -> Sequences:
    """Convert Python lists of token ids to joined arrays."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    tokens = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return Sequences(tokens, offsets_of(lengths))


def joined(several: Sequence[Sequences]) -> Sequences:
    """Concatenate several sets of sequences into one."""
    lengths = np.concatenate([part.lengths for part in several])
    return Sequences(np.concatenate([part.tokens for part in several]), offsets_of(lengths))


class Groups:
    """Row numbers by group: ``group[i]``, one of ``0 … count - 1``, is the group of row i."""

    def __init__(self, group: IntArray, count: int) -> None:
        self.order = np.argsort(group, kind="stable")
        self.offsets = offsets_of(np.bincount(group, minlength=count))

    def rows(self, group: int) -> IntArray:
        """Return the rows of ``group``."""
        return self.order[self.offsets[group] : self.offsets[group + 1]]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Distinct sequences sorted by tokens, front-coded; a prefix comes before its continuations.

    ``lengths``: tokens of each; ``shared``: tokens in common with the sequence before; ``own``: all
    other tokens, joined. ``number``: for each input sequence the distinct one that it equals.
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
    """Return the distinct sequences sorted by tokens, with the fastest sort that fits them."""
    rows = _padded(all_of)
    keys = (
        _bytes(all_of) if rows is None else rows.view(f"S{rows.itemsize * rows.shape[1]}").ravel()
    )
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    shared = np.zeros(len(first), np.int64)
    if rows is None:
        shared[1:] = all_of.shared_prefix(first[:-1], first[1:])
    else:  # where they differ first: no two rows are the same
        sorted_ = rows[first]
        shared[1:] = (sorted_[1:] != sorted_[:-1]).argmax(axis=1)
    lengths = all_of.lengths[first]
    own = all_of.tokens[ranges(all_of.offsets[first] + shared, lengths - shared)]
    return Ordered(lengths, shared, own, number)


# As bytes, big-endian and plus one (0 sorts first), sequences compare as their tokens do.


def _big_endian(tokens: IntArray) -> NDArray[Any]:
    """Return ``tokens + 1`` as big-endian integers, whose bytes sort as the numbers do."""
    most = int(tokens.max(initial=0)) + 1
    return (tokens + 1).astype(">u2" if most < 1 << 16 else ">u4" if most < 1 << 32 else ">u8")


def _padded(all_of: Sequences) -> NDArray[Any] | None:
    """Return the sequences as rows of one length, zero-padded; None if they would be too large."""
    lengths = all_of.lengths
    longest = max(1, int(lengths.max(initial=0)))
    if len(all_of) * longest > _PADDED:
        return None
    tokens = _big_endian(all_of.tokens)
    rows = np.zeros((len(all_of), longest), tokens.dtype)
    rows[np.arange(longest) < lengths[:, None]] = tokens
    return rows


def _bytes(all_of: Sequences) -> NDArray[Any]:
    """Return each sequence as a Python ``bytes`` object that sorts as its tokens do."""
    tokens = _big_endian(all_of.tokens)
    data, ends = tokens.tobytes(), (tokens.itemsize * all_of.offsets).tolist()
    return np.array([data[start:stop] for start, stop in pairwise(ends)], object)


@dataclass(frozen=True, slots=True)
class TokenTrie:
    """A trie as arrays in breadth-first order.

    ``token`` and ``leaf`` (a sequence's number, or -1) have the shape ``[nodes]``, ``first_child``
    ``[nodes + 1]``.
    """

    token: IntArray
    first_child: IntArray
    leaf: IntArray

    @property
    def nodes(self) -> int:
        """The number of nodes, the root included."""
        return len(self.token)

    def children(self, node: int) -> tuple[IntArray, int]:
        """Return the tokens of the children of ``node`` and the number of its first child."""
        first = int(self.first_child[node])
        return self.token[first : int(self.first_child[node + 1])], first


def build_trie(ordered: Ordered) -> TokenTrie:
    """Build the trie of sorted sequences; leaves hold the sequences' numbers."""
    # a sequence (row) opens a node for each of its own tokens
    shared, nodes = ordered.shared, len(ordered.own)
    counts = ordered.lengths - shared
    # breadth first, so that a node's children are one slice: an expansion is then two look-ups
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
    token = np.full(nodes + 1, -1, np.int64)
    token[1:] = ordered.own[by_depth]
    leaf = np.full(nodes + 1, -1, np.int64)
    leaf[place[first + counts[rows] - 1]] = rows
    if len(ordered) and ordered.lengths[0] == 0:
        leaf[0] = 0
    return TokenTrie(token, 1 + offsets_of(np.bincount(parent, minlength=nodes + 1)), leaf)
