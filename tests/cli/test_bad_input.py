"""What each wrong input gets: which one it was, what is near, what to do next; never a traceback.

What an index or a server that is out of order gets is in ``test_faults``, what a dump gets in
``tests.loading.test_bad_input``.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import huggingface_hub.constants
import pytest

import kgqa as package
from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from tests.cli.conftest import Kgqa

SAMPLE = Path(package.__file__).parent / "data" / "freebase" / "sample.nt.gz"


@pytest.mark.parametrize("question", ["", "   ", "\n"])
@pytest.mark.parametrize("command", ["ask", "link"])
def test_an_empty_question(kgqa: Kgqa, plain_home: Path, command: str, question: str) -> None:
    error = kgqa(command, question, "--home", plain_home).error
    assert "The question is empty" in error
    assert "Ask one" in error


def test_a_question_with_nothing_linkable(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa("ask", "Where does Zaphod Qwxyz live?", "--home", plain_home).error
    assert "Zaphod Qwxyz" in error
    assert "--entity" in error


def test_a_misspelt_topic_gets_the_nearest_names(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa("ask", "Where was Obamma born?", "--home", plain_home).error
    assert '"Obamma"' in error
    assert "Barack Obama" in error
    assert "--entity" in error


@pytest.mark.parametrize(
    "arguments", [("ask", QUESTION, "--entity", "Baracc Obama"), ("paths", "Baracc Obama")]
)
def test_an_unknown_entity(kgqa: Kgqa, plain_home: Path, arguments: tuple[str, ...]) -> None:
    error = kgqa(*arguments, "--home", plain_home).error
    assert '"Baracc Obama"' in error
    assert '"Barack Obama" (m.02mjmr)' in error
    assert "kgqa link" in error


def test_a_list_of_entities_of_which_none_is_known(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "entities.txt"
    listed.write_text("nobody\nnowhere\n", encoding="utf-8")
    done = kgqa("precompute-tries", "--entities", listed, "--home", plain_home)
    assert "None of the entities" in done.error
    assert "nobody, nowhere" in done.err
    missing = kgqa("precompute-tries", "--entities", tmp_path / "no.txt", "--home", plain_home)
    assert str(tmp_path / "no.txt") in missing.error


def test_an_eval_file_that_is_not_there(kgqa: Kgqa, plain_home: Path, tmp_path: Path) -> None:
    error = kgqa("eval", "jsonl", tmp_path / "no.jsonl", "--home", plain_home).error
    assert str(tmp_path / "no.jsonl") in error


@pytest.mark.parametrize(
    "arguments",
    [("ask", QUESTION), ("paths", "Paris"), ("link", "Paris"), ("precompute-tries",)],
)
def test_no_kg(kgqa: Kgqa, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    error = kgqa(*arguments, "--home", tmp_path / "none").error
    assert "no KG" in error
    assert "kgqa ingest" in error


def test_two_kgs_and_none_named(kgqa: Kgqa, tmp_path: Path) -> None:
    for name in ("one", "two"):
        dump = tmp_path / f"{name}.txt"
        dump.write_text(f"{name}\tlikes\tb\n", encoding="utf-8")
        assert kgqa("ingest", "triples", dump, "--home", tmp_path / "home").code == 0
    error = kgqa("paths", "b", "--home", tmp_path / "home").error
    assert "one, two" in error
    assert "--kg" in error
    assert "only one, two" in kgqa("paths", "b", "--kg", "x", "--home", tmp_path / "home").error


def test_a_home_that_cannot_be_written(kgqa: Kgqa, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("in the way", encoding="utf-8")
    error = kgqa("ingest", "umls", "--home", home).error
    assert str(home) in error
    assert home.read_text("utf-8") == "in the way"


def test_a_model_that_is_nowhere(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for arguments in (("ask", QUESTION), ("precompute-tries",)):
        error = kgqa(*arguments, "--model", "nobody/no-such-model", "--home", plain_home).error
        assert "nobody/no-such-model" in error
        assert "--model" in error
    error = kgqa("ask", QUESTION, "--model", "./no/folder", "--home", plain_home).error
    assert "no/folder" in error


def test_the_offline_model_is_not_installed(
    kgqa: Kgqa, plain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> None:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr("kgqa.models.locate.metadata.files", missing)
    error = kgqa("ask", QUESTION, "--home", plain_home).error
    assert "SmolLM2-135M-Instruct" in error
    assert "kgqa setup" in error


def test_a_preset_whose_markers_the_model_lacks(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa("ask", QUESTION, "--preset", "gcr", "--home", plain_home).error
    assert "<PATH>" in error


def test_link_errors_come_before_any_model_is_looked_for(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa(
        *("ask", "Zaphod Qwxyz?", "--method", "gcr", "--model", "./no/folder"),
        *("--home", plain_home),
    ).error
    assert "Zaphod Qwxyz" in error
    assert "no/folder" not in error


def test_a_topic_entity_without_paths(kgqa: Kgqa, tmp_path: Path) -> None:
    dump = tmp_path / "two.txt"
    dump.write_text("Ada\tknows\tBob\n", encoding="utf-8")
    done = kgqa("ingest", "triples", dump, "--direction", "out", "--home", tmp_path)
    assert done.code == 0, done.err
    error = kgqa("ask", "Who is it?", "--entity", "Bob", "--home", tmp_path).error
    assert "Bob" in error
    assert "path" in error


def test_rm_says_that_there_is_no_such_kg_before_it_asks(kgqa: Kgqa, tmp_path: Path) -> None:
    error = kgqa("rm", "nothing", "--home", tmp_path).error
    assert "no KG named nothing" in error
    assert "--yes" not in error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 8 TiB"),
        OSError(12, "Cannot allocate memory"),
        ImportError("libparquet.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_memory_that_runs_out_is_said_in_a_sentence(
    kgqa: Kgqa, plain_home: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(package.KG, "linked", fails)
    said = kgqa("link", QUESTION, "--home", plain_home).error
    assert said.startswith("Error: There was not enough memory for this. Ask for fewer")
