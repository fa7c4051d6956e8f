"""Meanings of codes used as names: ``CO`` for a state is Colorado."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.lexicon.tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOSTLY = 0.9  # of the names, which must be codes of one kind, or they are something else


def codes_of(kind: str) -> Mapping[str, str]:
    """Return the codes of a kind of entity, such as "state", with their meanings; {} if unknown."""
    codes: Mapping[str, str] = tables_of("codes.toml").get(kind, {})
    return codes


def said_of_codes(codes: Mapping[str, str], names: Sequence[str]) -> list[str | None]:
    """Return the meaning of each name that is a code of ``codes``, None for others.

    All are None unless most names are codes.

    >>> states = codes_of("state")
    >>> said_of_codes(states, ["TX", " CO"]), said_of_codes(states, ["open", "OK", "new"])
    (['Texas', 'Colorado'], [None, None, None])
    """
    said = [codes.get(name.strip()) for name in names]
    found = len(said) - said.count(None)
    return said if found >= max(2, _MOSTLY * len(said)) else [None] * len(said)
