"""The command ``ingest``: from a dump to a KG in the store."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kgqa.cli.common import Run
from kgqa.cli.ingest_text import (
    CacheTextFlag,
    LimitFlag,
    ReplyTokensFlag,
    TextConcurrencyFlag,
    TextFlags,
    TextModelFlag,
    ingest_text,
)

if TYPE_CHECKING:
    from kgqa.loading.pipeline import IngestResult
    from kgqa.loading.sources import Sources


class Dump(StrEnum):
    """The kinds of dump there is a loader for."""

    freebase = "freebase"
    conceptnet = "conceptnet"
    umls = "umls"
    triples = "triples"
    text = "text"


def ingest(
    run: Run,
    dump: Annotated[Dump, typer.Argument(help="What kind of dump it is.", show_choices=True)],
    source: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The dump's files or folder (plain, .gz, .bz2, .zst; - is standard input); "
            "without it the dumps folder is searched."
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of names (en; for umls as in LAT: ENG).")
    ] = None,
    filters: Annotated[
        Path | None, typer.Option(help="freebase: a list of predicates to leave out.")
    ] = None,
    show_filters: Annotated[
        bool, typer.Option("--show-filters", help="freebase: print that list and load nothing.")
    ] = False,
    senses: Annotated[
        Literal["fold", "keep"] | None,
        typer.Option(help="conceptnet: what becomes of /n/… behind a term."),
    ] = None,
    min_weight: Annotated[
        float | None, typer.Option(help="conceptnet: leave lighter assertions out.")
    ] = None,
    sources: Annotated[
        str | None, typer.Option(help="umls: only these source vocabularies, as MSH,SNOMEDCT_US.")
    ] = None,
    form: Annotated[
        Literal["delimited", "ntriples", "jsonl", "parquet"] | None,
        typer.Option(help="triples: the files' form, where their names do not say it."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="triples: order of the columns, as head,relation,tail.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="triples: between two columns.")] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="triples: is line 1 a header?")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="triples: a file of id and name, tab-separated.")
    ] = None,
    types: Annotated[
        Path | None, typer.Option(help="triples: a file of id and type, tab-separated.")
    ] = None,
    relation_names: Annotated[
        Path | None, typer.Option(help="triples: a file of relation id and name.")
    ] = None,
    mediators: Annotated[
        str | None,
        typer.Option(help="triples: a pattern of the ids of nameless nodes, or a file of ids."),
    ] = None,
    direction: Annotated[
        Literal["out", "in", "both"] | None, typer.Option(help="triples: how it is walked.")
    ] = None,
    general_model: TextModelFlag = None,
    concurrency: TextConcurrencyFlag = None,
    reply_tokens: ReplyTokensFlag = None,
    limit: LimitFlag = None,
    cache_calls: CacheTextFlag = True,
    work_folder: Annotated[
        Path | None, typer.Option(help="Where the stages of the load lie; default: the home.")
    ] = None,
    method: Annotated[
        Literal["auto", "admin", "bolt"],
        typer.Option(help="Neo4j: by neo4j-admin's bulk import, or over Bolt."),
    ] = "auto",
    neo4j_home: Annotated[
        Path | None,
        typer.Option(help="Neo4j: the server's folder, for --method admin (KGQA_NEO4J_HOME)."),
    ] = None,
    replace_database: Annotated[
        bool,
        typer.Option(
            "--replace-database",
            help="Neo4j: bulk import even if other KGs are in the database that is replaced.",
        ),
    ] = False,
) -> None:
    """Load a dump into the graph store; it replaces the KG of that name when it is whole.

    A load that was stopped goes on after its last finished stage.
    """
    from kgqa.errors import UsageError
    from kgqa.graph.open import check_kg_name, open_writer
    from kgqa.loaders import make_loader
    from kgqa.loaders.blocks import STDIN
    from kgqa.loading.pipeline import load
    from kgqa.loading.sources import find_sources

    if show_filters:
        _show_filters(run, dump, filters)
        return
    options = {
        "language": language,
        "filters": filters,
        "senses": senses,
        "min_weight": min_weight,
        "sources": sources,
        "form": form,
        "columns": columns,
        "delimiter": _unescaped(delimiter),
        "header": header,
        "names": names,
        "types": types,
        "relation_names": relation_names,
        "mediators": mediators,
        "direction": direction,
    }
    _check_store(run, method, neo4j_home, replace_database)
    text = TextFlags(general_model, concurrency, reply_tokens, limit, cache_calls)
    if dump is Dump.text:
        writing = {
            "method": method,
            "neo4j_home": neo4j_home or run.settings.neo4j_home,
            "replace_database": replace_database,
            "work_folder": work_folder,
        }
        ingest_text(run, source or [], text, options, writing)
        return
    text.refuse(dump.value)
    loader = make_loader(dump.value, **options)
    settings = run.settings
    found = find_sources(loader, source or [], settings.dumps_folder)
    if found.note:
        run.note(found.note)
    if dump is Dump.triples and settings.kg is None and found.paths[0] == STDIN:
        raise UsageError("Triples from standard input have no name.", "Give the KG one by --kg.")
    kg = check_kg_name(settings.kg or (dump.value if dump is not Dump.triples else _stem(found)))
    folder = settings.kg_folder(kg)
    with open_writer(
        run.graph_url,
        kg,
        **run.credentials,
        method=method,
        neo4j_home=neo4j_home or settings.neo4j_home,
        replace_database=replace_database,
        work_folder=(work_folder or folder) / "import",
    ) as writer:
        result = load(loader, found, kg, writer, folder, run.progress, work_folder)
    run.print(lambda: _show(result), dataclasses.asdict(result))


def _check_store(run: Run, method: str, neo4j_home: Path | None, replace_database: bool) -> None:
    """Raise UsageError where a flag is for Neo4j and the KG would end in SQLite."""
    from kgqa.errors import UsageError
    from kgqa.graph.open import parse_graph_url

    where = parse_graph_url(run.graph_url)
    for flag, given in (
        (f"--method {method}", method != "auto"),
        ("--neo4j-home", neo4j_home is not None),
        ("--replace-database", replace_database),
    ):
        if given and where.kind != "server":
            raise UsageError(
                f"{flag} is for Neo4j, and the KG would be loaded into {where.shown}.",
                f"Name the server by --graph bolt://host:7687 or NEO4J_URI, or leave out {flag}.",
            )


def _show(result: IngestResult) -> None:
    from kgqa.cli.show import say

    say(
        f"{result.kg}: {result.entities:,} entities, {result.mediators:,} mediators, "
        f"{result.edges:,} edges from {result.lines:,} lines in {result.seconds:.1f} s."
    )
    for reason, count in sorted(result.dropped.items(), key=lambda item: -item[1]):
        say(f"  left out on purpose: {count:,} {reason}", style="dim")
    if result.rejected:
        say(f"  {result.rejected:,} lines rejected, see {result.rejects_file}")


def _show_filters(run: Run, dump: Dump, filters: Path | None) -> None:
    from kgqa.cli.show import say
    from kgqa.errors import UsageError
    from kgqa.loaders.filters import data_lines
    from kgqa.loaders.freebase import FILTERS

    if dump is not Dump.freebase:
        raise UsageError(f"The loader {dump.value} has no filters.", "Only freebase has.")
    entries = data_lines(filters or FILTERS)

    def human() -> None:
        say(f"# {filters or 'the bundled list'}: the longest prefix that fits decides.")
        say("# Change it: kgqa ingest freebase --show-filters > FILE, edit, --filters FILE")
        for entry in entries:
            say(entry)

    run.print(human, {"filters": entries})


def _unescaped(delimiter: str | None) -> str | None:
    return {r"\t": "\t", "tab": "\t", "space": " "}.get(delimiter or "", delimiter)


def _stem(found: Sources) -> str:
    return found.paths[0].resolve().name.split(".")[0]
