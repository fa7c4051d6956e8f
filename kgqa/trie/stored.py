"""A constraint over the arrays of one or several stored tries, with what each path grounds to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import PathTable, empty_paths, joined_tables, ordered, ranges
from kgqa.trie.arrays import Groups, build_trie, in_order, joined
from kgqa.trie.build import JoinedSequences, all_joined, ordered_paths
from kgqa.trie.constraint import Expansion, nothing_to_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray
    from kgqa.trie.arrays import Ordered, Sequences, TokenTrie


class StoredConstraint:
    """The union of path tables' languages; ``paths_of``: rows of ``table`` by leaf."""

    def __init__(self, trie: TokenTrie, table: PathTable, paths_of: Groups) -> None:
        self.trie = trie
        self._table = table
        self._paths_of = paths_of

    def start(self) -> int:
        """Return the root."""
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        nodes = np.asarray(states, np.int64)
        starts = self.trie.first_child[nodes]
        counts = self.trie.first_child[nodes + 1] - starts
        below = ranges(starts, counts)
        return Expansion(np.repeat(np.arange(len(nodes)), counts), self.trie.token[below], below)

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` are leaves."""
        ends: BoolArray = self.trie.leaf[np.asarray(states, np.int64)] >= 0
        return ends

    def ground(self, state: int) -> PathTable:
        """Return every id path behind the leaf ``state``."""
        leaf = int(self.trie.leaf[state])
        if leaf < 0:
            return empty_paths(self._table.hops.shape[1])
        return ordered(self._table.take(self._paths_of.rows(leaf)))

    @property
    def paths(self) -> int:
        """The number of id paths."""
        return len(self._table)


def stored_constraint(
    parts: Sequence[tuple[JoinedSequences | Sequences, PathTable]],
) -> StoredConstraint:
    """Return the constraint of every sequence in ``parts``. Raises EmptyLanguageError."""
    parts = [part for part in parts if len(part[1])]
    if not parts:
        raise nothing_to_write("The topic entities have no path")
    language = _in_order([sequences for sequences, _ in parts])
    paths_of = Groups(language.number, len(language))
    return StoredConstraint(
        build_trie(language), joined_tables([table for _, table in parts]), paths_of
    )


def _in_order(several: Sequence[JoinedSequences | Sequences]) -> Ordered:
    by_parts = [one for one in several if isinstance(one, JoinedSequences)]
    if len(by_parts) == len(several):
        return ordered_paths(all_joined(by_parts))
    return in_order(
        joined([one.joined() if isinstance(one, JoinedSequences) else one for one in several])
    )
