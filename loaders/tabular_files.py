"""Tables from where they lie: delimited files, Parquet, Arrow, JSON lines, workbooks, SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import feather, parquet
from pyarrow import json as arrow_json

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.loaders.tabular_csv import read_csv, repaired
from kgqa.loaders.tabular_databases import read_excel, read_sqlite
from kgqa.loaders.tabular_table import Table, arrow_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.progress import Progress

_COMPRESSED = (".gz", ".bz2", ".zst")
_DELIMITED = (".csv", ".tsv", ".tab", ".txt", ".psv")
_ARROW = (".arrow", ".feather", ".ipc")
_PARQUET = (".parquet", ".pq")
_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm")
_RDF = (".nt", ".ntriples", ".nq", ".ttl", ".rdf", ".owl")
_SQLITE = (".db", ".sqlite", ".sqlite3", ".db3")
_MAGIC = b"SQLite format 3\0"


def read_tables(sources: Sequence[Path], progress: Progress) -> list[Table]:
    """Return the tables of files and folders, by name.

    Raises DumpNotFoundError, DumpMalformedError; UsageError if a package is missing, or two tables
    have one name.
    """
    files = [file for source in sources for file in _files(source, progress)]
    tables: dict[str, Table] = {}
    with progress.task("reading the tables", len(files), "files") as task:
        for path in files:
            for table in _tables_of(path):
                if table.name in tables:
                    raise UsageError(
                        f"{tables[table.name].source} and {table.source} are both called "
                        f"{table.name}.",
                        "Give each table a name of its own.",
                    )
                if table.columns:
                    tables[table.name] = table
                if table.note:
                    progress.note(table.note)
            task.advance()
    return [tables[name] for name in sorted(tables)]


def _ending(path: Path) -> str:
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def _files(source: Path, progress: Progress) -> list[Path]:
    if not source.exists():
        raise DumpNotFoundError(f"There is no {source}.", "Check the path.")
    if not source.is_dir():
        return [source]
    known = (*_DELIMITED, *_ARROW, *_PARQUET, *_LINES, *_EXCEL, *_SQLITE)
    files = [
        path for path in sorted(source.iterdir()) if path.is_file() and path.name[0] not in "._"
    ]
    tables = [path for path in files if _ending(path) in known]
    if others := [path.name for path in files if path not in tables]:
        progress.note(f"Not read, since they are not tables: {', '.join(others)}.")
    if not tables:
        raise DumpNotFoundError(
            f"The folder {source} holds no table.", f"Tables end in {', '.join(known)}."
        )
    return tables


def _tables_of(path: Path) -> Iterator[Table]:
    ending = _ending(path)
    name = path.name.split(".")[0]
    if ending in _RDF:
        raise DumpMalformedError(
            f"{path.name} holds triples, not a table.",
            f"Load it by: kgqa ingest triples {path.name} (as N-Triples).",
        )
    try:
        if ending in _SQLITE or _starts(path) == _MAGIC:
            yield from read_sqlite(path)
        elif ending in _EXCEL:
            yield from read_excel(path)
        elif ending in _PARQUET:
            yield arrow_table(name, path.name, parquet.read_table(path))
        elif ending in _ARROW:
            yield arrow_table(name, path.name, feather.read_table(path, memory_map=True))
        elif ending in _LINES:
            yield arrow_table(name, path.name, arrow_json.read_json(path))
        else:
            yield _delimited(name, path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {reason}.", "Check the file."
        ) from None


def _starts(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _delimited(name: str, path: Path) -> Table:
    found = read_csv(path)
    columns, rows, broken = repaired(found)
    table = arrow_table(name, path.name, columns, rows)
    table.broken, table.note = broken, found.note
    table.mended = len(found.broken) - len(broken)
    return table
