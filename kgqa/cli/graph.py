"""Commands about the KG itself: ``ingest``, ``paths``, ``link``, ``status``."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, browser_link, others_of

if TYPE_CHECKING:
    from kgqa.paths.ground import GroundedPath


class Dump(StrEnum):
    """The kinds of dump there is a loader for."""

    freebase = "freebase"
    conceptnet = "conceptnet"
    umls = "umls"
    triples = "triples"


def ingest(
    run: Run,
    dump: Annotated[Dump, typer.Argument(help="What kind of dump it is.", show_choices=True)],
    source: Annotated[
        list[Path] | None,
        typer.Argument(help="The dump's files or folder; without it the dumps folder is searched."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of names.")] = None,
    filters: Annotated[
        Path | None, typer.Option(help="freebase: a list of predicates to leave out.")
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
    columns: Annotated[
        str | None, typer.Option(help="triples: order of the columns, as head,relation,tail.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="triples: between two columns.")] = None,
    direction: Annotated[
        Literal["out", "in", "both"] | None, typer.Option(help="triples: how it is walked.")
    ] = None,
) -> None:
    """Load a dump into the graph store; it replaces the KG of that name when it is whole."""
    from kgqa.graph.open import check_kg_name, open_writer
    from kgqa.ingest.pipeline import ingest as load
    from kgqa.ingest.sources import find_sources
    from kgqa.loaders import make_loader

    loader = make_loader(
        dump.value,
        language=language,
        filters=filters,
        names=names,
        types=types,
        relation_names=relation_names,
        mediators=mediators,
        columns=columns,
        delimiter=_unescaped(delimiter),
        direction=direction,
    )
    settings = run.settings
    sources = find_sources(loader, source or [], settings.dumps_folder)
    if sources.note:
        run.note(sources.note)
    default = dump.value if dump is not Dump.triples else _stem(sources.paths[0])
    kg = check_kg_name(settings.kg or default)
    with open_writer(run.graph_url, kg, **run.credentials) as writer:
        result = load(loader, sources, kg, writer, settings.kg_folder(kg), run.progress)

    def human() -> None:
        from kgqa.cli.show import say

        say(
            f"{result.kg}: {result.entities:,} entities, {result.mediators:,} mediators, "
            f"{result.edges:,} edges from {result.lines:,} lines in {result.seconds:.1f} s."
        )
        for reason, count in sorted(result.dropped.items(), key=lambda item: -item[1]):
            say(f"  left out on purpose: {count:,} {reason}", style="dim")
        if result.rejected:
            say(f"  {result.rejected:,} lines rejected, see {result.rejects_file}")

    run.print(human, dataclasses.asdict(result))


def _unescaped(delimiter: str | None) -> str | None:
    return {r"\t": "\t", "tab": "\t", "space": " "}.get(delimiter or "", delimiter)


def _stem(path: Path) -> str:
    return path.resolve().name.split(".")[0]


def paths(
    run: Run,
    entity: Annotated[str, typer.Argument(help="An id or a name.")],
    hops: Annotated[int | None, typer.Option(help="Hops at most.", min=1)] = None,
    limit: Annotated[int, typer.Option(help="Paths that are shown.", min=1)] = 50,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
) -> None:
    """Show the paths of an entity, with the Neo4j Browser link that draws them."""
    from kgqa.cli.show import path_line, say
    from kgqa.graph.model import keys_array
    from kgqa.linking.resolve import resolve_entity
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import ground
    from kgqa.paths.walk import WalkRules, ordered, walk

    with run.open_store() as store:
        found = resolve_entity(store, entity)
        if found.others:
            run.note(
                f"'{entity}' means {found.id}, the best connected one; others: "
                f"{others_of(found.others)}."
            )
        rules = WalkRules(
            hops=2 if hops is None else hops,
            direction=direction or store.info.direction,
            mediators=mediators or "collapse",
        )
        table, _ = walk(store, keys_array([found.key]), rules)
        table = ordered(table)
        shown_table = table.take(keys_array(range(min(limit, len(table)))))
        grounded = [path for path in ground(store, shown_table, PathFormat()) if path]
        facts = [fact for path in grounded for edge in path.edges for fact in edge.facts]
        link = browser_link(run, store, dict.fromkeys(facts))

    def human() -> None:
        for path in grounded:
            say(path_line(path))
        say()
        say(
            f"{len(grounded):,} of {len(table):,} paths of at most {rules.hops} hops out of "
            f"{found.name} ({found.id})",
            style="dim",
        )
        if link:
            say(f"Neo4j Browser: {link}", style="dim")

    run.print(
        human,
        {
            "entity": {"id": found.id, "name": found.name},
            "paths": [_path_json(path) for path in grounded],
            "total": len(table),
            "browser_url": link,
        },
    )


def _path_json(path: GroundedPath) -> dict[str, Any]:
    edges = [edge.to_json() for edge in path.edges]
    return {
        "text": path.text,
        "hypothesis": path.tail.name,
        "edges": edges,
        "groundings": [edges],
        "grounded": True,
    }


def link(
    run: Run,
    question: Annotated[str, typer.Argument(help="A question, or a name.")],
    limit: Annotated[int, typer.Option(help="Candidates that are shown.", min=1)] = 10,
) -> None:
    """Show which entities a question may be about, and how each scores."""
    from kgqa.cli.show import show_rows
    from kgqa.linking.linker import link as find
    from kgqa.linking.linker import topic_entities

    with run.open_store() as store:
        candidates = find(store, question, limit)
    chosen = {one.id for one in topic_entities(candidates)}
    rows = [
        (
            "*" if one.id in chosen else "",
            one.name,
            one.id,
            f"{one.score:.3f}",
            one.mention,
            one.match,
            one.degree,
        )
        for one in candidates
    ]
    run.print(
        lambda: show_rows("", ["", "name", "id", "score", "mention", "by", "edges"], rows),
        {
            "question": question,
            "candidates": [
                {
                    "id": one.id,
                    "name": one.name,
                    "score": round(one.score, 4),
                    "mention": one.mention,
                    "start": one.start,
                    "end": one.end,
                    "match": one.match,
                    "edges": one.degree,
                    "parts": dataclasses.asdict(one.parts),
                    "chosen": one.id in chosen,
                }
                for one in candidates
            ],
        },
    )


def status(
    run: Run,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every byte of every index.")
    ] = False,
) -> None:
    """Show what is there, what fits to what, and what is missing."""
    from kgqa.cli.status import collect, show

    found = collect(run, verify=verify)
    run.print(lambda: show(found), found)
    if verify and any(index["faults"] for kg in found["kgs"] for index in kg["indexes"]):
        raise typer.Exit(1)
