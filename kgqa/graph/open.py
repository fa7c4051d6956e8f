"""From a URL and a KG's name to an open store or a writer.

    sqlite:///file.sqlite      one KG in a file; ``sqlite:////absolute/file.sqlite``
    sqlite:///folder           a home: ``<folder>/<kg>/graph.sqlite`` for each KG
    https://host/sparql        a SPARQL endpoint that is attached
    neo4j://host:7687          and neo4j+s, neo4j+ssc, bolt, bolt+s, bolt+ssc

The scheme names an entry of :data:`kgqa.registry.STORES`; a path without a scheme means SQLite. A
KG that is attached in the home (``attached``) is found by its name whatever the URL is.

Options of stores are keywords. Those of another store than the URL's are passed over, since
settings hold an account for whichever server is named; one that no store has is a UsageError.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from kgqa.errors import KgqaError, UsageError, without_secrets
from kgqa.graph.attached import RECORD_NAME, Attachment, attached_kgs, is_attached, read_attachment
from kgqa.graph.backend import StoreBackend, check_kg_name, choose_kg, is_kg_name
from kgqa.graph.kept import KEPT
from kgqa.graph.properties import StoredPropertyGraph
from kgqa.registry import STORES, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.change import GraphChanger
    from kgqa.graph.model import KGInfo
    from kgqa.graph.sparql_store import SparqlStore
    from kgqa.graph.store import GraphStore, GraphWriter

__all__ = [
    "check_kg_name",
    "is_endpoint",
    "list_kgs",
    "open_changer",
    "open_store",
    "open_writer",
    "store_backend",
    "store_entry",
]


def store_entry(url: str | Path) -> Entry:
    """Return the registry entry of a URL's store. Raises UsageError if there is none."""
    scheme, separator, _ = str(url).strip().partition("://")
    name = scheme.partition("+")[0] if separator else "sqlite"
    try:
        return STORES.entry(name)
    except UsageError:
        raise UsageError(
            f"kgqa has no store for {without_secrets(str(url).strip())}.",
            f"A graph URL starts with one of: {', '.join(f'{ref}://' for ref in STORES.names())}.",
        ) from None


def store_backend(url: str | Path, **options: Any) -> StoreBackend:
    """Return the backend of the KGs at a URL, without connecting. Raises UsageError."""
    entry = store_entry(url)
    backend: StoreBackend = entry.load()(str(url).strip(), _options_of(entry, options))
    return backend


def _options_of(entry: Entry, given: dict[str, Any]) -> Any:
    """Build a store's options from ``given``; options of other stores are ignored."""
    fields = set(entry.options_model().model_fields)
    if given.keys() - fields:
        known = fields.union(*(store.options_model().model_fields for store in STORES.table))
        given = {
            name: value for name, value in given.items() if name in fields or name not in known
        }
    return STORES.options(entry.name, given)


def list_kgs(
    url: str | Path,
    *,
    home: str | Path | None = None,
    faults: list[KgqaError] | None = None,
    **options: Any,
) -> list[KGInfo]:
    """List the KGs at ``url`` and those attached in ``home``, by name.

    Damaged stores are skipped. ``faults``: gets their errors, and that of an unreachable server
    beside attached KGs; else the server's StoreUnavailableError is raised.
    """
    backend = store_backend(url, **options)
    return _list(backend, _home_path(home, backend), faults)


def _home_path(home: str | Path | None, backend: StoreBackend) -> Path | None:
    """Return the home folder: the given one, else the backend's, None if it has none."""
    return Path(home) if home else backend.home


def _list(backend: StoreBackend, home: Path | None, faults: list[KgqaError] | None) -> list[KGInfo]:
    """List a backend's KGs and the attached ones; an attached one hides another of its name."""
    attached = attached_kgs(home, faults) if home is not None else []
    try:
        kgs = backend.list_kgs(faults)
    except KgqaError as error:
        if faults is None or not attached:
            raise
        faults.append(error)
        kgs = []
    # an attached KG is opened first, so it hides another KG with the same name
    by_name = {info.name: info for info in [*kgs, *attached]}
    return [by_name[name] for name in sorted(by_name)]


