"""What a stopped load finds again, and what it must not take for its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from kgqa.loaders import make_loader
from kgqa.loaders.blocks import STDIN
from kgqa.loaders.text import TextLoader
from kgqa.loading.pipeline import NAMES, Stages, fingerprint

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stage_that_is_done_is_found_with_what_it_left(tmp_path: Path) -> None:
    stages = Stages(tmp_path, "print")
    assert stages.last is None
    for lines, name in enumerate(NAMES):
        stages.record.report.lines = lines
        stages.record.report.dropped["a reason"] += 1
        stages.finish(name)
        (tmp_path / name).mkdir()
        again = Stages(tmp_path, "print")
        assert again.last == name
        assert again.record == stages.record
        assert again.record.report.dropped.total() == lines + 1
        assert (tmp_path / name).is_dir()


@pytest.mark.parametrize(
    "record",
    [
        None,
        "",
        "{",
        "null",
        "[1]",
        '{"done": ["scan"]}',
        '{"fingerprint": "print", "done": []}',
        '{"fingerprint": "print", "done": ["another"]}',
        '{"fingerprint": "other", "done": ["scan"]}',
    ],
)
def test_a_record_that_is_not_of_this_load_is_removed(tmp_path: Path, record: str | None) -> None:
    work = tmp_path / "work"
    (work / "scan").mkdir(parents=True)
    (work / "scan" / "edges-mid-mid.arrow").write_bytes(b"half a file")
    if record is not None:
        (work / "stages.json").write_text(record)
    stages = Stages(work, "print")
    assert stages.last is None
    assert list(work.iterdir()) == []
    stages.clear()
    assert not work.exists()


def test_a_record_is_whole_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(tmp_path, "print")
    stages.finish("scan")

    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kgqa.loading.pipeline.os.fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        stages.finish("edges")
    assert json.loads((tmp_path / "stages.json").read_text())["done"] == ["scan"]


def test_a_removal_that_was_stopped_leaves_no_record_of_files_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(tmp_path, "print")
    (tmp_path / "graph").mkdir()
    for name in ("edges.arrow", "nodes.arrow"):
        (tmp_path / "graph" / name).write_bytes(b"whole")
    stages.finish("scan", tmp_path / "graph")

    def stopped(_: Path) -> None:
        (tmp_path / "graph" / "edges.arrow").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kgqa.loading.pipeline.shutil.rmtree", stopped)
        with pytest.raises(KeyboardInterrupt):
            stages.clear()
    again = Stages(tmp_path, "print")
    assert (again.last, again.damaged) == (None, None)


def test_the_same_load_has_the_same_fingerprint(tmp_path: Path) -> None:
    dump = tmp_path / "dump.nt"
    dump.write_text("a")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "part").write_text("b")
    for sources in ([dump], [folder], [dump, folder]):
        one = fingerprint(make_loader("freebase"), sources)
        assert one == fingerprint(make_loader("freebase", language="en"), sources)
    before = fingerprint(make_loader("text", concurrency=1), [dump])
    assert before == fingerprint(make_loader("text", concurrency=9), [dump])


def test_another_load_has_another_fingerprint(tmp_path: Path) -> None:
    dump, other, folder = tmp_path / "dump.nt", tmp_path / "other.nt", tmp_path / "folder"
    folder.mkdir()
    for path in (dump, other):
        path.write_text("a")
        os.utime(path, (1, 1))
    filters = tmp_path / "filters.txt"
    filters.write_text("- a\n")
    freebase = make_loader("freebase")
    prints = [
        fingerprint(freebase, [dump]),
        fingerprint(freebase, [other]),
        fingerprint(freebase, [dump, other]),
        fingerprint(freebase, [folder]),
        fingerprint(make_loader("freebase", language="de"), [dump]),
        fingerprint(make_loader("conceptnet"), [dump]),
        fingerprint(make_loader("freebase", filters=filters), [dump]),
        fingerprint(TextLoader(model="one"), [dump]),
        fingerprint(TextLoader(model="another"), [dump]),
        fingerprint(freebase, [STDIN]),
        fingerprint(freebase, [STDIN]),  # what stood in a pipe cannot be read again
    ]
    (folder / "new part").write_text("b")
    prints.append(fingerprint(freebase, [folder]))
    filters.write_text("- other\n")
    prints.append(fingerprint(make_loader("freebase", filters=filters), [dump]))
    dump.write_text("longer")
    os.utime(dump, (1, 1))
    prints.append(fingerprint(freebase, [dump]))
    os.utime(dump, (2, 2))
    prints.append(fingerprint(freebase, [dump]))
    assert len(set(prints)) == len(prints)
