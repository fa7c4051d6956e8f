"""Models and tokenizers that scripts/bench_decoding measures with.

The offline model as it is, or the shape of a larger one with random weights. Random weights give
flat distributions, which no tuned model has and which defeat look-ahead; so their ``lm_head`` is
scaled until the mean entropy of the next token is that of the offline model with its adapter, on
the same questions.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kgqa.models.tokenizer import HFEncoder

# hidden size, intermediate size, layers, heads, key-value heads
LLAMAS = {
    "llama-8b": (4_096, 14_336, 32, 32, 8),
    "llama-tiny": (64, 128, 2, 4, 2),  # for trying the script
}
SHAPES = ("smollm2", *LLAMAS)
VOCABULARY = 128_256

_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer and its prompt for a question; ``about``: a line about it.

    ``model`` is of transformers, for ``generate``; ``asked`` is what kgqa runs of the same weights.
    Without need of one of the two (``way``) it is None.
    """

    model: Any
    asked: Any
    encoder: HFEncoder
    prompt: Callable[[str, Sequence[str]], list[int]]
    about: str


def load(
    shape: str, device: str | None, dtype: str, cache: Path, data: Path, way: str | None = None
) -> Loaded:
    """Load a shape of ``SHAPES``, of the offline model only what a ``way`` needs."""
    import torch

    from kgqa.models.kg_llm import load_kg_llm
    from kgqa.models.llama import Llama, fused
    from kgqa.models.prepared import open_kg_llm
    from kgqa.progress import Silent

    if shape == "smollm2":
        asked = plain = None
        if way != "generate":
            asked = open_kg_llm(None, None, device=device, cache=cache, progress=Silent())
        if way != "ours":
            plain = load_kg_llm(None, None, device=device, cache=cache, progress=Silent())
        own: Any = asked or plain
        about = f"{own.name}, adapter {own.adapter}, {own.model.dtype} on {own.device}"
        models = (one and one.model for one in (plain, asked))
        return Loaded(*models, own.encoder, own.prompt_ids, about)

    own = load_kg_llm(None, None, device="cpu", cache=cache, progress=Silent())

    from transformers import LlamaConfig, LlamaForCausalLM

    from kgqa.models.device import pick_device
    from kgqa.models.presets import preset
    from kgqa.models.tokenizer import HFEncoder

    encoder = HFEncoder(_llama3(data / "tokenizers" / "llama3"), vocab_size=VOCABULARY)
    card = preset("gcr")

    def prompt(question: str, topics: Sequence[str]) -> list[int]:
        text = card.prompt.format(question=f"{question}?", topics=",".join(topics)) + card.reply
        return encoder.encode([text])[0]

    hidden, between, layers, heads, shared = LLAMAS[shape]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=between,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        max_position_embeddings=8_192,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        bos_token_id=None,
        eos_token_id=encoder.eos_id,
        tie_word_embeddings=False,
    )
    where = pick_device(device)
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    try:
        torch.set_default_dtype(getattr(torch, dtype))
        with where:
            model = LlamaForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)
    texts = ["what does jamaican people speak", "who was richard nixon married to"]
    wanted = entropy(own.model, [own.prompt_ids(text, ["Jamaica"]) for text in texts])
    scale, reached = scale_to(model, [prompt(text, ["Jamaica"]) for text in texts], wanted)
    about = (
        f"shape {shape}: {sum(p.numel() for p in model.parameters()) / 1e9:.2f} G random weights, "
        f"{dtype} on {where}, lm_head x {scale:.3g} (entropy {reached:.2f} nats; "
        f"{own.name} with {own.adapter}: {wanted:.2f})"
    )
    asked = Llama(model.config.to_dict(), fused(model))
    return Loaded(model, asked, encoder, prompt, about)


def entropy(model: Any, prompts: Sequence[Sequence[int]]) -> float:
    """Return the mean entropy of the next token along the prompts, in nats."""
    logits = _logits(model, prompts).log_softmax(-1)
    return float(-(logits.exp() * logits).sum(-1).mean())


def scale_to(model: Any, prompts: Sequence[Sequence[int]], wanted: float) -> tuple[float, float]:
    """Scale ``lm_head`` so that the mean entropy is ``wanted``; return the factor and entropy."""
    import torch

    logits = _logits(model, prompts)

    def at(scale: float) -> float:
        scaled = (logits * scale).log_softmax(-1)
        return float(-(scaled.exp() * scaled).sum(-1).mean())

    low, high = 1e-3, 1e4
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if at(middle) > wanted else (low, middle)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(high)
    return high, at(high)


def _logits(model: Any, prompts: Sequence[Sequence[int]]) -> Any:
    import torch

    with torch.inference_mode():
        rows = [
            model(torch.tensor([list(prompt)], device=model.device)).logits[0].float()
            for prompt in prompts
        ]
    return torch.cat(rows)


# ── Llama-3's tokenizer, from its published ranks ───────────────────────────────────────────


def _llama3(folder: Path) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    lines = (line.split() for line in (folder / "tokenizer.model").read_bytes().splitlines())
    ranks = {base64.b64decode(line[0]): int(line[1]) for line in lines if line}
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    characters = {byte: chr(byte) for byte in shown}
    characters |= {byte: chr(256 + at) for at, byte in enumerate(others)}

    def text(piece: bytes) -> str:
        return "".join(characters[byte] for byte in piece)

    vocabulary = {text(piece): rank for piece, rank in ranks.items()}
    merges = [(text(left), text(right)) for left, right in _merges(ranks)]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end_of_text|>")


def _merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    for piece in ranks:
        halves = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = [half for half in halves if half[0] in ranks and half[1] in ranks]
        yield from sorted(known, key=lambda half: (ranks[half[0]], ranks[half[1]]))
