"""``kgqa check``: whether a statement is in the graph, and by which edges."""

from __future__ import annotations

from typing import Annotated

import typer

from kgqa.cli.common import Run


def check(
    run: Run,
    statement: Annotated[
        str, typer.Argument(help='In quotes: "head -> relation -> tail", or a longer path.')
    ],
) -> None:
    """Check whether a statement is in the graph, and show its edges. Exit code 1 if it is not.

    Give heads and tails by id or exact name, and relations as `kgqa paths` shows them.
    """
    with run.kg() as kg:
        checked = kg.check(statement)

    def human() -> None:
        from kgqa.cli.terminal import path_line, say

        if not checked:
            say(f"Not in the graph: {checked.missing}")
        for path in checked.near:
            say("Near it, and not the same: " + path_line(path).plain)
        for path in checked.paths:
            say(path_line(path))
            for edge in path.edges:
                for fact in edge.facts:
                    say(f"  {fact.head}  {fact.predicate}  {fact.tail}", style="dim")

    run.print(human, checked.to_dict())
    if not checked:
        raise typer.Exit(1)
