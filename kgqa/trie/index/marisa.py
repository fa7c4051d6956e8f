"""Marisa tries of bytes, and the checks that data must pass before it is opened as one.

marisa follows what a trie's bytes say and looks at no bounds, so forged ones could end the process.
All that it would follow is therefore computed again: where the bits are, the tree, the links into
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
    """Build the trie of distinct keys, with the settings that measured smallest."""
    return marisa_trie.BinaryTrie(
        keys, num_tries=1, order=marisa_trie.LABEL_ORDER, cache_size=marisa_trie.TINY_CACHE
    )


def opened(data: bytes, longest: int) -> tuple[marisa_trie.BinaryTrie, int]:
    """Check ``data`` and open it as a trie; also return a bound on the bytes of a key.

    Raises ValueError unless :func:`trie_of` could have written it, or if the bound is above
    ``longest``.
    """
    most = _checked(data)
    if most > longest:
        raise ValueError("a trie has keys that are too long")
    trie = marisa_trie.BinaryTrie()
    try:
        trie.frombytes(data)
    except RuntimeError as error:  # marisa's own
        raise ValueError(f"a trie is malformed: {error}") from None
    return trie, most


def _checked(data: bytes) -> int:
    """Check the structure of a serialised trie; return a bound on its keys' bytes.

    Raises ValueError.
    """
    fields = _Fields(data)
    # the tree, breadth first: a 1 for each child of a node, and a 0 after them
    _, node, zero = fields.bits("rank", "zeros", "ones")
    terminal, _, _ = fields.bits("rank", "ones")
    linked, links, _ = fields.bits("rank")
    nodes = len(node)
    _require(len(linked) == nodes and len(terminal) == nodes + 1 and not terminal[-1])
    _require(nodes > 0 and len(zero) == nodes + 2 and zero[0] == 1 and zero[-1] == zero[-2] + 1)
    leaf = zero[1:-1] == zero[:-2] + 1
    _require((terminal[:-1] >= leaf)[1:].all())
    levels, end = 1, 1
    while end < nodes:
        begin, end = end, int(zero[end]) - end
        _require(begin < end)
        levels += 1

    # a label is a byte, or a link to where it begins among the tails
    base = fields.vector("u1")
    further = fields.numbers(len(links))
    tails = fields.vector("u1")
    is_end, ends, _ = fields.bits()
    _require(len(base) == nodes and not linked[0] and len(is_end) in (0, len(tails)))
    first, most = base.copy(), 1
    if len(links):
        # tails without a byte 0 end before one, others where a bit is set
        ends = ends if len(is_end) else np.flatnonzero(tails == 0) - 1
        start = further << 8 | base[links]
        _require(len(ends) and start.max() <= ends[-1])
        first[links] = tails[start]
        _require(len(is_end) or first[links].all())
        most = int(np.diff(ends, prepend=-1).max())
    _require(((first[1:] > first[:-1]) | (node[1:] != node[:-1] + 1)).all())

    # of some nodes, found by the parent and the label's first byte
    cache = fields.vector("<u4").astype(np.int64)
    _require(len(cache) % 3 == 0 and len(cache) >= 3 * 256 and (len(cache) // 3).bit_count() == 1)
    cache = cache.reshape(-1, 3)
    place = np.flatnonzero((cache[:, :2] != _UNUSED).any(axis=1))
    parent, child, label = cache[place].T
    _require((child > 0).all() and (child < nodes).all())
    _require((parent == node[child] - child - 1).all())
    _require((place == (parent ^ parent << 5 ^ first[child]) & len(cache) - 1).all())
    extra = np.full(len(child), _NO_LINK, np.int64)
    extra[linked[child]] = further[np.searchsorted(links, child[linked[child]])]
    _require((label == (extra << 8 | base[child])).all())
    _require(fields.number() == zero[1] - 2)  # how many children the root has
    fields.number()  # settings, which marisa checks
    fields.end()
    return levels * most


def _require(what: Any) -> None:
    """Raise ValueError unless ``what`` holds."""
    if not what:
        raise ValueError("a trie is malformed")


class _Fields:
    """Reads the fields of a serialised trie in order. Raises ValueError."""

    def __init__(self, data: bytes) -> None:
        _require(data.startswith(MAGIC))
        self._data = np.frombuffer(data, np.uint8)
        self._at = len(MAGIC)

    def number(self, size: int = 4) -> int:
        """Return the next little-endian integer of ``size`` bytes."""
        return int.from_bytes(self._take(size).tobytes(), "little")

    def vector(self, dtype: str) -> NDArray[Any]:
        """Return the next length-prefixed array of ``dtype``, padded to 8 bytes."""
        size = self.number(8)
        _require(size % np.dtype(dtype).itemsize == 0)
        numbers = self._take(size).view(dtype)
        self._take(-size % 8)
        return numbers

    def bits(self, *kept: str) -> tuple[BoolArray, IntArray, IntArray]:
        """Return a bit vector with the positions of its ones and, if wanted, of its zeros.

        ``kept``: which of the indexes "rank", "zeros" and "ones" the trie must have stored with it.
        """
        words = self.vector("<u8")
        size, count = self.number(), self.number()
        # a node has two bits of the tree and a byte of its own: more bits are not in any trie
        _require(len(words) == -(-size // 64) and size <= 2 * len(self._data))
        all_of = np.unpackbits(words.view(np.uint8), bitorder="little").view(bool)
        taken = all_of[:size]
        ones, zeros = np.flatnonzero(taken), np.flatnonzero(~taken if "zeros" in kept else ())
        _require(not all_of[size:].any() and len(ones) == count)
        expected = {"zeros": np.append(zeros[::_EVERY], size)}
        expected["ones"] = np.append(ones[::_EVERY], size)
        if "rank" in kept:
            before = np.full((-(-size // _EVERY) + 1, 8), count, np.int64)
            before.ravel()[: len(words)] = offsets_of(np.bitwise_count(words))[:-1]
            within = before - before[:, :1]
            low = (within[:, 1:5] << [0, 7, 15, 23]).sum(axis=1)
            high = (within[:, 5:] << [0, 9, 18]).sum(axis=1)
            expected["rank"] = np.stack([before[:, 0], low, high], axis=1).ravel()
        for name in ("rank", "zeros", "ones"):
            _require(np.array_equal(self.vector("<u4"), expected[name] if name in kept else []))
        return taken, ones, zeros

    def numbers(self, count: int) -> IntArray:
        """Return the next ``count`` bit-packed integers."""
        words = self.vector("<u8")
        width, mask, there = self.number(), self.number(), self.number(8)
        _require(there == count and width <= 32 and mask == (1 << width) - 1)
        _require(len(words) == max(-(-width * count // 64), count > 0))
        at = np.arange(count) * width
        word, bit = at >> 6, (at & 63).astype(np.uint64)
        low, high = words[word] >> bit, np.append(words, words[:1])[word + 1] << 63 - bit << 1
        values: IntArray = ((low | high) & np.uint64(mask)).astype(np.int64)
        return values

    def end(self) -> None:
        """Raise ValueError unless all bytes have been read."""
        _require(self._at == len(self._data))

    def _take(self, size: int) -> NDArray[np.uint8]:
        """Return the next ``size`` bytes."""
        _require(size <= len(self._data) - self._at)
        self._at += size
        return self._data[self._at - size : self._at]
