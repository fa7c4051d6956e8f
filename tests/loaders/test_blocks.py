"""Blocks hold just the lines of their files, whatever the file's form and wherever blocks end."""

from __future__ import annotations

import bz2
import gzip
import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders import blocks
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import STDIN, find_sources, read_blocks
from kgqa.progress import Silent

TEXT = "one\nzwei ü\n\nthree".encode()
LINES = [(1, b"one"), (2, "zwei ü".encode()), (3, b""), (4, b"three")]


def gzipped(data: bytes) -> bytes:
    """The same bytes at any time of the day: cases are named by them, and collected twice."""
    return gzip.compress(data, mtime=0)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def lines_of(
    *paths: Path, report: Report | None = None, size: int | None = None
) -> list[tuple[int, bytes]]:
    """Read blocks, check that each is whole lines rightly counted, and return their lines."""
    report = report or Report()
    with tempfile.TemporaryDirectory() as folder:
        rejects = Rejects(Path(folder) / "rejects.tsv", report)
        try:
            found = []
            for block in read_blocks(paths, report, rejects, Silent(), size):
                data = bytes(block.data)
                assert data.endswith(b"\n")
                lines = data.split(b"\n")[:-1]
                assert len(lines) == block.lines
                found += list(enumerate(lines, block.first))
        finally:
            rejects.close()
    assert report.lines == len(found) + report.rejected
    return found


@pytest.mark.parametrize("size", [None, 4, 7])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.nt", TEXT),
        ("with a last line end.nt", TEXT + b"\n"),
        ("packed.nt.gz", gzipped(TEXT)),
        ("packed.nt.bz2", bz2.compress(TEXT)),
        ("packed.nt.zst", zstd(TEXT)),
        ("gzip without its ending.nt", gzipped(TEXT)),
        ("two members.gz", gzipped(TEXT[:6]) + gzipped(b"") + gzipped(TEXT[6:])),
        ("zeros behind a member.gz", gzipped(TEXT) + b"\0" * 512),
        ("two streams.bz2", bz2.compress(TEXT[:6]) + bz2.compress(TEXT[6:])),
        ("two frames.zst", zstd(TEXT[:6]) + zstd(TEXT[6:])),
        ("mark.nt", b"\xef\xbb\xbf" + TEXT),
        ("mark.nt.gz", gzipped(b"\xef\xbb\xbf" + TEXT)),
        ("windows.nt", TEXT.replace(b"\n", b"\r\n")),
        ("windows to the end.nt", TEXT.replace(b"\n", b"\r\n") + b"\r\n"),
    ],
)
def test_the_same_lines_come_from_every_form(
    tmp_path: Path, name: str, content: bytes, size: int | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert lines_of(path, size=size) == LINES


def test_lines_are_numbered_anew_in_each_source(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.nt", "b.nt")]
    for path in paths:
        path.write_bytes(b"\xef\xbb\xbfone\ntwo")
    report = Report()
    assert lines_of(*paths, report=report) == [(1, b"one"), (2, b"two")] * 2
    assert report.lines == 4


@given(
    st.lists(
        st.binary(max_size=12)
        .map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))
        .filter(lambda line: not line.startswith((b"\xef\xbb\xbf", b"\x1f\x8b", b"BZh", b"\x28"))),
        min_size=1,
        max_size=30,
    ),
    st.integers(4, 40),
    st.booleans(),
)
@settings(max_examples=60)
def test_no_line_is_lost_or_made_wherever_blocks_end(
    lines: list[bytes], size: int, ended: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump"
        path.write_bytes(b"\n".join(lines) + b"\n" * ended)
        expected = lines if ended or lines[-1] else lines[:-1]
        assert [line for _, line in lines_of(path, size=size)] == expected


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(4, 90))
@example([64 * 7 - 1, 3, 3], 64)  # a long line whose end is a chunk's end
@settings(max_examples=80)
def test_a_line_that_is_too_long_is_rejected_and_no_other(lengths: list[int], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(blocks, "LONGEST_LINE", 100)
        path = Path(folder) / "dump"
        lines = [b"x" * length for length in lengths]
        path.write_bytes(b"\n".join(lines) + b"\n")
        report = Report()
        found = dict(lines_of(path, report=report, size=size))
        lost = set(range(1, len(lines) + 1)) - set(found)
        assert all(found[number] == lines[number - 1] for number in found)
        # a line is measured once a chunk: it may be longer by less than one
        assert all(len(lines[number - 1]) > 100 for number in lost)
        assert all(len(line) <= 100 + size for line in found.values())
        assert report.rejected == len(lost)


def test_a_line_that_is_too_long_is_told_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "dump.nt"
    path.write_bytes(b"a\n" + b"y" * (3 << 20) + b"\nb\n")
    report = Report()
    rejects = Rejects(tmp_path / "rejects.tsv", report)
    read = list(read_blocks([path], report, rejects, Silent(), 1 << 16))
    rejects.close()
    assert b"".join(bytes(block.data) for block in read) == b"a\nb\n"
    assert (report.lines, report.rejected) == (3, 1)
    reject = rejects.path.read_text().splitlines()[1].split("\t")
    assert reject[:3] == ["dump.nt", "2", "line longer than 1 MB"]
    assert set(reject[3]) == {"y"}
    assert len(reject[3]) == 500


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.gz", gzipped(TEXT * 500)[:-30]),
        ("header only.gz", gzipped(TEXT)[:8]),
        ("cut.bz2", bz2.compress(TEXT * 500)[:-30]),
        ("cut.zst", zstd(TEXT * 500)[:-20]),
    ],
)
def test_a_file_that_is_cut_short_says_so(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DumpMalformedError, match=r"is cut short.*after line \d"):
        lines_of(path)


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


