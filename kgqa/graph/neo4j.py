"""A KG in Neo4j, read-only: the connection to a server, and the store of one KG on it.

Answers come back as few large flat lists of integers, one record for a whole frontier; paths and
nodes never travel as objects. Every answer is given only while the KG it was asked of is in
service: one that was replaced in the meantime is an error, never a part of two KGs. What this does
not do: write (``neo4j_write``), or draw (``browser``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import unquote, urlsplit

import neo4j
import numpy as np
from neo4j import exceptions as driver_errors

from kgqa import cypher
from kgqa.errors import (
    EntityNotFoundError,
    GraphError,
    KGNotFoundError,
    StoreUnavailableError,
    without_secrets,
)
from kgqa.graph.model import (
    Adjacency,
    Entities,
    EntityDetails,
    KGInfo,
    Kind,
    Relations,
    keys_array,
)
from kgqa.graph.store import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.neo4j_write import Neo4jWriter

SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
USER_AGENT = "kgqa"
READ_TIMEOUT = 60.0  # seconds that one statement may take
CHUNK = 20_000  # keys or ids that one statement is given
NAME_BYTES = 1_000  # Neo4j indexes no value above about 8 kB; longer names are kept by their hash
_WORDS = 16  # words of a text that a suggestion looks at
_START = "Start one (`docker compose up -d --wait`, or `scripts/neo4j start`) or set NEO4J_URI."

# A retried statement is not a user's concern; the error at the end of the retries is.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


class Neo4jConnection:
    """One driver to one database of one server, shared by the stores and writers made from it.

    ``uri`` is ``neo4j://``, ``bolt://`` or one of their ``+s``/``+ssc`` forms; a user and password
    in it are used where none are given, and never shown. Without a password the server is taken to
    ask for none. Nothing is sent before the first call. Closed by ``close`` or ``with``, or with
    the last of its stores.
    """

    def __init__(
        self,
        uri: str,
        username: str = "neo4j",
        password: str | None = None,
        database: str = "neo4j",
    ) -> None:
        self.url = without_secrets(uri)
        self.database = database
        self.username = username
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise self._no_address() from None
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise self._no_address()
        if password is None and parts.password is not None:
            self.username = unquote(parts.username or username)
            password = unquote(parts.password)
        self._auth = None if password is None else (self.username, password)
        self._lock = threading.Lock()
        self._open: neo4j.Driver | None = None
        self._users = 0  # stores and writers that are in use

    def verify(self) -> None:
        """Make sure that the server answers, knows the user and has the database.

        Raises StoreUnavailableError.
        """
        self.server_version()

    def server_version(self) -> tuple[int, int]:
        """Return the server's version, for instance (5, 26). Raises StoreUnavailableError."""
        rows = self.read(cypher.statement("server"))
        found = re.match(r"(\d+)\.(\d+)", rows[0]["versions"][0]) if rows else None
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def list_kgs(self) -> list[KGInfo]:
        """Return the KGs that can be asked, by name."""
        rows = self.read(cypher.statement("list_kgs"))
        return [_info(row["meta"], self.url) for row in rows]

    def meta(self, kg: str) -> dict[str, Any] | None:
        """Return a KG's record, with the label and the load id of its nodes; None without one."""
        rows = self.read(cypher.statement("kg"), kg=kg)
        return dict(rows[0]["meta"]) if rows else None

    def store(self, kg: str) -> Neo4jStore:
        """Return the store of one KG. Raises KGNotFoundError, StoreUnavailableError.

        When the last store in use is closed, the driver is closed too.
        """
        meta = self.meta(kg)
        if meta is None:
            there = ", ".join(info.name for info in self.list_kgs())
            raise KGNotFoundError(
                f"No KG named {kg} is in {self.url} (database {self.database}).",
                f"There are: {there}." if there else "Load one with `kgqa ingest`.",
            )
        return Neo4jStore(self, meta)

    def writer(self) -> Neo4jWriter:
        """Return a writer of whole KGs into this database."""
        from kgqa.graph.neo4j_write import Neo4jWriter

        return Neo4jWriter(self)

    def read(self, statement: str, **parameters: Any) -> list[neo4j.Record]:
        """Run a statement that only reads. Raises GraphError, StoreUnavailableError."""
        with self.translated():
            return (
                self._driver()
                .execute_query(
                    neo4j.Query(cast("Any", statement), timeout=READ_TIMEOUT),
                    parameters,
                    routing_=neo4j.RoutingControl.READ,
                    database_=self.database,
                )
                .records
            )

    def session(self) -> neo4j.Session:
        """Return a session that writes; for the writer, inside ``translated``."""
        return self._driver().session(
            database=self.database, default_access_mode=neo4j.WRITE_ACCESS, fetch_size=1000
        )

    def acquire(self) -> None:
        """Count one more user of the driver."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Count one user less; without any, the driver is closed until it is needed again."""
        with self._lock:
            self._users -= 1
            last = self._users <= 0
        if last:
            self.close()

    def _driver(self) -> neo4j.Driver:
        with self._lock:
            if self._open is None:
                driver = self._made()
                try:
                    # Without this, a server that is down would be tried again for seconds.
                    driver.verify_connectivity()
                except BaseException:
                    driver.close()
                    raise
                self._open = driver
            return self._open

    def _made(self) -> neo4j.Driver:
        try:
            return neo4j.GraphDatabase.driver(
                self.url,
                auth=self._auth,
                user_agent=USER_AGENT,
                connection_timeout=5.0,
                connection_acquisition_timeout=30.0,
                max_transaction_retry_time=10.0,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
            )
        except (ValueError, driver_errors.ConfigurationError):
            raise self._no_address() from None

    def _no_address(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.url} is no address of a Neo4j server.",
            "It has the form neo4j://host:7687 or bolt://host:7687.",
        )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the driver's errors into ours, without credentials and without its own trace."""
        try:
            yield
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise _translated(error, self.url, self.database) from None

    def close(self) -> None:
        """Close the driver; another call opens it again. Calling it twice does nothing."""
        with self._lock:
            driver, self._open = self._open, None
        if driver is not None:
            driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Neo4jStore:
    """One KG in Neo4j, as :class:`kgqa.graph.store.GraphStore`."""

    def __init__(self, connection: Neo4jConnection, meta: dict[str, Any]) -> None:
        self.connection = connection
        self.label = str(meta["label"])  # the label of this KG's nodes
        self._load = str(meta["load"])
        self._info = _info(meta, connection.url)
        self._closed = False
        self._relations: Relations | None = None
        connection.acquire()

    @property
    def info(self) -> KGInfo:
        """The KG's meta record."""
        return self._info

    @property
    def url(self) -> str:
        """The server's URL, without credentials."""
        return self.connection.url

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 where there is none. Shape: ``[len(ids)]``."""
        keys = np.full(len(ids), -1, dtype=np.int64)
        # A lone surrogate has no UTF-8: no such id can be in a store, or be sent to one.
        rows = np.asarray([row for row, id_ in enumerate(ids) if _sendable(id_)], dtype=np.int64)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            answer = self._ask("keys_of_ids", ids=[ids[row] for row in chunk])
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
            answer = self._ask("entities", keys=chunk.tolist())
            if len(answer["keys"]) != len(chunk):
                missing = np.setdiff1d(chunk, keys_array(answer["keys"]))
                raise self._no_key(int(missing[0]))
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
        """Return all that is known of one entity. Raises EntityNotFoundError."""
        found = self._ask("details", key=int(key))["found"]
        if not found:
            raise self._no_key(key)
        node = found[0]
        return EntityDetails(
            id=node["id"],
            name=node.get("name"),
            kind=Kind(node["kind"]),
            aliases=list(node.get("aliases") or ()),
            types=list(node.get("types") or ()),
            properties=json.loads(node.get("properties") or "{}"),
        )

    def relations(self) -> Relations:
        """Return all relations; read once and kept."""
        if self._relations is None:
            answer = self._ask("relations", with_label=False)
            if answer["keys"] != list(range(self._info.relations)):
                raise GraphError(
                    f"The relations of {self._info.name} in {self.url} are not complete.",
                    f"Load it again: `kgqa ingest {self._info.loader}`.",
                )
            self._relations = Relations(ids=answer["ids"], names=answer["names"])
        return self._relations

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return every edge that leaves (out), enters (in) or touches (both) ``keys``."""
        keys = keys_array(keys)
        rows, steps, targets = [], [], []
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK].tolist()
            answer = self._ask(f"neighbours_{direction}", keys=chunk)
            rows.append(keys_array(answer["rows"]) + start)
            steps.append(keys_array(answer["steps"]))
            targets.append(keys_array(answer["targets"]))
        row, step, packed = (
            np.concatenate(columns) if columns else keys_array([])
            for columns in (rows, steps, targets)
        )
        order = np.lexsort((packed, step, row))
        packed = packed[order]
        return Adjacency(
            row=row[order], step=step[order], target=packed >> 2, kind=(packed & 3).astype(np.uint8)
        )

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return for each (head, relation, tail), in stored direction, whether it is in the KG."""
        columns = [keys_array(column) for column in (heads, relations, tails)]
        there = np.zeros(len(columns[0]), dtype=np.bool_)
        for start in range(0, len(there), CHUNK):
            head, relation, tail = (column[start : start + CHUNK].tolist() for column in columns)
            answer = self._ask("has_edges", heads=head, relations=relation, tails=tail)
            there[keys_array(answer["rows"]) + start] = True
        return there

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, both directions, a self loop once."""
        keys = keys_array(keys)
        degrees = np.zeros(len(keys), dtype=np.int64)
        for start in range(0, len(keys), CHUNK):
            answer = self._ask("degrees", keys=keys[start : start + CHUNK].tolist())
            degrees[keys_array(answer["rows"]) + start] = answer["degrees"]
        return degrees

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, entity key) of every exact match, sorted."""
        norms = [(row, norm) for row, name in enumerate(names) if (norm := normalise(name))]
        rows: list[int] = []
        keys: list[int] = []
        for start in range(0, len(norms), CHUNK):
            chunk = norms[start : start + CHUNK]
            wanted = [indexed_name(norm) for _, norm in chunk]
            answer = self._ask("find_names", with_label=False, names=wanted)
            for place, found in zip(answer["rows"], answer["keys"], strict=True):
                rows.extend([chunk[place][0]] * len(found))
                keys.extend(found)
        row, key = keys_array(rows), keys_array(keys)
        order = np.lexsort((key, row))
        return row[order], key[order]

    def suggest(self, text: str, limit: int = 5) -> IntArray:
        """Return keys of entities whose name or alias is like ``text``, best first."""
        # Normalised words hold no character of Lucene's syntax, and no word is an operator there
        # (those are written in capitals).
        words = normalise(text).split()[:_WORDS]
        if not words or limit < 1:
            return keys_array([])
        exact = " ".join(words)
        query = f'"{exact}"^4 ' + " ".join(f"{word}^2 {word}~" for word in words)
        answer = self._ask(
            "suggest", with_label=False, index=f"{self.label} text", query=query, limit=int(limit)
        )
        return keys_array(answer["keys"])

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of named entities that have an edge."""
        return keys_array(self._ask("topic_keys", after=int(after), limit=int(limit))["keys"])

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self.connection.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, name: str, with_label: bool = True, **parameters: Any) -> neo4j.Record:
        if self._closed:
            raise GraphError(f"The store of {self._info.name} in {self.url} is closed.")
        statement = cypher.statement(name, label=self.label if with_label else None)
        records = self.connection.read(statement, load=self._load, **parameters)
        if len(records) != 1 or not records[0]["serving"]:
            raise GraphError(
                f"The KG {self._info.name} in {self.url} was replaced while it was in use.",
                "Run the command again.",
            )
        return records[0]

    def _no_key(self, key: int) -> EntityNotFoundError:
        return EntityNotFoundError(f"The KG {self._info.name} has no entity with key {key}.")


