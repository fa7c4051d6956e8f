"""The wordings of ``english.toml`` as a trie of words, and longest matches in a question."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kgqa.lexicon.english import english, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.lexicon.tokens import Token

NUMBER, OWN, ANY = "#", "*", "~"


@dataclass(frozen=True, slots=True)
class Entry:
    """A set of equivalent wordings: the canonical one (``says``), its kind, sign and dimension.

    ``before``, ``after``, ``first`` and ``last`` restrict the positions in which they apply.
    """

    kind: str
    says: str
    sign: int = 0
    dimension: str = ""
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    first: bool = False
    last: bool = False


CONTRACTED = Entry("negation", f"{OWN} not")
"""What a verb with "n't" says."""


@dataclass(slots=True)
class _Node:
    """A trie node: children by word, and the entries with a wording that ends here."""

    next: dict[str, _Node] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that has the tokens from ``start`` to ``end`` (excluded) as a wording.

    ``held``: token indices of the number or the graph's word in the wording, by their sign.
    """

    entry: Entry
    start: int
    end: int
    held: dict[str, int]


@lru_cache(maxsize=1)
def entries() -> dict[Entry, list[str]]:
    """Return the alternative wordings of each entry, in the order of the file."""
    found: dict[Entry, list[str]] = {}
    for row in english()["entry"]:
        given: dict[str, Any] = dict(row)
        lines = [line.strip() for line in given.pop("words", "").strip().splitlines()]
        for name in ("before", "after"):
            given[name] = frozenset(given.get(name, ()))
        found.setdefault(Entry(**given), []).extend(lines)
    return found


@lru_cache(maxsize=2)
def _trie(said: bool) -> _Node:
    """Return the trie of wordings; ``said``: the canonical ones included."""
    root = _Node()
    for entry, wordings in entries().items():
        for wording in [entry.says, *wordings] if said and entry.says else wordings:
            node = root
            for word in wording.split():
                node = node.next.setdefault(word, _Node())
            node.entries.append(entry)
    return root


def longest(
    question: Sequence[Token],
    at: int,
    own: Callable[[str], bool] = bool,
    joined: Callable[[int], object] = lambda _: True,
    *,
    said: bool = False,
) -> Match | None:
    """Return the longest match that begins at the token number ``at``, None if there is none.

    ``own``: whether a word is one of the graph's; ``joined``: whether only a space or a hyphen
    separates a token from the one before; ``said``: canonical wordings match, too. A token that is
    part of a name matches nothing.
    """
    best: Match | None = None
    paths: list[tuple[_Node, int, dict[str, int]]] = [(_trie(said), at, {})]
    while paths:
        node, place, held = paths.pop()
        if node.entries and (best is None or place > best.end):
            fits = (entry for entry in node.entries if _fits(entry, question, at, place))
            entry = next(fits, None)
            best = Match(entry, at, place, held) if entry is not None else best
        if place == len(question) or (place > at and not joined(place)):
            continue
        token = question[place]
        if token.name:
            continue
        if following := node.next.get(token.word):
            paths.append((following, place + 1, held))
        word = not token.number
        kinds = ((NUMBER, token.number), (OWN, word and own(token.word)), (ANY, word))
        for sign, holds in kinds:
            if holds and (following := node.next.get(sign)):
                paths.append((following, place + 1, {**held, sign: place}))
    return best


def _fits(entry: Entry, question: Sequence[Token], start: int, end: int) -> bool:
    """Return whether an entry applies at its position in the question, ``start`` to ``end``."""
    before = question[start - 1].word if start else ""
    following = question[end] if end < len(question) else None
    if (entry.first and start) or (entry.last and (following is not None or not start)):
        return False
    if entry.after and before not in entry.after:
        return False
    return not entry.before or (following is not None and bool(entry.before & kinds_of(following)))


def kinds_of(token: Token) -> set[str]:
    """Return the kinds of a token, as ``before`` names them."""
    if token.number:
        return {"number"}
    kinds = {"name"} if token.name else {"word"}
    if token.word in words("verbs"):
        kinds.add("verb")
    if token.word.endswith("ing"):
        kinds.add("gerund")
    return kinds
