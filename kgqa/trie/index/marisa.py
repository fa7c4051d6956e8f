"""Marisa tries of bytes, and the proof that one may be opened.

marisa follows what a trie's bytes say and looks at no bounds, so forged ones could end the process.
All that it would follow is therefore computed anew: where the bits are, the tree, the links into
the tails, the cache. What passes is a trie of distinct keys as marisa itself makes it of one level
and in label order. (The format is that of marisa-trie 0.2 and 0.3: LOUDS with rank and select.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import marisa_trie
import numpy as np

from kgqa.trie.arrays import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray

MAGIC = b"We love Marisa.\0"  # how a marisa trie begins
_EVERY = 512  # bits between those whose place or count is kept
_UNUSED = (1 << 32) - 1  # in the cache
_NO_LINK = (1 << 24) - 1


def trie_of(keys: Sequence[bytes]) -> marisa_trie.BinaryTrie:
    """Return the trie of distinct keys; of other settings none measured smaller."""
    return marisa_trie.BinaryTrie(
        keys, num_tries=1, order=marisa_trie.LABEL_ORDER, cache_size=marisa_trie.TINY_CACHE
    )


def opened(data: bytes, longest: int) -> marisa_trie.BinaryTrie:
    """Return the trie in ``data``. Raises ValueError unless :func:`trie_of` could have made it.

    No key may have more than ``longest`` bytes.
    """
    _check(data, longest)
    trie = marisa_trie.BinaryTrie()
    try:
        trie.frombytes(data)
    except RuntimeError as error:  # marisa's own
        raise ValueError(f"a trie is malformed: {error}") from None
    return trie


def _check(data: bytes, longest: int) -> None:
    fields = _Fields(data)
    tree = fields.bits("rank", "zeros", "ones")  # breadth first: 1 for each child of a node, then 0
    terminal = fields.bits("rank", "ones")
    linked = fields.bits("rank")
    zero, node = np.flatnonzero(~tree), np.flatnonzero(tree)
    nodes = len(node)
    _agree(len(linked) == nodes and len(terminal) == nodes + 1 and not terminal[-1])
    _agree(nodes > 0 and len(zero) == nodes + 2 and zero[0] == 1 and zero[-1] == zero[-2] + 1)
    below = np.diff(zero)[:nodes] - 1  # how many children a node has
    _agree(not ((below == 0) & ~terminal[:-1])[1:].any())

    # a label is a byte, or a link to where it begins among the tails
    base = fields.vector("u1")
    links = np.flatnonzero(linked)
    further = fields.numbers(len(links))
    tails, tail_ends = fields.vector("u1"), fields.bits()
    _agree(len(base) == nodes and not linked[0] and len(tail_ends) in (0, len(tails)))
    first, length = base.copy(), np.ones(nodes, np.int64)
    if len(links):
        start = further << 8 | base[links]
        # tails without a byte 0 end before one, others where a bit is set
        ends = np.flatnonzero(tail_ends) if len(tail_ends) else np.flatnonzero(tails == 0) - 1
        end_of = np.repeat(ends, np.diff(ends, prepend=-1))
        _agree(start.max() < len(end_of))
        length[links] = end_of[start] - start + 1
        first[links] = tails[start]
        _agree(len(tail_ends) or first[links].all())
    siblings = np.diff(node) == 1
    _agree((first[1:] > first[:-1])[siblings].all())

    # level by level, so that a node comes before its children, and keys do not grow without end
    total = np.zeros(nodes, np.int64)
    begin, end = 0, 1
    while end < nodes:
        begin, end = end, int(zero[end]) - end
        parent = node[begin:end] - np.arange(begin, end) - 1
        total[begin:end] = total[parent] + length[begin:end]
        _agree(begin < end and total[begin:end].max() <= longest)

    # of some nodes, found by the parent and the label's first byte
    cache = fields.vector("<u4").astype(np.int64)
    _agree(len(cache) % 3 == 0 and len(cache) >= 3 * 256 and (len(cache) // 3).bit_count() == 1)
    cache = cache.reshape(-1, 3)
    place = np.flatnonzero((cache[:, :2] != _UNUSED).any(axis=1))
    parent, child, label = cache[place].T
    _agree((child > 0).all() and (child < nodes).all())
    _agree((parent == node[child] - child - 1).all())
    _agree((place == (parent ^ parent << 5 ^ first[child]) & len(cache) - 1).all())
    extra = np.full(nodes, _NO_LINK, np.int64)
    extra[links] = further
    _agree((label == (extra[child] << 8 | base[child])).all())
    _agree(fields.number() == below[0])
    fields.number()  # settings, which marisa checks
    fields.end()


def _agree(what: Any) -> None:
    if not what:
        raise ValueError("a trie is malformed")


class _Fields:
    """Reads the fields of a trie, one after another. Raises ValueError."""

    def __init__(self, data: bytes) -> None:
        _agree(data.startswith(MAGIC))
        self._data = np.frombuffer(data, np.uint8)
        self._at = len(MAGIC)

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self._take(size).tobytes(), "little")

    def vector(self, dtype: str) -> NDArray[Any]:
        """Return numbers."""
        size = self.number(8)
        _agree(size % np.dtype(dtype).itemsize == 0)
        found = self._take(size).view(dtype)
        self._take(-size % 8)
        return found

    def bits(self, *kept: str) -> BoolArray:
        """Return bits, of which the "rank" and every 512th of "zeros" and "ones" are kept."""
        words = self.vector("<u8")
        size, ones = self.number(), self.number()
        all_of = np.unpackbits(words.view(np.uint8), bitorder="little").view(bool)
        found, counts = all_of[:size], np.bitwise_count(words)
        _agree(len(words) == -(-size // 64) and not all_of[size:].any() and counts.sum() == ones)
        before = np.full((-(-size // _EVERY) + 1, 8), ones, np.int64)
        before.ravel()[: len(words)] = offsets_of(counts)[:-1]
        within = before - before[:, :1]
        low = (within[:, 1:5] << [0, 7, 15, 23]).sum(axis=1)
        high = (within[:, 5:] << [0, 9, 18]).sum(axis=1)
        rank = np.stack([before[:, 0], low, high], axis=1).ravel()
        zeros, set_ = np.flatnonzero(~found)[::_EVERY], np.flatnonzero(found)[::_EVERY]
        every = {"rank": rank, "zeros": np.append(zeros, size), "ones": np.append(set_, size)}
        for name, numbers in every.items():
            _agree(np.array_equal(self.vector("<u4"), numbers if name in kept else []))
        return found

    def numbers(self, count: int) -> IntArray:
        """Return ``count`` numbers of a few bits each."""
        words = self.vector("<u8")
        width, mask, there = self.number(), self.number(), self.number(8)
        _agree(there == count and width <= 32 and mask == (1 << width) - 1)
        _agree(len(words) == max(-(-width * count // 64), count > 0))
        bits = np.unpackbits(words.view(np.uint8), count=width * count, bitorder="little")
        found: IntArray = bits.reshape(count, width) @ (1 << np.arange(width))
        return found

    def end(self) -> None:
        """Raise unless nothing is left."""
        _agree(self._at == len(self._data))

    def _take(self, size: int) -> NDArray[np.uint8]:
        _agree(size <= len(self._data) - self._at)
        self._at += size
        return self._data[self._at - size : self._at]
