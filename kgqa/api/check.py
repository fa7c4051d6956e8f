"""Whether a statement is in the graph, and by which edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.display import read_name
from kgqa.errors import UsageError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.names import normalise
from kgqa.linking.resolve import resolve_entity
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import GroundedPath, ground
from kgqa.paths.walk import FIRST, SECOND, TAIL, PathTable, WalkRules, joined_tables, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore

Triple = tuple[str, str, str]
_MOST = 1_000  # ways to read a statement whose names are shared
_FORM = PathFormat()


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a statement is in the graph; as a truth value, true if it is.

    ``statement`` is the statement as text. ``paths`` are all paths that match it, each checked edge
    by edge; there may be several, because names may be shared. ``missing`` names the first edge
    that is not in the graph, and is empty if all edges are.
    """

    statement: str
    paths: tuple[GroundedPath, ...]
    missing: str = ""

    @property
    def found(self) -> bool:
        """Whether the whole statement is in the graph."""
        return bool(self.paths)

    def __bool__(self) -> bool:
        return self.found

    def to_dict(self) -> dict[str, Any]:
        """Return the check as ``kgqa check --json`` prints it."""
        return {
            "statement": self.statement,
            "found": self.found,
            "missing": self.missing or None,
            "paths": [
                {"text": path.text, "edges": [edge.to_dict() for edge in path.edges]}
                for path in self.paths
            ],
        }


def check(store: GraphStore, statement: Any) -> Check:
    """Return whether ``statement`` is in ``store``; see :meth:`kgqa.KG.check` for its forms.

    Raises UsageError for a malformed statement, EntityNotFoundError for a name that the KG lacks.
    """
    triples = triples_of(statement)
    text = _FORM.path(triples[0][0], [(relation, tail) for _, relation, tail in triples])
    names = store.relations().names
    ids = store.relations().ids
    heads = _keys(store, triples[0][0])
    # each row is one way to walk the statement so far: its topic, and its hops
    topic, hops = heads, np.empty((len(heads), 0, 4), np.int64)
    for head, relation, tail in triples:
        at = hops[:, -1, TAIL] if hops.shape[1] else topic
        keep = np.isin(at, _keys(store, head))
        topic, hops, at = topic[keep], hops[keep], at[keep]
        found = _steps(store, np.unique(at), relation, names, ids)
        ends = found.hops[:, 0, TAIL]
        found = found.take(np.flatnonzero(np.isin(ends, _ends(store, np.unique(ends), tail))))
        left, right = np.nonzero(at[:, None] == found.topic[None, :])
        if not len(left):
            return Check(text, (), f"{head} -> {relation} -> {tail}")
        left, right = left[:_MOST], right[:_MOST]
        topic, hops = topic[left], np.concatenate([hops[left], found.hops[right]], axis=1)
    table = PathTable(topic, np.full(len(topic), hops.shape[1], np.int64), hops)
    return Check(text, tuple(path for path in ground(store, table, _FORM) if path is not None))


def triples_of(statement: Any) -> list[Triple]:
    """Return a statement as triples of texts. Raises UsageError if it is malformed."""
    if isinstance(statement, str):
        parts = [read_name(part.strip()) for part in statement.split(_FORM.separator.strip())]
        if len(parts) < 3 or len(parts) % 2 == 0 or not all(parts):
            raise UsageError(
                f"'{statement}' is not a statement.", "Write it as: head -> relation -> tail."
            )
        return [(parts[i], parts[i + 1], parts[i + 2]) for i in range(0, len(parts) - 2, 2)]
    if groundings := getattr(statement, "groundings", None):  # a path of an answer
        statement = groundings[0]
    edges = getattr(statement, "edges", None)
    if isinstance(statement, dict):
        edges = statement.get("edges")
    if edges is not None:
        return [_edge(edge) for edge in edges]
    try:
        rows = [statement] if isinstance(statement[0], str) else list(statement)
        return [(str(head), str(relation), str(tail)) for head, relation, tail in rows]
    except (TypeError, ValueError, IndexError, KeyError):
        raise UsageError(
            f"{statement!r} is not a statement.",
            'Give a triple ("head", "relation", "tail"), a list of them, or a path as text.',
        ) from None


def _edge(edge: Any) -> Triple:
    if isinstance(edge, dict):
        return edge["head"]["id"], edge["relation"], edge["tail"]["id"]
    return edge.head.id, edge.relation, edge.tail.id


def _keys(store: GraphStore, name: str) -> IntArray:
    """Return the keys of every entity with this id or name. Raises EntityNotFoundError."""
    by_id = store.keys_of([name])
    if by_id[0] >= 0:
        return by_id
    form = normalise(name)
    keys = store.find_names([form])[1] if form else keys_array([])
    if not len(keys):
        return keys_array([resolve_entity(store, name).key])  # another spelling, or the error
    return keys


def _ends(store: GraphStore, near: IntArray, name: str) -> IntArray:
    """Return the keys of what ``name`` means at the end of an edge; ``near``: what is there.

    Values have no index of names. Raises EntityNotFoundError.
    """
    there = store.entities(near)
    form = normalise(name)
    values = [
        key
        for key, label, kind in zip(near.tolist(), there.names, there.kinds.tolist(), strict=True)
        if kind == Kind.VALUE and (label == name or (form and normalise(label or "") == form))
    ]
    return keys_array(values) if values else _keys(store, name)


def _steps(
    store: GraphStore, keys: IntArray, relation: str, names: Sequence[str], ids: Sequence[str]
) -> PathTable:
    """Return the hops out of ``keys`` whose relation reads ``relation``, by name or by id."""
    halves = len(relation.split(_FORM.joiner))
    table, _ = walk(store, keys, WalkRules(1, "both", "collapse", types=True))
    if halves == 1:  # a fact with properties is walked through its mediator
        through = table.take(np.flatnonzero(table.hops[:, 0, FIRST] == table.hops[:, 0, SECOND]))
        table = joined_tables(
            [walk(store, keys, WalkRules(1, "both", "keep", types=True))[0], through]
        )
    hop = table.hops[:, 0]
    pairs, row = np.unique(hop[:, (FIRST, SECOND)], axis=0, return_inverse=True)
    fits = [
        relation in (_FORM.relation(first, second, names), _FORM.relation(first, second, ids))
        for first, second in pairs.tolist()
    ]
    return table.take(np.flatnonzero(np.array(fits, bool)[row.ravel()]))
