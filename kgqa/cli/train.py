"""``kgqa train``: a local model learns to write the paths of a KG."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kgqa.cli import llm, train_chains
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run, command
from kgqa.cli.train_data import Source, gather, needs_store
from kgqa.cli.train_flags import (
    CheckpointEveryFlag,
    EntitiesFlag,
    FormFlag,
    HeldOutFlag,
    PerPairFlag,
    PerRelationFlag,
    ResumeFlag,
    SeedFlag,
    SelfFlag,
    TemplatesFlag,
    TopicsFlag,
)
from kgqa.cli.train_kg_cot import train_kg_cot

if TYPE_CHECKING:
    from kgqa.models.kg_llm import KgLLM
    from kgqa.training.settings import TrainingResult, TrainingSettings

app = typer.Typer(help="Fine-tune a local model to write paths.", no_args_is_help=True)

# What the published recipe says (GCR, arXiv 2410.13080), where no flag says otherwise.
_GCR = {
    "epochs": 3.0,
    "learning_rate": 2e-5,
    "batch_size": 4,
    "accumulation": 32,
    "max_tokens": 2048,
    "full": True,
}

# A prompt with a graph is thousands of tokens long.
_DOG = {"batch_size": 1, "accumulation": 16, "max_tokens": 4096}

_Method = Annotated[
    Literal["gcr", "dog"],
    typer.Option(help="What it learns to write: paths, or chains of thoughts and triplets."),
]
_Triplets = Annotated[
    int | None, typer.Option(help="dog: triplets of the graph in a prompt (120).", min=1)
]
_Encoder = Annotated[
    str | None, typer.Option(help="dog: the sentence encoder that chooses them (MiniLM).")
]
_Questions = Annotated[
    list[Path] | None, typer.Option("--questions", help="A file of questions; may be repeated.")
]
_General = Annotated[
    str | None,
    typer.Option(help="A general LLM that puts questions of --self into other words."),
]
_Phrased = Annotated[int, typer.Option(help="Questions that it puts into words.", min=1)]
_Preset = Annotated[
    str | None, typer.Option(help="gcr: prompt, markers, paths and settings as published.")
]
_Hops = Annotated[int | None, typer.Option(help="Hops at most.", min=1)]
_Paths = Annotated[
    Literal["best", "shortest"] | None,
    typer.Option(help="Paths of the relation paths that fit the answers best; every shortest."),
]
_PerQuestion = Annotated[
    int | None, typer.Option(help="Examples of a question at most (4; all of shortest).", min=1)
]


def data(
    run: Run,
    out: Annotated[Path, typer.Option(help="The file of examples to write.")],
    questions: _Questions = None,
    form: FormFlag = "jsonl",
    topics: TopicsFlag = None,
    by_itself: SelfFlag = False,
    templates: TemplatesFlag = None,
    general_model: _General = None,
    phrased: _Phrased = 400,
    method: _Method = "gcr",
    preset: _Preset = None,
    hops: _Hops = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    paths: _Paths = None,
    per_question: _PerQuestion = None,
    per_relation: PerRelationFlag = 12,
    per_pair: PerPairFlag = 2,
    entities: EntitiesFlag = 20_000,
    triplets: _Triplets = None,
    encoder: _Encoder = None,
    held_out: HeldOutFlag = True,
    seed: SeedFlag = 0,
) -> None:
    """Write the training examples that questions and a KG give, to look at them."""
    import json

    from kgqa.errors import DataError
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.presets import preset as card_of

    source = Source(
        questions=tuple(questions or ()),
        form=form,
        topics=topics,
        by_itself=by_itself,
        templates=templates,
        general_model=general_model,
        phrased=phrased,
        method=method,
        preset=preset,
        hops=hops,
        direction=direction,
        mediators=mediators,
        paths=paths,
        per_question=per_question,
        per_relation=per_relation,
        per_pair=per_pair,
        topics_of_kg=entities,
        triplets=triplets,
        encoder=encoder,
        held_out=held_out,
        seed=seed,
    )
    source.check()
    shown = source.prompt_preset
    card = card_of(shown) if shown else AdapterCard()
    with ExitStack() as stack:
        store = stack.enter_context(run.open_store()) if needs_store(source) else None
        gathered = gather(run, store, card, source)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8") as file:
            for example in gathered.train:
                file.write(json.dumps(dataclasses.asdict(example), ensure_ascii=False) + "\n")
    except OSError as error:
        raise DataError(f"The file {out} cannot be written: {error.strerror}.") from None
    result = {
        "examples": len(gathered.train),
        "held_out": len(gathered.held),
        "file": str(out),
        "data": gathered.described,
    }
    run.print(lambda: print(f"{len(gathered.train):,} examples in {out}"), result)


def train_run(
    run: Run,
    out: Annotated[Path, typer.Option(help="The folder for the adapter, or the model.")],
    questions: _Questions = None,
    form: FormFlag = "jsonl",
    topics: TopicsFlag = None,
    by_itself: SelfFlag = False,
    templates: TemplatesFlag = None,
    general_model: _General = None,
    phrased: _Phrased = 400,
    method: _Method = "gcr",
    preset: _Preset = None,
    hops: _Hops = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    paths: _Paths = None,
    per_question: _PerQuestion = None,
    per_relation: PerRelationFlag = 12,
    per_pair: PerPairFlag = 2,
    entities: EntitiesFlag = 20_000,
    triplets: _Triplets = None,
    encoder: _Encoder = None,
    held_out: HeldOutFlag = True,
    seed: SeedFlag = 0,
    model: Annotated[str | None, typer.Option(help="The model to train.")] = None,
    full: Annotated[
        bool | None, typer.Option("--full/--lora", help="All weights, or an adapter.")
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(help="An adapter to go on from: its folder, or a bundled one's name."),
    ] = None,
    resume: ResumeFlag = True,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the examples (3).", min=0.01)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate (5e-4).", min=0.0)
    ] = None,
    rank: Annotated[int, typer.Option(help="LoRA rank.", min=1)] = 16,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples that are run together (16).", min=1)
    ] = None,
    accumulation: Annotated[int | None, typer.Option(help="Batches of a step (1).", min=1)] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="A longer example is left out (256).", min=8)
    ] = None,
    loss: Annotated[
        Literal["path", "relations"] | None,
        typer.Option(help="What is learnt: the path, or its relations and end alone (path)."),
    ] = None,
    checkpoint_every: CheckpointEveryFlag = 100,
    check_every: Annotated[
        int, typer.Option(help="Steps between checks on held-out questions; 0: at the end.", min=0)
    ] = 200,
    check_questions: Annotated[
        int, typer.Option(help="Held-out questions whose paths are decoded; 0: none.", min=0)
    ] = 50,
) -> None:
    """Train a LoRA adapter or a whole model; a stopped run goes on from its last checkpoint."""
    from kgqa.training.settings import TrainingSettings

    source = Source(
        questions=tuple(questions or ()),
        form=form,
        topics=topics,
        by_itself=by_itself,
        templates=templates,
        general_model=general_model,
        phrased=phrased,
        method=method,
        preset=preset,
        hops=hops,
        direction=direction,
        mediators=mediators,
        paths=paths,
        per_question=per_question,
        per_relation=per_relation,
        per_pair=per_pair,
        topics_of_kg=entities,
        triplets=triplets,
        encoder=encoder,
        held_out=held_out,
        seed=seed,
    )
    source.check()
    given = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "accumulation": accumulation,
        "max_tokens": max_tokens,
        "loss": loss,
        "full": full,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = TrainingSettings(
        rank=rank,
        alpha=2 * rank,
        checkpoint_every=checkpoint_every,
        check_every=check_every,
        check_questions=check_questions,
        seed=seed,
        **{**_defaults(method, preset), **chosen},  # type: ignore[arg-type]
    )
    settings.check_start(start_from)
    train_chains.check_loss(method, settings.loss)
    # after the checks: these load torch
    from kgqa.models.kg_llm import adapter_folder
    from kgqa.training.fit import train

    if start_from is not None:
        start_from = adapter_folder(model, str(start_from))
    kg_llm = _model(run, model, source.prompt_preset, start_from)
    with ExitStack() as stack:
        store = stack.enter_context(run.open_store()) if needs_store(source) else None
        gathered = gather(run, store, kg_llm.card, source)
        card = kg_llm.card
        if store is not None:
            rules = source.rules(store, card)
            card = dataclasses.replace(
                card, hops=rules.hops, direction=rules.direction, mediators=rules.mediators
            )
        elif hops is not None:
            card = dataclasses.replace(card, hops=hops)
        if gathered.graphs is not None:  # it will be asked with a graph as large
            card = dataclasses.replace(card, triplets=gathered.graphs.most)
        result = train(
            kg_llm.with_card(card),
            gathered.train,
            gathered.held,
            llm.path_format(card),
            out,
            settings,
            data=gathered.described,
            questions=gathered.checks,
            rules=lambda graph: source.rules(graph, card),
            start_from=start_from,
            resume=resume,
            progress=run.progress,
        )
    shown = {**dataclasses.asdict(result), "folder": str(result.folder), "data": gathered.described}
    run.print(lambda: _show(result, settings, method), shown)


def _defaults(method: str, preset: str | None) -> dict[str, float | int | bool]:
    if method == "dog":
        return dict(_DOG)
    return dict(_GCR) if preset == "gcr" else {}


def _model(run: Run, model: str | None, preset: str | None, start_from: Path | None) -> KgLLM:
    """Load the model to train, asked as the adapter that it starts from is."""
    from kgqa.errors import AdapterMismatchError
    from kgqa.models import presets
    from kgqa.models.adapter import read_card
    from kgqa.models.kg_llm import NO_ADAPTER
    from kgqa.models.locate import same_base
    from kgqa.models.prompt import GRAPH

    chains = preset in train_chains.PRESETS
    if start_from is None or (preset is not None and not chains):
        return llm.load(run, model, NO_ADAPTER, preset)
    card = read_card(start_from)
    if GRAPH in card.prompt and not chains:
        raise AdapterMismatchError(
            f"The adapter {start_from} was trained to write chains.",
            "Train it with the method that it was trained with (--method dog).",
        )
    if GRAPH not in card.prompt and chains and card.added_tokens:
        raise AdapterMismatchError(
            f"The adapter {start_from} writes paths between markers of its own, which chains do "
            "not have.",
            "Start from an adapter without added tokens, or leave out --start-from.",
        )
    kg_llm = llm.load(run, model, NO_ADAPTER, None)
    if not same_base(card.base_model, kg_llm.name):
        raise AdapterMismatchError(
            f"The adapter {start_from} was trained for {card.base_model}, and the model is "
            f"{kg_llm.name}.",
            f"Use --model {card.base_model}, or leave out --start-from.",
        )
    if preset is not None and GRAPH not in card.prompt:
        # which relations a question means is learnt already, how a chain is asked for is new
        return kg_llm.with_card(presets.preset(preset))
    return kg_llm.with_card(dataclasses.replace(card, base_model=""))


def _show(result: TrainingResult, settings: TrainingSettings, method: str) -> None:
    held = "none" if result.held_out_loss is None else f"{result.held_out_loss:.3f}"
    right = "" if result.path_accuracy is None else f", path accuracy {result.path_accuracy:.1f} %"
    flag = "--model" if settings.full else "--adapter"
    if method == "dog":
        flag = f"--method dog {flag}"
    print(
        f"{result.folder}: {result.examples:,} examples, {result.steps:,} steps, loss "
        f"{result.loss:.3f}, held-out loss {held}{right}, {result.seconds / 60:.1f} minutes.\n"
        f'Use it: kgqa ask "…" {flag} {result.folder}'
    )


command(app, "data")(data)
command(app, "run")(train_run)
command(app, "kg-cot")(train_kg_cot)
