"""Neo4j as an entry of the stores' registry: its options, and which way a KG is written into it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr  # noqa: TC002 - pydantic reads it

from kgqa.config import is_loopback
from kgqa.errors import KgqaError, UsageError, without_secrets
from kgqa.graph.backend import StoreBackend, StoreOptions, choose_kg
from kgqa.registry import option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.model import KGInfo
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_change import Neo4jChanger
    from kgqa.graph.neo4j_store import Neo4jStore
    from kgqa.graph.store import GraphSource, GraphStore, GraphWriter
    from kgqa.progress import Progress

Method: TypeAlias = Literal["auto", "admin", "bolt"]
MANY_EDGES = 1_000_000  # above this many `auto` takes the importer
_CHECKOUT = Path(__file__).resolve().parents[2]


class Neo4jOptions(StoreOptions):
    """How a Neo4j server is used; an account in its URL goes before the one given here."""

    username: str = option("neo4j", "User name on the server.")
    password: SecretStr | None = option(None, "The user's password (by default none is sent).")
    database: str | None = option(None, "The database (by default the server's).")
    method: Method = option(
        "auto", "How to write a KG: with neo4j-admin, over Bolt, or whichever fits."
    )
    neo4j_home: Path | None = option(
        None, "Folder of the server's installation or Compose file, for the bulk import."
    )
    replace_database: bool = option(
        False, "Let the bulk import replace a database that holds other KGs."
    )
    work_folder: Path | None = option(None, "Folder for the files of the bulk import.")


class Neo4jStores(StoreBackend):
    """The KGs in one database of a server."""

    Options = Neo4jOptions

    def __init__(self, url: str, options: Neo4jOptions) -> None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        _, plus, transport = parts.scheme.partition("+") if host else ("", "", "")
        if not host or (plus and transport not in ("s", "ssc")):
            raise UsageError(
                f"The graph URL {without_secrets(url)} names no host or a wrong port or scheme.",
                "Write it like neo4j://localhost:7687.",
            )
        # up to the last @: a password may hold one, although a URL should escape it
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self.full_url = url
        self._options = options
        self._username = unquote(parts.username) if parts.username else options.username
        given = options.password.get_secret_value() if options.password else None
        self._password = unquote(parts.password) if parts.password else given

    def connect(self, database: str | None = None) -> Neo4jConnection:
        """Return a connection to ``database``, by default that of the options."""
        from kgqa.graph.neo4j import Neo4jConnection

        database = database or self._options.database
        return Neo4jConnection(self.url, self._username, self._password, database)

    def list_kgs(self, faults: list[KgqaError] | None = None) -> list[KGInfo]:
        """Return the KGs in the database. Raises StoreUnavailableError, GraphError."""
        with self.connect() as connection:
            return connection.list_kgs()

    def foreign_nodes(self) -> int:
        """Return how many nodes of others the database holds; 0 if a KG was loaded beside them."""
        from kgqa.graph.neo4j_admin import other_content

        with self.connect() as connection:
            others, foreign = other_content(connection, "")
        return 0 if others else foreign

    def open(self, kg: str | None = None) -> Neo4jStore:
        """Open a KG. Raises KGNotFoundError, UsageError, StoreUnavailableError."""
        from kgqa.graph.neo4j_store import Neo4jStore

        connection = self.connect()
        try:
            return Neo4jStore(connection, choose_kg(connection.list_kgs(), kg, self.url).name)
        except BaseException:
            connection.close()
            raise

    def changer(self, store: GraphStore) -> Neo4jChanger:
        """Return what changes the KG of a store that this opened."""
        from kgqa.graph.neo4j_change import Neo4jChanger
        from kgqa.graph.neo4j_store import Neo4jStore

        assert isinstance(store, Neo4jStore)
        return Neo4jChanger(store)

    def delete(self, kg: str, progress: Progress) -> bool:
        """Delete a KG's nodes and edges; nothing else in the database is touched."""
        from kgqa.graph.neo4j_write import Neo4jWriter

        with self.connect() as connection:
            return Neo4jWriter(connection).drop(kg, progress)

    @contextmanager
    def writer(self, kg: str) -> Iterator[ChosenWriter]:
        """Give what writes a KG, the way that its size and the server ask for."""
        with self.connect() as connection:
            yield ChosenWriter(connection, self._options)


