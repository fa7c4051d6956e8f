"""Kernels on columns: the fields of a block's lines, UTF-8, white space, JSON, slices.

Each gives what Python gives for one. Columns hold no null unless a function says so. Separators and
line ends are found for a whole block at once; ``pyarrow.csv`` would be a quarter faster (31 against
24 million lines of three fields a second), but ends a line at a lone carriage return, and drops
byte order marks.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.blocks import LINE_FEED, Block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.base import Rejects, Report

    Bytes = bytes | memoryview | NDArray[np.uint8]
    Line = tuple[int, bytes]  # number in its source, bytes without the line feed


@dataclass(frozen=True, slots=True)
class Fields:
    """The lines of a block that have exactly the expected number of fields.

    ``columns``: the fields, binary. ``rows``: positions of these lines in the block, from 0.
    ``others``: positions of all other lines, and the number of fields of each.
    """

    columns: list[pa.Array]
    rows: IntArray
    others: dict[int, int]


def split_block(
    block: Block, delimiter: str, count: int, wanted: Sequence[int] | None = None
) -> Fields:
    """Split the lines of ``block`` into ``count`` fields; return the ``wanted`` ones, or all.

    Lines with another number of fields are listed in ``others``.
    """
    content = np.frombuffer(block.data, dtype=np.uint8)
    marks = np.flatnonzero((content == LINE_FEED) | (content == ord(delimiter)))
    last = np.flatnonzero(content[marks] == LINE_FEED)  # the mark that ends each line
    counts = np.diff(last, prepend=-1)
    good = counts == count
    first = (last - counts + 1)[good]  # the first mark of each line
    starts = [np.append(0, marks[last[:-1]] + 1)[good]]
    ends = [marks[first + place] for place in range(count)]
    starts += [end + 1 for end in ends[:-1]]
    columns = [spans(block.data, starts[at], ends[at]) for at in wanted or range(count)]
    others = {place: int(counts[place]) for place in np.flatnonzero(~good).tolist()}
    return Fields(columns, np.flatnonzero(good), others)


def lines_at(block: Block, positions: IntArray | Sequence[int]) -> list[Line]:
    """Return the (line number, bytes) of a block's lines at the given positions."""
    if len(positions) == block.lines:
        return list(enumerate(bytes(block.data).split(b"\n")[:-1], block.first))
    if not len(positions):
        return []
    ends, data = block.ends, memoryview(block.data)
    places = np.asarray(positions)
    starts = np.where(places > 0, ends[places - 1] + 1, 0)
    spans_of = zip(places.tolist(), starts.tolist(), ends[places].tolist(), strict=True)
    return [(block.first + line, bytes(data[start:end])) for line, start, end in spans_of]


def whole_lines(block: Block) -> pa.Array:
    """Return all lines of a block with their line feeds as a binary array, without a copy."""
    offsets = np.append(0, block.ends + 1).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
    return pa.Array.from_buffers(pa.binary(), block.lines, buffers)


