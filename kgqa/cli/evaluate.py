"""``kgqa eval``: answer a file of questions and measure it."""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kgqa.cli import llm
from kgqa.cli.ask import find_topics, general_llm, open_fitting_index
from kgqa.cli.common import DirectionFlag, MediatorsFlag, Run

if TYPE_CHECKING:
    from kgqa.evaluation.readers import Question
    from kgqa.evaluation.run import Result
    from kgqa.reasoning.answer import Answer


def evaluate(
    run: Run,
    form: Annotated[
        Literal["jsonl"], typer.Argument(metavar="FORMAT", help="The file's form: jsonl.")
    ],
    file: Annotated[Path, typer.Argument(help="The questions.")],
    linked: Annotated[
        bool, typer.Option("--linked", help="Find topic entities, even where the file has them.")
    ] = False,
    hops: Annotated[int | None, typer.Option(help="Hops of a path at most.", min=1)] = None,
    k: Annotated[int, typer.Option(help="Paths to decode.", min=1)] = 10,
    limit: Annotated[int | None, typer.Option(help="Only the first questions.", min=1)] = None,
    preset: Annotated[str | None, typer.Option(help="default or gcr.")] = None,
    model: Annotated[str | None, typer.Option(help="The KG-LLM.")] = None,
    adapter: Annotated[str | None, typer.Option(help="An adapter's folder, or 'none'.")] = None,
    general_model: Annotated[str | None, typer.Option(help="The general LLM.")] = None,
    direction: DirectionFlag = None,
    mediators: MediatorsFlag = None,
    out: Annotated[Path | None, typer.Option(help="A folder for a line per question.")] = None,
) -> None:
    """Answer every question of a file; figures are percentages over all of them."""
    from kgqa.cli.show import show_rows
    from kgqa.evaluation.readers import read_questions
    from kgqa.evaluation.run import run_questions, summary
    from kgqa.reasoning.gcr import GcrOptions, answer_question
    from kgqa.trie.lexicon import PathLexicon

    wanted = llm.Wanted(model, adapter, preset, hops, direction, mediators)
    wanted.check()
    questions = read_questions(file)
    if questions.complaint():
        run.note(questions.complaint())
    asked = questions.questions[:limit]
    if limit is not None:
        questions = type(questions)(asked, [])
    with ExitStack() as stack:
        store = stack.enter_context(run.open_store())
        general = general_llm(run, general_model)
        log = stack.enter_context(_Log(out))
        kg_llm = wanted.load(run)
        rules = wanted.rules(store.info, kg_llm.card)
        path_form = llm.path_format(kg_llm.card)
        lexicon = PathLexicon(kg_llm.encoder, path_form)
        key = llm.index_key(store.info, kg_llm.encoder, path_form, rules)
        index = open_fitting_index(run, store.info.name, key, wanted)
        stack.enter_context(index or nullcontext())

        def answer(question: Question) -> Answer:
            given = [] if linked else question.topic_entities
            topics = find_topics(run, store, question.question, given, told=False)
            return answer_question(
                store,
                kg_llm,
                lexicon,
                question.question,
                topics,
                rules,
                GcrOptions(k=k, score_rule=kg_llm.card.score_rule),
                index=index,
                general=general,
            )

        results = run_questions(store, asked, answer, rules, run.progress, log)
        figures = summary(questions, results, kg=store.info.name, method="gcr", form=form)
    rows = [(name, _shown(value)) for name, value in figures.items() if value is not None]
    run.print(lambda: show_rows("", ["figure", "value"], rows), figures)


class _Log:
    """Writes a line per question to ``out/results.jsonl`` as it comes."""

    def __init__(self, out: Path | None) -> None:
        self._file = None
        if out is not None:
            from kgqa.errors import UsageError

            try:
                out.mkdir(parents=True, exist_ok=True)
                self._file = (out / "results.jsonl").open("w", encoding="utf-8")
            except OSError as error:
                raise UsageError(
                    f"The results cannot be written to {out}: {error.strerror}.",
                    "Name another folder with --out.",
                ) from None

    def __enter__(self) -> _Log:
        return self

    def __call__(self, result: Result) -> None:
        if self._file is not None:
            self._file.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")
            self._file.flush()

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items())
    return f"{value:.1f}" if isinstance(value, float) else str(value)
