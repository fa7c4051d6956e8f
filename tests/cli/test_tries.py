"""`kgqa precompute-tries`: what it takes and says, and that its index does not depend on how."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

OBAMA, APOLLO = "m.02mjmr", "Apollo 13"
WITHOUT_RAY = (  # as if it were not installed
    "import sys; sys.modules['ray'] = None; from kgqa.cli import main; main()"
)


def index_files(home: Path) -> dict[str, bytes]:
    """All files of the only index in a home."""
    (folder,) = home.glob("*/tries/*/")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def empty_home(plain_home: Path, tmp_path: Path) -> Path:
    """A home with the sample and no index, for one test."""
    return shutil.copytree(plain_home, tmp_path / "home")


@pytest.fixture(scope="module")
def whole(kgqa: Kgqa, plain_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the index of the whole sample, made by one process. Not to be changed."""
    home = shutil.copytree(plain_home, tmp_path_factory.mktemp("whole") / "home")
    done = kgqa("precompute-tries", "--json", "--home", home).json
    assert done["shards"] > 2
    assert done["added"] == done["entities"] > 2_000
    return home


def test_entities_are_given_by_id_or_name_once_or_twice_and_unknown_ones_are_told(
    kgqa: Kgqa, empty_home: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "entities.txt"
    listed.write_text(
        f"{OBAMA}\r\n  {APOLLO}  \n\n/m/02mjmr\nBarack Obama\nNobody At All\nm.0zzzzzz\n",
        encoding="utf-8",
    )
    command = ("precompute-tries", "--entities", listed, "--json", "--home", empty_home)
    done = kgqa(*command)
    assert (done.json["added"], done.json["entities"]) == (2, 2)
    assert "2 of 6 entities are not in the KG: Nobody At All, m.0zzzzzz" in done.err
    again = kgqa(*command)
    assert (again.json["added"], again.json["paths"]) == (0, done.json["paths"])


def test_questions_name_their_topic_entities_and_a_malformed_line_is_told_by_its_number(
    kgqa: Kgqa, empty_home: Path, tmp_path: Path
) -> None:
    asked = tmp_path / "questions.jsonl"
    lines: list[Any] = [
        {"id": "1", "question": "a\u2028b?", "topic_entities": [OBAMA, "Nobody At All"]},
        {"question": "?", "q_entity": [APOLLO, OBAMA]},
    ]
    bad = ["{broken", '"a string"', '{"question": "?"}', '{"topic_entities": "Apollo 13"}']
    first = json.dumps(lines[0], ensure_ascii=False)
    text = "\n".join([first, *bad, "", json.dumps(lines[1])])
    asked.write_text(text, encoding="utf-8-sig")  # with the mark that some editors write
    done = kgqa("precompute-tries", "--questions", asked, "--json", "--home", empty_home)
    assert done.json["added"] == 2
    warnings = [line for line in done.err.splitlines() if "is not a question" in line]
    assert [line.split(" is not")[0] for line in warnings] == [
        f"{asked}, line {number}" for number in (2, 3, 4, 5)
    ]
    assert "1 of 3 entities are not in the KG: Nobody At All" in done.err


def test_both_files_together_mean_the_entities_of_either(
    kgqa: Kgqa, empty_home: Path, tmp_path: Path
) -> None:
    listed, asked = tmp_path / "entities.txt", tmp_path / "questions.jsonl"
    listed.write_text(f"{APOLLO}\n", encoding="utf-8")
    asked.write_text(json.dumps({"topic_entities": [OBAMA, APOLLO]}), encoding="utf-8")
    files = ("--entities", listed, "--questions", asked)
    assert kgqa("precompute-tries", *files, "--json", "--home", empty_home).json["added"] == 2


@pytest.mark.parametrize("flag", ["--entities", "--questions"])
def test_a_file_that_names_nothing_or_is_no_text_is_an_error(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path, flag: str
) -> None:
    file = tmp_path / "file"
    command = ("precompute-tries", flag, file, "--home", plain_home)
    file.write_bytes(b"")
    assert "None of the entities asked for" in kgqa(*command).error
    file.write_bytes("Curaçao\n".encode("latin-1"))
    error = kgqa(*command).error
    assert str(file) in error
    assert "not UTF-8 text" in error
    assert not list(plain_home.glob("*/tries/*"))


def test_two_workers_write_the_files_that_one_does(
    kgqa: Kgqa, whole: Path, empty_home: Path
) -> None:
    done = kgqa("precompute-tries", "--workers", "2", "--home", empty_home)
    assert done.code == 0, done.err
    assert "entities added in" in done.out
    assert index_files(empty_home) == index_files(whole)


def test_a_second_run_at_the_same_time_is_told(kgqa: Kgqa, own_home: Path) -> None:
    (folder,) = own_home.glob("*/tries/")
    before = index_files(own_home)
    with FileLock(folder.parent / ".ingest.lock"):
        error = kgqa("precompute-tries", "--home", own_home).error
    assert "Another command is writing to" in error
    assert index_files(own_home) == before


def test_ray_that_is_not_installed_is_said_with_how_to_install_it(plain_home: Path) -> None:
    command = ["precompute-tries", "--engine", "ray", "--home", str(plain_home)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, *command], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert "Ray, which is not installed" in done.stderr
    assert "kgqa[ray]" in done.stderr


def test_an_address_without_ray_is_an_error(kgqa: Kgqa, plain_home: Path) -> None:
    error = kgqa("precompute-tries", "--address", "auto", "--home", plain_home).error
    assert "--engine" in error


@pytest.mark.model
def test_rows_do_not_depend_on_whether_transformers_tokenises(
    plain_home: Path, model_cache: Path
) -> None:
    from transformers import AutoTokenizer

    from kgqa.graph.open import open_store
    from kgqa.models.kg_llm import load_encoder
    from kgqa.models.locate import locate_model
    from kgqa.models.tokenizer import BareEncoder, HFEncoder
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Silent
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.precompute import PrecomputeWorker, UnitSettings

    folder = locate_model(None, model_cache, Silent()).folder
    full = HFEncoder(AutoTokenizer.from_pretrained(folder))
    bare = load_encoder(None, None, cache=model_cache, progress=Silent()).encoder
    assert isinstance(bare, BareEncoder)
    (graph,) = plain_home.glob("*/graph.sqlite")
    with open_store(f"sqlite:///{graph}") as store:
        keys = store.topic_keys()[:200]
        settings = UnitSettings(WalkRules(), 100_000, store.info.version)
        one, other = (
            PrecomputeWorker(store, PathLexicon(each, PathFormat())).work(keys, settings)
            for each in (full, bare)
        )
    assert [shard.record.entities for shard in one.shards] == [200]
    assert one == other


def test_status_imports_nothing_that_runs_a_model(whole: Path) -> None:
    code = """if True:
        import sys, kgqa
        status = kgqa.status(sys.argv[1])
        fits = [index["fits"] for kg in status["kgs"] for index in kg["indexes"]]
        print(fits, *({"torch", "transformers", "neo4j"} & set(sys.modules)))"""
    command = [sys.executable, "-c", code, str(whole)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[True]"


def test_status_says_what_it_verified(kgqa: Kgqa, whole: Path) -> None:
    said = kgqa("status", "--verify", "--home", whole).out
    assert re.search(r"verified freebase: \d+ shards, 0\.\d MB: intact \(\d+\.\d\d s\)", said)
    assert "verified" not in kgqa("status", "--home", whole).out
