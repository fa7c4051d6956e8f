"""Questions of a file as training reads them, and what they are in a graph."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgqa.errors import DataError, EntityNotFoundError
from kgqa.linking.resolve import resolve_entity
from kgqa.questions import Question, read_questions
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.questions.rows import file_lines
from kgqa.training.data import TrainingQuestion

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.progress import Progress

# formats whose gold relation paths, in a question without answers, do not say in which direction
# a predicate is walked
_LOOSE = ("jsonl", "webqsp-graph", "cwq-graph")
_TOPICS = ("topic_entities", "q_entity", "freebase_ids")  # as sets and linkers call them
_SHOWN = 5  # entries that are noted


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """The questions of a file; ``loose``: its gold relation paths alone tell no directions."""

    questions: list[Question]
    loose: bool = False

    def in_graph(self, store: GraphStore, question: Question) -> TrainingQuestion:
        """Return a question with the ids of its entities, found as evaluation finds them."""
        topics = []
        for text in known_topics(store, question):
            try:
                topics.append(resolve_entity(store, text).id)
            except EntityNotFoundError:
                continue  # the report counts the question if none is left
        answers = meanings_of(store, question.answers, question.names)
        loose = self.loose and not question.answers
        steps = {step.removeprefix("^") for path in question.relation_paths for step in path}
        return TrainingQuestion(
            id=question.id,
            question=question.question,
            topics=tuple(dict.fromkeys(topics)),
            answers=tuple(answers.same),
            predicates=frozenset() if loose else frozenset({*steps, *question.predicates}),
            relation_paths=tuple(question.relation_paths),
            loose=loose,
        )


def read_file(path: Path, form: str, topics: Path | None, progress: Progress) -> TrainingFile:
    """Return the questions of a file; entries that cannot be read are noted.

    ``topics``: a file of topic entities, for questions that name none. Raises DataError if a file
    cannot be read or holds no question, UsageError for an unknown format.
    """
    file = read_questions(path, form)
    for entry in file.bad_entries[:_SHOWN]:
        progress.note(f"{entry} - not a question.")
    if (more := len(file.bad_entries) - _SHOWN) > 0:
        progress.note(f"And {more:,} more entries that are not questions.")
    questions = list(file.questions)
    if topics is not None:
        given = read_topics(topics)
        for place, question in enumerate(questions):
            if not question.topic_entities:
                about = given.get(question.id, {})
                names = {id_: name for id_, name in about.items() if name}
                questions[place] = replace(question, topic_entities=list(about), names=names)
    return TrainingFile(questions, loose=form in _LOOSE)


def read_topics(path: Path) -> dict[str, dict[str, str]]:
    """Return the topic entities of questions by id: a JSON list, or lines, of ``{id, …}``.

    They are given with their names, as far as the file has them (``names``, or the first of each
    ``pred_tuples_string``, as the ELQ linker writes them); else "". Raises DataError.
    """
    lines = file_lines(path, "file of topic entities")
    text = "\n".join(lines)
    hint = 'It holds records like {"id": "1", "topic_entities": ["m.02mjmr"]}.'
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError as error:
        raise DataError(f"The file of topic entities {path} is not JSON: {error}.", hint) from None
    topics_by_id = {}
    if records is None:
        records = [line for line in lines if line.strip()]
    for number, entry in enumerate(records, 1):
        try:
            record = json.loads(entry) if isinstance(entry, str) else entry
            topics = record[next(name for name in _TOPICS if name in record)]
            names = record.get("names") or [two[0] for two in record.get("pred_tuples_string", [])]
            if len(names) != len(topics):
                names = [""] * len(topics)
            if not all(isinstance(text, str) for text in (*topics, *names)):
                raise TypeError
            topics_by_id[str(record["id"])] = dict(zip(topics, names, strict=True))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration):
            raise DataError(
                f"Record {number} of the file of topic entities {path} names none.", hint
            ) from None
    return topics_by_id
