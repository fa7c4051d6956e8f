"""`--method ensemble` and `--method auto` as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import QUESTION
from tests.cli.test_json import ASK, EVAL, check

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("minilm")]

OBAMA = "m.02mjmr"
ANSWERS = [{"id": (str, None), "name": str, "score": float, "grounded": bool}]


def test_an_ensemble_has_the_paths_of_both(kgqa: Kgqa, plain_home: Path) -> None:
    flags = ("--entity", OBAMA, "--home", plain_home, "--json")
    asked = {
        method: kgqa("ask", QUESTION, "--method", method, *flags).json
        for method in ("gcr", "kg-cot", "ensemble")
    }
    both = asked["ensemble"]
    check(both, ASK | {"others": ANSWERS})
    assert both["method"] == "ensemble"
    texts = {name: [path["text"] for path in one["paths"]] for name, one in asked.items()}
    assert set(texts["ensemble"]) == {*texts["gcr"], *texts["kg-cot"]}
    assert len(set(texts["ensemble"])) == len(texts["ensemble"])
    assert all(path["grounded"] for path in both["paths"])
    assert both["forwards"] == asked["gcr"]["forwards"] + asked["kg-cot"]["forwards"]
    assert both["answers"][0]["name"] == "Honolulu"


def test_auto_is_one_of_both_and_can_be_measured(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "q.jsonl"
    row = {"id": "1", "question": QUESTION, "topic_entities": [OBAMA], "answers": ["Honolulu"]}
    file.write_text(json.dumps(row) + "\n", "utf-8")
    flags = ("--method", "auto", "--home", plain_home, "--out", tmp_path / "out", "--json")
    measured = kgqa("eval", "jsonl", file, *flags).json
    assert set(EVAL) <= set(measured)
    assert measured["method"] == "auto"
    assert measured["hits_at_1"] == 100.0
    assert measured["grounded_paths"] == 100.0
    settings = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert settings["reasoner"]
    assert settings["weights"].keys() == {"gcr", "kg-cot", "rank"}
    assert 0 < settings["sure"] <= 1


def test_no_language_model_is_loaded_where_the_quick_members_agree(plain_home: Path) -> None:
    code = """if True:
        import sys, kgqa
        with kgqa.open(home=sys.argv[1]) as kg:
            answer = kg.ask("Who directed Apollo 13?", method="auto")
        print(answer.best.name, answer.method, *({"torch", "neo4j"} & set(sys.modules)))"""
    command = [sys.executable, "-c", code, str(plain_home)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "Ron Howard auto"


def test_a_kg_that_no_reasoner_is_for(kgqa: Kgqa, tmp_path: Path) -> None:
    file = tmp_path / "own.tsv"
    file.write_text("head\trelation\ttail\nAda\tzorbles\tBo\nBo\tquuxes\tCi\n", "utf-8")
    home = ("--home", tmp_path / "home")
    assert kgqa("ingest", "triples", file, "--kg", "own", *home).code == 0
    asked = kgqa("ask", "Whom does Ada zorble?", "--method", "auto", "--k", "2", *home, "--json")
    assert asked.json["method"] == "rank"
    assert asked.json["paths"]
    named = ("--method", "auto", "--k", "2", "--adapter", "freebase", *home, "--json")
    by_model = kgqa("ask", "Whom does Ada zorble?", *named)
    assert by_model.json["method"] == "gcr"
    assert "Answering by gcr, since --adapter is set." in by_model.err
    both = kgqa("ask", "Whom does Ada zorble?", "--method", "ensemble", *home, "--json")
    assert both.json["method"] == "ensemble"
    assert "was trained on another KG" in both.err
    absent = kgqa(
        "ask",
        "Whom?",
        "--entity",
        "Ada",
        "--method",
        "auto",
        "--set",
        f"reasoner={tmp_path / 'none'}",
        *home,
    )
    assert "none" in absent.error
