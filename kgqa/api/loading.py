"""From a dump, or a Neo4j database as it is, to a KG that can be asked."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgqa.api.home import Home
from kgqa.api.kg import KG
from kgqa.errors import GraphError, UsageError, without_secrets
from kgqa.permissions import inherit_permissions, sharing_note
from kgqa.registry import LOADERS, Options, flag, option, taken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.attached import Attached
    from kgqa.loading.sources import Sources
    from kgqa.models.general import GeneralLLM
    from kgqa.progress import Progress


class StoringOptions(Options):
    """How a load reaches its store, for every loader."""

    method: Literal["bolt", "admin"] | None = flag(
        None, "Over Bolt (the default), or bulk import by neo4j-admin.", group="Neo4j"
    )
    neo4j_home: Path | None = flag(
        None, "The server's folder, for method admin (KGQA_NEO4J_HOME).", group="Neo4j"
    )
    replace_database: bool | None = flag(
        None, "Let a bulk import replace a database with other KGs.", group="Neo4j"
    )
    work_folder: Path | None = flag(
        None, "Folder for the stages of the load (default: the data folder)."
    )


class ExtractionOptions(Options):
    """Which general LLM extracts the triples of texts, for the loader ``text``."""

    general_model: str | None = flag(None, "The general LLM that extracts triples.", group="text")
    cache_calls: bool = option(True, "Cache its replies, so that no call is made twice.")


def ingest(
    loader: str,
    *sources: object,
    kg: str | None = None,
    home: str | Path | None = None,
    graph: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> KG:
    """Load a dump as the KG named ``kg`` and return it open; ``kg.loaded`` has the counts.

    ``loader`` is freebase, conceptnet, umls, triples, tables, text, or one that another package
    registered. ``sources`` are files or folders; for triples and tables also DataFrames, Arrow
    tables, dicts of them by name, lists of (head, relation, tail), and URLs of databases that
    SQLAlchemy opens. Without any, the dumps folder is searched, and then the bundled sample is
    used. ``options`` are the loader's (``kgqa.options("triples")`` lists them)
    and those of :class:`StoringOptions`. Malformed lines are counted and written to a rejects file.
    The KG becomes visible only when all of it is stored. Raises DumpNotFoundError,
    DumpMalformedError, IngestError, UsageError, StoreUnavailableError.
    """
    place = Home(home, graph=graph, kg=kg, progress=progress)
    return load(place, loader, sources, options)


def load(home: Home, name: str, sources: Sequence[object], given: dict[str, Any]) -> KG:
    """Load a dump into the store of ``home``; see :func:`ingest`."""
    entry = LOADERS.entry(name)
    loader_class = entry.load()
    extracts = getattr(loader_class, "extracts", False)
    how: StoringOptions = taken(StoringOptions, given, "a load")
    asking: Any = taken(ExtractionOptions, given, "the loader text") if extracts else None
    options = LOADERS.options(name, given)
    _check_store(home, how)
    _check_database(home, how)

    from kgqa.graph.open import check_kg_name, open_store, open_writer
    from kgqa.loaders.blocks import STDIN
    from kgqa.loaders.memory import is_file, name_of
    from kgqa.loading.pipeline import load as run
    from kgqa.loading.sources import Sources, find_sources

    settings = home.settings
    named = None if all(map(is_file, sources)) else name_of(sources) or name
    with ExitStack() as stack:
        files = stack.enter_context(on_disk(name, sources, settings.kg or name))
        general = None
        if extracts:
            general = stack.enter_context(_general_llm(home, asking))
            loader = loader_class(options, general.complete, f"{general.model} at {general.url}")
            if not sources:
                raise UsageError(f"`kgqa ingest {name}` needs a SOURCE.", "Name the files.")
            dump_files = Sources(tuple(path.expanduser() for path in files))
        else:
            loader = loader_class(options)
            dump_files = find_sources(loader, files, settings.dumps_folder)
        if dump_files.note:
            home.note(dump_files.note)
        dump = hasattr(loader_class, "dump")  # a KG is named after such a dump, not its files
        if settings.kg is None and not dump and dump_files.paths[0] == STDIN:
            raise UsageError("Triples from standard input have no name.", "Name the KG by `kg`.")
        kg = check_kg_name(settings.kg or named or (name if dump else _default_name(dump_files)))
        folder = home.folder(kg)
        writer = stack.enter_context(
            open_writer(
                home.url,
                kg,
                **home.account,
                method=how.method or "bolt",
                neo4j_home=how.neo4j_home or settings.neo4j_home,
                replace_database=bool(how.replace_database),
                work_folder=(how.work_folder or folder) / "import",
            )
        )
        if note := sharing_note(settings.home):
            home.note(note)
        with inherit_permissions(settings.home):
            result = run(loader, dump_files, kg, writer, folder, home.progress, how.work_folder)
        counts = asdict(result)
        if general is not None:
            counts |= _extraction_cost(home, loader, dump_files.paths, counts, general, asking)
    return KG(home, open_store(home.url, kg, **home.account), counts)


@contextmanager
def on_disk(name: str, sources: Sequence[object], called: str) -> Iterator[list[Path]]:
    """Yield the sources as files, as a context; data of memory or a database is in temporary ones.

    ``name``: the loader; ``called``: the name of a table that has none. Raises UsageError.
    """
    from kgqa.loaders.memory import as_files, is_file

    if all(map(is_file, sources)):
        if not all(map(str, sources)):  # which would be the working directory
            raise UsageError("A SOURCE is empty.", "Name the file or the folder.")
        yield [Path(str(source)) for source in sources]
        return
    if name not in ("triples", "tables"):
        raise UsageError(f"The loader {name} reads files.", "Name the dump's files or folder.")
    with tempfile.TemporaryDirectory(prefix="kgqa-") as folder:
        yield as_files(sources, Path(folder), called, triples=name == "triples")


def _general_llm(home: Home, options: ExtractionOptions) -> GeneralLLM:
    """Return the general LLM for extraction. Raises UsageError if none is configured."""
    from kgqa.methods.resources import Resources

    resources = Resources(home.settings, progress=home.progress)
    general = resources.general_llm(options.general_model, cache_calls=options.cache_calls)
    if general is None:
        raise UsageError(
            "Triples are extracted from text by a general LLM, and none is named.",
            "Name one with `general_model` (or KGQA_GENERAL_MODEL), its server by OPENAI_BASE_URL.",
        )
    return general


def _extraction_cost(
    home: Home,
    loader: Any,
    sources: Sequence[Path],
    counts: dict[str, Any],
    general: GeneralLLM,
    options: ExtractionOptions,
) -> dict[str, Any]:
    """Return the cost of extracting triples, and report the paragraphs whose call failed.

    Their number is taken out of ``counts["dropped"]``.
    """
    from kgqa.loaders.text import FAILED

    paragraphs, usage = loader.count(sources), general.usage
    failed = counts["dropped"].pop(FAILED, 0)
    if failed:
        home.note(
            f"{failed:,} of {paragraphs:,} paragraphs have no reply from {general.model}: they are "
            f"named in {counts['rejects_file']}. The same command asks for them again"
            + (" and pays for no other call." if options.cache_calls else ".")
        )
    return {
        "paragraphs": paragraphs,
        "failed": failed,
        "calls": usage.calls,
        "cached": usage.cached,
        "tokens": {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens},
    }


def _default_name(sources: Sources) -> str:
    """Return the KG name after the first source: its file name up to the first dot."""
    return sources.paths[0].resolve().name.split(".")[0]


def _check_store(home: Home, how: StoringOptions) -> None:
    """Raise UsageError if an option is for another kind of store than the KG's."""
    from kgqa.graph.open import store_backend, store_entry

    fields = store_entry(home.url).options_model().model_fields
    for name in how.given():
        if name != "work_folder" and name not in fields:
            raise UsageError(
                f"`{name}` is for Neo4j, and the KG would be loaded into "
                f"{store_backend(home.url).url}.",
                f"Name the server by `graph` (bolt://host:7687) or NEO4J_URI, or leave out "
                f"`{name}`.",
            )


