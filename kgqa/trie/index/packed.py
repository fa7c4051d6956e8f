"""The bytes of a shard's cells: names, hops and paths, how they are packed and read.

A *text* is the token ids of one part of a path (head with its opening, relation with both links,
tail), big-endian, ``width`` bytes an id. The dictionary numbers relations by how often paths have
them, and the hops (relation, tail, mediator) of each relation. A path is a key: its row's byte,
then of each hop the relation's code and the hop's number within that relation. So a path's tokens
are the texts of its parts, and it grounds to exactly its hops.

A column of numbers is a byte with their width, then their differences modulo 256 ** width: all
lowest bytes, then the next ones.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, PathTable, ranges
from kgqa.trie.arrays import Sequences, dense, joined, offsets_of
from kgqa.trie.index.marisa import MAGIC, opened
from kgqa.trie.stored import JoinedSequences, distinct_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray

LISTED = 4_096  # texts of a list at most: it is read whole, a trie is not
_ROOM = 1 << 26  # bytes of texts that are read together: forged ones must not fill the memory
_COUNTS = np.dtype("<u4")
_RANK = 4  # bytes of a hop's number within its relation, at most
HOP = 3 + _RANK  # bytes of a hop, at most


def token_width(vocab_size: int) -> int:
    """Return the number of bytes, 2, 3 or 4, that hold every token id."""
    return max(2, (max(vocab_size - 1, 0).bit_length() + 7) // 8)


def token_bytes(texts: Sequences, width: int) -> list[bytes]:
    """Encode each text's token ids as big-endian bytes of ``width`` each."""
    data = _big_endian(texts.tokens, width)
    return [data[start:stop] for start, stop in pairwise((width * texts.offsets).tolist())]


def tokens_of(texts: Sequence[bytes], width: int) -> Sequences:
    """Decode texts from bytes, ``width`` a token, to token ids.

    Raises ValueError for a fraction of a token.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if (lengths % width).any():
        raise ValueError("a text does not end with a whole token")
    by_byte = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, width)
    tokens = np.zeros(len(by_byte), np.int64)
    for byte in by_byte.T:
        tokens = tokens << 8 | byte
    return Sequences(tokens, offsets_of(lengths // width))


def _big_endian(numbers: IntArray, width: int) -> bytes:
    """Encode ``numbers`` as big-endian bytes, ``width`` for each."""
    by_byte = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    return by_byte[:, 8 - width :].tobytes()


# ── columns of numbers ──────────────────────────────────────────────────────────────────────────


def column(numbers: IntArray) -> bytes:
    """Encode non-negative numbers as a column: a width byte, then delta-coded byte planes."""
    width = max(1, (int(numbers.max(initial=0)).bit_length() + 7) // 8)
    # differences by byte planes: what compresses well is what is alike side by side
    steps = np.diff(numbers, prepend=0).astype("<i8").view(np.uint8).reshape(-1, 8)
    return bytes([width]) + steps[:, :width].T.tobytes()


class ColumnReader:
    """Decodes columns one after another. Raises ValueError if bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self._at = 0

    def counts(self, number: int) -> list[int]:
        """Return the next ``number`` four-byte numbers: the lengths of the columns that follow."""
        counts: list[int] = self._bytes(4 * number).view(_COUNTS).tolist()
        return counts

    def take(self, count: int) -> IntArray:
        """Return the next ``count`` numbers."""
        (width,) = self._bytes(1).tolist()
        if not 1 <= width <= 8:
            raise ValueError(f"a column has numbers of {width} bytes")
        planes = self._bytes(width * count).reshape(width, count)
        steps = np.zeros((count, 8), np.uint8)
        steps[:, :width] = planes.T
        numbers = np.cumsum(steps.view("<u8").ravel(), dtype=np.uint64)
        if width < 8:
            numbers &= np.uint64((1 << 8 * width) - 1)
        whole = numbers.astype(np.int64)
        if (whole < 0).any():
            raise ValueError("a column has a number that is too large")
        return whole

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        return self._data[self._at :].tobytes()

    def _bytes(self, count: int) -> NDArray[np.uint8]:
        """Return the next ``count`` bytes."""
        if count > len(self._data) - self._at:
            raise ValueError("a column is cut off")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def text_list(texts: Sequences, width: int) -> bytes:
    """Encode texts front-coded: the number of tokens shared with the one before, then the rest.

    ``width``: bytes of a token.
    """
    shared = np.zeros(len(texts), np.int64)
    shared[1:] = texts.shared_prefix(np.arange(len(texts) - 1), np.arange(1, len(texts)))
    own = texts.lengths - shared
    tokens = texts.tokens[ranges(texts.offsets[:-1] + shared, own)]
    counts = np.array([len(texts)], _COUNTS).tobytes()
    return counts + column(shared) + column(own) + _big_endian(tokens, width)


