"""Files of triples by columns: whatever stands in them, the same as a row at a time."""

from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.base import Report
from kgqa.loaders.blocks import Block
from kgqa.loaders.tables import WHITESPACE, Columns, find_delimiter, read_object, splitter
from kgqa.loaders.triples_csv import cut_records, read_csv
from kgqa.loaders.triples_delimited import Layout, read_delimited, read_records
from kgqa.loaders.triples_json import JsonReader
from kgqa.loaders.triples_parquet import read_parquet
from kgqa.loaders.triples_part import Part
from kgqa.loaders.triples_text import bad_lines, is_text, json_strings, stripped
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Any

    Record = tuple[int, bytes]

WHITE = [chr(code) for code in range(0x110000) if chr(code).isspace()]
NAMED = Columns(["head", "relation", "tail", "_", "weight", "note"])


def blocks_of(data: bytes, lines: int) -> Iterator[Block]:
    """Cut data into blocks of so many lines each."""
    split = data.split(b"\n")
    rows = split if split[-1] else split[:-1]
    for first in range(0, len(rows), lines):
        chosen = rows[first : first + lines]
        yield Block("kg", first + 1, len(chosen), b"".join(row + b"\n" for row in chosen))


def content(parts: Iterable[Part]) -> tuple[Any, ...]:
    """Return everything that parts hold, in an order that does not depend on how they came."""
    parts = list(parts)
    edges = [tuple(row.values()) for p in parts for b in p.edges for row in b.to_pylist()]
    dropped = sum((part.dropped for part in parts), Counter[str]())
    ends = {end for part in parts for end in part.ends.to_pylist()}
    assert ends == {end for edge in edges for end in (edge[0], edge[2])}
    return sorted(edges, key=repr), +dropped, sorted(r for part in parts for r in part.rejects)


def lines_one_by_one(data: bytes, layout: Layout) -> tuple[Any, ...]:
    part = Part("kg")
    lines = data.split(b"\n")
    read_records(list(enumerate(lines if lines[-1] else lines[:-1], 1)), layout, part)
    part.find_ends()
    return content([part])


def layout_of(delimiter: str, columns: Columns, header: int = 0) -> Layout:
    return Layout(delimiter, columns, splitter(delimiter), {header: "header"} if header else {})


PLAIN = [b"a", b"bc", "é".encode(), b"1", b"\x7f", b"\\", "¦".encode(), b"\0"]
SPACES = [b" ", b"\x1c", b"\x0b", b"\r"] + [c.encode() for c in "\x85\xa0\u3000"]
MARKS = [b"\t"] * 3 + [b"|"] * 2 + [b","] * 2 + [b'"'] * 2 + [b";", b"\x01", b"\xff", b"\xe3\x80"]
PIECES = st.sampled_from(PLAIN + SPACES + MARKS)
LINES = st.lists(st.lists(PIECES, max_size=14).map(b"".join), max_size=12)


@settings(max_examples=400, deadline=None)
@given(
    LINES,
    st.sampled_from(["\t", "|", "\x01", " ", "¦", "a", '"', WHITESPACE]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 3),
)
@example([b"a\tr\tb", b"a\tr\tb\r", b"\xff\tr\tb", b" \tr\tb", b"a\tr\tb\r\r"], "\t", False, 9, 1)
@example([b"a  r b", b"a r b ", "a\u3000r\u3000b".encode(), b"a\tr b"], WHITESPACE, False, 9, 0)
def test_delimited_lines_by_columns_are_the_lines_one_by_one(
    lines: list[bytes], delimiter: str, many: bool, size: int, header: int
) -> None:
    columns = NAMED if many else Columns(["tail", "head", "relation"])
    layout = layout_of(delimiter, columns, header)
    data = b"\n".join(lines)
    parts = [read_delimited(block, layout) for block in blocks_of(data, size)]
    assert content(parts) == lines_one_by_one(data, layout)


def records_one_by_one(data: bytes, layout: Layout) -> tuple[Any, ...]:
    """Read records as the csv module does; a quote that nothing closes costs its line alone."""
    lines = data.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    part = Part("kg")
    line = 0
    while line < len(lines):
        for last in range(line, len(lines)):
            text = b"\n".join(lines[line : last + 1])
            try:
                list(
                    csv.reader(
                        [text.decode(errors="replace")],
                        "excel",
                        delimiter=layout.delimiter,
                        strict=True,
                    )
                )
            except csv.Error as error:
                if str(error) == "unexpected end of data":
                    continue
            break
        else:
            last, text = line, lines[line]
        read_records([(line + 1, text)], layout, part)
        line = last + 1
    part.find_ends()
    return content([part])


