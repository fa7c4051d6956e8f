"""From id paths to token sequences, and the constraint over the tries of path tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    PathTable,
    empty_paths,
    joined_tables,
    ordered,
    ranges,
)
from kgqa.trie.arrays import (
    Groups,
    Sequences,
    TokenTrie,
    build_trie,
    dense,
    in_order,
    joined,
    offsets_of,
    sequences,
)
from kgqa.trie.constraint import Expansion, nothing_to_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class JoinedSequences:
    """The token sequences of paths, each a list of shared parts: head, relation, tail, …, closing.

    ``number`` ``[paths, 2 * hops + 2]``: the parts of each path in order, -1 beyond its end, the
    closing token in the last column.
    """

    number: IntArray
    parts: Sequences

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, path: int) -> list[int]:
        number = self.number[path]
        ids: list[int] = self.parts.take(number[number >= 0]).tokens.tolist()
        return ids

    def joined(self) -> Sequences:
        """Concatenate the parts of each path and return whole sequences."""
        used = self.number >= 0
        lengths = np.where(used, self.parts.lengths[self.number], 0).sum(axis=1)
        return Sequences(self.parts.take(self.number[used]).tokens, offsets_of(lengths))


def distinct_pairs(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct pairs ``(first[i], second[i])``, sorted ``[n, 2]``, and their indices.

    The second array has the index of each input row's pair.
    """
    wide = int(second.max(initial=-1)) + 2
    pairs, number = dense(first * wide + second + 1)
    return np.stack([pairs // wide, pairs % wide - 1], axis=1), number


def path_tokens(store: GraphStore, table: PathTable, lexicon: PathLexicon) -> JoinedSequences:
    """Return the token sequence of each path of ``table``, from opening to closing token."""
    there = table.hops[:, :, TAIL] >= 0
    heads, head = dense(table.topic)
    pairs, pair = distinct_pairs(table.hops[:, :, FIRST][there], table.hops[:, :, SECOND][there])
    tails, tail = dense(table.hops[:, :, TAIL][there])
    return of_parts(
        there,
        (lexicon.heads(store, heads), head),
        (lexicon.relations(store, pairs), pair),
        (lexicon.tails(store, tails), tail),
        lexicon.closing,
    )


def of_parts(
    there: BoolArray,
    heads: tuple[Sequences, IntArray],
    relations: tuple[Sequences, IntArray],
    tails: tuple[Sequences, IntArray],
    closing: int,
) -> JoinedSequences:
    """Build the token sequences of paths from heads, relations and tails.

    ``there`` ``[paths, L]`` marks the hops that a path has. Texts come with numbers: ``[paths]``
    for ``heads``, otherwise one for each hop marked.
    """
    paths, hops = there.shape
    number = np.full((paths, 2 * hops + 2), -1, np.int64)
    number[:, 0] = heads[1]
    number[:, 1:-1:2][there] = len(heads[0]) + relations[1]
    number[:, 2:-1:2][there] = len(heads[0]) + len(relations[0]) + tails[1]
    parts = joined([heads[0], relations[0], tails[0], sequences([[closing]])])
    number[:, -1] = len(parts) - 1
    return JoinedSequences(number, parts)


class StoredConstraint:
    """A constraint over the union of path tables, as one trie in memory.

    ``paths_of``: rows of ``table`` by leaf.
    """

    def __init__(self, trie: TokenTrie, table: PathTable, paths_of: Groups) -> None:
        self.trie = trie
        self._table = table
        self._paths_of = paths_of

    def start(self) -> int:
        """Return the root of the trie."""
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        nodes = np.asarray(states, np.int64)
        starts = self.trie.first_child[nodes]
        counts = self.trie.first_child[nodes + 1] - starts
        below = ranges(starts, counts)
        return Expansion(np.repeat(np.arange(len(nodes)), counts), self.trie.token[below], below)

    def moves(self, state: int) -> tuple[list[int], list[int]] | None:
        """Return the tokens and next states of the moves out of ``state``, None for a leaf."""
        trie = self.trie
        if trie.leaf.item(state) >= 0:
            return None
        first, last = trie.first_child.item(state), trie.first_child.item(state + 1)
        if last - first == 1:  # nearly always
            return [trie.token.item(first)], [first]
        return trie.token[first:last].tolist(), list(range(first, last))

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` are leaves."""
        ends: BoolArray = self.trie.leaf[np.asarray(states, np.int64)] >= 0
        return ends

    def ground(self, state: int) -> PathTable:
        """Return every id path behind the leaf ``state``, sorted; none unless it is a leaf."""
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
    """Build the constraint that allows every sequence of ``parts``. Raises EmptyLanguageError."""
    parts = [part for part in parts if len(part[1])]
    if not parts:
        raise nothing_to_write("The topic entities have no path")
    each = [
        sequences_.joined() if isinstance(sequences_, JoinedSequences) else sequences_
        for sequences_, _ in parts
    ]
    language = in_order(joined(each))
    paths_of = Groups(language.number, len(language))
    return StoredConstraint(
        build_trie(language), joined_tables([table for _, table in parts]), paths_of
    )
