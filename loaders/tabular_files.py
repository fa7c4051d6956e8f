"""Tables from where they lie: delimited files, Parquet, Arrow, JSON lines, workbooks, SQLite.

``pyarrow.csv`` parses. Measured against DuckDB 1.x on a million rows of eight columns: 0.3 s and
170 MB as text, 1.3 s with types, DuckDB 1.2 s and 230 MB. Of a table in which some rows have a
field too many, Arrow gives those rows to a handler with their numbers, while DuckDB's sniffer
takes the whole file for one column; DuckDB keeps the zero of ``01581``, Arrow does not, so all
columns are read as text and typed afterwards. DuckDB would add 65 MB to an installation.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet
from pyarrow import json as arrow_json

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError, without_secrets
from kgqa.loaders.blocks import ending_of
from kgqa.loaders.tabular_values import as_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.progress import Progress

    _Broken = tuple[int, str, list[str]]  # number of the row, text, fields

_DELIMITERS = (",", "\t", ";", "|")
_SAMPLE = 1 << 16  # bytes that the dialect is found from
_BLOCK = 1 << 24  # bytes; a longer row is an error
_SPACED = 0.01  # share of fields that begin with a space, below which none is meant to


@dataclass(frozen=True, slots=True)
class Delimited:
    """A table as it was read: columns of strings, and the number of each row (the header is row 1).

    ``broken``: number, reason and text of each row that does not fit; ``mended``: how many do now.
    """

    columns: pa.Table
    rows: IntArray
    broken: list[tuple[int, str, str]]
    mended: int
    note: str = ""


def read_csv(path: Path) -> Delimited:
    """Read a table whose first row names its columns.

    Raises DumpMalformedError if it is empty, has no header, or is not text.
    """
    encoding = "utf8"
    with _open(path) as stream:
        sample = stream.read(_SAMPLE)
    if sample[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    note = ""
    try:
        delimiter, header = _dialect(path, sample.decode(encoding, errors="replace"))
        try:
            parsed = _parse(path, encoding, delimiter, header)
        except UnicodeError:  # Arrow's own check of UTF-8; a table of Excel is often in this one
            parsed = _parse(path, "cp1252", delimiter, header)
            note = f"{path.name} is not UTF-8, and was read as Windows-1252."
    except csv.Error as error:
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {error}.", "Give a table that is text."
        ) from None
    return replace(_repaired(*parsed, delimiter), note=note)


def _open(path: Path) -> pa.NativeFile:
    endings = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
    return pa.input_stream(str(path), compression=endings.get(path.suffix.lower()))


def _dialect(path: Path, sample: str) -> tuple[str, list[str]]:
    """Return the delimiter that splits the header and most rows alike, and the header."""
    sample = sample.removeprefix("\ufeff")
    if not sample.strip():
        raise DumpMalformedError(f"{path.name} is empty.", "Give a table with a row of names.")
    best, header = (-1.0, ","), [""]
    for delimiter in _DELIMITERS:
        records = [row for row in csv.reader(io.StringIO(sample), delimiter=delimiter) if row]
        if len(records) > 2 and len(sample) >= _SAMPLE:
            records.pop()  # it may be cut
        alike = sum(len(row) == len(records[0]) for row in records) / len(records)
        score = (len(records[0]) - 1) * alike
        if score > best[0]:
            best, header = (score, delimiter), records[0]
    return best[1], _named(path, header)


def _named(path: Path, header: Sequence[str]) -> list[str]:
    """Return names of columns, each once; raise DumpMalformedError if they are values."""
    numbers = sum(_is_number(name) for name in header)
    if numbers and (_is_number(header[0]) or numbers == len(header)):
        raise DumpMalformedError(
            f"The first row of {path.name} has values ({', '.join(header)[:60]}) in place of the "
            "columns' names.",
            "Put a row with the names of the columns above it.",
        )
    names: dict[str, None] = {}
    for place, given in enumerate(header, 1):
        name = given.strip() or f"column {place}"
        while name in names:
            name += " 2"
        names[name] = None
    return list(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(
    path: Path, encoding: str, delimiter: str, header: list[str]
) -> tuple[pa.Table, IntArray, list[_Broken]]:
    broken: list[_Broken] = []

    def handle(row: arrow_csv.InvalidRow) -> str:
        fields = next(csv.reader([row.text], delimiter=delimiter), [])
        broken.append((row.number, row.text, fields))
        return "skip"

    try:
        with _open(path) as stream:
            table = arrow_csv.read_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False,  # else Arrow does not number the rows
                    block_size=_BLOCK,
                    column_names=header,
                    skip_rows_after_names=1,
                    encoding=encoding,
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handle
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
                ),
            )
    except (pa.ArrowInvalid, OSError) as error:
        if "UTF8" in str(error):
            raise UnicodeError from None
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {reason}.", "Check the file's last rows."
        ) from None
    numbers = np.arange(2, 2 + len(table) + len(broken))
    rows = np.setdiff1d(numbers, np.array([number for number, *_ in broken], dtype=np.int64))
    return table, rows[: len(table)], broken


def _repaired(
    columns: pa.Table, rows: IntArray, broken: list[_Broken], delimiter: str
) -> Delimited:
    """Return a table with the broken rows that can be mended, and the others with the reason.

    A field that begins with a space, where hardly a field of a good row does, belongs to the field
    before it: the delimiter between them should have been quoted.
    """
    count = columns.num_columns
    shares = [pc.mean(pc.starts_with(column, " ")).as_py() or 0.0 for column in columns.columns]
    joins = sum(shares) < _SPACED * count
    mended: list[list[str]] = []
    rejected: list[tuple[int, str, str]] = []
    numbers = [rows]
    for number, text, fields in broken:
        row: list[str] = []
        for value in fields:
            if joins and row and value.startswith(" "):
                row[-1] += delimiter + value
            else:
                row.append(value)
        if len(row) == count:
            mended.append(row)
            numbers.append(np.array([number]))
        else:
            rejected.append((number, f"{len(fields)} fields in place of {count}", text))
    if mended:
        arrays = [pa.array(cells, pa.string()) for cells in zip(*mended, strict=True)]
        columns = pa.concat_tables([columns, pa.table(arrays, names=columns.column_names)])
        rows = np.concatenate(numbers)
        order = np.argsort(rows, kind="stable")
        columns, rows = columns.take(pa.array(order)), rows[order]
    return Delimited(columns, rows, rejected, len(mended))


_ABOUT = b"kgqa"  # key of a schema's metadata: what a table's source declares


@dataclass(slots=True)
class Table:
    """A table; ``rows``: the number of each row in ``source``.

    ``key``: columns that are declared as the primary key. ``foreign``: column -> (table, column)
    that it is declared to point to; ``a/b`` are two columns together.
    """

    name: str
    source: str
    columns: dict[str, pa.ChunkedArray]
    rows: IntArray
    key: tuple[str, ...] = ()
    foreign: dict[str, tuple[str, str]] = field(default_factory=dict)
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    mended: int = 0
    note: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def compose(self, name: str) -> None:
        """Add the column ``a/b`` made of two or more others, if they are there."""
        parts = [self.columns.get(part) for part in name.split("/")]
        texts = [p.combine_chunks() for p in parts if p is not None and p.type == pa.string()]
        if name not in self.columns and len(texts) == len(parts) > 1:
            joined = pc.binary_join_element_wise(*texts, "/")
            self.columns[name] = pa.chunked_array([joined])


def arrow_table(name: str, source: str, table: pa.Table, rows: IntArray | None = None) -> Table:
    """Return an Arrow table as a table; its metadata may declare keys (see :func:`declared`)."""
    about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
    made = Table(
        name,
        about.get("source") or source,
        {},
        np.arange(1, len(table) + 1) if rows is None else rows,
        tuple(about.get("key", ())),
        {column: (to[0], to[1]) for column, to in about.get("foreign", {}).items()},
    )
    for column in table.column_names:
        cells = as_cells(table.column(column))
        if cells is not None and (cells.null_count < len(cells) or not len(table)):
            made.columns[column] = cells
    return made


def declared(
    table: pa.Table,
    key: Iterable[str],
    foreign: Mapping[str, tuple[str, str]],
    source: str = "",
) -> pa.Table:
    """Return an Arrow table whose metadata declare its keys, and where it comes from."""
    about = json.dumps({"key": list(key), "foreign": dict(foreign), "source": source}).encode()
    return table.replace_schema_metadata({_ABOUT: about})


def typed(columns: Mapping[str, list[Any]]) -> pa.Table:
    """Return lists of Python values as a table; a column of several types becomes text."""
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            texts = [None if v is None or isinstance(v, bytes) else str(v) for v in values]
            arrays[name] = pa.array(texts, pa.string())
    return pa.table(arrays)


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


def _files(source: Path, progress: Progress) -> list[Path]:
    if not source.exists():
        raise DumpNotFoundError(f"There is no {source}.", "Check the path.")
    if not source.is_dir():
        return [source]
    known = (*_DELIMITED, *_ARROW, *_PARQUET, *_LINES, *_EXCEL, *_SQLITE)
    files = [
        path for path in sorted(source.iterdir()) if path.is_file() and path.name[0] not in "._"
    ]
    tables = [path for path in files if ending_of(path) in known]
    if others := [path.name for path in files if path not in tables]:
        progress.note(f"Not read, since they are not tables: {', '.join(others)}.")
    if not tables:
        raise DumpNotFoundError(
            f"The folder {source} holds no table.", f"Tables end in {', '.join(known)}."
        )
    return tables


def _tables_of(path: Path) -> Iterator[Table]:
    ending = ending_of(path)
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
            content = read_csv(path)
            table = arrow_table(name, path.name, content.columns, content.rows)
            table.broken, table.mended, table.note = content.broken, content.mended, content.note
            yield table
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DumpMalformedError(
            f"{path.name} cannot be read as a table: {reason}.", "Check the file."
        ) from None


def _starts(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def read_excel(path: Path) -> Iterator[Table]:
    """Yield the sheets of a workbook, a table each. Raises UsageError if openpyxl is missing."""
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{path.name} is read with the package openpyxl, which is not installed.",
            "pip install 'kgqa[excel]', or save the sheets as CSV.",
        ) from None
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    with closing(book):
        several = len(book.sheetnames) > 1
        for sheet in book.worksheets:
            rows = list(sheet.iter_rows(values_only=True))
            filled = [n for n, row in enumerate(rows) if any(cell is not None for cell in row)]
            if len(filled) < 2:
                continue
            header = ["" if cell is None else str(cell).strip() for cell in rows[filled[0]]]
            places = {name: place for place, name in enumerate(header) if name}
            columns = {
                name: [rows[n][place] if place < len(rows[n]) else None for n in filled[1:]]
                for name, place in places.items()
            }
            name = sheet.title if several else path.name.split(".")[0]
            source = f"{path.name}, sheet {sheet.title}" if several else path.name
            yield arrow_table(name, source, typed(columns), np.array(filled[1:]) + 1)


def read_sqlite(path: Path) -> Iterator[Table]:
    """Yield the tables of an SQLite file. Raises DumpMalformedError."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = lambda raw: raw.decode(errors="replace")
            tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            for (name,) in database.execute(tables).fetchall():
                if name.startswith("sqlite_"):
                    continue
                key = _key(database, name)
                listed = "SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq"
                pointing: dict[int, list[Any]] = {}
                for row in database.execute(listed, (name,)).fetchall():
                    pointing.setdefault(row[0], []).append(row)
                foreign = {}
                for rows in pointing.values():
                    to = [row[4] for row in rows] if rows[0][4] else _key(database, rows[0][2])
                    foreign["/".join(row[3] for row in rows)] = (rows[0][2], "/".join(to))
                cursor = database.execute('SELECT * FROM "' + name.replace('"', '""') + '"')
                names = [row[0] for row in cursor.description]
                columns = dict(zip(names, map(list, zip(*cursor, strict=True)), strict=False))
                table = declared(typed(columns), key, foreign)
                yield arrow_table(name, f"{path.name}, table {name}", table)
    except sqlite3.Error as error:
        raise DumpMalformedError(
            f"{path.name} cannot be read: {error}.", "Check the file."
        ) from None


