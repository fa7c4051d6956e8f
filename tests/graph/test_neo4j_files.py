"""Import files: what any CSV reader of RFC 4180 gets out of them is the KG that went in."""

from __future__ import annotations

import csv
import dataclasses
import json
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import GraphError, IngestError
from kgqa.graph import neo4j_files
from kgqa.graph.model import KEYED_EDGE_SCHEMA, NAME_SCHEMA, RELATION_SCHEMA, KGInfo, Kind
from kgqa.graph.names import name_form
from kgqa.graph.neo4j_files import ARRAY_DELIMITER, MANIFEST, finished_files, write_import_files
from kgqa.graph.neo4j_native import edge_properties
from kgqa.graph.neo4j_write import (
    MAX_TYPES,
    check_entities,
    check_relations,
    grouped_names,
    indexed_name,
)
from kgqa.progress import Silent
from tests.graph.tables import entity, random_tables, tables_of, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.model import GraphTables
    from kgqa.graph.neo4j_files import ImportFiles

csv.field_size_limit(1 << 28)
SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(files: ImportFiles, what: str) -> Iterator[list[str]]:
    """The rows as Python's own reader sees them; files without breaks are one line a row."""
    for path in files.paths(what)[1:]:
        with path.open(encoding="utf-8", newline="") as file:
            found = list(csv.reader(file, strict=True))
        if path.name not in files.multiline:
            data = path.read_bytes()
            assert data.count(b"\n") == len(found)
            assert b"\r" not in data
        yield from found


def array(text: str) -> list[str]:
    return text.split(ARRAY_DELIMITER) if text else []


def check_files(files: ImportFiles, tables: GraphTables) -> None:
    """Compare files with the tables that they were written from, patches put in."""
    patches = {patch["key"]: patch for patch in files.patches}
    found = sorted(rows(files, "nodes"), key=lambda row: int(row[0]))
    wanted = tables.nodes.to_pylist()
    assert len(found) == len(wanted) == files.counts["nodes"]
    for key, (row, node) in enumerate(zip(found, wanted, strict=True)):
        patch = patches.get(key, {})
        assert row[:3] == [str(key), node["id"], node["name"] or ""]
        for place, name in ((3, "aliases"), (5, "types")):
            held = patch.get(name)
            assert (array(row[place]) if held is None else held) == (node[name] or [])
        assert row[4] == str(node["kind"])
        assert row[6] == (node["properties"] or "")
        more = {Kind.MEDIATOR: ["Mediator"], Kind.VALUE: ["Value"]}.get(Kind(node["kind"]), [])
        assert array(row[7]) == ["Entity", files.label, *more]
    ids = tables.relations.column("id").to_pylist()
    edges = [
        [str(e["head"]), str(e["tail"]), ids[e["relation"]], str(e["relation"]),
         e["properties"] or ""]
        for e in tables.edges.to_pylist()
    ]  # fmt: skip
    found = list(rows(files, "edges"))
    assert sorted(row[:5] for row in found) == sorted(edges)
    check_columns(files, found)
    relations = [
        [files.load, str(key), row["id"], row["name"], row["inverse"] or "", "KGRelation"]
        for key, row in enumerate(tables.relations.to_pylist())
    ]
    assert sorted(rows(files, "relations")) == sorted(relations)
    names = {norm: array(keys) for _, norm, keys, _ in rows(files, "names")}
    assert names == {norm: list(map(str, keys)) for norm, keys in plain_names(tables).items()}
    assert [
        path.read_text().rstrip("\n").count(",") + 1
        for path in (files.paths(what)[0] for what in ("nodes", "names", "relations", "edges"))
    ] == [8, 4, 6, 5 + len(edge_columns(files))]


READ = {"boolean": lambda text: text == "true", "long": int, "double": float, "string": str}


def edge_columns(files: ImportFiles) -> list[list[str]]:
    header = files.paths("edges")[0].read_text().rstrip("\n").split(",")
    return [name.split(":") for name in header[5:]]


