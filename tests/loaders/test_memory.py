"""What is in memory is loaded as what is in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kgqa
from kgqa.errors import UsageError
from kgqa.loaders.memory import as_files

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


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Item 2 is"):
        as_files([[("a", "b", "c"), ("d", "e")]], tmp_path, "x", triples=True)
    with pytest.raises(UsageError, match="cannot read a int"):
        as_files([3], tmp_path, "x")
    with pytest.raises(UsageError, match="reads files"):
        kgqa.ingest("freebase", [("a", "b", "c")], home=tmp_path)
