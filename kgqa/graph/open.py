"""From a URL and a KG's name to an open store or a writer.

    sqlite:///file.sqlite      one KG in a file; ``sqlite:////absolute/file.sqlite``
    sqlite:///folder           a home: ``<folder>/<kg>/graph.sqlite`` for each KG
    neo4j://host:7687          and neo4j+s, neo4j+ssc, bolt, bolt+s, bolt+ssc

A path without a scheme means SQLite too. What it does not do: read settings; the caller passes
what they say.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from kgqa.errors import KGNotFoundError, KgqaError, UsageError, without_secrets
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_layout import FILE_NAME
from kgqa.graph.sqlite_write import SqliteWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.graph.write import GraphWriter

_SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
_FILE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_NAME = re.compile(r"\w[\w.-]{0,99}")
_RESERVED = ("cache", "dumps")  # folders of the home that hold no KG
_LOAD = "Load one with `kgqa ingest freebase`."


@dataclass(frozen=True, slots=True)
class GraphURL:
    """A store's URL, taken apart. ``password`` never shows in a ``repr``."""

    kind: Literal["file", "home", "server"]
    shown: str  # without credentials
    path: Path | None = None  # of a file or home
    uri: str | None = None  # of a server, without credentials
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"GraphURL({self.kind!r}, {self.shown!r})"


