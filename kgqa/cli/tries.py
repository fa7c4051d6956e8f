"""``kgqa precompute-tries``: the tries of topic entities, made before anyone asks."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli import llm
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, file_text_lines

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.trie.lexicon import PathLexicon


def precompute_tries(
    run: Run,
    entities: Annotated[
        Path | None, typer.Option(help="Only these: a file with an id or name on each line.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="Only the topic entities of a file of questions.")
    ] = None,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    cap: Annotated[
        int,
        typer.Option(help="Paths of one entity that are stored; more are composed.", min=1),
    ] = 100_000,
    preset: Annotated[str | None, typer.Option(help="For a preset: default, gcr.")] = None,
    model: Annotated[str | None, typer.Option(help="For another KG-LLM's tokenizer.")] = None,
    adapter: Annotated[str | None, typer.Option(help="For another adapter, or 'none'.")] = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Drop what is there first.")] = False,
) -> None:
    """Build the trie index, or go on with one that was stopped."""
    from kgqa.models.presets import preset as card_of

    settings = run.settings
    preset_card = card_of(preset) if preset else None
    with run.open_store() as store:
        info = store.info
        topics = _topics(run, store, entities, questions)

    # what takes a second to import waits until the cheap mistakes are out of the way
    from kgqa.models.encoder import load_encoder
    from kgqa.trie.index.shard import token_width
    from kgqa.trie.index.writer import IndexWriter
    from kgqa.trie.precompute import precompute

    loaded = load_encoder(
        model or settings.model,
        adapter or settings.adapter,
        cache=settings.cache_folder,
        progress=run.progress,
    )
    card = preset_card or loaded.card
    form = llm.path_format(card)
    rules = llm.walk_rules(info, card, hops, direction, mediators, card_decides=preset is not None)
    make = partial(
        _resources,
        run.graph_url,
        info.name,
        run.credentials,
        form,
        model or settings.model,
        adapter or settings.adapter,
        settings.cache_folder,
    )
    key = llm.index_key(info, loaded.encoder, form, rules)
    with IndexWriter(
        run.tries_folder(info.name),
        key,
        cap=cap,
        token_width=token_width(loaded.encoder.vocab_size),
        tokenizer_name=loaded.name,
        rebuild=rebuild,
    ) as writer:
        result = precompute(
            make, writer, rules, cap=cap, topics=topics, workers=workers, progress=run.progress
        )

    def human() -> None:
        from kgqa.cli.show import say

        say(
            f"{result.added:,} entities added in {result.seconds:.1f} s; the index of "
            f"{info.name} now has {result.stored:,} tries with {result.paths:,} paths of at most "
            f"{rules.hops} hops in {result.shards} shards, {result.bytes / 1e6:.1f} MB."
        )
        if result.composed:
            say(
                f"{result.composed:,} entities have more than {cap:,} paths; theirs are composed "
                "on the fly when asked."
            )

    run.print(human, {"kg": info.name, **dataclasses.asdict(result)})


def _resources(
    url: str | Path,
    kg: str,
    credentials: dict[str, str | None],
    form: PathFormat,
    model: str | None,
    adapter: str | None,
    cache: Path,
) -> tuple[GraphStore, PathLexicon]:
    """Open what a worker needs, in its own process."""
    from kgqa.graph.open import open_store
    from kgqa.models.encoder import load_encoder
    from kgqa.progress import Silent
    from kgqa.trie.lexicon import PathLexicon

    encoder = load_encoder(model, adapter, cache=cache, progress=Silent()).encoder
    return open_store(url, kg, **credentials), PathLexicon(encoder, form)


def _topics(
    run: Run, store: GraphStore, entities: Path | None, questions: Path | None
) -> IntArray | None:
    """Return the keys of the entities that were asked for, None where all are meant.

    One that the KG does not know is told and left out.
    """
    from kgqa.errors import DataError, EntityNotFoundError
    from kgqa.graph.model import keys_array
    from kgqa.linking.resolve import resolve_entity

    if entities is None and questions is None:
        return None
    wanted: list[str] = []
    if entities is not None:
        lines = file_text_lines(entities, "list of entities")
        wanted += [line.strip() for line in lines if line.strip()]
    if questions is not None:
        for number, line in enumerate(file_text_lines(questions, "question file"), 1):
            wanted += _topics_of_line(run, line, f"{questions}, line {number}")
    keys, unknown = [], []
    for text in dict.fromkeys(wanted):
        try:
            keys.append(resolve_entity(store, text).key)
        except EntityNotFoundError:
            unknown.append(text)
    if unknown:
        shown = ", ".join(unknown[:5])
        run.note(
            f"{len(unknown)} of {len(unknown) + len(keys)} entities are not in the KG: {shown}"
        )
    if not keys:
        raise DataError(
            "None of the entities asked for is in the KG.",
            "Give ids or names that it has; kgqa link finds them.",
        )
    return keys_array(keys)


def _topics_of_line(run: Run, line: str, where: str) -> list[str]:
    if not line.strip():
        return []
    try:
        record: Any = json.loads(line)
        named = record.get("topic_entities", record.get("q_entity"))
        if not isinstance(named, list):
            raise TypeError("it has no list of topic_entities")
    except (ValueError, TypeError, AttributeError) as error:
        run.note(f"{where} is not a question and is left out: {error}.")
        return []
    return [str(one) for one in named]
