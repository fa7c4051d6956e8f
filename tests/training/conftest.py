"""A tiny model with random weights and the real tokenizer, and a small KG that it can learn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

PEOPLE = 20


@pytest.fixture(scope="session")
def tiny_folder(smollm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of a Llama with random weights and SmolLM2's tokenizer."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models") / "Tiny-Llama"
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
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
        initializer_range=0.3,  # else nothing it could learn would change what it says
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def load_tiny(tiny_folder: Path, tmp_path: Path) -> Callable[[], KgLLM]:
    """Loads the tiny model anew: training changes it."""
    from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
    from kgqa.progress import Silent

    def load() -> KgLLM:
        llm = load_kg_llm(
            str(tiny_folder), NO_ADAPTER, device="cpu", cache=tmp_path, progress=Silent()
        )
        return replace(llm, plans=tmp_path / "decoding.json")

    return load


@pytest.fixture(scope="session")
def town_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a KG of people, where they were born, their children, and a mayor's office."""
    from kgqa.graph.model import Kind
    from kgqa.graph.sqlite_write import SqliteWriter
    from kgqa.progress import Silent
    from tests.graph.store_conformance import entity, tables_of

    nodes = [entity(f"p{at}", f"Person {at}") for at in range(PEOPLE)]
    nodes += [entity(f"c{at}", f"City {at}") for at in range(PEOPLE)]
    nodes += [entity(f"m{at}", kind=Kind.MEDIATOR) for at in range(PEOPLE)]
    edges = [(f"p{at}", "person.born_in", f"c{at}") for at in range(PEOPLE)]
    edges += [(f"p{at}", "person.child", f"p{at + 1}") for at in range(PEOPLE - 1)]
    edges += [(f"p{at}", "person.office", f"m{at}") for at in range(PEOPLE)]
    edges += [(f"m{at}", "office.place", f"c{(at + 3) % PEOPLE}") for at in range(PEOPLE)]
    path = tmp_path_factory.mktemp("town") / "graph.sqlite"
    SqliteWriter(path).write(tables_of(nodes, edges), Silent())
    return path


@pytest.fixture
def town(town_file: Path) -> Iterator[SqliteStore]:
    """The KG, open."""
    from kgqa.graph.sqlite import SqliteStore

    with SqliteStore(town_file) as store:
        yield store
