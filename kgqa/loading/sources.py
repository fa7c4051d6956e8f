"""Where a dump lies: what the user names, what is in the dumps folder, or the bundled sample."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import DumpNotFoundError, UsageError
from kgqa.loaders.blocks import STDIN, display_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.loaders.base import Loader

BUNDLED = "bundled sample"

# the names a dump has as it is downloaded, the likeliest first
_PATTERNS = {
    "freebase": ("freebase-rdf-latest.gz", "freebase-rdf-*.gz", "freebase-rdf-*"),
    "conceptnet": (
        "conceptnet-assertions-5.7.0.csv.gz",
        "*assertions*.csv.gz",
        "*assertions*.csv*",
    ),
    "umls": ("META", "*/META", "*/*/META", ".", "umls-*.zip", "20*.zip"),
}
_UMLS_FILE = "MRCONSO.RRF*"
SAMPLES = {
    "freebase": "data/freebase/sample.nt.gz",
    "conceptnet": "data/conceptnet/assertions.csv.gz",
    "umls": "data/umls/META",
    "tables": "data/tables/bookshop",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """What to load. ``note`` is a sentence for the user, empty if they named the files."""

    paths: tuple[Path, ...]
    bundled: bool = False
    note: str = ""

    @property
    def described(self) -> str:
        """The ``source`` of the KG's meta record: file names without their folders."""
        names = (display_name(path) or path.resolve().name for path in self.paths)
        return BUNDLED if self.bundled else ", ".join(names)


def is_dump(loader: str) -> bool:
    """Return whether a loader reads a public dump, after which a KG is named, not its files."""
    return loader in _PATTERNS


def find_sources(loader: Loader, given: Sequence[Path], dumps_folder: Path) -> Sources:
    """Return what to load with ``loader``.

    ``given`` are the user's. A folder among them is searched for the dump, if the loader's dumps
    have known names; if it holds none of such a name, it stands for all its files. With none given,
    the dump is taken from ``dumps_folder``, else the sample that comes with kgqa. Raises
    DumpNotFoundError if a given one does not exist, UsageError if a folder has several files that
    may be meant, or none is given and the loader has no sample.
    """
    if given:
        paths = tuple(_given(loader, path) for path in given)
        found = [str(new) for new, old in zip(paths, given, strict=True) if new != old.expanduser()]
        return Sources(paths, note=f"Loading {', '.join(found)}." if found else "")
    if dumps := _find(loader.name, dumps_folder):
        note = f"Loading {dumps[0]}."
        if others := [path.name for path in dumps[1:]]:
            note += f" Not loaded: {', '.join(others)}, beside it."
        return Sources((dumps[0],), note=note)
    if loader.name not in SAMPLES:
        raise UsageError(
            f"`kgqa ingest {loader.name}` needs a SOURCE.", "Name the file that holds the triples."
        )
    sample = Path(str(files("kgqa") / SAMPLES[loader.name]))
    if not sample.exists():
        raise DumpNotFoundError(
            f"The sample {sample} that comes with kgqa is missing.",
            f"Install kgqa again, or name a dump; it is available from {loader.where}.",
        )
    if loader.name not in _PATTERNS:
        note = f"This is the small example that comes with kgqa ({sample.name}): {sample}"
    else:
        note = (
            f"No {loader.name} dump is in {dumps_folder}, so this is the small sample that comes "
            f"with kgqa. The whole dump is available from {loader.where}; its licence: "
            f"{loader.licence}."
        )
    return Sources((sample,), bundled=True, note=note)


def _given(loader: Loader, path: Path) -> Path:
    if path == STDIN:
        return path
    path = path.expanduser()
    has_names = loader.name in _PATTERNS
    hint = f"Name the dump's file or folder; it is available from {loader.where}."
    if not path.exists():
        raise DumpNotFoundError(
            f"File not found: {path}.", hint if has_names else "Check the path."
        )
    if not path.is_dir() or not has_names:
        return path
    found = _find(loader.name, path)
    is_umls = loader.name == "umls"
    if len(found) > 1 and not is_umls:  # parts of one, or one newer than the other
        names = ", ".join(sorted(one.name for one in found))
        raise UsageError(
            f"The folder {path} holds several files that may be meant: {names}.",
            "Name the file, or all files that are parts of one dump.",
        )
    if found:
        return found[0]
    if is_umls or not any(one.is_file() and one.name[0] != "." for one in path.iterdir()):
        wanted = _UMLS_FILE if is_umls else _PATTERNS[loader.name][-1]
        raise DumpNotFoundError(
            f"The folder {path} holds no {loader.name} dump (a {wanted}).", hint
        )
    return path


def _find(name: str, folder: Path) -> list[Path]:
    """Return the files in ``folder`` that the likeliest fitting pattern names, the last first."""
    for pattern in _PATTERNS.get(name, ()):
        found = [
            path
            for path in sorted([folder] if pattern == "." else folder.glob(pattern), reverse=True)
            if path.is_file() or (name == "umls" and path.is_dir() and any(path.glob(_UMLS_FILE)))
        ]
        if found:
            return found
    return []
