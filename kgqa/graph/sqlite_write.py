"""Writing a KG into SQLite, and changing it: the new file takes the place of the old in one step.

A change is made in a copy, so whoever has the KG open goes on reading the old file.
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
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock, Timeout

from kgqa.errors import GraphError, StoreUnavailableError
from kgqa.files import sync
from kgqa.graph.change import GraphChange, KeyedEdge, Node, overtaken
from kgqa.graph.model import ENTITY_SCHEMA, Kind
from kgqa.graph.names import normalise, normalised_column
from kgqa.graph.sqlite_file import (
    APPLICATION_ID,
    EDGE,
    INDEXES,
    TABLES,
    USER_VERSION,
    SqliteReader,
    prepare,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress, Task

    Columns = tuple[IntArray, IntArray, IntArray]  # near end, relation, far end

_ROWS = 20_000  # rows that are looked at together
_TOGETHER = 32  # rows of one statement
_IN_JSON = 4_000  # texts of one statement
_LITERALS = {None: "NULL", "[]": "'[]'"}  # of what whole columns often are
NODE_COLUMNS = ("id", "name", "aliases", "kind", "types", "properties")


class SqliteWriter:
    """Writes a KG to ``path``, creating its folder. A ``GraphWriter``."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG and replace the older one. Raises StoreUnavailableError, GraphError."""
        with replacing(self.path) as part:
            _fill(part, source, progress)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write, which replaces ``path`` atomically at the end.

    Locks ``path`` for one process. Raises StoreUnavailableError, GraphError.
    """
    part = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=0):
            _remove(part)  # left behind by a run that was stopped
            try:
                yield part
                sync(part)
                part.replace(path)
                sync(path.parent)
            finally:
                _remove(part)
    except Timeout:
        raise GraphError(
            f"Another process is writing {path}.", "Wait until it has ended."
        ) from None
    except sqlite3.Error as error:
        raise GraphError(
            f"The graph could not be written to {path}: {error}.",
            "See that the disk has room; what was there before is unchanged.",
        ) from None
    except OSError as error:
        raise StoreUnavailableError(
            f"The graph could not be written to {path}: {error.strerror or error}.",
            "Choose a folder that you may write to with `home`; what was there before is "
            "unchanged.",
        ) from None


def _remove(path: Path) -> None:
    """Delete a database file and its journal, if they exist."""
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)


def _fill(path: Path, source: GraphSource, progress: Progress) -> None:
    """Write a whole KG into a new database file."""
    info = source.info
    rows = 2 * info.nodes + 2 * info.edges
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db,
        progress.task("writing the graph", total=rows, unit="rows") as task,
    ):
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        prepare(db, APPLICATION_ID, USER_VERSION, TABLES)
        db.execute("BEGIN")
        db.execute("INSERT INTO meta VALUES (?)", (json.dumps(asdict(info)),))
        relations = source.relations.select(["id", "name", "inverse"]).to_pylist()
        db.executemany(
            "INSERT INTO relation VALUES (?, ?, ?, ?)",
            ((key, *row.values()) for key, row in enumerate(relations)),
        )
        parts = [batch.column("kind").to_numpy() for batch in source.node_batches()]
        kinds = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)
        degrees = _write_edges(db, source, kinds, task)
        _write_entities(db, source, degrees, task)
        for batch in source.name_batches():
            for start in range(0, len(batch), _ROWS):
                rows = batch.slice(start, _ROWS)
                _insert(db, "name_norm", *(column.to_pylist() for column in rows.columns))
        db.execute(INDEXES)
        db.execute("INSERT INTO entity_text (entity_text) VALUES ('optimize')")
        db.execute("COMMIT")


def _insert(db: sqlite3.Connection, table: str, *columns: Sequence[Any]) -> None:
    """Insert rows, given as columns; a row with an existing key is replaced.

    Many rows share one statement, since each statement costs as much as a row. A value common to
    all rows is written into the statement.
    """
    literals = [_shared_literal(column) for column in columns]
    bound = [c for c, literal in zip(columns, literals, strict=True) if literal is None]
    width = len(bound)
    values: list[Any] = [None] * (width * len(columns[0]))
    for place, column in enumerate(bound):
        values[place::width] = column
    statement = f"INSERT OR REPLACE INTO {table} VALUES "
    row = f"({','.join(literal or '?' for literal in literals)})"
    step = width * _TOGETHER
    rest = len(values) - len(values) % step
    slices = map(slice, range(0, rest, step), range(step, rest + 1, step))
    db.executemany(statement + ",".join([row] * _TOGETHER), map(values.__getitem__, slices))
    left = (values[at : at + width] for at in range(rest, len(values), width))
    db.executemany(statement + row, left)


def _shared_literal(column: Sequence[Any]) -> str | None:
    """Return the SQL literal of a column's value if all rows share it, else None."""
    literal = _LITERALS.get(column[0]) if len(column) else None
    return literal if literal and column.count(column[0]) == len(column) else None


