"""The fields that are found for a whole block are those that splitting each line finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.loaders.blocks import Block
from kgqa.loaders.delimited import Fields, as_text, line_ends, undecodable, whole_lines


def block_of(lines: list[bytes], first: int = 1) -> Block:
    return Block("a test", first, len(lines), b"".join(line + b"\n" for line in lines))


@given(
    st.lists(
        st.lists(
            st.sampled_from([b"", b"a", b"bc", b"\t", b"|", b"\0", b"\x08", b"\r", b"\xff"])
        ).map(b"".join),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([b"\t", b"|", b"\xff"]),
    st.integers(1, 5),
    st.booleans(),
)
@example([b""], b"\t", 1, False)
@settings(max_examples=200)
def test_fields_are_those_of_split(
    lines: list[bytes], separator: bytes, count: int, rest: bool
) -> None:
    fields = Fields(block_of(lines, first=7), separator, count, rest=rest)
    found = [line.count(separator) + 1 for line in lines]
    good = [row for row, each in enumerate(found) if each == count or (rest and each > count)]
    assert fields.found.tolist() == found
    assert fields.rows.tolist() == good
    assert len(fields) == len(good)
    split = [lines[row].split(separator, count - 1) for row in good]
    some = np.arange(len(good))[::2]
    for place in range(count):
        expected = [line[place] for line in split]
        assert fields.column(place).to_pylist() == expected
        assert fields.column(place, some).to_pylist() == expected[::2]
        data = bytes(fields.block.data)
        ends = zip(fields.start(place).tolist(), fields.end(place).tolist(), strict=True)
        assert [data[start:end] for start, end in ends] == expected
    assert [fields.line(place) for place in range(len(good))] == [lines[row] for row in good]
    bad = [(7 + row, line) for row, line in enumerate(lines) if row not in good]
    assert fields.lines_at(fields.others) == bad
    controls = sum(line.count(b"\0") + line.count(b"\x08") for line in lines)
    assert len(fields.controls) == (controls if separator == b"\t" else 0)


def test_a_field_without_some_bytes_at_its_ends() -> None:
    fields = Fields(block_of([b"<a>\tbc", b"<d>\te"]), b"\t", 2)
    assert fields.column(0, before=1, after=1).to_pylist() == [b"a", b"d"]
    assert fields.column(1, after=-1).to_pylist() == [b"bc\n", b"e\n"]


def test_two_blocks_at_once_do_not_disturb_each_other() -> None:
    one = Fields(block_of([b"a\tb"] * 3), b"\t", 2)
    two = Fields(block_of([b"longer\tlines", b"x\ty"]), b"\t", 2)
    assert one.column(1).to_pylist() == [b"b"] * 3
    assert two.column(0).to_pylist() == [b"longer", b"x"]


@pytest.mark.parametrize(
    "values", [[], [b"a", "ü".encode()], [b"a", b"\xff", b"b", b"\xed\xa0\x80"]]
)
def test_what_is_not_utf8_is_marked(values: list[bytes]) -> None:
    texts, good = as_text(pa.array(values, type=pa.binary()))
    assert good.tolist() == [is_utf8(value) for value in values]
    assert texts.to_pylist() == [value.decode() if is_utf8(value) else "" for value in values]


@given(st.lists(st.binary(max_size=6).map(lambda raw: raw.replace(b"\n", b"")), max_size=8))
def test_lines_that_are_not_utf8_are_found(lines: list[bytes]) -> None:
    block = block_of(lines)
    found = undecodable(block, line_ends(block)).tolist()
    assert found == [row for row, line in enumerate(lines) if not is_utf8(line)]
    assert whole_lines(block, line_ends(block)).to_pylist() == [line + b"\n" for line in lines]


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
