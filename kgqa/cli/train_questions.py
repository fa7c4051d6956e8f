"""Question files → training questions, with the entities that their texts mean in a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.cli.common import Run
    from kgqa.graph.store import GraphStore
    from kgqa.questions import Question
    from kgqa.training.data import TrainingQuestion

TrainForm = Literal[
    "jsonl",
    "webqsp",
    "webqsp-graph",
    "cwq-graph",
    "rog",
    "metaqa",
    "pathquestion",
    "commonsenseqa",
    "2wiki",
]
_WITH_QUERIES = ("webqsp-graph", "cwq-graph")  # their gold queries tell predicates, too
_SHOWN = 5  # lines named in one note


def read_file(
    run: Run, path: Path, form: TrainForm, topics_file: Path | None
) -> tuple[list[Question], Callable[[GraphStore, Question], TrainingQuestion]]:
    """Return the questions of a file, and what makes a training question of each in a graph."""
    from kgqa.questions import Question, read_questions
    from kgqa.training.questions import read_topics, read_training_questions

    known: dict[str, TrainingQuestion] = {}
    if form == "jsonl" or form in _WITH_QUERIES:
        topics = read_topics(topics_file) if topics_file is not None else None
        plain, faults = read_training_questions(path, topics)
        known = {one.id: one for one in plain}
        if form == "jsonl":
            _tell(run, faults)
            questions = [
                Question(
                    id=one.id,
                    question=one.question,
                    topic_entities=list(one.topics),
                    answers=list(one.answers),
                    relation_paths=list(one.relation_paths),
                    names={
                        id_: name for id_, name in (topics or {}).get(one.id, {}).items() if name
                    },
                )
                for one in plain
            ]
            return questions, lambda store, one: _resolved(store, one, known.get(one.id))
    file = read_questions(path, form)
    _tell(run, [str(one) + " - not a question." for one in file.bad_entries])
    return file.questions, lambda store, one: _resolved(store, one, known.get(one.id))


def _tell(run: Run, faults: Sequence[str]) -> None:
    for fault in faults[:_SHOWN]:
        run.note(fault)
    if len(faults) > _SHOWN:
        run.note(f"And {len(faults) - _SHOWN:,} more lines that are no questions.")


def _resolved(
    store: GraphStore, question: Question, plain: TrainingQuestion | None
) -> TrainingQuestion:
    """Return the question with the ids of its entities, found as `kgqa eval` finds them."""
    from kgqa.errors import EntityNotFoundError
    from kgqa.linking.resolve import resolve_entity
    from kgqa.questions.meanings import known_topics, meanings_of
    from kgqa.training.data import TrainingQuestion

    topics = []
    for text in known_topics(store, question):
        try:
            topics.append(resolve_entity(store, text).id)
        except EntityNotFoundError:
            continue  # the report counts the question where none is left
    answers = meanings_of(store, question.answers, question.names)
    gold = {step.removeprefix("^") for path in question.relation_paths for step in path}
    return TrainingQuestion(
        id=question.id,
        question=question.question,
        topics=tuple(dict.fromkeys(topics)),
        answers=tuple(answers.same),
        predicates=plain.predicates if plain is not None else frozenset(gold),
        relation_paths=tuple(question.relation_paths),
        loose=plain is not None and plain.loose,
    )
