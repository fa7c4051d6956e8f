"""The embedded store: one KG in one SQLite file, read-only, opened once a thread."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from pydantic import TypeAdapter

from kgqa.errors import (
    GraphError,
    KGNotFoundError,
    KgqaError,
    StoreUnavailableError,
    UsageError,
    without_secrets,
)
from kgqa.files import stamp_of
from kgqa.graph.backend import HOW_TO_LOAD, StoreBackend, StoreOptions, check_kg_name, choose_kg
from kgqa.graph.columns import MOST_EDGES, EdgeColumns
from kgqa.graph.kept import KEPT
from kgqa.graph.model import Adjacency, EntityDetails, KGInfo, Kind, Relations, keys_array
from kgqa.graph.properties import StoredPropertyGraph
from kgqa.graph.sqlite_file import (
    APPLICATION_ID,
    EDGE,
    FILE_NAME,
    TABLES,
    USER_VERSION,
    SqliteReader,
)
from kgqa.graph.sqlite_write import SqliteChanger, SqliteWriter

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.properties import Described
    from kgqa.graph.store import GraphStore
    from kgqa.progress import Progress

_AGAIN = "Load the KG again with `kgqa ingest`."
_TEXTS = TypeAdapter(list[str])
_OBJECT = TypeAdapter(dict[str, Any])
_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_KEPT = Path(KEPT).suffix  # of the folder beside a file where what is computed from it lies
_COLUMNS, _COLUMNS_BY = "edges", ("graph/columns.py", "graph/sqlite.py")
_FEW_EDGES = 20_000  # of a KG that needs no columns
_FEW_KEYS = 16  # of a frontier that is read from the file


class SqliteStores(StoreBackend):
    """The KGs in a home, ``<home>/<kg>/graph.sqlite`` each, or the KG in a file."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        """Parse the URL as a file of one KG or a home folder. Raises UsageError."""
        _, separator, rest = url.partition("://")
        name = rest.removeprefix("/") if separator else url
        if not name or (separator and not rest.startswith("/")):
            raise UsageError(
                f"The graph URL {without_secrets(url)!r} names no file.",
                "Write sqlite:///relative/path or sqlite:////absolute/path.",
            )
        self.path = Path(name).expanduser()
        self.url = self.full_url = f"sqlite:///{self.path.absolute().as_posix()}"
        self.holds_one = self.path.is_file() or (
            self.path.suffix in _SUFFIXES and not self.path.is_dir()
        )
        self.home = None if self.holds_one else self.path

    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        """List the KGs by name; each KG of a home is named after its folder.

        ``faults``: gets the errors of unreadable KGs of a home, which are skipped.
        """
        if self.holds_one:
            if not self.path.exists():
                return []
            with SqliteStore(self.path) as store:
                return [store.info]
        kgs: list[KGInfo] = []
        for path in sorted(self.path.glob(f"*/{FILE_NAME}")):
            try:
                with SqliteStore(path, name=path.parent.name) as store:
                    kgs.append(store.info)
            except KgqaError as error:
                if faults is not None:
                    faults.append(error)
        return kgs

    def open(self, kg: str | None = None) -> SqliteStore:
        """Open a KG. Raises KGNotFoundError, UsageError, and the errors of SqliteStore."""
        if self.holds_one:
            store = SqliteStore(self.path)
            try:
                choose_kg([store.info], kg, self.url)
            except KgqaError:
                store.close()
                raise
            return store
        if kg is not None:
            path = self.path / check_kg_name(kg) / FILE_NAME
            if path.exists():
                return SqliteStore(path, name=kg)
        faults: list[KgqaError] = []
        infos = self.list_kgs(faults)
        if faults and kg is None:
            raise faults[0]  # the KG that is meant may be the one that does not read
        name = choose_kg(infos, kg, self.url).name
        return SqliteStore(self.path / name / FILE_NAME, name=name)

    def changer(self, store: GraphStore) -> SqliteChanger:
        """Return the changer of a KG that this backend opened."""
        from kgqa.graph.sqlite_write import SqliteChanger

        assert isinstance(store, SqliteStore)
        return SqliteChanger(store)

    def delete(self, kg: str, progress: Progress) -> bool:
        """Delete a KG's file and what was cached beside it; return whether the file existed.

        Raises UsageError if the file holds something else.
        """
        del progress
        path = self.path / check_kg_name(kg) / FILE_NAME
        if self.holds_one:
            if not self.path.exists():
                return False
            self._refuse_other(kg)
            path = self.path
        there = path.exists()
        path.unlink(missing_ok=True)
        for end in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        shutil.rmtree(path.with_suffix(_KEPT), ignore_errors=True)
        return there

    @contextmanager
    def writer(self, kg: str) -> Iterator[SqliteWriter]:
        """Open the writer of a KG. Raises UsageError if the file is of another kind."""
        if self.holds_one and self.path.exists():
            self._refuse_other(kg)
        yield SqliteWriter(self.path if self.holds_one else self.path / kg / FILE_NAME)

    def _refuse_other(self, kg: str) -> None:
        """Raise UsageError if the file to be replaced is not the KG ``kg``."""
        try:
            with SqliteStore(self.path) as store:
                there = store.info.name
        except KgqaError as error:
            # it may be anything: somebody's own database, or a KG of another layout
            raise UsageError(
                f"{self.path} exists and is not a KG that could be replaced: {error.message}",
                "Name another file with `graph`, or move this one away.",
            ) from None
        if there != kg:
            raise UsageError(
                f"{self.path} holds the KG {there}, not {kg}.",
                f"Name another file with `graph`, or set `kg` to {there}.",
            )


class SqliteStore(SqliteReader, StoredPropertyGraph):
    """The KG in the SQLite file ``path``, named ``name``. A ``GraphStore``.

    ``timeout``: how long to wait for locks, in seconds. Raises KGNotFoundError if the file does not
    exist, StoreUnavailableError if it is not a KG, damaged or unreadable, GraphError if it has
    another layout.
    """

    most_read = MOST_EDGES  # of which all may be read, to find classes

    def __init__(self, path: Path, *, name: str | None = None, timeout: float = 5.0) -> None:
        super().__init__(path, "entity", f"The store {path.absolute()}")
        self.url = f"sqlite:///{self.path.as_posix()}"
        self.kept_in = self.path.with_suffix(_KEPT)
        self._name = name
        self._timeout = timeout
        self._lost = False
        self._read()

    def _read(self) -> None:
        """Open the file, and read its meta record."""
        _check_file(self.path)
        self._file = stamp_of(self.path)  # before it is opened: never newer than what is read
        self._relations = None
        self._columns: EdgeColumns | None = None
        self._looked = False  # whether there are columns
        with self._opening(self._timeout) as layout:
            self.info = self._read_info(*layout)
        if self._name is not None:
            self.info = dataclasses.replace(self.info, name=self._name)

    def refresh(self) -> None:
        """Read the KG again if its file was changed, replaced or created since."""
        if self._lost or (self._db is not None and stamp_of(self.path) != self._file):
            super().close()
            self._lost = True  # until it can be read
            self._read()
            self._lost = False

    def close(self) -> None:
        """Close the file. Calling it twice does nothing."""
        self._lost = False
        super().close()

    def details(self, key: int) -> EntityDetails:
        """Return everything stored about one entity. Raises EntityNotFoundError."""
        rows = self.query(
            "SELECT id, name, kind, aliases, types, properties FROM entity WHERE key = ?",
            [int(key)],
        )
        if not rows:
            raise self._unknown_key(int(key))
        id_, name, kind, aliases, types, properties = rows[0]
        return EntityDetails(
            id=id_,
            name=name,
            kind=Kind(kind),
            aliases=self._parse_json(_TEXTS, aliases, id_),
            types=self._parse_json(_TEXTS, types, id_),
            properties=self._parse_json(_OBJECT, properties, id_) if properties else {},
        )

    def described(self, keys: IntArray) -> Iterator[Described]:
        """Yield key, id, name, kind, types and properties (JSON) of the ``keys`` that exist."""
        columns = "t.key, t.id, t.name, t.kind, t.types, t.properties"
        types: dict[str, tuple[str, ...]] = {}
        for _, key, id_, name, kind, listed, properties in self.by_keys(columns, "entity", keys):
            if listed not in types:
                types[listed] = tuple(self._parse_json(_TEXTS, listed, id_))
            yield key, id_, name, kind, types[listed], properties

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""
        columns = None if type_ else self._edge_columns()
        if columns is not None and len(columns.kind) == self.info.nodes:  # no key is of none
            return np.flatnonzero(columns.kind == Kind.ENTITY)
        if not type_:
            rows = self.query("SELECT key FROM entity WHERE kind = ? ORDER BY key", [Kind.ENTITY])
        else:
            rows = self.query(
                "SELECT key FROM entity WHERE instr(types, ?) AND "
                "EXISTS (SELECT 1 FROM json_each(types) t WHERE t.value = ?) ORDER BY key",
                [json.dumps(type_, ensure_ascii=False), type_],
            )
        return keys_array([key for (key,) in rows])

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``, sorted by (row, directed relation, target).

        Unknown keys have none.
        """
        keys = keys_array(keys)
        columns = self._edge_columns() if len(keys) > _FEW_KEYS else self._columns
        sides = [
            columns.neighbours(keys, side) if columns else self._read_edges(keys, side, table)
            for side, table in enumerate(("edges_out", "edges_in"))
            if direction in ("both", ("out", "in")[side])
        ]
        return sides[0] if len(sides) == 1 else Adjacency.merged(*sides)

    def edges_of(self, keys: IntArray, relations: IntArray, *, inverse: bool) -> Adjacency:
        """Return the edges of ascending ``keys`` whose relation is one of ``relations``.

        ``inverse``: edges into the keys, not out of them.
        """
        columns = self._edge_columns() if len(keys) > _FEW_KEYS else None
        if columns is None:
            return super().edges_of(keys, relations, inverse=inverse)
        return columns.edges_of(keys, relations, int(inverse))

    def prepare(self) -> None:
        """Build and cache the edge columns, unless the KG is small."""
        if self._edge_columns() is None and _FEW_EDGES < self.info.edges <= MOST_EDGES:
            self._columns = self._new_edge_columns()
            self.kept.write(_COLUMNS, _COLUMNS_BY, self._columns.arrays())

    def _edge_columns(self) -> EdgeColumns | None:
        """Return the cached edge columns, None if no process built them."""
        if not self._looked:
            self._looked = True
            found = self.kept.read(_COLUMNS, _COLUMNS_BY)
            if found is not None:
                size = (self.info.next_key, len(self.relations().ids), self.info.edges)
                with suppress(ValueError, KeyError, IndexError):
                    self._columns = EdgeColumns.read(found[0], *size)
        return self._columns

    def _new_edge_columns(self) -> EdgeColumns:
        """Build the edge columns from the file's tables."""
        kind, degree = np.zeros(self.info.next_key, np.uint8), np.zeros(self.info.next_key, "i8")
        rows = np.array(self.query("SELECT key, kind, degree FROM entity"), "i8").reshape(-1, 3)
        kind[rows[:, 0]], degree[rows[:, 0]] = rows[:, 1], np.maximum(rows[:, 2], 0)
        keys = keys_array([key for (key,) in self.query("SELECT key FROM edges_out ORDER BY key")])
        found = self._read_edges(keys, 0, "edges_out")
        return EdgeColumns.of((keys[found.row], found.step // 2, found.target), kind, degree)

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        keys = keys_array(keys)
        columns = self._edge_columns() if len(keys) > _FEW_KEYS else None
        return super().degrees(keys) if columns is None else columns.degrees(keys)

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""
        heads, relations, tails = (keys_array(column) for column in (heads, relations, tails))
        unique, rows = np.unique(heads, return_inverse=True)
        there = self._read_edges(unique, 0, "edges_out")  # the file itself, and nothing made of it
        wanted = np.isin(there.target, tails) & np.isin(there.step, relations * 2)
        have = set(
            zip(
                there.row[wanted].tolist(),
                there.step[wanted].tolist(),
                there.target[wanted].tolist(),
                strict=True,
            )
        )
        asked = zip(rows.tolist(), (relations * 2).tolist(), tails.tolist(), strict=True)
        return np.fromiter((edge in have for edge in asked), dtype=np.bool_, count=len(heads))

    def _parse_json(self, what: TypeAdapter[Any], text: str, id_: str) -> Any:
        """Parse a JSON field of an entity as ``what``. Raises StoreUnavailableError if damaged."""
        try:
            return what.validate_json(text)
        except (ValueError, TypeError):
            raise self._damaged(f"entity {id_} does not read") from None

    def _read_edges(self, keys: IntArray, side: int, table: str) -> Adjacency:
        """Read the packed edges of ``keys`` from ``table`` and check them.

        ``side``: 0 if the keys are heads, 1 if they are tails. Raises StoreUnavailableError if
        damaged.
        """
        blobs: list[bytes] = []
        rows: list[int] = []
        for row, crc, packed in self.by_keys("t.crc, t.edges", table, keys):
            if crc32(packed) != crc or len(packed) % EDGE.itemsize:
                raise self._damaged(f"the edges of entity number {keys[row]} changed")
            rows.append(row)
            blobs.append(packed)
        edges: NDArray[np.void] = np.frombuffer(b"".join(blobs), dtype=EDGE)
        if len(edges) and (
            edges["relation"].max() >= len(self.relations().ids) or edges["kind"].max() > max(Kind)
        ):
            raise self._damaged("an edge in it has no relation")
        counts = [len(packed) // EDGE.itemsize for packed in blobs]
        return Adjacency(
            row=np.repeat(keys_array(rows), counts),
            step=edges["relation"].astype(np.int64) * 2 + side,
            target=edges["target"].astype(np.int64),
            kind=edges["kind"].copy(),
        )

    def _read_info(self, application: int, version: int) -> KGInfo:
        """Check the file's kind, layout and tables; return its meta record."""
        if application != APPLICATION_ID:
            raise StoreUnavailableError(f"{self.path} is an SQLite file, but holds no KG.", _AGAIN)
        if version != USER_VERSION:
            raise GraphError(
                f"{self.path} has layout {version}; this version of kgqa reads {USER_VERSION}.",
                _AGAIN,
            )
        self._check_tables(TABLES)
        rows = self.query("SELECT info FROM meta LIMIT 2")
        try:
            ((text,),) = rows
            info = TypeAdapter(KGInfo).validate_json(text)
            check_kg_name(info.name)  # folders are named after it
        except ValueError:  # pydantic's, and UsageError
            raise self._damaged("its meta record does not read") from None
        return info

    def _read_relations(self) -> Relations:
        """Read all relations, checking their names and keys."""
        rows = self.query("SELECT key, id, name, inverse FROM relation")
        if any(row[2] is None or not 0 <= row[0] < self.info.next_relation for row in rows):
            raise self._damaged("a relation in it has no name or number")
        return Relations.of(rows, self.info.next_relation)

    def _fault(self, error: sqlite3.Error) -> KgqaError:
        """Translate a SQLite error, such as a locked or inaccessible file."""
        text = str(error)
        if "locked" in text or "busy" in text:
            return StoreUnavailableError(
                f"{self.path} is locked by another program.", "Close that program and try again."
            )
        if "unable to open" in text:
            return StoreUnavailableError(
                f"{self.path} cannot be opened.", "See that you may read the file and its folder."
            )
        return super()._fault(error)

    def _damaged(self, what: str) -> StoreUnavailableError:
        """Return the error of a damaged file."""
        return StoreUnavailableError(f"{self.path} is damaged: {what}.", _AGAIN)


def _check_file(path: Path) -> None:
    """Raise KgqaError unless ``path`` is a readable, complete SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = file.seek(0, 2)
    except FileNotFoundError:
        raise KGNotFoundError(f"There is no KG at {path}.", HOW_TO_LOAD) from None
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be read: {error.strerror or error}.",
            "See that it is a file that you may read.",
        ) from None
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise StoreUnavailableError(f"{path} is not an SQLite file.", _AGAIN)
    (page_size,) = struct.unpack_from(">H", header, 16)
    (pages,) = struct.unpack_from(">I", header, 28)
    expected = pages * (65536 if page_size == 1 else page_size)
    if size < expected:
        raise StoreUnavailableError(
            f"{path} is damaged: it has {size:,} of {expected:,} bytes.", _AGAIN
        )
