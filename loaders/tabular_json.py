"""JSON as a table: one object a line, or an array of objects, of which nothing is rounded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from kgqa.errors import DumpMalformedError
from kgqa.loaders.blocks import read_json, unpacked
from kgqa.loaders.tabular_table import MAX_TEXT, Budget, Table, arrow_table, check_size, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_EXACT = 2.0**53  # beyond, a float is not every integer
_MANY_KEYS, _KEY_BYTES = 1_000, 200  # in a file; of one that is counted
_KEY = re.compile(rb'"([^"\\]{1,%d})"\s*:' % _KEY_BYTES)
_LARGEST = 256 << 20  # bytes of an array
_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:(\[)\s*[{\]]|(?=\{\s*")(\{))')


def read_json_lines(path: Path, name: str) -> Table:
    """Read a file of JSON objects, one a line, as a table.

    Arrow's reader is 20 times as fast as Python's, but takes a column of one type only, and large
    integers as floats: such a file is read line by line. Raises DumpMalformedError.
    """
    if _has_many_keys(path):  # for each of which Arrow's reader goes through all others
        return _read_by_lines(path, name)
    try:
        block = arrow_json.ReadOptions(use_threads=False, block_size=MAX_TEXT)
        table = arrow_json.read_json(path, block)
    except (pa.ArrowException, OSError):
        return _read_by_lines(path, name)
    rounded = any(
        pa.types.is_floating(column.type)
        and pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py()
        for column in table.columns
    )
    return _read_by_lines(path, name) if rounded else arrow_table(name, path.name, table)


def read_json_array(path: Path, name: str) -> Table:
    """Read a file that is one JSON array of objects as a table. Raises DumpMalformedError."""
    records = read_json(path, "a JSON array", _LARGEST, "Give one object a line.")
    return _table_of(path, name, ((place, each, "") for place, each in enumerate(records, 1)))


def json_start(path: Path) -> str:
    """Return "[" if a file begins as an array of objects, "{" as objects, "" as anything else."""
    with unpacked(path) as stream:
        match = _START.match(stream.read(4_096))
    return (match[1] or match[2]).decode() if match else ""


def _read_by_lines(path: Path, name: str) -> Table:
    """Read JSON lines by Python's parser, line by line."""
    return _table_of(path, name, _parsed_lines(path))


def _parsed_lines(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Yield (line number, parsed value or None, line) of JSON lines."""
    for number, line in _lines(path):
        try:
            yield number, json.loads(line), line
        except (ValueError, RecursionError):
            yield number, None, line


def _table_of(path: Path, name: str, records: Iterable[tuple[int, Any, str]]) -> Table:
    """Build a table from (line number, value, line) records; missing keys become nulls.

    Values that are not objects are listed as broken. Raises DumpMalformedError if none is.
    """
    columns: dict[str, list[Any]] = {}
    rows: list[int] = []
    broken: list[tuple[int, str, str]] = []
    budget = Budget(path.name)
    for number, row, line in records:
        if not isinstance(row, dict):
            broken.append((number, "not a JSON object", (line or json.dumps(row))[:1_000]))
            continue
        for key, value in row.items():
            if key not in columns:
                check_size(path.name, 1, len(columns) + 1)
                columns[key] = []
            cells = columns[key]
            cells += [None] * (len(rows) - len(cells))
            cells.append(value if value == value else None)
        rows.append(number)
        budget.spend(len(columns))
    for cells in columns.values():
        cells += [None] * (len(rows) - len(cells))
    if not rows:
        raise DumpMalformedError(
            f"{path.name} holds no JSON object that could be a row.",
            'Give one object a line, such as {"id": 1}, or an array of them.',
        )
    table = arrow_table(name, path.name, typed(columns), np.array(rows, dtype=np.int64))
    table.broken = broken
    return table


def _has_many_keys(path: Path) -> bool:
    """Return whether the objects have more distinct keys than Arrow's reader can take."""
    found: set[bytes] = set()
    left = b""
    with unpacked(path) as stream:
        while part := stream.read(1 << 20):
            found.update(_KEY.findall(left + part))
            if len(found) > _MANY_KEYS:
                return True
            left = part[-_KEY_BYTES:]
    return False


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of the lines that are not blank. Raises DumpMalformedError."""
    with unpacked(path) as stream:
        left, number = b"", 0
        while part := stream.read(MAX_TEXT):
            *lines, left = (left + part).split(b"\n")
            if len(left) > MAX_TEXT:
                raise DumpMalformedError(
                    f"Line {number + len(lines) + 1:,} of {path.name} is longer than "
                    f"{MAX_TEXT >> 20} MB.",
                    "Give one object a line.",
                )
            for line in lines:
                number += 1
                if line.strip():
                    yield number, line.decode(errors="replace")
        if left.strip():
            yield number + 1, left.decode(errors="replace")
