"""``kgqa train kg-cot``: a small graph model learns to walk from a question to its answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run
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
    nothing_to_train_on,
)
from kgqa.cli.train_questions import TrainForm, read_file

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.paths.walk import WalkRules
    from kgqa.training.kg_cot import ReasonerResult
    from kgqa.training.kg_cot_data import WalkQuestion
    from kgqa.training.self_made import SelfMadeOptions

_FORMS: tuple[str, ...] = get_args(TrainForm)


def train_kg_cot(
    run: Run,
    out: Annotated[Path, typer.Option(help="The folder for the reasoner.")],
    questions: Annotated[
        list[str] | None,
        typer.Option(help="A file of questions, or FORMAT=FILE; may be repeated."),
    ] = None,
    form: FormFlag = "jsonl",
    topics: TopicsFlag = None,
    by_itself: SelfFlag = False,
    templates: TemplatesFlag = None,
    per_relation: PerRelationFlag = 12,
    per_pair: PerPairFlag = 2,
    most: Annotated[int, typer.Option("--made", help="Made questions at most.", min=1)] = 8_000,
    entities: EntitiesFlag = 20_000,
    hops: Annotated[int, typer.Option(help="Steps of the walk, and hops of a path.", min=1)] = 2,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    relations: Annotated[
        Literal["ids", "text"],
        typer.Option(help="ids: a score for each relation of this KG; text: by their words."),
    ] = "ids",
    encoder: Annotated[
        str | None, typer.Option(help="The question encoder: a name or a folder (MiniLM).")
    ] = None,
    epochs: Annotated[
        float, typer.Option(help="Passes over the questions; may be less than 1.", min=0.001)
    ] = 10.0,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.", min=0.0)] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="Questions of a step.", min=1)] = 16,
    hidden: Annotated[int, typer.Option(help="Units of the model's hidden layers.", min=1)] = 192,
    dropout: Annotated[float, typer.Option(help="Dropout.", min=0.0, max=0.9)] = 0.2,
    answer_weight: Annotated[
        float, typer.Option(help="What an answer weighs beside another entity.", min=1.0)
    ] = 10.0,
    hop_weight: Annotated[
        float, typer.Option(help="Of the loss of the number of hops, where it is known.", min=0)
    ] = 0.01,
    path_weight: Annotated[
        float,
        typer.Option(help="Of the loss of relation paths; 0: answers alone, as published.", min=0),
    ] = 0.1,
    held_out: HeldOutFlag = True,
    seed: SeedFlag = 0,
    resume: ResumeFlag = True,
    checkpoint_every: CheckpointEveryFlag = 100,
) -> None:
    """Train a reasoner for --method kg-cot; a stopped run goes on from its last checkpoint."""
    from kgqa.training.kg_cot import ReasonerSettings, train_reasoner
    from kgqa.training.self_made import SelfMadeOptions

    files = [_form_and_file(one, form) for one in questions or ()]
    if not files and not by_itself:
        raise nothing_to_train_on()
    options = SelfMadeOptions(
        per_relation=per_relation, per_path=per_pair, most=most, topics=entities, seed=seed
    )
    settings = ReasonerSettings(
        relations_by=relations,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        hidden=hidden,
        dropout=dropout,
        answer_weight=answer_weight,
        hop_weight=hop_weight,
        path_weight=path_weight,
        seed=seed,
        checkpoint_every=checkpoint_every,
    )
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.sentences import load_sentence_encoder
    from kgqa.training.kg_cot_data import is_check

    with run.open_store() as store:
        rules = _rules(store, hops, direction, mediators)
        loaded = load_sentence_encoder(
            encoder,
            device=run.settings.device,
            cache=run.settings.cache_folder,
            progress=run.progress,
        )
        table = HopTable(store, rules)
        asked, held, described = _gather(run, table, files, topics, held_out=held_out)
        made = []
        if by_itself or templates is not None:
            split = held_out and not files
            made = _made(
                run, table, options, templates, described, by_itself=by_itself, split=split
            )
        asked, made = _apart_from(run, held, asked), _apart_from(run, held, made)
        # checkpoints are chosen by questions that people asked, where there are any
        apart = {one.id for one in asked or made if is_check(one.id)}
        result = train_reasoner(
            table,
            [one for one in (*asked, *made) if one.id not in apart],
            [one for one in asked or made if one.id in apart],
            loaded,
            out,
            settings,
            described=described,
            progress=run.progress,
            resume=resume,
            # a folder is found again wherever the reasoner is used from
            encoder_name=str(Path(encoder).resolve())
            if encoder and Path(encoder).is_dir()
            else None,
        )
    shown = {**dataclasses.asdict(result), "folder": str(result.folder), "data": described}
    run.print(lambda: _show(result), shown)


def _form_and_file(text: str, form: TrainForm) -> tuple[TrainForm, Path]:
    """Return the form and the file of ``FORMAT=FILE``, or of a file of the common form."""
    named, equals, file = text.partition("=")
    if equals and named in _FORMS and not Path(text).exists():
        return named, Path(file)  # type: ignore[return-value]
    return form, Path(text)


def _rules(store: GraphStore, hops: int, direction: str | None, mediators: str | None) -> WalkRules:
    from kgqa.paths.walk import WalkRules

    return WalkRules(
        hops,
        direction or store.info.direction,  # type: ignore[arg-type]
        mediators or "collapse",  # type: ignore[arg-type]
    )


def _gather(
    run: Run,
    table: HopTable,
    files: list[tuple[TrainForm, Path]],
    topics: Path | None,
    *,
    held_out: bool,
) -> tuple[list[WalkQuestion], set[str], dict[str, Any]]:
    """Return the questions to train and check on, what held-out ones ask, and a description."""
    from kgqa.errors import UsageError
    from kgqa.graph.names import normalise
    from kgqa.training.data import is_held_out
    from kgqa.training.kg_cot_data import walk_questions

    found: list[WalkQuestion] = []
    held: set[str] = set()
    told = []
    for form, file in files:
        if form == "rog":
            raise UsageError(
                "A reasoner walks one KG, and questions of the form rog each have their own.",
                "Load a KG with `kgqa ingest`, and train on questions that are asked of it.",
            )
        read, convert = read_file(run, file, form, topics if form == "jsonl" else None)
        mine = [one for one in read if not (held_out and is_held_out(one.id))]
        held |= {normalise(one.question) for one in read if held_out and is_held_out(one.id)}
        store = table.store
        some, report = walk_questions(
            table,
            ((convert(store, one), one.hops or 0) for one in mine),
            len(mine),
            run.progress,
        )
        run.note(f"{file.name}: {report}")
        told.append(f"{report.used} of {report.questions} in {file.name}")
        found += some
    info = table.store.info
    licence = f", licence {info.licence}" if info.licence else ""
    return (
        found,
        held,
        {
            **({"questions": "; ".join(told)} if told else {}),
            "held out": "a fixed fifth by the hash of the id" if held_out else "none",
            "KG": f"{info.name} ({info.source}{licence}), {info.edges} edges, version "
            f"{info.version[:12]}",
        },
    )


def _apart_from(run: Run, held: set[str], questions: list[WalkQuestion]) -> list[WalkQuestion]:
    """Return the questions that ask nothing that a held-out one asks, whatever their ids."""
    from kgqa.graph.names import normalise

    kept = [one for one in questions if normalise(one.question) not in held]
    if len(kept) < len(questions):
        run.note(
            "Left out, since they ask what a held-out question asks: "
            f"{len(questions) - len(kept):,} of {len(questions):,} questions."
        )
    return kept


def _made(
    run: Run,
    table: HopTable,
    options: SelfMadeOptions,
    templates: Path | None,
    described: dict[str, Any],
    *,
    by_itself: bool,
    split: bool,
) -> list[WalkQuestion]:
    """Return questions made from the KG, and describe them; ``split``: some are held out."""
    from kgqa.paths.format import PathFormat
    from kgqa.training.data import is_held_out
    from kgqa.training.kg_cot_made import made_questions
    from kgqa.training.self_made import self_made
    from kgqa.training.templates import read_phrases, templated_examples

    store, rules, form = table.store, table.rules, PathFormat()
    phrases = read_phrases(templates) if templates is not None else {}
    if by_itself:
        examples = self_made(store, rules, form, phrases, options, run.progress).examples
    else:
        examples = templated_examples(
            store,
            rules,
            form,
            phrases,
            per_relation=options.per_relation,
            per_pair=options.per_path,
            most=options.most,
            seed=options.seed,
            progress=run.progress,
        )
    kept = [one for one in examples if not (split and is_held_out(one.question_id))]
    made = made_questions(table, kept, form, run.progress)
    said = f"{len(made):,} questions made from the KG"
    if templates is not None:
        said += f" by the phrases of {templates.name}"
    run.note(f"{said}.")
    described["made"] = said
    return made


def _show(result: ReasonerResult) -> None:
    print(
        f"{result.folder}: {result.questions:,} questions, best at step {result.steps:,}; of "
        f"{result.checked:,} check questions the first answer is right for "
        f"{result.hits_at_1:.1f} %, one of ten for {result.hit_at_10:.1f} %; "
        f"{result.seconds / 60:.1f} minutes.\n"
        f'Use it: kgqa ask "…" --method kg-cot --reasoner {result.folder}'
    )
