"""Which way a KG goes into Neo4j: by the importer or over Bolt.

What this does not do: write; that is ``neo4j_admin`` and ``neo4j_write``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from kgqa.errors import UsageError
from kgqa.graph.neo4j_admin import Neo4jAdminWriter, beside, is_enterprise
from kgqa.graph.neo4j_home import LocalHome, Neo4jHome, open_home
from kgqa.graph.neo4j_write import Neo4jWriter

if TYPE_CHECKING:
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.write import GraphSource
    from kgqa.progress import Progress

Method: TypeAlias = Literal["auto", "admin", "bolt"]
MANY_EDGES = 1_000_000  # above this many `auto` takes the importer
_CHECKOUT = Path(__file__).resolve().parents[2]


class ChosenWriter:
    """Writes a KG the way that fits it, as :class:`kgqa.graph.write.GraphWriter`."""

    def __init__(
        self,
        connection: Neo4jConnection,
        method: Method = "auto",
        *,
        neo4j_home: Path | None = None,
        password: str | None = None,
        replace_database: bool = False,
        work_folder: Path | None = None,
    ) -> None:
        self._connection = connection
        self._method: Method = method
        self._home = neo4j_home
        self._password = password
        self._replace = replace_database
        self._work = work_folder

    @property
    def url(self) -> str:
        """The server's URL, without credentials."""
        return self._connection.url

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG. Raises what :func:`choose_method` and the writer that it chose raise."""
        home = choose_method(self._method, self._connection, source, self._home, self._password)
        if home is None:
            Neo4jWriter(self._connection).write(source, progress)
            return
        if self._method == "auto":
            progress.note(
                f"{source.info.edges:,} edges go into Neo4j by its importer, with one restart of "
                f"the server in {home.folder}; --method bolt would write them while it runs."
            )
        Neo4jAdminWriter(
            self._connection,
            home,
            replace_database=self._replace,
            work_folder=self._work,
        ).write(source, progress)


def choose_method(
    requested: Method,
    connection: Neo4jConnection,
    source: GraphSource,
    neo4j_home: Path | None = None,
    password: str | None = None,
) -> Neo4jHome | None:
    """Return the home whose importer writes the KG; None where it is written over Bolt.

    ``auto`` takes the importer where the KG is large, the home of this very server is known
    (``neo4j_home``, or that of ``scripts/neo4j`` in a checkout), and its database holds nothing
    else. Raises UsageError where ``admin`` is asked for and cannot be.
    """
    if requested == "bolt":
        return None
    if requested == "admin":
        home = _own_home(connection, neo4j_home, password)
        if home is None:
            raise UsageError(
                f"The import into {connection.url} needs to know the folder of that server.",
                "Name it with --neo4j-home (or KGQA_NEO4J_HOME), or use --method bolt.",
            )
        return home
    if source.info.edges <= MANY_EDGES or not connection.is_default:
        return None
    try:
        home = _own_home(connection, neo4j_home, password)
    except UsageError:
        return None
    if home is None or is_enterprise(connection):
        return None
    others, foreign = beside(connection, source.info.name)
    return None if others or foreign else home


def _own_home(
    connection: Neo4jConnection, named: Path | None, password: str | None
) -> Neo4jHome | None:
    if named is None:
        folder = _CHECKOUT / ".neo4j"
        if not (folder / "bin" / "neo4j-admin").is_file():
            return None
        home: Neo4jHome = LocalHome(folder)
        return home if home.serves(connection.url) else None
    home = open_home(named, password)
    if not home.serves(connection.url):
        raise UsageError(
            f"The server of {named} is not the one at {connection.url}.",
            "Let --neo4j-home and NEO4J_URI mean the same server, on this machine.",
        )
    return home