def _write_edges(
    db: sqlite3.Connection, source: GraphSource, kinds: NDArray[np.uint8], task: Task
) -> IntArray:
    """Write packed edges by head and by tail; return the degree of each node."""
    degrees = np.zeros(len(kinds), dtype=np.int64)

    def count_degrees(batches: Iterator[pa.RecordBatch], near: str, far: str) -> Iterator[Columns]:
        """Yield (ends, relations, others) of batches, and add to ``degrees``.

        ``near`` and ``far``: the columns of the ends and the others. Properties of edges are
        written on the pass by head.
        """
        for batch in batches:
            task.advance(len(batch))
            if near == "head":
                kept = batch.filter(batch.column("properties").is_valid())
                rows = zip(*(column.to_pylist() for column in kept.columns), strict=True)
                db.executemany("INSERT INTO edge_properties VALUES (?, ?, ?, ?)", rows)
            ends, others = batch.column(near).to_numpy(), batch.column(far).to_numpy()
            loops = ends == others
            # a loop is counted once, on its way out
            counted = ends if near == "head" else ends[~loops]
            np.add.at(degrees, counted, 1)
            yield ends, batch.column("relation").to_numpy(), others

    sides = (
        ("edges_out", count_degrees(source.edge_batches(), "head", "tail")),
        ("edges_in", count_degrees(source.incoming_batches(), "tail", "head")),
    )
    for table, columns in sides:
        for keys, packed in _adjacency(columns, kinds):
            _insert(db, table, keys, list(map(crc32, packed)), packed)
    return degrees


