"""JSON lines of a question each: kgqa's own format, and CommonsenseQA and MedQA as published."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kgqa.questions.base import Question
from kgqa.questions.rows import Chains, Id, JsonRows, Kind, Row, Text, Texts, unique


class _OwnRow(Row):
    """A line; ``relation_paths`` may stand for ``answers``."""

    id: Id = ""
    question: Text
    topic_entities: Texts | None = None
    answers: Texts | None = None
    choices: Texts | None = None
    hops: Annotated[int, Field(strict=True, ge=0)] | None = None
    type: Text | None = None
    relation_paths: Chains | None = None

    def to_question(self) -> Question:
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
    label: Text
    text: Text


class _Stem(Row):
    stem: Text
    question_concept: Text | None = None
    choices: list[_Choice]


class _CommonsenseRow(Row):
    id: Id = ""
    question: _Stem
    answer_key: Text = Field(alias="answerKey")

    def to_question(self) -> Question:
        choices = {choice.label: choice.text for choice in self.question.choices}
        concept = self.question.question_concept
        return Question(
            id=self.id,
            question=self.question.stem,
            topic_entities=[] if concept is None else [concept],
            answers=[_chosen(choices, self.answer_key)],
            choices=unique(list(choices.values())),
        )


class _MedRow(Row):
    realidx: Id = ""
    question: Text
    options: dict[str, Text]
    answer_idx: Text
    meta_info: Kind = ""

    def to_question(self) -> Question:
        return Question(
            id=self.realidx,
            question=self.question,
            topic_entities=[],
            answers=[_chosen(self.options, self.answer_idx)],
            choices=unique(list(self.options.values())),
            type=self.meta_info,
        )


class CommonsenseQA(JsonRows):
    """CommonsenseQA; the topic entity is the question's concept."""

    row = _CommonsenseRow


class MedQA(JsonRows):
    """MedQA (USMLE); it does not name topic entities."""

    row = _MedRow


def _chosen(choices: dict[str, str], label: str) -> str:
    if label not in choices:
        raise ValueError(f'"{label}" is not one of the choices')
    return choices[label]
