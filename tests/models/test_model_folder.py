"""A model's folder holds one model at every moment, also while another takes its place."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import ModelError
from kgqa.models.path_ranker import RANKERS, RankerCard, ranker_changes, save_path_ranker

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 24  # more than there are


def save_and_be_killed(folder: Path, step: int) -> None:
    """Write the second model; end before that step, which is a change of a file or its end."""
    left = step

    def strike() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(frame: object, event: str, what: Any) -> None:
        if event == "c_return" and what.__name__ in ("open", "write", "rename", "replace"):
            strike()

    sys.addaudithook(lambda event, _: strike() if event == "os.rename" else None)
    sys.setprofile(after)
    save(folder, 2)


def save(folder: Path, number: int) -> None:
    weight = np.full((1, 3), number, np.float32)
    card = RankerCard(encoder=f"e{number}", scale=float(number))
    save_path_ranker(folder, card, {"w": (weight, weight.T)})


def held(folder: Path) -> float:
    """Which model is there: its card and weights are of one."""
    card = RANKERS.card(folder)
    assert ranker_changes(str(folder))["w"][0][0, 0] == card.scale
    return card.scale


@pytest.mark.skipif(sys.platform != "linux", reason="the process that is killed is forked")
def test_a_write_that_is_killed_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    found = []
    for step in range(STEPS):
        folder = tmp_path / str(step) / "ranker"
        save(folder, 1)
        process = get_context("fork").Process(target=save_and_be_killed, args=(folder, step))
        process.start()
        process.join()
        found.append(held(folder))
        save(folder, 3)
        assert held(folder) == 3
        assert len(list(folder.iterdir())) == 3, "its card, its weights, and those before"
        if process.exitcode == 0:
            break
    assert found == sorted(found)
    assert (found[0], found[-1]) == (1, 2)
    assert len(found) < STEPS


def test_who_has_read_the_card_finds_its_weights_though_another_model_has_come(
    tmp_path: Path,
) -> None:
    save(tmp_path, 1)
    card = RANKERS.card(tmp_path)
    before = (tmp_path / card.weights).read_bytes()
    save(tmp_path, 2)
    assert (tmp_path / card.weights).read_bytes() == before
    assert held(tmp_path) == 2


@pytest.mark.parametrize("name", ["../ranker.safetensors", "/etc/passwd", "ranker.bin", ".", ""])
def test_a_card_names_no_weights_outside_its_folder(tmp_path: Path, name: str) -> None:
    save(tmp_path, 1)
    file = tmp_path / "ranker.json"
    file.write_text(file.read_text("utf-8").replace("ranker.safetensors", name), "utf-8")
    with pytest.raises(ModelError, match="weights"):
        RANKERS.card(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ModelError, match="cannot be written"):
        save(tmp_path / "ranker", 1)