def _adjacency(
    columns: Iterable[Columns], kinds: NDArray[np.uint8]
) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yield keys of nodes with the packed edges of each; a node may span batches."""
    last, held = -1, b""
    for near, relations, far in columns:
        records = np.empty(len(near), dtype=EDGE)
        records["relation"] = relations
        records["kind"] = kinds[far]
        records["target"] = far
        packed = records.tobytes()
        starts = np.flatnonzero(np.diff(near, prepend=-1))
        cut = np.append(starts, len(near)) * EDGE.itemsize
        for at in range(0, len(starts), _ROWS):
            keys = near[starts[at : at + _ROWS]].tolist()
            cuts = cut[at : at + _ROWS + 1].tolist()
            pieces = list(map(packed.__getitem__, map(slice, cuts, cuts[1:])))
            if keys[0] == last:
                pieces[0] = held + pieces[0]
            elif held:
                keys.insert(0, last)
                pieces.insert(0, held)
            last, held = keys.pop(), pieces.pop()
            yield keys, pieces
    if held:
        yield [last], [held]


def _write_entities(
    db: sqlite3.Connection, source: GraphSource, degrees: IntArray, task: Task
) -> None:
    """Write all nodes and their texts, in slices."""
    key = 0
    for batch in source.node_batches():
        for start in range(0, len(batch), _ROWS):
            rows = batch.slice(start, _ROWS)
            keys = range(key, key + len(rows))
            key = keys.stop
            _insert_nodes(db, keys, rows, degrees[keys.start : keys.stop].tolist())
            task.advance(2 * len(rows))


def _insert_nodes(
    db: sqlite3.Connection, keys: Sequence[int], rows: pa.RecordBatch, degrees: Sequence[int]
) -> None:
    """Write nodes (``ENTITY_SCHEMA``) and their texts; existing nodes are replaced."""
    ids, names, kinds, properties = (
        rows.column(name).to_pylist() for name in ("id", "name", "kind", "properties")
    )
    lists = (_json_lists(rows.column(name)) for name in ("aliases", "types"))
    _insert(db, "entity", keys, ids, names, kinds, degrees, *lists, properties)
    names, others = _search_texts(rows)
    if isinstance(keys, range) and not any(others):
        statement = (
            "INSERT INTO entity_text (rowid, name, aliases) SELECT ? + key, value, '' "
            "FROM json_each(?) WHERE value IS NOT NULL"
        )  # a third faster than a statement a row
        for at in range(0, len(names), _IN_JSON):
            text = json.dumps(names[at : at + _IN_JSON], ensure_ascii=False)
            db.execute(statement, (keys[at], text))
        return
    statement = "INSERT INTO entity_text (rowid, name, aliases) VALUES (?, ?, ?)"
    db.executemany(statement, _text_rows(keys, names, others))


def _json_lists(lists: pa.ListArray) -> list[str]:
    """Format each list of texts as JSON; most are empty."""
    texts = ["[]"] * len(lists)
    places = np.flatnonzero(pc.list_value_length(lists).fill_null(0))
    for place, given in zip(places.tolist(), lists.take(places).to_pylist(), strict=True):
        texts[place] = json.dumps(given, ensure_ascii=False)
    return texts


def _search_texts(rows: pa.RecordBatch) -> tuple[list[str | None], list[str]]:
    """Return the searchable texts of nodes: entities' normalised names and joined aliases.

    They are normalised as a query's words are. The name is None for nodes that are not searched.
    """
    names, aliases = rows.column("name").fill_null(""), rows.column("aliases")
    others = [""] * len(rows)
    places = np.flatnonzero(pc.list_value_length(aliases).fill_null(0))
    for place, given in zip(places.tolist(), aliases.take(places).to_pylist(), strict=True):
        others[place] = " ".join(map(normalise, given))
    chosen = pc.binary_length(names).to_numpy() > 0
    chosen[places] = True
    chosen &= pc.equal(rows.column("kind"), pa.scalar(Kind.ENTITY, pa.uint8())).to_numpy(False)
    norms = pc.if_else(pa.array(chosen), normalised_column(names), pa.scalar(None, pa.string()))
    return norms.to_pylist(), others


def _text_rows(
    keys: Sequence[int], names: list[str | None], others: list[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield the rows of ``entity_text``: key, name and aliases."""
    rows = zip(keys, names, others, strict=True)
    return ((key, name, aliases) for key, name, aliases in rows if name is not None)


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
        """Return the nodes of ``keys``, which must all exist."""
        columns = ", ".join(f"t.{name}" for name in _NODE)
        rows = []
        for _, *row in self._store.by_keys(columns, "entity", keys):
            node: Node = dict(zip(_NODE, row, strict=True))
            rows.append(node | {name: json.loads(node[name]) for name in ("aliases", "types")})
        return rows

    def properties(self, edges: Sequence[KeyedEdge]) -> list[str | None]:
        """Return the properties of edges as JSON, None for an edge without any."""
        statement = f"SELECT properties FROM edge_properties {_EDGE}"
        answers = [self._ask(statement, edge) for edge in edges]
        return [rows[0][0] if rows else None for rows in answers]

    def unused(self, relations: Iterable[int], removed: Collection[KeyedEdge]) -> list[int]:
        """Return the ``relations`` that lose their last edge with the edges ``removed``."""
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
        """Apply the change in a copy that replaces the file.

        Raises StoreUnavailableError, GraphError.
        """
        with replacing(self._store.path) as part:
            shutil.copyfile(self._store.path, part)
            with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = OFF")
                db.execute("PRAGMA synchronous = OFF")
                ((info,),) = db.execute("SELECT info FROM meta").fetchall()
                if json.loads(info)["version"] != change.before.version:
                    raise overtaken(change.info.name, str(self._store.path))
                db.execute("BEGIN")
                _apply_change(db, change)
                db.execute("COMMIT")


