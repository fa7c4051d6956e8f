"""Delimited text → triples: with tabs, bars, white space, or with quotes (RFC 4180).

How a file is split (its delimiter, header and columns) is found from its first lines. Lines are
split by columns; records of a form that has quotes, perhaps of several lines, by ``csv``, where a
quote that nothing closes within reach costs its own line and no other.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError
from kgqa.loaders.blocks import Block
from kgqa.loaders.encodings import above_rows
from kgqa.loaders.forms import is_list_of_words
from kgqa.loaders.strings import (
    BLANK,
    Fields,
    json_strings,
    lines_at,
    split_block,
    whole_lines,
    why_undecodable,
)
from kgqa.loaders.triples_rows import (
    DELIMITERS,
    PARTS,
    QUOTED,
    WHITESPACE,
    Columns,
    TriplesPart,
    check_delimiter,
    check_relations,
    check_triples,
    find_delimiter,
    is_count,
    is_header,
    is_header_of,
    likely_order,
    saying_relation,
    split_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kgqa.graph.model import BoolArray, IntArray

HEADER = "header"
SEPARATOR = "line that names the separator"
COUNT_LINE = "count of lines"
_SAMPLE = 100  # records that the delimiter is found from
_OPENING = 1_000  # lines that the form of a file is found from
_MOST_LINES, _MOST_BYTES = 1_000, 1 << 20  # of one record
_OPEN = "unexpected end of data"  # what csv says of a quote that nothing closes
_STRAY = "expected after"  # and of one that ends a field too early
_LINE_ENDS = frozenset("\r\n")

Record: TypeAlias = "tuple[int, str, list[str] | str]"
"""Number of its first line, its text, and its fields, or why it has none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are split. ``skipped``: why a line of that number is not a row.

    ``quoted``: whether fields may be quoted, and contain the delimiter and line ends.
    """

    delimiter: str
    columns: Columns
    skipped: dict[int, str] = field(default_factory=dict)
    quoted: bool = False

    @property
    def is_headed(self) -> bool:
        """Whether the columns' meaning comes from a header."""
        return HEADER in self.skipped.values()