def _key(database: sqlite3.Connection, table: str) -> list[str]:
    listed = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
    return [name for (name,) in database.execute(listed, (table,))]


def read_database(url: str) -> dict[str, pa.Table]:
    """Return the tables of a relational database by name, each with its declared keys.

    ``url`` is one that SQLAlchemy opens. Raises UsageError, DumpMalformedError.
    """
    try:
        import sqlalchemy
    except ImportError:
        raise UsageError(
            "A database is read with the package SQLAlchemy, which is not installed.",
            "pip install 'kgqa[sql]', and the driver of your database, psycopg for example.",
        ) from None
    tables: dict[str, pa.Table] = {}
    try:
        engine = sqlalchemy.create_engine(url)
        inspector = sqlalchemy.inspect(engine)
        with engine.connect() as connection:
            for name in inspector.get_table_names():
                key = inspector.get_pk_constraint(name)["constrained_columns"]
                foreign = {
                    "/".join(found["constrained_columns"]): (
                        found["referred_table"],
                        "/".join(found["referred_columns"]),
                    )
                    for found in inspector.get_foreign_keys(name)
                }
                found = sqlalchemy.Table(name, sqlalchemy.MetaData(), autoload_with=engine)
                rows = connection.execute(sqlalchemy.select(found)).fetchall()
                names = [column.name for column in found.columns]
                columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=False))
                tables[name] = declared(typed(columns), key, foreign, f"table {name}")
        engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        reason = without_secrets(str(error).splitlines()[0])
        raise DumpMalformedError(
            f"The database cannot be read: {reason}.",
            "Check the URL, and that its driver is there.",
        ) from None
    return tables
