"""Delimited text → triples: the lines of a block by columns, and any odd line by itself.

How a file is cut (its delimiter, header and columns) is found from its first lines. A line goes by
columns where it has the right number of fields and nothing in it that the rules for one line would
treat otherwise; all others go through those rules (``tables``). What it does not do: quotes, which
may hold delimiters and line ends (``triples_csv``).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.loaders.blocks import Block, decoded
from kgqa.loaders.fields import Fields
from kgqa.loaders.tables import (
    BLANK,
    COUNT_LINE,
    HEADER,
    PARTS,
    WHITESPACE,
    Columns,
    find_delimiter,
    is_count,
    is_header,
    splitter,
)
from kgqa.loaders.triples_part import Part, add_fields
from kgqa.loaders.triples_text import bad_lines, is_utf8, json_strings, spans, stripped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.tables import Row

    Record = tuple[int, bytes]  # number of its first line, bytes

_SAMPLE = 100  # records that the delimiter is found from
_OPENING = 1_000  # lines that the form of a file is told from
_RETURN, _QUOTE, _LINE_FEED = b'\r"\n'
_FIRST_VISIBLE, _FIRST_NOT_ASCII = 0x21, 0x80
_TABS = bytes.maketrans(b"\t", b" ")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are cut. ``skipped``: why a line of that number is no row."""

    delimiter: str
    columns: Columns
    split: Callable[[str], list[str]]
    skipped: dict[int, str] = field(default_factory=dict)


def find_layout(
    blocks: Iterator[Block],
    records: Callable[[Block], Iterable[Record]],
    source: str,
    delimiter: str | None = None,
    columns: str | None = None,
    header: bool | None = None,
) -> tuple[Layout, Iterator[Block]]:
    """Return the layout of a file, and all its blocks.

    ``delimiter``: one character or "whitespace", found where it is None. ``columns``: the columns'
    names, comma-separated; without it a header says them, else they are head, relation, tail.
    ``header``: whether the first line is one, found where it is None. Where the first line is a
    lone number it says how many lines follow. Raises DumpMalformedError where no delimiter is
    found, UsageError where the delimiter or the header cannot be meant.
    """
    opening, blocks = opened(blocks)
    sample: list[tuple[int, str]] = []
    for number, raw in records(opening) if opening else ():
        if (text := decoded(number, raw, [])) is not None:
            sample.append((number, text))
        if len(sample) == _SAMPLE:
            break
    filled = [(number, text) for number, text in sample if text.strip()]
    skipped = {}
    if len(filled) > 1 and is_count(filled[0][1]):
        skipped[filled[0][0]] = COUNT_LINE
        del filled[0]
    if delimiter is None:
        delimiter = find_delimiter([text for _, text in filled], source)
    split = splitter(delimiter)
    order = Columns(columns.split(",")) if columns else None
    for number, text in filled:
        try:
            fields = split(text)
        except (ValueError, csv.Error):
            continue
        if is_header(fields) if header is None else header:
            skipped[number] = HEADER
            order = order or Columns(fields)
        break
    layout = Layout(delimiter, order or Columns(PARTS), split, skipped)
    return layout, blocks


def opened(blocks: Iterator[Block]) -> tuple[Block | None, Iterator[Block]]:
    """Return a block of the first lines, a thousand where there are so many, and all blocks."""
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if sum(each.lines for each in held) >= _OPENING:
            break
    if not held:
        return None, blocks
    first = held[0]
    if len(held) > 1:
        data = b"".join(bytes(block.data) for block in held)
        first = Block(first.source, first.first, sum(each.lines for each in held), data)
    return first, chain([first], blocks)


def lines_of(block: Block) -> Iterator[Record]:
    """Yield the lines of a block."""
    data = bytes(block.data)
    start = 0
    for number in range(block.first, block.first + block.lines):
        end = data.index(b"\n", start)
        yield number, data[start:end]
        start = end + 1


