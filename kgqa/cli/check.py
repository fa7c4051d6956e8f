"""``kgqa check``: whether a statement is in the graph, and by which edges."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa.cli.common import Run
from kgqa.display import said_entity, shown_name
from kgqa.errors import EntityNotFoundError

if TYPE_CHECKING:
    from kgqa.api import KG
    from kgqa.api.check import Check


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
        run.print(lambda: _show(kg, checked), checked.to_dict())
    if not checked:
        raise typer.Exit(1)


def _show(kg: KG, checked: Check) -> None:
    """Print whether a statement is in the graph, with paths and facts, as text."""
    from kgqa.cli.terminal import path_line, say

    if not checked:
        say(f"Not in the graph: {checked.missing}")
    for path in checked.near:
        say("Near it, and not the same: " + path_line(path).plain)
    for path in checked.paths:
        say(path_line(path))
        nodes = [node for edge in path.edges for node in (edge.head, edge.tail)]
        names = {node.id: _name_with_id(kg, node.id, node.name) for node in nodes}
        for fact in (fact for edge in path.edges for fact in edge.facts):
            head, tail = (names.get(id_, shown_name(id_)) for id_ in (fact.head, fact.tail))
            say(f"  {head}  {shown_name(fact.predicate)}  {tail}", style="dim")


def _name_with_id(kg: KG, id_: str, name: str) -> str:
    """Return a name, with the id if other entities have that name."""
    with suppress(EntityNotFoundError):  # a value
        if any(other.name == name for other in kg.entity(name).others):
            return said_entity(name, id_)
    return shown_name(name)
