"""A KG-LLM as it is asked: made once, made again when its files change, and otherwise the same."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.models.llama import Llama
from kgqa.models.locate import write_once
from kgqa.models.prepared import open_kg_llm
from kgqa.progress import Silent
from tests.tiny import tiny

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model


def opened(folder: Path, cache: Path) -> KgLLM:
    return open_kg_llm(str(folder), NO_ADAPTER, device="cpu", cache=cache, progress=Silent())


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir())


def test_it_is_asked_as_the_model_that_it_was_made_of(tiny_folder: Path, tmp_path: Path) -> None:
    mine = opened(tiny_folder, tmp_path)
    assert isinstance(mine.model, Llama)
    theirs = load_kg_llm(
        str(tiny_folder), NO_ADAPTER, device="cpu", cache=tmp_path, progress=Silent()
    )
    assert mine.encoder.fingerprint == theirs.encoder.fingerprint
    assert mine.encoder.vocab_size == theirs.encoder.vocab_size
    for question in ("Who?", "is <|im_end|> one?", "牙 Ærø"):
        assert mine.prompt_ids(question, ["A"]) == theirs.prompt_ids(question, ["A"])
    texts = [" <|im_end|>", "New York", "", " a -> b"]
    assert mine.encoder.encode(texts) == theirs.encoder.encode(texts)


def test_it_is_made_again_when_a_file_changes(tiny_folder: Path, tmp_path: Path) -> None:
    folder, cache = tmp_path / "model", tmp_path / "cache"
    shutil.copytree(tiny_folder, folder)
    opened(folder, cache)
    (first,) = kept(cache)
    made = (cache / "models" / first / "weights.safetensors").stat().st_mtime_ns
    opened(folder, cache)
    assert kept(cache) == [first]
    assert (cache / "models" / first / "weights.safetensors").stat().st_mtime_ns == made
    os.utime(folder / "model.safetensors", ns=(1, 1))
    opened(folder, cache)
    assert len(kept(cache)) == 1
    assert kept(cache) != [first]


def test_of_two_that_write_at_once_both_succeed(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def write(into: Path) -> None:
        both.wait(10)
        (into / "weights").write_text("all of them")

    def run() -> bool:
        write_once(tmp_path / "models" / "asked", "The model", write)
        return True

    with ThreadPoolExecutor(2) as pool:
        assert all(one.result() for one in [pool.submit(run) for _ in range(2)])
    assert [path.name for path in (tmp_path / "models").rglob("*")] == ["asked", "weights"]


def test_another_architecture_is_run_by_transformers(
    tiny_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tiny(len(tokenizer), 0, "Qwen2").save_pretrained(tmp_path / "qwen")
    tokenizer.save_pretrained(tmp_path / "qwen")
    with caplog.at_level("DEBUG", "kgqa"):
        loaded = opened(tmp_path / "qwen", tmp_path / "cache")
    assert type(loaded.model).__name__ == "Qwen2ForCausalLM"
    assert "is run by transformers" in caplog.text
