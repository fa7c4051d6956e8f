"""Lists that are data: which names a load leaves out, by the longest prefix that fits."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError, DumpNotFoundError

if TYPE_CHECKING:
    from pathlib import Path


def data_lines(name: str | Path) -> list[str]:
    """Return the lines of a bundled list (``name`` a str) or of a file, without comments.

    Raises DumpNotFoundError if the file cannot be read.
    """
    try:
        if isinstance(name, str):
            text = files("kgqa.loaders").joinpath(name).read_text(encoding="utf-8")
        else:
            text = name.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DumpMalformedError(f"{name} is not UTF-8 text.", "Give a text file.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{name} cannot be read: {error.strerror}.") from None
    return [line.strip() for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]


class Filters:
    """Entries ``- prefix`` (left out) and ``+ prefix`` (kept); dots bound a prefix.

    The longest prefix that fits decides; without one a name is kept.

    >>> filters = Filters(["- base", "+ base.locations"])
    >>> [filters.keeps(name) for name in ("base.x.y", "base.locations.z", "baseball.player")]
    [False, True, True]
    """

    def __init__(self, entries: list[str]) -> None:
        self._keeps: dict[str, bool] = {}
        for entry in entries:
            sign, _, prefix = entry.partition(" ")
            if sign not in ("+", "-") or not prefix.strip():
                raise DumpMalformedError(
                    f"The filter entry {entry!r} is malformed.", "Write “- prefix” or “+ prefix”."
                )
            self._keeps[prefix.strip()] = sign == "+"

    def keeps(self, name: str) -> bool:
        """Return whether ``name`` is loaded."""
        while name:
            if (keep := self._keeps.get(name)) is not None:
                return keep
            name = name.rpartition(".")[0]
        return True
