"""``kgqa update``: a KG is changed in place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kgqa.api.update import UpdateOptions
from kgqa.cli.common import Run, takes_options
from kgqa.registry import LOADERS


@takes_options(UpdateOptions, LOADERS)
def update(
    run: Run,
    options: dict[str, Any],
    file: Annotated[
        list[Path] | None, typer.Argument(help="Files of triples to add, as `kgqa ingest` reads.")
    ] = None,
) -> None:
    """Add triples to a KG and remove others, in one atomic change.

    Malformed lines are written to a rejects file, and triples to remove that are not in the KG are
    named. The index keeps the tries that the change does not affect.
    """
    with run.kg() as kg:
        counts = kg.update(add=file or [], **options)

    def human() -> None:
        """Print the counts of the change as text."""
        from kgqa.cli.terminal import say, show_unused

        entities = counts["entities"]
        say(
            f"{counts['kg']}: {counts['added']:,} edges added, {counts['removed']:,} removed, "
            f"{entities['added']:,} entities new, {entities['removed']:,} gone, in "
            f"{counts['seconds']:.1f} s."
        )
        index = counts["index"]
        if index["dropped"]:
            say(
                f"The index keeps {index['kept']:,} tries; {index['dropped']:,} are composed on "
                f"the fly until: kgqa precompute-tries --kg {counts['kg']}"
            )
        show_unused(counts)

    run.print(human, counts)
