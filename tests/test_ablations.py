"""The script of the ablations: its rows are real commands, its tables hide no failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgqa.questions.base import is_held_out
from scripts.benchmarks.ablations import (
    TABLES,
    Row,
    Runner,
    draw,
    markdown,
    runs,
    trie_sizes,
)
from scripts.benchmarks.common import write_between

CHECKOUT = Path(__file__).resolve().parent.parent
FIGURES: dict[str, Any] = {
    "method": "gcr",
    "questions": 30,
    "hits_at_1": 72.2,
    "hit_at_k": 94.4,
    "f1": 66.9,
    "hit": 95.0,
    "grounded_paths": 100.0,
    "faithful_of_correct": 100.0,
    "intervals": {"hits_at_1": [59.3, 83.3]},
    "seconds": {"p50": 1.234},
}


def test_every_row_is_a_command_that_eval_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read by the command line itself, which complains of the file only where flags are right."""
    from typer.testing import CliRunner

    from kgqa.cli.app import app
    from kgqa.registry import METHODS, Entry

    runner = Runner(tmp_path, tmp_path / "home", model="m", answer_tokens=9)
    names = [row.name for row in runs()]
    assert len(names) == len(set(names))
    entry = Entry("unconstrained", "scripts.benchmarks.unconstrained:Unconstrained")
    monkeypatch.setitem(METHODS._added, entry.name, entry)
    for row in runs():
        made = runner.command(row, "webqsp")
        done = CliRunner().invoke(app, ["eval", *made])
        assert done.exit_code != 2, (row.name, done.output)  # 2: the flags are wrong
        assert "DataError" in repr(done.exception), (row.name, done.exception)


def test_a_name_means_one_run() -> None:
    every: dict[str, set[tuple[object, ...]]] = {}
    for table in TABLES:
        for row in table.rows:
            every.setdefault(row.name, set()).add((row.flags, row.general, row.kg))
    assert all(len(kinds) == 1 for kinds in every.values())
    assert [row.name for row in runs(["k3", "l4"])] == ["k3", "l4"]
    with pytest.raises(SystemExit, match="no row nothing"):
        runs(["nothing"])


def test_questions_are_drawn_from_the_validation_fifth_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{n}"}) + "\n" for n in range(400)), "utf-8")
    drawn = []
    for seed in (0, 0, 1):
        to = tmp_path / str(len(drawn)) / "q.jsonl"
        assert draw(file, 20, seed, to) == 20
        ids = [json.loads(line)["id"] for line in to.read_text("utf-8").splitlines()]
        assert all(is_held_out(one) for one in ids)
        drawn.append(ids)
    assert drawn[0] == drawn[1] != drawn[2]
    assert draw(file, 20, 0, tmp_path / "0" / "q.jsonl") == 20  # again, into the same folder
    with pytest.raises(SystemExit, match="other questions"):
        draw(file, 20, 1, tmp_path / "0" / "q.jsonl")
    few = tmp_path / "few.jsonl"
    assert draw(file, 20, 0, few, 7) == 7
    assert {json.loads(line)["id"] for line in few.read_text("utf-8").splitlines()} < set(drawn[0])


def test_costly_rows_may_be_asked_of_fewer_questions(tmp_path: Path) -> None:
    runner = Runner(tmp_path, tmp_path / "home", model="m", costly=7)
    asked = {row.name: Path(runner.command(row, "webqsp")[1]).name for row in runs()}
    costly = {"unconstrained", "general"}
    assert {name for name, file in asked.items() if file == "webqsp-7.jsonl"} == costly
    assert {file for name, file in asked.items() if name not in costly} == {"webqsp.jsonl"}
    found = {"webqsp": {"default": FIGURES, "general": {**FIGURES, "questions": 7}}}
    text = markdown(found, {}, {"webqsp": 30}, "seed 0.")
    row = next(line for line in text.splitlines() if line.startswith("| with the general LLM"))
    assert "72.2 [59.3, 83.3] of 7 | 94.4" in row
    assert text.count(" of 7 |") == 1


def test_tables_show_figures_intervals_and_failures() -> None:
    failed = {"failed": "Error: no server | at all"}
    found = {"webqsp": {"default": FIGURES, "general": failed, "l1": FIGURES}}
    found["cwq"] = {"default": FIGURES}
    text = markdown(found, {"webqsp": {1: 12.0}}, {"webqsp": 30, "cwq": 30}, "seed 0.")
    assert "K = 1" not in text  # no row of that table but the default was run
    assert "over-represents answers" in text
    default = next(line for line in text.splitlines() if line.startswith("| the default"))
    assert "72.2 [59.3, 83.3] | 94.4 | 66.9 | 95.0 | 1.23" in default
    assert "58.0 / 70.1 / 57.0" in default
    assert "failed: Error: no server / at all" in text
    assert "| L = 1 | 72.2" in text
    assert "| 12 |" in text
    assert "| not run |" in text
    tables = [part.splitlines()[2:] for part in text.split("### ")[1:]]
    for table in tables:
        rows = [line for line in table if line.startswith("|")]
        assert len({line.count("|") for line in rows}) == 1


def test_only_what_stands_between_the_comments_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "doc.md"
    file.write_text("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n", "utf-8")
    write_between(f"{file}#x", r"new \1")
    write_between(f"{file}#x", r"newer \1")
    said = "before\n<!-- x: begin -->\nnewer \\1\n<!-- x: end -->\nafter\n"
    assert file.read_text("utf-8") == said
    with pytest.raises(SystemExit, match="no place"):
        write_between(f"{file}#y", "new")


def test_a_run_that_fails_says_why_and_is_not_kept(tmp_path: Path) -> None:
    runner = Runner(tmp_path, tmp_path / "home")
    row = Row("default", "")
    assert "cannot be read" in runner.run(row, "webqsp")["failed"]
    assert runner.kept(row, "webqsp") is None


def test_tries_grow_with_hops(tmp_path: Path) -> None:
    from kgqa.questions import Question
    from kgqa.questions.graphs import own_tables
    from tests.trie.language import store_of

    tables = own_tables("kg", [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")], [])
    asked = [Question("1", "?", ["a"], []), Question("2", "?", ["nobody"], [])]
    with store_of(tables, tmp_path) as store:
        assert trie_sizes(store, asked, (1, 2, 3, 4)) == {1: 1, 2: 2, 3: 3, 4: 3}


def test_the_script_names_its_rows() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "scripts" / "ablations"), "--list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == [row.name for row in runs()]
