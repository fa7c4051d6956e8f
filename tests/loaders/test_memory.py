"""What is in memory is loaded as what is in files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

import kgqa
from kgqa.errors import PlanError, UsageError
from kgqa.loaders.memory import as_files
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

TOWNS = {"town_id": [1, 2], "name": ["York", "Bath"]}
PEOPLE = {"person_id": [7, 8], "name": ["Ann Lee", "Bob Ray"], "town_id": [1, 2]}


class Frame:
    """A DataFrame as all libraries give one: by the Arrow PyCapsule interface."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_frames_by_name_are_tables(tmp_path: Path) -> None:
    kg = kgqa.ingest(
        "tables", {"towns": Frame(TOWNS), "people": pa.table(PEOPLE)}, kg="p", home=tmp_path
    )
    with kg:
        assert kg.info.source == "towns.parquet, people.parquet"
        assert kg.check("Ann Lee -> town -> York").found


def test_rows_without_a_name_are_what_the_kg_is_called_after(tmp_path: Path) -> None:
    rows = [{"title": "Heat", "year": 1995}, {"title": "Up", "year": 2009}]
    with kgqa.ingest("tables", rows, kg="films", home=tmp_path) as kg:
        assert kg.check("Heat -> year -> 1995").found
        assert [type_.name for type_ in kg.store.schema().types] == ["Film"]


def test_tuples_and_frames_are_triples(tmp_path: Path) -> None:
    rows = [("Ada", "born in", "London"), ("Ada", "born", 1815)]
    frame = Frame({"source": ["Bob"], "target": ["Ada"], "type": ["knows"]})
    with kgqa.ingest("triples", rows, home=tmp_path) as kg:
        assert (kg.name, kg.info.edges) == ("triples", 2)
    with kgqa.ingest("triples", frame, kg="frames", home=tmp_path) as kg:
        assert kg.check("Bob -> knows -> Ada").found


class Broken:
    """A frame of a library that fails."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("its file is gone")


HALF = "x \ud800"
SPANS = pa.array([(1, 2, 3)], pa.month_day_nano_interval())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "holds no table"),
        ({"t": [{"name": HALF}]}, "The table t cannot be read: .*surrogate"),
        ({HALF: pa.table(TOWNS)}, "cannot be the name of a table"),
        ({"a\0b": pa.table(TOWNS)}, "cannot be the name of a table"),
        ({"x" * 400: pa.table(TOWNS)}, "cannot be the name of a table"),
        ({"": pa.table(TOWNS)}, "cannot be the name of a table"),
        ({"t": [{"name": "a", "v": 2}, {"name": "b", "v": "x"}]}, "The table t cannot be read"),
        ({"t": [{"name": "a", "v": object()}]}, "The table t cannot be read"),
        ({"t": [{"name": "a", "v": 2**70}]}, "The table t cannot be read"),
        ({"t": [{3: "a"}]}, "The table t cannot be read"),
        ({"t": pa.table({"name": ["a"], "span": SPANS})}, "The table t cannot be read"),
        (Broken(), "The table kg cannot be read: its file is gone"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path: Path, source: object, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        kgqa.ingest("tables", source, kg="kg", home=tmp_path)
    str(raised.value).encode()
    assert not (tmp_path / "kg").exists()


def test_a_triple_that_cannot_be_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The table kg cannot be read: .*surrogate"):
        kgqa.ingest("triples", [("a", HALF, "c")], kg="kg", home=tmp_path)


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Item 2 is"):
        as_files([[("a", "b", "c"), ("d", "e")]], tmp_path, "x", triples=True)
    with pytest.raises(UsageError, match="cannot read a int"):
        as_files([3], tmp_path, "x")
    with pytest.raises(UsageError, match="reads files"):
        kgqa.ingest("freebase", [("a", "b", "c")], home=tmp_path)


def test_what_a_frame_loses_is_said_and_odd_names_are_answered(tmp_path: Path) -> None:
    class Noted(Silent):
        said: ClassVar[list[str]] = []

        def note(self, text: str) -> None:
            self.said.append(text)

    rows = {"name": ["Ann", "Bob", "Cid"], "height\0cm": [1.5, math.inf, -math.inf]}
    with kgqa.ingest("tables", pa.table(rows), kg="people", home=tmp_path, progress=Noted()) as kg:
        plan = "Person | give Person, Person.[height\0cm]"
        assert kg.query(plan).plain_rows() == [["Ann", 1.5], ["Bob", None], ["Cid", None]]
        with pytest.raises(PlanError, match="holds a NUL"):
            kg.cypher(plan)
    assert any("infinite: 2 of height" in note for note in Noted.said)
    lines = [
        '{"name": "Ann", "score": Infinity, "all": [1.0, Infinity]}',
        '{"name": "Bob", "score": 2.5}',
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    kgqa.ingest("tables", tmp_path / "p.jsonl", home=tmp_path, progress=Noted()).close()
    for column in ("score", "all"):
        assert any(f"infinite: 1 of {column}" in note for note in Noted.said)
