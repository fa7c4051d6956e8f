"""Without transformers a tokenizer gives the same ids, in a process that stays small."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from kgqa.models.bare import bare_encoder
from kgqa.models.tokenizer import HFEncoder
from kgqa.trie.check import NAMES
from tests.models.test_tokenizer import sentencepiece_like
from tests.trie.real_tokenizers import real_encoder

ROOT = Path(__file__).parents[2]


def assert_same(encoder: HFEncoder) -> None:
    bare = bare_encoder(encoder)
    assert bare is not None
    bare = pickle.loads(pickle.dumps(bare))
    texts = [*NAMES, "", "\n", " ", "é" * 5_000, *encoder.added_tokens]
    assert bare.encode(texts) == encoder.encode(texts)
    for name in ("fingerprint", "vocab_size", "eos_id", "anchor", "dummy_prefix"):
        assert getattr(bare, name) == getattr(encoder, name), name
    for marker in ("<PATH>", "\n", "", *encoder.added_tokens):
        assert bare.marker_id(marker) == encoder.marker_id(marker)
    for ids in encoder.encode(texts):
        assert bare.decode(ids) == encoder.decode(ids)


@pytest.mark.parametrize("name", ["gpt2", "llama2", "llama3", "qwen1"])
def test_published_vocabularies(name: str) -> None:
    assert_same(real_encoder(name))


def test_a_sentencepiece_space() -> None:
    assert_same(HFEncoder(sentencepiece_like()))


@pytest.mark.model
def test_the_offline_model(smollm_folder: Path) -> None:
    assert_same(HFEncoder(AutoTokenizer.from_pretrained(smollm_folder), vocab_size=49216))


def test_what_a_worker_imports_holds_no_model_library() -> None:
    code = (
        "import sys, kgqa.cli.tries, kgqa.models.bare, kgqa.graph.open, kgqa.trie.executors;"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
