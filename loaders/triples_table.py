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
from pyarrow import csv as arrow_csv

from kgqa.loaders.blocks import Block
from kgqa.loaders.strings import json_strings, lines_at, mask_of, whole_lines, why_undecodable
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kgqa.graph.model import IntArray

HEADER = "header"
COUNT_LINE = "count of lines"
_SAMPLE = 100  # records that the delimiter is found from
_OPENING = 1_000  # lines that the form of a file is found from
_MOST_LINES, _MOST_BYTES = 1_000, 1 << 20  # of one record
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
    count = layout.columns.count
    wanted = np.ones(block.lines, dtype=np.bool_)
    for first, size, _ in records:
        wanted[first : first + size] = False
    wanted = part.decodable(block, wanted)
    for number, reason in layout.skipped.items():
        if 0 <= number - block.first < len(wanted) and wanted[number - block.first]:
            wanted[number - block.first] = False
            part.dropped[reason] += 1
    places = np.flatnonzero(wanted)
    lines = whole_lines(block).take(pa.array(places))
    split = _parsed if layout.delimiter in QUOTED else _split
    cells, others = split(lines, layout.delimiter, count)
    for row, fields in others.items():
        reason = f"{fields} fields in place of {count}"
        part.reject(block.first + int(places[row]), reason, _text(lines[row]))
    good = np.delete(np.arange(len(places)), list(others))
    _add(part, layout, cells, block.first + places[good], lambda row: _text(lines[good[row]]))
    if records:
        _add_records(part, block, records, layout)
    part.find_ends()
    return part


def _split(lines: pa.Array, delimiter: str, count: int) -> tuple[list[pa.Array], dict[int, int]]:
    """Return the columns of those lines that have so many fields, and the others' numbers of them.

    ``pyarrow.csv`` is faster (31 against 11 million lines a second), but a lone carriage return
    ends a line there.
    """
    texts = lines.view(pa.string())
    if delimiter == WHITESPACE:
        fields = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))
    else:
        fields = pc.split_pattern(pc.ascii_rtrim(texts, "\n"), delimiter)
    counts = pc.list_value_length(fields).to_numpy()
    whole = fields.filter(pa.array(counts == count)).flatten()
    others = np.flatnonzero(counts != count)
    return [whole[at::count] for at in range(count)], dict(
        zip(others.tolist(), counts[others].tolist(), strict=True)
    )


def _parsed(lines: pa.Array, delimiter: str, count: int) -> tuple[list[pa.Array], dict[int, int]]:
    """Return the same of lines without a carriage return in which all quotes are in place."""
    others: dict[int, int] = {}

    def note(row: arrow_csv.InvalidRow) -> str:
        others[row.number - 2] = row.actual_columns  # row 1 is the header
        return "skip"

    names = [str(at) for at in range(count)]
    header = f"{delimiter.join(names)}\n".encode()  # else a byte order mark would be taken off
    data = header + bytes(lines.buffers()[2] or b"")
    table = arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(use_threads=False, block_size=len(data)),  # so that rows are numbered
        arrow_csv.ParseOptions(
            delimiter=delimiter, ignore_empty_lines=False, invalid_row_handler=note
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    return [column.combine_chunks() for column in table.columns], others


def _add(
    part: TriplesPart,
    layout: Layout,
    cells: list[pa.Array],
    numbers: IntArray,
    line: Callable[[int], str],
) -> None:
    if layout.delimiter not in ("\t", WHITESPACE):
        cells = [pc.utf8_trim_whitespace(column) for column in cells]

    part.add_table(
        layout.columns,
        lambda place, as_json: (json_strings(cells[place]) if as_json else cells[place], {}),
        numbers,
        line,
    )


def _text(line: pa.Scalar) -> str:
    text: str = line.as_py().decode().removesuffix("\n")
    return text


# -- records that are not a line, or have a fault ---------------------------------------------


def quoted_blocks(blocks: Iterable[Block], delimiter: str) -> Iterator[tuple[Block, list[Record]]]:
    """Yield blocks that end where a record ends, and their records that go through ``csv``."""
    held: list[Block] = []
    for block in chain(blocks, [None]):
        held += [block] if block else []
        if not held:
            return
        whole = joined(held)
        records: list[Record] = []
        following = 0  # the line after the last record
        end = whole.lines
        odd = _odd_lines(whole, delimiter)
        lines = bytes(whole.data).decode(errors="surrogateescape").split("\n") if odd else []
        for line in odd:
            if line >= following:
                record = _record(lines[:-1], line, delimiter, last=block is None)
                if not record[1]:
                    end = line
                    break
                records.append(record)
                following = line + record[1]
        cut = int(whole.ends[end - 1]) + 1 if end else 0
        if end:
            yield Block(whole.source, whole.first, end, whole.data[:cut]), records
        rest = whole.lines - end
        held = [Block(whole.source, whole.first + end, rest, whole.data[cut:])] if rest else []


def _odd_lines(block: Block, delimiter: str) -> list[int]:
    """Return the lines with a carriage return, or a quote that is not in place.

    In place are those that open a field, close one, or are doubled between these.
    """
    data = bytes(block.data)
    if b'"' not in data and b"\r" not in data:
        return []
    field = rf'(?:[^"\r\n{delimiter}]*|"(?:[^"\r\n]|"")*")'
    plain = pc.match_substring_regex(whole_lines(block), rf"\A{field}(?:{delimiter}{field})*\n\z")
    odd: list[int] = np.flatnonzero(~mask_of(plain)).tolist()
    return odd


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
    places: list[tuple[int, str]] = []
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
            places.append((number, text))
    cells = [pa.array([row[at] for row in rows], type=pa.string()) for at in range(count)]
    numbers = np.array([number for number, _ in places], dtype=np.int64)
    _add(part, layout, cells, numbers, lambda row: places[row][1])
