"""A dump gives the same KG however it is cut into batches, and says what it left out."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.graph.model import (
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    EdgeBatch,
    EntityBatch,
    Kind,
    RelationBatch,
)
from kgqa.loading.edges import REPEATED, UNKNOWN_END
from kgqa.loading.pipeline import assemble
from kgqa.loading.spool import NO_ID, NO_RELATION
from kgqa.loading.summary import UNUSED_RELATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import Batch, GraphTables

Row = tuple[str, dict[str, Any]]


def entity(id_: str | None, name: str | None = None, **columns: Any) -> Row:
    row = {"aliases": None, "kind": 0, "types": None, "properties": None, **columns}
    return "entity", {"id": id_, "name": name, **row}


def edge(head: str, relation: str | None, tail: str, properties: str | None = None) -> Row:
    row = {"head": head, "relation": relation, "tail": tail, "properties": properties}
    return "edge", row


def relation(id_: str, name: str) -> Row:
    return "relation", {"id": id_, "name": name}


_KINDS: dict[str, Any] = {
    "entity": (EntityBatch, ENTITY_SCHEMA),
    "edge": (EdgeBatch, EDGE_SCHEMA),
    "relation": (RelationBatch, RELATION_SCHEMA),
}


def batches(rows: Sequence[Row]) -> list[Batch]:
    """Each row a batch of its own, in the order given."""
    made = []
    for kind, row in rows:
        batch, schema = _KINDS[kind]
        made.append(batch(pa.RecordBatch.from_pylist([row], schema=schema)))
    return made


def put_together(rows: Sequence[Row]) -> tuple[GraphTables, Counter[str]]:
    dropped: Counter[str] = Counter()
    tables = assemble(batches(rows), name="kg", source="s", direction="out", dropped=dropped)
    return tables, dropped


def edges_of(tables: GraphTables) -> list[tuple[str, str, str, str | None]]:
    ids, relations = tables.nodes["id"].to_pylist(), tables.relations["id"].to_pylist()
    return [
        (ids[row["head"]], relations[row["relation"]], ids[row["tail"]], row["properties"])
        for row in tables.edges.to_pylist()
    ]


def test_ids_and_relations_are_sorted_by_code_point_and_edges_by_key() -> None:
    ids = ["b", "😀", "\ufffd", "B", "é", "a"]
    tables, _ = put_together(
        [
            *(entity(id_) for id_ in ids),
            edge("é", "z", "a"),
            edge("é", "Z", "b"),
            edge("B", "z", "😀"),
            relation("z", "zed"),
        ]
    )
    assert tables.nodes["id"].to_pylist() == ["B", "a", "b", "é", "\ufffd", "😀"]
    relations = tables.relations.select(["id", "name"]).to_pylist()
    assert relations == [{"id": "Z", "name": "Z"}, {"id": "z", "name": "zed"}]
    rows = [tuple(row.values())[:3] for row in tables.edges.to_pylist()]
    assert rows == sorted(rows) == [(0, 1, 5), (3, 0, 2), (3, 1, 1)]


def test_an_id_that_comes_again_is_one_entity() -> None:
    tables, _ = put_together(
        [
            entity("a", None, kind=1, types=["t2"]),
            entity("a", "Name", aliases=["Other", "", "Name"], properties='{"x": 1}'),
            entity("a", "Also", types=["t1", "t2"], properties='{"y": [2]}'),
            edge("a", "r", "a"),
        ]
    )
    (row,) = tables.nodes.to_pylist()
    assert json.loads(row.pop("properties")) == {"x": 1, "y": [2]}
    assert row == {
        "id": "a",
        "name": "Also",
        "aliases": ["Name", "Other"],
        "kind": Kind.MEDIATOR,
        "types": ["t1", "t2"],
    }


def test_what_is_left_out_is_counted() -> None:
    tables, dropped = put_together(
        [
            entity("a"),
            entity("b"),
            entity(None),
            entity(""),
            edge("a", "r", "b"),
            edge("a", "r", "b"),
            edge("a", "r", "nobody"),
            edge("nobody", "r", "a"),
            edge("a", "", "b"),
            edge("a", None, "b"),
            relation("unused", "u"),
        ]
    )
    assert edges_of(tables) == [("a", "r", "b", None)]
    assert dropped == {NO_ID: 2, REPEATED: 1, UNKNOWN_END: 2, NO_RELATION: 2, UNUSED_RELATION: 1}


def test_of_equal_edges_the_heaviest_stays_whole() -> None:
    light, heavy, plain = '{"weight": 1.0}', '{"weight": 2, "text": "x"}', None
    for order in ([light, heavy, plain], [plain, heavy, light]):
        rows = [entity("a"), *(edge("a", "r", "a", properties) for properties in order)]
        tables, dropped = put_together(rows)
        assert edges_of(tables) == [("a", "r", "a", heavy)]
        assert dropped == {REPEATED: 2}


def test_nothing_at_all_is_an_empty_kg() -> None:
    tables, dropped = put_together([])
    assert (tables.info.entities, tables.info.edges, dropped) == (0, 0, Counter())
    tables, dropped = put_together([entity("a"), edge("a", "r", "b")])
    assert (tables.info.entities, tables.info.relations, tables.info.edges) == (1, 0, 0)


def test_info_counts_nodes_by_kind() -> None:
    tables, _ = put_together(
        [entity("a", "A"), entity("m", kind=1), entity("v", "1", kind=2), entity("b", "B"),
         edge("a", "r", "m"), edge("m", "s", "v")]
    )  # fmt: skip
    info = tables.info
    assert (info.entities, info.mediators, info.values) == (2, 1, 1)
    assert (info.relations, info.edges, info.direction) == (2, 2, "out")


_IDS = st.sampled_from(["a", "b", "é", "😀", "z z", "\n"])
_NAMES = st.one_of(st.none(), st.sampled_from(["", "N", "n -> m", '"', "猫"]))
_JSON = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["weight", "x"]), st.integers(0, 3)).map(json.dumps),
)
_ROWS = st.lists(
    st.one_of(
        st.builds(
            entity,
            _IDS,
            _NAMES,
            aliases=st.one_of(st.none(), st.lists(st.sampled_from(["N", "al", "猫"]), max_size=3)),
            kind=st.integers(0, 2),
            types=st.one_of(st.none(), st.lists(st.sampled_from(["t", "u"]), max_size=2)),
            properties=_JSON,
        ),
        st.builds(edge, _IDS, st.sampled_from(["r", "s", "R"]), _IDS, _JSON),
        st.builds(relation, st.sampled_from(["r", "s"]), st.sampled_from(["r", "are", "ess"])),
    ),
    max_size=25,
)


@given(st.data())
@settings(max_examples=100)
def test_the_order_of_batches_does_not_matter(data: st.DataObject) -> None:
    rows = data.draw(_ROWS)
    one, dropped = put_together(rows)
    two, dropped_again = put_together(data.draw(st.permutations(rows)))
    assert one.info == two.info
    assert one.nodes.equals(two.nodes)
    assert one.relations.equals(two.relations)
    assert one.edges.equals(two.edges)
    assert dropped == dropped_again


@given(_ROWS)
@settings(max_examples=50)
def test_edges_are_just_those_between_entities_that_came(rows: list[Row]) -> None:
    tables, _ = put_together(rows)
    ids = {row["id"] for kind, row in rows if kind == "entity"}
    given_edges = {
        (row["head"], row["relation"], row["tail"]) for kind, row in rows if kind == "edge"
    }
    assert [found[:3] for found in edges_of(tables)] == sorted(
        triple for triple in given_edges if triple[0] in ids and triple[2] in ids
    )
