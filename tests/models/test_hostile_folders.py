"""Model folders made to run code or to end in a traceback: each is a named error, and none runs.

Whoever sits at the terminal says yes to every question that a library might ask.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from kgqa.errors import ModelError
from kgqa.models.kg_llm import load_encoder, load_kg_llm
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent
from tests.methods.reasoners import encoder_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CODE = """
open(RAN, "w").write(__name__)
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel, PreTrainedTokenizerFast
class C(LlamaConfig): model_type = "evil"
class M(LlamaForCausalLM): config_class = C
class B(LlamaModel): config_class = C
class T(PreTrainedTokenizerFast): pass
"""
AUTO_MAP = {
    "AutoConfig": "evil.C",
    "AutoModel": "evil.B",
    "AutoModelForCausalLM": "evil.M",
    "AutoTokenizer": ["evil.T", "evil.T"],
}


class Yes(io.StringIO):
    """A standard input that answers y, and knows whether it was asked."""

    asked = 0

    def readline(self, *_: Any) -> str:
        self.asked += 1
        return "y\n"


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **fields}), "utf-8")


def known_with_code(folder: Path, ran: Path) -> None:
    change(folder / "config.json", auto_map=AUTO_MAP)


def unknown_model(folder: Path, ran: Path) -> None:
    change(folder / "config.json", auto_map=AUTO_MAP, model_type="evil")
    change(folder / "tokenizer_config.json", auto_map=AUTO_MAP, tokenizer_class="T")


def unknown_tokenizer(folder: Path, ran: Path) -> None:
    only = {"AutoTokenizer": AUTO_MAP["AutoTokenizer"]}
    change(folder / "tokenizer_config.json", auto_map=only, tokenizer_class="T")


def pickled(folder: Path, ran: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {ran}",)

    (folder / "model.safetensors").unlink()
    torch.save({"weight": Runs()}, folder / "pytorch_model.bin")


def wrong_types(folder: Path, ran: Path) -> None:
    change(folder / "config.json", text_config={"model_type": "evil"}, hidden_size="16")


def deep_json(folder: Path, ran: Path) -> None:
    (folder / "config.json").write_text("[" * 200_000, "utf-8")


def not_an_object(folder: Path, ran: Path) -> None:
    (folder / "config.json").write_text("[1]", "utf-8")
    (folder / "tokenizer_config.json").write_text("[1]", "utf-8")


HOSTILE = [
    known_with_code,
    unknown_model,
    unknown_tokenizer,
    pickled,
    wrong_types,
    deep_json,
    not_an_object,
]


@pytest.mark.parametrize("harm", HOSTILE)
@pytest.mark.parametrize("kind", ["model", "tokenizer", "encoder"])
def test_no_file_of_a_model_folder_is_run(
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path, Path], None],
    kind: str,
) -> None:
    folder, ran = tmp_path / "model", tmp_path / "ran"
    if kind == "encoder":
        encoder_folder(folder)
    else:
        shutil.copytree(tiny_folder, folder)
    (folder / "evil.py").write_text(CODE.replace("RAN", repr(str(ran))), "utf-8")
    harm(folder, ran)
    stdin = Yes()
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr("builtins.input", lambda *_: stdin.readline().strip())
    where: dict[str, Any] = {"cache": tmp_path, "progress": Silent()}
    refused = ""
    try:
        if kind == "model":
            load_kg_llm(str(folder), None, device="cpu", **where)
        elif kind == "tokenizer":
            load_encoder(str(folder), None, **where)
        else:
            load_sentence_encoder(str(folder), device="cpu", **where)
    except ModelError as error:
        refused = str(error)
    assert not refused or str(folder) in refused
    assert "trust_remote_code" not in refused
    if harm is deep_json or (harm is pickled and kind != "tokenizer"):
        assert refused  # else transformers' own class was taken
    assert not ran.exists()
    assert not stdin.asked


def test_what_needs_code_of_its_own_is_said_to(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    unknown_model(folder, tmp_path)
    with pytest.raises(ModelError, match="needs Python code of its own, which is never run"):
        load_kg_llm(str(folder), None, device="cpu", cache=tmp_path, progress=Silent())
