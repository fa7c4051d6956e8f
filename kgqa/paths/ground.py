"""From id paths to what is shown: every edge checked in the store, by id, before anyone sees it.

A path's text plays no part here: it is made at the end, from the ids that were checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, Entities, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable


@dataclass(frozen=True, slots=True)
class Node:
    """An entity as it is shown; ``name`` is the id where it has none."""

    id: str
    name: str

    def to_json(self) -> dict[str, str]:
        """Return the node as the JSON contract has it."""
        return {"id": self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored triple, in stored direction, by id."""

    head: str
    predicate: str
    tail: str

    def to_json(self) -> dict[str, str]:
        """Return the fact as the JSON contract has it."""
        return {"head": self.head, "predicate": self.predicate, "tail": self.tail}


@dataclass(frozen=True, slots=True)
class PathEdge:
    """One hop of a grounded path, with the one or two stored triples behind it.

    ``inverse`` is true where every fact behind the hop is walked against its direction.
    """

    head: Node
    relation: str
    tail: Node
    inverse: bool
    facts: tuple[Fact, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the edge as the JSON contract has it."""
        return {
            "head": self.head.to_json(),
            "relation": self.relation,
            "tail": self.tail.to_json(),
            "inverse": self.inverse,
            "facts": [fact.to_json() for fact in self.facts],
        }


@dataclass(frozen=True, slots=True)
class GroundedPath:
    """A path all of whose facts are in the store."""

    edges: tuple[PathEdge, ...]
    text: str

    @property
    def head(self) -> Node:
        """The topic entity."""
        return self.edges[0].head

    @property
    def tail(self) -> Node:
        """The last entity."""
        return self.edges[-1].tail

    @property
    def relation_path(self) -> tuple[str, ...]:
        """The sequence of relations."""
        return tuple(edge.relation for edge in self.edges)


def stored_edges(table: PathTable) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return (path, head, relation, tail) of every stored edge behind every path.

    Heads and tails are in stored direction, so each can be looked up as it is.
    """
    path_parts, head_parts, step_parts, tail_parts = [], [], [], []
    for level in range(table.hops.shape[1]):
        there = np.flatnonzero(table.length > level)
        hop = table.hops[there, level]
        start = table.topic[there] if level == 0 else table.hops[there, level - 1, TAIL]
        through = hop[:, MEDIATOR] >= 0
        middle = np.where(through, hop[:, MEDIATOR], hop[:, TAIL])
        for rows, head, step, tail in (
            (there, start, hop[:, FIRST], middle),
            (there[through], middle[through], hop[through, SECOND], hop[through, TAIL]),
        ):
            against = step % 2 == 1
            path_parts.append(rows)
            head_parts.append(np.where(against, tail, head))
            step_parts.append(step // 2)
            tail_parts.append(np.where(against, head, tail))
    return (
        np.concatenate(path_parts),
        np.concatenate(head_parts),
        np.concatenate(step_parts),
        np.concatenate(tail_parts),
    )


def verify(store: GraphStore, table: PathTable) -> BoolArray:
    """Return for each path whether every stored edge behind it is in the store. Shape ``[n]``."""
    good = np.ones(len(table), bool)
    if len(table):
        path, heads, relations, tails = stored_edges(table)
        np.logical_and.at(good, path, store.has_edges(heads, relations, tails))
    return good


def ground(store: GraphStore, table: PathTable, form: PathFormat) -> list[GroundedPath | None]:
    """Return each path as it is shown, None where an edge of it is not in the store."""
    if not len(table):
        return []
    good = verify(store, table)
    nodes = np.unique(np.concatenate([table.topic, table.hops[:, :, (MEDIATOR, TAIL)].ravel()]))
    known = _ById(store.entities(nodes[nodes >= 0]))
    relations = store.relations()
    paths: list[GroundedPath | None] = []
    for row in range(len(table)):
        if not good[row]:
            paths.append(None)
            continue
        at = int(table.topic[row])
        edges = []
        for first, mediator, second, tail in table.hops[row, : table.length[row]].tolist():
            label = form.relation(first, second, relations.names)
            stations = [at, tail] if mediator < 0 else [at, mediator, tail]
            steps = [first] if mediator < 0 else [first, second]
            facts = []
            for step, left, right in zip(steps, stations[:-1], stations[1:], strict=True):
                if step % 2:
                    left, right = right, left
                facts.append(Fact(known.id(left), relations.ids[step // 2], known.id(right)))
            against = all(step % 2 for step in steps)
            edges.append(PathEdge(known.node(at), label, known.node(tail), against, tuple(facts)))
            at = tail
        text = form.path(edges[0].head.name, [(edge.relation, edge.tail.name) for edge in edges])
        paths.append(GroundedPath(tuple(edges), text))
    return paths


class _ById:
    """Looks entities up by key among some that were read at once."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._row = {key: row for row, key in enumerate(entities.keys.tolist())}

    def id(self, key: int) -> str:
        return self._entities.ids[self._row[key]]

    def node(self, key: int) -> Node:
        row = self._row[key]
        return Node(self._entities.ids[row], self._entities.label(row))
