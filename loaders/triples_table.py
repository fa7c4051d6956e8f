"""Delimited text → triples: with tabs, bars, white space, or with quotes (RFC 4180).

How a file is split (its delimiter, header and columns) is found from its first lines. Lines are
split by columns; in a form that has quotes, this is so if each quote of a line opens a field,
closes one or is doubled. Other records, perhaps of several lines, go through ``csv``; a quote that
nothing closes within reach costs its own line and no other.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.blocks import LINE_FEED, Block
from kgqa.loaders.delimited import lines_at, split_block, why_undecodable
from kgqa.loaders.strings import json_strings
from kgqa.loaders.triples_rows import (
    PARTS,
    QUOTED,
    WHITESPACE,
    Columns,
    TriplesPart,
    check_delimiter,
    check_triples,
    find_delimiter,
    is_count,
    is_header,
    split_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kgqa.graph.model import IntArray

HEADER = "header"
COUNT_LINE = "count of lines"
_SAMPLE = 100  # records that the delimiter is found from
_OPENING = 1_000  # lines that the form of a file is found from
_MOST_LINES, _MOST_BYTES = 1_000, 1 << 20  # of one record
_LONG_LINE = 100_000  # bytes; a field of csv has at most 131,072 characters
_QUOTE, _RETURN = b'"\r'
_OPEN = "unexpected end of data"  # what csv says of a quote that nothing closes

Record: TypeAlias = "tuple[int, int, list[str] | str]"
"""Position of its first line, how many lines it has (0: it goes on in the next block), and its
fields, or why it has none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are split. ``skipped``: why a line of that number is not a row."""

    delimiter: str
    columns: Columns
    skipped: dict[int, str] = field(default_factory=dict)


def find_layout(
    blocks: Iterator[Block],
    source: str,
    delimiter: str | None = None,
    columns: str | None = None,
    header: bool | None = None,
    likely: str = "",
) -> tuple[Layout, Iterator[Block]]:
    """Return the layout of a file, and all its blocks.

    ``delimiter``: one character or "whitespace", found if it is None. ``columns``: the columns'
    names, comma-separated; without it a header says them, else they are head, relation, tail.
    ``header``: whether the first line is one, found if it is None. A first line that is a number
    alone says how many lines follow. ``likely``: the delimiter by the file's name. Raises
    DumpMalformedError if no delimiter is found, UsageError if the delimiter or header do not fit.
    """
    if delimiter is not None:
        check_delimiter(delimiter)
    opening, blocks = opened(blocks)
    sample: list[tuple[int, str]] = []
    if opening is not None:
        lines = first_lines(opening, _OPENING)
        sample = list(enumerate(lines, opening.first))
        if (delimiter or likely) in QUOTED:
            sample, first = [], 0
            while first < len(lines):
                count = _record(lines, first, delimiter or likely)[1]
                sample.append((opening.first + first, "\n".join(lines[first : first + count])))
                first += count
    filled = [(number, text) for number, text in sample[:_SAMPLE] if text.strip()]
    skipped = {}
    if len(filled) > 1 and is_count(filled[0][1]):
        skipped[filled[0][0]] = COUNT_LINE
        del filled[0]
    if delimiter is None:
        delimiter = find_delimiter([text for _, text in filled], source)
    order = Columns(columns.split(",")) if columns else None
    rows = [fields for _, text in filled if (fields := split_record(text, delimiter))]
    if order is None and header is None and rows and not is_header(rows[0]):
        check_triples(rows, source)
    for number, text in filled:
        fields = split_record(text, delimiter)
        if not fields:
            continue
        if is_header(fields) if header is None else header:
            skipped[number] = HEADER
            order = order or Columns(fields)
        break
    return Layout(delimiter, order or Columns(PARTS), skipped), blocks


def opened(blocks: Iterator[Block]) -> tuple[Block | None, Iterator[Block]]:
    """Return a block of the first lines, a thousand if there are so many, and all blocks."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if sum(each.lines for each in held) >= _OPENING:
            break
    if not held:
        return None, blocks
    first = joined(held)
    return first, chain([first], blocks)


