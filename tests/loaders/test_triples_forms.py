"""Files of triples in every form: whatever stands in them, what the rules say of each row.

The rules for one row are written down here once more, as simply as can be.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.loaders.base import Report
from kgqa.loaders.blocks import Block
from kgqa.loaders.triples_cells import read_json, read_parquet
from kgqa.loaders.triples_rows import PARTS, WHITESPACE, Columns, find_delimiter
from kgqa.loaders.triples_table import Layout, quoted_records, read_lines, read_records
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from kgqa.loaders.triples_rows import TriplesPart

PLAIN = Columns(["tail", "head", "relation"])
NAMED = Columns(["head", "relation", "tail", "_", "weight", "note"])
HALF = "half of a surrogate pair in an escape"


def blocks_of(data: bytes, lines: int) -> Iterator[Block]:
    """Cut data into blocks of so many lines each."""
    rows = lines_of(data)
    for first in range(0, len(rows), lines):
        chosen = rows[first : first + lines]
        yield Block("kg", first + 1, len(chosen), b"".join(row + b"\n" for row in chosen))


def lines_of(data: bytes) -> list[bytes]:
    split = data.split(b"\n")
    return split if split[-1] else split[:-1]


def content(parts: Iterable[TriplesPart]) -> tuple[Any, ...]:
    """Return everything that parts hold, in an order that does not depend on how they came."""
    parts = list(parts)
    edges = [tuple(row.values()) for p in parts for b in p.edges for row in b.to_pylist()]
    dropped = sum((part.dropped for part in parts), Counter[str]())
    ends = {end for part in parts for end in part.ends.to_pylist()}
    assert ends == {end for edge in edges for end in (edge[0], edge[2])}
    return sorted(edges, key=repr), +dropped, sorted(r for part in parts for r in part.rejects)


class Expected:
    """What rows give that are read one by one."""

    def __init__(self) -> None:
        self.edges: list[tuple[str, str, str, str | None]] = []
        self.dropped: Counter[str] = Counter()
        self.rejects: list[tuple[int, str, str]] = []

    def take(
        self, number: int, line: str, cells: Sequence[Any], order: Columns, reason: str = ""
    ) -> None:
        """Take a row; ``reason``: why it has no cells."""
        try:
            if not line.strip():
                self.dropped["blank line or comment"] += 1
            elif reason:
                raise ValueError(reason)
            else:
                self.edges.append(edge_of(cells, order))
        except UnicodeEncodeError:
            self.rejects.append((number, HALF, line))
        except ValueError as error:
            self.rejects.append((number, str(error), line))

    def take_line(self, number: int, raw: bytes, layout: Layout) -> None:
        """Take a line, or a record with quotes."""
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            self.rejects.append((number, f"not UTF-8 ({error.reason})", shown))
            return
        if number in layout.skipped:
            self.dropped[layout.skipped[number]] += 1
            return
        try:
            self.take(number, line, split(line, layout.delimiter), layout.columns)
        except csv.Error as error:
            is_stray = "expected after" in str(error) and not {*line} & {"\r", "\n"}
            fields = next(csv.reader([line], delimiter=layout.delimiter)) if is_stray else []
            if len(fields) != layout.columns.count:
                self.take(number, line, (), layout.columns, str(error))
            else:
                lenient = [cell.strip() for cell in fields]
                self.take(number, line, lenient, layout.columns)

    def content(self) -> tuple[Any, ...]:
        return sorted(self.edges, key=repr), self.dropped, sorted(self.rejects)


def split(line: str, delimiter: str) -> list[str]:
    if delimiter == WHITESPACE:
        return line.split()
    if delimiter == "\t":
        return line.split("\t")
    if delimiter in ",;":
        fields = next(csv.reader([line], delimiter=delimiter, strict=True))
    else:
        fields = line.split(delimiter)
    return [field.strip() for field in fields]


def edge_of(cells: Sequence[Any], order: Columns) -> tuple[str, str, str, str | None]:
    """Return an edge. Raises ValueError with the reason if there is none."""
    if len(cells) != order.count:
        raise ValueError(f"{len(cells)} fields in place of {order.count}")
    parts = [cells[place] for place in order.places]
    for part in parts:
        if isinstance(part, bool | float | list | dict | bytes):
            raise ValueError(f"{part!r:.40} is neither an id nor a name")
    about = {
        name: json.dumps(finite(cells[place]), ensure_ascii=False, default=str)
        for place, name in order.others
        if cells[place] not in (None, "") and cells[place] == cells[place]
    }
    head, relation, tail = ("" if part is None else str(part) for part in parts)
    "".join((head, relation, tail, *about.values(), *about)).encode()
    if "\0" in head + relation + tail:
        raise ValueError("NUL character")
    for name, part in zip(PARTS, (head, relation, tail), strict=True):
        if not part.strip():
            raise ValueError(f"{name} is empty")
    members = (f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in about.items())
    return head, relation, tail, "{" + ", ".join(members) + "}" if about else None


def finite(value: Any) -> Any:
    """Return a value with the words for numbers that JSON does not have."""
    if isinstance(value, list):
        return [finite(each) for each in value]
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    odd = isinstance(value, float) and (value != value or abs(value) == float("inf"))
    return str(value) if odd else value


def layout_of(delimiter: str, columns: Columns, header: int = 0) -> Layout:
    return Layout(delimiter, columns, {header: "header"} if header else {})


LETTERS = [b"a", b"bc", "é".encode(), b"1", b"\x7f", b"\\", "¦".encode(), b"\0"]
SPACES = [b" ", b"\x1c", b"\x0b", b"\r"] + [c.encode() for c in "\x85\xa0\u3000"]
MARKS = [b"\t"] * 3 + [b"|"] * 2 + [b","] * 2 + [b'"'] * 2 + [b";", b"\x01", b"\xff", b"\xe3\x80"]
PIECES = st.sampled_from(LETTERS + SPACES + MARKS)
# Blocks have no carriage return before a line end.
LINES = st.lists(
    st.lists(PIECES, max_size=14).map(lambda pieces: b"".join(pieces).rstrip(b"\r")), max_size=12
)


@settings(max_examples=400)
@given(
    LINES,
    st.sampled_from(["\t", "|", "\x01", " ", "¦", "a", '"', WHITESPACE]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 3),
)
@example([b"a\tr\tb", b"\xff\tr\tb", b" \tr\tb", b"a\tr\tb\rc"], "\t", False, 9, 1)
@example([b"a  r b", b"a r b ", "a\u3000r\u3000b".encode(), b"a\tr b"], WHITESPACE, False, 9, 0)
def test_delimited_lines(
    lines: list[bytes], delimiter: str, many: bool, size: int, header: int
) -> None:
    layout = layout_of(delimiter, NAMED if many else PLAIN, header)
    data = b"\n".join(lines)
    expected = Expected()
    for number, raw in enumerate(lines_of(data), 1):
        expected.take_line(number, raw, layout)
    assert content(read_lines(block, layout) for block in blocks_of(data, size)) == (
        expected.content()
    )


def expected_records(lines: list[bytes], delimiter: str) -> Iterator[tuple[int, bytes]]:
    """Yield records as the csv module reads them; an open quote costs its line alone."""
    line = 0
    while line < len(lines):
        for last in range(line, len(lines)):
            text = b"\n".join(lines[line : last + 1]).decode(errors="replace")
            try:
                list(csv.reader([text], delimiter=delimiter, strict=True))
            except csv.Error as error:
                if str(error) == "unexpected end of data":
                    continue
            break
        else:
            last = line
        yield line + 1, b"\n".join(lines[line : last + 1])
        line = last + 1


@settings(max_examples=600)
@given(LINES, st.sampled_from([",", ";"]), st.booleans(), st.integers(1, 5), st.integers(0, 2))
@example([b'"a, ""b""",r,"x', b'y",more', b"b,r,c"], ",", False, 1, 0)
@example([b'5" disk,r,t', b'"open,r,t', b"a,r,b"], ",", False, 2, 0)
@example([b'"a"b,"c', b'd",r', b'"",r,b', b'"""",r,b', b' "a",r,b'], ",", False, 1, 0)
def test_records_with_quotes(
    lines: list[bytes], delimiter: str, many: bool, size: int, header: int
) -> None:
    layout = layout_of(delimiter, NAMED if many else PLAIN, header)
    data = b"\n".join(lines)
    expected = Expected()
    for number, raw in expected_records(lines_of(data), delimiter):
        expected.take_line(number, raw, layout)
    found = quoted_records(blocks_of(data, size), delimiter)
    assert content(read_records(*records, layout) for records in found) == expected.content()


