"""``kgqa paths``: the paths of an entity."""

from __future__ import annotations

from typing import Annotated

import typer

from kgqa.cli.common import Run
from kgqa.registry import Direction, Mediators


def paths(
    run: Run,
    entity: Annotated[str, typer.Argument(help="An id or a name.")],
    hops: Annotated[int, typer.Option(help="Maximum number of hops.", min=1)] = 2,
    limit: Annotated[int, typer.Option(help="Number of paths to show.", min=1)] = 50,
    direction: Annotated[
        Direction | None,
        typer.Option(help="Direction in which edges are followed (default: the KG's)."),
    ] = None,
    mediators: Annotated[
        Mediators, typer.Option(help="Whether mediators are collapsed or kept.")
    ] = "collapse",
    browser: Annotated[
        bool, typer.Option("--browser", help="Print the Neo4j Browser link that draws them.")
    ] = False,
) -> None:
    """Show the paths of an entity."""
    with run.kg() as kg:
        selection = kg.paths(
            entity, hops=hops, limit=limit, direction=direction, mediators=mediators
        )
        link = kg.browser_url(selection) if browser or run.as_json else None
        tries = kg.tries(selection.entity.id)

    def human() -> None:
        """Print the paths, and the sizes of the entity's tries, as text."""
        from kgqa.cli.terminal import path_line, say

        for path in selection.paths:
            say(path_line(path))
        say()
        say(
            f"{len(selection.paths):,} of {selection.total:,} paths of at most {hops} hops out of "
            f"{selection.entity.name} ({selection.entity.id})",
            style="dim",
        )
        for trie in tries:
            say(
                f"in the index of {trie['model']}: {trie['paths']:,} paths of at most "
                f"{trie['hops']} hops, {trie['nodes']:,} nodes, {trie['bytes']:,} bytes",
                style="dim",
            )
        if link:
            say(f"Neo4j Browser: {link}", style="dim")

    run.print(human, selection.to_dict() | {"browser_url": link, "tries": tries})
