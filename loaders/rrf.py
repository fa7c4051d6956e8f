"""The files of a UMLS release (RRF), wherever they lie, and their rows as columns.

A release is a folder, unpacked; its files may be compressed. A row is a line of ``|``-separated
fields, closed by a ``|``. MRFILES.RRF says which columns a file has; a release without it has those
of the UMLS reference manual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.blocks import read_blocks
from kgqa.loaders.strings import (
    BlockReport,
    as_text,
    mask_of,
    split_block,
    whole_lines,
    why_undecodable,
)
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.blocks import Block
    from kgqa.progress import Progress

_DOCUMENTED = {
    "MRFILES": "FIL,DES,FMT,CLS,RWS,BTS",
    "MRCOLS": "COL,DES,REF,MIN,AV,MAX,FIL,DTY",
    "MRCONSO": "CUI,LAT,TS,LUI,STT,SUI,ISPREF,AUI,SAUI,SCUI,SDUI,SAB,TTY,CODE,STR,SRL,SUPPRESS,CVF",
    "MRREL": "CUI1,AUI1,STYPE1,REL,CUI2,AUI2,STYPE2,RELA,RUI,SRUI,SAB,SL,RG,DIR,SUPPRESS,CVF",
    "MRSTY": "CUI,TUI,STN,STY,ATUI,CVF",
    "MRDEF": "CUI,AUI,ATUI,SATUI,SAB,DEF,SUPPRESS,CVF",
    "MRRANK": "RANK,SAB,TTY,SUPPRESS",
    "MRDOC": "DOCKEY,VALUE,TYPE,EXPL",
    "MRSAB": "VCUI,RCUI,VSAB,RSAB,SON,SF,SVER,VSTART,VEND,IMETA,RMETA,SLC,SCC,SRL,TFR,CFR,CXTY,"
    "TTYL,ATNL,LAT,CENC,CURVER,SABIN,SSN,SCIT",
    # The Semantic Network is a release of its own, in which no file describes the others.
    "SRDEF": "RT,UI,STY_RL,STN_RTN,DEF,EX,UN,NH,ABR,RIN",
    "SRSTR": "STY_RL1,RL,STY_RL2,LS",
}
# The network's files have had the last field or not over the years.
_OPEN_ENDED = ("SRDEF", "SRSTR", "MRFILES", "MRCOLS")
_NAMED = re.compile(r"([A-Z0-9]+(?=\.RRF)|SRDEF|SRSTR)(?:\.RRF)?(?:\.gz|\.bz2|\.zst)?")
_ARCHIVES = (".zip", ".nlm")
_DEEPEST = 3  # of a file below the folder that was named: 2024AA/META/MRCONSO.RRF


@dataclass(frozen=True, slots=True)
class RowForm:
    """What a row looks like: ``places`` are the wanted fields of ``count``.

    ``exact``: whether a row with more fields than these is malformed.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    count: int
    exact: bool = True


