"""``kgqa ingest``: from a dump to a KG in the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.api.loading import StoringOptions
from kgqa.cli.common import Run, takes_options
from kgqa.registry import LOADERS

if TYPE_CHECKING:
    from kgqa.api import KG

FAILED_CODE = 2  # loaded, but the general LLM did not answer for some paragraphs


@takes_options(LOADERS, StoringOptions)
def ingest(
    run: Run,
    loader: Annotated[
        str,
        typer.Argument(help="The kind of dump: freebase, conceptnet, umls, triples or text."),
    ],
    options: dict[str, Any],
    source: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The dump's files or folder (plain, .gz, .bz2, .zst; - is standard input); "
            "without it the dumps folder is searched."
        ),
    ] = None,
    show_filters: Annotated[
        bool, typer.Option("--show-filters", help="freebase: print its filters and load nothing.")
    ] = False,
) -> None:
    """Load a dump, and replace the KG of that name in one step.

    Malformed lines are counted and written to a rejects file with line number and reason. A load
    that was stopped goes on after its last finished stage. Flags belong to the loader that their
    group names; `kgqa options triples` lists all options of a loader.
    """
    if show_filters:
        _show_filters(run, loader, options)
        return
    with run.home.ingest(loader, source or [], options) as kg:
        failed = _show(run, kg)
    if failed:
        raise typer.Exit(FAILED_CODE)


def _show(run: Run, kg: KG) -> int:
    result = kg.loaded
    assert result is not None
    shown = result.to_dict()

    def human() -> None:
        from kgqa.cli.terminal import say

        if "paragraphs" in shown:
            tokens = shown["tokens"]
            say(
                f"{result.kg}: {result.entities:,} entities, {result.edges:,} edges from "
                f"{shown['paragraphs']:,} paragraphs in {result.seconds:.1f} s; "
                f"{shown['calls']:,} calls, {tokens['prompt']:,} + {tokens['completion']:,} "
                f"tokens, {shown['cached']:,} calls were answered before."
            )
        else:
            say(
                f"{result.kg}: {result.entities:,} entities, {result.mediators:,} mediators, "
                f"{result.edges:,} edges from {result.lines:,} lines in {result.seconds:.1f} s."
            )
        for reason, count in sorted(result.dropped.items(), key=lambda item: -item[1]):
            say(f"  left out on purpose: {count:,} {reason}", style="dim")
        if result.rejected:
            say(f"  {result.rejected:,} lines rejected, see {result.rejects_file}")

    run.print(human, shown)
    return int(shown.get("failed", 0))


def _show_filters(run: Run, loader: str, options: dict[str, Any]) -> None:
    from kgqa.api.loading import filters

    path, entries = filters(loader, options)

    def human() -> None:
        from kgqa.cli.terminal import say

        say(f"# {path or 'the bundled list'}: the longest prefix that fits decides.")
        say("# Change it: kgqa ingest freebase --show-filters > FILE, edit, --filters FILE")
        for entry in entries:
            say(entry)

    run.print(human, {"filters": entries})
