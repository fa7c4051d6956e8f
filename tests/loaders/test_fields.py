"""The fields that are found for a whole block are those that splitting each line finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.loaders.blocks import Block
from kgqa.loaders.strings import as_text, lines_at, split_block, undecodable, whole_lines


def block_of(lines: list[bytes], first: int = 1) -> Block:
    return Block("a test", first, len(lines), b"".join(line + b"\n" for line in lines))


PIECES = st.sampled_from([b"", b"a", b"bc", b"\t", b"|", b"\0", b"\x08", b"\r", b"\xff"])


@given(
    st.lists(st.lists(PIECES).map(b"".join), min_size=1, max_size=20),
    st.sampled_from(["\t", "|"]),
    st.integers(1, 5),
)
@example([b""], "\t", 1)
@settings(max_examples=200)
def test_fields_are_those_of_split(lines: list[bytes], separator: str, count: int) -> None:
    block = block_of(lines, first=7)
    split = [line.split(separator.encode()) for line in lines]
    good = [row for row, fields in enumerate(split) if len(fields) == count]
    found = split_block(block, separator, count)
    assert found.rows.tolist() == good
    assert [column.to_pylist() for column in found.columns] == [
        [split[row][place] for row in good] for place in range(count)
    ]
    assert found.others == {
        row: len(fields) for row, fields in enumerate(split) if len(fields) != count
    }
    others = list(found.others)
    assert lines_at(block, others) == [(7 + row, lines[row]) for row in others]


@pytest.mark.parametrize("bad", [[], [1], [0, 3]])
def test_lines_that_are_no_utf8_are_found(bad: list[int]) -> None:
    lines = [b"a", "é".encode(), b"", "é".encode()]
    for place in bad:
        lines[place] = b"x\xe3\x80"
    block = block_of(lines)
    assert undecodable(block).tolist() == bad
    assert whole_lines(block).to_pylist() == [line + b"\n" for line in lines]
    texts, good = as_text(whole_lines(block))
    assert [place for place, fine in enumerate(good.tolist()) if not fine] == bad
    assert all(texts[place].as_py() == "" for place in bad)
