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

from kgqa.display import visible
from kgqa.errors import HALF_A_PAIR, KgqaError, UsageError, first_line, without_secrets
from kgqa.graph.names import is_storable
from kgqa.loaders.tabular_sql import read_database
from kgqa.loaders.tabular_table import declared

_PARTS = ("head", "relation", "tail")
_LONGEST_NAME = 200  # bytes
_HINT = "Give files, a DataFrame, an Arrow table, a dict of them, or (head, relation, tail) tuples."


def is_file(source: object) -> bool:
    """Return whether a load's source is a file or folder, not a database URL or an object."""
    return isinstance(source, Path) or (isinstance(source, str) and not _is_url(source))


def _is_url(source: object) -> bool:
    """Return whether a source is the URL of a database."""
    return isinstance(source, str) and "://" in source


def name_of(sources: Sequence[object]) -> str:
    """Return a KG name after the first source that is a database URL; "" if none is."""
    url = next((source for source in sources if isinstance(source, str) and _is_url(source)), "")
    try:  # of a URL that no parser reads, a password's end would be taken for the path
        return Path(urlsplit(without_secrets(url)).path).stem
    except ValueError:
        return ""


def as_files(
    sources: Iterable[object], folder: Path, name: str, *, triples: bool = False
) -> list[Path]:
    """Write sources that are not files to ``folder`` as Parquet; return the files of all sources.

    ``name``: of a table that has none; ``triples``: tuples of three are triples. Raises UsageError
    for an object that is not a table, and the errors of reading a database.
    """
    files: list[Path] = []
    for source in sources:
        if isinstance(source, str | Path) and is_file(source):
            files.append(Path(source))
            continue
        for called, each in _named_tables(source, name):
            path = folder / f"{_table_file_name(called).replace('/', '_')}.parquet"
            if path.exists():
                raise UsageError(
                    f"Two tables are called {called}.", "Name them in a dict: {name: table}."
                )
            _write(each, path, called, triples=triples, declares=not _is_url(source))
            files.append(path)
    if sources and not files:
        raise UsageError("What is to be loaded holds no table.", _HINT)
    return files


def _named_tables(source: object, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, table) of a database, a mapping of tables, or a single table."""
    if _is_url(source):
        yield from read_database(str(source)).items()
    elif isinstance(source, Mapping):
        yield from ((str(called), table) for called, table in source.items())
    else:
        yield name, source


def _table_file_name(called: str) -> str:
    """Return a table's name if it can name a file. Raises UsageError."""
    size = len(called.encode(errors="replace"))
    if not (0 < size <= _LONGEST_NAME and is_storable(called) and "\0" not in called):
        raise UsageError(
            f"{visible(called[:80])!r} cannot be the name of a table.",
            f"Name it with 1 to {_LONGEST_NAME} bytes of text.",
        )
    return called


def _write(source: Any, path: Path, called: str, *, triples: bool, declares: bool) -> None:
    """Write a table as a Parquet file. Raises UsageError if it cannot be one.

    ``declares``: whether to store the table's name in the file's metadata, as a database's tables
    do.
    """
    try:
        table = _as_arrow_table(source, triples=triples)
        parquet.write_table(declared(table, (), {}, source=called) if declares else table, path)
    except (KgqaError, OSError, MemoryError):
        raise
    except UnicodeEncodeError:
        what, hint = HALF_A_PAIR
        raise UsageError(f"The table {called} cannot be read: {what}", hint) from None
    except Exception as error:  # of pyarrow, or of the library that a frame is of
        raise UsageError(
            f"The table {called} cannot be read: {first_line(error)}.",
            "Give columns of one type each: numbers, texts, dates, booleans or lists.",
        ) from error


def _as_arrow_table(source: Any, *, triples: bool) -> pa.Table:
    """Convert a DataFrame, records or (with ``triples``) tuples to an Arrow table."""
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
            return _triples_table(rows)
    raise UsageError(f"A load cannot read a {type(source).__name__}.", _HINT)


def _triples_table(rows: Sequence[Any]) -> pa.Table:
    """Convert tuples of three to a table of triples. Raises UsageError."""
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
