"""Changing a KG in SQLite: a copy of its file is changed and put in its place in one step.

Whoever has the KG open goes on reading the old file. An attached KG's file is never changed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from kgqa.graph.change import overtaken
from kgqa.graph.sqlite_file import EDGE
from kgqa.graph.sqlite_write import NODE_COLUMNS, entity_row, replacing, text_row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.change import GraphChange, KeyedEdge, Node
    from kgqa.graph.model import IntArray
    from kgqa.graph.sqlite_file import SqliteReader

_ROWS = 20_000  # rows that are looked at together
_NODE = ("key", *NODE_COLUMNS)
_EDGE = "WHERE (head, relation, tail) = (?, ?, ?)"
_REMOVE_TEXT = (
    "INSERT INTO entity_text (entity_text, rowid, name, aliases) VALUES ('delete', ?, ?, ?)"
)


class SqliteChanger:
    """Changes the KG of a store. A ``GraphChanger``."""

    def __init__(self, store: SqliteReader) -> None:
        self._store = store
        self._ask = store.query

    def nodes(self, keys: IntArray) -> list[Node]:
        """Return the nodes of ``keys``."""
        columns = ", ".join(f"t.{name}" for name in _NODE)
        rows = []
        for _, *row in self._store.by_keys(columns, "entity", keys):
            node: Node = dict(zip(_NODE, row, strict=True))
            rows.append(node | {name: json.loads(node[name]) for name in ("aliases", "types")})
        return rows

    def properties(self, edges: Sequence[KeyedEdge]) -> list[str | None]:
        """Return the properties of edges."""
        statement = f"SELECT properties FROM edge_properties {_EDGE}"
        answers = [self._ask(statement, edge) for edge in edges]
        return [rows[0][0] if rows else None for rows in answers]

    def unused(self, relations: Iterable[int], removed: Collection[KeyedEdge]) -> list[int]:
        """Return those of ``relations`` that have no edge but the ``removed`` ones."""
        left = set(relations)
        seen: Counter[int] = Counter()
        gone = Counter(edge[1] for edge in removed)
        key = -1
        while left:
            rows = self._ask(
                "SELECT key, edges FROM edges_out WHERE key > ? ORDER BY key LIMIT ?", [key, _ROWS]
            )
            if not rows:
                break
            key = rows[-1][0]
            edges = np.frombuffer(b"".join(packed for _, packed in rows), dtype=EDGE)
            relation_keys, counts = np.unique(edges["relation"], return_counts=True)
            seen.update(dict(zip(relation_keys.tolist(), counts.tolist(), strict=True)))
            left = {relation for relation in left if seen[relation] <= gone[relation]}
        return sorted(left)

    def apply(self, change: GraphChange) -> None:
        """Make the change. Raises StoreUnavailableError, GraphError."""
        with replacing(self._store.path) as part:
            shutil.copyfile(self._store.path, part)
            with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = OFF")
                db.execute("PRAGMA synchronous = OFF")
                ((info,),) = db.execute("SELECT info FROM meta").fetchall()
                if json.loads(info)["version"] != change.before.version:
                    raise overtaken(change.info.name, str(self._store.path))
                db.execute("BEGIN")
                _apply(db, change)
                db.execute("COMMIT")


def _apply(db: sqlite3.Connection, change: GraphChange) -> None:
    db.execute("UPDATE meta SET info = ?", (json.dumps(asdict(change.info)),))
    db.executemany(
        "DELETE FROM relation WHERE key = ?", ((key,) for key in change.removed_relations)
    )
    db.executemany("INSERT OR REPLACE INTO relation VALUES (?, ?, ?, ?)", change.relations)
    db.executemany(_REMOVE_TEXT, _texts(change.old.values()))
    db.executemany("DELETE FROM entity WHERE key = ?", ((key,) for key in change.removed_nodes))
    rows = (entity_row(*(node[name] for name in _NODE)) for node in change.nodes)
    db.executemany("INSERT OR REPLACE INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    statement = "INSERT INTO entity_text (rowid, name, aliases) VALUES (?, ?, ?)"
    db.executemany(statement, _texts(change.nodes))
    added, removed = change.names()
    db.executemany("DELETE FROM name_norm WHERE norm = ? AND key = ?", removed)
    db.executemany("INSERT INTO name_norm VALUES (?, ?)", added)
    given = [*change.removed_edges, *change.edges]
    db.executemany(f"DELETE FROM edge_properties {_EDGE}", given)
    about = ((*edge, text) for edge, text in change.edges.items() if text is not None)
    db.executemany("INSERT INTO edge_properties VALUES (?, ?, ?, ?)", about)
    _apply_edges(db, change)


def _texts(nodes: Iterable[Node]) -> Iterable[tuple[int, str, str]]:
    columns = ("key", "name", "aliases", "kind")
    return filter(None, (text_row(*(node[name] for name in columns)) for node in nodes))


def _apply_edges(db: sqlite3.Connection, change: GraphChange) -> None:
    """Rewrite the packed edges of nodes that get or lose one, or have a neighbour of a new kind."""
    kinds: dict[int, int] = {
        node["key"]: node["kind"]
        for node in change.nodes
        if node["key"] not in change.old or change.old[node["key"]]["kind"] != node["kind"]
    }
    turned = np.array([key for key in kinds if key in change.old], np.int64)
    near = {end for edge in (*change.edges, *change.removed_edges) for end in (edge[0], edge[2])}
    near |= {node["key"] for node in change.nodes}  # for their degrees
    for key in turned.tolist():
        for table in ("edges_out", "edges_in"):
            near.update(_edges(db, table, key)["target"].tolist())
    changes: dict[str, dict[int, tuple[list[Any], list[Any]]]] = {"edges_out": {}, "edges_in": {}}
    for which, edges in enumerate((change.edges, change.removed_edges)):
        for head, relation, tail in edges:
            changes["edges_out"].setdefault(head, ([], []))[which].append((relation, tail))
            changes["edges_in"].setdefault(tail, ([], []))[which].append((relation, head))

    def kind_of(key: int) -> int:
        if key not in kinds:
            row = db.execute("SELECT kind FROM entity WHERE key = ?", [key]).fetchone()
            kinds[key] = int(row[0])
        return kinds[key]

    gone = set(change.removed_nodes)
    for key in sorted(near):
        degree = 0
        for table, by_key in changes.items():
            edges = _edges(db, table, key)
            added, removed = by_key.get(key, ([], []))
            edges = edges[~_among(edges, [*added, *removed])]
            new = np.array([(rel, kind_of(far), far) for rel, far in added], dtype=EDGE)
            edges = np.concatenate([edges, new])
            edges = edges[np.lexsort((edges["target"], edges["relation"]))]
            for place in np.flatnonzero(np.isin(edges["target"], turned)).tolist():
                edges["kind"][place] = kinds[int(edges["target"][place])]
            if len(edges):
                packed = edges.tobytes()
                db.execute(
                    f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", [key, crc32(packed), packed]
                )
            else:
                db.execute(f"DELETE FROM {table} WHERE key = ?", [key])
            loops = edges["target"] == key
            degree += len(edges) if table == "edges_out" else int(np.count_nonzero(~loops))
        if key not in gone:
            db.execute("UPDATE entity SET degree = ? WHERE key = ?", [degree, key])


def _edges(db: sqlite3.Connection, table: str, key: int) -> NDArray[np.void]:
    row = db.execute(f"SELECT edges FROM {table} WHERE key = ?", [key]).fetchone()
    return np.frombuffer(row[0] if row else b"", dtype=EDGE)


def _among(edges: NDArray[np.void], some: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return which packed edges are one of ``some`` (relation, far end)."""
    present = np.zeros(len(edges), np.bool_)
    wanted = set(some)
    if wanted and len(edges):
        maybe = np.isin(edges["target"], [far for _, far in wanted])
        for place in np.flatnonzero(maybe).tolist():
            edge = edges[place]
            present[place] = (int(edge["relation"]), int(edge["target"])) in wanted
    return present
