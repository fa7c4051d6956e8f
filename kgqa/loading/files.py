"""A whole KG in files: sorted nodes, edges and relations, which writers read in batches.

This is where every load ends before a store is touched.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from kgqa.graph.model import (
    ENTITY_SCHEMA,
    INCOMING_SCHEMA,
    KEYED_EDGE_SCHEMA,
    NAME_SCHEMA,
    RELATION_SCHEMA,
    GraphTables,
    KGInfo,
    Kind,
    normalised_names,
)
from kgqa.loading.columns import Buckets, ColumnWriter, gathered, read_columns
from kgqa.loading.edges import sorted_edges
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NODES, EDGES, RELATIONS, INFO = "nodes.arrow", "edges.arrow", "relations.arrow", "info.json"
PLAIN_EDGE_SCHEMA = pa.schema({"head": pa.int64(), "relation": pa.int32(), "tail": pa.int64()})
EDGE_FILE_SCHEMA = PLAIN_EDGE_SCHEMA.append(pa.field("properties", pa.string()))
_BY_NAME = [("norm", "ascending"), ("key", "ascending")]
_SPAN = 1 << 18  # nodes whose incoming edges are sorted at once, at most
_EDGES_AT_ONCE = 1 << 19
_SAMPLE = 100_000  # names that the borders of their buckets are drawn from
_NAMES_AT_ONCE = 1 << 19


class GraphFiles:
    """A whole KG in sorted files in ``folder``: a :class:`kgqa.graph.store.GraphSource`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info = TypeAdapter(KGInfo).validate_json((folder / INFO).read_bytes())
        with pa.OSFile(str(folder / RELATIONS), "rb") as file:
            self.relations: pa.Table = pa.ipc.open_stream(file).read_all()

    def named(self, name: str, source: str) -> GraphFiles:
        """Return the same graph with another name and source in its meta record."""
        other = GraphFiles(self.folder)
        other.info = replace(self.info, name=name, source=source)
        return other

    def node_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``ENTITY_SCHEMA`` sorted by key."""
        yield from read_columns(self.folder / NODES)

    def edge_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``KEYED_EDGE_SCHEMA`` sorted by head."""
        for batch in read_columns(self.folder / EDGES):
            yield with_schema(batch, KEYED_EDGE_SCHEMA)

    def incoming_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the edges sorted by tail."""
        folder = self.folder / "incoming"
        nodes = self.info.entities + self.info.mediators + self.info.values
        span = max(1, int(nodes / max(1, self.info.edges / _EDGES_AT_ONCE)) + 1)
        buckets = Buckets(folder, nodes, min(span, _SPAN))
        for batch in gathered(read_columns(self.folder / EDGES)):
            rows = batch.select(list(PLAIN_EDGE_SCHEMA.names))
            buckets.add(batch.column("tail").to_numpy(), rows)

        def by_tail(rows: pa.RecordBatch) -> pa.RecordBatch:
            """Sort edges by tail, relation and head."""
            heads, relations, tails = (column.to_numpy().astype(np.int64) for column in rows)
            tails, relations, heads = sorted_edges(tails, relations, heads)
            columns = [pa.array(column) for column in (heads, relations, tails)]
            return pa.RecordBatch.from_arrays(columns, schema=INCOMING_SCHEMA)

        yield from buckets.each(by_tail)
        shutil.rmtree(folder, ignore_errors=True)

    def name_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield (normalised name, key) of entities, sorted by both."""
        folder = self.folder / "names"
        path = folder / "unsorted.arrow"
        folder.mkdir(exist_ok=True)
        with ColumnWriter(path, NAME_SCHEMA) as writer:
            for rows in mapped(lambda item: normalised_names(*item), self._with_first_key()):
                writer.append(rows)
        borders = self._name_borders(path, writer.rows)
        buckets = Buckets(folder, len(borders) + 1, 1)
        for batch in gathered(read_columns(path)):
            buckets.add(np.searchsorted(borders, _prefixes(batch.column("norm")), "right"), batch)
        yield from buckets.each(lambda rows: rows.sort_by(_BY_NAME))
        shutil.rmtree(folder, ignore_errors=True)

    def tables(self) -> GraphTables:
        """Load the KG into memory."""
        return GraphTables(
            info=self.info,
            nodes=pa.Table.from_batches(self.node_batches(), schema=ENTITY_SCHEMA),
            relations=self.relations,
            edges=pa.Table.from_batches(self.edge_batches(), schema=KEYED_EDGE_SCHEMA),
        )

    def _with_first_key(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield node batches with the key of their first row."""
        start = 0
        for batch in self.node_batches():
            yield batch, start
            start += len(batch)

    def _name_borders(self, path: Path, rows: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return borders of names' first bytes that divide them into buckets of one size.

        ``rows``: the number of names; no borders if they are few.
        """
        count = rows // _NAMES_AT_ONCE
        if not count:
            return np.empty(0, dtype=np.uint64)
        every = max(1, rows // _SAMPLE)
        sample = np.concatenate([_prefixes(b.column("norm")[::every]) for b in read_columns(path)])
        places = np.arange(1, count + 1) / (count + 1)
        return np.unique(np.quantile(np.sort(sample), places, method="nearest"))


def finish(folder: Path, info: KGInfo, relations: pa.Table) -> GraphFiles:
    """Write relations and the meta record, with counts of nodes and edges, and the version."""
    with ColumnWriter(folder / RELATIONS, RELATION_SCHEMA) as writer:
        for batch in relations.to_batches():
            writer.append(batch)
    digest = _Digest()
    kinds = np.zeros(len(Kind), dtype=np.int64)
    for batch in read_columns(folder / NODES):
        kinds += np.bincount(batch.column("kind"), minlength=len(Kind))
        digest.add("node", batch, ("id", "name", "aliases", "kind", "types"))
        described = batch.filter(batch.column("properties").is_valid())
        if len(described):
            digest.add("described", described, ("id", "properties"))
    edges = 0
    for batch in read_columns(folder / EDGES):
        edges += len(batch)
        digest.add("edge", batch, ("head", "relation", "tail"))
    for batch in relations.to_batches():
        digest.add("relation", batch, ("id", "name"))
    entities, mediators, values = kinds.tolist()
    info = replace(
        info,
        version=digest.hex(),
        entities=entities,
        mediators=mediators,
        values=values,
        relations=len(relations),
        edges=edges,
    )
    (folder / INFO).write_text(json.dumps(asdict(info)), encoding="utf-8")
    return GraphFiles(folder)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast the columns that ``schema`` names to its types; a missing column is null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Digest:
    """A SHA-256 hash of columns, whatever their batches. Edge properties are not included."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}

    def add(self, of: str, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        """Hash the next rows of the columns ``names`` of the table ``of``.

        Lengths and bytes of texts; null as length -1.
        """
        for name in names:
            self._add_column(f"{of} {name}", batch.column(name))

    def hex(self) -> str:
        """Return the digest of all columns."""
        parts = [f"{name} {self._columns[name].hexdigest()}\n" for name in sorted(self._columns)]
        return hashlib.sha256("".join(["kgqa graph 2\n", *parts]).encode()).hexdigest()

    def _add_column(self, name: str, values: pa.Array) -> None:
        """Hash the values of one column, with the lengths of texts and lists."""
        if isinstance(values, pa.ListArray):
            self._add_bytes(f"{name} count", pc.list_value_length(values).to_numpy(False))
            values = pc.list_flatten(values)
        if values.type != pa.string():
            self._add_bytes(name, values.to_numpy())
            return
        self._add_bytes(f"{name} length", pc.binary_length(values).fill_null(-1).to_numpy())
        if len(values):
            # a slice or a null may leave bytes in the buffer that belong to no value
            whole = pa.array([0, len(values)], pa.int64())
            whole = pa.LargeListArray.from_arrays(whole, values.fill_null(""))
            data = pc.binary_join(whole, "").buffers()[2] or b""
            self._add_bytes(name, np.frombuffer(data, dtype=np.uint8))

    def _add_bytes(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Hash an array of numbers or bytes, in little-endian order."""
        plain = values if values.dtype == np.uint8 else values.astype("<i8", copy=False)
        digest = self._columns.setdefault(name, hashlib.sha256())
        digest.update(np.ascontiguousarray(plain).data)


def _prefixes(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the first eight bytes of each text as a number that sorts as the texts do."""
    padded = pc.ascii_rpad(texts, width=8, padding="\0").cast(pa.binary())
    starts = pc.binary_slice(padded, 0, 8).cast(pa.binary(8))
    data = np.frombuffer(starts.buffers()[1], dtype=">u8", count=len(starts))
    return data.astype(np.uint64)
