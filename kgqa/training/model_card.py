"""The README of what was trained: data, settings, figures, and whose licence holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.models.offline import SMOLLM
from kgqa.models.prompt import GRAPH
from kgqa.version import __version__

if TYPE_CHECKING:
    from kgqa.models.kg_llm import KgLLM
    from kgqa.training.options import TrainingSettings
    from kgqa.training.reports import AdapterReport

_LICENCE = re.compile(r"^licen[cs]e:\s*(\S.*)$", re.MULTILINE)
_LORA_ALONE = ("rank", "dropout")
_NO_MATTER = ("checkpoint_every", "check_every", "check_questions", "full")


def write_readme(
    out: Path, kg_llm: KgLLM, settings: TrainingSettings, result: AdapterReport
) -> None:
    """Write ``README.md`` into ``out``."""
    what = "All weights" if settings.full else "LoRA adapter"
    card = kg_llm.card
    use = f"--model {out.name}" if settings.full else f"--adapter {out.name}"
    if GRAPH in card.prompt:  # it was tuned to write chains
        use = f"--method dog {use}"
    left_out = {*_NO_MATTER, *(_LORA_ALONE if settings.full else ())}
    shown = settings.model_dump(exclude=left_out)
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
        f"- held-out loss: {_or_none(result.held_out_loss, '.4f')}",
        f"- path accuracy: {_accuracy(result)}",
        "",
        "## Licence",
        f"- base model: {base_licence(kg_llm)}",
        "- what was trained is subject to the base model's licence and to that of the data.",
        "",
    ]
    (out / "README.md").write_text("\n".join(lines), "utf-8")


def base_licence(kg_llm: KgLLM) -> str:
    """Return the licence of a base model as far as its own folder says it."""
    if kg_llm.name == SMOLLM:
        return f"{SMOLLM}, Apache-2.0"
    readme = Path(str(kg_llm.model.config.name_or_path or "")) / "README.md"
    try:
        found = _LICENCE.search(readme.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        found = None
    if found is None:
        return f"{kg_llm.name}; its folder does not say which, see where it is published"
    return f"{kg_llm.name}, {found[1].strip()}"


def _accuracy(result: AdapterReport) -> str:
    if result.path_accuracy is None:
        return "not measured"
    return (
        f"{result.path_accuracy:.1f} % of {result.checked} held-out questions (the best path under "
        "the constraint takes a gold relation path)"
    )


def _or_none(value: float | None, form: str) -> str:
    return "none held out" if value is None else format(value, form)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
