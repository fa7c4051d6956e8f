"""JSON lines → triples: a line is an object with head, relation and tail, or an array of three.

Lines with the keys of their block's first line and plain values go by columns: a pattern made of
these keys proves it for each line. Others are parsed one by one and gathered by their keys.
``orjson`` parses them; a line that it refuses, or that has a number of more digits than it keeps,
goes to ``json``, which knows such numbers, NaN, and halves of surrogate pairs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.loaders.delimited import line_ends, lines_at, whole_lines
from kgqa.loaders.strings import inside, mask_of
from kgqa.loaders.triples_header import PARTS
from kgqa.loaders.triples_rows import (
    HALF,
    Columns,
    TriplesPart,
    is_header,
    is_writable,
    members_of,
    texts_of,
)

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.blocks import Block
    from kgqa.loaders.triples_rows import Read

    Keys = tuple[str, ...] | None  # None: an array

_LONG_NUMBER = re.compile(rb"\d{19}")  # may be beyond 64 bits
_BLANKS = r"[ \t]*"
_TEXT = r'"[^"\\\x00-\x1f]*"'
_PART = rf"{_TEXT}|-?[1-9][0-9]{{0,17}}|0"
_MEMBER = rf"{_PART}|true|false|null"  # as Python writes them
_PLAIN_KEY = re.compile(r"[\w .:/@#$-]+")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


@dataclass(slots=True)
class _Table:
    """The lines of a block that have the same keys."""

    order: Columns | str  # or why they are not triples
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def add_to(self, part: TriplesPart) -> None:
        assert isinstance(self.order, Columns)
        part.add_table(
            self.order,
            lambda place: texts_of([row[place] for row in self.rows]),
            lambda place: members_of([row[place] for row in self.rows]),
            np.array(self.numbers),
            lambda row: self.lines[row].decode(),
        )


def read_json(block: Block, columns: str | None = None) -> TriplesPart:
    """Return what the lines of a block hold; ``columns``: what the values of an array are."""
    part = TriplesPart(block.source)
    array = Columns(columns.split(",") if columns else PARTS)
    ends = line_ends(block)
    left = part.decodable(block, ends)
    if left.any():
        left[_add_plain(part, block, ends, left, array)] = False
    rest = lines_at(block, ends, np.flatnonzero(left))
    careful = b"0" * 19 in b"\n".join(raw for _, raw in rest).translate(_DIGITS)
    tables: dict[Keys, _Table] = {None: _Table(array)}
    for number, raw in rest:
        try:
            found = _parsed(raw, careful)
        except (ValueError, RecursionError):
            part.reject(number, "no JSON", raw.decode())
            continue
        if isinstance(found, dict):
            keys: Keys = tuple(found)
            values = tuple(found.values())
        elif isinstance(found, list):
            keys, values = None, tuple(found)
        else:
            part.reject(number, "neither a JSON object nor an array", raw.decode())
            continue
        table = tables.get(keys)
        if table is None:
            table = tables[keys] = _Table(_order_of(keys or ()))
        if isinstance(table.order, str):
            part.reject(number, table.order, raw.decode())
        elif len(values) != table.order.count:
            reason = f"{len(values)} fields in place of {table.order.count}"
            part.reject(number, reason, raw.decode())
        else:
            table.numbers.append(number)
            table.lines.append(raw)
            table.rows.append(values)
    for table in tables.values():
        if table.rows:
            table.add_to(part)
    part.find_ends()
    return part


def _add_plain(
    part: TriplesPart, block: Block, ends: IntArray, wanted: BoolArray, array: Columns
) -> IntArray:
    """Add the lines that have the keys of the first one and plain values; return which they are."""
    places = np.flatnonzero(wanted)
    lines = whole_lines(block, ends)
    if not wanted.all():
        lines = lines.filter(pa.array(wanted))
    lines = lines.view(pa.string())
    shape = _shape_of(lines[0].as_py(), array)
    if shape is None or pc.extract_regex(lines.slice(0, 1), shape[1]).null_count:
        return places[:0]
    order, pattern = shape
    found = pc.extract_regex(lines, pattern)
    if found.null_count:
        plain = found.is_valid()
        found, lines, places = found.filter(plain), lines.filter(plain), places[mask_of(plain)]

    def text(place: int) -> Read:
        values = found.field(f"v{place}")
        texts, quoted = inside(values, 1, 1), pc.starts_with(values, '"')
        return texts if pc.all(quoted).as_py() else pc.if_else(quoted, texts, values), {}

    def member(place: int) -> Read:
        values = found.field(f"v{place}")
        missing = pc.is_in(values, pa.array(['""', "null"]))
        return pc.if_else(missing, pa.scalar(None, pa.string()), values), {}

    part.add_table(order, text, member, block.first + places, lambda row: lines[row].as_py()[:-1])
    return places


def _shape_of(line: str, array: Columns) -> tuple[Columns, str] | None:
    """Return the order of a line's values, and a pattern of lines with its keys."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    order, names, (opening, closing) = array, [""] * array.count, ("[", "]")
    if isinstance(found, dict):
        if not is_header(tuple(found)) or not all(map(_PLAIN_KEY.fullmatch, found)):
            return None
        order, (opening, closing) = Columns(tuple(found)), ("{", "}")
        names = [f'"{re.escape(key)}"{_BLANKS}:{_BLANKS}' for key in found]
    values = [
        name + (f"(?P<v{place}>{_PART})" if place in order.places else f"(?P<v{place}>{_MEMBER})")
        for place, name in enumerate(names)
    ]
    listed = f"{_BLANKS},{_BLANKS}".join(values)
    return order, rf"\A{_BLANKS}\{opening}{_BLANKS}{listed}{_BLANKS}\{closing}{_BLANKS}\n\z"


def _order_of(keys: tuple[str, ...]) -> Columns | str:
    """Return where an object's parts stand, or why it is not a triple."""
    if not is_header(keys):
        return "object without head, relation and tail"
    return Columns(keys) if all(map(is_writable, keys)) else HALF


def _parsed(raw: bytes, careful: bool) -> Any:
    """Return what a line of JSON says. Raises ValueError or RecursionError if it is not JSON."""
    try:
        if not (careful and _LONG_NUMBER.search(raw)):
            return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    return json.loads(raw)
