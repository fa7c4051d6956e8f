"""A model's folder is written whole: killed at any step, it holds one model or none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import ModelError
from kgqa.models.adapter import write_model_folder

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 8  # more than there are
KILLED = """
import os, signal, sys
from pathlib import Path
from kgqa.models.adapter import write_model_folder
left = int(sys.argv[2])
def counted(real):
    def step(*given, **named):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*given, **named)
    return step
for name in ("mkdir", "write_bytes", "rename", "replace"):
    setattr(Path, name, counted(getattr(Path, name)))
write_model_folder(Path(sys.argv[1]), {"weights": b"new", "card": b"new"}, "ranker")
"""


def test_a_write_that_is_killed_leaves_no_mixture(tmp_path: Path) -> None:
    found = []
    for step in range(STEPS):
        folder = tmp_path / str(step) / "ranker"
        write_model_folder(folder, {"weights": b"old", "card": b"old"}, "ranker")
        subprocess.run([sys.executable, "-c", KILLED, str(folder), str(step)], check=False)
        held = {path.read_bytes() for path in folder.iterdir()} if folder.exists() else set()
        assert len(held) <= 1
        found.append(held)
        write_model_folder(folder, {"weights": b"next", "card": b"next"}, "ranker")
        assert {path.read_bytes() for path in folder.iterdir()} == {b"next"}
    assert found[0] == {b"old"}
    assert found[-1] == {b"new"}


def test_what_else_a_folder_holds_stays(tmp_path: Path) -> None:
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "notes").write_text("mine")
    for content in (b"old", b"new"):
        write_model_folder(tmp_path / "ranker", {"weights": content, "card": content}, "ranker")
    assert (tmp_path / "ranker" / "notes").read_text() == "mine"
    assert (tmp_path / "ranker" / "card").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["ranker"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ModelError, match="cannot be written"):
        write_model_folder(tmp_path / "ranker", {"card": b""}, "ranker")
