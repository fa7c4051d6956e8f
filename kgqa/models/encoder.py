"""Loading only what tries need of a KG-LLM: its tokenizer and its card, without the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.errors import ModelError
from kgqa.models.adapter import AdapterCard, read_card
from kgqa.models.kg_llm import adapter_folder, make_special, own_card
from kgqa.models.locate import locate_model
from kgqa.models.quiet import quiet
from kgqa.models.tokenizer import HFEncoder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.progress import Progress


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """A tokenizer, as the model named ``name`` under ``card`` uses it."""

    name: str
    card: AdapterCard
    encoder: HFEncoder


def load_encoder(
    model: str | None, adapter: str | None, *, cache: Path, progress: Progress
) -> LoadedEncoder:
    """Return the encoder that :func:`kgqa.models.kg_llm.load_kg_llm` would give, in less time.

    Raises what that raises, but for the weights, which are not looked at.
    """
    from transformers import AutoConfig, AutoTokenizer

    folder = adapter_folder(model, adapter)
    card = read_card(folder) if folder else None
    located = locate_model(model, cache, progress)
    if card is None:
        card = own_card(located.folder)
    with quiet():
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(located.folder, local_files_only=True)
            config: Any = AutoConfig.from_pretrained(located.folder, local_files_only=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(
                f"The tokenizer in {located.folder} cannot be loaded: {reason}.",
                "Its files are damaged or cut short, or transformers does not know it.",
            ) from error
        make_special(tokenizer, card)
    width = max(len(tokenizer), config.get_text_config().vocab_size)
    return LoadedEncoder(located.name, card, HFEncoder(tokenizer, vocab_size=width))
