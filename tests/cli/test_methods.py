"""`--method` and what belongs to it: each method as it is typed, and what cannot be meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.usefixtures("minilm")
def test_retrieval_answers_and_is_measured(kgqa: Kgqa, plain_home: Path, file: Path) -> None:
    flags = ("--method", "retrieval", "--k", "3", "--home", plain_home)
    asked = kgqa("ask", QUESTION, *flags, "--json").json
    assert (asked["method"], asked["kg_llm"]["calls"], len(asked["paths"])) == ("retrieval", 0, 3)
    assert all(path["grounded"] for path in asked["paths"])
    assert all(answer["grounded"] for answer in asked["answers"])
    assert kgqa("ask", QUESTION, *flags).code == 0
    found = kgqa("eval", "jsonl", file, *flags, "--json").json
    assert (found["method"], found["questions"], found["answered"]) == ("retrieval", 2, 1)
    assert found["grounded_paths"] == 100.0


def test_unconstrained_paths_are_counted(quick: Kgqa, plain_home: Path, file: Path) -> None:
    out = file.parent / "out"
    flags = ("--method", "unconstrained", "--k", "1", "--out", out, "--home", plain_home, "--json")
    found = quick("eval", "jsonl", file, *flags).json
    assert (found["questions"], found["answered"]) == (2, 1)
    line = json.loads((out / "results.jsonl").read_text("utf-8").splitlines()[0])
    grounded = [path["relation_path"] is not None for path in line["paths"]]
    assert found["grounded_paths"] == 100.0 * sum(grounded) / len(grounded)
    assert json.loads((out / "run.json").read_text("utf-8"))["method"] == "unconstrained"
    again = quick("eval", "jsonl", file, "--k", "1", "--out", out, "--home", plain_home)
    assert "another method" in again.error  # not mixed with a run under the constraint


def test_what_the_general_llm_is_asked_once_is_not_asked_again(
    quick: Kgqa, plain_home: Path, file: Path, openai_server: OpenAIServer, tmp_path: Path
) -> None:
    env = {"OPENAI_BASE_URL": openai_server.base_url, "KGQA_CACHE": tmp_path / "cache"}
    named = (*general(openai_server), "--home", plain_home, "--json")
    every = ("--method", "all-paths", "--set", "prompt_tokens=80")
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

    # without the KG: a question whose entity is unknown is asked all the same
    drawn = ("--method", "self-consistency", "--set", "samples=2", "--set", "concurrency=2")
    alone = quick("eval", "jsonl", file, *drawn, *named, **env).json
    assert (alone["method"], alone["answered"], alone["general_llm"]["calls"]) == (
        "self-consistency",
        2,
        4,
    )
    assert alone["grounded_paths"] == 0.0


def test_a_server_that_is_down_fails_the_question_and_stays_in_the_figures(
    kgqa: Kgqa, plain_home: Path, file: Path
) -> None:
    down = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    flags = ("--method", "direct", "--general-model", "m", "--home", plain_home, "--json")
    found = kgqa("eval", "jsonl", file, *flags, **down).json
    assert (found["questions"], found["answered"], found["hits_at_1"]) == (2, 0, 0.0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--method", "direct"), "none is named"),
        (
            (
                "--method",
                "all-paths",
            ),
            "none is named",
        ),
        (
            ("--method", "retrieval", "--adapter", "none"),
            "--adapter does not belong to the method retrieval",
        ),
        (("--method", "retrieval", "--search", "exact"), "--search does not belong to the method"),
        (
            ("--method", "unconstrained", "--search", "diverse"),
            "It belongs to: gcr, ensemble, auto",
        ),
        (("--method", "auto", "--set", "encoder=./nowhere"), "no model folder nowhere"),
        (("--set", "cap=3"), "It belongs to: dog, retrieval, all-paths"),
        (("--set", "samples=3"), "It belongs to: self-consistency"),
        (("--set", "prompt_tokens=3"), "It belongs to: all-paths"),
    ],
)
def test_what_cannot_be_meant_is_said(
    kgqa: Kgqa, plain_home: Path, file: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in kgqa("eval", "jsonl", file, *flags, "--home", plain_home).error


@pytest.mark.parametrize("method", ["cot", "direct", "unconstrained"])
def test_ask_answers_from_the_graph_only(kgqa: Kgqa, plain_home: Path, method: str) -> None:
    error = kgqa("ask", QUESTION, "--method", method, "--home", plain_home).error
    assert "is a baseline" in error
    assert "kgqa eval" in error
