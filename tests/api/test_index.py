"""Text files that users hand to commands: a line is what an editor shows as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import DataError
from kgqa.questions.rows import file_lines

if TYPE_CHECKING:
    from pathlib import Path

ODD = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\ufeff"  # str.splitlines ends lines at most of these


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lines=st.lists(st.text(st.sampled_from("ab " + ODD), max_size=6), min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
)
def test_lines_end_at_line_feeds_alone_and_a_byte_order_mark_is_no_text(
    tmp_path: Path, lines: list[str], end: str, last: bool, bom: bool
) -> None:
    file = tmp_path / "list.txt"
    text = end.join(lines) + (end if last or not lines[-1] else "")
    if text.startswith("\ufeff") and not bom:
        bom = True  # at the start of a file it can mean nothing else
    file.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    assert file_lines(file, "list") == lines


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    for held in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(held)
        assert file_lines(file, "list") == []


def test_a_file_that_cannot_be_read_is_one_sentence_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    with pytest.raises(DataError, match=r"list .*list.txt cannot be read: No such file") as caught:
        file_lines(file, "list")
    assert caught.value.hint
    file.write_bytes(b"Apollo 13\nM\xfcnchen\n")
    with pytest.raises(DataError, match=r"not UTF-8 text: .* at byte 11") as caught:
        file_lines(file, "list")
    assert caught.value.hint
