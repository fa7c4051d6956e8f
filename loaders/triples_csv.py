"""Text with quotes (RFC 4180) → triples: a field in quotes may hold delimiters and line ends.

A line in which every quote opens a field, closes one, or is doubled goes by columns. A line with
any other quote, and a record of several lines, goes through the rules for one record (``tables``).
A quote that nothing closes within reach costs its own line and no other. What it does not do: find
out the delimiter.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.blocks import Block
from kgqa.loaders.fields import Fields
from kgqa.loaders.triples_delimited import lines_of, lines_where, read_records
from kgqa.loaders.triples_part import Part, add_fields
from kgqa.loaders.triples_text import bad_lines, is_utf8, json_strings, spans, stripped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.triples_delimited import Layout, Record

_LINE_FEED, _QUOTE, _RETURN = b'\n"\r'
_LONGEST_LINE = 100_000  # bytes; the rules for one record have a limit of 131,072 a field
_MOST_LINES, _MOST_BYTES = 1_000, 1 << 20  # of one record


@dataclass(frozen=True, slots=True)
class Records:
    """A block that ends where a record ends.

    ``quotes``: places of all quotes. ``ends``: places of the line feeds. ``apart``: which lines do
    not go by columns; ``odd``: the records among them that are not a line each, or have odd quotes.
    """

    block: Block
    quotes: IntArray
    ends: IntArray
    apart: BoolArray
    odd: list[Record]


def cut_records(blocks: Iterator[Block], delimiter: str) -> Iterator[Records]:
    """Yield blocks of whole records; the part of one at the end of a block goes to the next."""
    held: Block | None = None
    for block in blocks:
        if held is not None:
            data = bytes(held.data) + bytes(block.data)
            block = Block(block.source, held.first, held.lines + block.lines, data)
        found, held = _cut(block, delimiter, last=False)
        if found is not None:
            yield found
    if held is not None:
        found, _ = _cut(held, delimiter, last=True)
        if found is not None:
            yield found


def records_of(block: Block, delimiter: str) -> Iterator[Record]:
    """Yield the records of a block; a last one that goes on in the next as its lines."""
    found, held = _cut(block, delimiter, last=False)
    if found is not None:
        data = bytes(found.block.data)
        starts = _starts(found.ends)
        records = dict(found.odd)
        for line in range(len(found.ends)):
            number = block.first + line
            if number in records:
                yield number, records[number]
            elif not found.apart[line]:
                yield number, data[starts[line] : found.ends[line]]
    if held is not None:
        yield from lines_of(held)


def read_csv(records: Records, layout: Layout) -> Part:
    """Return what the records of a block hold."""
    block = records.block
    part = Part(block.source)
    data = np.frombuffer(block.data, dtype=np.uint8)
    separator = layout.delimiter.encode()
    view = block
    if len(records.quotes):
        view = Block(block.source, block.first, block.lines, _masked(data, separator[0], records))
    fields = Fields(view, separator, layout.columns.count)
    good = ~records.apart[fields.rows]
    good &= fields.ends - fields.starts < _LONGEST_LINE
    returns = np.flatnonzero(data == _RETURN)
    if len(returns):
        good &= ~np.isin(fields.rows, np.searchsorted(records.ends, returns))
    for number in layout.skipped:
        good &= fields.rows != number - block.first
    if not is_utf8(pa.py_buffer(block.data)):
        good &= ~np.isin(fields.rows, bad_lines(data, records.ends))
    rows = np.flatnonzero(good)
    content = pa.py_buffer(block.data)

    def text(place: int, mask: BoolArray | None) -> pa.Array:
        chosen = rows if mask is None else rows[mask]
        starts, ends = fields.start(place)[chosen], fields.end(place)[chosen]
        if not len(records.quotes):
            return stripped(spans(content, starts, ends).view(pa.string()))
        quoted = (data[starts] == _QUOTE) & (ends > starts)
        found = spans(content, starts + quoted, ends - quoted).view(pa.string())
        if quoted.any():
            doubled = pc.and_(pc.match_substring(found, '""'), pa.array(quoted))
            if pc.any(doubled).as_py():
                single = pc.replace_substring(found.filter(doubled), '""', '"')
                found = pc.replace_with_mask(found, doubled, single)
        return stripped(found)

    unsure = add_fields(
        part, layout.columns, text, lambda place, mask: json_strings(text(place, mask))
    )
    good[rows[unsure]] = False
    taken = records.apart.copy()
    taken[fields.rows[good]] = True
    careful = records.odd + lines_where(block, ~taken, records.ends)
    read_records(sorted(careful), layout, part)
    part.find_ends()
    return part


def _starts(ends: IntArray) -> IntArray:
    starts = np.empty(len(ends), dtype=np.int64)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    return starts


def _masked(data: NDArray[np.uint8], separator: int, records: Records) -> bytes:
    """Return the block with something else for each delimiter within quotes."""
    line, _ = _lines_of(records.quotes, records.ends)
    # Lines that go by columns have an even number of quotes each.
    within = np.zeros(len(data), dtype=np.bool_)
    within[records.quotes[~records.apart[line]]] = True
    np.logical_xor.accumulate(within, out=within)
    within &= data == separator
    masked = data.copy()
    masked[within] = ord("_")
    return masked.tobytes()


def _lines_of(quotes: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each quote its line, and which number the first quote of that line has."""
    before = np.searchsorted(quotes, ends)
    counts = np.diff(before, prepend=0)
    line = np.repeat(np.arange(len(ends)), counts)
    return line, np.repeat(before - counts, counts)


