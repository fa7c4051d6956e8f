"""Multiple choice: CommonsenseQA and MedQA, as they are published (JSON lines).

The answer is the text of the right choice. What it does not do: find entities for the choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.questions.base import Question, id_of, json_lines, objects_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.questions.base import Read


def read_commonsenseqa(path: Path) -> Iterator[Read]:
    """Yield the questions of a CommonsenseQA file; the topic entity is the question's concept."""
    return json_lines(path, _commonsenseqa)


def read_medqa(path: Path) -> Iterator[Read]:
    """Yield the questions of a MedQA file; topic entities are to be linked."""
    return json_lines(path, _medqa)


def _commonsenseqa(row: dict[str, Any], number: int) -> Question:
    inner = row.get("question")
    if not isinstance(inner, dict):
        raise ValueError('"question" is no object')
    choices = {text_of(one, "label"): text_of(one, "text") for one in objects_of(inner, "choices")}
    return Question(
        id=id_of(row, "id", number),
        question=text_of(inner, "stem"),
        topic_entities=[text_of(inner, "question_concept")] if "question_concept" in inner else [],
        answers=[_chosen(choices, text_of(row, "answerKey"))],
        choices=list(dict.fromkeys(choices.values())),
    )


def _medqa(row: dict[str, Any], number: int) -> Question:
    options = row.get("options")
    if not isinstance(options, dict):
        raise ValueError('"options" is no object')
    choices = {label: text_of(options, label) for label in options}
    kind = row.get("meta_info")
    return Question(
        id=id_of(row, "realidx", number),
        question=text_of(row, "question"),
        topic_entities=[],
        answers=[_chosen(choices, text_of(row, "answer_idx"))],
        choices=list(dict.fromkeys(choices.values())),
        type=kind if isinstance(kind, str) else "",
    )


def _chosen(choices: dict[str, str], label: str) -> str:
    if label not in choices:
        raise ValueError(f'there is no choice "{label}"')
    return choices[label]
