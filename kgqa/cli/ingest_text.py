"""``kgqa ingest text``: a KG drawn from text by a general LLM."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.cli.common import Run
    from kgqa.loading.pipeline import IngestResult

REPLY_TOKENS = 1_024
FAILED_CODE = 2  # loaded, but some paragraphs' calls failed

TextModelFlag = Annotated[
    str | None,
    typer.Option("--general-model", help="text: the general LLM that draws the triplets."),
]
TextConcurrencyFlag = Annotated[
    int | None, typer.Option("--concurrency", help="text: calls at a time (8).", min=1)
]
ReplyTokensFlag = Annotated[
    int | None,
    typer.Option(help=f"text: tokens of a reply at most ({REPLY_TOKENS}).", min=1),
]
LimitFlag = Annotated[
    int | None, typer.Option("--limit", help="text: only the first paragraphs.", min=1)
]
CacheTextFlag = Annotated[
    bool,
    typer.Option(
        "--cache-calls/--no-cache-calls", help="text: keep calls, so that none is made twice."
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class TextFlags:
    """What the flags say about drawing triplets; None is the default."""

    general_model: str | None = None
    concurrency: int | None = None
    reply_tokens: int | None = None
    limit: int | None = None
    cache_calls: bool = True

    def refuse(self, dump: str) -> None:
        """Raise UsageError where one is given for a dump that no model reads."""
        from kgqa.errors import UsageError

        given = [name for name, value in dataclasses.asdict(self).items() if value is not None]
        given = [name for name in given if name != "cache_calls" or not self.cache_calls]
        if given:
            raise UsageError(
                f"The loader {dump} has no option {', '.join(given)}.",
                "It is one of: kgqa ingest text FILE…",
            )


def ingest_text(
    run: Run,
    source: Sequence[Path],
    flags: TextFlags,
    others: dict[str, Any],
    writing: dict[str, Any],
) -> None:
    """Draw a KG from text files and load it.

    ``others``: options of other loaders, refused where one is given; ``writing``: how the store is
    written (``method``, ``neo4j_home``, ``replace_database``, ``work_folder``).
    """
    from kgqa.cli.making import general_llm
    from kgqa.errors import UsageError
    from kgqa.graph.open import check_kg_name, open_writer
    from kgqa.loaders.options import TextOptions
    from kgqa.loaders.text import FAILED, TextLoader
    from kgqa.loading.pipeline import load
    from kgqa.loading.sources import Sources
    from kgqa.methods.base import CONCURRENCY

    if unknown := [name for name, value in others.items() if value is not None]:
        raise UsageError(
            f"The loader text has no option {', '.join(sorted(unknown))}.",
            f"It has: {', '.join(field.name for field in dataclasses.fields(flags))}.",
        )
    if not source:
        raise UsageError("`kgqa ingest text` needs a SOURCE.", "Name the files that hold the text.")
    settings = run.settings
    sources = Sources(tuple(path.expanduser() for path in source))
    first = sources.paths[0].resolve()
    kg = check_kg_name(settings.kg or first.name.split(".")[0])
    general = general_llm(run, flags.general_model, cache_calls=flags.cache_calls)
    if general is None:
        raise UsageError(
            "Triplets are drawn from text by a general LLM, and none is named.",
            "Name one: --general-model M (or KGQA_GENERAL_MODEL), its server by OPENAI_BASE_URL.",
        )
    options = TextOptions(
        limit=flags.limit,
        reply_tokens=flags.reply_tokens or REPLY_TOKENS,
        concurrency=flags.concurrency or CONCURRENCY,
    )
    folder = settings.kg_folder(kg)
    work_folder = writing.pop("work_folder")
    with general:
        loader = TextLoader(options, general.complete, f"{general.model} at {general.url}")
        paragraphs = loader.count(sources.paths)
        with open_writer(
            run.graph_url,
            kg,
            **{**run.credentials, **writing},
            work_folder=(work_folder or folder) / "import",
        ) as writer:
            result = load(loader, sources, kg, writer, folder, run.progress, work_folder)
        usage = general.usage
    failed = result.dropped.pop(FAILED, 0)
    shown = {
        **dataclasses.asdict(result),
        "paragraphs": paragraphs,
        "failed": failed,
        "calls": usage.calls,
        "cached": usage.cached,
        "tokens": {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens},
    }
    if failed:
        run.note(
            f"{failed:,} of {paragraphs:,} paragraphs have no reply from {general.model}: they are "
            f"named in {result.rejects_file}. The same command asks for them again"
            + (" and pays for no other call." if flags.cache_calls else ".")
        )
    run.print(lambda: _show(result, shown), shown)
    if failed:
        raise typer.Exit(FAILED_CODE)


def _show(result: IngestResult, shown: dict[str, Any]) -> None:
    from kgqa.cli.show import say

    tokens = shown["tokens"]
    say(
        f"{result.kg}: {result.entities:,} entities, {result.edges:,} edges from "
        f"{shown['paragraphs']:,} paragraphs in {result.seconds:.1f} s; {shown['calls']:,} calls, "
        f"{tokens['prompt']:,} + {tokens['completion']:,} tokens, {shown['cached']:,} calls were "
        "known from before."
    )
    for reason, count in sorted(result.dropped.items(), key=lambda item: -item[1]):
        say(f"  left out: {count:,} {reason}", style="dim")
    if result.rejected:
        say(
            f"  {result.rejected:,} of {result.lines:,} lines of replies, or paragraphs, rejected: "
            f"see {result.rejects_file}"
        )