def _sendable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def indexed_name(name: str) -> str:
    """Return the form of a normalised name that the index holds: itself, or its hash if long."""
    data = name.encode("utf-8")
    # No normalised name holds a colon, so a hash is never taken for one.
    return name if len(data) <= NAME_BYTES else "sha256:" + hashlib.sha256(data).hexdigest()


def _info(meta: dict[str, Any], url: str) -> KGInfo:
    try:
        return KGInfo(**{f.name: meta[f.name] for f in dataclasses.fields(KGInfo)})
    except KeyError as error:
        raise GraphError(
            f"The record of the KG {meta.get('name')} in {url} lacks {error.args[0]!r}.",
            "It was not written by this version; load the KG again with `kgqa ingest`.",
        ) from None


def _translated(error: Exception, url: str, database: str) -> GraphError:
    code = (error.code or "") if isinstance(error, driver_errors.Neo4jError) else ""
    told = without_secrets(" ".join(str(getattr(error, "message", None) or error).split()))[:300]
    if isinstance(error, driver_errors.AuthError) or code.endswith("AuthenticationRateLimit"):
        return StoreUnavailableError(
            f"Neo4j at {url} refused the user name and password.",
            "Set NEO4J_USERNAME and NEO4J_PASSWORD to those of that server.",
        )
    if code.endswith(("DatabaseNotFound", "DatabaseUnavailable")):
        return StoreUnavailableError(
            f"Neo4j at {url} has no database {database} in service.",
            "Set NEO4J_DATABASE to one that it has (a Community server has `neo4j`).",
        )
    if isinstance(error, (driver_errors.ServiceUnavailable, driver_errors.ConfigurationError)) or (
        isinstance(error, driver_errors.DriverError) and not code
    ):
        return StoreUnavailableError(f"No Neo4j answers at {url}.", _START)
    if "TransactionTimedOut" in code:
        return GraphError(
            f"Neo4j at {url} took longer than {READ_TIMEOUT:.0f} s for one statement.",
            "Ask for fewer hops, or give the server more memory.",
        )
    if "OutOfMemory" in code:
        return GraphError(
            f"Neo4j at {url} has too little memory for this statement.",
            "Give the server a larger heap (`server.memory.heap.max_size`).",
        )
    return GraphError(f"Neo4j at {url} could not do it: {told or type(error).__name__} [{code}]")
