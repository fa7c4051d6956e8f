"""Files that are damaged, hostile or odd: each is read, or refused by its name in a sentence."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import uuid
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import kgqa
from kgqa.errors import DumpMalformedError
from kgqa.loaders import tabular_table
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.tabular_files import read_tables, table_files, unzipped
from kgqa.loaders.tabular_table import unique_names
from kgqa.progress import Silent
from tests.loaders import tables_read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgqa.loaders.tabular_table import Table


def table_of(path: Path) -> Table:
    (table,) = read_tables([path], Silent())
    return table


def cells(path: Path) -> dict[str, list[object]]:
    return {name: column.to_pylist() for name, column in table_of(path).columns.items()}


def test_a_column_of_bytes_is_left_out_and_said(tmp_path: Path) -> None:
    table = pa.table(
        {
            "uuid": pa.array([bytes(range(240, 256)), bytes(16)], pa.binary(16)),
            "name": ["Ann", "Bob"],
            "nested": [[{"a": 1}], [{"a": 2}]],
            "empty": pa.array([None, None], pa.string()),
        }
    )
    parquet.write_table(table, tmp_path / "person.parquet")
    found = table_of(tmp_path / "person.parquet")
    assert found.columns["name"].to_pylist() == ["Ann", "Bob"]
    said = " ".join(found.notes)
    assert "with bytes: uuid" in said
    assert "with nested values: nested" in said
    assert "with no value: empty" in said


def test_objects_in_cells_are_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "users.jsonl"
    path.write_text('{"name": "Iris", "home": {"city": "Lund", "at": {"no": 4}}}\n{"name": "Jarl"}')
    found = {"name": ["Iris", "Jarl"], "home.city": ["Lund", None], "home.at.no": ["4", None]}
    assert cells(path) == found


def test_rows_without_a_value_are_no_things_and_said(tmp_path: Path) -> None:
    path = tmp_path / "gauges.csv"
    path.write_text("gauge,level\nG1,1.5\n,\nG2,\n, NULL\n")
    found = table_of(path)
    assert cells(path) == {"gauge": ["G1", "G2"], "level": ["1.5", None]}
    assert found.rows.tolist() == [2, 4]
    assert found.notes == ["gauges.csv: 2 rows without a value are left out."]


def test_text_that_was_written_as_bytes_and_uuids_are_read(tmp_path: Path) -> None:
    one = uuid.UUID(int=7)
    storage = pa.array([one.bytes], pa.binary(16))
    table = pa.table(
        {
            "key": pa.ExtensionArray.from_storage(pa.uuid(), storage),
            "name": pa.array([b"K\xc3\xb6ln"]),
        }
    )
    feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed")
    assert cells(tmp_path / "t.arrow") == {"key": [str(one)], "name": ["Köln"]}


def test_zones_and_parts_of_a_second_are_kept(tmp_path: Path) -> None:
    moment = [1_704_096_000_000_000_001]  # nanoseconds
    table = pa.table(
        {
            "zoned": pa.array(moment, pa.timestamp("ns", "Europe/Berlin")),
            "utc": pa.array(moment, pa.timestamp("ns", "UTC")),
            "plain": pa.array(moment, pa.timestamp("ns")),
            "took": pa.array([5_400_000], pa.duration("ms")),
            "half": pa.array([1.5], pa.float16()),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    found = cells(tmp_path / "t.parquet")
    assert found["zoned"] == ["2024-01-01T09:00:00.000000+01:00"]
    assert found["utc"] == ["2024-01-01 08:00:00.000000Z"]
    assert (found["took"], found["half"]) == (["PT5400S"], ["1.5"])


def test_lists_with_nulls_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "fixed": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
            "free": [["a", None], [], None],
        }
    )
    parquet.write_table(table.slice(0, 3), tmp_path / "t.parquet")
    assert cells(tmp_path / "t.parquet") == {
        "fixed": [["1", "2"], None, ["3", None]],
        "free": [["a", None], [], None],
    }


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", b'{"key": 5}', b'{"foreign": {"a": 1}}'])
def test_metadata_that_declares_nonsense_is_an_error(tmp_path: Path, content: bytes) -> None:
    table = pa.table({"a": ["x"]}).replace_schema_metadata({b"kgqa": content})
    feather.write_feather(table, tmp_path / "t.arrow")
    with pytest.raises(DumpMalformedError, match="declares keys that cannot be read"):
        read_tables([tmp_path / "t.arrow"], Silent())


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.xlsx", "t.db", "t.jsonl", "t.csv.gz"])
def test_a_damaged_file_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    for content in (
        b"\x81\x00not",
        b"PK\x03\x04 not a workbook",
        b"SQLite format 3\0 no",
        b"PAR1PAR1",
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DumpMalformedError, match="t\\."):
            read_tables([tmp_path / name], Silent())


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DumpMalformedError, match="pipe"):
        read_tables([tmp_path / "t.csv"], Silent())


def test_a_table_that_is_too_wide_or_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.csv").write_text(",".join(f"c{n}" for n in range(10_001)) + "\n", "utf-8")
    with pytest.raises(DumpMalformedError, match=r"w\.csv has 10,001 columns"):
        read_tables([tmp_path / "w.csv"], Silent())
    same = pa.array(["x"] * 200_000).dictionary_encode()
    parquet.write_table(pa.table({"a": same}), tmp_path / "r.parquet")
    monkeypatch.setattr(tabular_table, "MAX_CELLS", 100_000)
    with pytest.raises(DumpMalformedError, match=r"r\.parquet has 200,000 rows"):
        read_tables([tmp_path / "r.parquet"], Silent())


def test_more_tables_than_can_be_compared_with_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabular_table, "MAX_TABLES", 3)
    files = [tmp_path / f"{name}.csv" for name in "abcd"]
    for file in files:
        file.write_text("name,x\nann,1\n")
    assert len(read_tables(files[:3], Silent())) == 3
    with pytest.raises(DumpMalformedError, match="more than 3 tables"):
        read_tables(files, Silent())


def test_json_lines_with_a_key_for_each_line_end_at_the_bound(tmp_path: Path) -> None:
    """Arrow goes through all keys for each new one; a few thousand would take minutes."""
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    few.write_text("".join(f'{{"id": {at}, "k{at}": {at}}}\n' for at in range(1_200)))
    found = table_of(few)
    assert len(found.columns) == 1_201
    assert found.columns["k1199"].to_pylist() == [None] * 1_199 + ["1199"]
    assert found.columns["k0"].to_pylist()[:2] == ["0", None]
    many.write_text("".join(f'{{"id": {at}, "k{at}": {at}}}\n' for at in range(20_000)))
    with pytest.raises(DumpMalformedError, match="a table may have 10,000"):
        table_of(many)


def test_json_lines_keep_large_integers_and_columns_of_several_types(tmp_path: Path) -> None:
    rows = [{"id": 2**64 + n, "v": v} for n, v in enumerate((1, "x", None))]
    text = "\n".join(map(json.dumps, rows)) + '\nnot JSON\n[1]\n{"id": 5}\n'
    (tmp_path / "t.jsonl").write_text(text, "utf-8")
    found = table_of(tmp_path / "t.jsonl")
    ids = [str(2**64 + n) for n in range(3)]
    assert found.columns["id"].to_pylist() == [*ids, "5"]
    assert found.columns["v"].to_pylist() == ["1", "x", None, None]
    assert found.rows.tolist() == [1, 2, 3, 6]
    assert [(row, why) for row, why, _ in found.broken] == [
        (4, "not a JSON object"),
        (5, "not a JSON object"),
    ]


def test_a_header_in_a_file_of_its_own_is_of_all_parts(tmp_path: Path) -> None:
    for name, text in (
        ("people_header.csv", ":ID(P),name\n"),
        ("people.csv", "1,Ann\n"),
        ("people_2.csv", "2,Bob\n"),
        ("peopleware.csv", "id,name\n3,Cid\n"),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    found = {table.name: table for table in read_tables(table_files(tmp_path, Silent()), Silent())}
    assert sorted(found) == ["people", "people_2", "peopleware"]
    assert found["people_2"].columns["name"].to_pylist() == ["Bob"]
    assert found["people"].rows.tolist() == [1]
    assert list(found["peopleware"].columns) == ["id", "name"]


def test_names_of_columns_are_made_unique() -> None:
    names, said = unique_names(["a", "a", "a", " ", "a 2"])
    assert names == ["a", "a 2", "a 3", "column 4", "a 2 2"]
    assert said[0] == '3 columns are called "a"'


def test_a_reject_is_one_line_whatever_files_and_columns_are_called(tmp_path: Path) -> None:
    rejects = Rejects(tmp_path / "rejects.tsv", Report())
    rejects.add("a\nb.csv", 3, "no\tkey\u2028", "x\x85y\tz")
    rejects.close()
    lines = (tmp_path / "rejects.tsv").read_text("utf-8").splitlines()
    assert [len(line.split("\t")) for line in lines] == [4, 4]


@pytest.mark.parametrize(
    "content",
    [
        '[{"name": "Ann", "city": "York"}, {"name": "Bob", "n": 12345678901234567890}]',
        '[\n  {"name": "Ann", "city": "York"},\n  {"name": "Bob", "n": 12345678901234567890}\n]\n',
    ],
)
def test_an_array_of_json_objects_is_a_table(load: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "people.json").write_text(content)
    (tmp_path / "package.json").write_text('{"name": "no table"}')
    loaded = load("tables", tmp_path)
    assert {each["name"] for each in loaded.entities.values()} >= {"Ann", "Bob"}
    assert "12345678901234567890" in str(loaded.entities)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.csv", "name,city\n", "a header and no row"),
        ("a.csv", "name,city", "one line, and no row"),
        ("a.json", '["a", "b"]', "one line, and no row"),
        ("a.json", '[{"a": 1},', "a JSON array with a fault"),
        ("a.csv", "", "is empty"),
    ],
)
def test_a_file_without_a_row_is_refused_by_what_it_is(
    load: Any, tmp_path: Path, name: str, content: str, what: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DumpMalformedError, match=what):
        load("tables", tmp_path / name)


def test_the_tables_in_a_zip_archive_are_read_and_its_other_files_are_said(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "feed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("feed/stops.csv", "stop_id,stop_name\n1,Quay\n2,Mill\n")
        archive.writestr("feed/visits.csv", "visit_id,stop_id\n7,1\n8,2\n")
        archive.writestr("feed/README.md", "Stops.")
        archive.writestr("__MACOSX/feed/._stops.csv", b"\0\5")
    (tmp_path / "more").mkdir()
    read = tables_read.read_tables(tmp_path / "more", [tmp_path / "feed.zip"])
    assert read.triples("stop") == {("Visit 7", "Quay"), ("Visit 8", "Mill")}


def test_a_zip_archive_that_is_damaged_or_unpacks_too_far_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", "a,b\n" + "1,2\n" * 9_000)
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + b"\xff" * 8 + whole[68:])
    (tmp_path / "one").mkdir()
    with pytest.raises(DumpMalformedError, match=r"t\.zip cannot be unpacked"):
        unzipped([path], tmp_path / "one", Silent())
    path.write_bytes(whole)
    monkeypatch.setattr("kgqa.loaders.tabular_files._FREE", 1_000)
    monkeypatch.setattr("kgqa.loaders.tabular_files._MAX_RATIO", 2)
    (tmp_path / "two").mkdir()
    with pytest.raises(DumpMalformedError, match="more than 2 times its size"):
        unzipped([path], tmp_path / "two", Silent())


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress], ids=["gz", "bz2"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "graphml"])
def test_a_packed_file_that_is_cut_short_is_named(
    tmp_path: Path, packed: Callable[[bytes], bytes], kind: str
) -> None:
    rows = [{"title": f"Film {number}", "year": 1900 + number} for number in range(90)]
    edges = "".join(f'<edge source="a{n}" target="b{n}"/>' for n in range(90))
    text = {
        "csv": "title,year\n" + "".join(f"{row['title']},{row['year']}\n" for row in rows),
        "jsonl": "\n".join(map(json.dumps, rows)),
        "json": json.dumps(rows),
        "graphml": f'<graphml><graph edgedefault="directed">{edges}</graph></graphml>',
    }[kind]
    file = tmp_path / f"films.{kind}.{'gz' if packed is gzip.compress else 'bz2'}"
    loader = "graph" if kind == "graphml" else "tables"
    whole = packed(text.encode())
    for count in (len(whole) - 4, len(whole) // 2):
        file.write_bytes(whole[:count])
        with pytest.raises(DumpMalformedError, match=r"films\.\w+\.\w+"):
            kgqa.ingest(loader, file, kg="films", home=tmp_path / "home", progress=Silent())
