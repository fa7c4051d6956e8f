"""Commands about a KG that is there: ``paths``, ``link``, ``status``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, browser_link, others_of

if TYPE_CHECKING:
    from kgqa.paths.ground import GroundedPath


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
