"""Splits names of tables and columns written as one word: ``orderdetails``, ``hiredate``."""

from __future__ import annotations

from functools import lru_cache

from kgqa.lexicon.lemmas import stem
from kgqa.lexicon.tables import tables_of

_SHORTEST = 6  # letters of a name that is split
_LONGEST = 64  # letters of one; the time grows with their square, and cells are looked at, too
_MOST = 4  # words of one
_LONG = 4  # letters of any word that one of ``last`` follows


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    """Return the word lists of ``joined.toml``."""
    return {name: frozenset(words.split()) for name, words in tables_of("joined.toml").items()}


@lru_cache(65_536)
def split_joined(word: str) -> tuple[str, ...]:
    """Return the words that a lower-case word is joined from; itself if it is a single one.

    It is split into the fewest words of the table ``joined.toml``, all of which must be there;
    otherwise a usual last word of names is split off.

    >>> split_joined("orderdetails"), split_joined("quantityperunit"), split_joined("teamid")
    (('order', 'details'), ('quantity', 'per', 'unit'), ('team', 'id'))
    >>> split_joined("island"), split_joined("season"), split_joined("zyxwv")
    (('island',), ('season',), ('zyxwv',))
    """
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()):
        return (word,)
    if _is_known(word):
        return (word,)
    for first in _table()["first"]:
        rest = word.removeprefix(first)
        if rest != word and (found := (rest,) if _is_part(rest) else _parts(rest, _MOST - 1)):
            return (first, *found)
    if made := _parts(word, _MOST):
        return made
    for last in sorted(_table()["last"]):
        rest = word.removesuffix(last)
        if rest != word and len(rest) >= _LONG and rest[-1] not in "aiou":
            return (rest, last)
    return (word,)


def _is_known(word: str) -> bool:
    """Return whether a word or its stem is in the table, and so not to be split."""
    known = _table()["parts"], _table()["whole"]
    return any(one in words for one in (word, stem(word)) for words in known)


def _parts(rest: str, most: int) -> tuple[str, ...]:
    """Return the fewest table words, at most ``most``, that a text is joined from.

    () if there are none.
    """
    joints, ends = ("", *sorted(_table()["joints"])), _table()["ends"]
    best: tuple[str, ...] = ()
    for end in range(len(rest) - 2, 2, -1):
        first = rest[:end]
        if not _is_part(first):
            continue
        for joint in joints:
            if not rest.startswith(joint, end):
                continue
            after = rest[end + len(joint) :]
            if _is_part(after) or (after in ends and not joint):
                found: tuple[str, ...] = (after,)
            elif most > 2:
                found = _parts(after, most - 1)
            else:
                continue
            made = (first, *([joint] if joint else []), *found) if found else ()
            if made and (not best or len(made) < len(best)):
                best = made
    return best


def _is_part(word: str) -> bool:
    """Return whether a text may be a part of a joined word."""
    parts = _table()["parts"]
    return len(word) > 2 and (word in parts or stem(word) in parts)
