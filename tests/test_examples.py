"""Every example runs, and prints what it says it prints."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.graph.sparql_server import program

if TYPE_CHECKING:
    from tests.graph.neo4j_server import Neo4jServer

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str
) -> list[str]:
    monkeypatch.setattr(sys, "argv", [name, *args])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


@pytest.mark.model
def test_own_graph_answers_with_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("own_graph", monkeypatch, capsys)
    assert "checkout-api -> onCallEngineer -> Ada Birch" in lines[1]
    assert "ledger-db -> ownedBy -> Payments -> teamLead -> Cleo Marsh" in lines[5]


@pytest.mark.model
def test_generate_writes_five_paths_with_ids(
    smollm_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("generate", monkeypatch, capsys, str(smollm_folder))
    paths = [line for line in lines if " -> " in line]
    assert len(paths) == 5
    assert all(path.startswith("J. R. R. Tolkien -> ") for path in paths)
    assert lines[1].split()[0] == "m.041h0"


@pytest.mark.model
def test_methods_are_compared_question_by_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("compare_methods", monkeypatch, capsys, "--questions", "6")
    assert lines[0].startswith("rank: Hits@1 ")
    assert lines[1].startswith("kg-cot: Hits@1 ")
    assert "95 % interval" in lines[2]


def test_an_endpoint_is_asked_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyoxigraph")
    if program() is None:
        pytest.skip("the package oxigraph (its server) is not installed")
    held, answer = printed("attach_sparql", monkeypatch, capsys)
    assert "triples" in held
    assert answer == "Ron Howard | Apollo 13 -> film.film.directed_by -> Ron Howard"


def test_medicine_shows_concept_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed("medicine", monkeypatch, capsys)
    assert lines[0] == "492 concepts, 911 relations"
    assert any("C1333196 Gene_Encodes_Gene_Product " in line for line in lines)


@pytest.mark.model
def test_an_agent_asks_over_mcp() -> None:
    # in a process of its own: it hands its stderr on to the server that it starts
    command = [sys.executable, str(EXAMPLES / "agent_mcp.py")]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "tools: ask, check, kgs, link, neighbours, paths, query, schema",
        "answer: Ada Birch",
        # names are quoted where a model reads them
        'path: "checkout-api" -> "onCallEngineer" -> "Ada Birch" | in the graph: True',
    ], done.stderr


@pytest.mark.neo4j
def test_a_neo4j_that_is_there_is_attached(
    neo4j_server: Neo4jServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    with neo4j_server.connect() as connection, connection.session() as session:
        session.run(
            "CREATE (:Example {id: 'a', name: 'Ada'})"
            "-[:WORKS_WITH]->(:Example {id: 'b', name: 'Bo'})"
        ).consume()
        try:
            asked = ("Who works with Ada?", "--only", "Example")
            lines = printed("attach_neo4j", monkeypatch, capsys, *asked)
        finally:
            session.run("MATCH (n:Example) DETACH DELETE n").consume()
    assert lines[0] == "Example: 2 nodes, called by name"
    assert any(line.strip() == "Ada -> works with -> Bo" for line in lines)


@pytest.mark.model
@pytest.mark.parametrize(
    "name", ["own_graph", pytest.param("compare_methods", marks=pytest.mark.long)]
)
def test_a_notebook_prints_what_it_shows(
    name: str, model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGQA_CACHE", str(model_cache))
    runner: dict[str, Any] = runpy.run_path(str(EXAMPLES.parent / "scripts" / "run_notebook"))
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text("utf-8"))
    before = runner["texts"](notebook)
    assert len(before) >= 3
    monkeypatch.chdir(EXAMPLES)
    runner["run"](notebook)
    assert runner["texts"](notebook) == before
