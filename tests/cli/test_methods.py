"""`--method` and what belongs to it: each method as it is typed, and what cannot be meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.registry import METHODS, Entry
from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa
    from tests.conftest import OpenAIServer

pytestmark = pytest.mark.model

OBAMA = "m.02mjmr"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {"id": "1", "question": QUESTION, "topic_entities": [OBAMA], "answers": ["Honolulu"]},
        {"id": "2", "question": "What?", "topic_entities": ["no such thing"], "answers": ["X"]},
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def general(server: OpenAIServer) -> tuple[str, str, str, str]:
    return ("--general-model", server.model, "--set", "answer_tokens=8")


@pytest.mark.long
def test_free_paths_are_looked_up_and_only_those_of_the_graph_are_grounded(
    kgqa: Kgqa, plain_home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("unconstrained", "scripts.benchmarks.unconstrained:Unconstrained")
    monkeypatch.setitem(METHODS._added, entry.name, entry)
    command = ["eval", "jsonl", str(file), "--method", "unconstrained", "--k", "2"]
    found = kgqa(*command, "--out", file.parent / "out", "--home", plain_home, "--json").json
    assert (found["questions"], found["answered"]) == (2, 1)
    results = (file.parent / "out" / "results.jsonl").read_text("utf-8").splitlines()
    grounded = [path["relation_path"] is not None for path in json.loads(results[0])["paths"]]
    assert found["grounded_paths"] == 100.0 * sum(grounded) / len(grounded)


def test_what_the_general_llm_is_asked_once_is_not_asked_again(
    quick: Kgqa, plain_home: Path, file: Path, openai_server: OpenAIServer, tmp_path: Path
) -> None:
    env = {"OPENAI_BASE_URL": openai_server.base_url, "KGQA_CACHE": tmp_path / "cache"}
    named = (*general(openai_server), "--home", plain_home, "--json")
    every = ("--method", "gcr", "--k", "2")
    first = quick("eval", "jsonl", file, *every, *named, **env)
    assert first.json["answered"] == 1
    assert first.json["general_llm"]["calls"] == 1
    assert first.json["general_llm"]["completion_tokens"] <= 8
    assert "answered before" not in first.err
    again = quick("eval", "jsonl", file, *every, *named, **env)
    assert "1 of 1 calls of the general LLM had been answered before" in again.err
    fresh = quick("eval", "jsonl", file, *every, *named, "--set", "cache_calls=false", **env)
    assert "answered before" not in fresh.err
    for one in (again.json, fresh.json):
        assert one["general_llm"] == first.json["general_llm"]


def test_a_server_that_is_down_fails_the_question_and_stays_in_the_figures(
    kgqa: Kgqa, plain_home: Path, file: Path
) -> None:
    down = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    flags = ("--method", "kg-cot", "--general-model", "m", "--home", plain_home, "--json")
    found = kgqa("eval", "jsonl", file, *flags, **down).json
    assert (found["questions"], found["answered"], found["hits_at_1"]) == (2, 0, 0.0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--method", "rank", "--adapter", "none"), "--adapter does not belong to the method rank"),
        (("--method", "rank", "--search", "exact"), "It belongs to: gcr, ensemble, auto"),
        (("--method", "auto", "--set", "encoder=./nowhere"), "model folder nowhere does not exist"),
        (("--set", "cap=3"), "It belongs to: dog"),
    ],
)
def test_what_cannot_be_meant_is_said(
    kgqa: Kgqa, plain_home: Path, file: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in kgqa("eval", "jsonl", file, *flags, "--home", plain_home).error