@dataclass(frozen=True, slots=True)
class Texts:
    """Encoded texts, read by number: ``count`` of them, none longer than ``longest`` bytes."""

    count: int
    longest: int
    text: Callable[[int], bytes]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the texts with the given numbers.

        Raises ValueError if they would fill the memory.
        """
        # a forged length is believed only after the texts were counted one by one
        if len(numbers) * self.longest > _ROOM:
            room = _ROOM
            for number in numbers:
                room -= len(self.text(number))
                if room < 0:
                    raise ValueError("its names are too long")
        return [*map(self.text, numbers)]


def read_texts(data: bytes, width: int) -> Texts:
    """Open the texts of a shard, stored as a trie or a list; ``width``: bytes of a token.

    Raises ValueError if they are malformed or too large.
    """
    if data.startswith(MAGIC):
        trie, longest = opened(data, _ROOM)
        return Texts(len(trie), longest, trie.restore_key)
    columns = ColumnReader(data)
    (count,) = columns.counts(1)
    if count > LISTED:
        raise ValueError(f"a list of names has {count} texts")
    shared, own = columns.take(count).tolist(), columns.take(count).tolist()
    rest, at, text, room = columns.rest(), 0, b"", _ROOM
    texts = []
    for before, mine in zip(shared, own, strict=True):
        if not 0 <= before * width <= len(text) or not 0 <= mine * width <= len(rest) - at:
            raise ValueError("a list of names is cut off")
        text = text[: before * width] + rest[at : at + mine * width]
        room -= len(text)
        if room < 0:
            raise ValueError("its names are too long")
        at += mine * width
        texts.append(text)
    return Texts(count, max(map(len, texts), default=0), texts.__getitem__)


# ── the dictionary ──────────────────────────────────────────────────────────────────────────────


def _first_bytes(relations: int) -> tuple[int, int]:
    """Return how many values of a first byte begin 1-byte codes and 2-byte codes.

    All other first bytes begin 3-byte codes.
    """
    if relations <= 256:
        return 256, 0
    if relations <= 1 << 16:
        two = -(-(relations - 256) // 255)
        return 256 - two, two
    three = -(-(relations - 64 - 192 * 256) // ((1 << 16) - 256))
    return 64, 192 - three


@dataclass(frozen=True, slots=True)
class _Found:
    """The distinct relations, tails and hops of a path table, and each path as numbers of hops."""

    pairs: IntArray
    counts: IntArray  # of each relation how many hops it has
    tails: IntArray
    hop_tail: IntArray
    hop_mediator: IntArray
    number: IntArray  # [paths, L]: the hop, or -1


def found_hops(table: PathTable) -> _Found:
    """Return the distinct hops, relations and tails of a path table, numbered."""
    there = table.hops[:, :, TAIL] >= 0
    first, mediator, second, tail = (table.hops[:, :, part][there] for part in range(4))
    pairs, pair = distinct_pairs(first, second)
    by_use = np.argsort(-np.bincount(pair, minlength=len(pairs)), kind="stable")
    rank = np.empty(len(pairs), np.int64)
    rank[by_use] = np.arange(len(pairs))
    tails, tail = dense(tail)
    mediators, mediator = dense(mediator + 1)
    hops, number = dense((rank[pair] * len(tails) + tail) * len(mediators) + mediator)
    relation, rest = np.divmod(hops, max(1, len(tails) * len(mediators)))
    hop_tail, which = np.divmod(rest, max(1, len(mediators)))
    numbers = np.full(there.shape, -1, np.int64)
    numbers[there] = number
    counts = np.bincount(relation, minlength=len(pairs))
    return _Found(pairs[by_use], counts, tails, hop_tail, mediators[which] - 1, numbers)


@dataclass(frozen=True, slots=True)
class _Coded:
    """Encodes paths as keys: the bytes, relation and number of every hop."""

    pool: Sequences

    def keys(self, rows: IntArray, number: IntArray) -> list[bytes]:
        """Return the key of each path: the byte of its row, then the codes of its hops."""
        hops = len(self.pool) - 256
        path = JoinedSequences(np.concatenate([hops + rows[:, None], number], axis=1), self.pool)
        whole = path.joined()
        data = whole.tokens.astype(np.uint8).tobytes()
        return [data[start:stop] for start, stop in pairwise(whole.offsets.tolist())]


class Dictionary:
    """Decodes the keys of a shard: its relations, tails and hops by their code numbers.

    ``first``, ``second``: the steps (2 * relation, + 1 reversed) of a relation, the second -1
    without a mediator; ``starts`` ``[relations + 1]``: where its hops begin; ``relation_text``,
    ``tail_text``: numbers of texts.
    """

    def __init__(self, data: bytes, texts: int) -> None:
        columns = ColumnReader(data)
        relations, tails, hops = columns.counts(3)
        self.first = columns.take(relations)
        self.second = columns.take(relations) - 1
        counts = columns.take(relations)
        self.relation_text = columns.take(relations)
        self.tail_key = columns.take(tails)
        self.tail_text = columns.take(tails)
        self.hop_tail = columns.take(hops)
        self._hop_mediator = columns.take(hops) - 1
        self.starts = offsets_of(counts)
        small = (self.relation_text, texts), (self.tail_text, texts), (self.hop_tail, tails)
        if any(len(part) and not 0 <= part.min() <= part.max() < most for part, most in small):
            raise ValueError("its dictionary names a text or a tail that is not there")
        if self.starts[-1] != hops or ((counts < 1) | (counts > hops)).any():
            raise ValueError("its dictionary has other hops than its relations")
        self._one, self._two = _first_bytes(relations)
        self.width = _rank_width(counts)
        self._counts = counts
        self._begins: list[int] = self.starts.tolist()

    @staticmethod
    def packed(hops: _Found, relation_text: IntArray, tail_text: IntArray) -> tuple[bytes, _Coded]:
        """Encode the dictionary of paths; also return the encoder of their keys.

        ``relation_text``, ``tail_text``: for each relation and tail, the number of its text. Tails
        are renumbered in the order of their texts.
        """
        # by text: neighbours in the trie then lead to tails with neighbouring numbers
        order = np.lexsort([hops.tails, tail_text])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        relation = np.repeat(np.arange(len(hops.pairs)), hops.counts)
        by_text = np.lexsort([hops.hop_mediator, place[hops.hop_tail], relation])
        columns = (
            hops.pairs[:, 0],
            hops.pairs[:, 1] + 1,
            hops.counts,
            relation_text,
            hops.tails[order],
            tail_text[order],
            place[hops.hop_tail[by_text]],
            hops.hop_mediator[by_text] + 1,
        )
        counts = np.array([len(hops.pairs), len(order), len(by_text)], _COUNTS).tobytes()
        number = np.empty(len(by_text), np.int64)
        number[by_text] = np.arange(len(by_text)) - offsets_of(hops.counts)[relation[by_text]]
        return counts + b"".join(map(column, columns)), _coded(hops.counts, relation, number)

    def hops(self, keys: Sequence[bytes], most: int) -> IntArray:
        """Decode keys to hop numbers ``[paths, most]``, -1 beyond a path's end.

        Raises ValueError for a malformed key, or one of more than ``most`` hops.
        """
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        data = np.frombuffer(b"".join(keys) + bytes(HOP), np.uint8).astype(np.int64)
        ends = np.cumsum(lengths)
        at = ends - lengths + 1
        number = np.full((len(keys), most), -1, np.int64)
        for level in range(most):
            there = np.flatnonzero(at < ends)
            relation, after = self._decoded_relations(data, at[there])
            if len(there) and relation.max() >= len(self.width):
                raise ValueError("a path has a relation that is not there")
            width = self.width[relation]
            rank = data[after]
            for byte in range(1, int(width.max(initial=1))):
                rank = np.where(byte < width, rank << 8 | data[after + byte], rank)
            if (rank >= self._counts[relation]).any():
                raise ValueError("a path has a hop that is not there")
            number[there, level] = self.starts[relation] + rank
            at[there] = after + width
        if (at != ends).any() or (number[:, :1] < 0).any():
            raise ValueError("a path has more or fewer hops than it should")
        return number

    def relation_at(self, key: bytes, at: int) -> tuple[int, int]:
        """Return the relation whose code begins at byte ``at`` of a key, and the code's end."""
        first = key[at]
        if first < self._one:
            return first, at + 1
        if first < self._one + self._two:
            return self._one + (first - self._one << 8 | key[at + 1]), at + 2
        high = first - self._one - self._two
        before = self._one + (self._two << 8)
        return before + (high << 16 | key[at + 1] << 8 | key[at + 2]), at + 3

    def code(self, relation: int) -> bytes:
        """Return the code of a relation, one to three bytes."""
        if relation < self._one:
            return bytes([relation])
        wide = relation - self._one
        if wide < self._two << 8:
            return bytes([self._one + (wide >> 8), wide & 255])
        wide -= self._two << 8
        return bytes([self._one + self._two + (wide >> 16), wide >> 8 & 255, wide & 255])

    def hop(self, hop: int) -> bytes:
        """Return the bytes of a hop in a key: its relation's code, then its rank."""
        relation = bisect_right(self._begins, hop) - 1
        rank = hop - self._begins[relation]
        return self.code(relation) + rank.to_bytes(int(self.width[relation]), "big")

    def code_length(self, first: int) -> int:
        """Return the length in bytes of a relation code, from its first byte."""
        return 1 + (first >= self._one) + (first >= self._one + self._two)

    def relation_of(self, hops: IntArray) -> IntArray:
        """Return the relation number of each hop."""
        relation: IntArray = np.searchsorted(self.starts, hops, side="right") - 1
        return relation

    def steps(self, hops: IntArray) -> IntArray:
        """Return hops, by number, as columns of a path table; -1 for no hop."""
        relation = self.relation_of(hops)
        steps = np.empty((*hops.shape, 4), np.int64)
        steps[..., FIRST] = self.first[relation]
        steps[..., MEDIATOR] = self._hop_mediator[hops]
        steps[..., SECOND] = self.second[relation]
        steps[..., TAIL] = self.tail_key[self.hop_tail[hops]]
        steps[hops < 0] = -1
        return steps

    def _decoded_relations(self, data: IntArray, at: IntArray) -> tuple[IntArray, IntArray]:
        """Return the relations whose codes begin at the bytes ``at``, and the bytes after them."""
        byte = data[at]
        if self._one == 256:
            return byte, at + 1
        two, three = data[at + 1], data[at + 2]
        short, middle = byte < self._one, byte < self._one + self._two
        before = self._one + (self._two << 8)
        high = byte - self._one - self._two
        longer = np.where(
            middle,
            self._one + (byte - self._one << 8 | two),
            before + (high << 16 | two << 8 | three),
        )
        return np.where(short, byte, longer), at + 3 - middle - short