def find_layout(
    blocks: Iterator[Block],
    source: str,
    delimiter: str | None = None,
    columns: str | None = None,
    header: bool | None = None,
    likely: str = "",
    alike: Layout | None = None,
) -> tuple[Layout, Iterator[Block]]:
    """Detect the layout of a file from its first lines; return it, and all blocks.

    ``source``: the file's name for errors. ``delimiter``: one character or "whitespace", detected
    if None. ``columns``: the columns' names, comma-separated; else the header's names, or those
    guessed from values (``likely_order``), or those of the layout of a similar file (``alike``).
    ``header``: whether the first line is one, detected if None. A first line that is only a number
    counts the lines that follow. ``likely``: the delimiter by the file's name. Raises
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
            sample = [(opening.first + at, "\n".join(lines[at:end])) for at, end, _ in records]
    skipped, said = _lines_above([text for _, text in sample])
    delimiter = delimiter or said or None
    skipped = {sample[at][0]: reason for at, reason in skipped.items()}
    filled = [
        (number, text)
        for number, text in sample[:_SAMPLE]
        if text.strip() and number not in skipped
    ]
    if len(filled) > 1 and is_count(filled[0][1]):
        skipped[filled[0][0]] = COUNT_LINE
        del filled[0]
    if delimiter is None:
        delimiter = find_delimiter([text for _, text in filled], source)
        if delimiter == WHITESPACE and is_list_of_words([text.split() for _, text in filled]):
            raise DumpMalformedError(
                f"{source} is a text, not a file of triples (line 1: {filled[0][1][:80]!r}).",
                "If blanks do part heads, relations and tails there, say `delimiter` whitespace; "
                "prose is read by `kgqa ingest text`.",
            )
    order = Columns(columns.split(",")) if columns else None
    rows = [fields for _, text in filled if (fields := split_record(text, delimiter))]
    if order is None and header is None and rows and not is_header(rows[0]):
        check_triples(rows, source)
    quoted = delimiter in QUOTED or _is_quoted([text for _, text in filled], delimiter)
    for number, text in filled:
        fields = split_record(text, delimiter, quoted=quoted)
        if not fields:
            continue
        known = is_header(fields) or (order is not None and is_header_of(fields, rows[1:]))
        if known if header is None else header:
            skipped[number] = HEADER
            order = order or Columns(saying_relation(fields, rows[1:]))
        break
    if order is None and alike is not None and alike.columns.count == len(PARTS):
        order = alike.columns
    if order is None:
        split = (split_record(text, delimiter, quoted=quoted) for _, text in sample)
        rows = [fields for fields in split if len(fields) == len(PARTS)]
        said_by = likely_order(rows)
        if said_by != PARTS:
            check_relations(rows, said_by.index("relation"), source)
        order = Columns(said_by)
    return Layout(delimiter, order, skipped, quoted), blocks


def _lines_above(lines: Sequence[str]) -> tuple[dict[int, str], str]:
    """Return why each line above a table is skipped, by index, and the delimiter they declare.

    The delimiter is "" if they declare none.
    """
    if lines and is_header(re.split(r"[,;|\t]", lines[0].lstrip("# "))):
        return {}, ""
    count, said = above_rows(lines, DELIMITERS)
    reasons = {at: BLANK for at in range(count) if lines[at].strip()}
    return ({**reasons, 0: SEPARATOR} if said else reasons), said


def _is_quoted(records: Sequence[str], delimiter: str) -> bool:
    """Return whether fields between tabs or bars are quoted; else quotes are part of names.

    They are if all fields of the first record are in quotes, or if a quoted field doubles an inner
    quote.
    """
    if delimiter == WHITESPACE or not records:
        return False
    first = records[0].split(delimiter)
    if all(len(each) > 1 and each[0] == each[-1] == '"' for each in first):
        return True
    fields = (each for record in records for each in record.split(delimiter))
    return any(each[:1] == each[-1:] == '"' and '""' in each[1:-1] for each in fields)


def opened(blocks: Iterator[Block]) -> tuple[Block | None, Iterator[Block]]:
    """Return one block of the first lines (a thousand if available), and all blocks.

    The block is None without lines.
    """
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
    """Return the first ``count`` lines of a block, or all if it has fewer."""
    lines = bytes(block.data).split(b"\n", count)[: min(count, block.lines)]
    return [line.decode(errors="replace") for line in lines]


def joined(blocks: Sequence[Block]) -> Block:
    """Join consecutive blocks to one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    data = b"".join(bytes(block.data) for block in blocks)
    return Block(first.source, first.first, sum(block.lines for block in blocks), data)


def read_lines(block: Block, layout: Layout) -> TriplesPart:
    """Parse the lines of a block as triples."""
    part = TriplesPart(block.source)
    wanted = part.decodable(block)
    for number, reason in layout.skipped.items():
        if 0 <= number - block.first < len(wanted) and wanted[number - block.first]:
            wanted[number - block.first] = False
            part.dropped[reason] += 1
    fields = _split_lines(block, layout.delimiter, layout.columns.count, wanted)
    numbers = fields.others.values()
    for (number, line), count in zip(lines_at(block, list(fields.others)), numbers, strict=True):
        reason = f"{count} fields in place of {layout.columns.count}"
        part.reject(number, reason, line.decode())
    rows = fields.rows
    _add(part, layout, fields.columns, block.first + rows, lambda at: _line(block, int(rows[at])))
    part.find_ends()
    return part


def _split_lines(block: Block, delimiter: str, count: int, wanted: BoolArray) -> Fields:
    """Split the ``wanted`` lines of a block into ``count`` fields as strings.

    Also lists lines with another number of fields. ``pyarrow.csv`` is faster (31 against 24 million
    lines a second), but a lone carriage return ends a line there.
    """
    if len(delimiter.encode()) == 1:
        fields = split_block(block, delimiter, count)
        kept = wanted[fields.rows]
        columns, rows = fields.columns, fields.rows[kept]
        if len(rows) < len(kept):
            columns = [column.filter(pa.array(kept)) for column in columns]
        others = {row: number for row, number in fields.others.items() if wanted[row]}
        return Fields([column.view(pa.string()) for column in columns], rows, others)
    places = np.flatnonzero(wanted)
    lines = whole_lines(block).take(pa.array(places)).view(pa.string())
    if delimiter == WHITESPACE:
        lists = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lines))
    else:
        lists = pc.split_pattern(pc.ascii_rtrim(lines, "\n"), delimiter)
    counts = pc.list_value_length(lists).to_numpy()
    good = counts == count
    whole = lists.filter(pa.array(good)).flatten()
    others = dict(zip(places[~good].tolist(), counts[~good].tolist(), strict=True))
    return Fields([whole[at::count] for at in range(count)], places[good], others)


