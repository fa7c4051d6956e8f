"""Measuring: question files, and metrics that can be compared with published ones or trusted."""

from __future__ import annotations

from kgqa.evaluation.metrics import (
    LegacyScores,
    StrictScores,
    gcr_scores,
    mean_percent,
    rog_scores,
    strict_scores,
)
from kgqa.questions.readers import Malformed, Question, QuestionFile, read_questions

__all__ = [
    "LegacyScores",
    "Malformed",
    "Question",
    "QuestionFile",
    "StrictScores",
    "gcr_scores",
    "mean_percent",
    "read_questions",
    "rog_scores",
    "strict_scores",
]
