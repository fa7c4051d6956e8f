"""Workbooks and databases: with the packages of the extras, and what is said without them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.memory import as_files
from tests.loaders.tables_read import read_tables

if TYPE_CHECKING:
    from pathlib import Path


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
