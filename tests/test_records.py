"""Files of records and settings: a record is one line, whatever it holds, and harms no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.records import append_record, read_records, read_settings, record_line

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@given(st.text(st.one_of(st.sampled_from(BREAKS), st.characters())))
def test_a_record_is_one_line_to_every_reader(text: str) -> None:
    line = record_line({"question": text})
    assert line.splitlines() == [line[:-1]]
    assert json.loads(line) == {"question": text}


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    for text in BREAKS:
        append_record(file, {"question": text})
    assert [record for _, record in read_records(file)] == [{"question": text} for text in BREAKS]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_torn_line_is_named_and_the_next_record_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    append_record(file, {"number": 1})
    with file.open("ab") as stream:
        stream.write(b'{"number": 2, "que')
    append_record(file, {"number": 3})
    assert list(read_records(file)) == [(1, {"number": 1}), (2, None), (3, {"number": 3})]


def test_a_full_disk_takes_no_half_of_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    import pytest

    file = tmp_path / "records.jsonl"
    append_record(file, {"number": 1})
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:5]))
    with pytest.raises(OSError, match="space"):
        append_record(file, {"number": 2})
    monkeypatch.undo()
    append_record(file, {"number": 3})
    assert [record for _, record in read_records(file)] == [{"number": 1}, {"number": 3}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = " + "[" * 50_000 + "]" * 50_000, "nested too deeply"),
        (".".join(["a"] * 100_000) + " = 1", "nested too deeply"),
        ("#" * (17 << 20), "more than 16 MB"),
        ("a = 1\na = 2", "overwrite"),
    ],
    ids=["lists", "keys", "large", "twice"],
)
def test_a_file_of_settings_that_nobody_writes_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "some.toml"
    file.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_settings(file)


def test_settings_are_read_with_the_mark_that_editors_put_first(tmp_path: Path) -> None:
    for name, content in (("a.toml", 'a = "1.2"\r\n'), ("a.json", '{"a": "1.2"}')):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert read_settings(tmp_path / name) == {"a": "1.2"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_no_pipe_or_device_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="pipe or a device"):
            read_settings(file)
