"""`kgqa eval` as people use it: forms, stopping and going on, reports, comparing."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION
from tests.fixtures import SAMPLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = pytest.mark.model

GRAPH = [["Ann", "people.person.place_of_birth", "Bergen"], ["Ann", "people.person.gender", "F"]]


@pytest.fixture(scope="session")
def kgqa(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights: what is answered does not matter here."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


def questions(path: Path, count: int) -> Path:
    rows = [
        {"id": str(one), "question": QUESTION, "topic_entities": ["m.02mjmr"], "answers": ["X"]}
        for one in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_run_goes_on_ends_in_reports_and_is_compared(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    file = questions(tmp_path / "q.jsonl", 3)
    with file.open("a", encoding="utf-8") as more:
        more.write("{\n")
    a, b = tmp_path / "a", tmp_path / "b"
    base = ("eval", "jsonl", file, "--k", "2", "--home", plain_home)
    assert kgqa(*base, "--out", a, "--limit", "2", "--json").json["questions"] == 2
    lines = (a / "results.jsonl").read_bytes().splitlines(keepends=True)
    (a / "results.jsonl").write_bytes(lines[0] + lines[1][:30])
    went_on = kgqa(*base, "--out", a, "--json")
    assert "1 of 3 questions have been answered before" in went_on.err
    assert "q.jsonl, line 4" in went_on.err
    assert went_on.json["questions"] == 4
    assert went_on.json["outcomes"] == {"not reachable": 3, "malformed": 1}
    assert (a / "results.jsonl").read_bytes().startswith(lines[0])
    assert QUESTION in (a / "report.md").read_text("utf-8")

    assert "another k: 2, not 3" in kgqa(*base, "--k", "3", "--out", a).error
    shown = kgqa(*base, "--k", "3", "--limit", "2", "--out", b)
    assert shown.code == 0
    assert "not reachable" in shown.out
    found = kgqa("eval", "--compare", a, b, "--json").json
    assert (found["shared"], found["only_a"], found["only_b"]) == (2, 2, 0)
    assert found["figures"]["hits_at_1"]["difference"] == 0.0
    assert found["settings"]["k"] == [2, 3]
    assert "B - A" in kgqa("eval", "--compare", a, b).out


def test_questions_with_their_own_graphs_need_no_kg(kgqa: Kgqa, tmp_path: Path) -> None:
    row = {"id": "1", "question": "where was ann born", "q_entity": ["Ann"], "graph": GRAPH}
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps({**row, "a_entity": ["Bergen"]}) + "\n", "utf-8")
    done = kgqa("eval", "rog", file, "--home", tmp_path / "empty", "--json").json
    assert (done["kg"], done["answered"], done["hit_at_k"]) == ("own", 1, 100.0)


def test_what_cannot_be_meant_is_said(kgqa: Kgqa, plain_home: Path, tmp_path: Path) -> None:
    assert "Missing FORMAT and FILE" in kgqa("eval", "--home", plain_home).error
    assert "no run" in kgqa("eval", "--compare", tmp_path, tmp_path).error
    file = questions(tmp_path / "q.jsonl", 1)
    assert "--compare" in kgqa("eval", "jsonl", file, "--compare", tmp_path, tmp_path).error
    assert (
        "--engine" in kgqa("eval", "jsonl", file, "--address", "auto", "--home", plain_home).error
    )
    assert "form webqsp" in kgqa("eval", "webqsp", file, "--home", plain_home).error


@pytest.mark.long
def test_workers_print_the_figures_of_one_process(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    base = ("eval", "jsonl", SAMPLE / "questions.jsonl", "--limit", "6", "--method", "rank")
    alone = kgqa(*base, "--home", plain_home, "--json").json
    out = tmp_path / "out"
    shared = kgqa(*base, "--home", plain_home, "--workers", "2", "--out", out, "--json").json
    assert shared.pop("seconds").keys() == alone.pop("seconds").keys()
    assert shared == alone
    assert len((out / "results.jsonl").read_bytes().splitlines()) == 6
