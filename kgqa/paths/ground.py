"""Grounding: id paths become readable paths after every edge is verified in the store."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.display import path_parts
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.properties import StoredPropertyGraph
from kgqa.graph.schema import ROW, read_fact_id
from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, PathTable, joined_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray, Entities, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat


@dataclass(frozen=True, slots=True)
class Node:
    """An entity for display; ``name`` is its id if it has no name."""

    id: str
    name: str

    def to_dict(self) -> dict[str, str]:
        """Return the entity as a dictionary for JSON."""
        return {"id": self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored triple, in stored direction, by ids; ``properties`` of a reified fact."""

    head: str
    predicate: str
    tail: str
    properties: dict[str, Any] | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fact as a dictionary for JSON; ``properties`` only if it has some."""
        shown = {"head": self.head, "predicate": self.predicate, "tail": self.tail}
        return shown | ({"properties": self.properties} if self.properties else {})


@dataclass(frozen=True, slots=True)
class PathEdge:
    """One hop of a grounded path with its stored triples; ``inverse``: all are walked backward.

    ``meant``: if a triple is one half of a reified fact, the facts that the triples stand for.
    """

    head: Node
    relation: str
    tail: Node
    inverse: bool
    facts: tuple[Fact, ...]
    meant: tuple[Fact, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the hop as a dictionary for JSON.

        ``facts`` are the meant ones, if there are any, otherwise the stored triples.
        """
        return {
            "head": self.head.to_dict(),
            "relation": self.relation,
            "tail": self.tail.to_dict(),
            "inverse": self.inverse,
            "facts": [fact.to_dict() for fact in self.meant or self.facts],
        }


@dataclass(frozen=True, slots=True)
class GroundedPath:
    """A path all of whose facts are in the store.

    ``text`` can be parsed back by ``kgqa check``: a name that looks like a part of a path is quoted
    in it (:func:`kgqa.display.shown_name`). Text that a model decodes is never quoted.
    """

    edges: tuple[PathEdge, ...]
    text: str

    @property
    def head(self) -> Node:
        """The entity that the path starts from, a topic entity."""
        return self.edges[0].head

    @property
    def tail(self) -> Node:
        """The entity that the path ends in."""
        return self.edges[-1].tail

    @property
    def origins(self) -> tuple[str, ...]:
        """The sources of its facts as recorded in the graph, such as a table's file and row."""
        facts = (fact for edge in self.edges for fact in edge.meant or edge.facts)
        edges = []
        for held in (fact.properties for fact in facts if fact.properties):
            of_row = [str(held[name]) for name in ROW if name in held]
            edges += [", row ".join(of_row)] if of_row else []
            edges += [str(held[name]) for name in ("source", "url") if name in held]
        return tuple(dict.fromkeys(edges))

    @property
    def relation_path(self) -> tuple[str, ...]:
        """The names of the path's relations, in order."""
        return tuple(edge.relation for edge in self.edges)


def stored_edges(table: PathTable) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return (path, head, relation, tail) of the stored edges behind the paths, four columns.

    ``path``: a row of ``table``. A hop through a mediator is two edges; reversed steps are turned
    to stored direction.
    """
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
    """Return which paths have all of their edges in the store. Shape ``[n]``."""
    good = np.ones(len(table), bool)
    if len(table):
        path, heads, relations, tails = stored_edges(table)
        np.logical_and.at(good, path, store.has_edges(heads, relations, tails))
    return good


def ground(store: GraphStore, table: PathTable, form: PathFormat) -> list[GroundedPath | None]:
    """Return each path in readable form, None for a path with an edge that the store lacks.

    The list has one entry for each row of ``table``, in order.
    """
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
    real = _real_ends(store, entities)
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
            meant = _meant(facts, [real[node] for node in (at, mediator, tail) if node in real])
            edges.append(PathEdge(known[at], label, known[tail], against, tuple(facts), meant))
            at = tail
        paths.append(GroundedPath(tuple(edges), "".join(path_parts(edges))))
    return paths


def ground_each(
    store: GraphStore, tables: Sequence[PathTable], form: PathFormat
) -> list[list[GroundedPath | None]]:
    """Ground the paths of several tables with one set of store calls; see :func:`ground`.

    One list a table, with None for a path with an edge that the store lacks.
    """
    if not tables:
        return []
    grounded = iter(ground(store, joined_tables(tables), form))
    return [list(islice(grounded, len(table))) for table in tables]


_Real: TypeAlias = "tuple[Fact, frozenset[tuple[str, str, str]]]"


def _real_ends(store: GraphStore, entities: Entities) -> dict[int, _Real]:
    """Return, by key of a mediator that reifies a fact, the fact and the mediator's two edges.

    The fact comes from the mediator's id, which is untrusted data: it is checked against the store.
    """
    named = {
        key: fact
        for key, id_, kind in zip(
            entities.keys.tolist(), entities.ids, entities.kinds.tolist(), strict=True
        )
        if kind == Kind.MEDIATOR and (fact := read_fact_id(id_)) is not None
    }
    if not named:
        return {}
    relations = {id_: key for key, id_ in enumerate(store.relations().ids)}
    ends = sorted({end for head, _, tail in named.values() for end in (head, tail)})
    keys = dict(zip(ends, store.keys_of(ends).tolist(), strict=True))
    possible = {
        node: (keys[head], relations[relation], keys[tail])
        for node, (head, relation, tail) in named.items()
        if relation in relations and min(keys[head], keys[tail]) >= 0
    }
    nodes = keys_array(list(possible))
    heads, predicates, tails = (keys_array([p[i] for p in possible.values()]) for i in range(3))
    whole = store.has_edges(heads, predicates, nodes) & store.has_edges(nodes, predicates, tails)
    ids = dict(zip(entities.keys.tolist(), entities.ids, strict=True))
    given = _properties_of(store, nodes[whole])
    chains = {}
    for node, shown in given.items():
        head, relation, tail = named[node]
        own = frozenset({(head, relation, ids[node]), (ids[node], relation, tail)})
        chains[node] = (Fact(head, relation, tail, shown), own)
    return chains


def _properties_of(store: GraphStore, keys: IntArray) -> dict[int, dict[str, Any]]:
    """Return the properties of each entity by its key, {} for an entity without any."""
    if not isinstance(store, StoredPropertyGraph):
        return {key: store.details(key).properties for key in keys.tolist()}
    return {key: json.loads(text or "{}") for key, *_, text in store.described(keys)}


def _meant(facts: list[Fact], real: list[_Real]) -> tuple[Fact, ...]:
    """Return the facts with both halves of a reified fact replaced by it; () if none is reified."""
    whole = {half: fact for fact, halves in real for half in halves}
    triples = [whole.get((fact_.head, fact_.predicate, fact_.tail), fact_) for fact_ in facts]
    return tuple(dict.fromkeys(triples)) if whole else ()
