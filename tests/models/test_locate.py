from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models.locate import locate_model, same_base
from kgqa.progress import Silent

pytestmark = pytest.mark.model
ROOT = Path(__file__).parents[2]


def test_a_folder_is_taken_by_its_name(tiny_folder: Path, tmp_path: Path) -> None:
    located = locate_model(str(tiny_folder), tmp_path, Silent())
    assert located == ("Tiny-Llama", tiny_folder)


def test_the_offline_model_has_a_name_too(smollm_folder: Path, model_cache: Path) -> None:
    for name in (None, "SmolLM2-135M-Instruct"):
        assert locate_model(name, model_cache, Silent()).folder == smollm_folder


@pytest.mark.parametrize("name", ["./none", "/no/such/folder", "a/b/c", "~/none-of-these", ""])
def test_a_path_that_is_not_there_is_no_hub_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError):
        locate_model(name, tmp_path, Silent())


def test_what_is_no_model_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ModelError, match="neither a folder nor"):
        locate_model(str(tmp_path / "notes.txt"), tmp_path, Silent())
    with pytest.raises(ModelNotFoundError, match=r"no config\.json"):
        locate_model(str(tmp_path), tmp_path, Silent())
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="`adapter`"):
        locate_model(str(tmp_path), tmp_path, Silent())


def locate_elsewhere(model: str, tmp_path: Path, **env: str) -> str:
    """Locate a hub name in a process with its own hub cache and network; return what it says."""
    code = (
        "import sys; from pathlib import Path\n"
        "from kgqa.errors import ModelNotFoundError\n"
        "from kgqa.models.locate import locate_model\n"
        "from kgqa.progress import Silent\n"
        "try:\n    print(locate_model(sys.argv[1], Path('unused'), Silent()).folder)\n"
        "except ModelNotFoundError as error:\n    print(error)\n"
    )
    base = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code, model],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**base, "HF_HOME": str(tmp_path), **env},
        timeout=300,  # a fetch that is tried again and again takes longer
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_no_network_says_what_to_do_soon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections, never answers
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        message = locate_elsewhere("rmanluo/GCR-Qwen2", tmp_path, HF_ENDPOINT=endpoint)
    assert "rmanluo/GCR-Qwen2 is not on this machine" in message
    assert "hf download rmanluo/GCR-Qwen2" in message


def test_a_model_in_the_hub_cache_needs_no_network(tmp_path: Path, tiny_folder: Path) -> None:
    repo = tmp_path / "hub" / "models--me--tiny"
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    for file in tiny_folder.iterdir():
        (snapshot / file.name).symlink_to(file)
    found = locate_elsewhere("me/tiny", tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert found == str(snapshot)
    (snapshot / "model.safetensors").unlink()  # an interrupted fetch
    message = locate_elsewhere("me/tiny", tmp_path, HF_HUB_OFFLINE="1")
    assert "me/tiny is not on this machine" in message
    assert "HF_HUB_OFFLINE" in message
    assert "`model`" in message


def test_names_of_one_base() -> None:
    smollm = "SmolLM2-135M-Instruct"
    assert same_base(smollm, "HuggingFaceTB/smollm2-135m-instruct")
    assert same_base("", "anything")
    assert not same_base(smollm, "SmolLM2-360M-Instruct")
