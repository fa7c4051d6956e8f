"""From id paths to what is shown: every edge is checked in the store, by id, before."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable


@dataclass(frozen=True, slots=True)
class Node:
    """An entity as it is shown; ``name`` is the id if it has no name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored triple, in stored direction, by id."""

    head: str
    predicate: str
    tail: str


@dataclass(frozen=True, slots=True)
class PathEdge:
    """One hop of a grounded path, its stored triples; ``inverse``: all are walked backward."""

    head: Node
    relation: str
    tail: Node
    inverse: bool
    facts: tuple[Fact, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the edge as the JSON contract has it."""
        return {**asdict(self), "facts": [asdict(fact) for fact in self.facts]}


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
    """Return (path, head, relation, tail) of the stored edges behind the paths, as stored."""
    parts = []
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
            ends = np.where(against, tail, head), np.where(against, head, tail)
            parts.append((rows, ends[0], step // 2, ends[1]))
    path, heads, relations, tails = (np.concatenate(column) for column in zip(*parts, strict=True))
    return path, heads, relations, tails


def verify(store: GraphStore, table: PathTable) -> BoolArray:
    """Return for each path whether every stored edge behind it is in the store. Shape ``[n]``."""
    good = np.ones(len(table), bool)
    if len(table):
        path, heads, relations, tails = stored_edges(table)
        np.logical_and.at(good, path, store.has_edges(heads, relations, tails))
    return good


def ground(store: GraphStore, table: PathTable, form: PathFormat) -> list[GroundedPath | None]:
    """Return each path as it is shown, None if an edge of it is not in the store."""
    if not len(table):
        return []
    good = verify(store, table)
    there = table.take(np.flatnonzero(good))
    nodes = np.unique(np.concatenate([there.topic, there.hops[:, :, (MEDIATOR, TAIL)].ravel()]))
    entities = store.entities(nodes[nodes >= 0])
    known = {
        key: Node(entities.ids[row], entities.label(row))
        for row, key in enumerate(entities.keys.tolist())
    }
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
                facts.append(Fact(known[left].id, relations.ids[step // 2], known[right].id))
            against = all(step % 2 for step in steps)
            edges.append(PathEdge(known[at], label, known[tail], against, tuple(facts)))
            at = tail
        text = form.path(edges[0].head.name, [(edge.relation, edge.tail.name) for edge in edges])
        paths.append(GroundedPath(tuple(edges), text))
    return paths
