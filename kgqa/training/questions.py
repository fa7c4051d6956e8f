"""Question files as training reads them, and what their questions are in a graph.

Every format is read by :mod:`kgqa.questions`. For training, JSON lines may also have the spellings
of published sets (``q_entity``, ``a_entity``, ``gold_chains``, ``sparql``), or gold relation paths
without answers, and their topic entities may stand in a file of their own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgqa.errors import DataError, EntityNotFoundError
from kgqa.linking.resolve import resolve_entity
from kgqa.questions.base import Malformed, Question
from kgqa.questions.meanings import known_topics, meanings_of
from kgqa.questions.readers import read_questions
from kgqa.training.data import TrainingQuestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.progress import Progress

_WITH_QUERIES = ("webqsp-graph", "cwq-graph")  # formats whose lines have gold queries
_PREDICATE = re.compile(r"\bns:([a-z][a-z0-9_]*(?:\.[a-z0-9_]+){2,})")
_TOPICS = ("topic_entities", "q_entity", "freebase_ids")  # as sets and linkers call them
_SHOWN = 5  # malformed lines that are noted


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """The questions of a file, and the predicates of their gold queries by question id.

    ``loose``: in a question without answers the gold relation paths do not say in which direction a
    predicate is walked.
    """

    questions: list[Question]
    malformed: list[Malformed]
    queries: Mapping[str, frozenset[str]] = field(default_factory=dict)
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
        predicates = steps | self.queries.get(question.id, frozenset())
        return TrainingQuestion(
            id=question.id,
            question=question.question,
            topics=tuple(dict.fromkeys(topics)),
            answers=tuple(answers.same),
            predicates=frozenset() if loose else frozenset(predicates),
            relation_paths=tuple(question.relation_paths),
            loose=loose,
        )


def read_file(path: Path, form: str, topics: Path | None, progress: Progress) -> TrainingFile:
    """Return the questions of a file; malformed lines are noted.

    ``topics``: a file of topic entities, for JSON lines that name none. Raises DataError if a file
    cannot be read or holds no question, UsageError for an unknown format.
    """
    if form == "jsonl":
        file = _read_json_lines(path, read_topics(topics) if topics is not None else {})
    else:
        read = read_questions(path, form)
        graphs = form in _WITH_QUERIES
        queries = _queries(path) if graphs else {}
        file = TrainingFile(read.questions, read.malformed, queries, loose=graphs)
    for fault in file.malformed[:_SHOWN]:
        progress.note(f"{fault} - not a question.")
    if (more := len(file.malformed) - _SHOWN) > 0:
        progress.note(f"And {more:,} more lines that are not questions.")
    return file


def read_topics(path: Path) -> dict[str, dict[str, str]]:
    """Return the topic entities of questions by id: a JSON list, or lines, of ``{id, …}``.

    They stand under ``topic_entities``, ``q_entity`` or ``freebase_ids``, and are given with their
    names, as far as the file has them (``names``, or the first of each ``pred_tuples_string``, as
    the ELQ linker writes them); else "". Raises DataError if the file cannot be read or a record in
    it is of another form.
    """
    lines = read_lines(path, "file of topic entities")
    text = "\n".join(lines)
    hint = 'It holds records like {"id": "1", "topic_entities": ["m.02mjmr"]}.'
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError as error:
        raise DataError(f"The file of topic entities {path} is not JSON: {error}.", hint) from None
    found = {}
    if records is None:
        records = [line for line in lines if line.strip()]
    for number, one in enumerate(records, 1):
        try:
            record = json.loads(one) if isinstance(one, str) else one
            topics = record[next(name for name in _TOPICS if name in record)]
            names = record.get("names") or [two[0] for two in record.get("pred_tuples_string", [])]
            if len(names) != len(topics):
                names = [""] * len(topics)
            if not all(isinstance(text, str) for text in (*topics, *names)):
                raise TypeError
            found[str(record["id"])] = dict(zip(topics, names, strict=True))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration):
            raise DataError(
                f"Record {number} of the file of topic entities {path} names none.", hint
            ) from None
    return found


def read_lines(path: Path, what: str) -> list[str]:
    r"""Return the lines of a text file, ended by ``\n``. Raises DataError, which names it ``what``.

    Other separators that Unicode knows may stand inside a JSON string.
    """
    try:
        return path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The {what} {path} cannot be read: {error}.", "Give a text file in UTF-8."
        ) from None


def _read_json_lines(path: Path, topics: Mapping[str, Mapping[str, str]]) -> TrainingFile:
    found: dict[str, tuple[int, Question]] = {}
    malformed: list[Malformed] = []
    queries: dict[str, frozenset[str]] = {}
    for number, record in _records(path):
        try:
            if not isinstance(record, dict):
                raise ValueError("not JSON" if record is None else "not a JSON object")
            question = _question(record, str(number), topics)
            if question.id in found:
                raise ValueError(f'the id "{question.id}" was used in line {found[question.id][0]}')
        except ValueError as error:
            malformed.append(Malformed(path.name, number, str(error)))
            continue
        found[question.id] = number, question
        queries[question.id] = _predicates(record)
    if not found:
        first = f" {malformed[0]}." if malformed else ""
        raise DataError(
            f"No line of {path} is a question.{first}",
            'A line is {"id": …, "question": …, "topic_entities": […], "answers": […]}; '
            "relation_paths may stand for answers.",
        )
    return TrainingFile([one for _, one in found.values()], malformed, queries, loose=True)


def _queries(path: Path) -> dict[str, frozenset[str]]:
    """Return the predicates of the gold queries in a file, by question id."""
    return {
        str(record.get("id", number)): _predicates(record)
        for number, record in _records(path)
        if isinstance(record, dict)
    }


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the JSON value of each line, None if it is not JSON."""
    for number, line in enumerate(read_lines(path, "question file"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _predicates(record: dict[str, Any]) -> frozenset[str]:
    return frozenset(_PREDICATE.findall(str(record.get("sparql", ""))))


def _question(
    record: dict[str, Any], default_id: str, topics: Mapping[str, Mapping[str, str]]
) -> Question:
    """Return the question of a record. Raises ValueError that says what is wrong with it."""
    text = record.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('no text in "question"')
    name = str(record.get("id", default_id))
    given = topics.get(name, {})
    own = next((_texts(record, one) for one in _TOPICS if one in record), None)
    paths = [*_paths(record, "relation_paths"), *_paths(record, "gold_chains")]
    answers = next((_texts(record, one) for one in ("answers", "a_entity") if one in record), [])
    if not (own or (own is None and given)):
        raise ValueError("no topic entity")
    if not answers and not record.get("relation_paths"):
        raise ValueError('neither "answers" nor "relation_paths"')
    return Question(
        id=name,
        question=text,
        topic_entities=list(given) if own is None else own,
        answers=answers,
        relation_paths=list(dict.fromkeys(paths)),
        names={id_: name for id_, name in given.items() if name},
    )


def _texts(record: dict[str, Any], name: str) -> list[str]:
    values = record.get(name)
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f'"{name}" is not a list of texts')
    return list(dict.fromkeys(one.strip() for one in values if one.strip()))


def _paths(record: dict[str, Any], name: str) -> list[tuple[str, ...]]:
    paths = record.get(name) or []
    if not isinstance(paths, list):
        raise ValueError(f'"{name}" is not a list of lists')
    paths = [path for path in paths if path]  # null stands for a parse without one
    if not all(isinstance(p, list) and all(isinstance(one, str) for one in p) for p in paths):
        raise ValueError(f'"{name}" is not a list of lists of texts')
    return [tuple(path) for path in paths]
