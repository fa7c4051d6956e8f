"""Workbooks and databases: with the packages of the extras, and what is said without them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.loaders.memory import as_files, name_of
from kgqa.loaders.tabular_sql import read_database, sqlite_tables
from kgqa.loaders.tabular_table import Budget
from tests.graph.neo4j_server import free_ports
from tests.loaders.tables_read import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_the_sheets_of_a_workbook_are_tables(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    towns, people = book.active, book.create_sheet("people")
    towns.title = "towns"
    for sheet, rows in (
        (towns, [["town_id", "name"], [1, "York"], [2, "Bath"]]),
        (people, [["name", "town_id", "age"], ["Ann Lee", 1, 30], ["Bob Ray", 2, None]]),
    ):
        for row in rows:
            sheet.append(row)
    book.save(tmp_path / "own.xlsx")
    read = read_tables(tmp_path, [tmp_path / "own.xlsx"])
    assert read.triples("town") == {("Ann Lee", "York"), ("Bob Ray", "Bath")}
    assert read.properties("Person/Ann Lee")["age"] == 30


def test_a_database_says_its_keys_itself(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    with closing(sqlite3.connect(tmp_path / "own.db")) as base, base:
        base.execute("CREATE TABLE a (x INTEGER PRIMARY KEY, name TEXT)")
        base.execute("CREATE TABLE b (y INTEGER PRIMARY KEY, name TEXT, z INT REFERENCES a(x))")
        base.execute("INSERT INTO a VALUES (5, 'York')")
        base.execute("INSERT INTO b VALUES (1, 'Ann Lee', 5)")
    files = as_files([f"sqlite:///{tmp_path / 'own.db'}"], tmp_path, "own")
    assert read_tables(tmp_path, files).triples("z") == {("Ann Lee", "York")}
    with pytest.raises(DumpMalformedError, match="cannot be read") as raised:
        as_files(["nosuch://me:secret@host/db"], tmp_path, "own")
    assert "secret" not in str(raised.value)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path / 'typo.db'}", f"sqlite+pysqlite:///{tmp_path / 'typo.db'}"):
        if "+" in url:
            pytest.importorskip("sqlalchemy")
        with pytest.raises(DumpNotFoundError, match="typo"):
            as_files([url], tmp_path, "own")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["postgresql://u:S3cr3t/shop", "mysql://u:S3cr3t", "x://u:S3cr3t"])
def test_a_broken_url_is_refused_without_its_secret(tmp_path: Path, url: str) -> None:
    pytest.importorskip("sqlalchemy")
    with pytest.raises(DumpMalformedError, match="The database cannot be read") as failed:
        as_files([url], tmp_path, "own")
    assert "S3cr3t" not in str(failed.value)


@pytest.mark.parametrize("scheme", ["bolt", "neo4j+s", "https"])
def test_what_is_attached_is_no_source_of_tables(scheme: str) -> None:
    with pytest.raises(UsageError, match="not a database of tables") as caught:
        read_database(f"{scheme}://ann:S3cret@127.0.0.1:1/x")
    assert "kgqa attach" in str(caught.value.hint)
    assert "S3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:[S3cr3t]@h/shop", "shop"),
        ("postgresql://u:a/S3cr3t@h", ""),
        ("postgresql://h/shop?sslmode=off", "shop"),
        ("postgresql://[S3cr3t", ""),
    ],
)
def test_a_kg_is_not_named_after_a_secret(url: str, name: str) -> None:
    assert name_of([url]) == name


def test_a_column_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "own.db")) as base, base:
        base.execute("CREATE TABLE a (x TEXT, y TEXT AS (hex(zeroblob(100000000))))")
        base.execute("INSERT INTO a (x) VALUES ('York')")
    with pytest.raises(DumpMalformedError, match=r"own\.db cannot be read: string or blob too big"):
        read_tables(tmp_path, [tmp_path / "own.db"])


def test_an_interrupted_database_names_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "own.db")) as base, base:
        base.execute("CREATE TABLE a (x TEXT)")
        base.executemany("INSERT INTO a VALUES (?)", [[str(n)] for n in range(100)])
    monkeypatch.setattr(Budget, "expired", True)
    with pytest.raises(DumpMalformedError, match=r"own\.db was not read within"):
        read_tables(tmp_path, [tmp_path / "own.db"])


def test_views_and_indexes_of_text_are_no_tables(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "own.db")) as base, base:
        base.execute("CREATE TABLE a (x INTEGER PRIMARY KEY, name TEXT)")
        base.execute("INSERT INTO a VALUES (5, 'York')")
        base.execute("CREATE VIEW everything AS SELECT * FROM a")
        base.execute("CREATE VIRTUAL TABLE found USING fts5(name)")
    (found,) = sqlite_tables(tmp_path / "own.db")
    assert found[0] == "a"
    assert "views: everything" in str(found[1].schema.metadata)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server of this test's own, on the loopback."""
    found = shutil.which("postgres") or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None
    )
    if found is None or shutil.which("initdb", path=Path(found).resolve().parent) is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    user = None
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        user = next(
            (e.pw_name for e in pwd.getpwall() if e.pw_name in ("postgres", "nobody")), None
        )
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no user nobody")
    binaries = Path(found).resolve().parent
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="kgqa-pg-", ignore_cleanup_errors=True) as folder:
        if user:
            shutil.chown(folder, user)
        data = f"{folder}/data"
        asked: dict[str, Any] = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL}
        made = [binaries / "initdb", "-D", data, "-U", "kgqa", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run(made, check=True, **asked)
        options = ["-p", str(port), "-h", "127.0.0.1", "-k", folder]
        server = subprocess.Popen([binaries / "postgres", "-D", data, *options], **asked)
        try:
            while subprocess.run(
                [binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(port)],
                stdout=subprocess.DEVNULL,
                check=False,
            ).returncode:
                assert server.poll() is None, "PostgreSQL ended"
                time.sleep(0.1)
            yield f"postgresql+psycopg://kgqa@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown
            server.wait()


def test_a_postgresql_database_is_read_by_its_url(tmp_path: Path, postgres: str) -> None:
    import sqlalchemy

    statements = """
        CREATE TABLE course (dept text, no int, title text, PRIMARY KEY (dept, no));
        CREATE TABLE person (id serial PRIMARY KEY, name text NOT NULL, born date, tall numeric,
          tags text[], mentor int REFERENCES person);
        CREATE TABLE taught (person_id int REFERENCES person, course_dept text, course_no int,
          since int, PRIMARY KEY (person_id, course_dept, course_no),
          FOREIGN KEY (course_dept, course_no) REFERENCES course);
        CREATE TABLE bill (id int, person_id int REFERENCES person, paid date)
          PARTITION BY RANGE (id);
        CREATE TABLE bill_old PARTITION OF bill FOR VALUES FROM (0) TO (10);
        CREATE TABLE bill_new PARTITION OF bill FOR VALUES FROM (10) TO (20);
        INSERT INTO course VALUES ('MA', 1, 'Algebra'), ('PH', 1, 'Optics');
        INSERT INTO person (name, born, tall, tags, mentor) VALUES
          ('Ann Lee', '1950-02-03', 1.7, '{"fair","kind"}', NULL), ('Bob Ray', NULL, NULL, NULL, 1);
        INSERT INTO taught VALUES (1, 'MA', 1, 1980), (2, 'PH', 1, 1999);
        INSERT INTO bill VALUES (3, 1, '2020-01-02'), (13, 2, '2021-01-02');
    """
    engine = sqlalchemy.create_engine(postgres)
    with engine.begin() as connection:
        for statement in filter(str.strip, statements.split(";")):
            connection.exec_driver_sql(statement)
    engine.dispose()
    read = read_tables(tmp_path, as_files([postgres], tmp_path, "own"))
    assert read.triples("taught") == {("Ann Lee", "Algebra"), ("Bob Ray", "Optics")}
    assert read.triples("mentor") == {("Bob Ray", "Ann Lee")}
    about = read.properties("Person/1")
    assert (about["born"], about["tall"], about["tags"]) == ("1950-02-03", 1.7, ["fair", "kind"])
    assert read.names("Bill") == {"Bill 3", "Bill 13"}
    types = [each["types"] for each in read.entities.values()]
    assert types.count(["Bill"]) == 2
    assert not read.names("BillOld")  # a partition, whose rows the table has
    assert read.report.rejected == 0


@pytest.mark.parametrize(
    ("package", "source", "extra"),
    [("openpyxl", "own.xlsx", "excel"), ("sqlalchemy", "sqlite:///own.db", "sql")],
)
def test_what_is_to_be_installed_is_said(
    tmp_path: Path, package: str, source: str, extra: str
) -> None:
    if find_spec(package):
        pytest.skip(f"{package} is installed")
    (tmp_path / "own.xlsx").write_bytes(b"PK\x03\x04 not a workbook")
    with pytest.raises(UsageError, match=rf"kgqa\[{extra}\]"):
        read_tables(
            tmp_path, as_files([source], tmp_path, "x") if "://" in source else [tmp_path / source]
        )


def test_foreign_keys_of_several_columns_point_to_one_thing(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "own.db")) as base, base:
        base.executescript(
            """
            CREATE TABLE course (dept TEXT, no INT, title TEXT, PRIMARY KEY (dept, no));
            CREATE TABLE student (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE enrolment (student_id INT REFERENCES student, course_dept TEXT,
              course_no INT, grade INT, PRIMARY KEY (student_id, course_dept, course_no),
              FOREIGN KEY (course_dept, course_no) REFERENCES course (dept, no));
            CREATE TABLE exam (id INTEGER PRIMARY KEY, title TEXT, course_dept TEXT, course_no INT,
              FOREIGN KEY (course_dept, course_no) REFERENCES course);
            INSERT INTO course VALUES ('MA', 1, 'Algebra'), ('PH', 1, 'Optics'), ('MA', 2, 'Sets');
            INSERT INTO student VALUES (7, 'Ann Lee'), (8, 'Bob Ray');
            INSERT INTO enrolment VALUES (7, 'MA', 1, 90), (7, 'PH', 1, 80), (8, 'MA', 2, 70);
            INSERT INTO exam VALUES (1, 'Spring algebra', 'MA', 1), (2, 'Lost', 'MA', 9);
            """
        )
    read = read_tables(tmp_path, [tmp_path / "own.db"])
    taken = {("Ann Lee", "Algebra"), ("Ann Lee", "Optics"), ("Bob Ray", "Sets")}
    assert read.triples("enrolment") == taken
    assert read.triples("course") == {("Spring algebra", "Algebra")}
    assert read.report.reasons == {"no course has the course_dept/course_no 'MA/9'": 1}
    assert read.properties("Course/MA/1") == {"dept": "MA", "no": 1, "title": "Algebra"}
    again = read_tables(tmp_path, [tmp_path / "own.db"], mapping=read.mapping)
    assert again.edges == read.edges
