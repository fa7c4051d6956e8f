"""A file of questions, answered and measured."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.api.qa import QA
from kgqa.api.workers import WorkerOptions
from kgqa.errors import GraphError
from kgqa.progress import Silent
from kgqa.records import record_line
from kgqa.registry import flag, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kgqa.api.home import Home
    from kgqa.evaluation import Evaluation
    from kgqa.evaluation.query_run import QueryEvaluation
    from kgqa.evaluation.run import WorkerRecords
    from kgqa.graph.model import KGInfo
    from kgqa.graph.store import GraphStore
    from kgqa.questions import Question

    Measured: TypeAlias = Evaluation | QueryEvaluation


class EvalOptions(WorkerOptions):
    """Which questions of a file to ask, the method that answers them, and the files to keep."""

    linked: bool = flag(False, "Find topic entities, even if the file has them.")
    limit: int | None = flag(None, "Only the first questions.", ge=1)
    split: Literal["all", "validation", "rest"] = flag(
        "all", "Only the fifth that is never trained on, or the other four."
    )
    out: Path | None = flag(
        None, "Folder for the answers and reports; a stopped run continues from it."
    )


def evaluate(
    home: Home,
    store: GraphStore | None,
    file: str | Path,
    format: str,
    method: str,
    given: dict[str, Any],
) -> Measured:
    """Ask every question of ``file`` and measure the answers; see :meth:`kgqa.KG.evaluate`.

    ``store``: None opens the KG of the settings, unless each question has its own graph.
    """
    from kgqa.evaluation.query_run import QUERY_FORMAT
    from kgqa.evaluation.run import EvaluationWorkers
    from kgqa.evaluation.run import evaluate as run
    from kgqa.questions import read_questions
    from kgqa.questions.base import split_of

    own_options = dict(given)
    options: EvalOptions = taken(EvalOptions, own_options, "an evaluation")
    session = QA(home, None, method, own_options)
    if format == QUERY_FORMAT:
        return _evaluate_queries(home, store, Path(file), session, options)
    questions = split_of(read_questions(Path(file), format, options.limit), options.split)
    own_graphs = all(question.graph is not None for question in questions.questions)
    opened = None
    if not own_graphs:
        opened = None if store is not None else home.open_store()
        session = session.on(store or opened)  # type: ignore[arg-type]
    executor = options.executor()
    workers = None
    if options.engine == "ray" or executor.workers != 1:
        info = session.store.info if session.store is not None else None
        asking = partial(_asking, _worker_home(home), info, method, own_options, options.linked)
        workers = EvaluationWorkers(executor, asking)
    try:
        query_result = run(
            session.store,
            questions,
            lambda graph, some: session.answers(graph, some, linked=options.linked),
            session.method.rules,
            session.method.settings,
            out=options.out,
            linked=options.linked,
            k=session.options.k,
            progress=home.progress,
            workers=workers,
        )
        calls, cached = session.calls() if workers is None else (workers.calls, workers.cached)
        if cached:
            home.note(
                f"{cached:,} of {cached + calls:,} calls of the general LLM had been answered "
                "before and were not made again (set `cache_calls` to false to make them)."
            )
        return query_result
    finally:
        session.close()
        if opened is not None:
            opened.close()


def _evaluate_queries(
    home: Home, store: GraphStore | None, file: Path, session: QA, options: EvalOptions
) -> QueryEvaluation:
    """Evaluate questions with gold queries, and write the results if ``out`` is set.

    See :mod:`kgqa.evaluation.query_run`.
    """
    import json

    from kgqa.evaluation.query_run import evaluate_queries, read_gold

    gold = read_gold(file, options.limit)
    opened = None if store is not None else home.open_store()
    try:
        graph: Any = store or opened
        with session.on(graph) as asked:
            measured = evaluate_queries(graph, gold, asked.ask, home.progress, session.name)
    finally:
        if opened is not None:
            opened.close()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        figures, answers = options.out / "figures.json", options.out / "answers.jsonl"
        figures.write_text(json.dumps(measured.figures, indent=1), "utf-8")
        lines = [record_line(record) for record in measured.records]
        answers.write_text("".join(lines), "utf-8")
        measured.reports = (figures, answers)
    return measured


def _worker_home(home: Home) -> Home:
    """Return a home for worker processes: absolute paths, and no progress shown."""
    other = copy(home)
    other.progress, other.models = Silent(), None
    other.settings = home.settings.model_copy(
        update={
            "home": home.settings.home.absolute(),
            "cache": home.settings.cache_folder.absolute(),
        }
    )
    return other


@contextmanager
def _asking(
    home: Home, info: KGInfo | None, method: str, options: dict[str, Any], linked: bool
) -> Iterator[Callable[[Sequence[Question]], WorkerRecords]]:
    """Open the KG and a session in a worker; yield the function that asks a batch of questions.

    ``info``: of the KG, None if each question has its own graph; ``linked``: link topic entities
    even if given. Raises GraphError if the KG here has another version.
    """
    from kgqa.evaluation.run import Asking, WorkerRecords
    from kgqa.graph.open import open_store

    notes = home.progress.notes  # type: ignore[attr-defined]
    with ExitStack() as stack:
        session = stack.enter_context(QA(home, None, method, options))
        if info is not None:
            store = stack.enter_context(open_store(home.url, info.name, **home.account))
            if store.info.version != info.version:
                raise GraphError(
                    f"The graph {store.url} holds another version of {info.name} than the one for "
                    "which this run was started.",
                    "Every worker must read the same graph.",
                )
            session = stack.enter_context(session.on(store))
        run = Asking(
            lambda graph, some: session.answers(graph, some, linked=linked),
            session.method.rules,
            linked,
            session.options.k,
        )
        notes.clear()  # the process that started the run has shown them

        def ask(questions: Sequence[Question]) -> WorkerRecords:
            """Ask a batch of questions; return their records, with notes and counts of calls."""
            run.proven, (calls, cached) = [], session.calls()
            records = list(run.records(session.store, questions))
            new_calls, new_cached = session.calls()
            new_notes = list(notes)
            notes.clear()
            return WorkerRecords(
                records, run.proven, new_notes, new_calls - calls, new_cached - cached
            )

        yield ask
