"""Changing a KG in Neo4j: one transaction, whose first statement makes all others wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import neo4j
import pyarrow as pa

from kgqa import cypher
from kgqa.graph.change import GraphChange, KeyedEdge, Node, overtaken
from kgqa.graph.neo4j_native import (
    edge_properties,
    fact_description,
    label_names,
    node_description,
    stored_type,
)
from kgqa.graph.neo4j_store import CHUNK, Neo4jStore
from kgqa.graph.neo4j_write import (
    RESERVED_LABELS,
    check_ids,
    check_types,
    check_version,
    indexed_name,
    node_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kgqa.graph.model import IntArray

_TIMEOUT = 3600.0  # seconds that a change may take


class Neo4jChanger:
    """Changes the KG of a store. A ``GraphChanger``."""

    def __init__(self, store: Neo4jStore) -> None:
        self._store = store

    def nodes(self, keys: IntArray) -> list[Node]:
        """Return the nodes of ``keys``, which must all exist."""
        changed: list[Node] = []
        names = ("name", "properties")
        for start in range(0, len(keys), CHUNK):
            answer = self._store.ask("nodes", keys=keys[start : start + CHUNK].tolist())
            for node in answer["found"]:
                lists = {name: list(node.get(name) or ()) for name in ("aliases", "types")}
                changed.append({**dict.fromkeys(names), **node, **lists})
        return changed

    def properties(self, edges: Sequence[KeyedEdge]) -> list[str | None]:
        """Return the properties of edges as JSON, None for an edge without any."""
        texts: list[str | None] = [None] * len(edges)
        for start in range(0, len(edges), CHUNK):
            columns: dict[str, Any] = _edge_columns(edges[start : start + CHUNK])
            answer = self._store.ask("edge_properties", **columns)
            for row, text in zip(answer["rows"], answer["texts"], strict=True):
                texts[start + row] = text
        return texts

    def unused(self, relations: Iterable[int], removed: Collection[KeyedEdge]) -> list[int]:
        """Return the ``relations`` that lose their last edge with the edges ``removed``."""
        ids = self._store.relations().ids
        gone = Counter(edge[1] for edge in removed)
        statement = cypher.statement("count_type", self._store.label)
        reified = self._store.info.reified
        return [
            key
            for key in relations
            if self._store.connection.read(statement, type=stored_type(ids[key], reified))[0][
                "count"
            ]
            == gone[key]
        ]

    def apply(self, change: GraphChange) -> None:
        """Apply the change in one transaction. Raises StoreUnavailableError, GraphError."""
        store = self._store
        connection = store.connection
        check_version(connection.server_version(), store.url)
        check_ids("entity", pa.array([node["id"] for node in change.nodes], pa.string()))
        new = [id_ for key, id_, *_ in change.relations if key >= change.before.next_relation]
        check_ids("relation", pa.array(new, pa.string()))
        every = [*store.relations().known, *new]
        rows = connection.read(cypher.statement("count_types"), relations=every)
        check_types(change.info.name, every, rows[0]["count"], store.url)

        @neo4j.unit_of_work(timeout=_TIMEOUT)
        def work(transaction: neo4j.ManagedTransaction) -> bool:
            """Run the change in this transaction; return False if the KG has another version."""
            return _Transaction(transaction, store, change).run()

        with connection.translated(), connection.session() as session:
            # a commit whose answer got lost is tried again, and finds its own version there
            done = session.execute_write(work)
        if not done:
            meta = connection.meta(change.info.name)
            if meta is None or meta["version"] != change.info.version:
                raise overtaken(change.info.name, store.url)


class _Transaction:
    """The statements of one change, run in one transaction."""

    def __init__(
        self, transaction: neo4j.ManagedTransaction, store: Neo4jStore, change: GraphChange
    ) -> None:
        self._transaction = transaction
        self._store = store
        self._change = change

    def run(self) -> bool:
        """Apply the change; return False if the KG is not at the expected version."""
        change, store = self._change, self._store
        ours = {"label": store.label, "load": store.load, "labels": store.typed}
        meta = asdict(change.info) | ours
        versions = {"load": store.load, "version": change.before.version}
        claim = cypher.statement("change_kg")
        if not list(self._transaction.run(claim, versions, meta=meta)):
            return False
        for part in _chunks(_given(fact_description(node) for node in change.old.values())):
            self._run_on_nodes("remove_facts", rows=part)
        for part in _chunks(sorted(change.removed_edges)):
            self._run_on_nodes("change_remove_edges", **_edge_columns(part))
        for part in _chunks(list(change.removed_nodes)):
            self._run_on_nodes("change_remove_nodes", keys=part)
        for name, known in (("write_nodes", False), ("change_nodes", True)):
            nodes = [node for node in change.nodes if (node["key"] in change.old) == known]
            for part in _chunks(nodes):
                self._run_on_nodes(name, rows=[node_row(node) for node in part])
        self._relations()
        self._edges()
        self._names()
        self._describe()
        return True

    def _describe(self) -> None:
        """Update nodes' labels and properties, and facts; types stay a list if stored as one."""
        change = self._change
        labels: dict[str, str] = {}
        if self._store.typed:
            changed = (*change.nodes, *change.old.values())
            taken = self._transaction.run(cypher.statement("labels_taken")).single(strict=True)
            types = {type_ for node in changed for type_ in node["types"] or ()}
            labels = label_names(types, {*RESERVED_LABELS, *taken["labels"], self._store.label})
        old = change.old
        rows = _given(node_description(node, labels, old.get(node["key"])) for node in change.nodes)
        for part in _chunks(rows):
            self._run_on_nodes("describe_nodes", rows=part)
        for part in _chunks(_given(fact_description(node) for node in change.nodes)):
            self._run_on_nodes("write_facts", rows=part)

    def _relations(self) -> None:
        """Write new and changed relations, and delete removed ones."""
        columns = ("key", "id", "name", "inverse")
        rows = [dict(zip(columns, row, strict=True)) for row in self._change.relations]
        self._run_on_load("change_relations", rows=rows)
        self._run_on_load("change_remove_relations", keys=list(self._change.removed_relations))

    def _edges(self) -> None:
        """Write new edges, set properties of changed edges, and delete removed edges."""
        change = self._change
        ids = {row[0]: row[1] for row in change.relations}
        types = self._store.relations().ids
        there = change.known_edges
        for name, known in (("write_edges", False), ("change_properties", True)):
            edges = [edge for edge in change.edges if (edge in there) == known]
            for part in _chunks(edges):
                columns = _edge_columns(part)
                columns["properties"] = [change.edges[edge] for edge in part]
                columns["natives"] = list(map(edge_properties, columns["properties"]))
                if not known:
                    named = (ids.get(edge[1]) or types[edge[1]] for edge in part)
                    columns["types"] = [stored_type(id_, change.info.reified) for id_ in named]
                self._run_on_nodes(name, **columns)

    def _names(self) -> None:
        """Update the index of normalised names: which entities' keys each name has."""
        added, removed = (
            {(indexed_name(norm), key) for norm, key in pairs} for pairs in self._change.names()
        )
        norms = sorted({norm for norm, _ in added | removed})
        for part in _chunks(norms):
            keys: dict[str, set[int]] = {norm: set() for norm in part}
            for row in self._run_on_load("change_names_now", norms=part):
                keys[row["norm"]] = set(row["keys"])
            for norm, key in removed:
                if norm in keys:
                    keys[norm].discard(key)
            for norm, key in added:
                if norm in keys:
                    keys[norm].add(key)
            rows = [{"norm": norm, "keys": sorted(left)} for norm, left in keys.items() if left]
            self._run_on_load("change_names", rows=rows)
            gone = [norm for norm, left in keys.items() if not left]
            self._run_on_load("change_remove_names", norms=gone)

    def _run_on_nodes(self, name: str, **parameters: Any) -> None:
        """Run a named statement on the nodes of the KG's label."""
        statement = cypher.statement(name, self._store.label)
        self._transaction.run(statement, parameters).consume()

    def _run_on_load(self, name: str, **parameters: Any) -> list[neo4j.Record]:
        """Run a named statement on records of the KG's load; return its rows."""
        parameters["load"] = self._store.load
        return list(self._transaction.run(cypher.statement(name), parameters))


def _given(rows: Iterable[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the rows that are not None."""
    return [row for row in rows if row is not None]


def _chunks(items: Sequence[Any]) -> Iterable[list[Any]]:
    """Split a sequence into lists of at most ``CHUNK`` items."""
    return (list(items[start : start + CHUNK]) for start in range(0, len(items), CHUNK))


def _edge_columns(edges: Sequence[KeyedEdge]) -> dict[str, list[Any]]:
    """Return edges as three columns: heads, relations and tails."""
    names = ("heads", "relations", "tails")
    return dict(zip(names, (list(column) for column in zip(*edges, strict=True)), strict=True))
