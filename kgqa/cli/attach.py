"""``kgqa attach``: a database or an endpoint as it is becomes a KG, without a write to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kgqa.api.loading import attach_to, attached_dict, attached_lines
from kgqa.cli.common import Run
from kgqa.errors import UsageError
from kgqa.registry import Direction

_STORES = ("sqlite:", "neo4j", "bolt")  # how URLs begin that do not name a graph


def attach(
    run: Run,
    url: Annotated[
        str | None, typer.Argument(help="neo4j://host:7687 or https://host/sparql; else NEO4J_URI.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=PROPERTY", help="The property that nodes are called by."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Labels or relationship types; nothing else is taken.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Labels, types or Label.property to leave out.")
    ] = None,
    direction: Annotated[Direction | None, typer.Option(help="How edges are followed.")] = None,
    named_graph: Annotated[
        str | None, typer.Option(help="The named graph of a SPARQL endpoint (also as --graph).")
    ] = None,
    default_language: Annotated[
        str | None, typer.Option(help="Language of a SPARQL endpoint's names (en).")
    ] = None,
    label_property: Annotated[
        list[str] | None,
        typer.Option(help="IRIs of the properties that are names in a SPARQL endpoint."),
    ] = None,
) -> None:
    """Use a Neo4j database or a SPARQL endpoint as it is, read-only.

    The names of its nodes are found, printed and kept in attached.toml in the KG's folder, which
    can be edited. Each question reads the database as it then is. `kgqa rm` detaches it.
    """
    if url:
        if (given := run.options.graph) is not None:  # the store of the other commands
            if named_graph or not url.startswith("http") or given.startswith(_STORES):
                raise UsageError(
                    f"{url} and --graph {given} are two places.",
                    "Give one of them; a named graph of an endpoint is given by --named-graph.",
                )
            named_graph = given
        run.options = replace(run.options, graph=url)
    attached = attach_to(
        run.home,
        name=dict(map(_parse_name_option, name or ())),
        only=_split_commas(only),
        skip=_split_commas(skip),
        direction=direction,
        named_graph=named_graph,
        default_language=default_language,
        label_property=_split_commas(label_property),
    )

    def human() -> None:
        """Print the result of attaching as text."""
        from kgqa.cli.terminal import say

        for line in attached_lines(attached):
            say(line)

    run.print(human, attached_dict(attached))


def _parse_name_option(text: str) -> tuple[str, str]:
    """Parse ``LABEL=PROPERTY``. Raises UsageError."""
    label, equals, property_ = text.partition("=")
    if not (label and equals and property_):
        raise UsageError(f"{text!r} names no property.", "Write it like --name Movie=title.")
    return label, property_


def _split_commas(given: list[str] | None) -> list[str] | None:
    """Split repeated options at their commas; None stays None."""
    return None if given is None else [part for text in given for part in text.split(",") if part]
