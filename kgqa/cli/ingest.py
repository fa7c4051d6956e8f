"""``kgqa ingest``: from a dump to a KG in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.api.loading import ExtractionOptions, StoringOptions, load
from kgqa.cli.common import Run, takes_options
from kgqa.registry import LOADERS

if TYPE_CHECKING:
    from kgqa.api import KG

FAILED_CODE = 2  # loaded, but the general LLM did not answer for some paragraphs


@takes_options(LOADERS, ExtractionOptions, StoringOptions)
def ingest(
    run: Run,
    loader: Annotated[
        str,
        typer.Argument(help=f"The kind of dump: {', '.join(e.name for e in LOADERS.table)}."),
    ],
    options: dict[str, Any],
    source: Annotated[
        list[str] | None,
        typer.Argument(
            help="The dump's files or folder (plain, .gz, .bz2, .zst; - is standard input), or the "
            "URL of a database; by default the dumps folder is searched."
        ),
    ] = None,
) -> None:
    """Load a dump, and replace the KG of that name in one step.

    Malformed lines are counted and written to a rejects file with their line number and the reason.
    If a load is stopped, the same command continues after the last finished stage. Flags are
    grouped by loader; `kgqa options triples` lists all options of one.
    """
    with load(run.home, loader, source or [], options) as kg:
        failed = _show(run, kg)
    if failed:
        raise typer.Exit(FAILED_CODE)


def _show(run: Run, kg: KG) -> int:
    """Print what was loaded; return the number of paragraphs whose call of the LLM failed."""
    counts = kg.loaded or {}

    def human() -> None:
        """Print the counts of the load as text."""
        from kgqa.cli.terminal import say, show_taken

        named = f"{counts['kg']}: {counts['entities']:,} entities"
        if "paragraphs" in counts:
            tokens = counts["tokens"]
            say(
                f"{named}, {counts['edges']:,} edges from {counts['paragraphs']:,} paragraphs in "
                f"{counts['seconds']:.1f} s; {counts['calls']:,} calls, {tokens['prompt']:,} + "
                f"{tokens['completion']:,} tokens, {counts['cached']:,} calls answered before."
            )
        else:
            say(
                f"{named}, {counts['mediators']:,} mediators, {counts['edges']:,} edges from "
                f"{counts['lines']:,} lines in {counts['seconds']:.1f} s."
            )
        show_taken(counts)
        say(f'Ask it: kgqa ask "…" --kg {counts["kg"]}', style="dim")

    run.print(human, counts)
    return int(counts.get("failed", 0))
