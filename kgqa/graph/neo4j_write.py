"""Writing a whole KG into Neo4j over Bolt.

A load writes under a label that no KG in service has and becomes visible by one step at its end,
when the KG's ``KGMeta`` record is pointed at it; until then an older KG of that name serves. What a
stopped load left is found and deleted by the next one. The first load of ``freebase`` writes
``:Freebase``; one that replaces it ``:Freebase_2``, and the next ``:Freebase`` again. What this
does not do: read dumps, or import offline.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa import cypher
from kgqa.errors import GraphError
from kgqa.graph.model import Kind
from kgqa.graph.neo4j_store import indexed_name
from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import neo4j
    import pyarrow as pa

    from kgqa.graph.model import GraphTables, IntArray
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.progress import Progress

NODE_BATCH = 10_000
EDGE_BATCH = 20_000
MAX_TYPES = 65_535  # relationship types that one Neo4j database can hold
MAX_ID_BYTES = 8_000  # an index entry of Neo4j holds a little more
MIN_VERSION = (5, 26)
BATCH_TIMEOUT = 300.0  # seconds
INDEX_TIMEOUT = 24 * 3600  # seconds that building indexes may take
# Labels that mean something else here, so that no KG is named by them.
_RESERVED = (
    *("Entity", "Mediator", "Value"),
    *("KGMeta", "KGName", "KGRelation", "KGLoading", "KGDropping"),
)
_KIND_LABELS: dict[int, list[str]] = {
    Kind.ENTITY: [],
    Kind.MEDIATOR: ["Mediator"],
    Kind.VALUE: ["Value"],
}


def label_for(kg: str) -> str:
    """Return the label that a KG's nodes have if no other KG has it.

    >>> label_for("freebase"), label_for("fb15k-237")
    ('Freebase', 'Fb15k-237')
    """
    return kg[:1].upper() + kg[1:]


class Neo4jWriter:
    """Writes whole KGs into one database, as :class:`kgqa.graph.write.GraphWriter`."""

    def __init__(self, connection: Neo4jConnection) -> None:
        self._connection = connection

    @property
    def url(self) -> str:
        """The server's URL, without credentials."""
        return self._connection.url

    def write(self, tables: GraphTables, progress: Progress) -> None:
        """Write the KG. Stopped anywhere, the older KG of that name still serves.

        Content that is there already is not written again. A second load of the same name at the
        same time overtakes the first, which then ends with an error. Raises StoreUnavailableError;
        GraphError where the server is too old, the KG has more relations than Neo4j has types, or
        an id, relation or name cannot be written.
        """
        self._connection.acquire()
        try:
            self._write(tables, progress)
        finally:
            self._connection.release()

    def _write(self, tables: GraphTables, progress: Progress) -> None:
        self._check(tables)
        kg = tables.info.name
        for name in ("meta", "loading", "loading_label", "name", "relation"):
            self._run(f"constraint_{name}")
        self._run("load_abandon", kg=kg)
        self._clean(progress)
        if self._same_content(tables):
            progress.note(f"{kg} is in {self.url} already, with the same content.")
            return
        load = _Load(self._connection, kg, self._free_label(kg))
        self._run("load_begin", kg=kg, label=load.label, load=load.id)
        for name in ("constraint_id", "constraint_key"):
            self._run(name, of=load.label)
        load.relations(tables.relations)
        with progress.task("Nodes into Neo4j", tables.nodes.num_rows, "nodes") as task:
            for count in load.nodes(tables.nodes):
                task.advance(count)
        with progress.task("Edges into Neo4j", tables.edges.num_rows, "edges") as task:
            for count in load.edges(tables.edges, tables.relations):
                task.advance(count)
        names = collected_names(tables.nodes)
        with progress.task("Names into Neo4j", len(names), "names") as task:
            for count in load.names(names):
                task.advance(count)
        self._run("index_text", of=load.label)
        self._run("await_indexes", seconds=INDEX_TIMEOUT)
        self._verify(load.label, tables)
        meta = dataclasses.asdict(tables.info) | {"label": load.label, "load": load.id}
        if not self._run("load_publish", load=load.id, meta=meta):
            raise load.overtaken()
        self._clean(progress)

    def drop(self, kg: str, progress: Progress) -> bool:
        """Delete a KG and what a stopped load of it left. Return whether there was one."""
        self._run("load_abandon", kg=kg)
        there = self._connection.meta(kg) is not None
        self._run("retire_kg", kg=kg)
        self._clean(progress)
        return there

    # -- before anything is written ----------------------------------------------------------

    def _check(self, tables: GraphTables) -> None:
        version = self._connection.server_version()
        if version < MIN_VERSION:
            raise GraphError(
                f"Neo4j at {self.url} is version {version[0]}.{version[1]}.",
                "Loading needs 5.26 or newer.",
            )
        relations = tables.relations.column("id").to_pylist()
        others = self._run("count_types", relations=relations)[0]["count"]
        if len(relations) + others > MAX_TYPES:
            raise GraphError(
                f"{tables.info.name} has {len(relations):,} relations and {self.url} {others:,} "
                f"other relationship types; one Neo4j database holds {MAX_TYPES:,}.",
                "Leave domains of predicates out of the load, or use the embedded store.",
            )
        for what, ids in (("relation", relations), ("entity", tables.nodes.column("id"))):
            for value in ids if isinstance(ids, list) else ids.to_pylist():
                # A character takes at most four bytes, so most ids need not be encoded.
                long = 4 * len(value) > MAX_ID_BYTES and len(value.encode()) > MAX_ID_BYTES
                if not value or long or "\0" in value:
                    raise GraphError(
                        f"The {what} id {value[:60]!r} cannot be written to Neo4j: it is empty, "
                        f"longer than {MAX_ID_BYTES:,} bytes or holds a NUL character.",
                        "Leave it out of the load, or use the embedded store.",
                    )

    def _same_content(self, tables: GraphTables) -> bool:
        meta = self._connection.meta(tables.info.name)
        if meta is None or meta.get("version") != tables.info.version:
            return False
        if self._counts(meta["label"]) != (tables.nodes.num_rows, tables.edges.num_rows):
            return False
        fresh = dataclasses.asdict(tables.info) | {"label": meta["label"], "load": meta["load"]}
        return bool(self._run("update_meta", load=meta["load"], meta=fresh))

    def _free_label(self, kg: str) -> str:
        """Return a label that no KG and no node of the database has."""
        taken = {*_RESERVED, *self._run("labels_taken")[0]["labels"]}
        number, label = 1, label_for(kg)
        while label in taken or self._run("count_nodes", of=label)[0]["count"]:
            number += 1
            label = f"{label_for(kg)}_{number}"
        return label

    # -- after everything is written ---------------------------------------------------------

    def _counts(self, label: str) -> tuple[int, int]:
        nodes, edges = (self._run(f"count_{w}", of=label)[0]["count"] for w in ("nodes", "edges"))
        return nodes, edges

    def _verify(self, label: str, tables: GraphTables) -> None:
        nodes, edges = self._counts(label)
        if (nodes, edges) != (tables.nodes.num_rows, tables.edges.num_rows):
            raise GraphError(
                f"Neo4j at {self.url} holds {nodes:,} nodes and {edges:,} edges of "
                f"{tables.info.name}; written were {tables.nodes.num_rows:,} and "
                f"{tables.edges.num_rows:,}. The load is not published.",
                "Load it again.",
            )

    def _clean(self, progress: Progress) -> None:
        """Delete what was replaced or left by a stopped load; may be stopped and done again."""
        for old in self._run("dropping"):
            with progress.task(f"Deleting what is no longer in use ({old['label']})"):
                for name in ("drop_text", "delete_nodes", "drop_id", "drop_key"):
                    self._run(name, of=old["label"])
                for name in ("delete_names", "delete_relations", "delete_dropping"):
                    self._run(name, load=old["load"])

    def _run(self, name: str, of: str | None = None, **parameters: Any) -> list[neo4j.Record]:
        """Run one statement in a transaction of its own (deleting in batches needs that)."""
        with self._connection.translated(), self._connection.session() as session:
            return list(session.run(cypher.statement(name, of), parameters))


