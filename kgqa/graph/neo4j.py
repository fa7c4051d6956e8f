"""The connection to a Neo4j server, and what its errors mean to a user."""

from __future__ import annotations

import logging
import re
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import neo4j
from neo4j import exceptions as driver_errors
from pydantic import ValidationError

from kgqa import cypher
from kgqa.closing import Closing
from kgqa.errors import GraphError, StoreUnavailableError, without_secrets
from kgqa.graph.model import KGInfo

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
USER_AGENT = "kgqa"
READ_TIMEOUT = 60.0  # seconds that one statement may take
_START = "Start one (`docker compose up -d --wait`, or `scripts/neo4j start`) or set NEO4J_URI."

# A retried statement is not a user's concern; the error at the end of the retries is.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


class Neo4jConnection(Closing):
    """One driver to one database (by default the one served) of a server, shared by its users.

    ``uri``: ``neo4j://``, ``bolt://`` or a ``+s``/``+ssc`` form; its user and password are used if
    none are given, and never shown. Nothing is sent before the first call.
    """

    def __init__(
        self,
        uri: str,
        username: str = "neo4j",
        password: str | None = None,
        database: str | None = None,
    ) -> None:
        self.url = without_secrets(uri)
        self._database = database
        self.username = username
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise self._malformed() from None
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise self._malformed()
        if password is None and parts.password is not None:
            self.username = unquote(parts.username or username)
            password = unquote(parts.password)
        self._auth = None if password is None else (self.username, password)
        self._lock = threading.Lock()
        self._open: neo4j.Driver | None = None
        self._users = 0  # stores and writers that are in use

    @property
    def is_default(self) -> bool:
        """Whether the database is the one that the server serves by default, whatever its name."""
        return self._database is None

    @property
    def database(self) -> str:
        """The database's name; the server is asked if none was given."""
        if self._database is not None:
            return self._database
        return str(self.read(cypher.statement("database_name"))[0]["name"])

    def server_version(self) -> tuple[int, int]:
        """Return the server's (major, minor) version, for instance (5, 26)."""
        rows = self.read(cypher.statement("server"))
        match = re.match(r"(\d+)\.(\d+)", rows[0]["versions"][0]) if rows else None
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def list_kgs(self) -> list[KGInfo]:
        """Return the KGs that were loaded completely, by name."""
        rows = self.read(cypher.statement("list_kgs"))
        return [info_of(row["meta"], self.url) for row in rows]

    def meta(self, kg: str) -> dict[str, Any] | None:
        """Return a KG's record, with its nodes' label and the load's id; None if not loaded."""
        rows = self.read(cypher.statement("kg"), kg=kg)
        return dict(rows[0]["meta"]) if rows else None

    def read(self, statement: str, **parameters: Any) -> list[neo4j.Record]:
        """Run a statement that only reads. Raises GraphError, StoreUnavailableError."""
        return self.read_marked(statement, parameters)[0]

    def read_marked(
        self,
        statement: str,
        parameters: dict[str, Any],
        *,
        timeout: float = READ_TIMEOUT,
        limit: int | None = None,
    ) -> tuple[list[neo4j.Record], str]:
        """Return up to ``limit`` rows (None: all) of a reading statement, and the database's state.

        Two reads with equal states saw the same content: the state names the last transaction
        that was committed before the read ended. ``timeout``: in seconds. Raises GraphError,
        StoreUnavailableError.
        """

        @neo4j.unit_of_work(timeout=timeout)
        def work(transaction: neo4j.ManagedTransaction) -> list[neo4j.Record]:
            """Run the statement; return up to ``limit`` rows."""
            result = transaction.run(cast("Any", statement), parameters)
            return list(result) if limit is None else result.fetch(limit)

        with self.translated(), self._session(neo4j.READ_ACCESS, 5000) as session:
            rows = session.execute_read(work)
            return rows, " ".join(sorted(session.last_bookmarks().raw_values))

    def stream(self, statement: str, **parameters: Any) -> Generator[neo4j.Record]:
        """Yield the rows of a read-only statement without a time limit. Raises GraphError."""
        with self.translated(), self._session(neo4j.READ_ACCESS, 5000) as session:
            # 0 means no timeout: reading a whole graph may take hours
            yield from session.run(neo4j.Query(cast("Any", statement), timeout=0), parameters)

    def session(self) -> neo4j.Session:
        """Return a session that may write; use it inside :meth:`translated`."""
        return self._session(neo4j.WRITE_ACCESS, 1000)

    def _session(self, access: str, rows: int) -> neo4j.Session:
        """Return a session with an access mode, which fetches this number of rows at a time."""
        return self._driver().session(
            database=self._database, default_access_mode=access, fetch_size=rows
        )

    def acquire(self) -> None:
        """Count one more user of the driver."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Count one user less; the last one closes the driver until it is needed again."""
        with self._lock:
            self._users -= 1
            last = self._users <= 0
        if last:
            self.close()

    def _driver(self) -> neo4j.Driver:
        """Return the driver, opened at the first call. Raises if the server cannot be reached."""
        with self._lock:
            if self._open is None:
                driver = self._new_driver()
                try:
                    # Without this, a server that is down would be tried again for seconds.
                    driver.verify_connectivity()
                except BaseException:
                    driver.close()
                    raise
                self._open = driver
            return self._open

    def _new_driver(self) -> neo4j.Driver:
        """Create a driver. Raises StoreUnavailableError if the URL is malformed."""
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
            raise self._malformed() from None

    def _malformed(self) -> StoreUnavailableError:
        """Return the error of a URL that is not a Neo4j address."""
        return StoreUnavailableError(
            f"{self.url} is not the address of a Neo4j server.",
            "It has the form neo4j://host:7687 or bolt://host:7687.",
        )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate the driver's errors into GraphError, without credentials and traceback."""
        try:
            yield
        except (driver_errors.Neo4jError, driver_errors.DriverError) as error:
            raise _as_graph_error(error, self.url, self._database or "(the default one)") from None

    def close(self) -> None:
        """Close the driver; another call opens it again. Calling it twice does nothing."""
        with self._lock:
            driver, self._open = self._open, None
        if driver is not None:
            driver.close()


