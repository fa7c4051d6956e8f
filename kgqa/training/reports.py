"""The reports of training, which print as JSON, and the README of a trained adapter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from kgqa.models.locate import SMOLLM
from kgqa.models.prompt import GRAPH
from kgqa.version import __version__

if TYPE_CHECKING:
    from kgqa.models.kg_llm import KgLLM
    from kgqa.training.options import TrainingSettings

_LICENCE = re.compile(r"^licen[cs]e:\s*(\S.*)$", re.MULTILINE)


class TrainingReport(BaseModel):
    """A training report; ``data`` describes the training data."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    data: dict[str, Any] = Field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``--json`` prints it."""
        figures = self.model_dump(mode="json", by_alias=True)
        data = figures.pop("data")
        return {**figures, "data": data}


class ExamplesReport(TrainingReport):
    """The number of examples written to ``file``, and of held-out ones."""

    examples: int
    held_out: int
    file: Path


class AdapterReport(TrainingReport):
    """The result of training an adapter; losses are means over completion tokens.

    ``held_out_loss``: None if nothing was held out. ``seconds``: of this process only.
    ``resumed_from``: the step of the checkpoint that the run resumed from.
    """

    folder: Path
    examples: int
    too_long: int
    steps: int
    loss: float
    held_out_loss: float | None
    seconds: float
    resumed_from: int | None = None


class LearnReport(TrainingReport):
    """The result of learning: mean log-likelihoods of held-out questions, before and after.

    ``first_before``, ``first_after``: percentage of them whose most probable relation path is
    right. ``folder``: where the ranker is, None if it was not better and not kept. ``adapter``: the
    report of training one, if requested. Without ``questions`` only phrases were read.
    """

    folder: Path | None = None
    questions: int = 0
    unusable: int = 0
    held_out: int = 0
    before: float = 0.0
    after: float = 0.0
    first_before: float = 0.0
    first_after: float = 0.0
    seconds: float
    adapter: AdapterReport | None = None


class ReasonerReport(TrainingReport):
    """The result of training a reasoner; figures on the check questions, in percent.

    ``seconds`` are of this process only, ``resumed_from`` is the step of the checkpoint that the
    run resumed from.
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


def write_readme(
    out: Path, kg_llm: KgLLM, settings: TrainingSettings, result: AdapterReport
) -> None:
    """Write the ``README.md`` of an adapter or model into ``out``."""
    what = "All weights" if settings.full else "LoRA adapter"
    card = kg_llm.card
    use = f"--model {out.name}" if settings.full else f"--adapter {out.name}"
    if GRAPH in card.prompt:  # it was tuned to write chains
        use = f"--method dog {use}"
    left_out = {"full", *(("rank", "dropout") if settings.full else ())}
    shown = {name: value for name, value in settings.fixed().items() if name not in left_out}
    held = result.held_out_loss
    lines = [
        f"# {what} of {kg_llm.name} for paths of a knowledge graph",
        "",
        f"Trained by kgqa {__version__}. It writes paths of at most {card.hops} hops, direction "
        f"{card.direction}, mediators {card.mediators}; `kgqa.json` says how it is asked. "
        f'Use it with that KG: `kgqa ask "…" {use}`.',
        "",
        "## Data",
        *(f"- {name}: {_text(value)}" for name, value in result.data.items()),
        f"- examples: {result.examples}"
        + (f" ({result.too_long} more were too long)" if result.too_long else ""),
        "",
        "## Settings",
        f"- {what.lower() if settings.full else what}, loss on the completion alone, "
        "bfloat16 by autocast",
        f"- `{json.dumps(shown)}`",
        "",
        "## Figures",
        f"- steps: {result.steps}; mean training loss {result.loss:.4f}",
        f"- held-out loss: {'none held out' if held is None else f'{held:.4f}'}",
        "",
        "## Licence",
        f"- base model: {_base_licence(kg_llm)}",
        "- what was trained is subject to the base model's licence and to that of the data.",
        "",
    ]
    (out / "README.md").write_text("\n".join(lines), "utf-8")


def _base_licence(kg_llm: KgLLM) -> str:
    """Return the base model's name with its licence, or with a hint if its folder states none."""
    if kg_llm.name == SMOLLM:
        return f"{SMOLLM}, Apache-2.0"
    readme = Path(str(kg_llm.model.config.name_or_path or "")) / "README.md"
    try:
        licence = _LICENCE.search(readme.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        licence = None
    if licence is None:
        return f"{kg_llm.name}; its folder does not say which, see where it is published"
    return f"{kg_llm.name}, {licence[1].strip()}"


def _text(value: Any) -> str:
    """Return a value as text, a list separated by commas."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
