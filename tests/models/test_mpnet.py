"""MPNet's own forward pass gives what transformers' does, on small models with random weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import MPNetConfig, MPNetModel

from kgqa.errors import ModelError
from kgqa.models.mpnet import MPNet
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 320,
}
WORDS = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(36))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a small MPNet in the form of the sentence-transformers library."""
    torch.manual_seed(3)
    model = MPNetModel(MPNetConfig(**SIZES))
    for weight in model.parameters():  # also biases and norms, which begin as 0 and 1
        weight.data += 0.3 * torch.randn_like(weight)
    model.save_pretrained(tmp_path)
    tokenizer = Tokenizer(
        WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    tokenizer.post_processor = TemplateProcessing(  # type: ignore[assignment]
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def own(folder: Path) -> MPNet:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return MPNet.load(config, folder / "model.safetensors")


def theirs(folder: Path, rows: list[list[int]]) -> np.ndarray[Any, Any]:
    model = MPNetModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = [model(input_ids=torch.tensor([row])).last_hidden_state[0] for row in rows]
    return torch.cat(states).numpy()


def test_the_states_are_those_of_transformers(folder: Path) -> None:
    """Rows from one token to further apart than the last bucket; a padding token within a text."""
    draw = np.random.default_rng(1)
    rows = [draw.integers(2, 40, size).tolist() for size in (1, 2, 2, 9, 17, 40, 150, 300)]
    rows.append([0, 5, 1, 7, 2])
    np.testing.assert_allclose(own(folder).states(rows), theirs(folder, rows), atol=2e-5)


def test_changed_weights_are_used(folder: Path) -> None:
    model, rows = own(folder), [[0, 9, 8, 2]]
    before = model.states(rows)
    state = load_file(folder / "model.safetensors")
    changed = [
        "encoder.layer.1.attention.attn.q.weight",
        "encoder.relative_attention_bias.weight",
        "embeddings.word_embeddings.weight",
    ]
    for name in changed:
        state[name] = state[name] + 0.5
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    model.change({name: np.full(state[name].shape, 0.5, np.float32) for name in changed})
    assert not np.allclose(model.states(rows), before, atol=1e-3)
    np.testing.assert_allclose(model.states(rows), theirs(folder, rows), atol=2e-5)
    with pytest.raises(ValueError, match="not a weight"):
        model.change({"encoder.layer.1.attention.self.query.weight": np.zeros((24, 24))})


def test_weights_in_half_precision_are_read(folder: Path) -> None:
    rows = [[0, 9, 8, 2]]
    before = own(folder).states(rows)
    state = {name: each.half() for name, each in load_file(folder / "model.safetensors").items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    after = own(folder).states(rows)
    assert after.dtype == np.float32
    np.testing.assert_allclose(after, before, atol=2e-2)


def test_a_folder_is_run_without_torch_and_truncated(folder: Path) -> None:
    encoder = load_sentence_encoder(str(folder), device=None, cache=folder, progress=Silent())
    assert type(encoder).__module__ == "kgqa.models.sentences"
    vectors = encoder.encode(["w1 w2", "w3 " * 900])  # more than its 318 positions
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    rows = [[0, 5, 6, 2]]
    mean = theirs(folder, rows).mean(0)
    np.testing.assert_allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize(
    "name", ["encoder.relative_attention_bias.weight", "encoder.layer.2.attention.attn.o.bias"]
)
def test_a_missing_weight_is_a_sentence(folder: Path, name: str) -> None:
    state = load_file(folder / "model.safetensors")
    del state[name]
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_sentence_encoder(str(folder), device=None, cache=folder, progress=Silent())


@pytest.mark.parametrize("count", [0, 1, 31, 10**9, "x"])
def test_buckets_of_another_number_are_a_sentence(folder: Path, count: object) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["relative_attention_num_buckets"] = count
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_sentence_encoder(str(folder), device=None, cache=folder, progress=Silent())
