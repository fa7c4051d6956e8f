"""A constraint over the arrays of one or several stored tries, with what each path grounds to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import EmptyLanguageError
from kgqa.paths.walk import PathTable, empty_paths, joined_tables, ordered, ranges
from kgqa.trie.arrays import build_trie, in_order, joined
from kgqa.trie.build import JoinedSequences, all_joined
from kgqa.trie.constraint import Expansion
from kgqa.trie.order import ordered_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.trie.arrays import Ordered, Sequences, TokenTrie


class StoredConstraint:
    """The union of the languages of some path tables, each path with its token sequence."""

    def __init__(self, trie: TokenTrie, table: PathTable, offsets: IntArray) -> None:
        self._trie = trie
        self._table = table  # grouped by leaf
        self._offsets = offsets  # where each leaf's paths start in the table

    def start(self) -> int:
        """Return the root."""
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        nodes = np.asarray(states, np.int64)
        starts = self._trie.first_child[nodes]
        counts = self._trie.first_child[nodes + 1] - starts
        below = ranges(starts, counts)
        return Expansion(np.repeat(np.arange(len(nodes)), counts), self._trie.token[below], below)

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` are leaves."""
        ends: BoolArray = self._trie.leaf[np.asarray(states, np.int64)] >= 0
        return ends

    def ground(self, state: int) -> PathTable:
        """Return every id path behind the leaf ``state``."""
        leaf = int(self._trie.leaf[state])
        if leaf < 0:
            return empty_paths(self._table.hops.shape[1])
        return ordered(self._table.take(np.arange(self._offsets[leaf], self._offsets[leaf + 1])))

    @property
    def paths(self) -> int:
        """The number of id paths."""
        return len(self._table)

    @property
    def trie(self) -> TokenTrie:
        """The arrays behind the constraint."""
        return self._trie


def stored_constraint(
    parts: Sequence[tuple[JoinedSequences | Sequences, PathTable]],
) -> StoredConstraint:
    """Return the constraint that accepts every sequence of ``parts``, each beside its id path.

    Raises EmptyLanguageError where no part has a path.
    """
    parts = [part for part in parts if len(part[1])]
    if not parts:
        raise EmptyLanguageError(
            "The topic entities have no path, so there is nothing the model may write.",
            "Choose another entity (--entity), or look at this one with: kgqa paths ENTITY",
        )
    table = joined_tables([table for _, table in parts])
    language = _in_order([sequences for sequences, _ in parts])
    order = np.argsort(language.number, kind="stable")
    counts = np.bincount(language.number)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return StoredConstraint(build_trie(language), table.take(order), offsets)


def _in_order(several: Sequence[JoinedSequences | Sequences]) -> Ordered:
    by_parts = [one for one in several if isinstance(one, JoinedSequences)]
    if len(by_parts) == len(several):
        return ordered_paths(all_joined(by_parts))
    return in_order(
        joined([one.joined() if isinstance(one, JoinedSequences) else one for one in several])
    )
