"""Reads training questions: JSON lines with a question, its topic entities and its answers.

Two spellings of the fields are known: the project's own (``topic_entities``, ``answers``) and that
of the published WebQSP and CWQ sets (``q_entity``, ``a_entity``, ``gold_chains``, ``sparql``).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kgqa.errors import DataError
from kgqa.training.data import TrainingQuestion

_PREDICATE = re.compile(r"\bns:([a-z][a-z0-9_]*(?:\.[a-z0-9_]+){2,})")

if TYPE_CHECKING:
    from pathlib import Path


def read_training_questions(path: Path) -> tuple[list[TrainingQuestion], list[str]]:
    """Return the questions of a JSON-lines file, and a sentence for each line that is none.

    Raises DataError where the file cannot be read or holds no question at all.
    """
    lines = read_lines(path, "question file")
    questions, faults = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            questions.append(_question(json.loads(line), f"{path.name}:{number}"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            faults.append(f"{path.name}, line {number}: {error!r} - not a question.")
    if not questions:
        raise DataError(
            f"No line of {path} is a question.",
            'A line is {"id": …, "question": …, "topic_entities": […], "answers": […]}.',
        )
    return questions, faults


def read_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a text file. Raises DataError, which names it as ``what``."""
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The {what} {path} cannot be read: {error}.", "Give a text file in UTF-8."
        ) from None


def _question(record: dict[str, object], default_id: str) -> TrainingQuestion:
    topics = record.get("topic_entities", record.get("q_entity"))
    answers = record.get("answers", record.get("a_entity"))
    text = record["question"]
    if not isinstance(text, str) or not isinstance(topics, list) or not isinstance(answers, list):
        raise TypeError("question, topic_entities and answers are a string and two lists")
    chains = record.get("gold_chains") or []
    if not isinstance(chains, list):
        raise TypeError("gold_chains is a list of lists")
    gold = {str(step) for chain in chains if chain for step in chain}
    gold.update(_PREDICATE.findall(str(record.get("sparql", ""))))
    return TrainingQuestion(
        id=str(record.get("id", default_id)),
        question=text,
        topics=tuple(str(topic) for topic in topics),
        answers=tuple(str(answer) for answer in answers),
        predicates=frozenset(gold),
    )