@settings(max_examples=600, deadline=None)
@given(LINES, st.sampled_from([",", ";"]), st.booleans(), st.integers(1, 5), st.integers(0, 2))
@example([b'"a, ""b""",r,"x', b'y",more', b"b,r,c"], ",", False, 1, 0)
@example([b'5" disk,r,t', b'"open,r,t', b"a,r,b"], ",", False, 2, 0)
@example([b'"a"b,"c', b'd",r', b'"",r,b', b'"""",r,b', b' "a",r,b'], ",", False, 1, 0)
def test_quoted_records_by_columns_are_the_records_one_by_one(
    lines: list[bytes], delimiter: str, many: bool, size: int, header: int
) -> None:
    layout = layout_of(delimiter, NAMED if many else Columns(["head", "relation", "tail"]), header)
    data = b"\n".join(lines)
    records = cut_records(blocks_of(data, size), delimiter)
    assert content(read_csv(each, layout) for each in records) == records_one_by_one(data, layout)


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=8), st.integers(1, 3))
def test_what_a_csv_writer_writes_is_read(rows: list[tuple[str, str, str]], size: int) -> None:
    # A carriage return before a line feed is a line end wherever it stands.
    rows = [tuple(cell.replace("\r", "") for cell in row) for row in rows]  # type: ignore[misc]
    lines: list[str] = []

    class Sink:
        def write(self, text: str) -> None:
            lines.append(text)

    csv.writer(Sink(), lineterminator="\n").writerows(rows)
    layout = layout_of(",", Columns(["head", "relation", "tail"]))
    records = cut_records(blocks_of("".join(lines).encode(), size), ",")
    edges, _, rejects = content(read_csv(each, layout) for each in records)
    stripped_rows = [tuple(cell.strip() for cell in row) for row in rows]
    good = [row for row in stripped_rows if all(row) and "\0" not in "".join(row)]
    assert [edge[:3] for edge in edges] == sorted(good, key=lambda row: repr((*row, None)))
    assert len(edges) + len(rejects) == len(rows)


def test_a_quote_that_nothing_closes_costs_its_own_line() -> None:
    data = b'a,r,"b\n' + b"".join(b"x%d,r,y\n" % number for number in range(5_000))
    layout = layout_of(",", Columns(["head", "relation", "tail"]))
    records = list(cut_records(blocks_of(data, 700), ","))
    edges, _, rejects = content(read_csv(each, layout) for each in records)
    assert len(edges) == 5_000
    assert rejects == [(1, "unexpected end of data", 'a,r,"b')]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", " ", "\0", "a\u2028b", '"', "\\"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=3,
)
KEYS = st.sampled_from(
    [
        ("head", "relation", "tail"),
        ("tail", "weight", "head", "relation"),
        ("s", "p", "o", "note", "_"),
        ("head", "relation"),
        ('he"ad', "head", "relation", "tail"),
    ]
)
OBJECTS = KEYS.flatmap(
    lambda keys: st.tuples(*(JSON | st.text(min_size=1, max_size=4) for _ in keys)).map(
        lambda values: dict(zip(keys, values, strict=True))
    )
)
ODD = st.sampled_from(
    [
        "",
        " ",
        "{",
        "3",
        '{"head":"a","relation":"r","tail":"b"} ',
        '{"head":"a","relation":"r","tail":"b"}}',
        '{"head":"a","relation":"r","tail":"b","tail":"c"}',
        '{"head":"a","relation":"r","tail":"b"},{"head":"a","relation":"r","tail":"b"}',
        '{"head" : -0,"relation":1.0,"tail":1e5}',
        '{"head":-0,"relation":"r","tail":01}',
        '{"head":"a\tb","relation":"r","tail":"b"}',
        '{"head":"\\ud800","relation":"r","tail":"b"}',
        '{"head":"\\uD83D\\uDE00","relation":"r\\/s","tail":"\\u00e9"}',
        '["a","r","b"]\r',
        '["a","r"]',
        '["a","r","\\u0000"]',
        '{"tail":"b","weight":1.50,"head":"a","relation":"r"}',
        '{"tail":"b","weight":-0.0,"head":"a","relation":"r"}',
        '{"tail":"b","weight":"\\ud800","head":"a","relation":"r"}',
        '{"tail":"b","weight":NaN,"head":"a","relation":"r"}',
        '{"tail":"b","weight":1e999,"head":"a","relation":"r"}',
        '{"tail":"b","weight":"\\u0041\x7f","head":"a","relation":"r"}',
        "[" * 100_000,
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(json.dumps, OBJECTS | st.lists(JSON, max_size=4), ensure_ascii=st.booleans()),
            ODD,
        ).map(lambda text: text.encode(errors="surrogatepass")),
        max_size=12,
    ),
    st.integers(1, 12),
)
def test_json_lines_by_columns_are_the_lines_one_by_one(lines: list[bytes], size: int) -> None:
    orders: dict[tuple[str, ...], Columns] = {}
    expected = Part("kg")
    rows = []
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode().rstrip("\r")
            if text.strip():
                rows.append(read_object(text, orders, Columns(["head", "relation", "tail"])))
            else:
                expected.dropped["blank line or comment"] += 1
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            expected.rejects.append((number, f"not UTF-8 ({error.reason})", shown))
        except ValueError as error:
            expected.rejects.append((number, str(error), text))
    expected.add_rows(rows)
    expected.find_ends()
    reader = JsonReader()
    data = b"".join(line + b"\n" for line in lines)
    assert content(reader.read(block) for block in blocks_of(data, size)) == content([expected])


TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(max_size=4) | st.sampled_from(["", " ", "\0", "\u3000"])),
    (pa.large_string(), st.text(max_size=4)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "", "\t"])),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.binary(), st.binary(max_size=2)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data(), st.integers(0, 6))
def test_parquet_by_columns_is_the_rows_one_by_one(
    tmp_path: Path, data: st.DataObject, rows: int
) -> None:
    columns = {}
    for name in ("head", "weight", "tail", "relation", "note"):
        usual = name in ("head", "tail", "relation") and data.draw(st.booleans())
        kind, values = TYPES[0] if usual else data.draw(st.sampled_from(TYPES))
        cells = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(cells, type=kind)
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table(columns), path)
    order = Columns(list(columns))
    expected = Part("kg")
    found = []
    table = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    for number, row in enumerate(table, 1):
        try:
            found.append(order.row(row))
        except ValueError as error:
            expected.rejects.append((number, str(error), repr(row)))
    expected.add_rows(found)
    expected.find_ends()
    report = Report()
    assert content(read_parquet(path, report, Silent())) == content([expected])
    assert report.lines == rows


def test_a_parquet_text_that_is_no_utf8_is_rejected(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table({"head": broken, "relation": ["r", "r"], "tail": ["b", "b"]}), path)
    [part] = read_parquet(path, Report(), Silent())
    assert part.rejects == [(2, "not UTF-8", repr((r"\xff", "r", "b")))]
    assert part.ends.to_pylist() == ["a", "b"]


def test_parquet_columns_must_be_named_all(tmp_path: Path) -> None:
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["r"], "c": ["y"], "d": ["z"]}), path)
    with pytest.raises(UsageError, match=r"has 4 columns \(a, b, c, d\), and --columns names 3"):
        list(read_parquet(path, Report(), Silent(), "head,relation,tail"))
    [part] = read_parquet(path, Report(), Silent(), "head,relation,tail,_")
    assert part.edges[0].to_pylist() == [
        {"head": "x", "relation": "r", "tail": "y", "properties": None}
    ]


TEXTS = st.lists(
    st.text(st.sampled_from([*WHITE, "a", "é", "\0", "\x7f", "\u200b", "\ufeff", "\u180e"])),
    max_size=9,
)


@given(TEXTS)
@example(WHITE)
@example([f"a{white}" for white in WHITE])
@example([f"{white}a" for white in WHITE])
def test_white_space_is_what_python_says(texts: list[str]) -> None:
    for column in (pa.array(texts, pa.string()), pa.array(["x", *texts, "y"], pa.string())[1:-1]):
        assert stripped(column).to_pylist() == [text.strip() for text in texts]
        assert is_text(column).tolist() == [bool(text.strip()) for text in texts]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_are_written_as_json_writes_them(texts: list[str | None]) -> None:
    expected = [json.dumps(text, ensure_ascii=False) if text else None for text in texts]
    assert json_strings(pa.array(texts, pa.string())).to_pylist() == expected


@given(st.lists(st.binary(max_size=6).map(lambda raw: raw.replace(b"\n", b"")), max_size=8))
def test_lines_that_are_no_utf8_are_found(lines: list[bytes]) -> None:
    def is_bad(line: bytes) -> bool:
        try:
            line.decode()
        except UnicodeDecodeError:
            return True
        return False

    raw = np.frombuffer(b"".join(line + b"\n" for line in lines), dtype=np.uint8)
    found = bad_lines(raw, np.flatnonzero(raw == 10))
    assert found.tolist() == [row for row, line in enumerate(lines) if is_bad(line)]


def test_the_delimiter_is_the_one_that_cuts_most_lines_alike() -> None:
    assert find_delimiter(["a b|r|c d"] * 3, "kg") == "|"
    assert find_delimiter(["1 2 0", "3\t4\t1"], "kg") == WHITESPACE
    assert find_delimiter(["a;b;c", "d;e;f", "title"], "kg") == ";"
    with pytest.raises(DumpMalformedError, match="No delimiter cuts the lines of kg"):
        find_delimiter(["a", "b"], "kg")
