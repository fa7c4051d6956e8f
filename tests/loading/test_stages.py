"""What a stopped load finds again, and what it must not take for its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from kgqa.loaders import make_loader
from kgqa.loaders.blocks import STDIN
from kgqa.loading.stages import NAMES, Stages, fingerprint

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stage_that_is_done_is_found_with_what_it_left(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "work", "print")
    assert stages.last is None
    assert stages.record("scan") is None
    for name in NAMES:
        stages.finish(name, {"what": name})
        again = Stages(tmp_path / "work", "print")
        assert again.last == name
        assert again.record(name) == {"what": name}


def test_files_of_a_stage_that_is_not_done_are_kept_beside_those_that_are(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "work", "print")
    stages.finish("scan", {})
    (tmp_path / "work" / "scan").mkdir()
    Stages(tmp_path / "work", "print")
    assert (tmp_path / "work" / "scan").is_dir()


@pytest.mark.parametrize(
    "record",
    [
        None,
        "",
        "{",
        "null",
        "[1]",
        '{"done": {}}',
        '{"fingerprint": "print", "done": {}}',
        '{"fingerprint": "other", "done": {"scan": {}}}',
    ],
)
def test_what_is_no_record_of_this_load_is_removed(tmp_path: Path, record: str | None) -> None:
    work = tmp_path / "work"
    (work / "scan").mkdir(parents=True)
    (work / "scan" / "edges-mid-mid.arrow").write_bytes(b"half a file")
    if record is not None:
        (work / "stages.json").write_text(record)
    stages = Stages(work, "print")
    assert stages.last is None
    assert list(work.iterdir()) == []


def test_clearing_leaves_nothing(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "work", "print")
    stages.finish("scan", {})
    stages.clear()
    assert not (tmp_path / "work").exists()
    stages.clear()


def test_a_record_is_whole_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(tmp_path / "work", "print")
    stages.finish("scan", {"lines": 1})

    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kgqa.loading.stages.os.fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        stages.finish("names", {})
    told = json.loads((tmp_path / "work" / "stages.json").read_text())
    assert list(told["done"]) == ["scan"]


def test_the_same_load_has_the_same_fingerprint(tmp_path: Path) -> None:
    dump = tmp_path / "dump.nt"
    dump.write_text("a")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "part").write_text("b")
    for sources in ([dump], [folder], [dump, folder]):
        one = fingerprint(make_loader("freebase"), sources)
        assert one == fingerprint(make_loader("freebase", language="en"), sources)


def test_another_load_has_another_fingerprint(tmp_path: Path) -> None:
    dump, other = tmp_path / "dump.nt", tmp_path / "other.nt"
    dump.write_text("a")
    other.write_text("a")
    os.utime(dump, (1, 1))
    os.utime(other, (1, 1))
    filters = tmp_path / "filters.txt"
    filters.write_text("- a\n")
    freebase = make_loader("freebase")
    prints = [
        fingerprint(freebase, [dump]),
        fingerprint(freebase, [other]),
        fingerprint(freebase, [dump, other]),
        fingerprint(make_loader("freebase", language="de"), [dump]),
        fingerprint(make_loader("conceptnet"), [dump]),
        fingerprint(make_loader("freebase", filters=filters), [dump]),
    ]
    filters.write_text("- other\n")
    prints.append(fingerprint(make_loader("freebase", filters=filters), [dump]))
    dump.write_text("longer")
    os.utime(dump, (1, 1))
    prints.append(fingerprint(freebase, [dump]))
    os.utime(dump, (2, 2))
    prints.append(fingerprint(freebase, [dump]))
    assert len(set(prints)) == len(prints)


def test_a_new_part_in_a_folder_is_another_load(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a")
    before = fingerprint(make_loader("conceptnet"), [tmp_path])
    (tmp_path / "two").write_text("b")
    assert fingerprint(make_loader("conceptnet"), [tmp_path]) != before


def test_standard_input_is_never_the_same_load() -> None:
    loader = make_loader("freebase")
    assert fingerprint(loader, [STDIN]) != fingerprint(loader, [STDIN])
