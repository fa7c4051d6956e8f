"""A Neo4j database as it is, read-only, as a :class:`kgqa.graph.store.GraphStore`.

Edges, labels and properties are read from the server when they are asked for, always in read
access, in which the server refuses to write. Keys, names and degrees are those of the survey that
``kgqa attach`` made. Whatever the server answers is checked against it: an id or a relationship
type that the survey did not meet, or a node that is gone, means that the graph has changed, and is
an error, never an answer. What this does not do: survey (``neo4j_survey``), or notice a new edge
between known nodes, which simply is one of the graph's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kgqa import cypher
from kgqa.cypher.attached import attached
from kgqa.errors import EntityNotFoundError, GraphError
from kgqa.graph.attached_cache import AttachedCache
from kgqa.graph.model import (
    Adjacency,
    Entities,
    EntityDetails,
    Kind,
    Relations,
    keys_array,
)
from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import neo4j

    from kgqa.graph.attached_cache import Nodes
    from kgqa.graph.attached_record import AttachedRecord
    from kgqa.graph.model import BoolArray, Direction, IntArray, KGInfo
    from kgqa.graph.neo4j import Neo4jConnection

CHUNK = 20_000  # nodes that one statement is given
_WORDS = 16  # words of a text that a suggestion looks at
_SPARE = 20  # more suggestions than asked for, since mediators and values are left out


class AttachedStore:
    """An attached KG. A ``GraphStore``; belongs to the thread that opened it.

    ``folder``: where the record and the survey lie. The connection is released with the store.
    Raises StoreUnavailableError where the survey's file is not there or damaged.
    """

    def __init__(self, connection: Neo4jConnection, record: AttachedRecord, folder: Path) -> None:
        self.connection = connection
        self.record = record
        self._cache = AttachedCache(folder / record.cache, record.info.name, record.info.version)
        self._closed = False
        self._relations: Relations | None = None
        self._steps: dict[str, int] = {}
        connection.acquire()

    @property
    def info(self) -> KGInfo:
        """The KG's meta record, as it was surveyed."""
        return self.record.info

    @property
    def url(self) -> str:
        """The server's URL, without credentials."""
        return self.connection.url

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 where there is none. Shape: ``[len(ids)]``."""
        return self._cache.keys_of(ids)

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in their order. Raises EntityNotFoundError."""
        keys = keys_array(keys)
        nodes = self._nodes(keys)
        return Entities(keys=keys, ids=nodes.ids, names=nodes.names, kinds=nodes.kinds)

    def details(self, key: int) -> EntityDetails:
        """Return all that is known of one entity. Raises EntityNotFoundError.

        ``types`` are the node's further labels; ``properties`` all but id, name and aliases.
        """
        nodes = self._nodes(keys_array([key]))
        given = self.record.attachment
        rows = self._ask("details", self._near(nodes))
        if len(rows) != 1:
            raise self._changed(f"{len(rows)} nodes have the id {nodes.ids[0]!r}")
        ours = {given.label, given.mediator_label, given.value_label}
        told = {given.id_property, given.name_property, given.alias_property}
        return EntityDetails(
            id=nodes.ids[0],
            name=nodes.names[0],
            kind=Kind(nodes.kinds[0]),
            aliases=self._cache.aliases(int(key)),
            types=sorted(set(rows[0]["labels"]) - ours),
            properties=json.loads(
                json.dumps(
                    {k: v for k, v in rows[0]["properties"].items() if k not in told}, default=str
                )
            ),
        )

    def relations(self) -> Relations:
        """Return all relations: the relationship types, named as they are. Read once and kept."""
        if self._relations is None:
            types = self._cache.types()
            self._steps = {type_: 2 * key for key, type_ in enumerate(types)}
            self._relations = Relations(types, types, [None] * len(types))
        return self._relations

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) ``keys``.

        Raises GraphError where the graph has changed since it was attached.
        """
        keys = keys_array(keys)
        self.relations()
        empty = np.zeros(0, dtype=np.uint8)
        columns: list[tuple[IntArray, IntArray, IntArray, Any]] = [
            (keys_array([]), keys_array([]), keys_array([]), empty)
        ]
        for start in range(0, len(keys), CHUNK):
            columns.append(self._neighbours(keys[start : start + CHUNK], start, direction))
        row, step, target, kind = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.lexsort((target, step, row))
        return Adjacency(row[order], step[order], target[order], kind[order])

    def _neighbours(
        self, keys: IntArray, start: int, direction: Direction
    ) -> tuple[IntArray, IntArray, IntArray, Any]:
        (answer,) = self._ask(f"neighbours_{direction}", self._near(self._nodes(keys)))
        rows = answer["rows"]
        self._all_there(rows, len(keys), "a node")
        groups = answer["others"]
        # an empty id names no entity; those nodes were left out when the graph was attached
        groups = [[other for other in group if other != ""] for group in groups]
        counts = [len(group) for group in groups]
        along = answer["along"] if direction == "both" else [direction == "out"] * len(rows)
        steps = [
            self._step(type_) + (not out) if count else -1
            for type_, out, count in zip(answer["types"], along, counts, strict=True)
        ]
        target, kind = self._find([other for group in groups for other in group])
        row = np.repeat(keys_array(rows), counts)
        step = np.repeat(keys_array(steps), counts)
        if direction == "both":  # the server gives a loop once, as an edge that leaves its node
            loop = keys[row] == target
            row, target = np.append(row, row[loop]), np.append(target, target[loop])
            step, kind = np.append(step, step[loop] + 1), np.append(kind, kind[loop])
        return row + start, step, target, kind

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG.

        Raises GraphError where an end is no longer in the graph.
        """
        heads, relations, tails = (keys_array(column) for column in (heads, relations, tails))
        there = np.zeros(len(heads), dtype=np.bool_)
        types = self.relations().ids
        nodes = self.info.entities + self.info.mediators + self.info.values
        possible = (relations >= 0) & (relations < len(types))
        for ends in (heads, tails):
            possible &= (ends >= 0) & (ends < nodes)
        asked = np.flatnonzero(possible)
        for start in range(0, len(asked), CHUNK):
            some = asked[start : start + CHUNK]
            near = self._near(self._nodes(heads[some]), "heads")
            near |= self._near(self._nodes(tails[some]), "tails")
            near["types"] = [types[key] for key in relations[some].tolist()]
            (answer,) = self._ask("has_edges", near)
            self._all_there(answer["rows"], len(some), "an end of an edge")
            there[some[keys_array(answer["rows"])]] = answer["there"]
        return there

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""
        return self._cache.degrees(keys_array(keys))

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, entity key) of every exact match, sorted."""
        return self._cache.find_names(names)

    def suggest(self, text: str, limit: int = 5) -> IntArray:
        """Return keys of entities whose name or alias is like ``text``, best first.

        By the server's full-text index where it has one, else by the survey's names.
        """
        words = normalise(text).split()[:_WORDS]
        index = self.record.text_index
        if not words or limit < 1:
            return keys_array([])
        if index is None:
            return self._cache.suggest(" ".join(words), limit)
        # Normalised words hold no character of Lucene's syntax, and no word is an operator there
        # (those are written in capitals).
        query = f'"{" ".join(words)}"^4 ' + " ".join(f"{word}^2 {word}~" for word in words)
        parameters = {"index": index, "query": query, "limit": 2 * int(limit) + _SPARE}
        (answer,) = self._ask("suggest", parameters)
        keys, kinds = self._find(answer["ids"])
        return keys_array(keys[kinds == Kind.ENTITY][:limit])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        return self._cache.topic_keys(int(after), int(limit))

    def drawing(self, edges: Sequence[tuple[str, str, str]]) -> str:
        """Return the Cypher that draws edges: head id, type, tail id, in stored direction.

        Raises EntityNotFoundError where an id is not in the KG.
        """
        ids = sorted({id_ for head, _, tail in edges for id_ in (head, tail)})
        values = self._nodes(self.keys_of(ids)).values
        literals = {
            id_: str(value) if isinstance(value, int) else cypher.literal(value)
            for id_, value in zip(ids, values, strict=True)
        }
        listed = ",\n  ".join(
            f"[{literals[head]}, {cypher.literal(type_)}, {literals[tail]}]"
            for head, type_, tail in edges
        )
        return self._statement("draw_edges").replace("$edges", f"[\n  {listed}\n]", 1)

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._cache.close()
            self.connection.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _statement(self, name: str, by_reference: bool = False) -> str:
        given = self.record.attachment
        return attached(name, given.label, given.id_property, by_reference=by_reference)

    def _ask(self, name: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        if self._closed:
            raise GraphError(f"The store of {self.info.name} in {self.url} is closed.")
        statement = self._statement(name, self.record.by_reference)
        return self.connection.read(statement, **parameters)

    def _near(self, nodes: Nodes, name: str = "ids") -> dict[str, Any]:
        """Return the parameters by which nodes are looked up."""
        found: dict[str, Any] = {name: nodes.values}
        if self.record.by_reference:
            found[f"{name}_refs"] = nodes.refs
        return found

    def _nodes(self, keys: IntArray) -> Nodes:
        try:
            return self._cache.nodes(keys)
        except KeyError as unknown:
            raise EntityNotFoundError(
                f"The KG {self.info.name} has no entity with key {unknown.args[0]}.",
                "Keys belong to one version of a KG; look the entity up by its id.",
            ) from None

    def _step(self, type_: str) -> int:
        try:
            return self._steps[type_]
        except KeyError:
            raise self._changed(f"it has relationships of the new type {type_!r}") from None

    def _find(self, values: Sequence[Any]) -> tuple[IntArray, Any]:
        for value in values:
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise self._changed(f"it has a node with the new id {value!r}")
        keys, kinds = self._cache.find(values)
        unknown = np.flatnonzero(keys < 0)
        if len(unknown):
            raise self._changed(f"it has a node with the new id {values[int(unknown[0])]!r}")
        return keys, kinds

    def _all_there(self, rows: Sequence[int], count: int, what: str) -> None:
        if len(set(rows)) != count:
            raise self._changed(f"{what} is gone, or its id is no longer unique")

    def _changed(self, how: str) -> GraphError:
        return GraphError(
            f"The graph in {self.url} has changed since {self.info.name} was attached "
            f"({self.record.attached}): {how}.",
            f"Attach it again: `kgqa attach {self.info.name} …`.",
        )