def _cut(block: Block, delimiter: str, *, last: bool) -> tuple[Records | None, Block | None]:
    """Return the whole records of a block, and what is left of it, nothing if it is the last."""
    data = np.frombuffer(block.data, dtype=np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    quotes = np.flatnonzero(data == _QUOTE)
    apart = np.zeros(len(ends), dtype=np.bool_)
    odd: list[Record] = []
    cut = len(ends)
    starts = _starts(ends)
    following = 0  # the line after the last record that was read
    for line in _with_odd_quotes(data, quotes, ends, ord(delimiter)).tolist():
        if line < following:
            continue
        end = _end_of_record(block, quotes, starts, ends, line, delimiter)
        if end is None and not last and _within_reach(starts, ends, line):
            cut = line
            break
        following = line + 1 if end is None else end + 1
        apart[line:following] = True
        odd.append((block.first + line, bytes(block.data[starts[line] : ends[following - 1]])))
    if cut == len(ends):
        return Records(block, quotes, ends, apart, odd), None
    place = int(starts[cut])
    held = Block(block.source, block.first + cut, block.lines - cut, bytes(block.data[place:]))
    if not cut:
        return None, held
    whole = Block(block.source, block.first, cut, memoryview(block.data)[:place])
    return Records(whole, quotes[quotes < place], ends[:cut], apart[:cut], odd), held


def _with_odd_quotes(
    data: NDArray[np.uint8], quotes: IntArray, ends: IntArray, separator: int
) -> IntArray:
    """Return the lines in which not all quotes open a field, close one, or are doubled."""
    if not len(quotes):
        return quotes
    line, first = _lines_of(quotes, ends)
    opens = (np.arange(len(quotes)) - first) % 2 == 0
    before = data[np.maximum(quotes - 1, 0)]
    at_start = (quotes == 0) | (before == separator) | (before == _LINE_FEED) | (before == _QUOTE)
    after = data[quotes + 1]  # a block ends with a line feed
    at_end = (after == separator) | (after == _LINE_FEED) | (after == _QUOTE)
    odd = np.where(opens, ~at_start, ~at_end)
    last = np.ones(len(quotes), dtype=np.bool_)
    last[:-1] = line[1:] != line[:-1]
    odd |= last & opens  # nothing closes it
    found: IntArray = np.unique(line[odd])
    return found


def _end_of_record(
    block: Block, quotes: IntArray, starts: IntArray, ends: IntArray, line: int, delimiter: str
) -> int | None:
    """Return the line in which a record that begins in ``line`` ends, None where it does not."""
    start = int(starts[line])
    for current in range(line, min(len(ends), line + _MOST_LINES)):
        end = int(ends[current])
        if current > line:
            if end - start > _MOST_BYTES:
                return None
            place = int(np.searchsorted(quotes, starts[current]))
            if place == len(quotes) or quotes[place] > end:
                continue  # nothing here can close it
        if not _is_open(bytes(block.data[start:end]), delimiter):
            return current
    return None


def _is_open(record: bytes, delimiter: str) -> bool:
    """Return whether a record ends within quotes."""
    try:
        next(csv.reader([record.decode(errors="replace")], delimiter=delimiter, strict=True))
    except csv.Error as error:
        return str(error) == "unexpected end of data"
    return False


def _within_reach(starts: IntArray, ends: IntArray, line: int) -> bool:
    """Return whether more lines could still end a record that begins in ``line``."""
    return len(ends) - line < _MOST_LINES and int(ends[-1] - starts[line]) <= _MOST_BYTES
