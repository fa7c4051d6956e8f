"""The files of a UMLS release (RRF), wherever they lie, and their rows as columns.

A file of the release becomes one source, whatever it is kept in: a member of an archive is read
in place, and parts (``MRCONSO.RRF.aa.gz``, ``.ab.gz``) are read as one. A row is a line of
``|``-separated fields, closed by a ``|``. MRFILES.RRF says which columns a file has; a release
without it has those of the UMLS reference manual.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

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
    from typing import IO, Any

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
_NAMED = re.compile(
    r"(?P<name>[A-Z0-9]+(?=\.RRF)|SRDEF$|SRSTR$|SRDEF(?=\.[gbz])|SRSTR(?=\.[gbz]))(?:\.RRF)?"
    r"(?P<part>\.(?!gz)[a-z]{2})?(?P<packed>\.gz|\.bz2|\.zst)?"
)
_ARCHIVES = (".zip", ".nlm")  # a full release's archives are named .nlm and are zip files
_CHUNK = 1 << 18
_DEEPEST = 3  # of a file below the folder or archive that was named: 2024AA/META/MRCONSO.RRF


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
    found = pc.list_value_length(fields).to_numpy() - mask_of(pc.ends_with(lines, "|"))
    good = found == form.count if form.exact else found >= form.count
    good &= mask_of(pc.match_substring_regex(raw, r"\S"))
    chosen = fields.filter(pa.array(good))
    columns = [pc.list_element(chosen, place).cast(pa.binary()) for place in form.places]
    texts, decoded = zip(*map(as_text, columns), strict=True)
    sound = np.logical_and.reduce(decoded)
    for row in np.flatnonzero(~good).tolist():
        reason = f"{found[row]} fields in place of {form.count}"
        seen.reject(block.first + row, reason, raw[row].as_py())
    for row in np.flatnonzero(good)[~sound].tolist():
        seen.reject(block.first + row, why_undecodable(raw[row].as_py()), raw[row].as_py())
    return pa.RecordBatch.from_arrays([*texts], names=[*form.names]).filter(pa.array(sound)), seen


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release, in one piece or several, as something that is opened like a path."""

    name: str
    pieces: Sequence[Path | zipfile.Path]

    def __str__(self) -> str:
        first = self.pieces[0]
        return str(first) if isinstance(first, Path) else f"{first.root.filename} ({first.at})"

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return PurePosixPath(self.name).suffix

    def exists(self) -> bool:
        """Return True: it existed when the release was searched."""
        return True

    def stat(self) -> Any:
        """Return ``st_size``, the bytes that will be read."""
        sizes = (
            each.stat().st_size if isinstance(each, Path) else each.root.getinfo(each.at).file_size
            for each in self.pieces
        )
        return SimpleNamespace(st_size=sum(sizes))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Return all pieces as one stream of bytes."""
        return cast("IO[bytes]", io.BufferedReader(_Chain(self.pieces), _CHUNK))


class _Chain(io.RawIOBase):
    """The bytes of several pieces, one after the other."""

    def __init__(self, pieces: Sequence[Path | zipfile.Path]) -> None:
        self._chunks = _chunks(pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._left = self._left or memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _chunks(pieces: Sequence[Path | zipfile.Path]) -> Iterator[bytes]:
    """Yield the bytes of pieces. Raises OSError, also for what is wrong with an archive."""
    for piece in pieces:
        try:
            with piece.open("rb") as stream:
                while data := stream.read(_CHUNK):
                    yield data
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError) as error:
            raise OSError(f"the archive is damaged ({error})") from None


def release_files(sources: Sequence[Path]) -> dict[str, Path]:
    """Return the files of a release by name (``MRCONSO``), of several equally named the nearest.

    The values are paths, or objects that open like one. If a META folder is named, the NET folder
    beside it belongs to the release. Raises DumpNotFoundError if a source is missing,
    DumpMalformedError if an archive cannot be read.
    """
    groups: dict[tuple[int, str, str], list[Path | zipfile.Path]] = {}
    for rank, source in enumerate(sources):
        if not source.exists():
            raise DumpNotFoundError(
                f"There is no UMLS release at {source}.",
                "Give the META folder, or the folder that holds META and NET.",
            )
        for piece in _pieces(source):
            match = _NAMED.fullmatch(piece.name)
            folder = str(piece).removesuffix(piece.name)
            name = match["name"] if match else source.stem
            groups.setdefault((rank, folder, name), []).append(piece)
    found: dict[str, Path] = {}
    for (_, _, name), group in groups.items():
        if name not in found:
            found[name] = _one(sorted(group, key=lambda piece: piece.name))
    return found


def _one(group: list[Path | zipfile.Path]) -> Path:
    """Return one source for the pieces of one name in one folder."""
    parts = [(match and match["part"]) or "" for p in group if (match := _NAMED.fullmatch(p.name))]
    whole = [piece for piece, part in zip(group, parts or [""], strict=True) if not part]
    if whole and isinstance(whole[0], Path):
        return whole[0]  # a plain file is read as it is
    pieces = whole[:1] or group
    name = pieces[0].name if whole else pieces[0].name.replace(parts[0], "", 1)
    return cast("Path", ReleaseFile(name, pieces))  # packed parts are a packed file


def _pieces(source: Path) -> Iterator[Path | zipfile.Path]:
    """Yield what may belong to a release, the nearest first."""
    if source.is_file():
        is_archive = zipfile.is_zipfile(source) or source.suffix in _ARCHIVES
        yield from _members(source) if is_archive else [source]
        return
    folders = [source]
    if source.resolve().name == "META":
        folders.append(source.resolve().parent / "NET")
    archives = []
    for folder in folders:
        for depth in range(1, _DEEPEST + 1):
            for path in sorted(folder.glob("/".join("*" * depth))):
                if path.is_file() and path.suffix in _ARCHIVES:
                    archives.append(path)
                elif path.is_file() and _NAMED.fullmatch(path.name):
                    yield path
    for path in archives:
        yield from _members(path)


def _members(path: Path) -> Iterator[zipfile.Path]:
    try:
        root = zipfile.Path(path).root
    except (zipfile.BadZipFile, OSError) as error:
        raise DumpMalformedError(
            f"{path} cannot be read as a zip archive: {error}.",
            "It may be cut short; fetch it again.",
        ) from None
    if inner := [name for name in root.namelist() if name.endswith(".nlm")]:
        raise DumpMalformedError(
            f"{path} is an archive of archives ({', '.join(inner[:3])}).",
            "Unpack it and give the folder with the .nlm files.",
        )
    named = [
        each for each in root.infolist() if _NAMED.fullmatch(PurePosixPath(each.filename).name)
    ]
    if any(each.flag_bits & 1 for each in named):
        raise DumpMalformedError(
            f"{path} is locked with a password.", "Unpack it and give its META folder."
        )
    for name in sorted((each.filename for each in named), key=lambda name: (name.count("/"), name)):
        yield zipfile.Path(root, name)
