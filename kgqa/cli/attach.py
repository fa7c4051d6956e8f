"""``kgqa attach``: a Neo4j database as it is becomes a KG of the home, without a write to it."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import typer

from kgqa.cli.common import Run


def attach(
    run: Run,
    name: Annotated[str, typer.Argument(help="What the KG is called here, for --kg.")],
    label: Annotated[str, typer.Option(help="The label of the entities.")],
    id_property: Annotated[
        str, typer.Option(help="Their property with the id: text or whole numbers, unique.")
    ],
    name_property: Annotated[str, typer.Option(help="Their property with the name.")],
    alias_property: Annotated[
        str | None, typer.Option(help="Their property with other names: a text or a list.")
    ] = None,
    mediator_label: Annotated[
        str | None, typer.Option(help="A further label of nodes that are mediators.")
    ] = None,
    mediators: Annotated[
        str | None, typer.Option(help="Or a pattern that ids of mediators match from their start.")
    ] = None,
    value_label: Annotated[
        str | None, typer.Option(help="A further label of literal values, where walks end.")
    ] = None,
    direction: Annotated[
        Literal["out", "in", "both"], typer.Option(help="Which way edges are walked.")
    ] = "both",
) -> None:
    """Use the Neo4j database at --graph as it is, read-only; nothing is ever written to it.

    The nodes of one label are the entities, the edges between them the facts. Their ids and names
    are read once and kept in the home; edges are read from the server when they are needed. A graph
    that changes later needs `kgqa attach` again. To forget a KG, delete its folder in the home.
    """
    from kgqa.errors import UsageError
    from kgqa.graph.attached import Attachment
    from kgqa.graph.attached_survey import attach as survey
    from kgqa.graph.neo4j_backend import Neo4jStores
    from kgqa.graph.open import check_kg_name, store_backend

    kg = check_kg_name(name)
    settings = run.settings
    if settings.graph_url is None:
        raise UsageError(
            "It is not said which Neo4j to attach.", "Give --graph neo4j://host:7687, or NEO4J_URI."
        )
    credentials = run.credentials
    del credentials["home"]
    server = store_backend(settings.graph_url, **credentials)
    if not isinstance(server, Neo4jStores):
        raise UsageError(
            f"{server.url} is no Neo4j server.", "Give --graph neo4j://host:7687, or NEO4J_URI."
        )
    attachment = Attachment(
        label=label,
        id_property=id_property,
        name_property=name_property,
        alias_property=alias_property,
        mediator_label=mediator_label,
        mediators=mediators,
        value_label=value_label,
        direction=direction,
    )
    with server.connect() as connection:
        found = survey(connection, attachment, settings.kg_folder(kg), run.progress)
    info = found.record.info
    result = {
        "kg": kg,
        "graph": found.record.url,
        "database": found.record.database,
        "attachment": dataclasses.asdict(attachment),
        "entities": info.entities,
        "mediators": info.mediators,
        "values": info.values,
        "relations": info.relations,
        "edges": info.edges,
        "version": info.version,
        "lookup": "element id" if found.record.by_reference else "index",
        "text_index": found.record.text_index,
        "left_out": found.left_out,
        "advice": found.advice,
        "seconds": round(found.seconds, 3),
    }

    def human() -> None:
        from kgqa.cli.show import say

        say(
            f"{kg}: {info.entities:,} entities, {info.mediators:,} mediators, {info.values:,} "
            f"values, {info.edges:,} edges of {info.relations:,} types in {found.seconds:.1f} s."
        )
        for reason, count in sorted(found.left_out.items(), key=lambda item: -item[1]):
            say(f"  left out: {count:,} {reason}", style="dim")
        if found.advice:
            say("  quicker with, run by whoever keeps the database (then attach it again):")
            for statement in found.advice:
                say(f"    {statement};")

    run.print(human, result)
