from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import Block
from kgqa.loaders.umls import Release, RowForm, read_rows
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

STY = "{}|T047|B2.2|Disease or Syndrome|AT1||"
FIELDS = st.sampled_from(["", "C0000001", "Häufig", "a\tb", "a\x00b", "  ", "\r", "x" * 30])
LINES = st.one_of(
    st.lists(FIELDS, min_size=4, max_size=4).map(lambda row: ("|".join(row) + "|").encode()),
    st.lists(FIELDS, max_size=6).map(lambda row: "|".join(row).encode()),
    st.sampled_from([b"", b" \t ", b"||||", b"|||||", b"a|b\xff|c|d|", b"a|b|c|\xff|", b"|||"]),
)


@given(
    st.lists(LINES, min_size=1, max_size=12),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_block_gives_the_fields_of_its_lines(
    lines: list[bytes], places: list[int], exact: bool
) -> None:
    names = tuple(f"column {place}" for place in range(len(places)))
    count = 4 if exact else max(places) + 1
    found, seen = read_rows(
        Block("x", 3, len(lines), b"".join(line + b"\n" for line in lines)),
        RowForm(names, tuple(places), count, exact),
    )
    found.validate(full=True)
    rows, rejected, blank = [], [], 0
    for number, line in enumerate(lines, 3):
        fields = line.split(b"|")
        if fields[-1] == b"" and len(fields) > 1:
            fields.pop()
        if not line.strip():
            blank += 1
            continue
        try:
            assert len(fields) == 4 if exact else len(fields) >= count
            rows.append([fields[place].decode() for place in places])
        except (AssertionError, UnicodeDecodeError):
            rejected.append(number)
    assert [list(row.values()) for row in found.to_pylist()] == rows
    assert sorted(number for number, _, _ in seen.rejects) == rejected
    assert seen.dropped.total() == blank


def cuis(tmp_path: Path, *sources: Path) -> list[str]:
    """Return the concepts of MRSTY, as a release that is kept in ``sources`` gives them."""
    report = Report()
    rejects = Rejects(tmp_path / "rejects", report)
    release = Release(sources, report, rejects, Silent())
    found = [cui for (cui,) in release.rows("MRSTY", "CUI")]
    assert report.lines == len(found)
    return found


def test_a_release_is_read_wherever_it_is_kept(tmp_path: Path) -> None:
    ids = [f"C{number:07d}" for number in range(1_000)]
    text = "".join(STY.format(id_) + "\n" for id_ in ids).encode()
    meta = tmp_path / "plain" / "2024AA" / "META"
    meta.mkdir(parents=True)
    (meta / "MRSTY.RRF").write_bytes(text)
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "MRSTY.RRF.gz").write_bytes(gzip.compress(text))
    for source in (meta, tmp_path / "plain", meta / "MRSTY.RRF", packed):
        assert cuis(tmp_path, source) == ids, source


def test_the_nearest_of_two_files_of_a_name_is_read(tmp_path: Path, write: Write) -> None:
    folder = write("R/MRSTY.RRF", STY.format("C0000001")).parent
    write("R/old/MRSTY.RRF", STY.format("C0000002"))
    (folder / "MRSTY.RRF.gz").write_bytes(gzip.compress(STY.format("C0000003").encode()))
    assert cuis(tmp_path, folder) == ["C0000001"]
    assert cuis(tmp_path, folder / "old", folder) == ["C0000002"]


def test_net_beside_meta_belongs_to_the_release(tmp_path: Path, write: Write) -> None:
    meta = write("2024AA/META/MRSTY.RRF", STY.format("C0000001")).parent
    write("2024AA/NET/SRDEF", "STY|T047|Disease or Syndrome|B2|A condition.||NULL||dsyn||")
    report = Report()
    release = Release([meta], report, Rejects(tmp_path / "rejects", report), Silent())
    assert list(release.rows("SRDEF", "UI")) == [("T047",)]


def test_an_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "2024AA.zip").write_bytes(b"PK")
    with pytest.raises(DumpMalformedError, match=r"2024AA\.zip is an archive"):
        cuis(tmp_path, tmp_path / "2024AA.zip")
    with pytest.raises(DumpNotFoundError, match="is not a UMLS release"):
        cuis(tmp_path, tmp_path / "nowhere")
