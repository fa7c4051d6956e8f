"""What ``docs/extending.md`` shows: each example is one file and one registration."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kgqa as library
from kgqa import registry
from kgqa.registry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Kgqa

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
LINES = """Ada Lovelace | worked with | Charles Babbage
Ada Lovelace | lived in | London
Charles Babbage | born in | London
only one part
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The examples of the page as modules, registered for this module's tests."""
    folder = tmp_path_factory.mktemp("extending")
    for name, code in re.findall(
        r"```python\n# (\w+)\.py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    ):
        (folder / f"{name}.py").write_text(code, "utf-8")
    sys.path.insert(0, str(folder))
    added = [
        (registry.LOADERS, Entry("pairs", "pairs:PairsLoader", "lines of three parts")),
        (registry.METHODS, Entry("nearest", "nearest:Nearest", "one hop away")),
        (registry.SEARCHES, Entry("greedy", "greedy:GreedySearch", "the best token")),
        (registry.QUESTION_FORMATS, Entry("tabbed", "tabbed:Tabbed", "three columns")),
    ]
    for table, entry in added:
        table.add(entry)
    yield folder
    for table, entry in added:
        table._added.pop(entry.name)
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def home(modules: Path, kgqa: Kgqa, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a KG that the example's loader has loaded from the command line."""
    folder = tmp_path_factory.mktemp("home")
    dump = folder / "people.txt"
    dump.write_text(LINES.replace("|", "/"), "utf-8")
    done = kgqa("ingest", "pairs", dump, "--set", "separator=/", "--home", folder, "--json").json
    assert (done["kg"], done["edges"], done["rejected"]) == ("people", 3, 1)
    return folder


def test_the_loader_from_the_library(modules: Path, tmp_path: Path) -> None:
    dump = tmp_path / "people.txt"
    dump.write_text(LINES, "utf-8")
    with library.ingest("pairs", dump, home=tmp_path / "home") as kg:
        assert kg.info.edges == 3
        assert kg.loaded is not None
        assert "not three parts" in Path(str(kg.loaded["rejects_file"])).read_text("utf-8")


def test_the_method(kgqa: Kgqa, home: Path) -> None:
    question = "Whom did Ada Lovelace work with?"
    command = ("ask", question, "--method", "nearest", "--set", "most=1", "--home", home, "--json")
    shown = kgqa(*command).json
    assert (shown["method"], len(shown["answers"])) == ("nearest", 1)
    assert all(path["grounded"] for path in shown["paths"])
    with library.open("people", home=home) as kg:
        answer = kg.ask(question, method="nearest", most=2)
    assert {ranked.name for ranked in answer.answers} == {"Charles Babbage", "London"}
    assert "most" in kgqa("options", "nearest").out
    wrong = kgqa("ask", question, "--set", "most=0", "--method", "nearest", "--home", home)
    assert "most" in wrong.error


def test_the_search(kgqa: Kgqa, home: Path, tiny_folder: Path) -> None:
    question = "Where did Ada Lovelace live?"
    command = ("ask", question, "--search", "greedy", "--model", tiny_folder, "--home", home)
    shown = kgqa(*command, "--json").json
    assert shown["search"]["kind"] == "greedy"
    assert len(shown["paths"]) == 1
    with library.open(home=home) as kg:
        answer = kg.ask(question, search="greedy", model=str(tiny_folder))
    assert [path.text for path in answer.paths] == [path["text"] for path in shown["paths"]]


def test_the_question_format(kgqa: Kgqa, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "asked.tsv"
    file.write_text("1\tWhere did Ada Lovelace live?\tLondon\nonly one column\n", "utf-8")
    command = ("eval", "tabbed", file, "--method", "nearest", "--home", home, "--json")
    done = kgqa(*command).json
    assert (done["format"], done["questions"], done["answered"], done["hit"]) == (
        "tabbed",
        2,
        1,
        50.0,
    )
