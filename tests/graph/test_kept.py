"""What is computed from a KG is kept with its version, and nothing damaged or foreign is read."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import kgqa
from kgqa.graph import sqlite
from kgqa.graph.kept import Kept
from kgqa.graph.sqlite import SqliteStore
from kgqa.queries.implicit_classes import queryable

if TYPE_CHECKING:
    from pathlib import Path

BY = ("graph/kept.py",)
ARRAYS = {"numbers": np.arange(5, dtype=np.int32), "none": np.zeros(0, np.int64)}
COLUMNS = ("row", "step", "target", "kind")


def triples(count: int) -> list[tuple[str, str, str]]:
    """Return people with a town, a birthday and a friend each."""
    return [
        triple
        for number in range(count)
        for triple in (
            (f"Person {number}", "lives in", f"Town {number % 7}"),
            (f"Person {number}", "born on", f"19{number % 90 + 10}-05-01"),
            (f"Person {number}", "friend of", f"Person {(number * 3 + 1) % count}"),
        )
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a KG of which columns are made."""
    monkeypatch.setattr(sqlite, "_FEW_EDGES", 10)
    kgqa.ingest("triples", triples(60), kg="people", home=tmp_path).close()
    return tmp_path / "people"


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    Kept(tmp_path / "k", "one").write("some", BY, ARRAYS, {"a": [1, 2.5, "é", None]})
    found = Kept(tmp_path / "k", "one").read("some", BY)
    assert found is not None
    assert found[1] == {"a": [1, 2.5, "é", None]}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[0][name], array)
        assert found[0][name].dtype == array.dtype


def test_another_version_and_other_code_read_nothing(tmp_path: Path) -> None:
    Kept(tmp_path / "k", "one").write("some", BY, ARRAYS)
    assert Kept(tmp_path / "k", "two").read("some", BY) is None
    assert Kept(tmp_path / "k", "one").read("some", ("graph/columns.py",)) is None
    assert Kept(tmp_path / "k", "one").read("other", BY) is None


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_changed_or_shortened_file_is_not_read(tmp_path: Path, part: float) -> None:
    kept = Kept(tmp_path / "k", "one")
    kept.write("some", BY, {"numbers": np.arange(100)}, {"words": "some"})
    (path,) = (tmp_path / "k").iterdir()
    whole = path.read_bytes()
    place = int(part * (len(whole) - 1))
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
    found = kept.read("some", BY)
    assert found is None or (found[0]["numbers"] == np.arange(100)).all()
    path.write_bytes(whole[:place])
    assert kept.read("some", BY) is None


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = Kept(tmp_path / "file", "one")
    kept.write("some", BY, ARRAYS)
    assert kept.read("some", BY) is None


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, running = (
        tmp_path / f".some.safetensors.{process}.partial" for process in (ended.pid, os.getppid())
    )
    for file in (left, running):
        file.touch()
    Kept(tmp_path, "one").write("some", BY, ARRAYS)
    assert set(tmp_path.iterdir()) == {running, tmp_path / "some.safetensors"}


def test_columns_give_what_the_file_gives(folder: Path) -> None:
    with SqliteStore(folder / "graph.sqlite") as file, SqliteStore(folder / "graph.sqlite") as made:
        keys = np.array([*range(-1, file.info.next_key + 2), 3, 3], np.int64)
        rows = [file.neighbours(keys, direction) for direction in ("out", "in", "both")]
        degrees, every = file.degrees(keys), file.instances("")
        ascending = keys[:-2]
        asked = [
            (some, np.array(relations), inverse)
            for some in (ascending, ascending[::5], ascending[40:60])
            for relations in ([0], [2, 1], [])
            for inverse in (False, True)
        ]
        of_relations = [
            file.edges_of(some, relations.astype(np.int64), inverse=inverse)
            for some, relations, inverse in asked
        ]
        made.prepare()
        assert made._columns is not None
        for direction, row in zip(("out", "in", "both"), rows, strict=True):
            again = made.neighbours(keys, direction)
            for name in COLUMNS:
                np.testing.assert_array_equal(getattr(again, name), getattr(row, name))
        np.testing.assert_array_equal(made.degrees(keys), degrees)
        np.testing.assert_array_equal(made.instances(""), every)
        for (some, relations, inverse), row in zip(asked, of_relations, strict=True):
            again = made.edges_of(some, relations.astype(np.int64), inverse=inverse)
            for name in COLUMNS:
                np.testing.assert_array_equal(getattr(again, name), getattr(row, name))


def test_a_second_process_reads_schema_and_classes_and_computes_neither(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(folder / "graph.sqlite") as store:
        first = queryable(store).schema()
    monkeypatch.setattr("kgqa.graph.properties._Survey", None)
    monkeypatch.setattr("kgqa.queries.implicit_classes._Classing", None)
    with SqliteStore(folder / "graph.sqlite") as store:
        graph = queryable(store)
        assert graph.schema() == first
        assert len(graph.instances(first.types[0].name)) == first.types[0].count
        name = first.types[0].properties[0].name
        keys = graph.instances(first.types[0].name)
        assert graph.property_values(keys, name)[1][0] == "1910-05-01"


def test_a_change_is_seen_and_what_was_kept_of_before_is_not_read(tmp_path: Path) -> None:
    with kgqa.ingest("triples", triples(60), kg="people", home=tmp_path) as kg:
        before = sum(relation.count for relation in kg.schema().relations)
    more = tmp_path / "more.tsv"
    more.write_text("Person 1\tlives in\tTown 3\n")
    with kgqa.open("people", home=tmp_path) as kg:
        kg.update(more)
        assert sum(relation.count for relation in kg.schema().relations) == before + 1
    with kgqa.open("people", home=tmp_path) as kg:
        assert sum(relation.count for relation in kg.schema().relations) == before + 1


def test_what_is_kept_goes_with_a_kg_in_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'one.sqlite'}"
    with kgqa.ingest("triples", triples(60), kg="one", graph=url, home=tmp_path / "home") as kg:
        kg.schema()
    assert (tmp_path / "one.kept").is_dir()
    kgqa.delete("one", graph=url, home=tmp_path / "home")
    assert not (tmp_path / "one.kept").exists()
