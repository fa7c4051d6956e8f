"""Dialects, and rows that an unquoted delimiter has shifted."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError
from kgqa.loaders.tabular_csv import read_csv

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "\n".join(f"{n},Street {n},Paris,{1990 + n},FR" for n in range(9))


def table(path: Path, text: str) -> tuple[list[dict[str, str]], list[int], list[tuple[int, str]]]:
    path.write_text(text, "utf-8")
    found = read_csv(path)
    rejected = [(row, why) for row, why, _ in found.broken]
    return found.columns.to_pylist(), found.rows.tolist(), rejected


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    text = 'a,b\n1,"x,y"\n2,z\n'.replace(",", delimiter)
    rows, numbers, _ = table(tmp_path / "t.csv", text)
    assert rows == [{"a": "1", "b": f"x{delimiter}y"}, {"a": "2", "b": "z"}]
    assert numbers == [2, 3]


def test_a_table_of_excel_in_windows_1252_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a;b\n1;Köln\n".encode("cp1252"))
    found = read_csv(tmp_path / "t.csv")
    assert found.columns["b"].to_pylist() == ["Köln"]
    assert "not UTF-8" in found.notes[0]


def test_what_is_not_text_is_a_named_error(tmp_path: Path) -> None:
    for seed in range(40):
        (tmp_path / "t.csv").write_bytes(random.Random(seed).randbytes(3_000))
        with suppress(DumpMalformedError):
            read_csv(tmp_path / "t.csv")


def test_a_field_that_was_split_before_a_space_is_joined(tmp_path: Path) -> None:
    head = "id,address,city,founded,country\n"
    rows, numbers, rejected = table(
        tmp_path / "t.csv",
        head + GOOD + "\n20,Rua do Paço, 67,Rio,1999,BR\n21,5,Elm Row,Paris,2001,FR\n22,x\n",
    )
    assert rows[-1] == {
        "id": "20",
        "address": "Rua do Paço, 67",
        "city": "Rio",
        "founded": "1999",
        "country": "BR",
    }
    assert numbers == list(range(2, 12))
    assert rejected == [(12, "6 fields in place of 5"), (13, "2 fields in place of 5")]


def test_spaces_join_nothing_where_all_fields_begin_with_one(tmp_path: Path) -> None:
    rows, _, rejected = table(tmp_path / "t.csv", "id,a,b\n1, x, y\n2, u, v\n3, p, q, r\n")
    assert [row["id"] for row in rows] == ["1", "2"]
    assert rejected == [(4, "4 fields in place of 3")]


@given(st.lists(st.integers(0, 8), max_size=9), st.integers(0, 3))
def test_each_row_is_kept_or_rejected_under_its_number(
    tmp_path_factory: pytest.TempPathFactory, widths: list[int], start: int
) -> None:
    lines = [",".join(str(start + n) for n in range(max(1, width))) for width in widths]
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    _, numbers, rejected = table(path, "\n".join(["a,b,c", *lines, ""]))
    assert sorted(numbers + [row for row, _ in rejected]) == list(range(2, 2 + len(lines)))


def test_what_stands_above_the_header_is_not_read(tmp_path: Path) -> None:
    for above in ("sep=;\n", "# made by hand\n#\n", "My people\n\n", "\n\n", "\ufeffsep=;\n"):
        rows, numbers, _ = table(tmp_path / "t.csv", above + "id;name\n1;Ann\n2;Bob\n")
        assert rows == [{"id": "1", "name": "Ann"}, {"id": "2", "name": "Bob"}]
        assert numbers == [above.count("\n") + 2, above.count("\n") + 3]
    assert table(tmp_path / "t.csv", "#id,name\n1,Ann\n")[0] == [{"id": "1", "name": "Ann"}]


def test_a_stray_quote_does_not_swallow_rows(tmp_path: Path) -> None:
    head = "id,name,city\n"
    expected = [("1", "Ann", "York"), ("2", "Bob", "Bath"), ("3", "Cid", "Bonn")]
    for text in (
        '1,"Ann,York\n2,Bob,Bath\n3,Cid,"Bonn"\n',
        '1,Ann,"York\n2,Bob,Bath\n3,Cid,Bonn\n',
        '1,Ann,"York\n2,Bob,Bath"\n3,Cid,Bonn\n',
        '1,"Ann,York\n2,"Bob,Bath\n3,Cid,Bonn\n',
    ):
        rows, numbers, rejected = table(tmp_path / "t.csv", head + text)
        assert [tuple(row.values()) for row in rows] == expected
        assert (numbers, rejected) == ([2, 3, 4], [])


def test_a_quoted_field_of_several_lines_stays_one(tmp_path: Path) -> None:
    text = 'id,name,note\n1,Ann,"one, two\nthree"\n2,"Bob ""B"" Ray",x\n'
    rows, _, _ = table(tmp_path / "t.csv", text)
    assert [row["note"] for row in rows] == ["one, two\nthree", "x"]
    assert rows[1]["name"] == 'Bob "B" Ray'


def test_prose_with_commas_in_a_field_of_several_lines_is_no_row(tmp_path: Path) -> None:
    note = "Held, or used\n: Heals a bit, then more, and again, as asked.\nAnd, then, stop, now"
    rows, numbers, rejected = table(
        tmp_path / "t.csv", f'id,name,note,level\n1,Salve,"{note}",3\n2,Balm,short,4\n'
    )
    assert [row["note"] for row in rows] == [note, "short"]
    assert (numbers, rejected) == ([2, 3], [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes("id,name\n1,Zoë\n2,Bob\n".encode(encoding))
    found = read_csv(tmp_path / "t.csv")
    assert found.columns.to_pylist()[0] == {"id": "1", "name": "Zoë"}


def test_a_byte_that_no_code_page_has_is_read_and_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"id,name\n1,a\x81b\n2,c\n")
    found = read_csv(tmp_path / "t.csv")
    assert "read as Latin-1" in found.notes[0]
    assert found.columns["name"].to_pylist() == ["a\x81b", "c"]


def test_a_row_that_ends_early_lacks_its_last_fields(tmp_path: Path) -> None:
    text = "id\tname\tkind\ttaxon\ne1\tAlra\tgene\tt9\ne2\tBent\tgene\ne3\tCole\n\ne4\n"
    rows, _, rejected = table(tmp_path / "t.tsv", text)
    assert [row["name"] for row in rows] == ["Alra", "Bent", "Cole"]
    assert rows[1] == {"id": "e2", "name": "Bent", "kind": "gene", "taxon": ""}
    assert rejected[-1][1] == "1 fields in place of 4"


def test_two_halves_of_a_row_are_not_two_rows(tmp_path: Path) -> None:
    text = "id,name,kind,taxon\ne1,Al,gene,t9\ne2,Be\nnt,gene,t9\n"
    rows, _, rejected = table(tmp_path / "t.csv", text)
    assert [row["id"] for row in rows] == ["e1"]
    assert [number for number, _ in rejected] == [3, 4]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
@pytest.mark.parametrize("above", ["Sales of{} 2020\n", "# by{}me\n", ""])
def test_marks_that_end_no_line_lose_no_row(tmp_path: Path, mark: str, above: str) -> None:
    text = above.format(mark) + f"name,ye{mark}ar\nA{mark}nn,1\nBob,2\nCid,3\n"
    (tmp_path / "t.csv").write_text(text, "utf-8")
    found = read_csv(tmp_path / "t.csv").columns
    assert found.column_names == ["name", f"ye{mark}ar"]
    assert found["name"].to_pylist() == [f"A{mark}nn", "Bob", "Cid"]
