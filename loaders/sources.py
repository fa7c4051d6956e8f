"""Which files a load reads, and the error for a load in which nothing was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.loaders.blocks import STDIN, display_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.loaders.base import Report


def find_sources(sources: Sequence[Path], what: str) -> list[Path]:
    """Return the files that ``sources`` name; a folder stands for all its files, sorted by name.

    Raises DumpNotFoundError if one is missing, or a folder is empty.
    """
    found: list[Path] = []
    for source in sources:
        if source == STDIN:
            found.append(source)
        elif source.is_dir():
            files = sorted(
                path for path in source.iterdir() if path.is_file() and path.name[0] != "."
            )
            if not files:
                raise DumpNotFoundError(
                    f"The folder {source} holds no file.", f"Give the {what} file itself."
                )
            found += files
        elif source.exists():
            found.append(source)
        else:
            raise DumpNotFoundError(
                f"There is no {what} file {source}.", "Check the path; a folder of parts works too."
            )
    if not found:
        raise DumpNotFoundError(f"No {what} file was given.", "Name at least one file.")
    return found


def nothing_read(what: str, sources: Sequence[Path], report: Report) -> DumpMalformedError:
    """Return the error for a load in which no line has the dump's form."""
    names = ", ".join(display_name(source) for source in sources[:3]) + (
        " …" if len(sources) > 3 else ""
    )
    if not report.lines:
        return DumpMalformedError(f"{names} is empty.", f"Give a file that holds {what}.")
    common = report.reasons.most_common(1)
    why = f" (mostly: {common[0][0]})" if common else ""
    return DumpMalformedError(
        f"None of the {report.lines:,} lines of {names} has the form of {what}{why}.",
        "Check that the loader fits the file.",
    )
