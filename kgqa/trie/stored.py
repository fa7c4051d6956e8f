"""From id paths to token sequences, in token order, and the constraint over their stored tries.

Paths are sorted by the ranks of their parts, which is the order of tokens if no part, with the
token after it, begins another one; else (names with the separator) sequences are sorted.
"""

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
    Ordered,
    Sequences,
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
    from kgqa.paths.walk import PathTable
    from kgqa.trie.arrays import TokenTrie
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class JoinedSequences:
    """The sequences of paths as the parts they are joined from: head, relation, tail, …, closing.

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

    def take(self, rows: IntArray) -> JoinedSequences:
        """Return some of the sequences, in the order of ``rows``."""
        return JoinedSequences(self.number[rows], self.parts)

    def joined(self) -> Sequences:
        """Return the sequences, put together."""
        used = self.number >= 0
        lengths = np.where(used, self.parts.lengths[self.number], 0).sum(axis=1)
        return Sequences(self.parts.take(self.number[used]).tokens, offsets_of(lengths))


def distinct_pairs(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct pairs of steps, ascending, shape ``[n, 2]``, and which each row is."""
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
    """Return the sequences of paths; ``there`` ``[paths, L]``: which hops they have.

    Texts come with their numbers: ``[paths]`` of ``heads``, of the others one for each hop.
    """
    paths, hops = there.shape
    number = np.full((paths, 2 * hops + 2), -1, np.int64)
    number[:, 0] = heads[1]
    number[:, 1:-1:2][there] = len(heads[0]) + relations[1]
    number[:, 2:-1:2][there] = len(heads[0]) + len(relations[0]) + tails[1]
    parts = joined([heads[0], relations[0], tails[0], sequences([[closing]])])
    number[:, -1] = len(parts) - 1
    return JoinedSequences(number, parts)


def all_joined(several: Sequence[JoinedSequences]) -> JoinedSequences:
    """Return the sequences of several path tables as one; the tables may differ in hops."""
    if len(several) == 1:
        return several[0]
    width = max(one.number.shape[1] for one in several)
    numbers, before = [], 0
    for one in several:
        number = np.full((len(one), width), -1, np.int64)
        number[:, : one.number.shape[1] - 1] = one.number[:, :-1]
        number[:, -1] = one.number[:, -1]
        number[number >= 0] += before
        numbers.append(number)
        before += len(one.parts)
    return JoinedSequences(np.concatenate(numbers), joined([one.parts for one in several]))


# ── token order ─────────────────────────────────────────────────────────────────────────────────


def ordered_paths(all_of: JoinedSequences) -> Ordered:
    """Return the distinct sequences in token order."""
    return _by_parts(all_of) or in_order(all_of.joined())


def _by_parts(all_of: JoinedSequences) -> Ordered | None:
    """Return the order by the ranks of parts, None if it need not be that of the tokens."""
    found = _with_next_token(all_of)
    if found is None:
        return None
    number, texts = found
    distinct = in_order(texts)
    # then the order of parts is not that of tokens: "New York" before "New" and its next token
    if (distinct.shared[1:] == distinct.lengths[:-1]).any():  # one begins the next
        return None
    ranks = np.where(number >= 0, distinct.number[number], -1)
    code, order = _sorted_rows(ranks)
    new = np.ones(len(order), bool)
    new[1:] = code[1:] != code[:-1]
    position = np.empty(len(order), np.int64)
    position[order] = np.cumsum(new) - 1
    first = order[new]
    # where each row begins to differ from the row above: in which part, after how many tokens
    slot, alike = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    slot[1:] = (ranks[first[1:]] != ranks[first[:-1]]).argmax(axis=1)
    above, below = number[first[:-1], slot[1:]], number[first[1:], slot[1:]]
    alike[1:] = texts.shared_prefix(above, below)
    return _without_shared(all_of.take(first), slot, alike, position)


def _with_next_token(all_of: JoinedSequences) -> tuple[IntArray, Sequences] | None:
    """Return each part beside the token after it, if a path has it so: numbers and texts.

    Numbers: ``[paths, 2 * hops + 1]``, -1 beyond the end. Relations stand alone: their closing link
    does not occur within another. None if the parts are not of that form.
    """
    number, parts = all_of.number, all_of.parts
    lengths = parts.lengths
    if not len(all_of) or not lengths.all():
        return None
    count = len(parts)
    relations = number[:, 1:-1:2]
    firsts = parts.tokens[parts.offsets[:-1]]
    there = relations >= 0
    link, links = firsts[relations[0, 0]], firsts[relations[there]]
    closing, closings = firsts[number[0, -1]], number[:, -1]
    if (links != link).any() or (firsts[closings] != closing).any() or lengths[closings].max() > 1:
        return None
    keys = number[:, :-1].copy()
    # what ends a path stands before the closing token, other names before a link
    keys[np.arange(len(keys)), 2 * there.sum(axis=1)] += count
    keys[:, 1::2][there] += 2 * count
    met = np.zeros(3 * count, bool)
    met[keys[keys >= 0]] = True
    dense = np.cumsum(met) - 1
    kind, part = np.divmod(np.flatnonzero(met), count)
    own = parts.take(part)
    offsets = offsets_of(own.lengths + (kind < 2))
    tokens = np.empty(offsets[-1], np.int64)
    tokens[ranges(offsets[:-1], own.lengths)] = own.tokens
    tokens[offsets[1:][kind < 2] - 1] = np.where(kind == 0, link, closing)[kind < 2]
    return np.where(keys >= 0, dense[keys], -1), Sequences(tokens, offsets)


def _sorted_rows(ranks: IntArray) -> tuple[IntArray, IntArray]:
    code = np.zeros(len(ranks), np.int64)
    room = 1
    for column in ranks.T:
        met = np.zeros(int(column.max()) + 2, bool)
        met[column + 1] = True
        dense = (np.cumsum(met) - 1)[column + 1]
        values = int(met.sum())
        # ranks of many parts in one integer, made dense again before it overflows
        if room * values >= 1 << 62:
            _, code = np.unique(code, return_inverse=True)
            room = int(code.max()) + 1
        code = code * values + dense
        room *= values
    order = np.argsort(code, kind="stable")
    return code[order], order


def _without_shared(
    paths: JoinedSequences, slot: IntArray, alike: IntArray, position: IntArray
) -> Ordered:
    used = paths.number >= 0
    lengths = np.where(used, paths.parts.lengths[paths.number], 0)
    starts = paths.parts.offsets[paths.number]
    rows = np.arange(len(paths))
    own = np.where(np.arange(paths.number.shape[1]) < slot[:, None], 0, lengths)
    own[rows, slot] -= alike
    starts[rows, slot] += alike
    total, of_own = lengths.sum(axis=1), own.sum(axis=1)
    tokens = paths.parts.tokens[ranges(starts.reshape(-1), own.reshape(-1))]
    return Ordered(total, total - of_own, tokens, position)


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
    several = [tokens for tokens, _ in parts]
    by_parts = [one for one in several if isinstance(one, JoinedSequences)]
    if len(by_parts) == len(several):
        language = ordered_paths(all_joined(by_parts))
    else:
        each = [one.joined() if isinstance(one, JoinedSequences) else one for one in several]
        language = in_order(joined(each))
    paths_of = Groups(language.number, len(language))
    return StoredConstraint(
        build_trie(language), joined_tables([table for _, table in parts]), paths_of
    )
