"""Tables from where they lie: delimited files, Parquet, Arrow, JSON, workbooks, SQLite."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import feather, parquet

from kgqa.errors import (
    DumpMalformedError,
    DumpNotFoundError,
    KgqaError,
    UsageError,
    first_line,
)
from kgqa.loaders.blocks import check_file, ending_of
from kgqa.loaders.tabular_csv import header_of, read_csv
from kgqa.loaders.tabular_excel import read_excel
from kgqa.loaders.tabular_json import json_start, read_json_array, read_json_lines
from kgqa.loaders.tabular_sql import read_sqlite
from kgqa.loaders.tabular_table import Table, arrow_table, check_size, check_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.progress import Progress

_DELIMITED = (".csv", ".tsv", ".tab", ".txt", ".psv")
_ARROW = (".arrow", ".feather", ".ipc")
_PARQUET = (".parquet", ".pq")
_LINES = (".jsonl", ".ndjson")
_EXCEL = (".xlsx", ".xlsm")
_SQLITE = (".db", ".sqlite", ".sqlite3", ".db3")
_MAGIC = b"SQLite format 3\0"
_ZIP = ".zip"
_MAX_RATIO, _FREE = 300, 1 << 26  # of an archive's size, and bytes that it may unpack to anyway
_PART = 1 << 20
_HEADER = re.compile(r"[-_]header$", re.IGNORECASE)


def read_tables(files: Sequence[Path], progress: Progress) -> list[Table]:
    """Read the tables of files, sorted by name, after :func:`kgqa.loaders.forms.check_form`.

    Raises DumpNotFoundError, DumpMalformedError; UsageError if a package is missing, or two tables
    have one name.
    """
    headers = _header_files(files)
    tables: dict[str, Table] = {}
    with progress.task("reading the tables", len(files), "files") as task:
        for path in files:
            for table in _tables_of(path, headers) if path not in headers.values() else ():
                if table.name in tables:
                    raise UsageError(
                        f"{tables[table.name].source} and {table.source} are both called "
                        f"{table.name}.",
                        "Give each table a name of its own.",
                    )
                if table.columns:
                    tables[table.name] = table
                    check_tables(len(tables))
                for note in table.notes:
                    progress.note(note)
            task.advance()
    return [tables[name] for name in sorted(tables)]


def _header_files(files: Sequence[Path]) -> dict[Path, Path]:
    """Return the header file of each delimited file whose header is in a file of its own.

    So are neo4j-admin's: ``persons_header.csv`` is of ``persons.csv``, ``persons_1.csv``, ….
    """
    named = {path: path.name.split(".")[0] for path in files if ending_of(path) in _DELIMITED}
    found: dict[Path, Path] = {}
    for path, name in named.items():
        base = _HEADER.sub("", name) if len(named) > 1 else name
        parts = re.compile(re.escape(base) + r"([-_]?(part|data)?[-_]?\d*)", re.IGNORECASE)
        if base != name and header_of(path):
            others = [other for other, called in named.items() if parts.fullmatch(called)]
            found |= {other: path for other in others if other != path}
    return found


def table_files(source: Path, progress: Progress) -> list[Path]:
    """Return a file, or the tables in a folder. Raises DumpNotFoundError, DumpMalformedError."""
    if not source.exists():
        raise DumpNotFoundError(f"{source} does not exist.", "Check the path.")
    if not source.is_dir():
        check_file(source)
        return [source]
    files = [
        path for path in sorted(source.iterdir()) if path.is_file() and path.name[0] not in "._"
    ]
    return _tables_among(files, f"The folder {source}", progress, _ZIP)


def _tables_among(files: Sequence[Path], holder: str, progress: Progress, *more: str) -> list[Path]:
    """Return the tables among files; note the other files in ``progress``.

    ``more``: further endings to take; ``holder``: where the files are, for the error. Raises
    DumpNotFoundError if none is a table.
    """
    known = (*_DELIMITED, ".sif", *_ARROW, *_PARQUET, *_LINES, *_EXCEL, *_SQLITE, *more)
    tables = [
        path
        for path in files
        if ending_of(path) in known or (ending_of(path) == ".json" and json_start(path) == "[")
    ]
    if others := [path.name for path in files if path not in tables]:
        progress.note(f"Not read, since they are not tables: {', '.join(others)}.")
    if not tables:
        raise DumpNotFoundError(f"{holder} holds no table.", f"Tables end in {', '.join(known)}.")
    return tables


def unzipped(files: Sequence[Path], folder: Path, progress: Progress) -> list[Path]:
    """Replace zip archives by the tables in them, unpacked to ``folder``; other files stay.

    Raises DumpMalformedError for an archive that is damaged, encrypted or expands too far,
    DumpNotFoundError for one that holds no table.
    """
    found: list[Path] = []
    for place, path in enumerate(files):
        if path.suffix.lower() != _ZIP or not zipfile.is_zipfile(path):
            found.append(path)
            continue
        into = folder / str(place)
        into.mkdir()
        try:
            members = _unpack(path, into)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as error:
            raise DumpMalformedError(
                f"{path.name} cannot be unpacked: {first_line(error)}.",
                "Unpack it, and load what it holds.",
            ) from None
        found += _tables_among(members, f"The archive {path.name}", progress)
    return found


def _unpack(path: Path, into: Path) -> list[Path]:
    """Unpack the files of an archive to a folder, without their paths; hidden ones are skipped.

    Raises DumpMalformedError if they are too large, or two have one name.
    """
    left = max(_FREE, _MAX_RATIO * path.stat().st_size)
    files: list[Path] = []
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            inside = PurePosixPath(member.filename)
            if member.is_dir() or inside.name[:1] in "._" or inside.parts[0] == "__MACOSX":
                continue
            target = into / inside.name
            if target in files:
                raise DumpMalformedError(
                    f"{path.name} holds two files that are called {inside.name}.",
                    "Unpack it, and give each table a name of its own.",
                )
            files.append(target)
            with archive.open(member) as packed, target.open("wb") as plain:
                while part := packed.read(_PART):
                    left -= len(part)
                    if left < 0:
                        raise DumpMalformedError(
                            f"{path.name} unpacks to more than {_MAX_RATIO} times its size.",
                            "Unpack it, and load what it holds.",
                        )
                    plain.write(part)
    return sorted(files)


def _tables_of(path: Path, headers: Mapping[Path, Path]) -> Iterator[Table]:
    """Read the tables of one file by its ending or content."""
    ending = ending_of(path)
    name = path.name.split(".")[0]
    check_file(path)
    try:
        if ending in _SQLITE or _magic_of(path) == _MAGIC:
            yield from read_sqlite(path)
        elif ending in _EXCEL:
            yield from read_excel(path)
        elif ending in _PARQUET:
            yield arrow_table(name, path.name, _parquet(path))
        elif ending in _ARROW:
            yield arrow_table(name, path.name, feather.read_table(path, memory_map=True))
        elif (start := "" if path in headers else json_start(path)) == "[":
            yield read_json_array(path, name)
        elif ending in _LINES or start:
            yield read_json_lines(path, name)
        else:
            given = header_of(headers[path]) if path in headers else None
            content = read_csv(path, given)
            table = arrow_table(name, path.name, content.columns, content.rows)
            table.broken, table.mended = content.broken, content.mended
            table.notes = content.notes + table.notes
            yield table
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        if isinstance(error, KgqaError):
            raise
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {first_line(error)}.", "Check the file."
        ) from None


def _parquet(path: Path) -> pa.Table:
    """Read a Parquet file after checking its declared size: few bytes may claim many equal rows."""
    with parquet.ParquetFile(path) as file:
        about = file.metadata
        check_size(path.name, about.num_rows, about.num_columns)
        return file.read()


def _magic_of(path: Path) -> bytes:
    """Return the first bytes of a file, as many as SQLite's signature has."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC))
