"""A change of a KG: what is added to it and removed from it, by keys, and its new record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kgqa.errors import GraphError
from kgqa.graph.model import Kind
from kgqa.graph.names import name_form

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kgqa.graph.model import IntArray, KGInfo

Node: TypeAlias = "dict[str, Any]"  # a row of ENTITY_SCHEMA with its key
KeyedEdge: TypeAlias = "tuple[int, int, int]"  # head, relation, tail


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What turns the KG of the record ``before`` into that of ``info``.

    ``nodes``: new and changed ones as they will be; ``old``: changed and removed ones as they are,
    by key. ``edges``: added ones, with their properties, and ``known_edges``, which are there and
    get other properties; ``relations``: rows (key, id, name, inverse) of new and changed ones.
    """

    before: KGInfo
    info: KGInfo
    nodes: Sequence[Node] = ()
    old: dict[int, Node] = field(default_factory=dict)
    edges: dict[KeyedEdge, str | None] = field(default_factory=dict)
    known_edges: Collection[KeyedEdge] = ()
    removed_edges: Collection[KeyedEdge] = ()
    removed_nodes: Sequence[int] = ()
    relations: Sequence[tuple[int, str, str, str | None]] = ()
    removed_relations: Sequence[int] = ()

    def names(self) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """Return the (normalised name, entity key) pairs to add and those to remove."""
        after = {pair for node in self.nodes for pair in node_names(node)}
        before = {pair for node in self.old.values() for pair in node_names(node)}
        return after - before, before - after


class GraphChanger(Protocol):
    """Applies changes to one KG in its store. Methods raise ``GraphError`` only."""

    def nodes(self, keys: IntArray) -> list[Node]:
        """Return the nodes of ``keys``, which must all exist, in any order."""

    def properties(self, edges: Sequence[KeyedEdge]) -> list[str | None]:
        """Return the properties of stored edges as JSON, None for an edge without any."""

    def unused(self, relations: Iterable[int], removed: Collection[KeyedEdge]) -> list[int]:
        """Return the ``relations`` that lose their last edge with the edges ``removed``."""

    def apply(self, change: GraphChange) -> None:
        """Apply the change atomically.

        Raises GraphError if the KG is not at the version for which the change was made.
        """


def node_names(node: Node) -> set[tuple[str, int]]:
    """Return the (normalised name, key) pairs of a node; none if it is not an entity."""
    if node["kind"] != Kind.ENTITY:
        return set()
    norms = (name_form(text) for text in (node["name"], *(node["aliases"] or ())) if text)
    return {(norm, node["key"]) for norm in norms if norm}


def chained(version: str, content: Any) -> str:
    """Return the version that follows ``version`` after a change with that JSON content."""
    text = json.dumps(["kgqa change 1", version, content], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def overtaken(kg: str, where: str) -> GraphError:
    """Return the error of a change whose KG was changed by another process in the meantime."""
    return GraphError(
        f"The KG {kg} in {where} was changed by another command in the meantime, so nothing was "
        "changed.",
        "Run the command again.",
    )
