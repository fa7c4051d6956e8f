"""A token trie for a person: lines, a Graphviz drawing, its branching; what is cut is counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kgqa.graph.model import IntArray
    from kgqa.trie.arrays import TokenTrie
    from kgqa.trie.tokens import TokenEncoder

_STRUCTURE = {"|": "\\|", "{": "\\{", "}": "\\}"}  # what a line or a node means something by
# Graphviz reads backslash escapes and HTML entities inside a quoted label
_IN_DOT = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})


@dataclass(frozen=True, slots=True)
class TrieLevel:
    """The nodes at one depth: how many, how many of them go on, to how many nodes in all."""

    depth: int
    nodes: int
    inner: int
    children: int
    most: int  # children of one node


@dataclass(frozen=True, slots=True)
class Branching:
    """How a trie branches: ``mean`` children of nodes with any, the share of those with one."""

    levels: tuple[TrieLevel, ...]
    mean: float
    one_child_share: float


def branching(trie: TokenTrie) -> Branching:
    """Return how ``trie`` branches, the root at depth 0."""
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
    """Return the number of tokens of all sequences of ``trie`` together: what a list would hold."""
    return sum(
        depth * int((trie.leaf[start:stop] >= 0).sum())
        for depth, (start, stop) in enumerate(_levels(trie))
    )


def _levels(trie: TokenTrie) -> Iterator[tuple[int, int]]:
    start, stop = 0, 1
    while start < stop:
        yield start, stop
        start, stop = stop, int(trie.first_child[stop])


def text_lines(trie: TokenTrie, encoder: TokenEncoder, limit: int) -> list[str]:
    """Return the first ``limit`` sequences in token order, one a line.

    ``|`` stands between tokens, ``{5}`` where any of five may follow; both are escaped in tokens.
    """
    show = _shower(encoder)
    counts = np.diff(trie.first_child).tolist()
    lines = []
    for nodes in _sequences(trie, limit):
        parts = [_mark(counts[0])] if counts[0] > 1 else []
        parts += [show(int(trie.token[at])) + _mark(counts[at]) for at in nodes]
        lines.append("|".join(parts))
    return lines


def _mark(children: int) -> str:
    return f"{{{children}}}" if children > 1 else ""


def dot(trie: TokenTrie, encoder: TokenEncoder, limit: int, title: str = "") -> str:
    """Return a Graphviz drawing of the first ``limit`` sequences; what is left out is counted."""
    show = _shower(encoder)
    counts = np.diff(trie.first_child)
    parent = _parents(trie)
    drawn = np.zeros(trie.nodes, bool)
    drawn[0] = True
    for nodes in _sequences(trie, limit):
        drawn[nodes] = True
    total = int((trie.leaf >= 0).sum())
    left_out = total - int((trie.leaf[drawn] >= 0).sum())
    label = f"{title}: " if title else ""
    label += f"{total:,} token sequences" + (f", {left_out:,} left out" if left_out else "")
    lines = [
        "digraph trie {",
        f'  label="{_visible(label, {}).translate(_IN_DOT)}";',
        '  rankdir=LR; node [shape=box, fontname="monospace"];',
        '  n0 [label="", shape=point];',
    ]
    # a node opens a box where its parent branches or ends a sequence; others go on with it
    opens = np.zeros(trie.nodes, bool)
    opens[1:] = (counts[parent[1:]] > 1) | (trie.leaf[parent[1:]] >= 0) | (parent[1:] == 0)
    inner_drawn = np.bincount(parent[1:][drawn[1:]], minlength=trie.nodes)
    for first in [0, *np.flatnonzero(drawn & opens).tolist()]:
        last = first
        if first:
            run = [show(int(trie.token[first]))]
            while counts[last] == 1 and trie.leaf[last] < 0:
                last = int(trie.first_child[last])
                run.append(show(int(trie.token[last])))
            end = ", peripheries=2" if trie.leaf[last] >= 0 else ""
            lines.append(f'  n{last} [label="{"|".join(run).translate(_IN_DOT)}"{end}];')
            lines.append(f"  n{parent[first]} -> n{last};")
        if missing := int(counts[last] - inner_drawn[last]):
            lines.append(f'  more{last} [label="{missing:,} more", style=dashed];')
            lines.append(f"  n{last} -> more{last} [style=dashed];")
    return "\n".join([*lines, "}", ""])


def _parents(trie: TokenTrie) -> IntArray:
    above = np.repeat(np.arange(trie.nodes), np.diff(trie.first_child))
    parents: IntArray = np.concatenate([np.full(1, -1, np.int64), above])
    return parents


def _sequences(trie: TokenTrie, limit: int) -> Iterator[list[int]]:
    parent = _parents(trie)
    ends = np.flatnonzero(trie.leaf >= 0)
    for end in ends[np.argsort(trie.leaf[ends], kind="stable")][:limit].tolist():
        nodes = []
        while end > 0:
            nodes.append(end)
            end = int(parent[end])
        yield nodes[::-1]


def token_text(encoder: TokenEncoder, token: int) -> str:
    """Return the text of a token inside a text; at its front some decoders drop a space."""
    alone, twice = encoder.decode([token]), encoder.decode([token, token])
    return twice[len(alone) :] if twice.startswith(alone) else alone


def _shower(encoder: TokenEncoder) -> Callable[[int], str]:
    @cache
    def show(token: int) -> str:
        return _visible(token_text(encoder, token), _STRUCTURE)

    return show


def _visible(text: str, escapes: dict[str, str]) -> str:
    return "".join(
        escapes.get(letter)
        or (
            letter
            if letter.isprintable() and letter != "\\"
            else letter.encode("unicode_escape").decode()
        )
        for letter in text
    )
