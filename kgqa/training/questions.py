"""Reads training questions: JSON lines with a question, its topic entities and its answers.

Two spellings of the fields are known: the project's own (``topic_entities``, ``answers``,
``relation_paths``) and that of the published WebQSP and CWQ sets (``q_entity``, ``a_entity``,
``gold_chains``, ``sparql``). Sets of gold relation paths without answers are read too; their topic
entities may lie in a file of their own. What it does not do: look entities up.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kgqa.errors import DataError
from kgqa.training.data import TrainingQuestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_PREDICATE = re.compile(r"\bns:([a-z][a-z0-9_]*(?:\.[a-z0-9_]+){2,})")
_TOPICS = ("topic_entities", "q_entity", "freebase_ids")  # as sets and linkers call them


def read_training_questions(
    path: Path, topics: Mapping[str, Iterable[str]] | None = None
) -> tuple[list[TrainingQuestion], list[str]]:
    """Return the questions of a JSON-lines file, and a sentence for each line that is none.

    ``topics``: the topic entities of a question by its id, for lines that name none. A line with
    ``relation_paths`` and without answers is a question too. An id that is missing is the line's
    number. Raises DataError where the file cannot
    be read or holds no question at all.
    """
    lines = read_lines(path, "question file")
    questions: list[TrainingQuestion] = []
    faults: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            question = _question(json.loads(line), str(number), topics or {})
            if question.id in seen:
                raise ValueError(f'the id "{question.id}" was used in line {seen[question.id]}')
        except (ValueError, TypeError, AttributeError) as error:
            reason = "no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            faults.append(f"{path.name}, line {number}: {reason} - not a question.")
            continue
        seen[question.id] = number
        questions.append(question)
    if not questions:
        first = f" {faults[0]}" if faults else ""
        raise DataError(
            f"No line of {path} is a question.{first}",
            'A line is {"id": …, "question": …, "topic_entities": […], "answers": […]}; '
            "relation_paths may stand for answers.",
        )
    return questions, faults


def read_topics(path: Path) -> dict[str, dict[str, str]]:
    """Return the topic entities of questions by id: a JSON list, or lines, of ``{id, …}``.

    They stand under ``topic_entities``, ``q_entity`` or ``freebase_ids``, and are given with their
    names, as far as the file has them (``names``, or the first of each ``pred_tuples_string``, as
    the ELQ linker writes them); else "". Raises DataError where the file cannot be read or a record
    in it is of another form.
    """
    lines = read_lines(path, "file of topic entities")
    text = "\n".join(lines)
    hint = 'It holds records like {"id": "1", "topic_entities": ["m.02mjmr"]}.'
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError as error:
        raise DataError(f"The file of topic entities {path} is no JSON: {error}.", hint) from None
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


def _question(
    record: dict[str, Any], default_id: str, given: Mapping[str, Iterable[str]]
) -> TrainingQuestion:
    """Return the question of a record. Raises ValueError that says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    text = record.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('no text in "question"')
    name = str(record.get("id", default_id))
    paths = _paths(record, "relation_paths")
    chains = _paths(record, "gold_chains")
    topics = next((_texts(record, one) for one in _TOPICS if one in record), None)
    topics = list(given.get(name, ())) if topics is None else topics
    if not topics:
        raise ValueError("no topic entity")
    answers = next((_texts(record, one) for one in ("answers", "a_entity") if one in record), [])
    if not answers and not paths:
        raise ValueError('neither "answers" nor "relation_paths"')
    gold = {step.removeprefix("^") for path in (*paths, *chains) for step in path}
    gold.update(_PREDICATE.findall(str(record.get("sparql", ""))))
    return TrainingQuestion(
        id=name,
        question=text,
        topics=tuple(topics),
        answers=tuple(answers),
        predicates=frozenset(gold) if answers else frozenset(),
        relation_paths=tuple(dict.fromkeys((*paths, *chains))),
        loose=not answers,
    )


def _texts(record: dict[str, Any], name: str) -> list[str]:
    values = record.get(name)
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError(f'"{name}" is no list of texts')
    return list(dict.fromkeys(one.strip() for one in values if one.strip()))


def _paths(record: dict[str, Any], name: str) -> list[tuple[str, ...]]:
    paths = record.get(name) or []
    if not isinstance(paths, list):
        raise ValueError(f'"{name}" is no list of lists')
    paths = [path for path in paths if path]  # null stands for a parse without one
    if not all(isinstance(p, list) and all(isinstance(one, str) for one in p) for p in paths):
        raise ValueError(f'"{name}" is no list of lists of texts')
    return [tuple(path) for path in paths]
