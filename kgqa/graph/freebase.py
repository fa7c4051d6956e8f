"""What is known of Freebase, as a dump and behind an endpoint: what is left out, what mediates."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kgqa.errors import DumpMalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

FILTERS = "freebase_filters.txt"
MEDIATOR_TYPES = "mediator_types.txt"


@cache
def bundled(name: str) -> tuple[str, ...]:
    """Return the lines of a file of this package, without comments and empty lines."""
    lines = files("kgqa.graph").joinpath(name).read_text(encoding="utf-8").split("\n")
    return tuple(line.strip() for line in lines if line.strip() and line[0] != "#")


class Filters:
    """Include (``+ prefix``) and exclude (``- prefix``) rules for dotted names.

    The longest matching prefix decides, at the bounds of dots; without a match a name is kept.

    >>> filters = Filters(["- base", "+ base.locations"])
    >>> [filters.keeps(name) for name in ("base.x.y", "base.locations.z", "baseball.player")]
    [False, True, True]
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._keeps: dict[str, bool] = {}
        for entry in entries:
            sign, _, prefix = entry.partition(" ")
            if sign not in ("+", "-") or not prefix.strip():
                raise DumpMalformedError(
                    f"The filter entry {entry!r} is malformed.", "Write “- prefix” or “+ prefix”."
                )
            self._keeps[prefix.strip()] = sign == "+"

    def keeps(self, name: str) -> bool:
        """Return whether ``name`` is kept: by its own rule, else its longest prefix's, else yes."""
        while name:
            if (keep := self._keeps.get(name)) is not None:
                return keep
            name = name.rpartition(".")[0]
        return True
