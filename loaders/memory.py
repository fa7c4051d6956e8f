"""Tables and triples that are in memory, or in a database, as files that a loader reads.

DataFrames of any library are read by the Arrow PyCapsule interface (pandas ≥ 2.2, polars, DuckDB).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import parquet

from kgqa.errors import UsageError
from kgqa.loaders.tabular_sql import read_database
from kgqa.loaders.tabular_table import declared

_PARTS = ("head", "relation", "tail")
_HINT = "Give files, a DataFrame, an Arrow table, a dict of them, or (head, relation, tail) tuples."


def is_file(source: object) -> bool:
    """Return whether a source of a load is a file or a folder, not a database or in memory."""
    return isinstance(source, Path) or (isinstance(source, str) and not _is_url(source))


def _is_url(source: object) -> bool:
    return isinstance(source, str) and "://" in source


def name_of(sources: Sequence[object]) -> str:
    """Return a name for the KG of these sources: a database's, "" if nothing says one."""
    url = next((source for source in sources if isinstance(source, str) and _is_url(source)), "")
    return Path(urlsplit(url).path).stem


def as_files(
    sources: Iterable[object], folder: Path, name: str, *, triples: bool = False
) -> list[Path]:
    """Return files for all sources; what is not a file yet is written to ``folder``.

    ``name``: of a table that has none. Raises UsageError for what is not a table, and what reading
    a database raises.
    """
    files: list[Path] = []
    for source in sources:
        if isinstance(source, str | Path) and is_file(source):
            files.append(Path(source))
            continue
        for called, table in _tables(source, name, triples=triples):
            path = folder / f"{called.replace('/', '_')}.parquet"
            if path.exists():
                raise UsageError(
                    f"Two tables are called {called}.", "Name them in a dict: {name: table}."
                )
            parquet.write_table(table, path)
            files.append(path)
    return files


def _tables(source: object, name: str, *, triples: bool) -> Iterator[tuple[str, pa.Table]]:
    if _is_url(source):
        yield from read_database(str(source)).items()
    elif isinstance(source, Mapping):
        for called, each in source.items():
            table = _table(each, triples=triples)
            yield str(called), declared(table, (), {}, source=str(called))
    else:
        yield name, declared(_table(source, triples=triples), (), {}, source=name)


def _table(source: Any, *, triples: bool) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "__arrow_c_stream__") or isinstance(source, pa.RecordBatch):
        return pa.table(source)
    if type(source).__module__.startswith("pandas."):  # an older one
        return pa.Table.from_pandas(source, preserve_index=False)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        rows = list(source)
        if rows and all(isinstance(row, Mapping) for row in rows):
            return pa.Table.from_pylist([dict(row) for row in rows])
        if triples:
            return _triples(rows)
    raise UsageError(f"A load cannot read a {type(source).__name__}.", _HINT)


def _triples(rows: Sequence[Any]) -> pa.Table:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, tuple | list) or len(row) != len(_PARTS):
            shown = repr(tuple(islice(row, 5)) if isinstance(row, tuple | list) else row)
            raise UsageError(
                f"Item {number} is {shown[:80]}, not a head, a relation and a tail.",
                "Give tuples of three.",
            )
    columns = {
        part: pa.array([None if row[n] is None else str(row[n]) for row in rows], pa.string())
        for n, part in enumerate(_PARTS)
    }
    return pa.table(columns)