def test_a_quote_that_nothing_closes_costs_its_own_line() -> None:
    data = b'a,r,"b\n' + b"".join(b"x%d,r,y\n" % number for number in range(5_000))
    layout = layout_of(",", Columns(["head", "relation", "tail"]))
    found = quoted_records(blocks_of(data, 700), ",")
    edges, _, rejects = content(read_records(*records, layout) for records in found)
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


@settings(max_examples=400)
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
def test_json_lines(lines: list[bytes], size: int) -> None:
    expected = Expected()
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            shown = raw.decode(errors="backslashreplace")
            expected.rejects.append((number, f"not UTF-8 ({error.reason})", shown))
            continue
        expected.take(number, text, *json_cells(text))
    data = b"".join(line + b"\n" for line in lines)
    assert content(map(read_json, blocks_of(data, size))) == expected.content()


def json_cells(text: str) -> tuple[list[Any], Columns, str]:
    """Return a line's cells and their order, or why it has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return [], PLAIN, "no JSON"
    if isinstance(found, list):
        return found, Columns(PARTS), ""
    if not isinstance(found, dict):
        return [], PLAIN, "neither a JSON object nor an array"
    try:
        return list(found.values()), Columns(list(found)), ""
    except UsageError:
        return [], PLAIN, "object without head, relation and tail"


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


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(0, 6))
def test_parquet(tmp_path: Path, data: st.DataObject, rows: int) -> None:
    columns = {}
    for name in ("head", "weight", "tail", "relation", "note"):
        usual = name in ("head", "tail", "relation") and data.draw(st.booleans())
        kind, values = TYPES[0] if usual else data.draw(st.sampled_from(TYPES))
        cells = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(cells, type=kind)
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table(columns), path)
    order = Columns(list(columns))
    expected = Expected()
    table = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    for number, row in enumerate(table, 1):
        expected.take(number, repr(row), row, order)
    report = Report()
    assert content(read_parquet(path, report, Silent())) == expected.content()
    assert report.lines == rows


def test_a_parquet_text_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table({"head": broken, "relation": ["r", "r"], "tail": ["b", "b"]}), path)
    [part] = read_parquet(path, Report(), Silent())
    assert part.rejects == [(2, "not UTF-8", repr((r"\xff", "r", "b")))]
    assert part.ends.to_pylist() == ["a", "b"]


def test_parquet_columns_must_be_named_all(tmp_path: Path) -> None:
    path = tmp_path / "kg.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["r"], "c": ["y"], "d": ["z"]}), path)
    with pytest.raises(UsageError, match=r"has 4 columns \(a, b, c, d\), and `columns` names 3"):
        list(read_parquet(path, Report(), Silent(), "head,relation,tail"))
    [part] = read_parquet(path, Report(), Silent(), "head,relation,tail,_")
    assert part.edges[0].to_pylist() == [
        {"head": "x", "relation": "r", "tail": "y", "properties": None}
    ]


def test_the_delimiter_is_the_one_that_splits_most_lines_alike() -> None:
    assert find_delimiter(["a b|r|c d"] * 3, "kg") == "|"
    assert find_delimiter(["1 2 0", "3\t4\t1"], "kg") == WHITESPACE
    assert find_delimiter(["a;b;c", "d;e;f", "title"], "kg") == ";"
    with pytest.raises(DumpMalformedError, match="No delimiter splits the lines of kg"):
        find_delimiter(["a", "b"], "kg")
