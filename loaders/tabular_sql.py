"""Tables of databases: SQLite files, and what SQLAlchemy opens. Nothing is ever written to them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.errors import (
    DumpMalformedError,
    DumpNotFoundError,
    UsageError,
    first_line,
    without_secrets,
)
from kgqa.loaders.blocks import check_file
from kgqa.loaders.tabular_table import (
    MAX_TEXT,
    Budget,
    Table,
    arrow_table,
    check_size,
    declared,
    typed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_ROWS = 10_000  # that are fetched at once
_STEPS = 100_000  # of SQLite's machine, between two looks at the clock
_FILES = frozenset({"sqlite", "duckdb"})  # databases that are a file, which opening would make
_INDEX = ("USING fts", "USING rtree")  # virtual tables, which index what other tables hold


def read_sqlite(path: Path) -> Iterator[Table]:
    """Read the tables of an SQLite file. Raises DumpMalformedError."""
    for name, table in sqlite_tables(path):
        yield arrow_table(name, f"{path.name}, table {name}", table)


def sqlite_tables(path: Path) -> Iterator[tuple[str, pa.Table]]:
    """Yield name and table, with its declared keys, of an SQLite file.

    Views, which are noted, and SQLite's own tables are skipped. Raises DumpNotFoundError,
    DumpMalformedError.
    """
    if not path.exists():
        raise DumpNotFoundError(f"The database {path} does not exist.", "Check the path.")
    check_file(path)
    budget = Budget(path.name)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = _decode
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
            database.set_progress_handler(lambda: budget.expired, _STEPS)
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA query_only = ON")
            listed = "SELECT name, type, coalesce(sql, '') FROM sqlite_master ORDER BY name"
            entries = database.execute(listed).fetchall()
            views = [name for name, type_, _ in entries if type_ == "view"]
            said = f"{path.name}: not read, since they are views: {', '.join(views)}."
            notes = [said] if views else []
            indexes = {name for name, _, sql in entries if any(word in sql for word in _INDEX)}
            for name, type_, _ in entries:
                shadows = any(name.startswith(f"{index}_") for index in indexes)
                own = shadows or name in indexes or name.startswith("sqlite_")
                if type_ == "table" and not own:
                    yield name, _sqlite_table(database, name, budget, notes)
                    notes = []
    except sqlite3.Error as error:
        budget.spend(0)  # an interruption is named by its cause
        raise DumpMalformedError(
            f"{path.name} cannot be read: {error}.", "Check the file."
        ) from None


def _decode(raw: bytes) -> str:
    """Decode text as UTF-8 or else Windows-1252."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")  # what programs of Windows write


def _sqlite_table(
    database: sqlite3.Connection, name: str, budget: Budget, notes: Sequence[str]
) -> pa.Table:
    """Read a table of an SQLite file, with its declared keys."""
    key = _primary_key(database, name)
    listed = "SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq"
    pointing: dict[int, list[Any]] = {}
    for row in database.execute(listed, (name,)).fetchall():
        pointing.setdefault(row[0], []).append(row)
    foreign = {}
    for rows in pointing.values():
        to = [row[4] for row in rows] if rows[0][4] else _primary_key(database, rows[0][2])
        foreign["/".join(row[3] for row in rows)] = (rows[0][2], "/".join(to))
    cursor = database.execute('SELECT * FROM "' + name.replace('"', '""') + '"')
    names = [row[0] for row in cursor.description]
    check_size(f"{budget.source}, table {name}", 1, len(names))
    table = _fetch(names, iter(lambda: cursor.fetchmany(_ROWS), []), budget)
    return declared(table, key, foreign, f"{budget.source}, table {name}", notes)


def _fetch(
    names: Sequence[str], parts: Iterator[Sequence[Sequence[Any]]], budget: Budget
) -> pa.Table:
    """Build a table from fetched parts of rows, within the budget."""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for rows in parts:
        budget.spend(len(rows) * len(names))
        for column, values in zip(columns.values(), zip(*rows, strict=True), strict=False):
            column += values
    return typed(columns)


