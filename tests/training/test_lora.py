"""An adapter learns what it is shown, is small, and is loaded as it was trained."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
import torch

from kgqa.errors import DataError
from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.paths.format import PathFormat
from kgqa.progress import Silent
from kgqa.training.data import Example
from kgqa.training.lora import LoraSettings, encode, train_adapter
from kgqa.trie.lexicon import PathLexicon

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model
FORM = PathFormat()
EXAMPLES = [
    Example(str(at), f"Who likes {name}?", (name,), name, (("zoo.likes.animal", "The okapi"),))
    for at, name in enumerate(("Ann", "Bob", "Cid", "Dan"))
]


def bare(cache: Path) -> KgLLM:
    return load_kg_llm(None, NO_ADAPTER, device="cpu", cache=cache, progress=Silent())


def loss_of(llm: KgLLM, example: Example) -> float:
    (row,), _ = encode(llm, [example], FORM, 256)
    ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
    with torch.inference_mode():
        return float(llm.model(input_ids=ids, labels=labels).loss)


def test_the_loss_is_on_the_path_as_the_constraint_writes_it(kg_llm) -> None:
    (row,), too_long = encode(kg_llm, EXAMPLES[:1], FORM, 256)
    prompt = kg_llm.prompt_ids(EXAMPLES[0].question, EXAMPLES[0].topics)
    completion = PathLexicon(kg_llm.encoder, FORM).sequence("Ann", EXAMPLES[0].hops)
    assert row["input_ids"] == [*prompt, *completion]
    assert row["labels"] == [-100] * len(prompt) + completion
    assert completion[-1] == kg_llm.encoder.eos_id
    assert too_long == 0


def test_an_example_that_is_too_long_is_left_out_and_counted(kg_llm) -> None:
    rows, too_long = encode(kg_llm, EXAMPLES, FORM, 10)
    assert (rows, too_long) == ([], 4)


def test_nothing_to_train_on_is_an_error(kg_llm, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="short enough"):
        train_adapter(
            kg_llm,
            EXAMPLES,
            [],
            FORM,
            tmp_path,
            dataclasses.replace(LoraSettings(), max_tokens=3),
            description="",
            progress=Silent(),
        )


def test_an_adapter_is_trained_saved_and_gone_on_with(model_cache: Path, tmp_path: Path) -> None:
    before = loss_of(bare(model_cache), EXAMPLES[0])
    settings = LoraSettings(rank=4, alpha=8, epochs=6, learning_rate=2e-3, batch_size=4)
    result = train_adapter(
        bare(model_cache),
        EXAMPLES,
        EXAMPLES[:1],
        FORM,
        tmp_path / "first",
        settings,
        description="Trained on four examples.",
        progress=Silent(),
    )
    assert (result.examples, result.steps) == (4, 6)
    assert result.held_out_loss is not None
    weights = tmp_path / "first" / "adapter_model.safetensors"
    assert weights.stat().st_size < 3_000_000
    config = json.loads((tmp_path / "first" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "SmolLM2-135M-Instruct"
    assert "Trained on four examples." in (tmp_path / "first" / "README.md").read_text()
    tuned = load_kg_llm(
        None, str(tmp_path / "first"), device="cpu", cache=model_cache, progress=Silent()
    )
    after = loss_of(tuned, EXAMPLES[0])
    assert after < before - 0.5
    train_adapter(
        bare(model_cache),
        EXAMPLES,
        [],
        FORM,
        tmp_path / "second",
        settings,
        description="",
        start_from=tmp_path / "first",
        progress=Silent(),
    )
    further = load_kg_llm(
        None, str(tmp_path / "second"), device="cpu", cache=model_cache, progress=Silent()
    )
    assert loss_of(further, EXAMPLES[0]) < after
