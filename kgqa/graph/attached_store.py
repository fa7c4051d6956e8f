"""A Neo4j database as it is, read-only: edges from the server, keys, names, degrees of the survey.

An id or a relationship type that the survey did not meet, or a node that is gone, means that the
graph has changed, and is an error, never an answer. A new edge between known nodes is allowed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa import cypher
from kgqa.cypher.attached import attached
from kgqa.errors import GraphError, StoreUnavailableError
from kgqa.graph.attached_cache import (
    APPLICATION_ID,
    TABLES,
    USER_VERSION,
    nodes_of_values,
    value_of,
)
from kgqa.graph.model import Adjacency, EntityDetails, Kind, Relations, keys_array
from kgqa.graph.neo4j_store import CHUNK, list_literal, text_query
from kgqa.graph.sqlite_file import SqliteReader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import neo4j
    from numpy.typing import NDArray

    from kgqa.graph.attached import AttachedRecord
    from kgqa.graph.attached_cache import Value
    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.neo4j import Neo4jConnection

_SPARE = 20  # more suggestions than asked for, since mediators and values are left out


@dataclass(frozen=True, slots=True)
class _Nodes:
    ids: list[str]
    values: list[Value]  # the ids in the database's own type
    names: list[str | None]
    kinds: list[int]
    refs: list[str | None]  # element ids, if nodes are looked up by them


class AttachedStore(SqliteReader):
    """An attached KG, a ``GraphStore`` for one thread. Raises StoreUnavailableError."""

    def __init__(self, connection: Neo4jConnection, record: AttachedRecord, folder: Path) -> None:
        super().__init__(folder / record.cache, "node", f"The store of {record.info.name}")
        self.connection = connection
        self.url = connection.url
        self.record = record
        self.info = record.info
        self._closed = True
        self._steps: dict[str, int] = {}
        if not self.path.is_file():
            raise self._damaged("it is missing")
        with self._opening() as layout:
            if layout != (APPLICATION_ID, USER_VERSION):
                raise self._damaged("it has another layout")
            self._check_tables(TABLES)
            if self.query("SELECT version FROM survey") != [(record.info.version,)]:
                raise self._damaged("it is of another survey")
        connection.acquire()
        self._closed = False

    def details(self, key: int) -> EntityDetails:
        """Return the node's further labels, other properties. Raises EntityNotFoundError."""
        nodes = self._nodes_of(keys_array([key]))
        given = self.record.attachment
        rows = self._ask("details", self._near(nodes))
        if len(rows) != 1:
            raise self._changed(f"{len(rows)} nodes have the id {nodes.ids[0]!r}")
        ours = {given.label, given.mediator_label, given.value_label}
        used = {given.id_property, given.name_property, given.alias_property}
        properties = {k: v for k, v in rows[0]["properties"].items() if k not in used}
        aliases = self.query("SELECT aliases FROM node WHERE key = ?", [int(key)])[0][0]
        return EntityDetails(
            id=nodes.ids[0],
            name=nodes.names[0],
            kind=Kind(nodes.kinds[0]),
            aliases=json.loads(aliases) if aliases else [],
            types=sorted(set(rows[0]["labels"]) - ours),
            properties=json.loads(json.dumps(properties, default=str)),
        )

    def _read_relations(self) -> Relations:
        types = [type_ for (type_,) in self.query("SELECT type FROM relation ORDER BY key")]
        self._steps = {type_: 2 * key for key, type_ in enumerate(types)}
        return Relations(types, types, [None] * len(types))

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``. Raises GraphError if the graph has changed since."""
        keys = keys_array(keys)
        self.relations()
        none = keys_array([])
        columns = [(none, none, none, np.zeros(0, dtype=np.uint8))]
        for start in range(0, len(keys), CHUNK):
            columns.append(self._neighbours(keys[start : start + CHUNK], start, direction))
        row, step, target, kind = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return Adjacency.sorted(row, step, target, kind)

    def _neighbours(
        self, keys: IntArray, start: int, direction: Direction
    ) -> tuple[IntArray, IntArray, IntArray, NDArray[np.uint8]]:
        (answer,) = self._ask(f"neighbours_{direction}", self._near(self._nodes_of(keys)))
        rows = answer["rows"]
        self._all_there(rows, len(keys), "a node")
        # an empty id names no entity; those nodes were left out when the graph was attached
        groups = [[other for other in group if other != ""] for group in answer["others"]]
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
        """Return which triples are in the KG. Raises GraphError if an end is gone."""
        heads, relations, tails = (keys_array(column) for column in (heads, relations, tails))
        there = np.zeros(len(heads), dtype=np.bool_)
        types = self.relations().ids
        possible = (relations >= 0) & (relations < len(types))
        for ends in (heads, tails):
            possible &= (ends >= 0) & (ends < self.info.nodes)
        asked = np.flatnonzero(possible)
        for start in range(0, len(asked), CHUNK):
            some = asked[start : start + CHUNK]
            near = self._near(self._nodes_of(heads[some]), "heads")
            near |= self._near(self._nodes_of(tails[some]), "tails")
            near["types"] = [types[key] for key in relations[some].tolist()]
            (answer,) = self._ask("has_edges", near)
            self._all_there(answer["rows"], len(some), "an end of an edge")
            there[some[keys_array(answer["rows"])]] = answer["there"]
        return there

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return keys of entities by the server's full-text index, else by the survey's names."""
        query, index = text_query(text, prefix=prefix), self.record.text_index
        if not query or limit < 1:
            return keys_array([])
        if index is None:
            return super().suggest(text, limit, prefix=prefix)
        parameters = {"index": index, "query": query, "limit": 2 * int(limit) + _SPARE}
        (answer,) = self._ask("suggest", parameters)
        keys, kinds = self._find(answer["ids"])
        return keys_array(keys[kinds == Kind.ENTITY][:limit])

    def drawing(self, edges: Sequence[tuple[str, str, str]]) -> str:
        """Return the Cypher that draws edges given by id. Raises EntityNotFoundError."""
        ids = sorted({id_ for head, _, tail in edges for id_ in (head, tail)})
        values = self._nodes_of(self.keys_of(ids)).values
        literals = {
            id_: str(value) if isinstance(value, int) else cypher.literal(value)
            for id_, value in zip(ids, values, strict=True)
        }
        rows = [
            [literals[head], cypher.literal(type_), literals[tail]] for head, type_, tail in edges
        ]
        return self._statement("draw_edges").replace("$edges", list_literal(rows), 1)

    def refresh(self) -> None:
        """Do nothing: what the survey met is what this store is about, until it is opened again."""

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""
        super().close()
        if not self._closed:
            self._closed = True
            self.connection.release()

    def _statement(self, name: str, by_reference: bool = False) -> str:
        given = self.record.attachment
        return attached(name, given.label, given.id_property, by_reference=by_reference)

    def _ask(self, name: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        if self._closed:
            raise GraphError(f"The store of {self.info.name} in {self.url} is closed.")
        statement = self._statement(name, self.record.by_reference)
        return self.connection.read(statement, **parameters)

    def _near(self, nodes: _Nodes, name: str = "ids") -> dict[str, Any]:
        refs = {f"{name}_refs": nodes.refs} if self.record.by_reference else {}
        return {name: nodes.values, **refs}

    def _nodes_of(self, keys: IntArray) -> _Nodes:
        rows = self._nodes("t.id, t.name, t.kind, t.ref, t.number", keys)
        ids, names, kinds, refs = ([row[column] for row in rows] for column in range(1, 5))
        return _Nodes(ids, [value_of(row[1], row[5]) for row in rows], names, kinds, refs)

    def _step(self, type_: str) -> int:
        try:
            return self._steps[type_]
        except KeyError:
            raise self._changed(f"it has relationships of the new type {type_!r}") from None

    def _find(self, values: Sequence[Any]) -> tuple[IntArray, NDArray[np.uint8]]:
        for value in values:
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise self._changed(f"it has a node with the new id {value!r}")
        found = nodes_of_values(self.query, values)
        for value in values:
            if value not in found:
                raise self._changed(f"it has a node with the new id {value!r}")
        return (
            np.fromiter((found[value][0] for value in values), np.int64, len(values)),
            np.fromiter((found[value][1] for value in values), np.uint8, len(values)),
        )

    def _all_there(self, rows: Sequence[int], count: int, what: str) -> None:
        if len(set(rows)) != count:
            raise self._changed(f"{what} is gone, or its id is no longer unique")

    def _changed(self, how: str) -> GraphError:
        return GraphError(
            f"The graph in {self.url} has changed since {self.info.name} was attached "
            f"({self.record.attached}): {how}.",
            f"Attach it again: `kgqa attach {self.info.name} …`.",
        )

    def _damaged(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.path}, which belongs to the attached KG {self.info.name}, cannot be used: "
            f"{what}.",
            f"Attach it again: `kgqa attach {self.info.name} …`.",
        )
