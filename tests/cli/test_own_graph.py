"""A graph of the user's own: asked as it comes, then learnt from a few questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_json import ASK, check

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("minilm")]

SERVICES = ("checkout-api", "search-index", "mail-relay", "price-feed", "image-cache", "login")
PEOPLE = ("Ada Birch", "Bo Lindt", "Cy Amari", "Di Ferro", "Ed Okoye", "Flo Marsh")
TEAMS = ("Payments", "Discovery")


@pytest.fixture(scope="module")
def home(kgqa: Kgqa, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    rows = [("head", "relation", "tail")]
    for number, (service, person) in enumerate(zip(SERVICES, PEOPLE, strict=True)):
        if service != "login":
            rows.append((service, "onCallEngineer", person))
        rows.append((service, "ownedBy", TEAMS[number % 2]))
        rows.append((service, "writtenIn", ("Go", "Rust", "Python")[number % 3]))
        rows.append((person, "memberOf", TEAMS[number % 2]))
    rows += [("Payments", "teamLead", "Ada Birch"), ("Discovery", "teamLead", "Bo Lindt")]
    file = folder / "services.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    assert kgqa("ingest", "triples", file, "--home", folder / "home").code == 0
    return folder / "home"


def test_a_question_is_answered_without_a_flag(kgqa: Kgqa, home: Path) -> None:
    asked = kgqa("ask", "Who is on call for checkout-api?", "--home", home, "--json")
    check(asked.json, ASK)
    assert asked.json["method"] == "rank"
    assert asked.json["answers"][0]["name"] == "Ada Birch"
    assert asked.json["paths"][0]["grounded"]
    assert 0 < asked.json["confidence"] <= 1
    written = kgqa("ask", "what programming language is search-index in", "--home", home, "--json")
    assert written.json["answers"][0]["name"] == "Rust"


def test_whether_something_holds_is_yes_or_not_in_the_graph(kgqa: Kgqa, home: Path) -> None:
    yes, not_there = (
        kgqa("ask", f"Is {name} on call for checkout-api?", "--home", home, "--json").json
        for name in ("Ada Birch", "Bo Lindt")
    )
    check(yes, ASK)
    assert [(answer["id"], answer["name"]) for answer in yes["answers"]] == [(None, "yes")]
    assert yes["paths"][yes["answers"][0]["paths"][0]]["grounded"]
    assert not_there["answers"] == []
    assert "Not in this graph" in not_there["notes"][-1]


def test_verbose_says_what_an_answer_is_made_of(kgqa: Kgqa, home: Path) -> None:
    asked = ("ask", "Who is on call for checkout-api?", "--home", home)
    shown = kgqa(*asked, "-v").out
    assert "linking" in shown
    assert "x on call engineer ?" in shown
    assert "none of them" in shown
    plain = kgqa(*asked, "--json").json
    made = kgqa(*asked, "--json", "--verbose").json
    assert made.keys() - plain.keys() == {"linked", "relations"}
    assert made["linked"][0]["chosen"]
    assert made["relations"][0]["words"] == "x on call engineer ?"


def test_the_default_way_imports_no_framework(home: Path) -> None:
    loaded = modules_after("ask", "Who is on call for checkout-api?", "--home", str(home))
    assert "tokenizers" in loaded
    assert not loaded & {"torch", "transformers", "peft", "huggingface_hub"}


@pytest.mark.model
def test_a_language_model_is_asked_without_transformers(
    home: Path, model_cache: Path, tiny_folder: Path
) -> None:
    settings = {"KGQA_CACHE": str(model_cache), "KGQA_MODEL": str(tiny_folder)}
    asked = ["ask", "Who is on call for checkout-api?", "--home", str(home), "--method", "gcr"]
    modules_after(*asked, **settings)  # the first time they make the weight cache
    loaded = modules_after(*asked, **settings)
    assert "torch" in loaded
    assert not loaded & {"transformers", "peft"}


def modules_after(*command: str, **settings: str) -> set[str]:
    """The modules that a process has loaded when a command has ended well."""
    code = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules)); "
        f"sys.argv = ['kgqa', *{command!r}]; from kgqa.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | settings
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_what_the_entity_lacks_is_said(kgqa: Kgqa, home: Path) -> None:
    asked = kgqa("ask", "Who is on call for login?", "--home", home)
    assert asked.code == 0
    assert "Not in this graph" in asked.err + asked.out
    assert "on call engineer" in asked.err + asked.out


def test_learning_makes_a_ranker_that_auto_takes(kgqa: Kgqa, home: Path, tmp_path: Path) -> None:
    lines = []
    for service, person in list(zip(SERVICES, PEOPLE, strict=True))[:5]:
        lines.append((f"who gets paged when {service} is down", service, person))
    for number, service in enumerate(SERVICES[:5]):
        lines.append((f"whose baby is {service}", service, TEAMS[number % 2]))
    file = tmp_path / "questions.jsonl"
    rows = [{"question": q, "topic_entities": [t], "answers": [a]} for q, t, a in lines]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    report = kgqa("learn", "--questions", file, "--home", home, "--json").json
    assert (report["questions"], report["unusable"]) == (10, 0)
    assert report["after"] > report["before"]
    assert (home / "services" / "models" / "ranker" / "ranker.json").is_file()
    asked = kgqa("ask", "whose baby is login", "--home", home, "--json")
    assert asked.json["kg_llm"]["adapter"].endswith("services/models/ranker")
    assert asked.json["answers"][0]["name"] == "Discovery"


def test_learning_needs_questions_that_the_kg_can_answer(
    kgqa: Kgqa, home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "few.jsonl"
    file.write_text('{"question": "who", "topic_entities": ["login"], "answers": ["Nobody"]}\n')
    assert "8 are needed" in kgqa("learn", "--questions", file, "--home", home).error
    assert "cannot be read" in kgqa("learn", "--questions", tmp_path / "no", "--home", home).error


def test_an_adapter_is_learnt_and_gcr_takes_it(
    kgqa: Kgqa, home: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    new, source = tmp_path / "home", tmp_path / "services.tsv"
    source.write_text((home.parent / "services.tsv").read_text())
    kgqa("ingest", "triples", source, "--home", new)
    file = tmp_path / "questions.jsonl"
    rows = [
        {"question": f"who is paged for {one}", "topic_entities": [one], "answers": [person]}
        for one, person in list(zip(SERVICES, PEOPLE, strict=True))[:5]
    ] + [
        {"question": f"whose baby is {one}", "topic_entities": [one], "answers": [TEAMS[at % 2]]}
        for at, one in enumerate(SERVICES[:5])
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    of = {"KGQA_MODEL": tiny_folder}
    learnt = kgqa("learn", "--questions", file, "--adapter", "--home", new, "--json", **of)
    assert learnt.json["adapter"]["examples"] > 0
    asked = kgqa("ask", "whose baby is login", "--method", "gcr", "--home", new, "--json", **of)
    assert asked.json["kg_llm"]["adapter"].endswith("adapter")
    assert all(answer["grounded"] for answer in asked.json["answers"])
    for alone in (("--adapter",), ()):
        assert "There is nothing to learn from." in kgqa("learn", *alone, "--home", new).error
