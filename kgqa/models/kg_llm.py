"""Loading a KG-LLM: a causal language model with its tokenizer, its adapter and its card.

A LoRA adapter is merged into the weights, so that decoding runs one plain model. Tries need only
the tokenizer and the card, which :func:`load_encoder` loads without the weights.
"""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kgqa.errors import AdapterMismatchError, ModelError, UsageError, first_line
from kgqa.extras import require_llm_packages
from kgqa.models.adapter import ADAPTERS, CARD_FILE, AdapterCard
from kgqa.models.locate import (
    SMOLLM,
    ModelFolder,
    forget_others,
    kept_folder,
    locate_model,
    same_base,
    write_once,
)
from kgqa.models.prompt import encode_prompt, prompt_pieces
from kgqa.models.tokenizer import BareEncoder, HFEncoder, bare_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kgqa.progress import Progress

DEFAULT_ADAPTER = "freebase"  # without a KG
UNIVERSAL_ADAPTER = "universal"
OWN_ADAPTER = Path("models") / "adapter"  # in a KG's folder
NO_ADAPTER = "none"
PLANS_FILE = "decoding.json"  # see kgqa.models.profile
TOKENIZER = "tokenizer.json"  # of a model whose tokenizer is kept in the cache
_WEIGHTS = "adapter_model.safetensors"
_KNOWN = "encoder.json"
_PLANNED = ("way", "why", "limit", "budget", "milliseconds")

Quantize: TypeAlias = Literal["4bit", "8bit"]


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class KgLLM:
    """A loaded KG-LLM, its ``model`` in eval mode: float32 on CPU and MPS, bfloat16 on CUDA."""

    name: str
    adapter: str | None
    card: AdapterCard
    model: Any  # of transformers, or a kgqa.models.llama.Llama
    tokenizer: Any  # of transformers, or a BareTokenizer
    encoder: HFEncoder | BareEncoder
    device: torch.device
    quantized: Quantize | None = None
    plans: Path | None = None  # the file where it is kept how the model is decoded with

    def prompt_ids(self, question: str, topics: Sequence[str], graph: str = "") -> list[int]:
        """Return the token ids of the prompt before the path.

        Arguments never become special tokens. Raises ModelError if the card wants a chat template
        and the tokenizer has none.
        """
        pieces = prompt_pieces(self.card, self.tokenizer, question, topics, graph)
        return encode_prompt(pieces, self.tokenizer, self.encoder, chat=self.card.chat)

    def with_card(self, card: AdapterCard) -> KgLLM:
        """Return the same model with another card, such as a preset."""
        return dataclasses.replace(self, card=card)


def load_kg_llm(
    model: str | None,
    adapter: str | None,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    quantize: Quantize | None = None,
) -> KgLLM:
    """Load a KG-LLM: the language model, its tokenizer, its adapter and its card.

    ``model``: a hub name, a folder or a ``.gguf`` file; None is the offline SmolLM2. ``adapter``: a
    folder or a bundled one's name; None is the bundled one for the offline model, ``"none"`` none.
    ``device``: None takes CUDA, then MPS, then the CPU. ``cache``: where converted models are kept.
    ``quantize``: weights by ``bitsandbytes``; an adapter is merged into them, which rounds it.

    Raises UsageError (device, or no ``bitsandbytes``), ModelNotFoundError (neither on disk nor on
    the hub), AdapterMismatchError (made for another model), ModelError (damaged, or unknown),
    PackagesMissingError.
    """
    require_llm_packages(f"The KG-LLM {model or SMOLLM}")
    from kgqa.models.device import pick_device
    from kgqa.models.pretrained import quiet

    where = pick_device(device)
    quantization = _quantization(quantize, where) if quantize else None
    folder, card, located = chosen(model, adapter, cache, progress)
    with progress.task(f"loading {located.name}"), quiet():
        loaded, tokenizer = _load(located.folder, where, quantization)
        make_special(tokenizer, card)
        if len(tokenizer) > loaded.get_input_embeddings().weight.shape[0]:
            loaded.resize_token_embeddings(len(tokenizer))
        if folder:
            loaded = _merged(loaded, folder)
        if quantization is None:  # else it lies there already and cannot be moved
            loaded = loaded.to(where)
        loaded = loaded.eval().requires_grad_(False)
    width = loaded.get_output_embeddings().weight.shape[0]
    return KgLLM(
        name=located.name,
        adapter=folder.name if folder else None,
        card=card,
        model=loaded,
        tokenizer=tokenizer,
        encoder=HFEncoder(tokenizer, vocab_size=width),
        device=where,
        quantized=quantize,
        plans=cache / PLANS_FILE,
    )


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """A tokenizer encoder with the model's ``name`` and its ``card``."""

    name: str
    card: AdapterCard
    encoder: HFEncoder | BareEncoder