class ChosenWriter:
    """Writes a KG the way that fits it. A ``GraphWriter``."""

    def __init__(self, connection: Neo4jConnection, options: Neo4jOptions) -> None:
        self._connection = connection
        self._options = options

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG. Raises what :func:`choose_method` and the writer that it chose raise."""
        from kgqa.graph.neo4j_admin import ComposeWriter, Neo4jAdminWriter
        from kgqa.graph.neo4j_home import Neo4jHome
        from kgqa.graph.neo4j_write import Neo4jWriter

        given, connection = self._options, self._connection
        folder = choose_method(given.method, connection, source, given.neo4j_home)
        replace = given.replace_database
        writer: GraphWriter
        if folder is None:
            writer = Neo4jWriter(connection)
        elif _runs_in_compose(folder):
            writer = ComposeWriter(connection, folder, replace_database=replace)
        else:
            home = Neo4jHome(folder)
            work = given.work_folder
            writer = Neo4jAdminWriter(connection, home, replace_database=replace, work_folder=work)
        if folder is not None and given.method == "auto":
            progress.note(
                f"{source.info.edges:,} edges go into Neo4j by its importer, with one restart of "
                f"the server in {folder}; `method` bolt would write them while it runs."
            )
        writer.write(source, progress)


def choose_method(
    requested: Method,
    connection: Neo4jConnection,
    source: GraphSource,
    neo4j_home: Path | None = None,
) -> Path | None:
    """Return the folder of the server whose importer writes the KG; None if Bolt does.

    ``auto`` takes the importer if the KG is large, this server's folder is known (and no container:
    its commands are the user's to run), and its database holds nothing else. Raises UsageError if
    ``admin`` is requested and cannot be used.
    """
    from kgqa.graph.neo4j_admin import is_enterprise, other_content

    if requested == "bolt":
        return None
    if requested == "admin":
        folder = _own_folder(connection, neo4j_home)
        if folder is None:
            raise UsageError(
                f"The import into {connection.url} needs to know the folder of that server.",
                "Name it with `neo4j_home` (or KGQA_NEO4J_HOME): an installation's, or that of the "
                "docker-compose.yml that runs it. Or set `method` to bolt.",
            )
        return folder
    if source.info.edges <= MANY_EDGES or not connection.is_default:
        return None
    try:
        folder = _own_folder(connection, neo4j_home)
    except UsageError:
        return None
    if folder is None or _runs_in_compose(folder) or is_enterprise(connection):
        return None
    others, foreign = other_content(connection, source.info.name)
    return None if others or foreign else folder


def _runs_in_compose(folder: Path) -> bool:
    files = ("bin/neo4j-admin", "docker-compose.yml", "compose.yaml")
    local, *compose = ((folder / name).is_file() for name in files)
    return not local and any(compose)


def _own_folder(connection: Neo4jConnection, named: Path | None) -> Path | None:
    """Return the folder of the server, if it is known. Raises UsageError."""
    from kgqa.graph.neo4j_home import Neo4jHome

    folder = (named or _CHECKOUT / ".neo4j").expanduser().absolute()
    if named is None and not (folder / "bin" / "neo4j-admin").is_file():
        return None
    if _runs_in_compose(folder):
        port = int(os.environ.get("KGQA_NEO4J_BOLT_PORT") or 7687)
    else:
        port = Neo4jHome(folder).port()
    parts = urlsplit(connection.url)
    if is_loopback(parts.hostname or "") and (parts.port or 7687) == port:
        return folder
    if named is None:
        return None
    raise UsageError(
        f"The server of {named} is not the one at {connection.url}.",
        "Let `neo4j_home` and NEO4J_URI mean the same server, on this machine.",
    )
