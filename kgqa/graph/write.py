"""The protocols of a whole KG, in memory or in files, and of what writes it into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kgqa.graph.model import KGInfo
    from kgqa.progress import Progress


class GraphSource(Protocol):
    """A whole KG, sorted, in batches; each method may be called again and starts anew."""

    @property
    def info(self) -> KGInfo:
        """The meta record, with the counts of all that follows."""

    @property
    def relations(self) -> pa.Table:
        """``RELATION_SCHEMA`` sorted by id, so that a row's number is its key."""

    def node_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``ENTITY_SCHEMA`` sorted by id: a row's number, counted through, is its key."""

    def edge_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``KEYED_EDGE_SCHEMA``, unique, sorted by (head, relation, tail)."""

    def incoming_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield ``INCOMING_SCHEMA``: the same edges sorted by (tail, relation, head)."""

    def name_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield (norm: string, key: int64), unique, sorted: normalised names of entities."""


class GraphWriter(Protocol):
    """Writes one KG so that it becomes visible only when it is whole, and replaces an older one."""

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG; an older one serves until then. Raises GraphError."""
