"""The word tables of ``english.toml``, read once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kgqa.lexicon.tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def english() -> dict[str, Any]:
    """Return the tables of ``english.toml``, by name."""
    return tables_of("english.toml")


def opposites(word: str) -> list[str]:
    """Return the opposites of a flag's word from the table ``opposites``, [] for none.

    >>> opposites("enabled"), opposites("blue")
    (['disabled'], [])
    """
    given: dict[str, str] = english()["opposites"]
    return given.get(word, "").split()


@lru_cache(maxsize=64)
def words(name: str) -> frozenset[str]:
    """Return the words of a list in the table ``words``.

    >>> "seven" in words("numbers")
    True
    """
    return frozenset(english()["words"][name].split())


def says_relation(header: Sequence[str], type_: Sequence[str]) -> bool:
    """Return whether a column of a relationship type, as words, names the relation itself.

    >>> says_relation(["type"], ["link"]), says_relation(["type"], ["has", "address"])
    (True, False)
    """
    if not header or not words("relation_words").issuperset(header):
        return False
    if set(header) & words("relation_headers"):
        return True
    return words("relation_types").issuperset(type_)


def is_part_of_name(header: Sequence[str], part: str) -> bool:
    """Return whether a column header, as words, is for a part of people's names.

    ``part``: "first_name" or "last_name".

    >>> is_part_of_name(["name", "first"], "first_name"), is_part_of_name(["name"], "last_name")
    (True, False)
    """
    said = words(part)
    if "name" in header and said.intersection(header):
        return True
    return bool(header) and bool({header[0], "".join(header)} & said)


def parts_of_name(
    headers: Sequence[Sequence[str]], is_one_word: Callable[[int], bool]
) -> tuple[int, int] | None:
    """Return the indices of the first and last name among headers, None unless both exist.

    ``name`` beside ``surname`` is the first name where ``is_one_word`` says so of the values of the
    header at an index.

    >>> parts_of_name([["surname"], ["name"]], lambda place: True)
    (1, 0)
    """
    first, last = (
        next((at for at, header in enumerate(headers) if is_part_of_name(header, part)), None)
        for part in ("first_name", "last_name")
    )
    if first is None and last is not None:
        names = (at for at, header in enumerate(headers) if list(header) == ["name"])
        first = next(filter(is_one_word, names), None)
    return None if first is None or last is None else (first, last)


def bearer_of_name(header: Sequence[str], part: str) -> list[str]:
    """Return the words of a name column's header that say whose name it is, [] if none do.

    ``part``: "first_name" or "last_name".

    >>> bearer_of_name(["contact", "last", "name"], "last_name")
    ['contact']
    """
    said = words(part)
    return [] if "".join(header) in said else [w for w in header if w not in said and w != "name"]
