"""Writing a whole KG into Neo4j over Bolt, in batches, and how a KG lies there.

A load writes under a free label (``:Freebase``, ``:Freebase_2``) and becomes visible in one step,
when the KG's ``KGMeta`` is pointed at it. The next load deletes what a stopped one left.
"""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa import cypher
from kgqa.errors import GraphError
from kgqa.graph.model import NAME_SCHEMA, Kind
from kgqa.graph.neo4j_native import (
    edge_properties,
    fact_description,
    label_names,
    node_description,
    stored_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import neo4j

    from kgqa.graph.model import IntArray
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress

NAME_BYTES = 1_000  # Neo4j indexes no value above about 8 kB; longer names are kept by their hash
MAX_TYPES = 65_535  # relationship types that one Neo4j database can hold
MAX_ID_BYTES = 8_000  # an index entry of Neo4j holds a little more
MIN_VERSION = (5, 26)
KIND_LABELS: dict[int, list[str]] = {
    Kind.ENTITY: [],
    Kind.MEDIATOR: ["Mediator"],
    Kind.VALUE: ["Value"],
}
GROUPED_SCHEMA = pa.schema([("norm", pa.string()), ("keys", pa.list_(pa.int64()))])
# Labels that mean something else here, so that no KG is named by them.
RESERVED_LABELS = (
    *("Entity", "Mediator", "Value"),
    *("KGMeta", "KGName", "KGRelation", "KGLoading", "KGDropping"),
)
_MAX_LISTED_DOMAINS = 8


def label_for(kg: str) -> str:
    """Return the label of a KG's nodes, unless another KG has it.

    >>> label_for("freebase"), label_for("fb15k-237")
    ('Freebase', 'Fb15k-237')
    """
    return kg[:1].upper() + kg[1:]


def indexed_name(name: str) -> str:
    """Return a normalised name, or its hash if it is too long for the index."""
    data = name.encode("utf-8")
    # No normalised name holds a colon, so a hash is never taken for one.
    return name if len(data) <= NAME_BYTES else "sha256:" + hashlib.sha256(data).hexdigest()


def node_row(node: dict[str, Any]) -> dict[str, Any]:
    """Convert a node (``ENTITY_SCHEMA`` and its key) to Neo4j's properties and labels."""
    # an empty list says no more than none; the importer cannot hold one
    lists = {name: node[name] or None for name in ("aliases", "types")}
    return {**node, **lists, "labels": KIND_LABELS[node["kind"]]}


def grouped_names(source: GraphSource) -> Iterator[pa.RecordBatch]:
    """Yield ``GROUPED_SCHEMA``: each name (hashed if too long) once, with its sorted keys."""
    left = NAME_SCHEMA.empty_table()
    for batch in source.name_batches():
        new_rows = pa.Table.from_batches([batch]).select(NAME_SCHEMA.names).cast(NAME_SCHEMA)
        rows = pa.concat_tables([left, new_rows]).combine_chunks()
        if not rows.num_rows:
            continue
        norms = rows.column("norm").chunk(0)
        new = pc.not_equal(norms.slice(1), norms.slice(0, len(norms) - 1)).to_numpy(
            zero_copy_only=False
        )
        starts = np.concatenate(([0], np.flatnonzero(new) + 1))
        # the last name may go on in the next batch
        left = rows.slice(int(starts[-1]))
        if len(starts) > 1:
            yield _grouped(rows.slice(0, int(starts[-1])), starts)
    if left.num_rows:
        yield _grouped(left, np.asarray([0, left.num_rows]))


def _grouped(rows: pa.Table, starts: np.ndarray) -> pa.RecordBatch:
    """Build one batch of names with their lists of keys, from rows sorted by name."""
    norms = rows.column("norm").combine_chunks().take(pa.array(starts[:-1]))
    long = pc.greater(pc.binary_length(norms), NAME_BYTES)
    if pc.any(long).as_py():
        hashes = [indexed_name(norm) for norm in norms.filter(long).to_pylist()]
        norms = pc.replace_with_mask(norms, long, pa.array(hashes, pa.string()))
    keys = rows.column("key").combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), keys)
    return pa.RecordBatch.from_arrays([norms, lists], schema=GROUPED_SCHEMA)


