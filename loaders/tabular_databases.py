"""Tables of workbooks, of SQLite files, and of databases that SQLAlchemy opens, with their keys."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import DumpMalformedError, UsageError, without_secrets
from kgqa.loaders.tabular_table import Table, arrow_table, declared, typed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa


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
                found = database.execute('SELECT * FROM "' + name.replace('"', '""') + '"')
                names = [row[0] for row in found.description]
                columns = dict(zip(names, map(list, zip(*found, strict=True)), strict=False))
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