def _apply_change(db: sqlite3.Connection, change: GraphChange) -> None:
    """Write a change into the copied database."""
    db.execute("UPDATE meta SET info = ?", (json.dumps(asdict(change.info)),))
    db.executemany(
        "DELETE FROM relation WHERE key = ?", ((key,) for key in change.removed_relations)
    )
    db.executemany("INSERT OR REPLACE INTO relation VALUES (?, ?, ?, ?)", change.relations)
    keys, rows = _rows_of(change.old.values())
    db.executemany(_REMOVE_TEXT, _text_rows(keys, *_search_texts(rows)))
    db.executemany("DELETE FROM entity WHERE key = ?", ((key,) for key in change.removed_nodes))
    _insert_nodes(db, *_rows_of(change.nodes), [0] * len(change.nodes))
    added, removed = change.names()
    db.executemany("DELETE FROM name_norm WHERE norm = ? AND key = ?", removed)
    db.executemany("INSERT INTO name_norm VALUES (?, ?)", added)
    given = [*change.removed_edges, *change.edges]
    db.executemany(f"DELETE FROM edge_properties {_EDGE}", given)
    about = ((*edge, text) for edge, text in change.edges.items() if text is not None)
    db.executemany("INSERT INTO edge_properties VALUES (?, ?, ?, ?)", about)
    _apply_edges(db, change)


def _rows_of(nodes: Collection[Node]) -> tuple[list[int], pa.RecordBatch]:
    """Return the keys of nodes, and a batch of their other columns."""
    return [node["key"] for node in nodes], pa.RecordBatch.from_pylist(
        [{name: node[name] for name in NODE_COLUMNS} for node in nodes], schema=ENTITY_SCHEMA
    )


def _apply_edges(db: sqlite3.Connection, change: GraphChange) -> None:
    """Rewrite the packed edges of nodes that gain or lose one, or have a changed neighbour."""
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
            near.update(_read_edges(db, table, key)["target"].tolist())
    changes: dict[str, dict[int, tuple[list[Any], list[Any]]]] = {"edges_out": {}, "edges_in": {}}
    for which, edges in enumerate((change.edges, change.removed_edges)):
        for head, relation, tail in edges:
            changes["edges_out"].setdefault(head, ([], []))[which].append((relation, tail))
            changes["edges_in"].setdefault(tail, ([], []))[which].append((relation, head))

    def kind_of(key: int) -> int:
        """Return the kind of a node, from the change or the database."""
        if key not in kinds:
            row = db.execute("SELECT kind FROM entity WHERE key = ?", [key]).fetchone()
            kinds[key] = int(row[0])
        return kinds[key]

    gone = set(change.removed_nodes)
    for key in sorted(near):
        degree = 0
        for table, by_key in changes.items():
            edges = _read_edges(db, table, key)
            added, removed = by_key.get(key, ([], []))
            edges = edges[~_edge_mask(edges, [*added, *removed])]
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


def _read_edges(db: sqlite3.Connection, table: str, key: int) -> NDArray[np.void]:
    """Return the packed edges of a node."""
    row = db.execute(f"SELECT edges FROM {table} WHERE key = ?", [key]).fetchone()
    return np.frombuffer(row[0] if row else b"", dtype=EDGE)


def _edge_mask(edges: NDArray[np.void], some: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return which packed edges are among the pairs ``some`` (relation, far end)."""
    present = np.zeros(len(edges), np.bool_)
    wanted = set(some)
    if wanted and len(edges):
        maybe = np.isin(edges["target"], [far for _, far in wanted])
        for place in np.flatnonzero(maybe).tolist():
            edge = edges[place]
            present[place] = (int(edge["relation"]), int(edge["target"])) in wanted
    return present