def check_version(version: tuple[int, int], url: str) -> None:
    """Raise GraphError if the server's version is too old for writing."""
    if version < MIN_VERSION:
        raise GraphError(
            f"Neo4j at {url} is version {version[0]}.{version[1]}.",
            "Loading needs 5.26 or newer.",
        )


def check_relations(source: GraphSource, others: int, url: str) -> None:
    """Raise GraphError if the KG's relations and ``others`` exceed a database's types."""
    ids = source.relations.column("id")
    check_types(source.info.name, ids.to_pylist(), others, url)
    for chunk in ids.chunks:
        check_ids("relation", chunk)


def check_types(kg: str, ids: Sequence[str], others: int, url: str) -> None:
    """Raise GraphError if relation ``ids`` and ``others`` exceed a database's types."""
    if len(ids) + others > MAX_TYPES:
        beside = f" and {url} {others:,} other relationship types" if others else ""
        raise GraphError(
            f"{kg} has {len(ids):,} relations{beside}; one Neo4j database holds "
            f"{MAX_TYPES:,}. The domains with the most: {_domains(ids)}.",
            "Leave some of these domains out of the load, or use the embedded store.",
        )


def check_entities(source: GraphSource) -> None:
    """Raise GraphError if an entity's id is empty, too long for an index or holds a NUL."""
    for batch in source.node_batches():
        check_ids("entity", batch.column("id"))


def _domains(relations: Sequence[str]) -> str:
    """Count relations by domain, the part before the first dot; return the largest as text."""
    counts = Counter(relation.partition(".")[0] for relation in relations)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_LISTED_DOMAINS]
    return ", ".join(f"{name[:60]} ({count:,})" for name, count in most)


def check_ids(what: str, ids: pa.Array) -> None:
    """Raise GraphError if an id is empty, too long for an index or holds a NUL character.

    ``what``: the ids' noun.
    """
    length = pc.binary_length(ids)
    wrong = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_ID_BYTES))
    wrong = pc.or_(wrong, pc.match_substring(ids, "\0"))
    if pc.any(wrong).as_py():
        value = ids.filter(wrong)[0].as_py()
        raise GraphError(
            f"The {what} id {value[:60]!r} cannot be written to Neo4j: it is empty, "
            f"longer than {MAX_ID_BYTES:,} bytes or holds a NUL character.",
            "Leave it out of the load, or use the embedded store.",
        )


_MANY_EDGES = 5_000_000
NODE_BATCH = 10_000
EDGE_BATCH = 20_000
_DELETED_NODES, _DELETED_EDGES = 5_000, 20_000  # at a time
BATCH_TIMEOUT = 300.0  # seconds
INDEX_TIMEOUT = 24 * 3600  # seconds that building indexes may take


