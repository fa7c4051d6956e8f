"""From a dump, or a Neo4j database as it is, to a KG that can be asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgqa.api.home import Home
from kgqa.errors import UsageError
from kgqa.registry import LOADERS, Options, option, validated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.api.kg import KG
    from kgqa.graph.neo4j_attach import Attached
    from kgqa.loading.sources import Sources
    from kgqa.progress import Progress


class StoringOptions(Options):
    """How a load reaches its store, for every loader."""

    method: Literal["auto", "admin", "bolt"] = option(
        "auto", "by neo4j-admin's bulk import, or over Bolt", flag=True, group="Neo4j"
    )
    neo4j_home: Path | None = option(
        None, "the server's folder, for method admin (KGQA_NEO4J_HOME)", flag=True, group="Neo4j"
    )
    replace_database: bool = option(
        False, "a bulk import may replace the whole database", flag=True, group="Neo4j"
    )
    work_folder: Path | None = option(
        None, "where the stages of the load are kept; by default the data folder", flag=True
    )


def ingest(
    loader: str,
    *sources: str | Path,
    kg: str | None = None,
    home: str | Path | None = None,
    graph: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> KG:
    """Load a dump as the KG named ``kg``, and return it open; ``kg.loaded`` has the counts.

    ``loader``: freebase, conceptnet, umls, triples, text, or one that another package registered.
    ``sources``: files or folders; without any, the dumps folder is searched, then the bundled
    sample is taken. ``options`` are the loader's (``kgqa.options("triples")`` lists them) and those
    of :class:`StoringOptions`. Lines that are malformed are counted and written to a rejects file;
    nothing is visible before the whole KG is stored. Raises DumpNotFoundError, DumpMalformedError,
    IngestError, UsageError, StoreUnavailableError.
    """
    place = Home(home, graph=graph, kg=kg, progress=progress)
    return load(place, loader, [Path(source) for source in sources], options)


def load(home: Home, name: str, sources: Sequence[Path], given: dict[str, Any]) -> KG:
    """Load a dump into the store of ``home``; see :func:`ingest`."""
    fields = StoringOptions.model_fields
    storing = {key: value for key, value in given.items() if key in fields}
    own = {key: value for key, value in given.items() if key not in fields}
    entry = LOADERS.entry(name)
    options = LOADERS.options(name, own)
    how: StoringOptions = validated(StoringOptions, storing, "a load")
    _check_store(home, storing)

    from kgqa.api.kg import KG
    from kgqa.graph.open import check_kg_name, open_store, open_writer
    from kgqa.loaders.blocks import STDIN
    from kgqa.loading.pipeline import load as run
    from kgqa.loading.sources import find_sources

    loader = entry.load()(options)
    settings = home.settings
    found = find_sources(loader, sources, settings.dumps_folder)
    if found.note:
        home.note(found.note)
    named = settings.kg or (name if found.bundled or name in _NAMED else _stem(found))
    if settings.kg is None and found.paths[0] == STDIN:
        raise UsageError("Triples from standard input have no name.", "Give the KG one by `kg`.")
    named = check_kg_name(named)
    folder = home.folder(named)
    general = None
    if getattr(loader, "asks_general_llm", False):
        general = _connect(home, loader)
    try:
        with open_writer(
            home.url,
            named,
            **home.account,
            method=how.method,
            neo4j_home=how.neo4j_home or settings.neo4j_home,
            replace_database=how.replace_database,
            work_folder=(how.work_folder or folder) / "import",
        ) as writer:
            result = run(loader, found, named, writer, folder, home.progress, how.work_folder)
    finally:
        if general is not None:
            general.close()
    return KG(home, open_store(home.url, named, **home.account), result)


_NAMED = ("freebase", "conceptnet", "umls")  # dumps that a KG is named after, whatever their files


def _stem(found: Sources) -> str:
    return found.paths[0].resolve().name.split(".")[0]


def _check_store(home: Home, storing: dict[str, Any]) -> None:
    """Raise UsageError if an option is for Neo4j and the KG would be stored in SQLite."""
    from kgqa.graph.open import parse_graph_url

    where = parse_graph_url(home.url)
    if where.kind == "server":
        return
    for name in ("method", "neo4j_home", "replace_database"):
        value = storing.get(name)
        if value and value != "auto":
            raise UsageError(
                f"`{name}` is for Neo4j, and the KG would be loaded into {where.shown}.",
                f"Name the server by `graph` (bolt://host:7687) or NEO4J_URI, or leave out "
                f"`{name}`.",
            )


def _connect(home: Home, loader: Any) -> Any:
    """Give a loader of texts the general LLM that extracts its triples. Raises UsageError."""
    general = home.general_llm(loader.options.general_model, cache_calls=loader.options.cache_calls)
    if general is None:
        raise UsageError(
            "Triples are extracted from text by a general LLM, and none is named.",
            "Name one with `general_model` (or KGQA_GENERAL_MODEL), its server by OPENAI_BASE_URL.",
        )
    loader.connect(general)
    return general


def attach(
    name: str,
    *,
    label: str,
    id_property: str,
    name_property: str,
    graph: str | None = None,
    home: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> KG:
    """Use a Neo4j database as it is, read-only, as the KG ``name``, and return it open.

    ``label`` is of the nodes that are entities, ``id_property`` and ``name_property`` are theirs;
    ``options`` are the other fields of :class:`kgqa.graph.attached_record.Attachment`. Ids and
    names are read once and kept in the data folder; edges are read when they are needed. Raises
    UsageError, StoreUnavailableError, GraphError.
    """
    place = Home(home, graph=graph, kg=name, progress=progress)
    attach_to(
        place, name, label=label, id_property=id_property, name_property=name_property, **options
    )
    return place.open()


def attach_to(home: Home, name: str, **attachment: Any) -> Attached:
    """Attach the database of ``home`` as ``name``; return what was found in it. See `attach`."""
    from kgqa.graph.attached_record import Attachment
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_attach import attach as survey
    from kgqa.graph.open import check_kg_name, parse_graph_url

    kg = check_kg_name(name)
    if home.settings.graph_url is None:
        raise UsageError(
            "The Neo4j to attach is not named.", "Set `graph` to neo4j://host:7687, or NEO4J_URI."
        )
    where = parse_graph_url(home.settings.graph_url)
    if where.uri is None:
        raise UsageError(
            f"{where.shown} is not a Neo4j server.",
            "Set `graph` to neo4j://host:7687, or NEO4J_URI.",
        )
    account = home.account
    with Neo4jConnection(
        where.uri,
        where.username or account["username"] or "neo4j",
        where.password or account["password"],
        account["database"],
    ) as connection:
        return survey(connection, Attachment(**attachment), home.folder(kg), home.progress)


def attached_dict(kg: str, found: Attached) -> dict[str, Any]:
    """Return what attaching found as ``kgqa attach --json`` prints it."""
    info, record = found.record.info, found.record
    return {
        "kg": kg,
        "graph": record.url,
        "database": record.database,
        "attachment": asdict(record.attachment),
        "entities": info.entities,
        "mediators": info.mediators,
        "values": info.values,
        "relations": info.relations,
        "edges": info.edges,
        "version": info.version,
        "lookup": "element id" if record.by_reference else "index",
        "text_index": record.text_index,
        "left_out": found.left_out,
        "advice": found.advice,
        "seconds": round(found.seconds, 3),
    }


def filters(loader: str, given: dict[str, Any]) -> tuple[Path | None, list[str]]:
    """Return the file of predicates that a loader leaves out, None if bundled, and its entries.

    Raises UsageError for a loader without filters.
    """
    options = LOADERS.options(loader, given)
    if not hasattr(options, "filters"):
        raise UsageError(f"The loader {loader} has no filters.", "Only freebase has.")
    from kgqa.loaders.filters import data_lines
    from kgqa.loaders.freebase import FILTERS

    path: Path | None = options.filters
    return path, data_lines(path or FILTERS)
