"""`kgqa ingest`: its options, standard input, and going on with a load that was stopped."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kgqa as package

if TYPE_CHECKING:
    from tests.cli.conftest import Kgqa

SAMPLE = Path(package.__file__).parent / "data" / "freebase" / "sample.nt.gz"
CONCEPTNET = Path(package.__file__).parent / "data" / "conceptnet" / "assertions.csv.gz"


def test_a_list_of_filters_takes_the_place_of_the_bundled_one(kgqa: Kgqa, tmp_path: Path) -> None:
    bundled = Path(package.__file__).parent / "graph" / "freebase_filters.txt"
    mine = tmp_path / "mine.txt"
    mine.write_text(bundled.read_text("utf-8") + "- people\n", encoding="utf-8")
    load = ("ingest", "freebase", SAMPLE, "--json", "--home", tmp_path)
    usual = kgqa(*load, "--kg", "usual").json
    fewer = kgqa(*load, "--kg", "mine", "--filters", mine).json
    assert 0 < fewer["edges"] < usual["edges"]


@pytest.mark.parametrize(
    ("dump", "option", "value"),
    [
        ("freebase", "--min-weight", "2"),
        ("conceptnet", "--sources", "MSH"),
        ("umls", "--columns", "head,relation,tail"),
    ],
)
def test_an_option_of_another_loader_is_named(
    kgqa: Kgqa, tmp_path: Path, dump: str, option: str, value: str
) -> None:
    error = kgqa("ingest", dump, option, value, "--home", tmp_path).error
    assert f"{option} does not belong to the loader {dump}" in error


def test_weights_and_senses_of_conceptnet(kgqa: Kgqa, tmp_path: Path) -> None:
    def edges(*options: str) -> int:
        home = ("--home", tmp_path)
        return int(
            kgqa("ingest", "conceptnet", CONCEPTNET, *options, "--json", *home).json["edges"]
        )

    assert edges("--min-weight", "2") < edges() <= edges("--senses", "keep")


def test_standard_input_is_a_source(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KGQA_", "NEO4J_"))}
    command = [sys.executable, "-m", "kgqa", "ingest", "freebase", "-", "--json"]
    command += ["--home", str(tmp_path), "--kg"]

    def load(kg: str, data: bytes) -> bytes:
        done = subprocess.run(
            [*command, kg], input=data, capture_output=True, env=environment, check=True
        )
        return done.stdout.split(b'"seconds"')[0].replace(kg.encode(), b"")

    compressed = SAMPLE.read_bytes()
    assert load("plain", gzip.decompress(compressed)) == load("gzip", compressed)


def test_triples_from_standard_input_need_a_name(kgqa: Kgqa, tmp_path: Path) -> None:
    error = kgqa("ingest", "triples", "-", "--home", tmp_path).error
    assert "no name" in error
    assert "--kg" in error


def test_the_work_folder_is_elsewhere_and_empty_at_the_end(kgqa: Kgqa, tmp_path: Path) -> None:
    work = tmp_path / "other disk"
    arguments = ("--home", tmp_path / "home", "--work-folder", work, "--json")
    kgqa("ingest", "freebase", SAMPLE, *arguments).json["edges"]
    assert [path for path in work.rglob("*") if path.is_file()] == []
    left = [path.name for path in (tmp_path / "home" / "freebase").iterdir()]
    assert "ingest" not in left


def test_a_load_whose_store_failed_goes_on_with_the_store(kgqa: Kgqa, tmp_path: Path) -> None:
    nowhere = ("--graph", "bolt://localhost:9", "--home", tmp_path)
    assert "No Neo4j answers" in kgqa("ingest", "freebase", SAMPLE, *nowhere).error
    done = kgqa("ingest", "freebase", SAMPLE, "--home", tmp_path)
    assert done.code == 0
    assert "Going on with the load of freebase that was stopped after its stage “edges”" in done.err
    fresh = kgqa("ingest", "freebase", SAMPLE, "--kg", "fresh", "--home", tmp_path)
    assert done.out.split(" in ")[0].split(":")[1] == fresh.out.split(" in ")[0].split(":")[1]


def test_a_bulk_import_needs_a_server_and_its_folder(kgqa: Kgqa, tmp_path: Path) -> None:
    no_server = ("--method", "admin", "--graph", "bolt://localhost:9", "--home", tmp_path)
    error = kgqa("ingest", "freebase", SAMPLE, *no_server).error
    assert "No Neo4j answers" in error or "--neo4j-home" in error


@pytest.mark.parametrize(
    "flags",
    [("--method", "admin"), ("--method", "bolt"), ("--neo4j-home", "x"), ("--replace-database",)],
)
def test_what_is_for_neo4j_is_not_ignored_where_the_store_is_sqlite(
    kgqa: Kgqa, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    error = kgqa("ingest", "freebase", SAMPLE, *flags, "--home", tmp_path / "home").error
    assert f"{' '.join(flags[:1])}" in error
    assert "NEO4J_URI" in error
    assert not (tmp_path / "home").exists(), "before anything is read"