def _add(
    part: TriplesPart,
    layout: Layout,
    cells: list[pa.Array],
    numbers: IntArray,
    line: Callable[[int], str],
) -> None:
    """Add rows, given as columns of texts, to a part."""
    if layout.delimiter != WHITESPACE:
        cells = [pc.utf8_trim_whitespace(column) for column in cells]

    part.add_table(
        layout.columns,
        lambda place, as_json: (json_strings(cells[place]) if as_json else cells[place], {}),
        numbers,
        line,
    )


def _line(block: Block, place: int) -> str:
    """Return one line of a block as text."""
    [(_, line)] = lines_at(block, [place])
    return line.decode()


def quoted_records(blocks: Iterable[Block], delimiter: str) -> Iterator[tuple[str, list[Record]]]:
    """Yield (source, records) of consecutive lines; a record may span lines."""
    held: list[str] = []
    source, first = "", 1
    for block in chain(blocks, [None]):
        if block is not None:
            source, first = block.source, first if held else block.first
            held += bytes(block.data).decode(errors="surrogateescape").split("\n")[:-1]
        records: list[Record] = []
        end = 0
        for at, end, fields in _records(held, delimiter, last=block is None):
            records.append((first + at, "\n".join(held[at:end]), fields))
        if records:
            yield source, records
        held, first = held[end:], first + end


def _records(
    lines: Sequence[str], delimiter: str, *, last: bool = True
) -> Iterator[tuple[int, int, list[str] | str]]:
    """Yield (index of the first line, of the line after, fields or fault) of each record.

    A record that may continue beyond the given lines is omitted, unless these are the ``last``.
    """
    at = taken = size = 0

    def following() -> Iterator[str]:
        """Yield the lines of a record for the CSV parser, within limits."""
        nonlocal taken, size
        while taken < len(lines) and taken - at < _MOST_LINES and size <= _MOST_BYTES:
            taken += 1
            size += len(lines[taken - 1])
            yield lines[taken - 1] + "\n"

    while at < len(lines):
        try:
            for fields in csv.reader(following(), delimiter=delimiter, strict=True):
                yield at, taken, fields
                at, size = taken, 0
        except csv.Error as error:
            if str(error) == _OPEN:
                if taken == len(lines) and not last:
                    return
                taken = at + 1
            yield at, taken, str(error)
            at, size = taken, 0


def _without_stray_quotes(fields: list[str] | str, text: str, layout: Layout) -> list[str] | str:
    """Remove stray quotes from a record's fields; return the fault of a malformed record.

    ``fields`` that are a list are returned unchanged.
    """
    if isinstance(fields, list) or _STRAY not in fields or not _LINE_ENDS.isdisjoint(text):
        return fields
    plain = next(csv.reader([text], delimiter=layout.delimiter), [])
    return plain if len(plain) == layout.columns.count else fields


def read_records(source: str, records: Sequence[Record], layout: Layout) -> TriplesPart:
    """Convert quoted records to triples."""
    part = TriplesPart(source)
    count = layout.columns.count
    rows: list[list[str]] = []
    places: list[tuple[int, str]] = []
    for number, text, fields in records:
        raw = text.encode(errors="surrogateescape")
        if reason := why_undecodable(raw):
            part.reject(number, reason, raw)
        elif number in layout.skipped:
            part.dropped[layout.skipped[number]] += 1
        elif isinstance(cells := _without_stray_quotes(fields, text, layout), str):
            part.reject(number, cells, text)
        elif len(cells) != count:
            part.reject(number, f"{len(cells)} fields in place of {count}", text)
        else:
            rows.append(cells)
            places.append((number, text))
    columns = [pa.array([row[at] for row in rows], type=pa.string()) for at in range(count)]
    numbers = np.array([number for number, _ in places], dtype=np.int64)
    _add(part, layout, columns, numbers, lambda row: places[row][1])
    part.find_ends()
    return part
