from __future__ import annotations

import bz2
import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.lines import find_sources, read_lines
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path


def lines_of(path: Path, report: Report | None = None) -> list[tuple[int, str]]:
    report = report or Report()
    rejects = Rejects(path.with_name("rejects.tsv"), report)
    try:
        return list(read_lines(path, report, rejects, Silent()))
    finally:
        rejects.close()


TEXT = "one\nzwei ü\n\nthree".encode()
LINES = [(1, "one"), (2, "zwei ü"), (3, ""), (4, "three")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.nt", TEXT),
        ("packed.nt.gz", gzip.compress(TEXT)),
        ("packed.nt.bz2", bz2.compress(TEXT)),
        ("gzip without its ending.nt", gzip.compress(TEXT)),
        ("two members.gz", gzip.compress(TEXT[:6]) + gzip.compress(TEXT[6:])),
        ("mark.nt", b"\xef\xbb\xbf" + TEXT),
        ("windows.nt", TEXT.replace(b"\n", b"\r\n")),
    ],
)
def test_the_same_lines_come_from_every_form(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    report = Report()
    assert lines_of(path, report) == LINES
    assert (report.lines, report.rejected) == (4, 0)


def test_a_line_that_is_not_utf8_is_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.nt"
    path.write_bytes(b"good\nM\xfcller\nalso good\n")
    report = Report()
    assert lines_of(path, report) == [(1, "good"), (3, "also good")]
    assert (report.lines, report.rejected) == (3, 1)
    written = (tmp_path / "rejects.tsv").read_text()
    assert "latin.nt\t2\tnot UTF-8" in written
    assert r"M\\xfcller" in written


def test_a_file_named_gz_that_is_no_gzip_says_so(tmp_path: Path) -> None:
    path = tmp_path / "dump.gz"
    path.write_bytes(b"<a> <b> <c> .\n")
    with pytest.raises(DumpMalformedError, match=r"dump\.gz is named \.gz but is not gzip"):
        lines_of(path)
    path.write_bytes(b"")
    with pytest.raises(DumpMalformedError, match="is empty"):
        lines_of(path)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_file_cut_short_names_the_last_line(tmp_path: Path, ending: str, pack: object) -> None:
    assert callable(pack)
    whole = pack("".join(f"line {n} {n * 7919 % 10007}\n" for n in range(200_000)).encode())
    path = tmp_path / f"dump.{ending}"
    path.write_bytes(whole[: len(whole) // 2])
    report = Report()
    with pytest.raises(DumpMalformedError, match=r"cut short: .* after line \d+") as error:
        lines_of(path, report)
    assert 0 < report.lines < 200_000
    assert f"line {report.lines} " in str(error.value)


def test_a_flipped_byte_in_gzip_is_an_error(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress("".join(f"{n * 7919}\n" for n in range(10_000)).encode()))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "dump.gz"
    path.write_bytes(packed)
    with pytest.raises(DumpMalformedError, match=r"damaged|cut short"):
        lines_of(path)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError, match=r"no Freebase dump file .*missing\.gz"):
        find_sources([tmp_path / "missing.gz"], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="holds no file"):
        find_sources([tmp_path], "Freebase dump")
    with pytest.raises(DumpNotFoundError, match="was given"):
        find_sources([], "Freebase dump")


def test_a_folder_stands_for_its_parts_in_order(tmp_path: Path) -> None:
    for name in ("part-2", "part-1", ".hidden"):
        (tmp_path / name).write_text("x\n")
    assert [path.name for path in find_sources([tmp_path], "dump")] == ["part-1", "part-2"]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "dump.gz"
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    expected = list(enumerate(texts, 1))
    if texts and texts[0].startswith("\ufeff"):  # at the start of a file it is a byte order mark
        expected[0] = (1, texts[0][1:])
    assert lines_of(path) == expected
