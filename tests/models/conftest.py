"""A tiny model with random weights and the real tokenizer, for what needs no sense in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tiny_model(smollm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "Tiny-Llama"
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(smollm_folder).save_pretrained(folder)
    return folder