def lines_where(block: Block, wanted: BoolArray, ends: IntArray) -> list[Record]:
    """Return some lines of a block; ``ends``: where each line's line feed is."""
    data = memoryview(block.data)
    return [
        (block.first + line, bytes(data[int(ends[line - 1]) + 1 if line else 0 : int(ends[line])]))
        for line in np.flatnonzero(wanted).tolist()
    ]


def read_delimited(block: Block, layout: Layout) -> Part:
    """Return what the lines of a block hold; the delimiter is none of ``tables.QUOTED``."""
    part = Part(block.source)
    if layout.delimiter == WHITESPACE:
        separator = b" "
        view = Block(block.source, block.first, block.lines, bytes(block.data).translate(_TABS))
    else:
        separator, view = layout.delimiter.encode(), block
    if len(separator) > 1 or separator[0] in (_RETURN, _QUOTE, _LINE_FEED):
        read_records(lines_of(block), layout, part)
        part.find_ends()
        return part
    fields = Fields(view, separator, layout.columns.count)
    good = fields.bytes[np.maximum(fields.ends - 1, 0)] != _RETURN
    for number in layout.skipped:
        good &= fields.rows != number - block.first
    if layout.delimiter == WHITESPACE:
        good &= _only_words(fields)
    if not is_utf8(pa.py_buffer(block.data)):
        good &= _readable(fields)
    rows = np.flatnonzero(good)
    strip = layout.delimiter not in ("\t", WHITESPACE)
    data = pa.py_buffer(block.data)

    def text(place: int, mask: BoolArray | None) -> pa.Array:
        chosen = rows if mask is None else rows[mask]
        found = spans(data, fields.start(place)[chosen], fields.end(place)[chosen])
        found = found.view(pa.string())
        return stripped(found) if strip else found

    unsure = add_fields(
        part, layout.columns, text, lambda place, mask: json_strings(text(place, mask))
    )
    good[rows[unsure]] = False
    if len(fields.others) or not good.all():
        careful = np.ones(block.lines, dtype=np.bool_)
        careful[fields.rows[good]] = False
        ends = np.flatnonzero(fields.bytes == _LINE_FEED)
        read_records(lines_where(block, careful, ends), layout, part)
    part.find_ends()
    return part


def read_records(records: Iterable[Record], layout: Layout, part: Part) -> None:
    """Read records one by one: add the edges, count and reject the others."""
    rows: list[Row] = []
    for number, raw in records:
        if number in layout.skipped:
            part.dropped[layout.skipped[number]] += 1
            continue
        if (text := decoded(number, raw, part.rejects)) is None:
            continue
        if not text.strip():
            part.dropped[BLANK] += 1
            continue
        try:
            rows.append(layout.columns.row(layout.split(text)))
        except (ValueError, csv.Error) as error:
            part.rejects.append((number, str(error), text))
    part.add_rows(rows)


def _only_words(fields: Fields) -> BoolArray:
    """Return which lines are words of visible ASCII with one blank between two."""
    good = np.ones(len(fields), dtype=np.bool_)
    for place in range(fields.marks.shape[1]):
        good &= fields.start(place) < fields.end(place)
    data = fields.bytes
    odd = (data < _FIRST_VISIBLE) & (data != ord(" ")) & (data != _LINE_FEED)
    odd |= data >= _FIRST_NOT_ASCII
    good[_lines_with(fields, np.flatnonzero(odd))] = False
    return good


def _readable(fields: Fields) -> BoolArray:
    """Return which lines are UTF-8."""
    good = np.ones(len(fields), dtype=np.bool_)
    ends = np.flatnonzero(fields.bytes == _LINE_FEED)
    good[np.isin(fields.rows, bad_lines(fields.bytes, ends))] = False
    return good


def _lines_with(fields: Fields, places: IntArray) -> IntArray:
    """Return the lines that hold some of ``places``."""
    if not len(fields) or not len(places):
        return np.empty(0, dtype=np.int64)
    found: IntArray = np.unique(np.searchsorted(fields.ends, places))
    return found[found < len(fields)]
