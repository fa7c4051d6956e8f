"""The protocols of a store of a KG, of a whole KG, and of what writes it into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

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
        """The KG's address, without credentials."""

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none. Shape: ``[len(ids)]``."""

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in order. Raises EntityNotFoundError."""

    def details(self, key: int) -> EntityDetails:
        """Return everything stored about one entity. Raises EntityNotFoundError."""

    def relations(self) -> Relations:
        """Return all relations; cached after the first read."""

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) the distinct ``keys``.

        One round trip for the whole frontier. A self loop comes once for each direction asked for.
        """

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of entities with that name or alias, sorted.

        Names are compared by their normalised form.
        """

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return up to ``limit`` keys of entities like ``text``, best first by the store's ranking.

        ``prefix``: only entities with, for each word of ``text``, a word that begins with it.
        """

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after``, ascending, of named entities with edges."""

    def refresh(self) -> None:
        """Switch to the KG's present version, if it was changed or loaded again.

        Raises KGNotFoundError if it is gone.
        """

    def close(self) -> None:
        """Release files and connections. Closing twice does nothing."""

    def __enter__(self) -> GraphStore: ...
    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class LiveStore(Protocol):
    """A ``GraphStore`` of a database that others write to, read in its present state.

    What is read between ``refresh`` and ``has_moved`` is of one state unless ``has_moved`` is true.
    """

    @property
    def schema_version(self) -> str:
        """A digest of labels, properties and relations, and of their keys."""

    def has_moved(self) -> bool:
        """Return whether the database was changed since ``refresh``."""

    def remarks(self) -> list[str]:
        """Return the notes that an answer from this state should carry."""


@runtime_checkable
class EndpointStore(Protocol):
    """A ``GraphStore`` whose calls are requests, and whose keys are unordered hashes."""

    def by_id(self, keys: IntArray) -> IntArray:
        """Return distinct keys in the order of their ids. Raises EntityNotFoundError."""

    def foresee(self, keys: IntArray, direction: Direction) -> None:
        """Schedule the edges of some entities to be read together with the next request."""

    def foresee_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> None:
        """Schedule triples to be verified together with the next ones, if there is room."""

    def foresee_instances(self, types: Sequence[str]) -> None:
        """Read and cache the entities of several types in one request."""


def calls_are_requests(store: object) -> TypeGuard[EndpointStore]:
    """Return whether a store is an ``EndpointStore``; ``isinstance`` looks for all of its methods.

    It takes longer than some look-ups, and a question is asked a dozen of them.
    """
    return hasattr(store, "foresee_instances")


def is_live(store: object) -> TypeGuard[LiveStore]:
    """Return whether a store is a ``LiveStore``, as fast as :func:`calls_are_requests`."""
    return hasattr(store, "has_moved")


def foresee(store: GraphStore | EndpointStore, keys: IntArray, direction: Direction) -> None:
    """Schedule edges of entities for the next request to an endpoint; no effect on other stores."""
    if calls_are_requests(store):
        store.foresee(keys, direction)


def foresee_edges(
    store: GraphStore | EndpointStore, heads: IntArray, relations: IntArray, tails: IntArray
) -> None:
    """Schedule triples to be verified with the next request to an endpoint."""
    if calls_are_requests(store):
        store.foresee_edges(heads, relations, tails)


def in_id_order(store: GraphStore | EndpointStore, keys: IntArray) -> IntArray:
    """Return distinct keys sorted by id, the order common to every store of the same graph.

    Keys of a loaded KG are in the order of ids already.
    """
    if calls_are_requests(store):
        return store.by_id(keys)
    ordered: IntArray = np.sort(keys)
    return ordered


def id_places(store: GraphStore | EndpointStore, keys: IntArray) -> IntArray:
    """Return the position of each key in the order of :func:`in_id_order`."""
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
        """Run a read-only statement; return up to ``limit`` rows.

        Values are JSON, nodes and relationships are element ids. ``timeout``: in seconds. Raises
        GraphError.
        """


def schema_version(store: GraphStore) -> str:
    """Return the version of a store's schema, as opposed to its content.

    Cached results of questions depend on ``info.version`` instead.
    """
    return store.schema_version if is_live(store) else store.info.version


class GraphSource(Protocol):
    """A whole KG as sorted batches; each call of a method starts again from the first batch."""

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
    """Writes one KG, which becomes visible only when complete, and replaces an older one."""

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG; an older one is served until it is complete. Raises GraphError."""
