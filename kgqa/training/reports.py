"""What training reports: figures that print as JSON."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Report(BaseModel):
    """A report; ``data`` describes what was trained on."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    data: dict[str, Any] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``--json`` prints it."""
        figures = self.model_dump(mode="json", by_alias=True)
        data = figures.pop("data")
        return {**figures, "data": data}


class ExamplesReport(Report):
    """How many examples were written into ``file``, and how many are held out."""

    examples: int
    held_out: int
    file: Path


class AdapterReport(Report):
    """What a run gave: losses are means over completion tokens, ``path_accuracy`` is in percent.

    ``path_accuracy``: of ``checked`` held-out questions, those whose best path takes one of their
    gold relation paths; None if nothing was held out. ``seconds``: of this process alone.
    ``resumed_from``: the step of the checkpoint that the run went on from.
    """

    folder: Path
    examples: int
    too_long: int
    steps: int
    loss: float
    held_out_loss: float | None
    seconds: float
    path_accuracy: float | None = None
    checked: int = 0
    resumed_from: int | None = None


class ReasonerReport(Report):
    """What training a reasoner gave; figures are of the check questions, in percent.

    ``seconds`` are of this process alone, ``resumed_from`` is the step of the checkpoint that the
    run went on from.
    """

    folder: Path
    questions: int
    checked: int
    steps: int
    loss: float
    hits_at_1: float
    hit_at_10: float
    f1: float
    answer_threshold: float = Field(alias="cut")
    seconds: float
    resumed_from: int | None = None
