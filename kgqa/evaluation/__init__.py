"""Measuring: a run over a file of questions, its figures and reports, and comparing two runs."""

from __future__ import annotations

from kgqa.evaluation.compare import Comparison, compare_runs
from kgqa.evaluation.run import Evaluation, evaluate

__all__ = ["Comparison", "Evaluation", "compare_runs", "evaluate"]
