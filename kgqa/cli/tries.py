"""``kgqa precompute-tries``: the tries of topic entities, made before anyone asks."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kgqa.cli import llm
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, file_text_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.trie.engines import Engine
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.tokens import TokenEncoder


def precompute_tries(
    run: Run,
    entities: Annotated[
        Path | None, typer.Option(help="Only these: a file with an id or name on each line.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="Only the topic entities of a file of questions.")
    ] = None,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes (1), or units at once on Ray (all its CPUs).", min=1),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Where the work is done.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="With --engine ray: the cluster, HOST:PORT or 'auto'; else one's own."),
    ] = None,
    cap: Annotated[
        int,
        typer.Option(help="Paths of one entity that are stored; more are composed.", min=1),
    ] = 100_000,
    preset: Annotated[str | None, typer.Option(help="For a preset: default, gcr.")] = None,
    model: Annotated[str | None, typer.Option(help="For another KG-LLM's tokenizer.")] = None,
    adapter: Annotated[str | None, typer.Option(help="For another adapter, or 'none'.")] = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    sample: llm.SampleFlag = None,
    walk: llm.WalkFlag = None,
    seed: llm.SeedFlag = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Drop what is there first.")] = False,
) -> None:
    """Build the trie index, or go on with one that was stopped."""
    from kgqa.models.presets import preset as card_of

    settings = run.settings
    engine_of = _engine(engine, address, workers)
    preset_card = card_of(preset) if preset else None
    sampled = llm.sample_of(sample, walk, seed)
    if sampled:
        cap = sampled.size  # no entity has more, so none is left to be composed
    with run.open_store() as store:
        info = store.info
        topics = _topics(run, store, entities, questions)

    # what takes a second to import waits until the cheap mistakes are out of the way
    from kgqa.models.bare import bare_encoder
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
        _for_others(run.graph_url),
        info.name,
        run.credentials | {"home": str(settings.home.absolute())},
        form,
        bare_encoder(loaded.encoder)
        or partial(
            _slow_encoder,
            model or settings.model,
            adapter or settings.adapter,
            settings.cache_folder,
        ),
    )
    key = llm.index_key(info, loaded.encoder, form, rules, sampled)
    with IndexWriter(
        run.tries_folder(info.name),
        key,
        cap=cap,
        token_width=token_width(loaded.encoder.vocab_size),
        tokenizer_name=loaded.name,
        rebuild=rebuild,
    ) as writer:
        result = precompute(
            make,
            writer,
            rules,
            cap=cap,
            topics=topics,
            engine=engine_of,
            sample=sampled,
            progress=run.progress,
        )

    def human() -> None:
        from kgqa.cli.show import say

        say(
            f"{result.added:,} entities added in {result.seconds:.1f} s; the index of "
            f"{info.name} now has {result.stored:,} tries with {result.paths:,} paths of at most "
            f"{rules.hops} hops in {result.shards} shards, {result.bytes / 1e6:.1f} MB."
        )
        if sampled:
            say(f"It is a sample, {sampled}: kgqa ask uses it only with the same flags.")
        if result.composed:
            say(
                f"{result.composed:,} entities have more than {cap:,} paths; theirs are composed "
                "on the fly when asked."
            )

    of = {"sample": dataclasses.asdict(sampled)} if sampled else {}
    run.print(human, {"kg": info.name, **dataclasses.asdict(result), **of})


def _engine(name: str, address: str | None, workers: int | None) -> Engine:
    from kgqa.errors import UsageError
    from kgqa.trie.engines.local import LocalEngine

    if name == "ray":
        from kgqa.trie.engines.ray_cluster import RayEngine

        return RayEngine(address, workers)
    if address is not None:
        raise UsageError("--address names a Ray cluster.", "Add --engine ray, or leave it out.")
    return LocalEngine(workers or 1)


def _for_others(url: str | Path) -> str:
    """Return a store's URL as it reads in a process that may have another working folder."""
    from kgqa.graph.open import store_backend

    return store_backend(url).full_url


def _resources(
    url: str,
    kg: str,
    credentials: dict[str, str | None],
    form: PathFormat,
    encoder: TokenEncoder | Callable[[], TokenEncoder],
) -> tuple[GraphStore, PathLexicon]:
    """Open what makes tries, in whatever process does: without transformers if it can be had."""
    from kgqa.graph.open import open_store
    from kgqa.trie.lexicon import PathLexicon

    lexicon = PathLexicon(encoder() if callable(encoder) else encoder, form)
    return open_store(url, kg, **credentials), lexicon


def _slow_encoder(model: str | None, adapter: str | None, cache: Path) -> TokenEncoder:
    from kgqa.models.encoder import load_encoder
    from kgqa.progress import Silent

    return load_encoder(model, adapter, cache=cache, progress=Silent()).encoder


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
