"""Where a dump lies: what the user names, what is in the dumps folder, or the bundled sample."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import DumpNotFoundError, UsageError
from kgqa.loaders.base import DumpFiles, Loader
from kgqa.loaders.blocks import STDIN, display_name

if TYPE_CHECKING:
    from collections.abc import Sequence


BUNDLED = "bundled sample"
_ANY = DumpFiles(())  # of a loader whose files have no known names


@dataclass(frozen=True, slots=True)
class Sources:
    """The files to load. ``note``: a sentence for the user, empty if they named the files."""

    paths: tuple[Path, ...]
    bundled: bool = False
    note: str = ""

    @property
    def described(self) -> str:
        """The text for the meta record's ``source``: file names without folders."""
        names = (display_name(path) or path.resolve().name for path in self.paths)
        return BUNDLED if self.bundled else ", ".join(names)


def find_sources(loader: Loader, given: Sequence[Path], dumps_folder: Path) -> Sources:
    """Find the files to load with ``loader``.

    ``given`` are the user's. A folder among them is searched for the dump, if the loader's dumps
    have known names; if it holds none of such a name, it stands for all its files. With none given,
    the dump is taken from ``dumps_folder``, else the sample that comes with kgqa. Raises
    DumpNotFoundError if a given one does not exist, UsageError if a folder has several candidate
    files, or none is given and the loader has no sample.
    """
    dump: DumpFiles = getattr(loader, "dump", _ANY)
    if given:
        paths = tuple(_resolve_source(loader, dump, path) for path in given)
        replaced = [
            str(new) for new, old in zip(paths, given, strict=True) if new != old.expanduser()
        ]
        return Sources(paths, note=f"Loading {', '.join(replaced)}." if replaced else "")
    if dumps := _find(dump, dumps_folder):
        note = f"Loading {dumps[0]}."
        if others := [path.name for path in dumps[1:]]:
            note += f" Not loaded: {', '.join(others)}, beside it."
        return Sources((dumps[0],), note=note)
    if not (bundled := getattr(loader, "sample", "")):
        raise UsageError(
            f"`kgqa ingest {loader.name}` needs a SOURCE.", "Name the file that holds the triples."
        )
    sample = Path(str(files("kgqa") / bundled))
    if not sample.exists():
        raise DumpNotFoundError(
            f"The sample {sample} that comes with kgqa is missing.",
            f"Install kgqa again, or name a dump; it is available from {loader.where}.",
        )
    if dump is _ANY:
        note = f"This is the small example that comes with kgqa ({sample.name}): {sample}"
    else:
        note = (
            f"No {loader.name} dump is in {dumps_folder}, so this is the small sample that comes "
            f"with kgqa. The whole dump is available from {loader.where}; its licence: "
            f"{loader.licence}."
        )
    return Sources((sample,), bundled=True, note=note)


def _resolve_source(loader: Loader, dump: DumpFiles, path: Path) -> Path:
    """Return a given path, or the dump in a given folder. Raises DumpNotFoundError, UsageError."""
    if path == STDIN:
        return path
    path = path.expanduser()
    hint = f"Name the dump's file or folder; it is available from {loader.where}."
    if not path.exists():
        hint = "Check the path." if dump is _ANY else hint
        raise DumpNotFoundError(f"File not found: {path}.", hint)
    if not path.is_dir() or dump is _ANY:
        return path
    dumps = _find(dump, path)
    if len(dumps) > 1 and not dump.inside:  # parts of one, or one newer than the other
        names = ", ".join(sorted(file.name for file in dumps))
        raise UsageError(
            f"The folder {path} holds several files that may be meant: {names}.",
            "Name the file, or all files that are parts of one dump.",
        )
    if dumps:
        return dumps[0]
    if dump.inside or not any(file.is_file() and file.name[0] != "." for file in path.iterdir()):
        wanted = dump.inside or dump.names[-1]
        raise DumpNotFoundError(
            f"The folder {path} holds no {loader.name} dump (a {wanted}).", hint
        )
    return path


def _find(dump: DumpFiles, folder: Path) -> list[Path]:
    """Return the files in ``folder`` that match the first fitting pattern, last name first."""
    for pattern in dump.names:
        paths = [folder] if pattern == "." else sorted(folder.glob(pattern), reverse=True)
        if fitting := [
            p for p in paths if p.is_file() or (dump.inside and any(p.glob(dump.inside)))
        ]:
            return fitting
    return []
