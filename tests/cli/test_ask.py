"""Several questions at once, questions by line, and statements that are checked."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

SECOND = "Who directed Apollo 13?"
UNKNOWN = "Where does Zaphod Qwxyz live?"


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_several_questions_are_lines_of_json_and_a_failed_one_is_named(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--method", "kg-cot", "--home", plain_home, "--json")
    done = kgqa("ask", QUESTION, UNKNOWN, SECOND, *flags)
    assert done.code == 1
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["question"] for row in rows] == [QUESTION, UNKNOWN, SECOND]
    assert rows[1].keys() == {"question", "error"}
    assert "Zaphod" in rows[1]["error"]["message"]
    assert rows[1]["error"]["hint"]
    assert rows[0]["answers"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n\n{SECOND}\n"))
    lines = kgqa("ask", "-", *flags)
    assert lines.code == 0
    found = [json.loads(line) for line in lines.out.splitlines()]
    assert [row["question"] for row in found] == [QUESTION, SECOND]
    assert [row["answers"] for row in found] == [rows[0]["answers"], rows[2]["answers"]]


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_failed_question_among_several_is_a_note(kgqa: Kgqa, plain_home: Path) -> None:
    done = kgqa("ask", UNKNOWN, SECOND, "--method", "kg-cot", "--home", plain_home)
    assert done.code == 1
    assert UNKNOWN in done.err
    assert SECOND in done.out


def test_a_statement_is_checked_by_its_edges(kgqa: Kgqa, plain_home: Path) -> None:
    home = ("--home", plain_home)
    path = kgqa("paths", "Apollo 13", "--limit", "1", *home, "--json").json["paths"][0]
    found = kgqa("check", path["text"], *home, "--json").json
    assert found["found"] is True
    assert path["edges"] in [path["edges"] for path in found["paths"]]
    shown = kgqa("check", path["text"], *home)
    assert path["text"] in shown.out
    edge, fact = path["edges"][0], path["edges"][0]["facts"][0]
    names = {node["id"]: node["name"] for node in (edge["head"], edge["tail"])}
    head, tail = (names.get(fact[end], fact[end]) for end in ("head", "tail"))
    assert f"  {head}  {fact['predicate']}  {tail}\n" in shown.out
    wrong = kgqa("check", f"Apollo 13 -> {fact['predicate']} -> Apollo 13", *home)
    assert wrong.code == 1
    assert wrong.out.startswith("Not in the graph: Apollo 13 -> ")


def test_a_check_tells_things_of_one_name_apart_by_their_ids(kgqa: Kgqa, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("m.1\tpartOf\tm.3\nm.2\tpartOf\tm.4\n")
    (tmp_path / "n.tsv").write_text("m.1\tOslo\nm.2\tOslo\nm.3\tNorway\nm.4\tTexas\n")
    home = ("--home", tmp_path / "home")
    kgqa("ingest", "triples", tmp_path / "t.tsv", "--names", tmp_path / "n.tsv", *home)
    shown = kgqa("check", "Oslo -> partOf -> Norway", *home)
    assert shown.out.splitlines()[1:] == ['  "Oslo" (m.1)  partOf  Norway']


def test_options_lists_what_there_is_and_what_each_can_be_asked_for(kgqa: Kgqa) -> None:
    every = kgqa("options", "--json").json
    assert set(every) == {"methods", "searches", "loaders", "stores", "formats"}
    gcr = kgqa("options", "gcr", "--json").json
    assert gcr["methods"]["k"]["default"] == 10
    assert "groups" in gcr["search diverse"]
    assert "max_forward_passes" in kgqa("options", "gcr").out
