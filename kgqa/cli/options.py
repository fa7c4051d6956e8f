"""``kgqa options``: what there is to choose from, and what each choice can be asked for."""

from __future__ import annotations

from typing import Annotated

import typer

import kgqa
from kgqa.cli.common import Run


def options(
    run: Run,
    name: Annotated[
        str | None, typer.Argument(help="A method, search, loader, store or question format.")
    ] = None,
) -> None:
    """List methods, searches, loaders, stores and question formats; or the options of one."""
    training = kgqa.options(name)

    def human() -> None:
        """Print the options, or the entries of every registry, as tables."""
        from kgqa.cli.terminal import say, show_rows

        for kind, entries in training.items():
            if name is None:
                show_rows(kind, ["name", "what it is"], list(entries.items()))
            else:
                rows = [
                    (
                        key,
                        entry["type"],
                        "" if entry["default"] is None else entry["default"],
                        entry["help"],
                    )
                    for key, entry in entries.items()
                ]
                title = f"Options of {kind.removesuffix('s')} {name}"
                show_rows(title, ["option", "type", "default", "what it does"], rows)
            say()

    run.print(human, training)
