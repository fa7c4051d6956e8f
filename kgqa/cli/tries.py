"""``kgqa tries``: looking at the trie of an entity."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kgqa.api.index import PathOptions
from kgqa.cli.common import Run, add_command, takes_options

app = typer.Typer(
    help="Look at the tries that constrain a model.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    """Look at the tries that constrain a model."""


@takes_options(PathOptions)
def export(
    run: Run,
    entity: Annotated[str, typer.Argument(help="An id or a name.")],
    options: dict[str, Any],
    limit: Annotated[int, typer.Option(help="Number of token sequences to show.", min=1)] = 50,
) -> None:
    """Show the token trie of an entity: what a model may write about it.

    One token sequence per line, with `|` between tokens; `{5}` means any of five may follow.
    """
    with run.kg() as kg:
        shown = kg.trie_text(entity, limit, **options)

    def human() -> None:
        """Print the token sequences and the trie's size as text."""
        from kgqa.cli.terminal import say

        for line in shown["lines"]:
            say(line)
        say()
        branches = shown["branching"]
        say(
            f"{len(shown['lines']):,} of {shown['sequences']:,} token sequences for "
            f"{shown['paths']:,} paths: {shown['nodes']:,} nodes for {shown['tokens']:,} tokens, "
            f"{branches['mean']:.2f} continuations on average, "
            f"{branches['one_child_share']:.0%} of the nodes forced",
            style="dim",
        )

    run.print(human, shown)


add_command(app, "export", export)
