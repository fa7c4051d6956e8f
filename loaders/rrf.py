"""The files of a UMLS release in Rich Release Format, read by columns.

A row is a line of ``|``-separated fields, closed by a ``|``. MRFILES.RRF says which columns a file
has and in what order, and MRCOLS.RRF which of them exist; where a release lacks both, the order
that the UMLS reference manual documents holds. Whole blocks of rows become columns at once; a line
that is not of the form goes by itself. What it does not do: know what a column means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kgqa.errors import DumpMalformedError
from kgqa.loaders.blocks import mapped, read_blocks
from kgqa.loaders.delimited import Fields, as_text
from kgqa.loaders.rrf_files import release_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.blocks import Block
    from kgqa.progress import Progress

_DOCUMENTED = {
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
# NET's files came with and without the last field over the years.
_NETWORK = ("SRDEF", "SRSTR")
_BLANK = "blank line or comment"


@dataclass(frozen=True, slots=True)
class RowForm:
    """What a row looks like: ``places`` are the wanted fields of ``count``.

    ``exact``: whether a row may have no other fields than these.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    count: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block, in order, as columns of strings, and the lines that are none.

    ``rejected`` holds (line number, reason, text).
    """

    source: str
    rows: pa.RecordBatch
    blank: int
    rejected: list[tuple[int, str, str]]


class Release:
    """The RRF files that some folders, archives and files hold."""

    def __init__(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> None:
        """Look for the files in ``sources``: folders or archives of a release, or files of one.

        Lines are counted into ``report`` and written to ``rejects`` by all methods. Raises
        DumpNotFoundError where a source is missing, DumpMalformedError where an archive is damaged.
        """
        self._files = release_files(sources)
        self._columns: dict[str, list[str]] = {}
        self._report = report
        self._rejects = rejects
        self._progress = progress
        self.sources = list(sources)

    def has(self, name: str) -> bool:
        """Return whether the release holds the file ``name`` (without its ending)."""
        return name in self._files

    def learn_columns(self) -> None:
        """Read from MRFILES and MRCOLS which columns the files have.

        Raises DumpMalformedError where the two contradict each other.
        """
        told: dict[str, set[str]] = {}
        for fields in self._split("MRCOLS"):
            if len(fields) > 6:
                told.setdefault(fields[6].removesuffix(".RRF"), set()).add(fields[0])
        for fields in self._split("MRFILES"):
            if len(fields) > 3:
                self._columns[fields[0].removesuffix(".RRF")] = fields[2].split(",")
        for name, columns in self._columns.items():
            if name in self._files and name in told and set(columns) != told[name]:
                odd = ", ".join(sorted(set(columns) ^ told[name]))
                raise DumpMalformedError(
                    f"MRFILES.RRF and MRCOLS.RRF name different columns for {name}: {odd}.",
                    "The files are not of one release; take them all from the same one.",
                )

    def batches(self, name: str, columns: str) -> Iterator[pa.RecordBatch]:
        """Yield the fields ``columns`` (space-separated names) of the rows of the file ``name``.

        Nothing where the release lacks the file; columns are strings, rows in the file's order. A
        row with another number of fields is a reject. Raises DumpMalformedError where the file has
        no such column, or is damaged.
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
        exact = name not in _NETWORK
        form = RowForm(tuple(wanted), places, len(order) if exact else max(places) + 1, exact)
        blocks = read_blocks([path], self._report, self._rejects, self._progress)
        for read in mapped(partial(read_rows, form=form), blocks):
            if read.blank:
                self._report.dropped[_BLANK] += read.blank
            for number, reason, text in read.rejected:
                self._rejects.add(read.source, number, reason, text)
            if len(read.rows):
                yield read.rows

    def rows(self, name: str, columns: str) -> Iterator[tuple[str, ...]]:
        """Yield the rows of :meth:`batches` one by one, for small files."""
        for batch in self.batches(name, columns):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _split(self, name: str) -> Iterator[list[str]]:
        """Yield the fields of each line of a file that describes the others."""
        if name in self._files:
            for block in read_blocks(
                [self._files[name]], self._report, self._rejects, self._progress
            ):
                for line in bytes(block.data).decode(errors="replace").splitlines():
                    yield line.split("|")


def read_rows(block: Block, form: RowForm) -> BlockRows:
    """Return the wanted fields of all rows of ``block``."""
    fields = Fields(block, b"|", form.count + 1)
    closed = fields.start(form.count) == fields.end(form.count)  # nothing after the last |
    rows = np.flatnonzero(closed)
    texts = []
    good = np.ones(len(rows), dtype=np.bool_)
    for place in form.places:
        text, read = as_text(fields.column(place, rows))
        texts.append(text)
        good &= read
    single = fields.lines_at(fields.others)
    for row in [*np.flatnonzero(~closed).tolist(), *rows[~good].tolist()]:
        line = block.data[fields.starts[row] : fields.ends[row]]
        single.append((fields.line_number(row), bytes(line)))
    batch = pa.RecordBatch.from_arrays(texts, names=list(form.names))
    if not single:
        return BlockRows(block.source, batch, 0, [])
    numbers = block.first + fields.rows[rows[good]]
    batch = batch.filter(pa.array(good))
    blank = 0
    rejected: list[tuple[int, str, str]] = []
    found: list[tuple[int, list[str]]] = []
    for number, line in sorted(single):
        if not line.strip():
            blank += 1
            continue
        row_or_reason = read_row(line, form)
        if isinstance(row_or_reason, str):
            rejected.append((number, row_or_reason, line.decode(errors="backslashreplace")))
        else:
            found.append((number, row_or_reason))
    if found:
        columns = zip(*(row for _, row in found), strict=True)
        more = [pa.array(column, type=pa.string()) for column in columns]
        both = [batch, pa.RecordBatch.from_arrays(more, names=list(form.names))]
        order = np.argsort(np.concatenate([numbers, [number for number, _ in found]]))
        batch = pa.concat_batches(both).take(pa.array(order))
    return BlockRows(block.source, batch, blank, rejected)


def read_row(line: bytes, form: RowForm) -> list[str] | str:
    """Return the wanted fields of one line that is not blank, or why it is no row."""
    fields = line.split(b"|")
    found = len(fields) - 1 if line.endswith(b"|") else len(fields)
    if found < form.count or (form.exact and found != form.count):
        return f"{found} fields in place of {form.count}"
    try:
        return [fields[place].decode() for place in form.places]
    except UnicodeDecodeError as error:
        return f"not UTF-8 ({error.reason})"
