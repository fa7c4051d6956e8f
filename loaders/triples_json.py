"""JSON lines → triples: a line is an object with head, relation and tail, or an array of three.

Lines are parsed one by one and gathered by their keys, so that each group is a table. ``orjson``
parses them; a line that it refuses, or that has a number of more digits than it keeps, goes to
``json``, which knows such numbers, NaN, and halves of surrogate pairs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from kgqa.loaders.delimited import line_ends, lines_at
from kgqa.loaders.strings import json_strings
from kgqa.loaders.tables import (
    HALF,
    PARTS,
    Columns,
    is_header,
    is_writable,
    members_of,
    texts_of,
)
from kgqa.loaders.triples_part import Part

if TYPE_CHECKING:
    from kgqa.loaders.blocks import Block

    Keys = tuple[str, ...] | None  # None: an array

_LONG_NUMBER = re.compile(rb"\d{19}")  # may be beyond 64 bits


@dataclass(slots=True)
class _Table:
    """The lines of a block that have the same keys; rows are tuples of the values."""

    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def add_to(self, part: Part, order: Columns) -> None:
        cells = list(zip(*self.rows, strict=True))
        part.add_table(
            order,
            lambda place: texts_of(cells[place]),
            lambda place: _members(cells[place]),
            np.array(self.numbers),
            lambda row: self.lines[row].decode(),
        )


def read_json(block: Block, columns: str | None = None) -> Part:
    """Return what the lines of a block hold; ``columns``: what the values of an array are."""
    part = Part(block.source)
    ends = line_ends(block)
    rows = np.flatnonzero(part.decodable(block, ends))
    orders: dict[Keys, Columns | str] = {None: Columns(columns.split(",") if columns else PARTS)}
    tables: dict[Keys, _Table] = {}
    for number, raw in lines_at(block, ends, rows):
        try:
            found = _parsed(raw)
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
        if keys not in orders:
            orders[keys] = _order_of(keys or ())
        order = orders[keys]
        if isinstance(order, str):
            part.reject(number, order, raw.decode())
        elif len(values) != order.count:
            reason = f"{len(values)} fields in place of {order.count}"
            part.reject(number, reason, raw.decode())
        else:
            table = tables.setdefault(keys, _Table())
            table.numbers.append(number)
            table.lines.append(raw)
            table.rows.append(values)
    for keys, table in tables.items():
        order = orders[keys]
        assert isinstance(order, Columns)
        table.add_to(part, order)
    part.find_ends()
    return part


def _order_of(keys: tuple[str, ...]) -> Columns | str:
    """Return where an object's parts stand, or why it is not a triple."""
    if not is_header(keys):
        return "object without head, relation and tail"
    return Columns(keys) if all(map(is_writable, keys)) else HALF


def _parsed(raw: bytes) -> Any:
    """Return what a line of JSON says. Raises ValueError or RecursionError if it is not JSON."""
    try:
        if not _LONG_NUMBER.search(raw):
            return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    return json.loads(raw)


def _members(cells: tuple[Any, ...]) -> tuple[pa.Array, dict[int, str]]:
    if all(cell is None or isinstance(cell, str) for cell in cells):
        try:
            return json_strings(pa.array(cells, type=pa.string())), {}
        except UnicodeEncodeError:
            pass
    return members_of(cells)
