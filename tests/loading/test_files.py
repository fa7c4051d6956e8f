"""A KG in files says just what the same KG in memory says, however small what is held at once."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.graph.mids import encode_mids
from kgqa.graph.model import (
    ALIAS,
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    EdgeBatch,
    EntityBatch,
    NameBatch,
    RelationBatch,
    TypeBatch,
    TypeRules,
    ValueBatch,
)
from kgqa.loading import columns, edges, files, nodes
from kgqa.loading.columns import Buckets
from kgqa.loading.pipeline import assemble_graph, empty_info
from kgqa.loading.spool import Spool
from kgqa.progress import Silent
from tests.graph.tables import random_tables, tricky_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import Batch, GraphTables
    from kgqa.loading.files import GraphFiles

_SMALL = ((nodes, "_SPAN"), (files, "_SPAN"), (files, "_EDGES_AT_ONCE"), (edges, "_ROWS"),
          (files, "_NAMES_AT_ONCE"), (nodes, "_GATHER"), (columns, "CHUNK_ROWS"))  # fmt: skip


def make_small(patch: pytest.MonkeyPatch, size: int, memory: int) -> None:
    """Let as little as ``size`` rows and ``memory`` bytes be held at once."""
    for module, name in _SMALL:
        patch.setattr(module, name, size)
    defaults = Buckets.__init__.__defaults__
    assert defaults == (32 << 20,)
    patch.setattr(Buckets.__init__, "__defaults__", (memory,))


def put_together(batches: Sequence[Batch], folder: Path) -> tuple[GraphFiles, Counter[str]]:
    """Do what a load does between scan and store, as if it were stopped after the scan."""
    dropped: Counter[str] = Counter()
    Spool(folder / "scan").write(batches, dropped)
    info = empty_info("kg", "a test", "out")
    (folder / "graph").mkdir(exist_ok=True)
    spool = Spool.open(folder / "scan")
    return assemble_graph(spool, info, folder / "graph", dropped, Silent()), dropped


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def assert_same(graph: GraphFiles, tables: GraphTables) -> None:
    assert graph.relations.to_pylist() == tables.relations.to_pylist()
    for method in ("node_batches", "edge_batches", "incoming_batches", "name_batches"):
        for _ in range(2):  # each may be called again
            assert rows_of(getattr(graph, method)()) == rows_of(getattr(tables, method)()), method
        for batch in getattr(graph, method)():
            batch.validate(full=True)


def batches_of(tables: GraphTables, dice: random.Random) -> list[Batch]:
    """Return a KG as a loader may give it: rows in any order, in batches of any size."""
    known = tables.nodes["id"].to_pylist()
    relations = tables.relations["id"].to_pylist()
    rows: list[tuple[Any, pa.Schema, dict[str, Any]]] = [
        (EntityBatch, ENTITY_SCHEMA, row) for row in tables.nodes.to_pylist()
    ]
    for row in tables.edges.to_pylist():
        ends = {"head": known[row["head"]], "tail": known[row["tail"]]}
        edge = {**row, **ends, "relation": relations[row["relation"]]}
        rows += [(EdgeBatch, EDGE_SCHEMA, edge)] * dice.choice((1, 1, 2))
    rows += [(RelationBatch, RELATION_SCHEMA, row) for row in tables.relations.to_pylist()]
    dice.shuffle(rows)
    batches: list[Batch] = []
    while rows:
        kind, schema, _ = rows[0]
        size = dice.randint(1, 7)
        taken = [row for row in rows if row[0] is kind][:size]
        rows = [row for row in rows if not any(row is one for one in taken)]
        batches.append(kind(pa.RecordBatch.from_pylist([row[2] for row in taken], schema=schema)))
    return batches


@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 7, 1 << 18]), st.sampled_from([0, 200, 1 << 28])
)
@settings(max_examples=40)
def test_files_are_the_same_graph_as_tables_whatever_the_order_and_the_sizes(
    seed: int, size: int, memory: int
) -> None:
    tables = random_tables(seed)
    dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        make_small(patch, size, memory)
        graph, _ = put_together(batches_of(tables, dice), Path(folder))
        assert_same(graph, tables)
        assert graph.info.version == tables.info.version
        counted = ("entities", "mediators", "values", "relations", "edges")
        for name in counted:
            assert getattr(graph.info, name) == getattr(tables.info, name)


@pytest.mark.parametrize("size", [1, 3, 1 << 18])
def test_a_graph_with_everything_that_is_easily_got_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    tables = tricky_tables()
    make_small(monkeypatch, size, 100)
    graph, _ = put_together(batches_of(tables, random.Random(size)), tmp_path)
    assert_same(graph, tables)
    assert graph.info.version == tables.info.version


MIDS = [f"{prefix}.{number:03}" for prefix in "gm" for number in range(12)]


def columns_of(dice: random.Random) -> list[tuple[Any, list[str], dict[str, Any]]]:
    """Rows as the Freebase loader gives them: (batch, column names, row)."""
    named = dice.sample(MIDS, 14)
    rows: list[tuple[Any, list[str], dict[str, Any]]] = []
    for mid in named:
        for rank in dice.choices((0, 1, ALIAS), k=dice.randint(1, 4)):
            text = dice.choice(["x", "X y", "Ä", "", "z"]) + mid[-1]
            rows.append(
                (NameBatch, ["id", "text", "rank"], {"id": mid, "text": text, "rank": rank})
            )
    for mid in dice.choices(MIDS, k=20):
        kind = dice.choice(["film.performance", "a.b", "user.hidden", "c.d"])
        rows.append((TypeBatch, ["id", "type"], {"id": mid, "type": kind}))
    for number in range(4):
        rows.append((ValueBatch, ["id", "name"], {"id": f'"{number}"', "name": str(number)}))
    for _ in range(60):
        tail = dice.choice([*MIDS, '"0"', '"1"', '"2"'])
        edge = {"head": dice.choice(MIDS), "relation": dice.choice("pqr"), "tail": tail}
        rows.append((EdgeBatch, ["head", "relation", "tail"], edge))
    return rows


def as_batch(kind: Any, names: list[str], rows: list[dict[str, Any]]) -> Batch:
    arrays = []
    for name in names:
        values = [row[name] for row in rows]
        mids = name in ("id", "head", "tail") and str(values[0]).startswith(("m.", "g."))
        if mids:
            arrays.append(pa.array(encode_mids(pa.array(values))))
        elif name == "rank":
            arrays.append(pa.array(values, type=pa.int64()))
        else:
            column = pa.array(values, type=pa.string())
            arrays.append(column.dictionary_encode() if name in ("type", "relation") else column)
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    if kind is EdgeBatch:
        nothing = pa.nulls(len(rows), pa.string())
        batch = batch.append_column(pa.field("properties", pa.string()), nothing)
    made: Batch = kind(batch, defines=True) if kind is NameBatch else kind(batch)
    return made


def in_batches(
    rows: list[tuple[Any, list[str], dict[str, Any]]], dice: random.Random
) -> list[Batch]:
    """Cut shuffled rows into batches, each of one kind and of ends of one form."""
    rules = TypeRules(frozenset({"film.performance"}), lambda name: not name.startswith("user"))
    rows = dice.sample(rows, len(rows))
    groups: dict[tuple[Any, bool], list[list[dict[str, Any]]]] = {}
    order: list[tuple[Any, list[str], list[dict[str, Any]]]] = []
    for kind, names, row in rows:
        value = str(row.get("tail", row.get("id"))).startswith('"')
        open_batches = groups.setdefault((kind, value), [])
        if not open_batches or len(open_batches[-1]) >= dice.randint(1, 9):
            open_batches.append([])
            order.append((kind, names, open_batches[-1]))
        open_batches[-1].append(row)
    made = [as_batch(*each) for each in order]
    made.insert(dice.randint(0, len(made)), rules)
    return made


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5]), st.sampled_from([0, 300, 1 << 28]))
@settings(max_examples=40)
def test_a_graph_of_mids_has_one_version_whatever_the_order_and_the_sizes(
    seed: int, size: int, memory: int
) -> None:
    rows = columns_of(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        whole, dropped = put_together(in_batches(rows, random.Random(1)), Path(folder) / "whole")
        with pytest.MonkeyPatch.context() as patch:
            make_small(patch, size, memory)
            other = in_batches(rows, random.Random(seed))
            parts, dropped_again = put_together(other, Path(folder) / "parts")
            assert_same(parts, whole.tables())
        assert parts.info == whole.info
        assert dropped == dropped_again


def test_a_change_of_any_kind_changes_the_version(tmp_path: Path) -> None:
    base = [
        {"id": "a", "name": "A", "aliases": ["x"], "kind": 0, "types": ["t"], "properties": None},
        {"id": "b", "name": "B", "aliases": [], "kind": 0, "types": [], "properties": None},
    ]
    edge = {"head": "a", "relation": "r", "tail": "b", "properties": None}

    def version(
        entities: list[dict[str, Any]], edges: list[dict[str, Any]], name: str = "r"
    ) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        graph, _ = put_together(
            [
                EntityBatch(pa.RecordBatch.from_pylist(entities, schema=ENTITY_SCHEMA)),
                EdgeBatch(pa.RecordBatch.from_pylist(edges, schema=EDGE_SCHEMA)),
                RelationBatch(
                    pa.RecordBatch.from_pylist([{"id": "r", "name": name}], schema=RELATION_SCHEMA)
                ),
            ],
            folder,
        )
        return graph.info.version

    changes: list[dict[str, Any]] = [
        {"id": "aa"}, {"name": "A2"}, {"name": None}, {"name": ""}, {"aliases": ["y"]},
        {"aliases": ["x", "y"]}, {"aliases": []}, {"kind": 1}, {"types": ["u"]}, {"types": []},
    ]  # fmt: skip
    versions = [version(base, [edge]), version(base, [edge], name="renamed")]
    for change in changes:
        changed = {**edge, "head": change.get("id", "a")}
        versions.append(version([{**base[0], **change}, base[1]], [changed]))
    versions.append(version(base, [{**edge, "relation": "s"}]))
    versions.append(version(base, [{**edge, "head": "b", "tail": "a"}]))
    versions.append(version(base, [edge, {**edge, "tail": "a"}]))
    # an empty name is none
    assert versions[4] == versions[5]
    assert len(set(versions)) == len(versions) - 1


def test_nothing_is_left_of_what_sorting_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch, 2, 0)
    graph, _ = put_together(batches_of(tricky_tables(), random.Random(0)), tmp_path)
    for _ in (*graph.incoming_batches(), *graph.name_batches()):
        pass
    left = sorted(path.name for path in (tmp_path / "graph").iterdir())
    assert left == [
        "edges.arrow", "info.json", "nodes.arrow", "relations.arrow",
    ]  # fmt: skip


def test_no_batch_is_bigger_than_what_may_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held is bounded by rows: nodes by their span, edges and names by about so many."""
    count = 4000
    dice = np.random.default_rng(5)
    entity: list[dict[str, Any]] = [
        {"id": f"e{n:05}", "name": f"name {n * 7919 % count}", "aliases": None}
        | {"kind": 0, "types": None, "properties": None}
        for n in range(count)
    ]
    rows = [
        {"head": f"e{a:05}", "relation": "r", "tail": f"e{b:05}", "properties": None}
        for a, b in dice.integers(0, count, (20_000, 2)).tolist()
    ]
    make_small(monkeypatch, 500, 1000)
    graph, _ = put_together(
        [
            EntityBatch(pa.RecordBatch.from_pylist(entity, schema=ENTITY_SCHEMA)),
            EdgeBatch(pa.RecordBatch.from_pylist(rows, schema=EDGE_SCHEMA)),
        ],
        tmp_path,
    )
    assert max(len(batch) for batch in graph.node_batches()) == 500
    # edges are even here, so that a bucket is hardly more than the bound
    assert max(len(batch) for batch in graph.edge_batches()) <= 1000
    assert max(len(batch) for batch in graph.incoming_batches()) <= 1000
    assert max(len(batch) for batch in graph.name_batches()) <= 1000
    assert sum(len(batch) for batch in graph.name_batches()) == count