def check_columns(files: ImportFiles, found: list[list[str]]) -> None:
    """Columns and patches give each edge the properties that a load over Bolt writes."""
    patches = {
        (patch["head"], patch["tail"], patch["rel"]): patch["properties"]
        for patch in files.edge_patches
    }
    assert len(patches) == len(files.edge_patches)
    for head, tail, _, relation, text, *values in found:
        wanted = edge_properties(text)
        if (place := (int(head), int(tail), int(relation))) in patches:
            assert edge_properties(patches[place]) == wanted
            continue
        held = {
            name: READ[kind](value)
            for (name, kind), value in zip(edge_columns(files), values, strict=False)
            if value or wanted.get(name) == ""  # the reader cannot tell no text from an empty one
        }
        assert held == wanted
        assert [type(held[name]) for name in wanted] == [type(value) for value in wanted.values()]


def plain_names(tables: GraphTables) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key, node in enumerate(tables.nodes.to_pylist()):
        if node["kind"] == Kind.ENTITY:
            texts = {name_form(text) for text in (node["name"], *node["aliases"]) if text}
            for norm in texts - {""}:
                found.setdefault(indexed_name(norm), []).append(key)
    return found


def test_the_tricky_kg_reads_back(tmp_path: Path) -> None:
    files = write_import_files(tricky_tables(), tmp_path, Silent())
    check_files(files, tricky_tables())
    assert files.size == sum(path.stat().st_size for path in tmp_path.glob("*.csv"))


@given(st.integers(0, 2**32))
@settings(SLOW, max_examples=20)
def test_any_kg_reads_back(tmp_path: Path, seed: int) -> None:
    tables = random_tables(seed)
    check_files(write_import_files(tables, tmp_path, Silent()), tables)


TEXT = st.text(st.sampled_from('ab"\n\r,;\\\x1f\0é😀\uffff \t'), max_size=6)


@given(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3), TEXT), min_size=1, max_size=8))
@settings(SLOW, max_examples=60)
def test_any_text_reads_back(tmp_path: Path, texts: list[tuple[str, list[str], str]]) -> None:
    # Python's reader takes no NUL, the importer does: that is tried with the real one
    texts = [
        (name.replace("\0", ""), [a.replace("\0", "") for a in aliases], other.replace("\0", ""))
        for name, aliases, other in texts
    ]
    nodes = [
        entity(f"n{row}", name, *aliases, types=aliases, properties={"x": name})
        for row, (name, aliases, _) in enumerate(texts)
    ]
    edges = [("n0", "r" + other, f"n{row}") for row, (_, _, other) in enumerate(texts)]
    tables = tables_of(nodes, edges)
    texts_held = [
        json.dumps({other: row, "t": other}, ensure_ascii=False) if other else None
        for row, (_, _, other) in enumerate(texts)
    ]
    texts_held = texts_held[: tables.edges.num_rows]
    held = pa.array(texts_held + [None] * (tables.edges.num_rows - len(texts_held)), pa.string())
    field = tables.edges.schema.field("properties")
    tables = dataclasses.replace(tables, edges=tables.edges.set_column(3, field, held))
    for name in [path.name for path in tmp_path.iterdir()]:
        (tmp_path / name).unlink()
    check_files(write_import_files(tables, tmp_path, Silent()), tables)


class _Cut:
    """A source that gives names in batches of one size."""

    def __init__(self, names: list[tuple[str, int]], size: int) -> None:
        self.parts = [names[start : start + size] for start in range(0, len(names), size)]

    def name_batches(self) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            rows = [{"norm": norm, "key": key} for norm, key in part]
            yield pa.RecordBatch.from_pylist(rows, schema=NAME_SCHEMA)


@given(
    st.dictionaries(st.text("abé", max_size=3), st.sets(st.integers(0, 50), min_size=1)),
    st.integers(1, 7),
)
def test_names_are_grouped_across_batches(names: dict[str, set[int]], size: int) -> None:
    pairs = sorted((norm, key) for norm, keys in names.items() for key in keys)
    cut: Any = _Cut(pairs, size)
    got = [row for batch in grouped_names(cut) for row in batch.to_pylist()]
    assert got == [{"norm": norm, "keys": sorted(names[norm])} for norm in sorted(names)]


