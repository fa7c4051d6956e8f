"""One KG on a Neo4j server, read-only: flat lists for a whole frontier, of one KG or an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa import cypher
from kgqa.closing import Closing
from kgqa.errors import EntityNotFoundError, GraphError, KGNotFoundError
from kgqa.graph.backend import HOW_TO_LOAD
from kgqa.graph.model import Adjacency, Entities, EntityDetails, Kind, Relations, keys_array
from kgqa.graph.names import is_storable, name_form, normalise
from kgqa.graph.neo4j import READ_TIMEOUT, Neo4jConnection, info_of
from kgqa.graph.neo4j_native import as_json
from kgqa.graph.neo4j_write import indexed_name
from kgqa.graph.properties import StoredPropertyGraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import neo4j

    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.properties import Described

CHUNK = 20_000  # keys or ids that one statement is given
_WORDS = 16  # words of a text that a suggestion looks at


class Neo4jStore(Closing, StoredPropertyGraph):
    """The KG ``kg``. A ``GraphStore``. Raises KGNotFoundError, StoreUnavailableError."""

    def __init__(self, connection: Neo4jConnection, kg: str) -> None:
        self.connection = connection
        self.url = connection.url
        self._read(kg)
        self._closed = False
        connection.acquire()

    def _read(self, kg: str) -> None:
        """Read the KG's meta record. Raises KGNotFoundError."""
        meta = self.connection.meta(kg)
        if meta is None:
            there = ", ".join(info.name for info in self.connection.list_kgs())
            raise KGNotFoundError(
                f"No KG named {kg} is in {self.url} (database {self.connection.database}).",
                f"There are: {there}." if there else HOW_TO_LOAD,
            )
        self.label = str(meta["label"])  # the label of this KG's nodes
        self.load = str(meta["load"])
        self.typed = bool(meta.get("labels"))  # whether types are labels
        self.info = info_of(meta, self.url)
        self._relations: Relations | None = None

    def refresh(self) -> None:
        """Read the meta record again if the KG was changed or reloaded."""
        if not self._closed:
            load, version, relations = self.load, self.info.version, self._relations
            self._read(self.info.name)
            if (load, version) == (self.load, self.info.version):
                self._relations = relations

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none."""
        keys = np.full(len(ids), -1, dtype=np.int64)
        # A lone surrogate has no UTF-8: no such id can be in a store, or be sent to one.
        rows = np.asarray([row for row, id_ in enumerate(ids) if is_storable(id_)], dtype=np.int64)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            answer = self.ask("keys_of_ids", ids=[ids[row] for row in chunk])
            keys[chunk[keys_array(answer["rows"])]] = answer["keys"]
        return keys

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in their order. Raises EntityNotFoundError."""
        keys = keys_array(keys)
        wanted, place = np.unique(keys, return_inverse=True)
        ids: list[str] = []
        names: list[str | None] = []
        kinds: list[int] = []
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            answer = self.ask("entities", keys=chunk.tolist())
            if len(answer["keys"]) != len(chunk):
                missing = np.setdiff1d(chunk, keys_array(answer["keys"]))
                raise self._unknown_key(int(missing[0]))
            for row in np.argsort(keys_array(answer["keys"])).tolist():
                ids.append(answer["ids"][row])
                names.append(answer["names"][row])
                kinds.append(answer["kinds"][row])
        return Entities(
            keys=keys,
            ids=[ids[row] for row in place],
            names=[names[row] for row in place],
            kinds=np.asarray(kinds, dtype=np.uint8)[place],
        )

    def details(self, key: int) -> EntityDetails:
        """Return everything stored about one entity. Raises EntityNotFoundError."""
        rows = self.ask("nodes", keys=[int(key)])["found"]
        if not rows:
            raise self._unknown_key(key)
        node = rows[0]
        return EntityDetails(
            id=node["id"],
            name=node.get("name"),
            kind=Kind(node["kind"]),
            aliases=list(node.get("aliases") or ()),
            types=list(node.get("types") or ()),
            properties=json.loads(node.get("properties") or "{}"),
        )

    def described(self, keys: IntArray) -> Iterator[Described]:
        """Yield key, id, name, kind, types and properties (JSON) of the ``keys`` that exist."""
        for start in range(0, len(keys), CHUNK):
            for node in self.ask("nodes", keys=keys[start : start + CHUNK].tolist())["found"]:
                types = tuple(node["types"] or ())
                yield node["key"], node["id"], node["name"], node["kind"], types, node["properties"]

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""
        return keys_array(self.ask("instances", type=type_)["keys"])

    def relations(self) -> Relations:
        """Return all relations; cached after the first read."""
        if self._relations is None:
            answer = self.ask("relations", with_label=False)
            if len(answer["keys"]) != self.info.relations:
                raise GraphError(
                    f"The relations of {self.info.name} in {self.url} are not complete.",
                    f"Load it again: `kgqa ingest {self.info.loader}`.",
                )
            columns = (answer[name] for name in ("keys", "ids", "names", "inverses"))
            self._relations = Relations.of(zip(*columns, strict=True), self.info.next_relation)
        return self._relations

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) ``keys``."""
        keys = keys_array(keys)
        columns = [(keys_array([]),) * 3]
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK].tolist()
            answer = self.ask(f"neighbours_{direction}", keys=chunk)
            row, step, packed = (keys_array(answer[name]) for name in ("rows", "steps", "targets"))
            columns.append((row + start, step, packed))
        row, step, packed = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return Adjacency.sorted(row, step, packed >> 2, (packed & 3).astype(np.uint8))

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""
        columns = [keys_array(column) for column in (heads, relations, tails)]
        there = np.zeros(len(columns[0]), dtype=np.bool_)
        for start in range(0, len(there), CHUNK):
            head, relation, tail = (column[start : start + CHUNK].tolist() for column in columns)
            answer = self.ask("has_edges", heads=head, relations=relation, tails=tail)
            there[keys_array(answer["rows"]) + start] = True
        return there

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""
        keys = keys_array(keys)
        degrees = np.zeros(len(keys), dtype=np.int64)
        for start in range(0, len(keys), CHUNK):
            answer = self.ask("degrees", keys=keys[start : start + CHUNK].tolist())
            degrees[keys_array(answer["rows"]) + start] = answer["degrees"]
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, entity key) of every exact match, sorted."""
        norms = [(row, norm) for row, name in enumerate(names) if (norm := name_form(name))]
        rows: list[int] = []
        keys: list[int] = []
        for start in range(0, len(norms), CHUNK):
            chunk = norms[start : start + CHUNK]
            wanted = [indexed_name(norm) for _, norm in chunk]
            answer = self.ask("find_names", with_label=False, names=wanted)
            for place, matches in zip(answer["rows"], answer["keys"], strict=True):
                rows.extend([chunk[place][0]] * len(matches))
                keys.extend(matches)
        row, key = keys_array(rows), keys_array(keys)
        order = np.lexsort((key, row))
        return row[order], key[order]

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return keys of entities whose name or alias resembles ``text``, best first."""
        query = text_query(text, prefix=prefix)
        if not query or limit < 1:
            return keys_array([])
        answer = self.ask(
            "suggest", with_label=False, index=f"{self.label} text", query=query, limit=int(limit)
        )
        return keys_array(answer["keys"])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        return keys_array(self.ask("topic_keys", after=int(after), limit=int(limit))["keys"])

    def drawing(self, edges: Sequence[tuple[str, str, str]]) -> str:
        """Return Cypher that draws edges: (head id, relation, tail id), in stored direction."""
        rows = [[cypher.literal(part) for part in edge] for edge in edges]
        return cypher.inlined("draw_edges", {"edges": list_literal(rows)}, self.label)

    def close(self) -> None:
        """Release the connection. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self.connection.release()

    def ask(self, name: str, with_label: bool = True, **parameters: Any) -> neo4j.Record:
        """Run a named statement on this version of the KG; return its record.

        ``with_label``: whether the statement contains the KG's label. Raises GraphError if the KG
        was changed since.
        """
        self._check_open()
        statement = cypher.statement(name, label=self.label if with_label else None)
        reading = {"load": self.load, "version": self.info.version}
        records = self.connection.read(statement, **reading, **parameters)
        if len(records) != 1 or not records[0]["serving"]:
            raise self._changed()
        return records[0]

    def run(
        self,
        cypher: str,
        parameters: dict[str, Any],
        limit: int = 1_000,
        timeout: float = READ_TIMEOUT,
    ) -> list[dict[str, Any]]:
        """See :class:`kgqa.graph.store.CypherStore`.

        Nodes of this KG bear ``label``; those of other KGs of the server are there as well.
        """
        self._check_open()
        rows, _ = self.connection.read_marked(cypher, parameters, timeout=timeout, limit=limit)
        meta = self.connection.meta(self.info.name)
        if meta is None or (meta["load"], meta["version"]) != (self.load, self.info.version):
            raise self._changed()
        return [as_json(dict(row)) for row in rows]

    def _check_open(self) -> None:
        """Raise GraphError if the store is closed."""
        if self._closed:
            raise GraphError(f"The store of {self.info.name} in {self.url} is closed.")

    def _changed(self) -> GraphError:
        """Return the error of a KG that was changed while it was in use."""
        return GraphError(
            f"The KG {self.info.name} in {self.url} was changed while it was in use.",
            "Run the command again.",
        )

    def _unknown_key(self, key: int) -> EntityNotFoundError:
        """Return the error of a key that no entity has."""
        return EntityNotFoundError(f"The KG {self.info.name} has no entity with key {key}.")


def list_literal(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of literals as a Cypher list of lists, one row a line."""
    listed = ",\n  ".join(f"[{', '.join(row)}]" for row in rows)
    return f"[\n  {listed}\n]" if listed else "[]"


def text_query(text: str, *, prefix: bool = False) -> str:
    """Return a full-text query for names like ``text``, "" if it has no word.

    ``prefix``: for names with a word that begins with each word of ``text``.
    """
    # Normalised words hold no character of Lucene's syntax, and no word is an operator there
    # (those are written in capitals).
    words = normalise(text).split()[:_WORDS]
    if prefix and words:
        return " AND ".join(f"({word}^2 OR {word}*)" for word in words)
    exact = " ".join(words)
    return f'"{exact}"^4 ' + " ".join(f"{word}^2 {word}~" for word in words) if words else ""