class _Load:
    """The batches of one load. Each is written once, however often its transaction is tried."""

    def __init__(self, connection: Neo4jConnection, kg: str, label: str) -> None:
        self.id = uuid.uuid4().hex
        self.label = label
        self._connection = connection
        self._kg = kg
        self._batch = 0

    def nodes(self, table: pa.Table) -> Iterator[int]:
        """Write nodes, their keys counted from 0; yield the size of each batch."""
        for start in range(0, table.num_rows, NODE_BATCH):
            rows = table.slice(start, NODE_BATCH).to_pylist()
            for key, row in enumerate(rows, start):
                row |= {"key": key, "labels": _KIND_LABELS[row["kind"]]}
            self._write("write_nodes", self.label, rows=rows)
            yield len(rows)

    def edges(self, table: pa.Table, relations: pa.Table) -> Iterator[int]:
        """Write edges; yield the size of each batch."""
        types = np.asarray(relations.column("id").to_pylist(), dtype=object)
        for start in range(0, table.num_rows, EDGE_BATCH):
            part = table.slice(start, EDGE_BATCH)
            keys: IntArray = part.column("relation").to_numpy()
            self._write(
                "write_edges",
                self.label,
                heads=part.column("head").to_pylist(),
                tails=part.column("tail").to_pylist(),
                relations=keys.tolist(),
                types=types[keys].tolist(),
                properties=part.column("properties").to_pylist(),
            )
            yield part.num_rows

    def names(self, names: Sequence[tuple[str, list[int]]]) -> Iterator[int]:
        """Write normalised names with their keys; yield the size of each batch."""
        for start in range(0, len(names), NODE_BATCH):
            rows = [
                {"norm": norm, "keys": keys} for norm, keys in names[start : start + NODE_BATCH]
            ]
            self._write("write_names", load=self.id, rows=rows)
            yield len(rows)

    def relations(self, table: pa.Table) -> None:
        """Write the relations, their keys counted from 0."""
        rows = [{"key": key} | row for key, row in enumerate(table.to_pylist())]
        for start in range(0, len(rows), NODE_BATCH):
            self._write("write_relations", load=self.id, rows=rows[start : start + NODE_BATCH])

    def overtaken(self) -> GraphError:
        """Return the error of a load that another one of the same name took the place of."""
        return GraphError(
            f"Another load of {self._kg} into {self._connection.url} began and took the place of "
            "this one.",
            "Let that one finish.",
        )

    def _write(self, name: str, label: str | None = None, **parameters: Any) -> None:
        from neo4j import unit_of_work

        self._batch += 1
        statement = cypher.statement(name, label)

        @unit_of_work(timeout=BATCH_TIMEOUT)
        def work(transaction: neo4j.ManagedTransaction) -> bool:
            claim = transaction.run(
                cypher.statement("load_claim"), load=self.id, batch=self._batch
            ).single()
            if claim is None:
                return False
            # A commit whose answer got lost is tried again: then the batch is there already.
            if claim["done"] < self._batch:
                transaction.run(statement, parameters).consume()
            return True

        with self._connection.translated(), self._connection.session() as session:
            if not session.execute_write(work):
                raise self.overtaken()


def collected_names(nodes: pa.Table) -> list[tuple[str, list[int]]]:
    """Return every normalised name and alias of entities with the keys that bear it, sorted."""
    found: dict[str, list[int]] = {}
    columns = (nodes.column(name).to_pylist() for name in ("kind", "name", "aliases"))
    for key, (kind, name, aliases) in enumerate(zip(*columns, strict=True)):
        if kind == Kind.ENTITY:
            norms = {normalise(text) for text in (name, *(aliases or ())) if text}
            for norm in norms - {""}:
                found.setdefault(indexed_name(norm), []).append(key)
    return sorted(found.items())
