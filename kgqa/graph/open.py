"""From a URL and a KG's name to an open store or a writer.

    sqlite:///file.sqlite      one KG in a file; ``sqlite:////absolute/file.sqlite``
    sqlite:///folder           a home: ``<folder>/<kg>/graph.sqlite`` for each KG
    neo4j://host:7687          and neo4j+s, neo4j+ssc, bolt, bolt+s, bolt+ssc

A path without a scheme means SQLite too. A KG that is attached in the home (``attached_record``)
is found by its name whatever the URL says. What it does not do: read settings; the caller passes
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
from kgqa.graph.attached_record import RECORD_NAME, attached_kgs, is_attached, read_record
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_layout import FILE_NAME
from kgqa.graph.sqlite_write import SqliteWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import KGInfo
    from kgqa.graph.neo4j_method import Method
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
    home: str | Path | None = None,
    faults: list[KgqaError] | None = None,
) -> list[KGInfo]:
    """Return the KGs that lie at ``url`` and those attached in ``home``, by name.

    A damaged store of a home, and a server or file that cannot be read while something is attached,
    is left out and its error appended to ``faults``. Raises StoreUnavailableError otherwise.
    """
    where = parse_graph_url(url)
    home = home or (where.path if where.kind == "home" else None)
    attached = attached_kgs(Path(home), faults) if home is not None else []
    try:
        found = _kgs_at(where, username, password, database, faults)
    except KgqaError as error:
        if faults is None or not attached:
            raise
        faults.append(error)
        found = []
    names = {info.name for info in attached}  # opened first, so they stand for their name
    there = [*attached, *(info for info in found if info.name not in names)]
    return sorted(there, key=lambda info: info.name)


def _kgs_at(
    where: GraphURL,
    username: str | None,
    password: str | None,
    database: str | None,
    faults: list[KgqaError] | None,
) -> list[KGInfo]:
    if where.kind == "server":
        from kgqa.graph.neo4j import Neo4jConnection

        with Neo4jConnection(*_server(where, username, password, database)) as connection:
            return connection.list_kgs()
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
    home: str | Path | None = None,
) -> GraphStore:
    """Open the KG named ``kg``, or the only one there is, at ``url``; the caller closes it.

    ``username``, ``password`` and ``database`` are for a server; those in the URL go before them.
    A KG that is attached in ``home`` is opened by its name wherever ``url`` leads.
    Raises UsageError, KGNotFoundError, StoreUnavailableError, GraphError.
    """
    where = parse_graph_url(url)
    home = home or (where.path if where.kind == "home" else None)
    if home is not None:
        attached = _attached_name(Path(home), where, kg, username, password, database)
        if attached is not None:
            return _open_attached(Path(home) / attached, where, username, password)
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


def _attached_name(
    home: Path,
    where: GraphURL,
    kg: str | None,
    username: str | None,
    password: str | None,
    database: str | None,
) -> str | None:
    """Return the name of the attached KG that is meant, None where it is no attached one."""
    if kg is not None:
        return kg if _NAME.fullmatch(kg) and is_attached(home, kg) else None
    if where.kind == "file" or not attached_kgs(home):
        return None  # a file is named as exactly as a KG is
    faults: list[KgqaError] = []
    infos = list_kgs(
        where.uri or where.path or home,
        username=where.username or username,
        password=where.password or password,
        database=database,
        home=home,
        faults=faults,
    )
    if faults:
        raise faults[0]  # the KG that is meant may be the one that does not read
    name = choose_kg(infos, None, where.shown).name
    return name if is_attached(home, name) else None


def _open_attached(
    folder: Path, where: GraphURL, username: str | None, password: str | None
) -> GraphStore:
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_attached import AttachedStore

    record = read_record(folder)
    if where.uri == record.url:  # credentials in a URL are meant for that server alone
        username, password = where.username or username, where.password or password
    connection = Neo4jConnection(record.url, username or "neo4j", password, record.database)
    try:
        return AttachedStore(connection, record, folder)
    except BaseException:
        connection.close()
        raise


@contextmanager
def open_writer(
    url: str | Path,
    kg: str,
    *,
    username: str | None = None,
    password: str | None = None,
    database: str | None = None,
    home: str | Path | None = None,
    method: Method = "bolt",
    neo4j_home: Path | None = None,
    replace_database: bool = False,
    work_folder: Path | None = None,
) -> Iterator[GraphWriter]:
    """Give, for a ``with``, what writes the KG named ``kg`` at ``url``.

    ``method`` and what follows are for a server: see :class:`kgqa.graph.neo4j_method.ChosenWriter`.
    Raises UsageError where the name cannot be used (one that is attached in ``home`` is another
    database's), or the URL is a file that holds another KG.
    """
    check_kg_name(kg)
    where = parse_graph_url(url)
    home = home or (where.path if where.kind == "home" else None)
    if home is not None and is_attached(Path(home), kg):
        raise UsageError(
            f"{kg} is attached: it stands for a database that kgqa does not write to.",
            f"Choose another name with --kg, or delete {Path(home) / kg / RECORD_NAME}.",
        )
    if where.kind == "server":
        from kgqa.graph.neo4j import Neo4jConnection
        from kgqa.graph.neo4j_method import ChosenWriter

        with Neo4jConnection(*_server(where, username, password, database)) as connection:
            yield ChosenWriter(
                connection,
                method,
                neo4j_home=neo4j_home,
                password=where.password or password,
                replace_database=replace_database,
                work_folder=work_folder,
            )
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
) -> tuple[str, str, str | None, str | None]:
    assert where.uri is not None
    return (
        where.uri,
        where.username or username or "neo4j",
        where.password or password,
        database,
    )