def parse_graph_url(url: str | Path) -> GraphURL:
    """Take a store's URL apart. Raises UsageError where kgqa has no store of that kind."""
    text = str(url).strip()
    scheme, separator, rest = text.partition("://")
    if not separator or scheme == "sqlite":
        name = rest.removeprefix("/") if separator else text
        if not name or (separator and not rest.startswith("/")):
            raise UsageError(
                f"The graph URL {without_secrets(text)!r} names no file.",
                "Write sqlite:///relative/path or sqlite:////absolute/path.",
            )
        path = Path(name).expanduser()
        is_file = path.is_file() or (path.suffix in _FILE_SUFFIXES and not path.is_dir())
        shown = f"sqlite:///{path.absolute().as_posix()}"
        return GraphURL("file" if is_file else "home", shown, path=path)
    if scheme not in _SERVER_SCHEMES:
        raise UsageError(
            f"kgqa has no store for {without_secrets(text)}.",
            "A graph URL starts with sqlite:///, neo4j:// or bolt://.",
        )
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise UsageError(
            f"The graph URL {without_secrets(text)} names no host or a wrong port.",
            "Write it like neo4j://localhost:7687.",
        )
    # up to the last @: a password may hold one, although a URL should escape it
    uri = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return GraphURL(
        "server",
        uri,
        uri=uri,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def check_kg_name(kg: str) -> str:
    """Return ``kg`` where it can name a KG in every store, else raise UsageError."""
    if not _NAME.fullmatch(kg) or kg.endswith(".") or kg.casefold() in _RESERVED:
        raise UsageError(
            f"{kg!r} cannot name a KG.",
            "A name has letters, digits, '_', '-' and '.', starts with none of the last two, and "
            f"is none of: {', '.join(_RESERVED)}.",
        )
    return kg


def home_kgs(home: Path, faults: list[KgqaError] | None = None) -> list[KGInfo]:
    """Return the KGs in ``<home>/<kg>/graph.sqlite``, by name; each is named after its folder.

    A store that cannot be read is left out, and its error appended to ``faults``.
    """
    found: list[KGInfo] = []
    for path in sorted(home.glob(f"*/{FILE_NAME}")):
        try:
            with SqliteStore(path, name=path.parent.name) as store:
                found.append(store.info)
        except KgqaError as error:
            if faults is not None:
                faults.append(error)
    return found


def list_kgs(
    url: str | Path,
    *,
    username: str | None = None,
    password: str | None = None,
    database: str | None = None,
    faults: list[KgqaError] | None = None,
) -> list[KGInfo]:
    """Return the KGs that lie at ``url``, by name.

    A server that cannot be reached is an error (StoreUnavailableError); a damaged store of a home
    is left out and its error appended to ``faults``.
    """
    where = parse_graph_url(url)
    if where.kind == "server":
        from kgqa.graph.neo4j import Neo4jConnection

        with Neo4jConnection(*_server(where, username, password, database)) as connection:
            return sorted(connection.list_kgs(), key=lambda info: info.name)
    assert where.path is not None
    if where.kind == "home":
        return home_kgs(where.path, faults)
    if not where.path.exists():
        return []
    with SqliteStore(where.path) as store:
        return [store.info]


def choose_kg(infos: Sequence[KGInfo], kg: str | None, where: str) -> KGInfo:
    """Return the KG that is meant: the one named ``kg``, or the only one there is.

    Raises KGNotFoundError where there is none of that name or none at all, UsageError where there
    are several and none is named; both list what there is. ``where`` is a URL without credentials.
    """
    names = ", ".join(sorted(info.name for info in infos))
    if not infos:
        what = f"no KG named {kg}" if kg else "no KG"
        raise KGNotFoundError(f"There is {what} in {where}.", _LOAD)
    if kg is not None:
        for info in infos:
            if info.name == kg:
                return info
        raise KGNotFoundError(
            f"There is no KG named {kg} in {where}; there is: {names}.",
            "Name one of them with --kg, or load it with `kgqa ingest`.",
        )
    if len(infos) > 1:
        raise UsageError(
            f"There are several KGs in {where}: {names}.", "Say which is meant with --kg NAME."
        )
    return infos[0]


def open_store(
    url: str | Path,
    kg: str | None = None,
    *,
    username: str | None = None,
    password: str | None = None,
    database: str | None = None,
) -> GraphStore:
    """Open the KG named ``kg``, or the only one there is, at ``url``; the caller closes it.

    ``username``, ``password`` and ``database`` are for a server; those in the URL go before them.
    Raises UsageError, KGNotFoundError, StoreUnavailableError, GraphError.
    """
    where = parse_graph_url(url)
    if where.kind == "server":
        return _open_server(where, kg, username, password, database)
    assert where.path is not None
    if where.kind == "file":
        store = SqliteStore(where.path)
        try:
            choose_kg([store.info], kg, where.shown)
        except KgqaError:
            store.close()
            raise
        return store
    if kg is not None:
        path = where.path / check_kg_name(kg) / FILE_NAME
        if path.exists():
            return SqliteStore(path, name=kg)
    faults: list[KgqaError] = []
    infos = home_kgs(where.path, faults)
    if faults and kg is None:
        raise faults[0]  # the KG that is meant may be the one that does not read
    name = choose_kg(infos, kg, where.shown).name
    return SqliteStore(where.path / name / FILE_NAME, name=name)


@contextmanager
def open_writer(
    url: str | Path,
    kg: str,
    *,
    username: str | None = None,
    password: str | None = None,
    database: str | None = None,
) -> Iterator[GraphWriter]:
    """Give, for a ``with``, what writes the KG named ``kg`` at ``url``.

    Raises UsageError where the name cannot be used, or the URL is a file that holds another KG.
    """
    check_kg_name(kg)
    where = parse_graph_url(url)
    if where.kind == "server":
        from kgqa.graph.neo4j import Neo4jConnection

        with Neo4jConnection(*_server(where, username, password, database)) as connection:
            yield connection.writer()
        return
    assert where.path is not None
    if where.kind == "home":
        yield SqliteWriter(where.path / kg / FILE_NAME)
        return
    if where.path.exists():
        _refuse_other(where.path, kg)
    yield SqliteWriter(where.path)


def _refuse_other(path: Path, kg: str) -> None:
    try:
        with SqliteStore(path) as store:
            there = store.info.name
    except KgqaError as error:
        # it may be anything: somebody's own database, or a KG of another layout
        raise UsageError(
            f"{path} is there already and is no KG that could be replaced: {error.message}",
            "Name another file with --graph, or move this one away.",
        ) from None
    if there != kg:
        raise UsageError(
            f"{path} holds the KG {there}, not {kg}.",
            f"Name another file with --graph, or load it as --kg {there}.",
        )


def _open_server(
    where: GraphURL,
    kg: str | None,
    username: str | None,
    password: str | None,
    database: str | None,
) -> GraphStore:
    from kgqa.graph.neo4j import Neo4jConnection

    connection = Neo4jConnection(*_server(where, username, password, database))
    try:
        name = choose_kg(connection.list_kgs(), kg, where.shown).name
        return connection.store(name)
    except BaseException:
        connection.close()
        raise


def _server(
    where: GraphURL, username: str | None, password: str | None, database: str | None
) -> tuple[str, str, str | None, str]:
    assert where.uri is not None
    return (
        where.uri,
        where.username or username or "neo4j",
        where.password or password,
        database or "neo4j",
    )
