"""Ctrl-C while a model decodes: exit code 130, "Stopped.", and nothing half written."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = pytest.mark.model


@pytest.fixture(scope="session")
def kgqa(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights: what is answered does not matter here."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


@contextmanager
def ctrl_c_in_forward(number: int) -> Iterator[None]:
    """Press Ctrl-C in the middle of the language model's forward pass with that number."""
    from kgqa.models.llama import Llama

    seen = 0
    states = Llama.states

    def count(model: Llama, *given: Any, **more: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == number:
            signal.raise_signal(signal.SIGINT)
        return states(model, *given, **more)

    # what a shell starts in the background is deaf to Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Llama.states = count  # type: ignore[method-assign]
    try:
        yield
    finally:
        Llama.states = states  # type: ignore[method-assign]
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_a_question_is_decoded(kgqa: Kgqa, home: Path) -> None:
    base = ("ask", QUESTION, "--k", "2", "--set", "budget=8", "--home", home)
    whole = kgqa(*base, "--json").json  # measures the model, so that the forwards below decode
    with ctrl_c_in_forward(2):
        stopped = kgqa(*base)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "Stopped."
    assert "Traceback" not in stopped.err
    assert kgqa(*base, "--json").json["answers"] == whole["answers"]


def test_ctrl_c_in_a_run_leaves_whole_lines_that_it_goes_on_from(
    kgqa: Kgqa, home: Path, tmp_path: Path
) -> None:
    file, out = tmp_path / "q.jsonl", tmp_path / "out"
    rows = [
        {"id": str(one), "question": QUESTION, "topic_entities": ["m.02mjmr"], "answers": ["X"]}
        for one in range(4)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    flags = ("--k", "2", "--set", "budget=8", "--set", "together=1", "--home", home)
    forwards = kgqa("ask", QUESTION, "--entity", "m.02mjmr", "--k", "2", "--set", "budget=8",
                    "--home", home, "--json").json["forwards"]  # fmt: skip
    with ctrl_c_in_forward(2 * forwards + 1):  # in the third question
        stopped = kgqa("eval", "jsonl", file, *flags, "--out", out)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "Stopped."
    left = (out / "results.jsonl").read_bytes()
    assert left.endswith(b"\n")
    assert [json.loads(line)["id"] for line in left.splitlines()] == ["0", "1"]
    went_on = kgqa("eval", "jsonl", file, *flags, "--out", out, "--json")
    assert "2 of 4 questions have been answered before" in went_on.err
    assert went_on.json["questions"] == 4
    assert (out / "results.jsonl").read_bytes().startswith(left)