def first_lines(block: Block, count: int) -> list[str]:
    """Return the first ``count`` lines of a block, or all of fewer."""
    lines = bytes(block.data).split(b"\n", count)[: min(count, block.lines)]
    return [line.decode(errors="replace") for line in lines]


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks that follow each other as one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    data = b"".join(bytes(block.data) for block in blocks)
    return Block(first.source, first.first, sum(block.lines for block in blocks), data)


def read_lines(block: Block, layout: Layout, records: Sequence[Record] = ()) -> TriplesPart:
    """Return what a block holds; ``records``: those that :func:`quoted_blocks` gave."""
    part = TriplesPart(block.source)
    whole = np.ones(block.lines, dtype=np.bool_)
    for first, lines, _ in records:
        whole[first : first + lines] = False
    wanted = part.decodable(block, whole)
    for number, reason in layout.skipped.items():
        position = number - block.first
        if 0 <= position < len(wanted) and wanted[position]:
            wanted[position] = False
            part.dropped[reason] += 1
    count, cells, rows = layout.columns.count, list[pa.Array](), np.empty(0, dtype=np.int64)
    single = np.flatnonzero(wanted).tolist()  # lines that are split by themselves
    if separator := _separator(block, layout.delimiter):
        places = np.flatnonzero(whole)
        view = block
        if len(places) < block.lines:
            data = b"".join(raw + b"\n" for _, raw in lines_at(block, places))
            view = Block(block.source, block.first, len(places), data)
        fields = split_block(view, separator, count, quoted=layout.delimiter in QUOTED)
        rows = places[fields.rows]
        kept = pa.array(wanted[rows])
        rows = rows[wanted[rows]]
        cells = [column.filter(kept).view(pa.string()) for column in fields.columns]
        single = [place for place in places[list(fields.others)].tolist() if wanted[place]]
    more = [
        (number - block.first, 1, split_record(raw.decode(), layout.delimiter))
        for number, raw in lines_at(block, single)
    ]
    if records or more:
        _add_records(part, block, [*records, *more], layout)
    if layout.delimiter not in ("\t", WHITESPACE):
        cells = [pc.utf8_trim_whitespace(column) for column in cells]
    if len(rows):
        part.add_table(
            layout.columns,
            lambda place: (cells[place], {}),
            lambda place: (json_strings(cells[place]), {}),
            block.first + rows,
            lambda row: lines_at(block, rows[row : row + 1])[0][1].decode(),
        )
    part.find_ends()
    return part


def _separator(block: Block, delimiter: str) -> str:
    """Return the one byte that separates fields in all lines of a block, "" if there is none."""
    if delimiter != WHITESPACE:
        return delimiter if delimiter.isascii() else ""
    data = bytes(block.data)
    for mark in (b" ", b"\t") if data.isascii() else ():  # all white space, never two in a row
        others = [bytes([code]) for code in b" \t\v\f\r\x1c\x1d\x1e\x1f" if code != mark[0]]
        ends = [mark * 2, b"\n" + mark, mark + b"\n"]
        if data[:1] != mark and not any(each in data for each in others + ends):
            return mark.decode()
    return ""


# -- records that are not a line, or have a fault ---------------------------------------------


def quoted_blocks(blocks: Iterable[Block], delimiter: str) -> Iterator[tuple[Block, list[Record]]]:
    """Yield blocks that end where a record ends, and their records that go through ``csv``."""
    held: Block | None = None
    for block in blocks:
        whole, records, held = _cut(joined([held, block]) if held else block, delimiter)
        if whole.lines:
            yield whole, records
    if held is not None:
        whole, records, _ = _cut(held, delimiter, last=True)
        yield whole, records


