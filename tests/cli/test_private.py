"""Who may read what is written: its owner, unless a folder that was there is open to others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.errors import KgqaError
from kgqa.models.general import CallCache
from kgqa.permissions import mask_of, sharing_note

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")


@pytest.fixture(autouse=True)
def _usual_mask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    file = tmp_path / "kg.tsv"
    file.write_text("Ada\tknows\tBob\nno triple\nBob\tlives in\tRome\n")
    return file


def modes(folder: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"folders": set(), "files": set()}
    for path in (folder, *folder.rglob("*")):
        kind = "folders" if path.is_dir() else "files"
        found[kind].add(f"{path.stat().st_mode & 0o777:o}")
    return found


def test_what_is_new_is_its_owner_s(kgqa: Kgqa, dump: Path, tmp_path: Path) -> None:
    home = tmp_path / "data" / "home"
    done = kgqa("ingest", "triples", dump, "--home", home)
    assert done.code == 0, done.err
    assert "readable" not in done.err
    assert modes(home) == {"folders": {"700"}, "files": {"600"}}
    assert os.umask(0o022) == 0o022, "the process's own mask is as it was"


def test_the_library_makes_the_same(dump: Path, tmp_path: Path) -> None:
    kgqa.ingest("triples", dump, home=tmp_path / "home").close()
    assert modes(tmp_path / "home") == {"folders": {"700"}, "files": {"600"}}
    with CallCache(tmp_path / "cache" / "calls.sqlite") as cache:
        len(cache)
    assert modes(tmp_path / "cache") == {"folders": {"700"}, "files": {"600"}}
    assert os.umask(0o022) == 0o022


@pytest.mark.parametrize(
    ("mode", "folders", "files", "whom"),
    [
        (0o750, "750", "640", "group"),
        (0o755, "755", "644", "world"),
        (0o700, "700", "600", ""),
    ],
)
def test_a_folder_that_is_there_keeps_its_mode_and_what_is_new_follows_it(
    kgqa: Kgqa, dump: Path, tmp_path: Path, mode: int, folders: str, files: str, whom: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    done = kgqa("ingest", "triples", dump, "--home", home, "--kg", "small")
    assert home.stat().st_mode & 0o777 == mode
    assert modes(home / "small") == {"folders": {folders}, "files": {files}}
    assert f"{whom}-readable (mode {mode:o})" in done.err if whom else not sharing_note(home)


def test_nothing_is_made_that_everybody_may_write_to(dump: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    assert mask_of(home) == 0o002
    kgqa.ingest("triples", dump, home=home).close()
    assert not [path for path in home.rglob("*") if path.stat().st_mode & 0o002]


@pytest.mark.parametrize("loader", ["triples", "freebase", "conceptnet", "umls"])
@pytest.mark.parametrize("name", ["random.bin", "random.gz", "random.parquet", "zero.bin"])
def test_a_load_that_fails_leaves_no_folder_behind(tmp_path: Path, loader: str, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(bytes(3_000) if "zero" in name else bytes(range(1, 256)) * 100)
    home = tmp_path / "new" / "home"
    with pytest.raises(KgqaError) as caught:
        kgqa.ingest(loader, file, kg="x", home=home)
    assert "empty" not in str(caught.value)
    left = {path.name for path in home.rglob("*")} if home.exists() else set()
    assert left <= {"x", "rejects.tsv", ".ingest.lock"}
    assert not left or "rejects.tsv" in left, "the rejected lines are kept to be looked at"
