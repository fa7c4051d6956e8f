"""A file of questions, answered and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgqa.api.qa import QA
from kgqa.errors import UsageError
from kgqa.registry import Options, option, validated

if TYPE_CHECKING:
    from kgqa.api.home import Home
    from kgqa.evaluation import Evaluation
    from kgqa.graph.store import GraphStore


class EvalOptions(Options):
    """Which questions of a file are asked, and what is kept."""

    linked: bool = option(False, "Find topic entities, even if the file has them.", flag=True)
    limit: int | None = option(None, "Only the first questions.", flag=True, ge=1)
    split: Literal["all", "validation", "rest"] = option(
        "all", "Only the fifth that is never trained on, or the other four.", flag=True
    )
    out: Path | None = option(
        None, "A folder for a line per question and the reports; a run goes on from it.", flag=True
    )


def evaluate(
    home: Home,
    store: GraphStore | None,
    file: str | Path,
    format: str,
    method: str,
    given: dict[str, Any],
) -> Evaluation:
    """Answer every question of ``file`` and measure the answers; see :meth:`kgqa.KG.evaluate`.

    ``store``: None opens the KG that the settings mean, unless each question has its own graph.
    """
    from kgqa.evaluation import evaluate as run
    from kgqa.questions import read_questions
    from kgqa.questions.base import split_of

    fields = EvalOptions.model_fields
    asked = {name: value for name, value in given.items() if name in fields}
    own_options = {name: value for name, value in given.items() if name not in fields}
    options: EvalOptions = validated(EvalOptions, asked, "an evaluation")
    session = QA(home, None, method, own_options)
    questions = split_of(read_questions(Path(file), format, options.limit), options.split)
    own_graphs = all(one.graph is not None for one in questions.questions)
    if own_graphs:
        if own_options.get("sample") is not None:
            raise UsageError(
                "`sample` names an index of a KG, and each question of this file has a graph of "
                "its own.",
                "Leave out `sample`.",
            )
        opened = None
    else:
        opened = None if store is not None else home.open_store()
        session = session.on(store or opened)  # type: ignore[arg-type]
    try:
        found = run(
            session.store,
            questions,
            lambda graph, some: session.answers(graph, some, linked=options.linked),
            session.method.rules,
            session.method.settings,
            out=options.out,
            linked=options.linked,
            k=session.options.k,
            progress=home.progress,
        )
        if cached := session.cached_calls():
            home.note(cached)
        return found
    finally:
        session.close()
        if opened is not None:
            opened.close()