def _rank_width(counts: IntArray) -> IntArray:
    """Return the number of bytes that number the hops of each relation, from their ``counts``."""
    width = np.ones(len(counts), np.int64)
    for byte in range(1, _RANK):
        width += counts > 1 << 8 * byte
    return width


def _coded(counts: IntArray, relation: IntArray, number: IntArray) -> _Coded:
    """Encode each hop: its relation's code, then its ``number`` within that relation."""
    first, two = _first_bytes(len(counts))
    all_of = np.arange(len(counts))
    wide, widest = all_of - first, all_of - first - (two << 8)
    codes = np.stack([all_of, np.zeros_like(all_of), np.zeros_like(all_of)], axis=1)
    length = 1 + (wide >= 0) + (widest >= 0)
    codes[length == 2, 0] = first + (wide[length == 2] >> 8)
    codes[length == 2, 1] = wide[length == 2] & 255
    codes[length == 3] = (widest[length == 3, None] >> np.array([16, 8, 0])) & [-1, 255, 255]
    codes[length == 3, 0] += first + two
    shifts = 8 * np.arange(_RANK)[::-1]
    ranks = number[:, None] >> shifts & 255
    pool = np.concatenate([codes[relation], ranks], axis=1)
    used = np.concatenate(
        [
            np.arange(3) < length[relation, None],
            np.arange(_RANK) >= _RANK - _rank_width(counts)[relation, None],
        ],
        axis=1,
    )
    hops = Sequences(pool[used], offsets_of(used.sum(axis=1)))
    return _Coded(joined([hops, Sequences(np.arange(256), np.arange(257))]))
