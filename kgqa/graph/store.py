"""The protocol of a store that holds a KG: batches of keys in, flat arrays out.

Every implementation passes ``tests/graph/store_conformance.py`` and so gives the same entities,
neighbours and matches. Walks of several hops, mediators and the ranking of mentions are for
``kgqa.paths`` and ``kgqa.linking``, the same way over any store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

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


@runtime_checkable
class GraphStore(Protocol):
    """One KG, read-only. Closed by ``close`` or ``with``. Methods raise ``GraphError`` only."""

    @property
    def info(self) -> KGInfo:
        """The KG's meta record."""

    @property
    def url(self) -> str:
        """Where the KG lies, without credentials."""

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none. Shape: ``[len(ids)]``."""

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in their order; keys may repeat.

        Raises EntityNotFoundError if a key is not in the KG.
        """

    def details(self, key: int) -> EntityDetails:
        """Return all that is known of one entity. Raises EntityNotFoundError."""

    def relations(self) -> Relations:
        """Return all relations; read once and kept."""

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) ``keys``.

        ``keys`` are distinct. One round trip to the store for the whole frontier (in chunks if
        a query has a bound). A self loop comes once for each direction asked for.
        """

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, entity key) of every exact match.

        ``names`` are normalised by :func:`kgqa.graph.names.normalise`; an entity matches by its
        name or an alias.
        Mediators and values never match. Sorted by (position, key), no pair twice.
        """

    def suggest(self, text: str, limit: int = 5) -> IntArray:
        """Return keys of entities whose name or alias is like ``text``, best first.

        Full text ranks differently from store to store: use it to suggest, never to decide.
        """

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge.

        Kind ``ENTITY`` only, ascending: the entities a trie can be made for.
        """

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""

    def __enter__(self) -> GraphStore: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
