"""Workbooks as people make them: titles, merged cells, errors, formulas, sizes that are claimed."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import DumpMalformedError
from kgqa.loaders.tabular_files import read_tables
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgqa.loaders.tabular_table import Table

openpyxl = pytest.importorskip("openpyxl")


def made(path: Path, rows: list[list[Any]], change: Callable[[Any], None] | None = None) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if change:
        change(book.active)
    book.save(path)
    return path


def rewritten(path: Path, part: str, change: Callable[[str], str]) -> Path:
    """Change the XML of one part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts[part].decode()).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


SHEET = "xl/worksheets/sheet1.xml"


def read(path: Path) -> tuple[Table, str]:
    (table,) = read_tables([path], Silent())
    return table, " ".join(table.notes)


def test_a_title_above_the_header_is_said_and_not_read(tmp_path: Path) -> None:
    rows = [["Sales of 2024"], [], ["id", "name"], [1, "Ann"], [2, "Bob"]]
    table, said = read(made(tmp_path / "t.xlsx", rows))
    assert table.columns["name"].to_pylist() == ["Ann", "Bob"]
    assert table.rows.tolist() == [4, 5]
    assert '"Sales of 2024"' in said


def test_two_names_and_none_keep_their_columns(tmp_path: Path) -> None:
    table, said = read(made(tmp_path / "t.xlsx", [["id", "id", None, "x"], [1, 2, 3, 4]]))
    assert {name: column.to_pylist() for name, column in table.columns.items()} == {
        "id": ["1"],
        "id 2": ["2"],
        "column 3": ["3"],
        "x": ["4"],
    }
    assert "2 columns are called" in said
    assert "column 3 has no name" in said


def test_merged_cells_errors_and_formulas_are_said(tmp_path: Path) -> None:
    rows = [
        ["area", "name", "x"],
        ["North", "Ann", "#DIV/0!"],
        [None, "Bob", "=1+1"],
        ["S", "C", 5],
    ]
    path = made(tmp_path / "t.xlsx", rows, lambda sheet: sheet.merge_cells("A2:A3"))
    table, said = read(path)
    assert table.columns["area"].to_pylist() == ["North", "North", "S"]
    assert table.columns["x"].to_pylist() == [None, None, "5"]
    assert "1 merged cells" in said
    assert "1 cells hold an error" in said
    assert "1 formulas have no stored value" in said


def test_a_hidden_sheet_is_read_and_said(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.append([1, 2])
    hidden = book.create_sheet("codes")
    hidden.append(["code", "name"])
    hidden.append(["X", "Ex"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "t.xlsx")
    tables = {table.name: table for table in read_tables([tmp_path / "t.xlsx"], Silent())}
    assert "is hidden" in " ".join(tables["codes"].notes)


def test_the_size_that_a_sheet_claims_is_not_believed(tmp_path: Path) -> None:
    path = made(tmp_path / "t.xlsx", [["id", "name"], [1, "Ann"]])
    claimed = '<dimension ref="A1:XFD1048576"'
    rewritten(path, SHEET, lambda text: re.sub(r'<dimension ref="[^"]*"', claimed, text))
    table, _ = read(path)
    assert table.columns["name"].to_pylist() == ["Ann"]
    assert len(table) == 1


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "t.xlsx", [["id", "name"], [1, "Ann"]])
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/big.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(65):
            part.write(bytes(1 << 23))
    with pytest.raises(DumpMalformedError, match="unpacks to 520 MB"):
        read_tables([path], Silent())


def test_entities_that_expand_are_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "t.xlsx", [["id", "name"], [1, "Ann"]])
    levels = "".join(
        f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "boom" * 10}">' for n in range(9)
    )
    bomb = f"<!DOCTYPE x [{levels}]>"
    rewritten(path, "xl/workbook.xml", lambda text: bomb + text.replace('Sheet"', '&e8;"'))
    with pytest.raises(DumpMalformedError, match=r"t\.xlsx cannot be read as a workbook"):
        read_tables([path], Silent())


def test_a_truncated_workbook_is_refused_by_its_name(tmp_path: Path) -> None:
    path = made(tmp_path / "t.xlsx", [["id", "name"], [1, "Ann"]])
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(DumpMalformedError, match=r"t\.xlsx is not a workbook"):
            read_tables([path], Silent())
