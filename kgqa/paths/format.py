"""A path as text, ``head -> relation -> tail -> …``: made from a path, and never parsed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class PathFormat:
    """How a path is written; ``start`` and ``end`` are single tokens of the tokenizer, or empty."""

    separator: str = " -> "
    inverse: str = "^"
    joiner: str = ".."
    start: str = ""
    end: str = ""

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide the text of a path."""
        content = json.dumps({"version": FORMAT_VERSION, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def link(self) -> str:
        """The separator without the space that belongs to the next part."""
        return self.separator.removesuffix(" ")

    @property
    def gap(self) -> str:
        """The space that stands before a name or a relation inside a path."""
        return " " if self.separator.endswith(" ") else ""

    @property
    def lead(self) -> str:
        """The text before the first name: empty after a start marker, otherwise the gap."""
        return "" if self.start else self.gap

    def relation(self, first: int, second: int, names: Sequence[str]) -> str:
        """Return the text of one hop's relation; each half walked backward gets the inverse mark.

        ``first``, ``second``: steps (2 * relation, + 1 reversed), ``second`` out of a collapsed
        mediator or -1. ``names``: of relations by key. If both are equal, one is written: a fact
        that has properties reads as one that has none.
        """
        text = self._step(first, names)
        return text if second in (-1, first) else f"{text}{self.joiner}{self._step(second, names)}"

    def _step(self, step: int, names: Sequence[str]) -> str:
        """Return the relation name of a step (2 * relation, + 1 reversed), marked if reversed."""
        relation, against = divmod(step, 2)
        return f"{self.inverse if against else ''}{names[relation]}"

    def path(self, head: str, hops: Sequence[tuple[str, str]]) -> str:
        """Return the text of a path from the name of its head and its (relation, tail) texts.

        >>> PathFormat().path("Bob Marley", [("people.person.place_of_birth", "Nine Mile")])
        'Bob Marley -> people.person.place_of_birth -> Nine Mile'
        """
        return self.separator.join([head, *(part for hop in hops for part in hop)])