MANY = b"".join(b"line %d %d\n" % (number, number**3) for number in range(5000))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("flipped.gz", _flipped(gzipped(MANY))),
        ("flipped.bz2", _flipped(bz2.compress(MANY))),
        # what Arrow packs carries no checksum, so that one wrong bit may go unseen
        ("wrong.zst", zstd(MANY)[:6] + b"\xff" * 20 + zstd(MANY)[26:]),
        ("wrong sum.gz", gzipped(MANY)[:-8] + b"\0" * 8),
        ("garbage after.gz", gzipped(MANY) + b"garbage"),
    ],
)
def test_damaged_data_are_an_error_and_no_lines(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DumpMalformedError, match=r"(?:damaged|cut short)") as caught:
        lines_of(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize(("content", "said"), [(b"plain\n", "begins with"), (b"", "is empty")])
def test_a_name_that_promises_another_form(
    tmp_path: Path, ending: str, content: bytes, said: str
) -> None:
    path = tmp_path / f"dump{ending}"
    path.write_bytes(content)
    with pytest.raises(DumpMalformedError, match=said):
        lines_of(path)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.nt", tmp_path):
        with pytest.raises(DumpNotFoundError, match=path.name):
            lines_of(path)


@pytest.mark.parametrize("content", [TEXT, gzipped(TEXT), zstd(TEXT)])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    read = list(read_blocks([STDIN], Report(), Rejects(Path("unused"), Report()), Silent()))
    assert {block.source for block in read} == {"standard input"}
    assert b"".join(bytes(block.data) for block in read) == TEXT + b"\n"


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        DumpNotFoundError, match=r"The Freebase dump file .*missing\.gz does not exist"
    ):
        find_sources([tmp_path / "missing.gz"], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="holds no file"):
        find_sources([tmp_path], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="was given"):
        find_sources([], "Freebase dump")


def test_a_folder_stands_for_its_parts_in_order(tmp_path: Path) -> None:
    for name in ("part-2", "part-1", ".hidden"):
        (tmp_path / name).write_text("x\n")
    assert [path.name for path in find_sources([tmp_path], "dump")] == ["part-1", "part-2"]
