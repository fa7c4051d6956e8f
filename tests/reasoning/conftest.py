"""The bundled sample as an open store, and a model with random weights to decode it with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

SAMPLE = Path(__file__).parents[2] / "kgqa" / "data" / "freebase"


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the bundled Freebase sample ingested."""
    from kgqa.graph.open import open_writer
    from kgqa.ingest.pipeline import ingest
    from kgqa.loaders import make_loader
    from kgqa.progress import Silent

    home = tmp_path_factory.mktemp("home")
    with open_writer(home, "freebase") as writer:
        ingest(
            make_loader("freebase"),
            [SAMPLE / "sample.nt.gz"],
            "freebase",
            writer,
            home / "freebase",
            Silent(),
        )
    return home


@pytest.fixture(scope="session")
def sample(sample_home: Path) -> Iterator[SqliteStore]:
    """The bundled sample."""
    from kgqa.graph.sqlite import SqliteStore

    with SqliteStore(sample_home / "freebase" / "graph.sqlite", name="freebase") as store:
        yield store


@pytest.fixture(scope="session")
def random_llm(kg_llm: KgLLM) -> KgLLM:
    """SmolLM2's tokenizer before a tiny model with random weights: it prefers nothing sensible."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=kg_llm.encoder.vocab_size,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=kg_llm.encoder.eos_id,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    return replace(kg_llm, model=model, name="random weights", adapter=None)
