from __future__ import annotations

import gzip
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.base import Rejects, Report
from kgqa.loaders.blocks import Block
from kgqa.loaders.rrf import Release, RowForm, read_rows
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
    assert [number for number, _, _ in seen.rejects] == rejected
    assert seen.dropped.total() == blank


def cuis(tmp_path: Path, *sources: Path) -> list[str]:
    """Return the concepts of MRSTY, as a release that is kept in ``sources`` gives them."""
    report = Report()
    rejects = Rejects(tmp_path / "rejects", report)
    release = Release(sources, report, rejects, Silent())
    found = [cui for (cui,) in release.rows("MRSTY", "CUI")]
    assert report.lines == len(found)
    return found


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), data)
    return path


def test_a_release_is_read_wherever_it_is_kept(tmp_path: Path) -> None:
    ids = [f"C{number:07d}" for number in range(1_000)]
    text = "".join(STY.format(id_) + "\n" for id_ in ids).encode()
    cut = len(text) // 2 + 11  # in the middle of a line
    meta = tmp_path / "plain" / "2024AA" / "META"
    meta.mkdir(parents=True)
    (meta / "MRSTY.RRF").write_bytes(text)
    parts = tmp_path / "parts"
    parts.mkdir()
    for part, data in (("aa", text[:cut]), ("ab", text[cut:])):
        (parts / f"MRSTY.RRF.{part}.gz").write_bytes(gzip.compress(data))
    nlm = tmp_path / "nlm"
    nlm.mkdir()
    zipped(nlm / "2024aa-1-meta.nlm", META__MRSTY_RRF_gz=gzip.compress(text))
    archives = [
        zipped(tmp_path / "a.zip", **{"2024AA__META__MRSTY_RRF": text}),
        zipped(tmp_path / "b.zip", MRSTY_RRF_gz=gzip.compress(text), README_txt=b"x"),
        zipped(
            tmp_path / "c.zip",
            META__MRSTY_RRF_ab_gz=gzip.compress(text[cut:]),
            META__MRSTY_RRF_aa_gz=gzip.compress(text[:cut]),
        ),
    ]
    for source in (meta, tmp_path / "plain", meta / "MRSTY.RRF", parts, nlm, *archives):
        assert cuis(tmp_path, source) == ids, source


def test_the_nearest_of_two_files_of_a_name_is_read(tmp_path: Path, write: Write) -> None:
    folder = write("R/MRSTY.RRF", STY.format("C0000001")).parent
    write("R/old/MRSTY.RRF", STY.format("C0000002"))
    zipped(folder / "a.zip", MRSTY_RRF=STY.format("C0000003").encode())
    assert cuis(tmp_path, folder) == ["C0000001"]
    assert cuis(tmp_path, folder / "old", folder) == ["C0000002"]


def test_net_beside_meta_belongs_to_the_release(tmp_path: Path, write: Write) -> None:
    meta = write("2024AA/META/MRSTY.RRF", STY.format("C0000001")).parent
    write("2024AA/NET/SRDEF", "STY|T047|Disease or Syndrome|B2|A condition.||NULL||dsyn||")
    report = Report()
    release = Release([meta], report, Rejects(tmp_path / "rejects", report), Silent())
    assert list(release.rows("SRDEF", "UI")) == [("T047",)]


def test_damaged_archives_are_one_clear_error(tmp_path: Path) -> None:
    text = "".join(STY.format(f"C{number:07d}") + "\n" for number in range(20_000)).encode()
    whole = zipped(tmp_path / "whole.zip", META__MRSTY_RRF=text).read_bytes()
    short = tmp_path / "short.zip"
    short.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DumpMalformedError, match=r"short\.zip cannot be read as a zip archive"):
        cuis(tmp_path, short)
    turned = tmp_path / "turned.zip"
    turned.write_bytes(whole[:5_000] + bytes([whole[5_000] ^ 0xFF]) + whole[5_001:])
    with pytest.raises(DumpMalformedError, match=r"turned\.zip \(META/MRSTY\.RRF\) cannot be read"):
        cuis(tmp_path, turned)
    inner = zipped(tmp_path / "full.zip", full__meta_nlm=whole)
    with pytest.raises(DumpMalformedError, match="is an archive of archives"):
        cuis(tmp_path, inner)
    locked = tmp_path / "locked.zip"
    raw = bytearray(whole)
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.find(sign) + place] |= 1
    locked.write_bytes(raw)
    with pytest.raises(DumpMalformedError, match="locked with a password"):
        cuis(tmp_path, locked)
    with pytest.raises(DumpNotFoundError, match="no UMLS release at"):
        cuis(tmp_path, tmp_path / "nowhere")
