"""Where the files of a UMLS release lie: in folders, in zip archives, whole or in parts.

A file of the release becomes one source, whatever it is kept in: a member of an archive is read
where it is, and parts (``MRCONSO.RRF.aa.gz``, ``.ab.gz``) are read as one. What it does not do:
know what stands in a file.
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
    """A file, or a member of an archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        return PurePosixPath(self.member).name if self.member else self.path.name

    def open(self, stack: ExitStack) -> IO[bytes]:
        """Return the bytes. Raises OSError, also for what is wrong with an archive."""
        if not self.member:
            return stack.enter_context(self.path.open("rb"))
        try:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            return stack.enter_context(archive.open(self.member))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError) as error:
            raise OSError(f"{self.member} cannot be taken out of the archive ({error})") from None


class ReleaseFile:
    """A file of a release as something that is opened like a path."""

    def __init__(self, name: str, pieces: Sequence[_Piece], size: int) -> None:
        self.name = name
        self.suffix = PurePosixPath(name).suffix
        self._pieces = pieces
        self._size = size

    def __str__(self) -> str:
        first = self._pieces[0]
        return f"{first.path} ({first.member})" if first.member else str(first.path)

    def exists(self) -> bool:
        """Return True: it was there when the release was looked through."""
        return True

    def stat(self) -> Any:
        """Return ``st_size``, the bytes that will be read."""
        return SimpleNamespace(st_size=self._size)

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

    The values are paths, or what opens like one. Where a META folder is named, the NET folder
    beside it belongs to the release. Raises DumpNotFoundError where a source is missing,
    DumpMalformedError where an archive cannot be read.
    """
    groups: dict[tuple[int, str, str], list[tuple[_Piece, int]]] = {}
    for rank, source in enumerate(sources):
        if not source.exists():
            raise DumpNotFoundError(
                f"There is no UMLS release at {source}.",
                "Give the META folder, or the folder that holds META and NET.",
            )
        for folder, piece, size in _pieces(source):
            match = _NAMED.fullmatch(piece.name)
            if match or (source.is_file() and not piece.member):
                name = match["name"] if match else PurePosixPath(piece.name).stem
                groups.setdefault((rank, folder, name), []).append((piece, size))
    found: dict[str, Path] = {}
    for (_, _, name), group in groups.items():
        if name not in found:
            found[name] = _one(group)
    return found


def _one(group: list[tuple[_Piece, int]]) -> Path:
    """Return one source for the pieces of one name in one folder."""
    group = sorted(group, key=lambda item: item[0].name)
    parts = [item for item in group if (match := _NAMED.fullmatch(item[0].name)) and match["part"]]
    whole = [item for item in group if item not in parts]
    if whole and not whole[0][0].member:
        return whole[0][0].path  # a plain file is read as it is
    chosen = whole[:1] or parts
    name = chosen[0][0].name
    match = _NAMED.fullmatch(name)
    if match and match["part"]:  # the packed parts of a file are a packed file
        name = name.replace(match["part"], "", 1)
    file = ReleaseFile(name, [piece for piece, _ in chosen], sum(size for _, size in chosen))
    return cast("Path", file)


def _pieces(source: Path) -> Iterator[tuple[str, _Piece, int]]:
    """Yield (folder, file, bytes) of what may belong to a release, the nearest first."""
    if source.is_file():
        if zipfile.is_zipfile(source) or source.suffix in _ARCHIVES:
            yield from _members(source)
        else:
            yield "", _Piece(source), source.stat().st_size
        return
    archives = []
    folders = [source]
    beside = source.resolve().parent / "NET"
    if source.resolve().name == "META" and beside.is_dir():
        folders.append(beside)
    for folder in folders:
        for depth in range(1, _DEEPEST + 1):
            for path in sorted(folder.glob("/".join("*" * depth))):
                if not path.is_file():
                    continue
                if path.suffix in _ARCHIVES:
                    archives.append(path)
                elif _NAMED.fullmatch(path.name):
                    yield str(path.parent), _Piece(path), path.stat().st_size
    for path in archives:
        yield from _members(path)


def _members(path: Path) -> Iterator[tuple[str, _Piece, int]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError) as error:
        raise DumpMalformedError(
            f"{path} cannot be read as a zip archive: {error}.",
            "It may be cut short; fetch it again.",
        ) from None
    inner = [member.filename for member in members if member.filename.endswith(".nlm")]
    if inner:
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
        yield f"{path}:{place.parent}", _Piece(path, member.filename), member.file_size
