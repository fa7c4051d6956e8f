"""The fields that are found for a whole block are those that splitting each line finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.loaders.blocks import Block
from kgqa.loaders.fields import Fields, as_text, cut

_CONTROL = bytes(range(9))  # below the tab


def block_of(lines: list[bytes], first: int = 1) -> Block:
    return Block("a test", first, len(lines), b"".join(line + b"\n" for line in lines))


@given(
    st.lists(
        st.lists(st.sampled_from([b"", b"a", b"bc", b"\t", b"|", b"\0", b"\x08", b"\xff"])).map(
            b"".join
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([b"\t", b"|"]),
    st.integers(1, 5),
)
@example([b""], b"\t", 1)
@settings(max_examples=200, deadline=None)
def test_fields_are_those_of_split(lines: list[bytes], separator: bytes, count: int) -> None:
    controls = _CONTROL if separator == b"\t" else _CONTROL + b"\t"
    fields = Fields(block_of(lines, first=7), separator, count)
    good = [
        row
        for row, line in enumerate(lines)
        if line.count(separator) == count - 1 and not any(byte in controls for byte in line)
    ]
    assert fields.rows.tolist() == good
    assert len(fields) == len(good)
    split = [lines[row].split(separator) for row in good]
    for place in range(count):
        expected = [line[place] for line in split]
        assert cut(fields.take(place)).to_pylist() == expected
        data = bytes(fields.block.data)
        ends = zip(fields.start(place).tolist(), fields.end(place).tolist(), strict=True)
        assert [data[start:end] for start, end in ends] == expected
    for place, row in enumerate(good):
        assert fields.line_number(place) == 7 + row
        assert fields.line_text(place) == lines[row].decode(errors="backslashreplace")
    bad = [(7 + row, line) for row, line in enumerate(lines) if row not in good]
    assert fields.other_lines() == bad


def test_a_field_of_some_lines() -> None:
    fields = Fields(block_of([b"a\tb", b"odd", b"c\td", b"e\tf"]), b"\t", 2)
    assert cut(fields.take(0, fields.rows[:0])).to_pylist() == []
    assert cut(fields.take(1, np.array([2, 0]))).to_pylist() == [b"f", b"b"]
    assert cut(fields.take(0, np.array([True, False, True]))).to_pylist() == [b"a", b"e"]


def test_two_blocks_at_once_do_not_disturb_each_other() -> None:
    one = Fields(block_of([b"a\tb"] * 3), b"\t", 2)
    two = Fields(block_of([b"longer\tlines", b"x\ty"]), b"\t", 2)
    assert cut(one.take(1)).to_pylist() == [b"b"] * 3
    assert cut(two.take(0)).to_pylist() == [b"longer", b"x"]


@pytest.mark.parametrize(
    "values", [[], [b"a", "ü".encode()], [b"a", b"\xff", b"b", b"\xed\xa0\x80"]]
)
def test_what_is_not_utf8_is_told_apart(values: list[bytes]) -> None:
    texts, good = as_text(pa.array(values, type=pa.binary()))
    expected: list[str | None] = []
    for value in values:
        try:
            expected.append(value.decode())
        except UnicodeDecodeError:
            expected.append(None)
    assert good.tolist() == [text is not None for text in expected]
    assert texts.to_pylist() == [text or "" for text in expected]
