"""Tiny models with random weights, of transformers' own classes."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def tiny(vocabulary: int, seed: int, family: str = "Llama", **config: Any) -> Any:
    """Return a model of ``family`` (Llama, Qwen2, Mamba, …); ``config``: what differs."""
    import torch
    import transformers

    torch.manual_seed(seed)
    made = getattr(transformers, f"{family}Config")(vocab_size=vocabulary, **{**_SIZES, **config})
    return getattr(transformers, f"{family}ForCausalLM")(made).eval()
