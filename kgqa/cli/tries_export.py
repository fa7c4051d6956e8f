"""``kgqa tries``: looking at the trie of an entity."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kgqa.cli import llm
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, command, others_of

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.linking.resolve import Resolution
    from kgqa.paths.sample import Sample
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.stored import StoredConstraint

_BUILT = 1_000_000  # paths of a trie that is built to be looked at; more would fill the memory

app = typer.Typer(help="Look at the tries that constrain a model.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at the tries that constrain a model."""


def export(
    run: Run,
    entity: Annotated[str, typer.Argument(help="An id or a name.")],
    form: Annotated[
        Literal["txt", "dot"],
        typer.Option("--format", help="Lines of tokens, or a Graphviz drawing."),
    ] = "txt",
    limit: Annotated[int, typer.Option(help="Token sequences that are shown.", min=1)] = 50,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    preset: Annotated[str | None, typer.Option(help="For a preset: default, gcr.")] = None,
    model: Annotated[str | None, typer.Option(help="For another KG-LLM's tokenizer.")] = None,
    adapter: Annotated[str | None, typer.Option(help="For another adapter, or 'none'.")] = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    sample: llm.SampleFlag = None,
    walk: llm.WalkFlag = None,
    seed: llm.SeedFlag = None,
) -> None:
    """Show the token trie of an entity: what a model may write about it.

    txt: a token sequence on each line, `|` between tokens, `{5}` where any of five may follow.
    dot: a drawing for Graphviz, forced tokens in one box.
    """
    from kgqa.linking.resolve import resolve_entity

    wanted = llm.Wanted(model, adapter, preset, hops, direction, mediators, sample, walk, seed)
    wanted.check()
    with run.open_store() as store:
        found = resolve_entity(store, entity)
        if found.others:
            run.note(
                f"'{entity}' means {found.id}, the best connected one; others: "
                f"{others_of(found.others)}."
            )
        lexicon, rules, key = _fitting(run, store, wanted)
        source, trie = _trie(run, store, found, lexicon, rules, key)
    _show(run, found, source, trie, lexicon, form, limit, key.sampled)


def _fitting(
    run: Run, store: GraphStore, wanted: llm.Wanted
) -> tuple[PathLexicon, WalkRules, IndexKey]:
    """Return what `ask` with the same flags would write paths with, and the key of its index."""
    from kgqa.models.kg_llm import load_encoder
    from kgqa.models.presets import preset as card_of
    from kgqa.trie.lexicon import PathLexicon

    settings = run.settings
    loaded = load_encoder(
        wanted.model or settings.model,
        wanted.adapter or settings.adapter,
        cache=settings.cache_folder,
        progress=run.progress,
    )
    card = card_of(wanted.preset) if wanted.preset else loaded.card
    form = llm.path_format(card)
    rules = wanted.rules(store.info, card)
    key = llm.index_key(store.info, loaded.encoder, form, rules, wanted.sampled())
    return PathLexicon(loaded.encoder, form), rules, key


def _trie(
    run: Run,
    store: GraphStore,
    found: Resolution,
    lexicon: PathLexicon,
    rules: WalkRules,
    key: IndexKey,
) -> tuple[str, StoredConstraint]:
    """Return the trie of an entity and where it is from: ``shard`` or ``graph``; say which."""
    from kgqa.errors import EmptyLanguageError, IndexFault, UsageError
    from kgqa.graph.model import keys_array
    from kgqa.paths.sample import sample_walk
    from kgqa.paths.walk import walk
    from kgqa.trie.build import path_tokens
    from kgqa.trie.index.reader import open_index
    from kgqa.trie.stored import stored_constraint

    who = f"{found.name} ({found.id})"
    reason = f"The index has no trie of {who}."
    try:
        with open_index(run.tries_folder(store.info.name), key) as index:
            stored = index.look_up(found.id)
            if index.is_composed(found.id):
                reason = f"{who} has more paths than the index stores."
    except IndexFault as error:
        stored, reason = None, error.message
    if stored is not None:
        run.note(f"The trie of {who} is the one in the index.")
        source, sequences, table = "shard", stored.sequences, stored.table
    else:
        run.note(f"{reason} The trie is built from the graph.")
        keys = keys_array([found.key])
        if key.sampled:
            table, over = sample_walk(store, keys, rules, key.sampled), keys[:0]
        else:
            table, over = walk(store, keys, rules, _BUILT)
        if len(over):
            raise UsageError(
                f"{who} has more than {_BUILT:,} paths of at most {rules.hops} hops, too many to "
                "look at.",
                "Look at shorter ones: --hops 1" if rules.hops > 1 else "",
            )
        source, sequences = "graph", path_tokens(store, table, lexicon)
    if not len(table):
        raise EmptyLanguageError(
            f"{who} has no path of at most {rules.hops} hops, so its trie is empty.",
            "Choose another entity or direction (--direction both).",
        )
    return source, stored_constraint([(sequences, table)])


def _show(
    run: Run,
    found: Resolution,
    source: str,
    constraint: StoredConstraint,
    lexicon: PathLexicon,
    form: str,
    limit: int,
    sample: Sample | None,
) -> None:
    from kgqa.cli.show import say
    from kgqa.trie.export import branching, dot, sequence_tokens, text_lines

    if sample:
        run.note(f"The trie is a sample: {sample}.")
    trie, encoder = constraint.trie, lexicon.encoder
    sequences = int((trie.leaf >= 0).sum())
    branches = branching(trie)
    drawn: str | list[str] = (
        text_lines(trie, encoder, limit)
        if form == "txt"
        else dot(trie, encoder, limit, f"{found.name} ({found.id})")
    )
    result: dict[str, Any] = {
        "entity": {"id": found.id, "name": found.name},
        "source": source,
        "sample": sample and dataclasses.asdict(sample),
        "paths": constraint.paths,
        "sequences": sequences,
        "nodes": trie.nodes,
        "tokens": sequence_tokens(trie),
        "branching": dataclasses.asdict(branches),
        "lines" if form == "txt" else "dot": drawn,
    }

    def human() -> None:
        if isinstance(drawn, str):  # alone on stdout, so that `| dot -Tsvg` can read it
            say(drawn.rstrip())
            return
        for line in drawn:
            say(line)
        say()
        say(
            f"{len(drawn):,} of {sequences:,} token sequences for {constraint.paths:,} paths: "
            f"{trie.nodes:,} nodes for {result['tokens']:,} tokens, {branches.mean:.2f} "
            f"continuations on average, {branches.one_child_share:.0%} of the nodes forced",
            style="dim",
        )

    run.print(human, result)


command(app, "export")(export)
