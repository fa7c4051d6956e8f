"""Question files → questions: one reader a benchmark, for training and evaluation alike."""

from __future__ import annotations

from kgqa.questions.base import (
    BadEntry,
    OwnGraph,
    Question,
    QuestionFile,
    QuestionFormat,
    Triple,
    iter_questions,
    read_questions,
)

__all__ = [
    "BadEntry",
    "OwnGraph",
    "Question",
    "QuestionFile",
    "QuestionFormat",
    "Triple",
    "iter_questions",
    "read_questions",
]