class Release:
    """The RRF files that some folders and files hold."""

    def __init__(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> None:
        """Look for the files in ``sources``: folders of a release, or files of one.

        Lines are counted into ``report`` and written to ``rejects`` by all methods. Raises
        DumpNotFoundError if a source is missing, DumpMalformedError if it is an archive.
        """
        self._files = release_files(sources)
        self._columns: dict[str, list[str]] = {}
        self._report = report
        self._rejects = rejects
        self._progress = progress

    def has(self, name: str) -> bool:
        """Return whether the release holds the file ``name`` (without its ending)."""
        return name in self._files

    def learn_columns(self) -> None:
        """Read from MRFILES and MRCOLS which columns the files have.

        Raises DumpMalformedError if the two contradict each other.
        """
        known: dict[str, set[str]] = {}
        for column, file in self.rows("MRCOLS", "COL FIL"):
            known.setdefault(file.removesuffix(".RRF"), set()).add(column)
        for file, order in self.rows("MRFILES", "FIL FMT"):
            self._columns[file.removesuffix(".RRF")] = order.split(",")
        for name, columns in self._columns.items():
            if name in self._files and name in known and set(columns) != known[name]:
                odd = ", ".join(sorted(set(columns) ^ known[name]))
                raise DumpMalformedError(
                    f"MRFILES.RRF and MRCOLS.RRF name different columns for {name}: {odd}.",
                    "The files are not of one release; take them all from the same one.",
                )

    def batches(self, name: str, columns: str) -> Iterator[pa.RecordBatch]:
        """Yield the fields ``columns`` (space-separated names) of the rows of the file ``name``.

        Nothing if the release lacks the file; columns are strings, rows in the file's order. A row
        with another number of fields is a reject. Raises DumpMalformedError if the file lacks such
        a column, or is damaged.
        """
        path = self._files.get(name)
        if path is None:
            return
        order = self._columns.get(name) or _DOCUMENTED[name].split(",")
        wanted = columns.split()
        if missing := [column for column in wanted if column not in order]:
            raise DumpMalformedError(
                f"{path} has no column {', '.join(missing)}, says MRFILES.RRF.",
                "Take a release in Rich Release Format.",
            )
        places = tuple(order.index(column) for column in wanted)
        exact = name not in _OPEN_ENDED
        form = RowForm(tuple(wanted), places, len(order) if exact else max(places) + 1, exact)
        blocks = read_blocks([path], self._report, self._rejects, self._progress)
        for batch, seen in mapped(partial(read_rows, form=form), blocks):
            seen.record(self._report, self._rejects)
            if len(batch):
                yield batch

    def rows(self, name: str, columns: str) -> Iterator[tuple[str, ...]]:
        """Yield the rows of :meth:`batches` one by one, for small files."""
        for batch in self.batches(name, columns):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def read_rows(block: Block, form: RowForm) -> tuple[pa.RecordBatch, BlockReport]:
    """Return the wanted fields of the rows of ``block`` as strings, in order; and other lines."""
    seen = BlockReport(block.source)
    if form.exact:  # nothing may follow the last separator
        wanted = (*form.places, form.count)
        *columns, rest = split_block(block, "|", form.count + 1, wanted).columns
        texts, decoded = zip(*map(as_text, columns), strict=True)
        if len(rest) == block.lines and pc.all(pc.equal(rest, b"")).as_py() and np.all(decoded):
            return pa.RecordBatch.from_arrays([*texts], names=[*form.names]), seen
    raw = whole_lines(block)
    lines = pc.ascii_rtrim(raw.view(pa.string()), "\n")
    fields = pc.split_pattern(lines, "|")
    counts = pc.list_value_length(fields).to_numpy() - mask_of(pc.ends_with(lines, "|"))
    good = counts == form.count if form.exact else counts >= form.count
    good &= mask_of(pc.match_substring_regex(raw, r"\S"))
    chosen = fields.filter(pa.array(good))
    columns = [pc.list_element(chosen, place).cast(pa.binary()) for place in form.places]
    texts, decoded = zip(*map(as_text, columns), strict=True)
    sound = np.logical_and.reduce(decoded)
    for row in np.flatnonzero(~good).tolist():
        reason = f"{counts[row]} fields in place of {form.count}"
        seen.reject(block.first + row, reason, raw[row].as_py())
    for row in np.flatnonzero(good)[~sound].tolist():
        seen.reject(block.first + row, why_undecodable(raw[row].as_py()), raw[row].as_py())
    return pa.RecordBatch.from_arrays([*texts], names=[*form.names]).filter(pa.array(sound)), seen


def release_files(sources: Sequence[Path]) -> dict[str, Path]:
    """Return the files of a release by name (``MRCONSO``), of several equally named the nearest.

    If a META folder is named, the NET folder beside it belongs to the release. Raises
    DumpNotFoundError if a source is missing, DumpMalformedError if it is an archive.
    """
    files: dict[str, Path] = {}
    for source in sources:
        if not source.exists():
            raise DumpNotFoundError(
                f"There is no UMLS release at {source}.",
                "Give the META folder, or the folder that holds META and NET.",
            )
        if source.suffix in _ARCHIVES:
            raise DumpMalformedError(
                f"{source} is an archive.", "Unpack it and give the folder that holds META and NET."
            )
        if source.is_file():
            match = _NAMED.fullmatch(source.name)
            files.setdefault(match[1] if match else source.stem, source)
            continue
        folders = [source]
        if source.resolve().name == "META":
            folders.append(source.resolve().parent / "NET")
        for folder in folders:
            for depth in range(1, _DEEPEST + 1):
                for path in sorted(folder.glob("/".join("*" * depth))):
                    if (match := _NAMED.fullmatch(path.name)) and path.is_file():
                        files.setdefault(match[1], path)
    return files
