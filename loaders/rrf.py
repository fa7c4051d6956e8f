"""The files of a UMLS release in Rich Release Format, read by columns.

A row is a line of ``|``-separated fields, closed by a ``|``. MRFILES.RRF says which columns a file
has and in what order, and MRCOLS.RRF which of them exist; if a release lacks both, the order that
the UMLS reference manual documents holds. Whole blocks of rows become columns at once; a line that
is not of the form is read by itself.
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
_BLANK = "blank line or comment"


@dataclass(frozen=True, slots=True)
class RowForm:
    """What a row looks like: ``places`` are the wanted fields of ``count``.

    ``exact``: whether a row with more fields than these is malformed.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    count: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block, in order, as columns of strings, and the lines that are malformed.

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
        DumpNotFoundError if a source is missing, DumpMalformedError if an archive is damaged.
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


def read_rows(block: Block, form: RowForm) -> BlockRows:
    """Return the wanted fields of all rows of ``block``."""
    fields = Fields(block, b"|", form.count + 1, rest=not form.exact)
    good = np.ones(len(fields), dtype=np.bool_)
    if form.exact:  # nothing may follow the last separator
        good = fields.start(form.count) == fields.ends
    texts = []
    for place in form.places:
        text, decoded = as_text(fields.column(place))
        texts.append(text)
        good &= decoded
    batch = pa.RecordBatch.from_arrays(texts, names=list(form.names))
    if good.all() and not len(fields.others):
        return BlockRows(block.source, batch, 0, [])
    numbers = block.first + fields.rows[good]
    batch = batch.filter(pa.array(good))
    blank = 0
    rejected: list[tuple[int, str, str]] = []
    found: dict[int, list[str]] = {}
    single = np.sort(np.concatenate([fields.others, fields.rows[~good]]))
    for number, line in fields.lines_at(single):
        row = _read_row(line, form)
        if not line.strip():
            blank += 1
        elif isinstance(row, str):
            rejected.append((number, row, line.decode(errors="backslashreplace")))
        else:
            found[number] = row
    if found:
        columns = zip(*found.values(), strict=True)
        more = [pa.array(column, type=pa.string()) for column in columns]
        batch = pa.concat_batches([batch, pa.RecordBatch.from_arrays(more, names=list(form.names))])
        batch = batch.take(np.argsort([*numbers.tolist(), *found]))
    return BlockRows(block.source, batch, blank, rejected)


def _read_row(line: bytes, form: RowForm) -> list[str] | str:
    """Return the wanted fields of one line, or why it is malformed."""
    fields = line.removesuffix(b"|").split(b"|")
    if len(fields) < form.count or (form.exact and len(fields) != form.count):
        return f"{len(fields)} fields in place of {form.count}"
    try:
        return [fields[place].decode() for place in form.places]
    except UnicodeDecodeError as error:
        return f"not UTF-8 ({error.reason})"
