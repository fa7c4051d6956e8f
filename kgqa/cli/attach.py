"""``kgqa attach``: a Neo4j database as it is becomes a KG, without a write to it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kgqa.api.loading import attach_to, attached_dict
from kgqa.cli.common import Run


def attach(
    run: Run,
    name: Annotated[str, typer.Argument(help="A name for the KG, for --kg.")],
    label: Annotated[str, typer.Option(help="The label of the entities.")],
    id_property: Annotated[
        str, typer.Option(help="Node property holding a unique id: text or whole numbers.")
    ],
    name_property: Annotated[str, typer.Option(help="Their property with the name.")],
    alias_property: Annotated[
        str | None, typer.Option(help="Their property with other names: a text or a list.")
    ] = None,
    mediator_label: Annotated[
        str | None, typer.Option(help="A further label of nodes that are mediators.")
    ] = None,
    mediators: Annotated[
        str | None, typer.Option(help="A pattern that matches the start of the ids of mediators.")
    ] = None,
    value_label: Annotated[
        str | None, typer.Option(help="A further label of literal values, where paths end.")
    ] = None,
    direction: Annotated[
        Literal["out", "in", "both"], typer.Option(help="Direction in which edges are followed.")
    ] = "both",
) -> None:
    """Use the existing Neo4j database at --graph, read-only; nothing is ever written to it.

    The nodes with one label are the entities, and the edges between them are the facts. Ids and
    names are read once and kept in the home; edges are read from the server when they are needed.
    If the graph changes, run `kgqa attach` again. To detach a KG, delete its folder in the home.
    """
    survey = attach_to(
        run.home,
        name,
        label=label,
        id_property=id_property,
        name_property=name_property,
        alias_property=alias_property,
        mediator_label=mediator_label,
        mediators=mediators,
        value_label=value_label,
        direction=direction,
    )
    found = attached_dict(name, survey)

    def human() -> None:
        from kgqa.cli.terminal import say

        say(
            f"{name}: {found['entities']:,} entities, {found['mediators']:,} mediators, "
            f"{found['values']:,} values, {found['edges']:,} edges of {found['relations']:,} types "
            f"in {found['seconds']:.1f} s."
        )
        for reason, count in sorted(found["left_out"].items(), key=lambda item: -item[1]):
            say(f"  left out: {count:,} {reason}", style="dim")
        if found["advice"]:
            say("  faster with, run by whoever maintains the database (then attach it again):")
            for statement in found["advice"]:
                say(f"    {statement};")

    run.print(human, found)
