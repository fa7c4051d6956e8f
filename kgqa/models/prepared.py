"""Opening a KG-LLM for questions: with this project's forward pass if it is a Llama.

On a GPU it is loaded as any other, and its weights change hands. On the CPU it is loaded as any
other once, by transformers and peft. What came of that, its weights with the adapter merged in, is
kept in the cache as one file, and later runs map it and import neither library. The folder's name
holds the paths, sizes and times of change of all files that it was made from: one that was changed,
or another adapter, makes another.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kgqa.models import llama
from kgqa.models.device import pick_device
from kgqa.models.kg_llm import PLANS_FILE, TOKENIZER, KgLLM, Quantize, chosen, load_kg_llm
from kgqa.models.locate import forget_others, kept_folder, write_once
from kgqa.models.tokenizer import BareEncoder, BareTokenizer, HFEncoder, bare_encoder

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.progress import Progress

_LAYOUT = 1  # raise it when what is kept changes
_MOST = 2 << 30  # bytes of weights that are kept twice
_WEIGHTS, _ABOUT = "weights.safetensors", "about.json"
_log = logging.getLogger("kgqa")


def open_kg_llm(
    model: str | None,
    adapter: str | None,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    quantize: Quantize | None = None,
) -> KgLLM:
    """Open a KG-LLM for decoding; arguments and errors as of :func:`load_kg_llm`.

    The model is a :class:`kgqa.models.llama.Llama` where possible, whose weights are then cached
    for the CPU; otherwise one of transformers.
    """
    folder, card, located = chosen(model, adapter, cache, progress)
    config = _config(located.folder)
    where = pick_device(device)
    own = quantize is None and llama.reads(config)
    if own and where.type == "cuda":
        loaded = load_kg_llm(model, adapter, device=device, cache=cache, progress=progress)
        _log.debug("%s is run by kgqa's own forward pass on %s", loaded.name, where)
        taken = llama.Llama(loaded.model.config.to_dict(), llama.fused(loaded.model, taken=True))
        return replace(loaded, model=taken)
    sizes = [file.stat().st_size for file in located.folder.glob("*.safetensors")]
    # what is kept lies on disk a second time, which large weights are not worth
    if not own or where.type != "cpu" or not 0 < sum(sizes) <= _MOST:
        _log.debug("%s is run by transformers", located.name)
        return load_kg_llm(
            model, adapter, device=device, cache=cache, progress=progress, quantize=quantize
        )
    sources = [located.folder, *([folder] if folder else [])]
    kept = kept_folder(cache, f"asked-{located.name}", sources, _LAYOUT)
    if not kept.is_dir():
        loaded = load_kg_llm(model, adapter, device=device, cache=cache, progress=progress)
        assert isinstance(loaded.encoder, HFEncoder)
        bare = bare_encoder(loaded.encoder)
        if bare is None:
            _log.debug("%s is run by transformers: its tokenizer needs it", located.name)
            return loaded
        about = {
            "config": loaded.model.config.to_dict(),
            "encoder": bare.known(),
            "chat_template": loaded.tokenizer.chat_template,
        }
        with progress.task(f"keeping {located.name} as it is asked (once)"):
            content = (llama.fused(loaded.model), bare.serialised, json.dumps(about))
            write_once(kept, f"The model {located.name}", lambda into: _write(into, *content))
        forget_others(kept)
    _log.debug("%s is run by kgqa's own forward pass", located.name)
    about = json.loads((kept / _ABOUT).read_text("utf-8"))
    encoder = BareEncoder((kept / TOKENIZER).read_text("utf-8"), about["encoder"])
    return KgLLM(
        name=located.name,
        adapter=folder.name if folder else None,
        card=card,
        model=llama.Llama(about["config"], _mapped(kept / _WEIGHTS)),
        tokenizer=BareTokenizer(encoder, located.folder, about["chat_template"]),
        encoder=encoder,
        device=where,
        plans=cache / PLANS_FILE,
    )


def _config(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's ``config.json``, {} if it cannot be read."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # which transformers will say
        return {}
    return config if isinstance(config, dict) else {}


def _write(into: Path, weights: dict[str, Any], tokenizer: str, about: str) -> None:
    """Write converted weights, the tokenizer and a description into a cache folder."""
    from safetensors.torch import save_file

    save_file(weights, into / _WEIGHTS)
    (into / TOKENIZER).write_text(tokenizer, "utf-8")
    (into / _ABOUT).write_text(about, "utf-8")


def _mapped(file: Path) -> dict[str, Any]:
    """Return the tensors of a safetensors file, memory-mapped."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