def _primary_key(database: sqlite3.Connection, table: str) -> list[str]:
    """Return the primary key columns of a table."""
    listed = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
    return [name for (name,) in database.execute(listed, (table,))]


_ATTACHED = dict.fromkeys(("neo4j", "bolt"), "a Neo4j server") | dict.fromkeys(
    ("http", "https"), "an address on the web"
)


def read_database(url: str) -> dict[str, pa.Table]:
    """Read the tables of a relational database by name, each with its declared keys.

    ``url`` is one that SQLAlchemy opens; an SQLite file is read without SQLAlchemy. Raises
    DumpNotFoundError, DumpMalformedError, UsageError.
    """
    if url.startswith("sqlite:///"):
        name = url.removeprefix("sqlite:///").partition("?")[0]
        if not name or name == ":memory:":
            raise UsageError("The URL names no file.", "Write sqlite:///relative/path.db.")
        return dict(sqlite_tables(Path(name)))
    scheme = url.partition(":")[0].partition("+")[0].lower()
    if scheme in _ATTACHED:
        raise UsageError(
            f"{without_secrets(url)} is {_ATTACHED[scheme]}, not a database of tables.",
            "A Neo4j database or a SPARQL endpoint is used as it is by `kgqa attach URL`; a file "
            "on the web is to be fetched first.",
        )
    try:
        import sqlalchemy
    except ImportError:
        raise UsageError(
            "A database is read with the package SQLAlchemy, which is not installed.",
            "pip install 'kgqa[sql]', and the driver of your database, psycopg for example.",
        ) from None
    try:
        return _tables_by_url(sqlalchemy, url)
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, ValueError, TypeError) as error:
        if isinstance(error, DumpMalformedError):
            raise
        reason = without_secrets(first_line(error), url)
        raise DumpMalformedError(
            f"The database cannot be read: {reason}.",
            "Check the URL, and that its driver is there.",
        ) from None


def _partitions(connection: Any) -> set[str]:
    """Return PostgreSQL's tables whose rows a parent table repeats: partitions, child tables."""
    listed = "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
    return {name for (name,) in connection.exec_driver_sql(listed)}


def _tables_by_url(sqlalchemy: Any, url: str) -> dict[str, pa.Table]:
    """Read the tables of a database by SQLAlchemy; partitions of other tables are skipped."""
    parsed = sqlalchemy.engine.make_url(url)
    backend = parsed.get_backend_name()
    if backend in _FILES and (not parsed.database or not Path(parsed.database).is_file()):
        raise DumpNotFoundError(
            f"The database {parsed.database or 'in the URL'} does not exist.", "Check the path."
        )
    options = {"postgresql_readonly": True} if backend == "postgresql" else {}
    tables: dict[str, pa.Table] = {}
    engine = sqlalchemy.create_engine(url)
    try:
        budget = Budget(f"The database {parsed.database or backend}")
        inspector = sqlalchemy.inspect(engine)
        with engine.connect().execution_options(**options) as connection:
            parts = _partitions(connection) if backend == "postgresql" else set()
            said = f"Not read again as tables of their own: {', '.join(sorted(parts))}."
            notes = [said] if parts else []
            for name in inspector.get_table_names():
                if name in parts:
                    continue
                key = inspector.get_pk_constraint(name)["constrained_columns"]
                foreign = {
                    "/".join(found["constrained_columns"]): (
                        found["referred_table"],
                        "/".join(found["referred_columns"]),
                    )
                    for found in inspector.get_foreign_keys(name)
                }
                found = sqlalchemy.Table(name, sqlalchemy.MetaData(), autoload_with=engine)
                names = [column.name for column in found.columns]
                check_size(f"The table {name}", 1, len(names))
                streamed = sqlalchemy.select(found).execution_options(yield_per=_ROWS)
                fetched = _fetch(names, connection.execute(streamed).partitions(), budget)
                tables[name] = declared(fetched, key, foreign, f"table {name}", notes)
                notes = []
    finally:
        engine.dispose()
    return tables
