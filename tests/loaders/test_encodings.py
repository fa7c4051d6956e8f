"""Encodings of triples, names and graph files, and what stands above the first row."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from kgqa.loaders.encodings import above_rows, is_western, wide_encoding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]

ROWS = "head\trelation\ttail\nZoë\tlives in\tKöln\nAnn\tlives in\tYork\n"
EDGES = {("Zoë", "lives in", "Köln"), ("Ann", "lives in", "York")}
LABELS = (
    "<http://x/a> <http://x/likes> <http://x/b> .\n"
    '<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> "Zoë" .\n'
)
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32")


@pytest.mark.parametrize("encoding", [*WIDE, "utf-8-sig", "cp1252"])
def test_triples_names_and_n_triples_are_read_in_the_encodings_of_tables(
    load: Load, tmp_path: Path, encoding: str
) -> None:
    rows, names, labels = (tmp_path / name for name in ("kg.tsv", "names.tsv", "kg.nt"))
    rows.write_bytes(ROWS.encode(encoding))
    names.write_bytes("Ann\tAnn Brontë\nYork\tYork\n".encode(encoding))
    labels.write_bytes(LABELS.encode(encoding))
    loaded = load("triples", rows, names=names)
    assert loaded.edges == EDGES
    assert loaded.names()["Ann"] == "Ann Brontë"
    assert load("triples", labels).names()["http://x/a"] == "Zoë"


@pytest.mark.parametrize("encoding", [*WIDE, "cp1252"])
def test_graph_files_are_read_in_other_encodings(load: Load, tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "all.csv"
    file.write_bytes(
        "_id,_labels,name,_start,_end,_type\n0,:P,Zoë,,,\n1,:C,Köln,,,\n,,,0,1,LIVES_IN\n".encode(
            encoding
        )
    )
    assert set(load("graph", file).names().values()) == {"Zoë", "Köln"}


def test_a_padded_archive_of_windows_1252_is_read(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "kg.tsv.gz"
    file.write_bytes(gzip.compress(ROWS.encode("cp1252")) + bytes(512))
    assert load("triples", file).edges == EDGES


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"all of this is ASCII\n", None),
        ("Köln, Évian, Łódź\n".encode(), False),
        ("Köln and Évian cost 5 €\n".encode("cp1252"), True),
        (b"a\t\xff\n", False),  # damage
        ("Привет, мир\n".encode("cp1251"), False),
        ("Köln\n".encode() + "Zoë\n".encode("cp1252"), False),  # some lines are UTF-8
    ],
)
def test_windows_1252_is_told_from_damage_and_from_other_alphabets(
    data: bytes, expected: bool | None
) -> None:
    assert is_western(data) is expected


@pytest.mark.parametrize("encoding", WIDE)
def test_wide_text_is_known_by_its_mark_or_its_zeros(encoding: str) -> None:
    assert wide_encoding(ROWS.encode(encoding)) == encoding
    assert not wide_encoding(ROWS.encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sep=;\na;b\n1;2", (1, ";")),
        ("# made by hand\n#\n\nid,name\n1,Ann", (3, "")),
        ("# of people, by age, 2020\nid,name,age\n1,Ann,3", (1, "")),
        ("#id,name\n1,Ann", (0, "")),
        ("# x, y\n1.5, 2.5", (0, "")),  # as NumPy writes a header
        ("#one\tr\t#two\n#two\tr\tb\nc\tr\td", (0, "")),
        ("id,name", (0, "")),
    ],
)
def test_what_stands_above_the_first_row(text: str, expected: tuple[int, str]) -> None:
    assert above_rows(text.splitlines(), ",\t;|") == expected


@pytest.mark.parametrize(
    "above", ["sep=;\n", "# by hand\n", "# by hand; in 2020; at home\n", "\n# a\n# b\n"]
)
def test_nothing_above_a_header_becomes_a_fact(load: Load, tmp_path: Path, above: str) -> None:
    file = tmp_path / "kg.csv"
    file.write_text(above + ROWS.replace("\t", ";"), encoding="utf-8")
    loaded = load("triples", file)
    assert loaded.edges == EDGES
    assert loaded.report.rejected == 0
    assert load("triples", file, columns="head,relation,tail").edges == EDGES