def test_finished_files_are_used_again_and_others_are_not(tmp_path: Path) -> None:
    tables = random_tables(1)
    first = write_import_files(tables, tmp_path, Silent())
    assert finished_files(tables, tmp_path) == first
    assert write_import_files(tables, tmp_path, Silent()) == first
    assert finished_files(random_tables(2), tmp_path) is None
    path = first.paths("edges")[1]
    path.write_bytes(path.read_bytes()[:-1])
    assert finished_files(tables, tmp_path) is None, "a file that was cut short"
    second = write_import_files(tables, tmp_path, Silent())
    assert second.load != first.load
    check_files(second, tables)
    (tmp_path / MANIFEST).write_text("{")
    assert finished_files(tables, tmp_path) is None
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_stop_leaves_no_files_that_count_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = random_tables(1)
    write_import_files(tables, tmp_path, Silent())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(neo4j_files, "_edge_rows", stop)
        with pytest.raises(KeyboardInterrupt):
            write_import_files(random_tables(2), tmp_path, Silent())
    assert finished_files(tables, tmp_path) is None
    check_files(write_import_files(tables, tmp_path, Silent()), tables)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IngestError, match="file"):
        write_import_files(random_tables(1), tmp_path / "file" / "below", Silent())


def test_a_file_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    tables = tables_of([entity("a", "x" * 200_000), entity("b")], [("a", "r", "b")])
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        with pytest.raises(IngestError, match="disk has room") as caught:
            write_import_files(tables, tmp_path, Silent())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path) in str(caught.value)
    assert finished_files(tables, tmp_path) is None


class _Many:
    """A source with many relations and nothing else."""

    def __init__(self, count: int) -> None:
        self.info = KGInfo("wide", "x", "1", "out", 0, 0, 0, count, 0)
        ids = [f"user.u{i}.p{i}" if i % 3 else f"base.b{i}.p" for i in range(count - 1)]
        ids += ["people.person.name"]
        columns = {"id": ids, "name": ids, "inverse": [None] * count}
        self.relations = pa.table(columns, schema=RELATION_SCHEMA)


def test_too_many_relations_name_the_domains_to_leave_out() -> None:
    many: Any = _Many(MAX_TYPES)
    check_relations(many, 0, "bolt://x")
    with pytest.raises(GraphError, match=r"user \(43,689\), base \(21,845\), people \(1\)"):
        check_relations(many, 1, "bolt://x")
    more: Any = _Many(MAX_TYPES + 1)
    with pytest.raises(GraphError, match="65,536 relations; one Neo4j") as caught:
        check_relations(more, 0, "bolt://x")
    assert "domains" in caught.value.hint


@pytest.mark.parametrize("bad", ["x" * 9_000, "é" * 4_001, "a\0b"])
def test_ids_that_no_index_holds_are_named(bad: str) -> None:
    with pytest.raises(GraphError, match="entity id") as caught:
        check_entities(tables_of([entity(bad), entity("b")], [(bad, "r", "b")]))
    assert len(str(caught.value)) < 400
    check_entities(tables_of([entity("é" * 4_000), entity("b")], [("b", "r", "b")]))


ODD: list[dict[str, Any]] = [
    {}, {"w:x": 1}, {"on": "2001-02-03"}, {"list": [1, 2]}, {"t": 5}, {"x": 0.5}, {"x": 1},
    {"yes": True}, {"rel": 7}, {"id,": "a"}, {"big": 1 << 70}, {"empty": ""},
]  # fmt: skip


def test_edges_with_and_without_properties_in_one_batch(tmp_path: Path) -> None:
    tables = tricky_tables()
    count = tables.edges.num_rows
    texts = [
        json.dumps(ODD[row % len(ODD)] | {"w": row, "t": 'q"\n'}) if row % 2 else None
        for row in range(count)
    ]
    edges = pa.table(
        [*tables.edges.columns[:3], pa.array(texts, pa.string())], schema=KEYED_EDGE_SCHEMA
    )
    tables = dataclasses.replace(tables, edges=edges)
    files = write_import_files(tables, tmp_path, Silent())
    check_files(files, tables)
    assert 0 < len(files.edge_patches) < count // 2
    assert np.count_nonzero([bool(row[4]) for row in rows(
        write_import_files(tables, tmp_path, Silent()), "edges")]) == count // 2  # fmt: skip
