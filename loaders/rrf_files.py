"""Where the files of a UMLS release lie: in folders, in zip archives, whole or in parts.

A file of the release becomes one source, whatever it is kept in: a member of an archive is read
in place, and parts (``MRCONSO.RRF.aa.gz``, ``.ab.gz``) are read as one.
"""

from __future__ import annotations

import io
import re
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kgqa.errors import DumpMalformedError, DumpNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO, Any

_NAMED = re.compile(
    r"(?P<name>[A-Z0-9]+(?=\.RRF)|SRDEF$|SRSTR$|SRDEF(?=\.[gbz])|SRSTR(?=\.[gbz]))(?:\.RRF)?"
    r"(?P<part>\.(?!gz)[a-z]{2})?(?P<packed>\.gz|\.bz2|\.zst)?"
)
_ARCHIVES = (".zip", ".nlm")  # a full release's archives are named .nlm and are zip files
_DEEPEST = 3  # of a file below the folder or archive that was named: 2024AA/META/MRCONSO.RRF


@dataclass(frozen=True, slots=True)
class _Piece:
    """A file, or a member of an archive; ``folder`` tells those of two folders apart."""

    folder: str
    path: Path
    size: int
    member: str = ""

    @property
    def name(self) -> str:
        return PurePosixPath(self.member).name if self.member else self.path.name

    @property
    def part(self) -> str:
        """The ending that says which part of a file it is: ``.aa``."""
        match = _NAMED.fullmatch(self.name)
        return (match["part"] if match else None) or ""

    def open(self, stack: ExitStack) -> IO[bytes]:
        """Return the bytes. Raises OSError, also for what is wrong with an archive."""
        if not self.member:
            return stack.enter_context(self.path.open("rb"))
        try:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            return stack.enter_context(archive.open(self.member))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError) as error:
            raise OSError(f"{self.member} cannot be read from the archive ({error})") from None


class ReleaseFile:
    """A file of a release as something that is opened like a path."""

    def __init__(self, name: str, pieces: Sequence[_Piece]) -> None:
        self.name = name
        self.suffix = PurePosixPath(name).suffix
        self._pieces = pieces

    def __str__(self) -> str:
        first = self._pieces[0]
        return f"{first.path} ({first.member})" if first.member else str(first.path)

    def exists(self) -> bool:
        """Return True: it existed when the release was searched."""
        return True

    def stat(self) -> Any:
        """Return ``st_size``, the bytes that will be read."""
        return SimpleNamespace(st_size=sum(piece.size for piece in self._pieces))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Return all pieces as one stream of bytes."""
        return cast("IO[bytes]", io.BufferedReader(_Chain(self._pieces), 1 << 18))


class _Chain(io.RawIOBase):
    """The bytes of several pieces, one after the other."""

    def __init__(self, pieces: Iterable[_Piece]) -> None:
        self._waiting = iter(pieces)
        self._stack = ExitStack()
        self._stream: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while True:
            if self._stream is None:
                piece = next(self._waiting, None)
                if piece is None:
                    return 0
                self._stream = piece.open(self._stack)
            try:
                data = self._stream.read(len(buffer))
            except zipfile.BadZipFile as error:  # its checksum does not fit
                raise OSError(f"the archive is damaged ({error})") from None
            if data:
                buffer[: len(data)] = data
                return len(data)
            self._stream = None
            self._stack.close()

    def close(self) -> None:
        self._stack.close()
        super().close()


def release_files(sources: Sequence[Path]) -> dict[str, Path]:
    """Return the files of a release by name (``MRCONSO``), of several equally named the nearest.

    The values are paths, or objects that open like one. If a META folder is named, the NET folder
    beside it belongs to the release. Raises DumpNotFoundError if a source is missing,
    DumpMalformedError if an archive cannot be read.
    """
    groups: dict[tuple[int, str, str], list[_Piece]] = {}
    for rank, source in enumerate(sources):
        if not source.exists():
            raise DumpNotFoundError(
                f"There is no UMLS release at {source}.",
                "Give the META folder, or the folder that holds META and NET.",
            )
        for piece in _pieces(source):
            match = _NAMED.fullmatch(piece.name)
            if match or (source.is_file() and not piece.member):
                name = match["name"] if match else PurePosixPath(piece.name).stem
                groups.setdefault((rank, piece.folder, name), []).append(piece)
    found: dict[str, Path] = {}
    for (_, _, name), group in groups.items():
        if name not in found:
            found[name] = _one(group)
    return found


def _one(group: list[_Piece]) -> Path:
    """Return one source for the pieces of one name in one folder."""
    group = sorted(group, key=lambda piece: piece.name)
    whole = [piece for piece in group if not piece.part]
    if whole and not whole[0].member:
        return whole[0].path  # a plain file is read as it is
    pieces = whole[:1] or group
    name = pieces[0].name.replace(pieces[0].part, "", 1)  # packed parts are a packed file
    return cast("Path", ReleaseFile(name, pieces))


def _pieces(source: Path) -> Iterator[_Piece]:
    """Yield what may belong to a release, the nearest first."""
    if source.is_file():
        if zipfile.is_zipfile(source) or source.suffix in _ARCHIVES:
            yield from _members(source)
        else:
            yield _Piece("", source, source.stat().st_size)
        return
    folders = [source]
    beside = source.resolve().parent / "NET"
    if source.resolve().name == "META" and beside.is_dir():
        folders.append(beside)
    archives = []
    for folder in folders:
        for depth in range(1, _DEEPEST + 1):
            for path in sorted(folder.glob("/".join("*" * depth))):
                if path.is_file() and path.suffix in _ARCHIVES:
                    archives.append(path)
                elif path.is_file() and _NAMED.fullmatch(path.name):
                    yield _Piece(str(path.parent), path, path.stat().st_size)
    for path in archives:
        yield from _members(path)


def _members(path: Path) -> Iterator[_Piece]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError) as error:
        raise DumpMalformedError(
            f"{path} cannot be read as a zip archive: {error}.",
            "It may be cut short; fetch it again.",
        ) from None
    if inner := [member.filename for member in members if member.filename.endswith(".nlm")]:
        raise DumpMalformedError(
            f"{path} is an archive of archives ({', '.join(inner[:3])}).",
            "Unpack it and give the folder with the .nlm files.",
        )
    members.sort(key=lambda member: (member.filename.count("/"), member.filename))
    for member in members:
        place = PurePosixPath(member.filename)
        if _NAMED.fullmatch(place.name) is None:
            continue
        if member.flag_bits & 1:
            raise DumpMalformedError(
                f"{path} is locked with a password.", "Unpack it and give its META folder."
            )
        yield _Piece(f"{path}:{place.parent}", path, member.file_size, member.filename)
