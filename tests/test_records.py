"""JSON lines: whatever a record's texts hold, it is one line, and no line harms another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kgqa.records import append_record, read_records, record_line

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
