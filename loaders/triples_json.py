"""JSON lines → triples: a line is an object with head, relation and tail, or an array of three.

Lines are gathered by their keys. ``orjson`` parses them; a line that it refuses, or that has a
number of more digits than it keeps, goes to ``json``, which knows such numbers, NaN, and halves of
surrogate pairs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from kgqa.loaders.delimited import lines_at
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
    from kgqa.loaders.blocks import Block

    Keys = tuple[str, ...] | None  # None: an array

_LONG_NUMBER = re.compile(rb"\d{19}")  # may be beyond 64 bits
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


@dataclass(slots=True)
class _Table:
    """The lines of a block that have the same keys."""

    order: Columns | str  # or why they are not triples
    numbers: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    cells: list[Any] = field(default_factory=list)  # of all lines: row after row

    def add_to(self, part: TriplesPart) -> None:
        assert isinstance(self.order, Columns)
        count = self.order.count
        part.add_table(
            self.order,
            lambda place: texts_of(self.cells[place::count]),
            lambda place: members_of(self.cells[place::count]),
            np.array(self.numbers),
            lambda row: self.lines[row].decode(),
        )


def read_json(block: Block, columns: str | None = None) -> TriplesPart:
    """Return what the lines of a block hold; ``columns``: what the values of an array are."""
    part = TriplesPart(block.source)
    array = Columns(columns.split(",") if columns else PARTS)
    careful = b"0" * 19 in bytes(block.data).translate(_DIGITS)
    tables: dict[Keys, _Table] = {None: _Table(array)}
    for number, raw in lines_at(block, np.flatnonzero(part.decodable(block))):
        try:
            found = json.loads(raw) if careful and _LONG_NUMBER.search(raw) else orjson.loads(raw)
        except orjson.JSONDecodeError:
            try:
                found = json.loads(raw)
            except (ValueError, RecursionError):
                part.reject(number, "no JSON", raw.decode())
                continue
        if isinstance(found, dict):
            keys: Keys = tuple(found)
            values = list(found.values())
        elif isinstance(found, list):
            keys, values = None, found
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
            table.cells += values
    for table in tables.values():
        if table.numbers:
            table.add_to(part)
    part.find_ends()
    return part


def _order_of(keys: tuple[str, ...]) -> Columns | str:
    """Return where an object's parts stand, or why it is not a triple."""
    if not is_header(keys):
        return "object without head, relation and tail"
    return Columns(keys) if all(map(is_writable, keys)) else HALF