def _check_database(home: Home, how: StoringOptions) -> None:
    """Raise UsageError if NEO4J_URI alone directs a load to a database with other content."""
    from kgqa.graph.neo4j_backend import Neo4jStores
    from kgqa.graph.open import store_backend

    settings = home.settings
    if (
        settings.graph is not None
        or settings.neo4j_uri is None
        or how.method
        or how.replace_database
    ):
        return
    account = {key: value for key, value in home.account.items() if key != "home"}
    server = store_backend(settings.neo4j_uri, **account)
    if isinstance(server, Neo4jStores) and (foreign := server.foreign_nodes()):
        raise UsageError(
            f"NEO4J_URI points to {server.url}, whose database holds {foreign:,} nodes that kgqa "
            "did not load.",
            "Ask them as they are, by `kgqa attach`; or load beside them, with `method` set to "
            f"bolt; or load into the data folder, with `graph` set to sqlite:///{settings.home}.",
        )


def attach(
    url: str | None = None,
    *,
    kg: str | None = None,
    home: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> KG:
    """Use the Neo4j database or SPARQL endpoint at ``url`` as it is, read-only, as an open KG.

    The default ``url`` is that of the settings (NEO4J_URI), and ``kg`` is named after the database.
    A survey finds labels, names, properties and relations and writes them to ``attached.toml`` in
    the KG's folder, to be edited. ``options``: :class:`kgqa.graph.attached_attach.Taken`, such as
    ``name={"Movie": "title"}``, ``only=["Movie"]``, ``skip=["Customer.phone"]``; of an endpoint
    :class:`kgqa.graph.sparql_survey.SparqlTaken` and ``named_graph``. Raises UsageError,
    StoreUnavailableError, GraphError.
    """
    from kgqa.graph.open import open_store

    place = Home(home, graph=url, kg=kg, progress=progress)
    attached = attach_to(place, **options)
    return KG(place, open_store(place.url, attached.kg, **place.account))


def attach_to(home: Home, **taken: Any) -> Attached:
    """Attach the database of ``home``; return what was found. See :func:`attach`."""
    from kgqa.graph.attached_attach import Taken
    from kgqa.graph.attached_attach import attach as survey
    from kgqa.graph.neo4j_backend import Neo4jStores
    from kgqa.graph.open import check_kg_name, store_backend, store_entry
    from kgqa.graph.sparql_backend import SparqlStores
    from kgqa.graph.sparql_survey import SparqlTaken, attach_endpoint

    kg = check_kg_name(home.settings.kg) if home.settings.kg else None
    hint = "Name it: `kgqa attach neo4j://host:7687`, or set NEO4J_URI."
    if home.settings.graph_url is None:
        raise UsageError("No Neo4j URL given.", hint)
    account = {key: value for key, value in home.account.items() if key != "home"}
    try:
        store_entry(home.settings.graph_url)
    except UsageError:
        raise _not_attached(without_secrets(str(home.settings.graph_url))) from None
    server = store_backend(home.settings.graph_url, **account)
    if isinstance(server, SparqlStores):
        if taken.pop("name", None):
            raise UsageError(
                "`name` is for labels of Neo4j.", "Say which property names things: label_property."
            )
        with server.connect(taken.pop("named_graph", None) or "") as client:
            attached = attach_endpoint(
                client, home.settings.home, kg, SparqlTaken(**taken), home.progress
            )
        _warm_up(home, attached.kg)
        return attached
    for field in ("named_graph", "default_language", "label_property"):
        if taken.pop(field, None):
            raise UsageError(f"`{field}` is for SPARQL endpoints.", "Leave it out.")
    if not isinstance(server, Neo4jStores):
        raise _not_attached(server.url)
    with server.connect() as connection:
        return survey(connection, home.settings.home, kg, Taken(**taken), home.progress)


def _not_attached(url: str) -> UsageError:
    """Return the error of a URL that is neither a Neo4j server nor a SPARQL endpoint."""
    return UsageError(
        f"{url} is not a Neo4j server or a SPARQL endpoint.",
        "Give neo4j://host:7687 or https://host/sparql; tables of another database are loaded: "
        "`kgqa ingest tables URL`.",
    )


def _warm_up(home: Home, kg: str) -> None:
    """Read what every question needs of an endpoint, and cache it; a GraphError is ignored."""
    from kgqa.graph.open import open_store
    from kgqa.paths.schema import Schema
    from kgqa.paths.walk import WalkRules
    from kgqa.planning.schema_parts import value_nodes
    from kgqa.planning.value_index import ValueIndex

    with (
        home.progress.task("reading a sample of relations and texts"),
        suppress(GraphError),  # else the first question that needs it reads it
        open_store(home.url, kg, **home.account) as store,
    ):
        Schema(store, WalkRules(direction=store.info.direction))
        graph: Any = store
        value_nodes(graph, graph.schema())
        ValueIndex(graph, graph.schema())


def attached_lines(attached: Attached) -> list[str]:
    """Return the result of attaching as lines for ``kgqa attach``."""
    from kgqa.graph.attached_attach import described

    return described(attached)


def attached_dict(attached: Attached) -> dict[str, Any]:
    """Return the result of attaching as ``kgqa attach --json`` prints it."""
    info, record = attached.survey.info, attached.record
    return {
        "kg": attached.kg,
        "graph": record.url,
        "database": record.database,
        "entities": info.entities,
        "relations": info.relations,
        "edges": info.edges,
        "version": info.version,
        "types": {label: asdict(type_) for label, type_ in record.types.items()},
        "only": list(record.only),
        "skip": list(record.skip),
        "sampled": attached.survey.schema.sampled,
        "named": attached.survey.named,
        "seconds": round(attached.seconds, 3),
    }
