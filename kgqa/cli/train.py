"""``kgqa train``: a local model learns to write the paths of a KG."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa.cli import llm
from kgqa.cli.common import Run, command

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.models.adapter import AdapterCard
    from kgqa.training.data import Example

app = typer.Typer(help="Fine-tune a local model to write paths.", no_args_is_help=True)

_Questions = Annotated[
    list[Path], typer.Option("--questions", help="JSON lines: question, topics, answers.")
]


def data(
    run: Run,
    questions: _Questions,
    out: Annotated[Path, typer.Option(help="The file of examples to write.")],
    hops: Annotated[int | None, typer.Option(help="Hops at most.", min=1)] = None,
    per_question: Annotated[int, typer.Option(help="Examples of a question.", min=1)] = 4,
    held_out: Annotated[bool, typer.Option(help="Leave a fixed fifth out.")] = True,
) -> None:
    """Write the training examples that questions and a KG give, to look at them."""
    import json

    from kgqa.models.adapter import AdapterCard

    with run.open_store() as store:
        train, _, _ = _examples(run, store, AdapterCard(), questions, hops, per_question, held_out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        for example in train:
            file.write(json.dumps(dataclasses.asdict(example), ensure_ascii=False) + "\n")
    result = {"examples": len(train), "file": str(out)}
    run.print(lambda: print(f"{len(train):,} examples in {out}"), result)


def train_run(
    run: Run,
    questions: _Questions,
    out: Annotated[Path, typer.Option(help="The adapter's folder.")],
    hops: Annotated[int | None, typer.Option(help="Hops at most.", min=1)] = None,
    model: Annotated[str | None, typer.Option(help="The model to adapt.")] = None,
    per_question: Annotated[int, typer.Option(help="Examples of a question.", min=1)] = 4,
    held_out: Annotated[bool, typer.Option(help="Leave a fixed fifth out.")] = True,
    epochs: Annotated[float, typer.Option(help="Passes over the examples.", min=0.01)] = 3.0,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.", min=0.0)] = 5e-4,
    rank: Annotated[int, typer.Option(help="LoRA rank.", min=1)] = 16,
    batch_size: Annotated[int, typer.Option(help="Examples of a step.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    templates: Annotated[
        Path | None,
        typer.Option(help="A file of relations' phrases: also train on questions made from them."),
    ] = None,
    per_relation: Annotated[int, typer.Option(help="Templated examples of a relation.")] = 12,
    per_pair: Annotated[int, typer.Option(help="Templated examples of two relations.")] = 2,
    start_from: Annotated[
        Path | None, typer.Option(help="An adapter's folder to go on from.")
    ] = None,
) -> None:
    """Train a LoRA adapter; a stopped run goes on from its last checkpoint."""
    from kgqa.models.kg_llm import NO_ADAPTER
    from kgqa.training.lora import LoraSettings, train_adapter
    from kgqa.training.templates import read_phrases, templated_examples

    kg_llm = llm.load(run, model, NO_ADAPTER, None)
    with run.open_store() as store:
        examples, validation, described = _examples(
            run, store, kg_llm.card, questions, hops, per_question, held_out
        )
        rules = llm.walk_rules(store.info, kg_llm.card, hops, None, None, card_decides=False)
        if templates is not None:
            made = templated_examples(
                store,
                rules,
                llm.path_format(kg_llm.card),
                read_phrases(templates),
                per_relation=per_relation,
                per_pair=per_pair,
                seed=seed,
                progress=run.progress,
            )
            run.note(f"{len(made):,} examples made from the phrases of {templates.name}.")
            described += f" And on {len(made)} questions made from {templates.name}."
            examples = [*examples, *made]
    card = dataclasses.replace(kg_llm.card, hops=rules.hops, direction=rules.direction)
    result = train_adapter(
        kg_llm.with_card(card),
        examples,
        validation,
        llm.path_format(card),
        out,
        LoraSettings(
            rank=rank,
            alpha=2 * rank,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_size=batch_size,
            seed=seed,
        ),
        description=described,
        start_from=start_from,
        progress=run.progress,
    )

    def human() -> None:
        held = "none" if result.held_out_loss is None else f"{result.held_out_loss:.3f}"
        print(
            f"{result.folder}: {result.examples:,} examples, {result.steps:,} steps, loss "
            f"{result.loss:.3f}, held-out loss {held}, {result.seconds / 60:.1f} minutes.\n"
            f'Use it: kgqa ask "…" --adapter {result.folder}'
        )

    run.print(human, {**dataclasses.asdict(result), "folder": str(result.folder)})


def _examples(
    run: Run,
    store: GraphStore,
    card: AdapterCard,
    files: list[Path],
    hops: int | None,
    per_question: int,
    held_out: bool,
) -> tuple[list[Example], list[Example], str]:
    """Return training and held-out examples of the files, and a description of where from."""
    from kgqa.training.data import TrainingQuestion, build_examples, is_held_out
    from kgqa.training.questions import read_training_questions

    rules = llm.walk_rules(store.info, card, hops, None, None, card_decides=False)
    form = llm.path_format(card)
    train: list[TrainingQuestion] = []
    validation: list[TrainingQuestion] = []
    for path in files:
        questions, faults = read_training_questions(path)
        for fault in faults:
            run.note(fault)
        for question in questions:
            apart = held_out and is_held_out(question.id)
            (validation if apart else train).append(question)
    examples, report = build_examples(
        store, train, rules, form, per_question=per_question, progress=run.progress
    )
    checks, _ = build_examples(
        store, validation, rules, form, per_question=1, progress=run.progress
    )
    run.note(
        f"{report.examples:,} examples of {report.used:,} of {report.questions:,} questions; "
        f"{len(report.unreachable):,} have no path to an answer, {len(report.unknown):,} name "
        "entities that are not in the KG."
    )
    names = ", ".join(path.name for path in files)
    described = (
        f"Trained on {report.used} questions of {names} over the KG {store.info.name} "
        f"({store.info.source}): paths of at most {rules.hops} hops to their answers, mediators "
        f"{rules.mediators}, direction {rules.direction}."
        + (" A fixed fifth of the questions was held out." if held_out else "")
    )
    return examples, checks, described


command(app, "data")(data)
command(app, "run")(train_run)
