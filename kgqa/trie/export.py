"""A token trie in readable form: its sequences as text lines, and statistics of its branching."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kgqa.trie.arrays import TokenTrie
    from kgqa.trie.lexicon import TokenEncoder

_STRUCTURE = {"|": "\\|", "{": "\\{", "}": "\\}"}  # what a line means something by


@dataclass(frozen=True, slots=True)
class TrieLevel:
    """The nodes at one depth: their number, how many have children, and the number of children."""

    depth: int
    nodes: int
    inner: int
    children: int
    most: int  # children of one node


@dataclass(frozen=True, slots=True)
class Branching:
    """Statistics of a trie: its levels, the mean number of children, the share of single ones."""

    levels: tuple[TrieLevel, ...]
    mean: float
    one_child_share: float


def branching(trie: TokenTrie) -> Branching:
    """Count the nodes and children of ``trie`` by depth, the root at depth 0."""
    counts = np.diff(trie.first_child)
    levels = []
    for depth, (start, stop) in enumerate(_levels(trie)):
        here = counts[start:stop]
        inner = int((here > 0).sum())
        levels.append(TrieLevel(depth, stop - start, inner, int(here.sum()), int(here.max())))
    inner = int((counts > 0).sum())
    return Branching(
        tuple(levels),
        float(counts.sum() / inner) if inner else 0.0,
        float((counts == 1).sum() / inner) if inner else 0.0,
    )


def sequence_tokens(trie: TokenTrie) -> int:
    """Return the total number of tokens of the sequences of ``trie``, as in a plain list."""
    return sum(
        depth * int((trie.leaf[start:stop] >= 0).sum())
        for depth, (start, stop) in enumerate(_levels(trie))
    )


def _levels(trie: TokenTrie) -> Iterator[tuple[int, int]]:
    """Yield the first node of each level and the one after its last."""
    start, stop = 0, 1
    while start < stop:
        yield start, stop
        start, stop = stop, int(trie.first_child[stop])


def text_lines(trie: TokenTrie, encoder: TokenEncoder, limit: int) -> list[str]:
    """Return the first ``limit`` sequences in token order, one a line.

    ``|`` stands between tokens, ``{5}`` where any of five may follow; both are escaped in tokens.
    """
    show = _display_of(encoder)
    counts = np.diff(trie.first_child).tolist()
    lines = []
    for nodes in _sequences(trie, limit):
        parts = [_mark(counts[0])] if counts[0] > 1 else []
        parts += [show(int(trie.token[at])) + _mark(counts[at]) for at in nodes]
        lines.append("|".join(parts))
    return lines


def _mark(children: int) -> str:
    """Return ``{n}`` for a node with n > 1 children, otherwise an empty string."""
    return f"{{{children}}}" if children > 1 else ""


def _sequences(trie: TokenTrie, limit: int) -> Iterator[list[int]]:
    """Yield the first ``limit`` sequences in token order as lists of nodes from the root."""
    above = np.repeat(np.arange(trie.nodes), np.diff(trie.first_child))
    parent = np.concatenate([np.full(1, -1, np.int64), above])
    ends = np.flatnonzero(trie.leaf >= 0)
    for end in ends[np.argsort(trie.leaf[ends], kind="stable")][:limit].tolist():
        nodes = []
        while end > 0:
            nodes.append(end)
            end = int(parent[end])
        yield nodes[::-1]


def token_text(encoder: TokenEncoder, token: int) -> str:
    """Return the text of a token as it is within a text, with its leading space if it has one.

    Some decoders drop that space at the front of a text.
    """
    alone, twice = encoder.decode([token]), encoder.decode([token, token])
    return twice[len(alone) :] if twice.startswith(alone) else alone


def _display_of(encoder: TokenEncoder) -> Callable[[int], str]:
    """Return a function from a token id to its text with separators and controls escaped."""

    @cache
    def show(token: int) -> str:
        """Return the escaped text of ``token``."""
        return _visible(token_text(encoder, token))

    return show


def _visible(text: str) -> str:
    """Escape separators of the export and unprintable characters in ``text``."""
    return "".join(
        _STRUCTURE.get(letter)
        or (
            letter
            if letter.isprintable() and letter != "\\"
            else letter.encode("unicode_escape").decode()
        )
        for letter in text
    )