def info_of(meta: dict[str, Any], url: str) -> KGInfo:
    """Build a KGInfo from a KG's record. Raises GraphError if the record lacks a field."""
    try:
        return KGInfo(**meta)
    except ValidationError as error:
        field = error.errors(include_url=False)[0]["loc"][0]
        raise GraphError(
            f"The record of the KG {meta.get('name')} in {url} lacks {field!r}.",
            "It was not written by this version; load the KG again with `kgqa ingest`.",
        ) from None


def _as_graph_error(error: Exception, url: str, database: str) -> GraphError:
    """Translate a driver error into a GraphError with a hint for the user."""
    code = (error.code or "") if isinstance(error, driver_errors.Neo4jError) else ""
    text = without_secrets(" ".join(str(getattr(error, "message", None) or error).split()))[:300]
    kind: type[GraphError] = GraphError
    hint = ""
    if isinstance(error, driver_errors.AuthError) or code.endswith("AuthenticationRateLimit"):
        kind, what = StoreUnavailableError, "refused the user name and password."
        hint = "Set NEO4J_USERNAME and NEO4J_PASSWORD to those of that server."
    elif code.endswith("Security.Forbidden"):
        what = f"does not let this user do it (database {database}): {text}"
        hint = "Use an account that may read it: NEO4J_USERNAME, NEO4J_PASSWORD."
    elif code.endswith(("DatabaseNotFound", "DatabaseUnavailable")):
        kind, what = StoreUnavailableError, f"has no database {database} in service."
        hint = "Set NEO4J_DATABASE to one that it has (a Community server has `neo4j`)."
    elif isinstance(
        error, (driver_errors.ServiceUnavailable, driver_errors.ConfigurationError)
    ) or (isinstance(error, driver_errors.DriverError) and not code):
        if (fault := _tls_fault(error)) is not None:
            return _without_tls(url, fault)
        return StoreUnavailableError(f"No Neo4j answers at {url}.", _START)
    elif "TransactionTimedOut" in code:
        what = "took longer for one statement than it may."
        hint = "Ask for fewer hops, or give the server more memory."
    elif "OutOfMemory" in code:
        what = "has too little memory for this statement."
        hint = "Give the server a larger heap (`server.memory.heap.max_size`)."
    else:
        what = f"could not do it: {text or type(error).__name__} [{code}]"
    return kind(f"Neo4j at {url} {what}", hint)


def _tls_fault(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error among the causes of a driver error, None if there is none."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, ssl.SSLError):
            return cause
        if id(cause) not in seen:
            seen.add(id(cause))
            waiting += [each for each in (cause.__cause__, cause.__context__) if each is not None]
            waiting += cause.exceptions if isinstance(cause, BaseExceptionGroup) else []
    return None


def _without_tls(url: str, fault: ssl.SSLError) -> StoreUnavailableError:
    """Return the error of a failed TLS handshake, with a hint on the URL to use."""
    scheme, _, place = url.partition("://")
    plain = scheme.partition("+")[0]
    if isinstance(fault, ssl.SSLCertVerificationError):
        return StoreUnavailableError(
            f"The certificate of the server at {url} cannot be verified: {fault.verify_message}.",
            f"If it is signed by itself and you trust the network: {plain}+ssc://{place}",
        )
    return StoreUnavailableError(
        f"The server at {url} does not speak TLS, which {scheme} asks for.",
        f"Turn TLS on there, or, on a network that you trust, connect without: {plain}://{place}",
    )