def spans(data: Bytes, starts: IntArray, ends: IntArray) -> pa.Array:
    """Return the slices of ``data`` from ``starts`` to ``ends`` as a binary column.

    The slices are in ascending order and do not overlap.
    """
    offsets = np.stack([starts, ends], axis=1).reshape(-1).astype(np.int32)
    if not len(offsets):
        return pa.array([], type=pa.binary())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def undecodable(block: Block) -> IntArray:
    """Return the positions of the lines that are not valid UTF-8."""
    try:
        pa.array([block.data], type=pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return np.flatnonzero(~as_text(whole_lines(block))[1])
    return np.empty(0, dtype=np.int64)


def why_undecodable(raw: bytes) -> str:
    """Return why bytes are not valid UTF-8, "" if they are."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 ({error.reason})"
    return ""


def as_text(values: pa.Array) -> tuple[pa.Array, BoolArray]:
    """Convert binary ``values`` to strings, invalid UTF-8 to ""; also return which are valid."""
    try:
        return values.cast(pa.string()), np.ones(len(values), dtype=np.bool_)
    except pa.ArrowInvalid:
        raw = values.to_pylist()
        good = np.array([not why_undecodable(value) for value in raw], dtype=np.bool_)
        texts = [value if fine else b"" for value, fine in zip(raw, good.tolist(), strict=True)]
        return pa.array(texts, type=pa.binary()).cast(pa.string()), good


NO_TEXT = pa.array([], type=pa.string())
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_BLANK, _ASCII = 32, 126  # bytes between them are characters that show
_SPECIAL = r'["\\\x00-\x1f]'  # what JSON escapes


def mask_of(values: pa.Array) -> BoolArray:
    """Convert a boolean column to a NumPy mask; null becomes False."""
    mask: BoolArray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def offsets_of(texts: pa.Array) -> tuple[IntArray, NDArray[np.uint8]]:
    """Return the offsets of texts in their buffer (one more than texts), and the buffer."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(len(texts) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    places = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return cast("IntArray", places), np.frombuffer(data, dtype=np.uint8)


def inside(texts: pa.Array, before: int, after: int = 0) -> pa.Array:
    """Return strings without ``before`` bytes at the start and ``after`` at the end, all ASCII.

    The result for a shorter string is empty or any part of it.
    """
    places, content = offsets_of(texts)
    starts = np.minimum(places[:-1] + before, places[1:])
    ends = np.maximum(starts, places[1:] - after)
    return spans(content, starts, ends).cast(pa.string())


def is_text(texts: pa.Array) -> BoolArray:
    """Return which strings have a character other than white space."""
    places, content = offsets_of(texts)
    if len(texts) and not texts.null_count and np.diff(places).min() > 0:
        first = content[places[:-1]]
        if first.min() > _BLANK and first.max() <= _ASCII:
            return np.ones(len(texts), dtype=np.bool_)
    return mask_of(pc.greater(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0))


def has_nul(texts: pa.Array) -> BoolArray:
    """Return which strings hold a NUL character."""
    _, content = offsets_of(texts)
    if content.all():
        return np.zeros(len(texts), dtype=np.bool_)
    return mask_of(pc.match_substring(texts, "\0"))


def each_once(texts: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """Apply ``change`` to each string, once for equal ones; nulls stay, and None becomes null."""
    encoded = texts.dictionary_encode()
    changed = [change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, type=pa.string()).take(encoded.indices)


def json_value(raw: bytes) -> Any:
    """Parse JSON with ``orjson``, or with ``json`` what orjson refuses (NaN, long numbers).

    Raises ValueError if it is not JSON, or is nested too deeply.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(raw)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def json_strings(texts: pa.Array) -> pa.Array:
    """Format strings as JSON; null for null and for the empty string."""
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    written = pc.binary_join_element_wise('"', texts, '"', "", null_handling="emit_null")
    special = pc.fill_null(pc.match_substring_regex(texts, _SPECIAL), False)
    if pc.any(special).as_py():
        escaped = [_ENCODE(text) for text in texts.filter(special).to_pylist()]
        written = pc.replace_with_mask(written, special, pa.array(escaped, type=pa.string()))
    return written


def json_objects(members: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Build ``count`` JSON objects from columns of JSON members; null if all members are null."""
    parts = []
    for name, column in members.items():
        lead = pa.scalar(f", {json.dumps(name, ensure_ascii=False)}: ")
        member = pc.binary_join_element_wise(lead, column, "", null_handling="emit_null")
        parts.append(pc.fill_null(member, ""))
    if not parts:
        return pa.nulls(count, pa.string())
    joined = pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0]
    objects = pc.binary_join_element_wise("{", inside(joined, len(", ")), "}", "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), objects)


BLANK = "blank line or comment"


@dataclass(slots=True)
class BlockReport:
    """The outcome of a block's lines that yield nothing to load.

    ``dropped`` counts by reason; ``rejects``: (line number, reason, text).
    """

    source: str
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)

    def drop(self, reason: str, which: BoolArray, column: pa.Array) -> None:
        """Count the rows of the mask ``which`` as dropped; one of ``column`` is the example."""
        if count := int(np.count_nonzero(which)):
            self.dropped[reason] += count
            example = column[int(np.argmax(which))].as_py()
            shown = example.decode(errors="replace") if isinstance(example, bytes) else example
            self.examples.setdefault(reason, str(shown)[:60])

    def reject(self, number: int, reason: str, line: str | bytes) -> None:
        """Reject a line, or count it as dropped if it is blank."""
        if line.strip():
            text = line if isinstance(line, str) else line.decode(errors="backslashreplace")
            self.rejects.append((number, reason, text))
        else:
            self.dropped[BLANK] += 1

    def decodable(self, block: Block) -> BoolArray:
        """Return which lines of a block are UTF-8; reject the others."""
        good = np.ones(block.lines, dtype=np.bool_)
        bad = undecodable(block)
        for number, raw in lines_at(block, bad):
            shown = raw.decode(errors="backslashreplace")
            self.rejects.append((number, why_undecodable(raw), shown))
        good[bad] = False
        return good

    def record(self, report: Report, rejects: Rejects) -> None:
        """Add the counts and rejects of this block to those of the load."""
        report.dropped.update(+self.dropped)
        for reason, example in self.examples.items():
            report.examples.setdefault(reason, example)
        for number, reason, text in sorted(self.rejects):
            rejects.add(self.source, number, reason, text)
