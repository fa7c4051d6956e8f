"""Searches by name, and what bounds decoding: time, forward passes, quantization."""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

ENTITIES = ("m.02mjmr", "m.011yd2", "m.0345h", "m.041h0")


@pytest.fixture(scope="session")
def kgqa(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights: what is answered does not matter here."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--set", "groups=2"), "It belongs to: the search diverse"),
        (
            ("--search", "exact", "--set", "diversity_penalty=1"),
            "It belongs to: the search diverse",
        ),
        (("--set", "max_forward_passes=5"), "It belongs to: the search exact"),
        (("--set", "seed=3"), "It belongs to: the search sample"),
        (("--search", "diverse", "--set", "groups=3", "--k", "2"), "1 to 2 groups, not in 3"),
        (("--search", "widest"), "widest"),
    ],
)
@pytest.mark.parametrize("command", [("ask", QUESTION), ("eval", "jsonl", "none.jsonl")])
def test_wrong_combinations_are_one_line_before_anything_is_opened(
    kgqa: Kgqa, tmp_path: Path, command: tuple[str, ...], flags: tuple[str, ...], said: str
) -> None:
    assert said in kgqa(*command, *flags, "--home", tmp_path / "none").error


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
@pytest.mark.model
def test_quantized_weights_without_the_package_are_one_line(kgqa: Kgqa, home: Path) -> None:
    error = kgqa("ask", QUESTION, "--set", "quantize=4bit", "--home", home).error
    assert "pip install bitsandbytes" in error


@pytest.mark.model
def test_exact_search_says_what_is_proven(kgqa: Kgqa, home: Path, healthy: dict[str, Any]) -> None:
    base = ("ask", QUESTION, "--k", "2", "--search", "exact", "--home", home)
    done = kgqa(*base, "--json").json
    assert done["search"]["kind"] == "exact"
    assert done["search"]["proven"] is True
    assert done["search"]["demands"] > 0
    assert done["search"]["bound"] <= done["paths"][-1]["score"]
    for ours, beam in zip(done["paths"], healthy["paths"], strict=True):
        assert ours["score"] >= beam["score"] - 1e-3
    assert healthy["search"]["kind"] == "beam"
    shown = kgqa(*base)
    assert "Exact search: proven within" in shown.out


@pytest.mark.model
def test_an_exact_search_that_may_not_end_says_so(kgqa: Kgqa, home: Path) -> None:
    base = ("ask", QUESTION, "--k", "50", "--search", "exact", "--set", "budget=1", "--home", home)
    found = kgqa(*base, "--set", "max_forward_passes=1").error
    assert "found no whole path within 1 forward" in found
    assert "max_forward_passes" in found


@pytest.mark.model
def test_diverse_and_sampled_paths_are_of_the_graph(kgqa: Kgqa, home: Path) -> None:
    base = ("ask", QUESTION, "--k", "3", "--json", "--home", home)
    diverse = kgqa(*base, "--search", "diverse", "--set", "groups=3").json
    drawn = [kgqa(*base, "--search", "sample", "--set", f"seed={seed}").json for seed in ("5", "5")]
    for done in (diverse, *drawn):
        assert len({path["text"] for path in done["paths"]}) == 3
        assert all(path["grounded"] and path["score"] < 0 for path in done["paths"])
    assert [path["text"] for path in drawn[0]["paths"]] == [
        path["text"] for path in drawn[1]["paths"]
    ]
    assert (diverse["search"]["kind"], drawn[0]["search"]["kind"]) == ("diverse", "sample")


@pytest.mark.model
def test_a_time_limit_that_passes_is_an_error_with_what_to_do(kgqa: Kgqa, home: Path) -> None:
    error = kgqa("ask", QUESTION, "--set", "time_limit=0.001", "--home", home).error
    assert "The time limit of 0.001 s passed" in error
    assert "time_limit" in error


@pytest.mark.model
def test_a_time_limit_fails_questions_and_not_the_run(
    kgqa: Kgqa, home: Path, tmp_path: Path
) -> None:
    file = questions(tmp_path)
    done = kgqa("eval", "jsonl", file, "--set", "time_limit=0.001", "--home", home, "--json").json
    assert (done["questions"], done["answered"]) == (4, 0)


def questions(folder: Path) -> Path:
    file = folder / "questions.jsonl"
    rows = [
        {"id": one, "question": QUESTION, "topic_entities": [one], "answers": ["m.02hrh0_"]}
        for one in ENTITIES
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file