def open_store(
    url: str | Path, kg: str | None = None, *, home: str | Path | None = None, **options: Any
) -> GraphStore:
    """Open the KG named ``kg`` (attached in ``home`` or at ``url``), or the only one there is.

    The caller closes it. Raises UsageError, KGNotFoundError, StoreUnavailableError, GraphError.
    """
    backend = store_backend(url, **options)
    folder = _home_path(home, backend)
    if folder is not None:
        attached = _attached_name(backend, folder, kg)
        if attached is not None:
            return _open_attached(folder / attached, backend, options)
    store = backend.open(kg)
    if isinstance(store, StoredPropertyGraph) and store.kept_in is None and folder is not None:
        store.kept_in = folder / store.info.name / KEPT
    return store


def _attached_name(backend: StoreBackend, home: Path, kg: str | None) -> str | None:
    """Return the name of the attached KG that ``kg`` means, None if it means a loaded KG.

    ``kg`` None: the only KG of all. Raises UsageError, KGNotFoundError, and the error of a KG that
    cannot be read.
    """
    if kg is not None:
        return kg if is_kg_name(kg) and is_attached(home, kg) else None
    if backend.holds_one or not attached_kgs(home):
        return None
    faults: list[KgqaError] = []
    infos = _list(backend, home, faults)
    if faults:
        raise faults[0]  # the KG that is meant may be the one that does not read
    name = choose_kg(infos, None, backend.url).name
    return name if is_attached(home, name) else None


def _open_attached(folder: Path, backend: StoreBackend, options: dict[str, Any]) -> GraphStore:
    """Open the attached KG in ``folder``: a SPARQL endpoint or a Neo4j database."""
    record = read_attachment(folder)
    if record.is_endpoint:
        from kgqa.graph.sparql_backend import SparqlStores
        from kgqa.graph.sparql_store import SparqlStore

        endpoint = SparqlStores(record.url, None).connect(record.database)  # type: ignore[arg-type]
        try:
            return SparqlStore(endpoint, folder)
        except BaseException:
            endpoint.close()
            raise
    from kgqa.graph.attached_store import AttachedStore
    from kgqa.graph.neo4j_backend import Neo4jStores

    server = backend
    if not isinstance(server, Neo4jStores) or server.url != record.url:
        # credentials in the URL are meant for its own server alone
        server = Neo4jStores(record.url, _options_of(STORES.entry("neo4j"), options))
    connection = server.connect(record.database)
    try:
        return AttachedStore(connection, folder)
    except BaseException:
        connection.close()
        raise


def is_endpoint(store: object) -> TypeGuard[SparqlStore]:
    """Return whether a store is a SPARQL endpoint, without importing its module."""
    record = getattr(store, "record", None)
    return isinstance(record, Attachment) and record.is_endpoint


@contextmanager
def open_writer(
    url: str | Path, kg: str, *, home: str | Path | None = None, **options: Any
) -> Iterator[GraphWriter]:
    """Open the writer of the KG named ``kg`` at ``url``, as a context. Raises UsageError."""
    check_kg_name(kg)
    backend = store_backend(url, **options)
    folder = _home_path(home, backend)
    if folder is not None and is_attached(folder, kg):
        raise _attached_error(
            kg, f"Choose another name with `kg`, or delete {folder / kg / RECORD_NAME}."
        )
    with backend.writer(kg) as writer:
        yield writer


def open_changer(
    url: str | Path, store: GraphStore, *, home: str | Path | None = None, **options: Any
) -> GraphChanger:
    """Return the changer of the KG in ``store``, which was opened at ``url``.

    Raises UsageError if the KG is attached, or the store can only load a whole KG.
    """
    backend = store_backend(url, **options)
    folder, kg = _home_path(home, backend), store.info.name
    if folder is not None and is_attached(folder, kg):
        raise _attached_error(
            kg, "Change the database itself: what it holds is read when a question is asked."
        )
    return backend.changer(store)


def _attached_error(kg: str, hint: str) -> UsageError:
    """Return the error of a write to an attached KG."""
    return UsageError(
        f"{kg} is attached: it stands for a database that kgqa does not write to.", hint
    )
