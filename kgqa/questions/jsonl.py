"""JSON lines of a question each: kgqa's own format, and CommonsenseQA and MedQA as published."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kgqa.questions.base import Question
from kgqa.questions.rows import Chains, Id, JsonRows, Kind, Row, Text, Texts, unique


class _OwnRow(Row):
    """A line of kgqa's format; ``relation_paths`` may replace ``answers``."""

    id: Id = ""
    question: Text
    topic_entities: Texts | None = None
    answers: Texts | None = None
    choices: Texts | None = None
    hops: Annotated[int, Field(strict=True, ge=0)] | None = None
    type: Text | None = None
    relation_paths: Chains | None = None

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        paths = [tuple(path) for path in self.relation_paths or ()]
        if self.answers is None and not paths:
            raise ValueError('"answers" is missing')
        return Question(
            id=self.id,
            question=self.question,
            topic_entities=self.topic_entities or [],
            answers=self.answers or [],
            choices=self.choices or [],
            hops=self.hops,
            type=self.type or "",
            relation_paths=list(dict.fromkeys(paths)),
        )


class JsonLines(JsonRows):
    """``{id?, question, topic_entities?, answers, choices?, hops?, type?, relation_paths?}``."""

    row = _OwnRow


class _Choice(Row):
    """A labelled choice."""

    label: Text
    text: Text


class _Stem(Row):
    """CommonsenseQA's question text with its concept and choices."""

    stem: Text
    question_concept: Text | None = None
    choices: list[_Choice]


class _CommonsenseRow(Row):
    """A line of CommonsenseQA."""

    id: Id = ""
    question: _Stem
    answer_key: Text = Field(alias="answerKey")

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        choices = {choice.label: choice.text for choice in self.question.choices}
        concept = self.question.question_concept
        return Question(
            id=self.id,
            question=self.question.stem,
            topic_entities=[] if concept is None else [concept],
            answers=[_choice_text(choices, self.answer_key)],
            choices=unique(list(choices.values())),
        )


class _MedRow(Row):
    """A line of MedQA."""

    realidx: Id = ""
    question: Text
    options: dict[str, Text]
    answer_idx: Text
    meta_info: Kind = ""

    def to_question(self) -> Question:
        """Convert the row to a question. Raises ValueError."""
        return Question(
            id=self.realidx,
            question=self.question,
            topic_entities=[],
            answers=[_choice_text(self.options, self.answer_idx)],
            choices=unique(list(self.options.values())),
            type=self.meta_info,
        )


class CommonsenseQA(JsonRows):
    """CommonsenseQA; the topic entity is the question's concept."""

    row = _CommonsenseRow


class MedQA(JsonRows):
    """MedQA (USMLE); it does not name topic entities."""

    row = _MedRow


def _choice_text(choices: dict[str, str], label: str) -> str:
    """Return the text of the choice with a label. Raises ValueError."""
    if label not in choices:
        raise ValueError(f'"{label}" is not one of the choices')
    return choices[label]