def load_encoder(
    model: str | None, adapter: str | None, *, cache: Path, progress: Progress
) -> LoadedEncoder:
    """Return the tokenizer encoder of :func:`load_kg_llm` without reading the weights.

    It is cached in a form that needs neither transformers nor torch, where possible.
    """
    require_llm_packages(f"The tokenizer of {model or SMOLLM}")
    folder, card, located = chosen(model, adapter, cache, progress, fitting=False)
    made_by = [1, *(metadata.version(name) for name in ("transformers", "tokenizers"))]
    sources = [located.folder, *([folder] if folder else [])]
    kept = kept_folder(cache, f"tokenizer-{located.name}", sources, made_by)
    if kept.is_dir():
        known = json.loads((kept / _KNOWN).read_text("utf-8"))
        bare = BareEncoder((kept / TOKENIZER).read_text("utf-8"), known)
        return LoadedEncoder(located.name, card, bare)
    encoder = _loaded_encoder(located, card)
    same = bare_encoder(encoder)
    if same is None:
        return LoadedEncoder(located.name, card, encoder)
    with suppress(ModelError):  # the next process tries again
        write_once(kept, f"The tokenizer of {located.name}", partial(_write_encoder, same))
        forget_others(kept)
    return LoadedEncoder(located.name, card, same)


def _write_encoder(encoder: BareEncoder, into: Path) -> None:
    """Write an encoder's tokenizer and state into a cache folder."""
    (into / TOKENIZER).write_text(encoder.serialised, "utf-8")
    (into / _KNOWN).write_text(json.dumps(encoder.known()), "utf-8")


def _loaded_encoder(located: ModelFolder, card: AdapterCard) -> HFEncoder:
    """Load the tokenizer of a model folder by transformers, with the card's special tokens."""
    from transformers import AutoConfig, AutoTokenizer

    from kgqa.models.pretrained import LOADING_ERRORS, from_pretrained, quiet

    with quiet():
        try:
            tokenizer = from_pretrained(AutoTokenizer, located.folder)
            config = from_pretrained(AutoConfig, located.folder)
        except LOADING_ERRORS as error:
            raise ModelError(
                f"The tokenizer in {located.folder} cannot be loaded: {first_line(error)}.",
                "Its files are damaged or cut short, or transformers does not know it.",
            ) from error
        make_special(tokenizer, card)
    width = max(len(tokenizer), config.get_text_config().vocab_size)
    return HFEncoder(tokenizer, vocab_size=width)


def chosen(
    model: str | None,
    adapter: str | None,
    cache: Path,
    progress: Progress,
    *,
    fitting: bool = True,
) -> tuple[Path | None, AdapterCard, ModelFolder]:
    """Return the adapter folder, the card and the model folder that the arguments select.

    The adapter folder is None without an adapter; a missing model is downloaded or converted.
    Errors of :func:`load_kg_llm` propagate, AdapterMismatchError only if ``fitting``.
    """
    folder = adapter_folder(model, adapter)
    card = ADAPTERS.card(folder) if folder else None
    located = locate_model(model, cache, progress)
    if card is None:  # a model that was trained as a whole has a card in its own folder
        own = (located.folder / CARD_FILE).is_file()
        card = ADAPTERS.card(located.folder) if own else AdapterCard()
    if fitting and not same_base(card.base_model, located.name):
        raise AdapterMismatchError(
            f"The adapter {folder} was trained for {card.base_model}, and the model is "
            f"{located.name}.",
            f"Use the `model` {card.base_model}, or another `adapter`; {NO_ADAPTER} uses none.",
        )
    return folder, card, located


def adapter_folder(model: str | None, adapter: str | None) -> Path | None:
    """Return the folder of the selected adapter, None if none is used; see :func:`load_kg_llm`."""
    if adapter is None:
        bundled = ADAPTERS.bundled / DEFAULT_ADAPTER
        return bundled if model is None and (bundled / CARD_FILE).is_file() else None
    if adapter == NO_ADAPTER:
        return None
    return ADAPTERS.folder(adapter)


def known_plan(file: Path, name: str, device: str | None) -> dict[str, Any] | None:
    """Return the decoding plan last measured for the model ``name``, None if ``file`` has none.

    ``device``: only a plan for this device. :mod:`kgqa.models.profile` writes the file; no model
    and no torch is loaded.
    """
    try:
        plans = json.loads(file.read_bytes())
        for key, plan in reversed(plans.items()):
            model, where, *_ = key.split("|")
            kind = where.split()[0] if where.startswith(("cpu ", "mps ")) else "cuda"
            shown = {part: plan[part] for part in _PLANNED}
            if model == name and (device is None or device.partition(":")[0] == kind):
                return {"device": kind, **shown}
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ):  # damaged: it is measured again
        pass
    return None


