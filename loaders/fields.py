"""The lines of a block as columns of fields, found for all lines at once.

What it does not do: quotes (a separator inside a field is not known here), or meaning.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block

_LINE_FEED = 10
_SCRATCH = threading.local()


def _scratch(size: int) -> BoolArray:
    """Return room for one value for each byte, the same for all blocks of a thread.

    New room costs more than what is written there: each of its pages has to be had first.
    """
    room: BoolArray | None = getattr(_SCRATCH, "room", None)
    if room is None or len(room) < size:
        room = _SCRATCH.room = np.empty(size, dtype=np.bool_)
    return room[:size]


def _kept(
    good: BoolArray, others: IntArray, last: IntArray, counts: IntArray, marks: int
) -> BoolArray:
    """Return which marks belong to good lines."""
    if len(others) * 8 > len(good):
        return np.repeat(good, counts)
    kept = np.ones(marks, dtype=np.bool_)
    for end, count in zip(last[others].tolist(), counts[others].tolist(), strict=True):
        kept[end - count + 1 : end + 1] = False
    return kept


class Fields:
    """The lines of ``block`` that have exactly ``count`` fields and no control character.

    ``rows``: for each such line its position in the block, from 0. ``starts`` and ``ends``: where
    it begins, and where its line feed is. ``others``: positions of all other lines.
    """

    def __init__(self, block: Block, separator: bytes, count: int) -> None:
        self.block = block
        self.bytes: NDArray[np.uint8] = np.frombuffer(block.data, dtype=np.uint8)
        marks = _scratch(len(self.bytes))
        np.less_equal(self.bytes, _LINE_FEED, out=marks)
        if separator != b"\t":
            marks |= self.bytes == separator[0]
        places = np.flatnonzero(marks)
        kinds = self.bytes[places]
        ending = kinds == _LINE_FEED
        last = np.flatnonzero(ending)  # the mark that ends each line
        counts = np.diff(last, prepend=-1)
        good = counts == count
        if not (ending | (kinds == separator[0])).all():
            for back in range(1, count):  # another control character is no separator
                good &= kinds[np.maximum(last - back, 0)] == separator[0]
        self._line_ends = places[last]
        self.rows = np.flatnonzero(good)
        self.others = np.flatnonzero(~good)
        self._count = count
        self.starts: IntArray = np.append(-1, self._line_ends[:-1]) + 1
        self._last = last
        self._marks = places  # the good lines' marks in a row
        if len(self.others):
            self._last = last[good]
            self.starts = self.starts[good]
            self._marks = places[_kept(good, self.others, last, counts, len(places))]
        offsets = np.empty(len(places) + 1, dtype=np.int32)
        offsets[0] = 0
        np.add(places, 1, out=offsets[1:], casting="unsafe")
        self._all = pa.Array.from_buffers(
            pa.binary(), len(places), [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def marks(self) -> IntArray:
        """Where the separators and the line feed of each line are, shape [lines, count]."""
        return self._marks.reshape(-1, self._count)

    @property
    def ends(self) -> IntArray:
        """Where the line feed of each line is."""
        return self.marks[:, -1]

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The eight bytes from each place on, as one number, except for the last seven places."""
        data = self.block.data if len(self.bytes) >= 8 else bytes(self.block.data).ljust(8)
        return np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))

    def words_at(self, places: IntArray) -> NDArray[np.uint64]:
        """Return the eight bytes from each place on: 0 behind the end, anything before 0."""
        words = self.words
        last = len(words) - 1
        if not len(places) or (int(places.max()) <= last and int(places.min()) >= 0):
            return words[places]  # `take` would first copy what lies at no even place, all of it
        found = words[np.minimum(np.maximum(places, 0), last)]
        late = np.flatnonzero(places > last)
        data = bytes(self.block.data[-7:]).ljust(15, b"\0")
        tail: NDArray[np.uint64] = np.ndarray((8,), dtype="<u8", buffer=data, strides=(1,))
        found[late] = tail[np.minimum(places[late] - last - 1, 7)]
        return found

    def end(self, field: int, rows: IntArray | None = None) -> IntArray:
        """Return where a field's separator (or line feed) is, for each line or for ``rows``."""
        if rows is None:
            return self.marks[:, field]
        # a row of `marks` picked by its index would hold other threads up, a take does not
        ends: IntArray = self._marks.take(rows * self._count + field)
        return ends

    def start(self, field: int) -> IntArray:
        """Return where a field begins, for each line."""
        return self.end(field - 1) + 1 if field else self.starts

    def take(self, field: int, rows: IntArray | BoolArray | None = None) -> pa.Array:
        """Return a field of some lines (positions or a mask) as binary, its separator at its end.

        The separator stays on because taking it off copies all once more: see :func:`cut`.
        """
        last = self._last if rows is None else self._last[rows]
        return self._all.take(pa.array(last - (self._count - 1) + field))

    def line_number(self, row: int) -> int:
        """Return the number of a good line in its source, from 1."""
        return self.block.first + int(self.rows[row])

    def line_text(self, row: int) -> str:
        """Return a good line, for a reject."""
        return self.block.line(int(self.starts[row]), int(self.ends[row]))

    def other_lines(self) -> list[tuple[int, bytes]]:
        """Return (number in the source, bytes without the line feed) of the lines that differ."""
        data = self.block.data
        found = []
        for row in self.others.tolist():
            start = int(self._line_ends[row - 1]) + 1 if row else 0
            found.append((self.block.first + row, bytes(data[start : int(self._line_ends[row])])))
        return found


def cut(values: pa.Array, before: int = 0, after: int = 1) -> pa.Array:
    """Return binary ``values`` without ``before`` bytes at the start and ``after`` at the end."""
    return pc.binary_slice(values, before, -after if after else None)


def as_text(values: pa.Array) -> tuple[pa.Array, BoolArray]:
    """Return binary ``values`` as strings, and which of them are UTF-8; the others are empty."""
    try:
        return values.cast(pa.string()), np.ones(len(values), dtype=np.bool_)
    except pa.ArrowInvalid:
        good = np.ones(len(values), dtype=np.bool_)
        texts = []
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                texts.append("")
                good[row] = False
        return pa.array(texts, type=pa.string()), good
