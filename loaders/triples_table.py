"""Delimited text → triples: with tabs, bars, white space, or with quotes (RFC 4180).

How a file is split (its delimiter, header and columns) is found from its first lines. Blocks
without a quote are split by columns. In a form that has quotes, a block with some goes record by
record through ``csv``; a field in quotes may hold delimiters and line ends, and a quote that
nothing closes within reach costs its own line and no other.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from kgqa.loaders.blocks import Block
from kgqa.loaders.delimited import Fields, line_ends, lines_at, undecodable, why_undecodable
from kgqa.loaders.strings import json_strings, stripped
from kgqa.loaders.tables import (
    PARTS,
    QUOTED,
    WHITESPACE,
    Columns,
    check_delimiter,
    find_delimiter,
    is_count,
    is_header,
    split_record,
)
from kgqa.loaders.triples_part import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEADER = "header"
COUNT_LINE = "count of lines"
_SAMPLE = 100  # records that the delimiter is found from
_OPENING = 1_000  # lines that the form of a file is found from
_MOST_LINES, _MOST_BYTES = 1_000, 1 << 20  # of one record
_GAP = re.compile(r"[^\S\n]+")
_OUTSIDE = re.compile(r"(?m)^\t|\t$")
_OPEN = "unexpected end of data"  # what csv says of a quote that nothing closes
_NOT_UTF8 = b"\xff"  # stands for a separator of several bytes; no good line has it


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
            records = _records(lines, delimiter or likely)
            sample = [(sample[n][0], "\n".join(lines[n : n + count])) for n, count, _ in records]
    filled = [(number, text) for number, text in sample[:_SAMPLE] if text.strip()]
    skipped = {}
    if len(filled) > 1 and is_count(filled[0][1]):
        skipped[filled[0][0]] = COUNT_LINE
        del filled[0]
    if delimiter is None:
        delimiter = find_delimiter([text for _, text in filled], source)
    order = Columns(columns.split(",")) if columns else None
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


def read_lines(block: Block, layout: Layout) -> Part:
    """Return what a block without quotes holds."""
    part = Part(block.source)
    view, separator = _view(block, layout.delimiter)
    order = layout.columns
    fields = Fields(view, separator, order.count)
    ends = fields.line_ends if view is block else line_ends(block)
    wanted = part.decodable(block, ends)
    for number, reason in layout.skipped.items():
        position = number - block.first
        if 0 <= position < len(wanted) and wanted[position]:
            wanted[position] = False
            part.dropped[reason] += 1
    others = fields.others[wanted[fields.others]]
    for (number, raw), found in zip(
        lines_at(block, ends, others), fields.found[others].tolist(), strict=True
    ):
        part.reject(number, f"{found} fields in place of {order.count}", raw.decode())
    rows = np.flatnonzero(wanted[fields.rows])
    if len(rows) == len(fields):
        numbers, chosen = fields.rows, None
    else:
        numbers, chosen = fields.rows[rows], rows

    def text(place: int) -> pa.Array:
        column = fields.column(place, chosen).view(pa.string())
        return column if layout.delimiter in ("\t", WHITESPACE) else stripped(column)

    part.add_table(
        order,
        lambda place: (text(place), {}),
        lambda place: (json_strings(text(place)), {}),
        block.first + numbers,
        lambda row: lines_at(block, ends, numbers[row : row + 1])[0][1].decode(),
    )
    part.find_ends()
    return part


def _view(block: Block, delimiter: str) -> tuple[Block, bytes]:
    """Return a block whose lines have the same fields, and the one byte between them."""
    separator = delimiter.encode()
    if delimiter == WHITESPACE:
        text = bytes(block.data).decode(errors="surrogateescape")
        text = _OUTSIDE.sub("", _GAP.sub("\t", text))
        data, separator = text.encode(errors="surrogateescape"), b"\t"
    elif len(separator) > 1:
        data, separator = bytes(block.data).replace(separator, _NOT_UTF8), _NOT_UTF8
    else:
        return block, separator
    return Block(block.source, block.first, block.lines, data), separator


# -- with quotes ------------------------------------------------------------------------------

Record: TypeAlias = "tuple[int, int, tuple[str, ...] | str]"
"""Position of its first line, how many lines it has (0: it goes on in the next block), and its
fields, or why it has none. Tuples, since the garbage collector does not track tuples of texts."""


def quoted_blocks(
    blocks: Iterable[Block], delimiter: str
) -> Iterator[tuple[Block, list[Record] | None]]:
    """Yield blocks that end where a record ends, and the records of those that have quotes."""
    held: Block | None = None
    for block in blocks:
        if held is not None:
            block, held = joined([held, block]), None
        data = bytes(block.data)
        if b'"' not in data and b"\r" not in data:
            yield block, None
            continue
        records = list(_records(_lines_of(block), delimiter, last=False))
        if records and not records[-1][1]:
            place = records.pop()[0]
            start = int(line_ends(block)[place - 1]) + 1 if place else 0
            held = Block(block.source, block.first + place, block.lines - place, data[start:])
            block = Block(block.source, block.first, place, data[:start])
        yield block, records
    if held is not None:
        yield held, list(_records(_lines_of(held), delimiter))


def read_quoted(found: tuple[Block, list[Record] | None], layout: Layout) -> Part:
    """Return what a block holds that :func:`quoted_blocks` gave."""
    block, records = found
    if records is None:
        return read_lines(block, layout)
    part = Part(block.source)
    lines = _lines_of(block)
    bad = set(undecodable(block, line_ends(block)).tolist())
    order = layout.columns
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    shown: list[str] = []
    for first, count, fields in records:
        number, text = block.first + first, "\n".join(lines[first : first + count])
        if bad and not bad.isdisjoint(range(first, first + count)):
            raw = text.encode(errors="surrogateescape")
            part.reject(number, why_undecodable(raw), raw.decode(errors="backslashreplace"))
        elif number in layout.skipped:
            part.dropped[layout.skipped[number]] += 1
        elif isinstance(fields, str):
            part.reject(number, fields, text)
        elif len(fields) != order.count:
            part.reject(number, f"{len(fields)} fields in place of {order.count}", text)
        else:
            rows.append(fields)
            numbers.append(number)
            shown.append(text)
    cells = list(zip(*rows, strict=True)) or [()] * order.count
    columns = [stripped(pa.array(column, type=pa.string())) for column in cells]
    part.add_table(
        order,
        lambda place: (columns[place], {}),
        lambda place: (json_strings(columns[place]), {}),
        np.array(numbers, dtype=np.int64),
        shown.__getitem__,
    )
    part.find_ends()
    return part


def _lines_of(block: Block) -> list[str]:
    return bytes(block.data).decode(errors="surrogateescape").split("\n")[:-1]


def _records(lines: Sequence[str], delimiter: str, *, last: bool = True) -> Iterator[Record]:
    """Yield the records of some lines; ``last``: no more lines follow these."""
    first = taken = size = 0

    def following() -> Iterator[str]:
        nonlocal taken, size
        while taken < len(lines) and taken - first < _MOST_LINES and size <= _MOST_BYTES:
            taken += 1
            size += len(lines[taken - 1])
            yield lines[taken - 1] + "\n"

    while first < len(lines):
        try:
            for fields in csv.reader(following(), delimiter=delimiter, strict=True):
                yield first, taken - first, tuple(fields)
                first, size = taken, 0
        except csv.Error as error:
            if str(error) == _OPEN:
                if taken == len(lines) and not last:
                    yield first, 0, ()
                    return
                taken = first + 1
            yield first, taken - first, str(error)
            first, size = taken, 0