def suited_adapter(
    model: str | None, kg_folder: Path | None, relations: Sequence[str]
) -> str | None:
    """Return the name or folder of the adapter that fits a KG with these ``relations`` best.

    In this order: the KG's own in ``kg_folder``, if it was trained for ``model``; for the offline
    model, a bundled one that was trained on such relations, or the universal one. None, which
    selects the default adapter, for another model or without relations.
    """
    own = None if kg_folder is None else kg_folder / OWN_ADAPTER
    if (
        own is not None
        and (own / CARD_FILE).is_file()
        and same_base(ADAPTERS.card(own).base_model, model or SMOLLM)
    ):
        return str(own)
    if model is not None:
        return None
    for name in ADAPTERS.names():
        card = ADAPTERS.card(ADAPTERS.bundled / name)
        if relations and card.calibrated_on and card.suits(relations):
            return name
    return UNIVERSAL_ADAPTER if relations else None


def _quantization(quantize: Quantize, device: torch.device) -> Any:
    """Return the bitsandbytes configuration for ``quantize``. Raises UsageError."""
    if quantize not in ("4bit", "8bit"):
        raise UsageError(f"Weights cannot be quantized to {quantize!r}.", "Use 4bit or 8bit.")
    if find_spec("bitsandbytes") is None or find_spec("accelerate") is None:
        raise UsageError(
            "Quantized weights need the packages bitsandbytes and accelerate, and one is missing.",
            "Install them: pip install bitsandbytes accelerate",
        )
    from transformers import BitsAndBytesConfig

    config: Any = BitsAndBytesConfig
    if quantize == "8bit":
        return config(load_in_8bit=True)
    return config(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=_dtype(device)
    )


def _dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of weights on a device: bfloat16 on CUDA, otherwise float32."""
    import torch

    return torch.bfloat16 if device.type == "cuda" else torch.float32


def _load(folder: Path, device: torch.device, quantization: Any) -> tuple[Any, Any]:
    """Load model and tokenizer of a folder by transformers. Raises ModelError."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kgqa.models.pretrained import LOADING_ERRORS, from_pretrained

    try:
        tokenizer = from_pretrained(AutoTokenizer, folder)
        more: dict[str, Any] = {}
        if quantization is not None:
            more = {"quantization_config": quantization, "device_map": {"": device}}
        model = from_pretrained(AutoModelForCausalLM, folder, dtype=_dtype(device), **more)
    except LOADING_ERRORS as error:
        raise ModelError(
            f"The model in {folder} cannot be loaded: {first_line(error)}.",
            "Its files are damaged or cut short, or transformers does not know the architecture.",
        ) from error
    return model, tokenizer


def make_special(tokenizer: Any, card: AdapterCard) -> None:
    """Add the card's tokens to the tokenizer in place, and mark its markers as special tokens.

    Names are tokenised with special tokens split; an ordinary marker token could be spelt by a name
    and end the path.
    """
    from transformers import AddedToken

    special = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
    markers = [marker for marker in (card.start, card.end) if marker in special]
    tokens = [token for token in (*card.added_tokens, *markers) if not special.get(token)]
    if tokens:
        added = [AddedToken(token, special=True, normalized=False) for token in tokens]
        tokenizer.add_tokens(added, special_tokens=True)


def _merged(model: Any, folder: Path) -> Any:
    """Merge the adapter in ``folder`` into the model's weights, and return the model.

    Raises AdapterMismatchError, ModelError if it is damaged.
    """
    from peft import get_peft_model_state_dict
    from safetensors import SafetensorError, safe_open

    from kgqa.models.pretrained import LOADING_ERRORS, with_adapter

    file = folder / _WEIGHTS
    if not file.is_file():
        raise ModelError(
            f"The adapter {folder} has no {_WEIGHTS}.", "Its weights must be safetensors."
        )
    mismatch = f"The adapter {folder} does not fit the model"
    try:
        with safe_open(file, framework="pt") as tensors:
            stored = set(tensors.keys())
        adapted = with_adapter(model, folder)
        taken = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
        places = set(adapted.state_dict())  # a file may also hold whole embeddings
    except SafetensorError as error:
        raise ModelError(f"The adapter file {file} is damaged: {first_line(error)}.") from error
    except LOADING_ERRORS as error:
        raise AdapterMismatchError(
            f"{mismatch}: {first_line(error)}.", "Name the model that it was trained on."
        ) from error
    if odd := (taken - stored) | (stored - taken - places):
        raise AdapterMismatchError(
            f"{mismatch}: {len(odd)} of its tensors have no place there or are missing, "
            f"{min(odd)} for instance.",
            "Name the model that it was trained on.",
        )
    try:
        return adapted.merge_and_unload()
    except LOADING_ERRORS as error:
        raise AdapterMismatchError(f"{mismatch}: {first_line(error)}.") from error
