"""The protocols of a store of a KG, of a whole KG, and of what writes it into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kgqa.graph.model import (
        Adjacency,
        BoolArray,
        Direction,
        Entities,
        EntityDetails,
        IntArray,
        KGInfo,
        Relations,
    )
    from kgqa.progress import Progress


@runtime_checkable
class GraphStore(Protocol):
    """One KG, read-only. Closed by ``close`` or ``with``. Methods raise ``GraphError`` only.

    What it returns is always of one version, that of ``info``, which ``refresh`` alone changes; a
    store that can no longer read that version raises ``GraphError``.
    """

    @property
    def info(self) -> KGInfo:
        """The KG's meta record."""

    @property
    def url(self) -> str:
        """Where the KG lies, without credentials."""

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none. Shape: ``[len(ids)]``."""

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in order. Raises EntityNotFoundError."""

    def details(self, key: int) -> EntityDetails:
        """Return all that is known of one entity. Raises EntityNotFoundError."""

    def relations(self) -> Relations:
        """Return all relations; read once and kept."""

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) the distinct ``keys``.

        One round trip for the whole frontier. A self loop comes once for each direction asked for.
        """

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position, key) of entities with that normalised name or alias, sorted."""

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return keys of entities like ``text``, best first: ranks differ between stores.

        ``prefix``: only those with a word that begins with each word of ``text``.
        """

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after``, ascending, of entities that have an edge."""

    def refresh(self) -> None:
        """Read the KG as it is now, if it was changed or loaded again; then ``info`` is new.

        Raises KGNotFoundError if it is gone.
        """

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""

    def __enter__(self) -> GraphStore: ...
    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class LiveStore(Protocol):
    """A ``GraphStore`` of a database that others write to, which is read as it is.

    What is read between ``refresh`` and ``has_moved`` is of one state unless the latter is true.
    """

    @property
    def schema_version(self) -> str:
        """What tells schemas apart: labels, properties and relations, and their keys."""

    def has_moved(self) -> bool:
        """Return whether the database was changed since ``refresh``."""

    def remarks(self) -> list[str]:
        """Return the notes that an answer from this state should carry."""


@runtime_checkable
class EndpointStore(Protocol):
    """A ``GraphStore`` whose calls are requests, and whose keys are hashes, in no order."""

    def by_id(self, keys: IntArray) -> IntArray:
        """Return distinct keys in the order of their ids. Raises EntityNotFoundError."""

    def foresee(self, keys: IntArray, direction: Direction) -> None:
        """Let the next request read edges of some entities, too, of a few all about them."""

    def foresee_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> None:
        """Let the next look-up of triples look up these, too, as far as it has room."""

    def foresee_instances(self, types: Sequence[str]) -> None:
        """Read the entities of some types at once: they will be asked for."""


def foresee(store: GraphStore | EndpointStore, keys: IntArray, direction: Direction) -> None:
    """Let an endpoint read edges of some entities together with the next request."""
    if isinstance(store, EndpointStore):
        store.foresee(keys, direction)


def foresee_edges(
    store: GraphStore | EndpointStore, heads: IntArray, relations: IntArray, tails: IntArray
) -> None:
    """Let an endpoint look up triples together with the next ones that are asked for."""
    if isinstance(store, EndpointStore):
        store.foresee_edges(heads, relations, tails)


def in_id_order(store: GraphStore | EndpointStore, keys: IntArray) -> IntArray:
    """Return distinct keys in the order that every store of the same graph gives its entities.

    Keys of a loaded KG are in the order of ids already.
    """
    if isinstance(store, EndpointStore):
        return store.by_id(keys)
    ordered: IntArray = np.sort(keys)
    return ordered


def id_places(store: GraphStore | EndpointStore, keys: IntArray) -> IntArray:
    """Return at which place of :func:`in_id_order` each of some distinct keys stands."""
    ordered = in_id_order(store, keys)
    sorter = np.argsort(ordered)
    places: IntArray = sorter[np.searchsorted(ordered, keys, sorter=sorter)]
    return places


@runtime_checkable
class CypherStore(Protocol):
    """A ``GraphStore`` on a server that runs Cypher."""

    def run(
        self, cypher: str, parameters: dict[str, Any], limit: int = 1_000, timeout: float = 60.0
    ) -> list[dict[str, Any]]:
        """Return up to ``limit`` rows of a statement, which the server lets only read.

        Values are as JSON has them, nodes and relationships as their element ids. ``timeout``: in
        seconds. Raises GraphError.
        """


def schema_version(store: GraphStore) -> str:
    """Return the version of what a store's relations are and lead to in general.

    What an answer shows is never kept by it: that is of ``info.version`` alone.
    """
    return store.schema_version if isinstance(store, LiveStore) else store.info.version


class GraphSource(Protocol):
    """A whole KG, sorted, in batches; each method starts over at each call."""

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