def _cut(
    block: Block, delimiter: str, *, last: bool = False
) -> tuple[Block, list[Record], Block | None]:
    """Return the whole records of a block, those that are odd, and what is left of the block."""
    ends = block.ends
    odd = _odd_lines(block, delimiter, ends)
    lines = bytes(block.data).decode(errors="surrogateescape").split("\n")[:-1] if len(odd) else []
    records: list[Record] = []
    following = 0  # the line after the last record
    for line in odd.tolist():
        if line < following:
            continue
        record = _record(lines, line, delimiter, last=last)
        if not record[1]:
            start = int(ends[line - 1]) + 1 if line else 0
            held = Block(block.source, block.first + line, len(ends) - line, block.data[start:])
            return Block(block.source, block.first, line, block.data[:start]), records, held
        records.append(record)
        following = line + record[1]
    return block, records, None


def _odd_lines(block: Block, delimiter: str, ends: IntArray) -> IntArray:
    """Return the lines in which not all quotes open a field, close one, or are doubled.

    Those with a carriage return too, and those that may have a field too long for ``csv``.
    """
    content = np.frombuffer(block.data, dtype=np.uint8)
    odd = [np.flatnonzero(np.diff(ends, prepend=-1) > _LONG_LINE)]
    odd.append(_lines_with(np.flatnonzero(content == _RETURN), ends))
    quotes = np.flatnonzero(content == _QUOTE)
    if len(quotes):
        before = np.searchsorted(quotes, ends)
        counts = np.diff(before, prepend=0)
        opens = (np.arange(len(quotes)) - np.repeat(before - counts, counts)) % 2 == 0
        border = np.zeros(256, dtype=np.bool_)
        border[[LINE_FEED, _QUOTE, ord(delimiter)]] = True
        at_start = border[content[np.maximum(quotes - 1, 0)]] | (quotes == 0)
        fine = np.where(opens, at_start, border[content[quotes + 1]])
        odd += [_lines_with(quotes[~fine], ends), np.flatnonzero(counts % 2)]
    return np.unique(np.concatenate(odd))


def _lines_with(places: IntArray, ends: IntArray) -> IntArray:
    return np.searchsorted(ends, places)


def _record(lines: Sequence[str], first: int, delimiter: str, *, last: bool = True) -> Record:
    """Return the record that begins in a line; ``last``: no more lines follow these."""
    taken = first

    def following() -> Iterator[str]:
        nonlocal taken
        size = 0
        while taken < len(lines) and taken - first < _MOST_LINES and size <= _MOST_BYTES:
            taken += 1
            size += len(lines[taken - 1])
            yield lines[taken - 1] + "\n"

    try:
        fields = next(csv.reader(following(), delimiter=delimiter, strict=True))
    except csv.Error as error:
        if str(error) != _OPEN:
            return first, taken - first, str(error)
        return (first, 0, "") if taken == len(lines) and not last else (first, 1, _OPEN)
    return first, taken - first, fields


def _add_records(
    part: TriplesPart, block: Block, records: Sequence[Record], layout: Layout
) -> None:
    count = layout.columns.count
    rows: list[list[str]] = []
    numbers: list[int] = []
    shown: list[str] = []
    for first, lines, fields in records:
        number = block.first + first
        raw = b"\n".join(line for _, line in lines_at(block, range(first, first + lines)))
        text = raw.decode(errors="backslashreplace")
        if reason := why_undecodable(raw):
            part.reject(number, reason, text)
        elif number in layout.skipped:
            part.dropped[layout.skipped[number]] += 1
        elif isinstance(fields, str):
            part.reject(number, fields, text)
        elif len(fields) != count:
            part.reject(number, f"{len(fields)} fields in place of {count}", text)
        else:
            rows.append(fields)
            numbers.append(number)
            shown.append(text)
    cells = [
        pc.utf8_trim_whitespace(pa.array([row[n] for row in rows], type=pa.string()))
        for n in range(count)
    ]
    part.add_table(
        layout.columns,
        lambda place: (cells[place], {}),
        lambda place: (json_strings(cells[place]), {}),
        np.array(numbers, dtype=np.int64),
        shown.__getitem__,
    )
