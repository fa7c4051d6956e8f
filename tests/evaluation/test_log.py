from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from kgqa.evaluation.log import RESULTS, RUN, open_log, read_run, read_settings
from kgqa.evaluation.record import Record, bad_entry_record
from kgqa.questions import BadEntry

from kgqa.errors import DataError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"kg": "small", "k": 10, "folder": ("a", "b")}


def record(name: str, **more) -> Record:
    return Record(name, "where? \u2028 'x'", "right", hits_at_1=1.0, paths=[{"text": "p"}], **more)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    with open_log(tmp_path / "deep" / "run", SETTINGS) as log:
        assert log.done == {}
        log.write(record("a"))
        log.write(record("b", accuracy=0.0, general_llm={"model": "m", "calls": 1}))
    found = read_run(tmp_path / "deep" / "run")
    assert list(found) == ["a", "b"]
    assert found["b"] == record("b", accuracy=0.0, general_llm={"model": "m", "calls": 1})
    assert read_settings(tmp_path / "deep" / "run")["k"] == 10


def test_a_line_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with open_log(tmp_path, SETTINGS) as log:
        log.write(record("a"))
        assert list(read_run(tmp_path)) == ["a"]


@pytest.mark.parametrize("kept", [1, 7, 40, -1])
def test_a_stopped_run_goes_on_and_a_cut_line_is_redone(tmp_path: Path, kept: int) -> None:
    with open_log(tmp_path, SETTINGS) as log:
        log.write(record("a"))
        log.write(record("b"))
    path = tmp_path / RESULTS
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:kept])
    assert list(read_run(tmp_path)) == ["a"]
    with open_log(tmp_path, SETTINGS) as log:
        assert list(log.done) == ["a"]
        log.write(record("b"))
    assert path.read_bytes() == first + second


@pytest.mark.parametrize(
    ("other", "name"),
    [({**SETTINGS, "k": 5}, "k"), ({**SETTINGS, "hops": 2}, "hops"), ({"kg": "small"}, "k")],
)
def test_another_setting_in_the_same_folder_is_refused_by_name(
    tmp_path: Path, other: dict, name: str
) -> None:
    with open_log(tmp_path, SETTINGS) as log:
        log.write(record("a"))
    with pytest.raises(UsageError, match=f"another {name}: ") as caught, open_log(tmp_path, other):
        pass
    assert "--out" in caught.value.hint
    with open_log(tmp_path, SETTINGS) as log:  # and nothing was lost
        assert list(log.done) == ["a"]


def test_two_runs_at_once_are_told(tmp_path: Path) -> None:
    with (
        open_log(tmp_path, SETTINGS),
        pytest.raises(UsageError, match="Another run"),
        open_log(tmp_path, SETTINGS),
    ):
        pass


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    with open_log(tmp_path, SETTINGS) as log:
        log.write(record("a"))
    path = tmp_path / RESULTS
    for bad in (b"{}\n", b"{\n", b"\xff\n", b'{"id": "x", "other": 1}\n', b"[]\n"):
        whole = path.read_bytes()
        path.write_bytes(bad + whole)
        with pytest.raises(DataError, match="line 1"):
            read_run(tmp_path)
        with pytest.raises(DataError, match="line 1"), open_log(tmp_path, SETTINGS):
            pass
        path.write_bytes(whole)


def test_results_that_nobody_says_what_they_are_of_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text("mine\n")
    with pytest.raises(UsageError, match=RUN), open_log(tmp_path, SETTINGS):
        pass
    assert (tmp_path / RESULTS).read_text() == "mine\n"


def test_a_folder_that_cannot_be_written_or_holds_no_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), open_log(tmp_path / "file", {}):
        pass
    with pytest.raises(DataError, match="no run"):
        read_run(tmp_path)
    with pytest.raises(DataError, match="no run"):
        read_settings(tmp_path)
    (tmp_path / RUN).write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_settings(tmp_path)


def test_a_malformed_line_is_a_record_without_a_score() -> None:
    one = bad_entry_record(BadEntry("f.jsonl", 3, "no JSON"))
    assert (one.id, one.outcome, one.answered) == ("f.jsonl, line 3", "malformed", False)
    assert (one.hits_at_1, one.legacy["gcr"]["hit"], one.legacy["rog"]["f1"]) == (0.0, 0.0, 0.0)
    assert Record.model_validate_json(one.model_dump_json()) == one
