from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kgqa.errors import DataError, UsageError
from kgqa.evaluation.record import RESULTS, RUN, Record, open_log, read_run, read_settings

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"kg": "small", "k": 10, "folder": ("a", "b")}


def record(name: str, **more: Any) -> Record:
    text, path = "where? \u2028 'x'", {"text": "p", "score": float("-inf")}
    return Record(id=name, question=text, outcome="right", hits_at_1=1.0, paths=[path], **more)


def write(folder: Path, *names: str) -> None:
    with open_log(folder, SETTINGS) as log:
        for name in names:
            log.write(record(name))


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    other = record("b", accuracy=0.0, general_llm={"model": "m", "calls": 1})
    folder = tmp_path / "deep" / "run"
    with open_log(folder, SETTINGS) as log:
        assert log.done == {}
        log.write(record("a"))
        assert list(read_run(folder)) == ["a"]  # it is on disk at once
        log.write(other)
    assert read_run(folder) == {"a": record("a"), "b": other}
    assert read_settings(folder)["k"] == 10


@pytest.mark.parametrize("kept", [1, 7, 40, -1])
def test_a_stopped_run_goes_on_and_a_cut_line_is_written_again(tmp_path: Path, kept: int) -> None:
    write(tmp_path, "a", "b")
    path = tmp_path / RESULTS
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:kept])
    assert list(read_run(tmp_path)) == ["a"]
    with open_log(tmp_path, SETTINGS) as log:
        assert list(log.done) == ["a"]
        log.write(record("b"))
    assert path.read_bytes() == first + second


def test_a_line_of_an_older_version_is_read(tmp_path: Path) -> None:
    line = '{"id": "q", "question": "?", "outcome": "right", "hits_at_1": 1.0, "seconds": 2}\n'
    (tmp_path / RESULTS).write_text(line)
    found = read_run(tmp_path)["q"]
    assert (found.hits_at_1, found.seconds, found.triplets) == (1.0, 2.0, None)


@pytest.mark.parametrize(
    ("other", "name"),
    [({**SETTINGS, "k": 5}, "k"), ({**SETTINGS, "hops": 2}, "hops"), ({"kg": "small"}, "k")],
)
def test_another_setting_in_the_same_folder_is_refused_by_name(
    tmp_path: Path, other: dict[str, Any], name: str
) -> None:
    write(tmp_path, "a")
    with pytest.raises(UsageError, match=f"another {name}: ") as caught, open_log(tmp_path, other):
        pass
    assert "`out`" in caught.value.hint
    with open_log(tmp_path, SETTINGS) as log:  # and nothing was lost
        assert list(log.done) == ["a"]


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with (
        open_log(tmp_path, SETTINGS),
        pytest.raises(UsageError, match="Another run"),
        open_log(tmp_path, SETTINGS),
    ):
        pass
    write(tmp_path)  # the first one has ended


@pytest.mark.parametrize("bad", [b"{}", b"{", b"\xff", b'{"id": "x", "other": 1}', b"[]"])
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, bad: bytes) -> None:
    write(tmp_path, "a")
    path = tmp_path / RESULTS
    path.write_bytes(bad + b"\n" + path.read_bytes())
    with pytest.raises(DataError, match="line 1"):
        read_run(tmp_path)
    with pytest.raises(DataError, match="line 1"), open_log(tmp_path, SETTINGS):
        pass


def test_results_without_settings_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text("mine\n")
    with pytest.raises(UsageError, match=RUN), open_log(tmp_path, SETTINGS):
        pass
    assert (tmp_path / RESULTS).read_text() == "mine\n"


def test_a_folder_that_cannot_be_written_or_holds_no_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), open_log(tmp_path / "file", {}):
        pass
    for read in (read_run, read_settings):
        with pytest.raises(DataError, match="no run"):
            read(tmp_path)
    (tmp_path / RUN).write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_settings(tmp_path)
