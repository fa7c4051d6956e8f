"""Neo4j as an entry of the stores' registry, and its options."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr  # noqa: TC002 - pydantic reads it

from kgqa.errors import KgqaError, UsageError, without_secrets
from kgqa.graph.backend import StoreBackend, StoreOptions, choose_kg
from kgqa.registry import option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.model import KGInfo
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_change import Neo4jChanger
    from kgqa.graph.neo4j_store import Neo4jStore
    from kgqa.graph.store import GraphStore, GraphWriter
    from kgqa.progress import Progress


class Neo4jOptions(StoreOptions):
    """How a Neo4j server is used; an account in its URL goes before the one given here."""

    username: str = option("neo4j", "User name on the server.")
    password: SecretStr | None = option(None, "The user's password (default: none is sent).")
    database: str | None = option(None, "The database (default: the server's).")
    method: Literal["bolt", "admin"] = option(
        "bolt", "How to write a KG: over Bolt, or by the bulk import of neo4j-admin."
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
        """Count the database's nodes that kgqa did not write; 0 if a KG was loaded beside them."""
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
        """Return the changer of a KG that this backend opened."""
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
    def writer(self, kg: str) -> Iterator[GraphWriter]:
        """Return the writer of a KG, over Bolt or by the importer, as the options say."""
        from kgqa.graph.neo4j_admin import ImportWriter
        from kgqa.graph.neo4j_write import Neo4jWriter

        given = self._options
        with self.connect() as connection:
            if given.method == "bolt":
                yield Neo4jWriter(connection)
                return
            if given.neo4j_home is None:
                raise UsageError(
                    f"The import into {self.url} needs to know the folder of that server.",
                    "Name it with `neo4j_home` (or KGQA_NEO4J_HOME): an installation's, or that of "
                    "the docker-compose.yml that runs it. Or set `method` to bolt.",
                )
            yield ImportWriter(
                connection,
                given.neo4j_home,
                given.work_folder,
                replace_database=given.replace_database,
            )
