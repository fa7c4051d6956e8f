"""The files of a UMLS release in Rich Release Format: where they lie, which column is where.

A row is a line of ``|``-separated fields, closed by a ``|``. MRFILES.RRF says which columns a file
has and in what order, and MRCOLS.RRF which of them exist; where a release lacks both, the order
that the UMLS reference manual documents holds. What it does not do: know what a column means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

_DOCUMENTED = {
    "MRCONSO": "CUI,LAT,TS,LUI,STT,SUI,ISPREF,AUI,SAUI,SCUI,SDUI,SAB,TTY,CODE,STR,SRL,SUPPRESS,CVF",
    "MRREL": "CUI1,AUI1,STYPE1,REL,CUI2,AUI2,STYPE2,RELA,RUI,SRUI,SAB,SL,RG,DIR,SUPPRESS,CVF",
    "MRSTY": "CUI,TUI,STN,STY,ATUI,CVF",
    "MRDEF": "CUI,AUI,ATUI,SATUI,SAB,DEF,SUPPRESS,CVF",
    "MRRANK": "RANK,SAB,TTY,SUPPRESS",
    "MRDOC": "DOCKEY,VALUE,TYPE,EXPL",
    # The Semantic Network is a release of its own, in which no file describes the others.
    "SRDEF": "RT,UI,STY_RL,STN_RTN,DEF,EX,UN,NH,ABR,RIN",
    "SRSTR": "STY_RL1,RL,STY_RL2,LS",
}
_NETWORK = ("SRDEF", "SRSTR")
_ENDINGS = ("", ".gz", ".bz2")


class Release:
    """The RRF files that some folders and files hold."""

    def __init__(self, sources: Sequence[Path]) -> None:
        """Look for the files in ``sources``, folders of a release or files of one.

        Raises DumpNotFoundError where a source is missing.
        """
        self._files: dict[str, Path] = {}
        self._columns: dict[str, list[str]] = {}
        for source in sources:
            if not source.exists():
                raise DumpNotFoundError(
                    f"There is no UMLS release at {source}.",
                    "Give the META folder, or the folder that holds META and NET.",
                )
            files = _rrf_files(source) if source.is_dir() else [source]
            for path in files:
                self._files.setdefault(_plain_name(path), path)
        self.sources = list(sources)

    def has(self, name: str) -> bool:
        """Return whether the release holds the file ``name`` (without its ending)."""
        return name in self._files

    def learn_columns(self, report: Report, rejects: Rejects, progress: Progress) -> None:
        """Read from MRFILES and MRCOLS which columns the files have.

        Raises DumpMalformedError where the two contradict each other.
        """
        told: dict[str, set[str]] = {}
        if "MRCOLS" in self._files:
            for _, line in read_lines(self._files["MRCOLS"], report, rejects, progress):
                fields = line.split("|")
                if len(fields) > 6:
                    told.setdefault(fields[6].removesuffix(".RRF"), set()).add(fields[0])
        if "MRFILES" in self._files:
            for _, line in read_lines(self._files["MRFILES"], report, rejects, progress):
                fields = line.split("|")
                if len(fields) > 3:
                    self._columns[fields[0].removesuffix(".RRF")] = fields[2].split(",")
        for name, columns in self._columns.items():
            if name in self._files and name in told and set(columns) != told[name]:
                odd = ", ".join(sorted(set(columns) ^ told[name]))
                raise DumpMalformedError(
                    f"MRFILES.RRF and MRCOLS.RRF name different columns for {name}: {odd}.",
                    "The files are not of one release; take them all from the same one.",
                )

    def rows(
        self, name: str, columns: str, report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[list[str]]:
        """Yield the fields ``columns`` (space-separated names) of each row of the file ``name``.

        Nothing where the release lacks the file. A row with another number of fields is a reject.
        Raises DumpMalformedError where the file has no such column.
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
        places = [order.index(column) for column in wanted]
        # NET's files came with and without the last field over the years.
        least = max(places) + 1 if name in _NETWORK else len(order)
        for number, line in read_lines(path, report, rejects, progress):
            if not line.strip():
                report.dropped["blank line or comment"] += 1
                continue
            fields = line.split("|")
            found = len(fields) - 1 if line.endswith("|") else len(fields)
            if found < least or (found != least and name not in _NETWORK):
                rejects.add(path.name, number, f"{found} fields in place of {least}", line)
                continue
            yield [fields[place] for place in places]


def _rrf_files(folder: Path) -> list[Path]:
    """Return what may be RRF in a folder, or up to two levels below it (``2024AA/META``)."""
    files = [
        path
        for pattern in ("*", "*/*", "*/*/*")
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    ]
    return [path for path in files if _is_rrf(path)]


def _is_rrf(path: Path) -> bool:
    name = path.name
    for ending in _ENDINGS[1:]:
        name = name.removesuffix(ending)
    return name.endswith(".RRF") or name in _NETWORK


def _plain_name(path: Path) -> str:
    name = path.name
    for ending in _ENDINGS[1:]:
        name = name.removesuffix(ending)
    return name.removesuffix(".RRF")