class Neo4jWriter:
    """Writes whole KGs into one database over Bolt. A ``GraphWriter``."""

    def __init__(self, connection: Neo4jConnection) -> None:
        self.url = connection.url
        self._connection = connection

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG, unless it exists with that content; until then the old one is served.

        A later load of the same name overtakes this one. Raises StoreUnavailableError; GraphError
        if overtaken, the server is too old, or it cannot hold the relations, an id or a name.
        """
        self._connection.acquire()
        try:
            self._write(source, progress)
        finally:
            self._connection.release()

    def _write(self, source: GraphSource, progress: Progress) -> None:
        """Write nodes, edges, names and relations under a new label, and publish it."""
        self._check(source)
        info = source.info
        kg = info.name
        self.prepare()
        self.run("load_abandon", kg=kg)
        self._clean(progress)
        if self.same_content(source):
            progress.note(f"{kg} is in {self.url} already, with the same content.")
            return
        if info.edges > _MANY_EDGES:
            progress.note(
                f"{info.edges:,} edges go into Neo4j over Bolt; `method` admin, its own importer, "
                "is faster."
            )
        load = _Load(self._connection, kg, self.free_label(kg), info.reified)
        self.begin(kg, load.label, load.id)
        load.relations(source.relations)
        for what, total, sizes in (
            ("nodes", info.nodes, load.nodes(source.node_batches())),
            ("edges", info.edges, load.edges(source.edge_batches(), source.relations)),
            ("names", None, load.names(grouped_names(source))),
        ):
            with progress.task(f"{what.capitalize()} into Neo4j", total, what) as task:
                for size in sizes:
                    task.advance(size)
        if not self.finish(source, load.label, load.id):
            raise load.overtaken()
        self._clean(progress)

    def drop(self, kg: str, progress: Progress) -> bool:
        """Delete a KG and remains of its stopped loads. Return whether it existed."""
        self.run("load_abandon", kg=kg)
        there = self._connection.meta(kg) is not None
        self.run("retire_kg", kg=kg)
        self._clean(progress)
        return there

    # -- before anything is written ----------------------------------------------------------

    def _check(self, source: GraphSource) -> None:
        """Raise GraphError if the server or the database cannot hold the KG."""
        check_version(self._connection.server_version(), self.url)
        relations = source.relations.column("id").to_pylist()
        others = self.run("count_types", relations=relations)[0]["count"]
        check_relations(source, others, self.url)
        check_entities(source)

    def prepare(self) -> None:
        """Create the constraints that all KGs of the database share."""
        for name in ("meta", "loading", "loading_label", "name", "relation"):
            self.run(f"constraint_{name}")

    def same_content(self, source: GraphSource) -> bool:
        """Return whether the KG exists with this content, and update its record if so."""
        info = source.info
        meta = self._connection.meta(info.name)
        if meta is None or meta.get("version") != info.version:
            return False
        nodes, edges = self._counts(meta["label"])
        if nodes != info.nodes or edges < info.edges:  # facts have relationships of their own
            return False
        kept = {name: meta.get(name) for name in ("label", "load", "labels")}
        fresh = dataclasses.asdict(info) | kept
        return bool(self.run("update_meta", load=meta["load"], meta=fresh))

    def free_label(self, kg: str) -> str:
        """Return a label that no KG and no node of the database uses."""
        taken = self.taken_labels()
        number, label = 1, label_for(kg)
        while label in taken or self.run("count_nodes", of=label)[0]["count"]:
            number += 1
            label = f"{label_for(kg)}_{number}"
        return label

    def begin(self, kg: str, label: str, load: str) -> None:
        """Record a load under ``label``, and create unique constraints on its ids and keys."""
        self.run("load_begin", kg=kg, label=label, load=load)
        for name in ("constraint_id", "constraint_key"):
            self.run(name, of=label)

    # -- after everything is written ---------------------------------------------------------

    def finish(self, source: GraphSource, label: str, load: str) -> bool:
        """Index, count and publish a load; return False if another load overtook it."""
        self.run("index_text", of=label)
        self.run("await_indexes", seconds=INDEX_TIMEOUT)
        nodes, edges = self._counts(label)
        info = source.info
        if (nodes, edges) != (info.nodes, info.edges):
            raise GraphError(
                f"Neo4j at {self.url} holds {nodes:,} nodes and {edges:,} edges of {info.name}; "
                f"written were {info.nodes:,} and {info.edges:,}. The load is not published.",
                "Load it again.",
            )
        labels = self._describe(source, label)
        meta = dataclasses.asdict(info) | {"label": label, "load": load, "labels": labels}
        return bool(self.run("load_publish", load=load, meta=meta))

    def taken_labels(self) -> set[str]:
        """Return the labels that no type may use: reserved ones, and those of the KGs."""
        return {*RESERVED_LABELS, *self.run("labels_taken")[0]["labels"]}

    def _describe(self, source: GraphSource, label: str) -> bool:
        """Write types as labels, properties, and facts; return whether types became labels."""
        types: set[str] = set()
        for batch in source.node_batches():
            types.update(pc.unique(pc.list_flatten(batch.column("types"))).to_pylist())
        labels = label_names(types, self.taken_labels() | {label})
        key = 0
        for part in _slices(source.node_batches(), NODE_BATCH):
            some = part.column("properties").is_valid()
            if labels:
                typed = pc.greater(pc.fill_null(pc.list_value_length(part.column("types")), 0), 0)
                some = pc.or_(some, typed)
            if some.true_count or source.info.reified:
                nodes = [{**row, "key": k} for k, row in enumerate(part.to_pylist(), key)]
                rows = [row for node in nodes if (row := node_description(node, labels))]
                self.run("describe_nodes", of=label, rows=rows)
                facts = [row for node in nodes if (row := fact_description(node))]
                self.run("write_facts", of=label, rows=facts)
            key += len(part)
        return bool(labels) or not types

    def _counts(self, label: str) -> tuple[int, int]:
        """Count the nodes and the edges under a label."""
        nodes, edges = (self.run(f"count_{w}", of=label)[0]["count"] for w in ("nodes", "edges"))
        return nodes, edges

    def _clean(self, progress: Progress) -> None:
        """Delete replaced content, and remains of stopped loads."""
        for old in self.run("dropping"):
            with progress.task(f"Deleting replaced content ({old['label']})"):
                self.run("drop_text", of=old["label"])
                self._delete_edges(old["label"])
                for name in ("delete_nodes", "drop_id", "drop_key"):
                    self.run(name, of=old["label"])
                for name in ("delete_names", "delete_relations", "delete_dropping"):
                    self.run(name, load=old["load"])

    def _delete_edges(self, label: str) -> None:
        """Delete all edges under a label in batches."""
        # A transaction is held in the server's memory, and a few nodes may have any number of
        # edges, so that nodes cannot be deleted with theirs.
        count = self.run("count_keys", of=label)[0]["count"]
        for first in range(0, count, _DELETED_NODES):
            span = {"first": first, "after": first + _DELETED_NODES, "most": _DELETED_EDGES}
            while self.run("delete_edges", of=label, **span)[0]["count"] == _DELETED_EDGES:
                pass

    def run(self, name: str, of: str | None = None, **parameters: Any) -> list[neo4j.Record]:
        """Run a named statement on nodes of the label ``of`` and return its rows.

        It runs in an auto-commit transaction, as deletion in batches requires.
        """
        with self._connection.translated(), self._connection.session() as session:
            return list(session.run(cypher.statement(name, of), parameters))


class _Load:
    """One load in progress: writes batches, each in a transaction that claims the load."""

    def __init__(
        self, connection: Neo4jConnection, kg: str, label: str, reified: Sequence[str] = ()
    ) -> None:
        self._reified = frozenset(reified)
        self.id = uuid.uuid4().hex
        self.label = label
        self._connection = connection
        self._kg = kg
        self._batch = 0

    def nodes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
        """Write nodes in batches; yield the number of rows of each."""
        start = 0
        for part in _slices(batches, NODE_BATCH):
            rows = part.to_pylist()
            numbered = [node_row({**row, "key": key}) for key, row in enumerate(rows, start)]
            self._write("write_nodes", self.label, rows=numbered)
            start += len(rows)
            yield len(rows)

    def edges(self, batches: Iterable[pa.RecordBatch], relations: pa.Table) -> Iterator[int]:
        """Write edges in batches; yield the number of rows of each."""
        ids = relations.column("id").to_pylist()
        types = np.asarray([stored_type(id_, self._reified) for id_ in ids], dtype=object)
        for part in _slices(batches, EDGE_BATCH):
            keys: IntArray = part.column("relation").to_numpy()
            self._write(
                "write_edges",
                self.label,
                heads=part.column("head").to_pylist(),
                tails=part.column("tail").to_pylist(),
                relations=keys.tolist(),
                types=types[keys].tolist(),
                properties=(texts := part.column("properties").to_pylist()),
                natives=list(map(edge_properties, texts)),
            )
            yield part.num_rows

    def names(self, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
        """Write normalised names in batches; yield the number of rows of each."""
        for part in _slices(batches, NODE_BATCH):
            self._write("write_names", load=self.id, rows=part.to_pylist())
            yield part.num_rows

    def relations(self, table: pa.Table) -> None:
        """Write the relations in batches."""
        rows = [{"key": key} | row for key, row in enumerate(table.to_pylist())]
        for start in range(0, len(rows), NODE_BATCH):
            self._write("write_relations", load=self.id, rows=rows[start : start + NODE_BATCH])

    def overtaken(self) -> GraphError:
        """Return the error of a load that a later load of the same name replaced."""
        return GraphError(
            f"Another load of {self._kg} into {self._connection.url} began and took the place of "
            "this one.",
            "Let that one finish.",
        )

    def _write(self, name: str, label: str | None = None, **parameters: Any) -> None:
        """Run a writing statement once, even after a retry. Raises GraphError if overtaken."""
        from neo4j import unit_of_work

        self._batch += 1
        statement = cypher.statement(name, label)

        @unit_of_work(timeout=BATCH_TIMEOUT)
        def work(transaction: neo4j.ManagedTransaction) -> bool:
            """Claim the load and write the batch if it is new; return False if overtaken."""
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


def _slices(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Split batches into slices of at most ``rows`` rows."""
    for batch in batches:
        for start in range(0, len(batch), rows):
            yield batch.slice(start, rows)
