"""`--method dog` as it is typed: the JSON contract, what is measured, and what cannot be meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION
from tests.cli.test_json import ASK, EVAL, PATH, check

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = pytest.mark.model

# as small as a graph can be: the real model reads it, on a CPU
OPTIONS = ("triplets=4", "cap=20", "beams=2", "steps=2")
SMALL = ("--method", "dog", *(part for one in OPTIONS for part in ("--set", one)))
ONE = ("--set", "beams=1", "--set", "steps=1")
OBAMA = "m.02mjmr"
WRITTEN = {"score": float, "written": str}


@pytest.mark.usefixtures("minilm")
def test_ask_has_the_contracts_fields(kgqa: Kgqa, plain_home: Path) -> None:
    flags = ("--entity", OBAMA, *SMALL, "--home", plain_home)
    asked = kgqa("ask", QUESTION, *flags, "--json").json
    others = [{"id": (str, None), "name": str, "score": float, "grounded": bool}]
    check(asked, ASK | {"paths": [PATH | WRITTEN], "others": others})
    assert asked["method"] == "dog"
    assert asked["kg_llm"]["adapter"] == "freebase-chains"
    assert asked["topic_entities"][0]["id"] == OBAMA
    assert asked["paths"]
    for path in asked["paths"]:
        assert path["grounded"]
        visited = {OBAMA}
        for edge in path["edges"]:
            assert edge["head"]["id"] in visited
            visited |= {edge["head"]["id"], edge["tail"]["id"]}
        assert len(path["text"].split(" | ")) == len(path["edges"])
    other = kgqa("ask", QUESTION, *flags, *ONE, "--preset", "dog", "--json").json
    assert other["kg_llm"]["adapter"] is None  # the model as it comes
    assert other["kg_llm"]["prompt_tokens"] > asked["kg_llm"]["prompt_tokens"]
    assert all(path["grounded"] for path in other["paths"])


@pytest.mark.usefixtures("minilm")
def test_paths_are_shown_and_rog_graphs_are_walked_in(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    flags = ("--entity", OBAMA, *SMALL, *ONE, "--home", plain_home)
    shown = kgqa("ask", QUESTION, "-v", *flags)
    assert shown.code == 0
    assert "paths (each edge is in the graph)" in shown.out
    row = {
        "id": "1",
        "question": "where was ada born",
        "q_entity": ["Ada"],
        "a_entity": ["Bo town"],
        "graph": [["Ada", "born in", "Bo town"], ["Bo town", "lies in", "Ci land"]],
    }
    file = tmp_path / "rog.jsonl"
    file.write_text(json.dumps(row) + "\n", "utf-8")
    out = tmp_path / "out"
    found = kgqa("eval", "rog", file, *SMALL, "--set", "walk=store", "--out", out, "--json").json
    triplets = {"f1": None, "precision": None, "recall": None, "ill": float}  # no gold ones
    check({key: found[key] for key in EVAL}, EVAL | {"triplets": triplets})
    assert found["triplets"]["ill"] == 0.0
    assert (found["method"], found["answered"], found["grounded_paths"]) == ("dog", 1, 100.0)
    kept = json.loads((out / "run.json").read_text("utf-8"))
    assert (kept["walk"], kept["triplets"], kept["beams"]) == ("store", 4, 2)
    assert (kept["adapter"], kept["preset"]) == ("freebase-chains", None)
    line = json.loads((out / "results.jsonl").read_text("utf-8").splitlines()[0])
    assert all("Ada" in path["text"] for path in line["paths"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--set", "beams=2"), "It belongs to: dog"),
        (("--preset", "dog"), "is for another method"),
        (("--method", "dog", "--preset", "gcr"), "is for another method"),
        (("--method", "dog", "--set", "direction=in"), "cannot be 'in'"),
        (("--method", "dog", "--search", "exact"), "It belongs to: gcr, ensemble, auto"),
        (("--method", "dog", "--set", "walk=breadth"), "'filtered' or 'store'"),
        (("--method", "dog", "--set", "beams=99"), "less than or equal to 16"),
        (("--method", "dog", "--set", "steps=0"), "steps=…"),
        (("--method", "dog", "--set", "encoder=no/such/folder"), "no/such/folder"),
        (("--method", "dog", "--model", "no/such/folder"), "no/such/folder"),
    ],
)
def test_what_cannot_be_meant_is_said(
    kgqa: Kgqa, plain_home: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in kgqa("ask", QUESTION, *flags, "--home", plain_home).error


@pytest.mark.usefixtures("minilm")
def test_a_short_time_is_one_line_and_any_triples_can_be_asked(kgqa: Kgqa, tmp_path: Path) -> None:
    triples = tmp_path / "t.tsv"
    triples.write_text("a\tr\tb\nb\tr\tc\n", "utf-8")
    home = tmp_path / "home"
    assert (
        kgqa("ingest", "triples", triples, "--columns", "head,relation,tail", "--home", home).code
        == 0
    )
    both = kgqa("ask", "Who?", "--entity", "b", *SMALL, "--json", "--home", home).json
    assert both["paths"]  # from an end or a beginning: b has one of each
    late = kgqa("ask", "Who?", "--entity", "a", *SMALL, "--set", "time_limit=0.001", "--home", home)
    assert "time_limit" in late.error
