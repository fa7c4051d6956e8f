"""The token order of joined sequences from the order of their parts.

Thousands of paths share a few hundred parts, so the parts are put in token order once and paths are
sorted by the ranks of their parts. That is the order of the tokens themselves where no part begins
another one: which holds as soon as each part is looked at together with the token after it, except
for names that contain the separator. Such cases are noticed, and the whole sequences are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import ranges
from kgqa.trie.arrays import Ordered, Sequences, in_order

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.trie.build import JoinedSequences

_BITS = 21  # of a token in a word of three
_WORD = 3
_ROUNDS = 3  # words that are looked at one by one before the rest of what is still alike
_AT_ONCE = 1 << 20  # words of a table


def ordered_paths(all_of: JoinedSequences) -> Ordered:
    """Return the distinct sequences in token order."""
    return _by_parts(all_of) or in_order(all_of.joined())


def _by_parts(all_of: JoinedSequences) -> Ordered | None:
    """Return the order by the ranks of parts, None where it need not be that of the tokens."""
    keys = _keys(all_of)
    if keys is None:
        return None
    number, texts = keys
    words = _Words(texts)
    rank, by_rank = words.ranks()
    common = words.common(by_rank[:-1], by_rank[1:])
    if (common == words.lengths[by_rank[:-1]]).any():  # one begins the next
        return None
    ranks = np.where(number >= 0, rank[number], -1)
    code, order = _sorted_rows(ranks)
    new = np.ones(len(order), bool)
    new[1:] = code[1:] != code[:-1]
    first = order[new]
    position = np.empty(len(order), np.int64)
    position[order] = np.cumsum(new) - 1
    slot, alike = _first_difference(ranks[first], common)
    return _without_shared(all_of.number[first, :], all_of.parts, slot, alike, position)


def _keys(all_of: JoinedSequences) -> tuple[IntArray, Sequences] | None:
    """Return each part beside the token after it, where a path has it: numbers and texts.

    The numbers have shape ``[paths, 2 * hops + 1]``, -1 beyond a path's end; relations stand alone,
    for what follows one differs and what one ends with (the link) does not occur within another.
    """
    number, parts = all_of.number, all_of.parts
    lengths = np.diff(parts.offsets)
    if not len(all_of) or not lengths.all() or parts.tokens.max() >= (1 << _BITS) - 1:
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
    used = np.flatnonzero(met)
    dense = np.cumsum(met) - 1
    kind, part = np.divmod(used, count)
    own = parts.take(part)
    grown = np.diff(own.offsets) + (kind < 2)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(grown)])
    tokens = np.empty(offsets[-1], np.int64)
    tokens[ranges(offsets[:-1], np.diff(own.offsets))] = own.tokens
    tokens[offsets[1:][kind < 2] - 1] = np.where(kind == 0, link, closing)[kind < 2]
    return np.where(keys >= 0, dense[keys], -1), Sequences(tokens, offsets)


class _Words:
    """Token sequences as words of three tokens, which compare as numbers; 0 beyond the end."""

    def __init__(self, texts: Sequences) -> None:
        self.lengths = np.diff(texts.offsets)
        self._counts = -(-self.lengths // _WORD)
        self._starts = np.cumsum(self._counts) - self._counts
        padded = np.zeros(int(self._counts.sum()) * _WORD, np.int64)
        padded[ranges(self._starts * _WORD, self.lengths)] = texts.tokens + 1
        high, middle, low = padded.reshape(-1, _WORD).T
        self._words = high << 2 * _BITS | middle << _BITS | low

    def _word(self, rows: IntArray, at: int) -> IntArray:
        inside = at < self._counts[rows]
        return np.where(inside, self._words[np.where(inside, self._starts[rows] + at, 0)], 0)

    def _rest(self, rows: IntArray, at: int) -> IntArray:
        """Return all words from ``at`` on. Shape ``[len(rows), longest]``, at least one wide."""
        counts = np.maximum(self._counts[rows] - at, 0)
        wide = np.zeros((len(rows), int(counts.max(initial=1))), np.int64)
        places = ranges(np.zeros(len(rows), np.int64), counts)
        wide[np.repeat(np.arange(len(rows)), counts), places] = self._words[
            ranges(self._starts[rows] + at, counts)
        ]
        return wide

    def ranks(self) -> tuple[IntArray, IntArray]:
        """Return the rank of each sequence (equal ones have the same), and a row of each rank."""
        rank = np.zeros(len(self.lengths), np.int64)
        tied = np.arange(len(rank))
        at = 0
        while len(tied):
            at_once = at >= _ROUNDS and len(tied) * int(self._counts[tied].max() - at) <= _AT_ONCE
            if at_once:
                rows = np.column_stack((rank[tied], self._rest(tied, at))).astype(">i8")
                _, words = np.unique(
                    rows.view(f"V{8 * rows.shape[1]}").ravel(), return_inverse=True
                )
            else:
                words = self._word(tied, at)
            order = np.lexsort((words, rank[tied])) if at else np.argsort(words, kind="stable")
            tied, words = tied[order], words[order]
            old = rank[tied]
            new_tie = np.ones(len(tied), bool)
            new_tie[1:] = old[1:] != old[:-1]
            new = new_tie.copy()
            new[1:] |= words[1:] != words[:-1]
            # the rows of a tie take the places from its rank on; those still equal share the first
            places = np.arange(len(tied))
            start = np.maximum.accumulate(np.where(new_tie, places, 0))
            rank[tied] = old + np.maximum.accumulate(np.where(new, places, 0)) - start
            if at_once:
                break
            group = np.cumsum(new) - 1
            at += 1
            longer = np.bincount(group, at < self._counts[tied]) > 0
            tied = tied[(longer & (np.bincount(group) > 1))[group]]
        met = np.full(len(rank), -1, np.int64)
        met[rank] = np.arange(len(rank))
        return np.cumsum(met >= 0)[rank] - 1, met[met >= 0]

    def common(self, one: IntArray, other: IntArray) -> IntArray:
        """Return how many first tokens each of ``one`` has in common with that of ``other``."""
        found = np.zeros(len(one), np.int64)
        left = np.arange(len(one))
        at = 0
        while len(left):
            shorter = np.minimum(self._counts[one[left]], self._counts[other[left]])
            if at >= _ROUNDS and len(left) * int(shorter.max() - at) <= _AT_ONCE:
                mine, theirs = self._rest(one[left], at), self._rest(other[left], at)
                width = min(mine.shape[1], theirs.shape[1])
                differs = mine[:, :width] ^ theirs[:, :width]
                place = (differs != 0).argmax(axis=1)
                differs = differs[np.arange(len(left)), place]
                # where all words are the same the shorter one has ended, and its length is cut to
                found[left] += _WORD * np.where(differs == 0, shorter - at, place)
                found[left] += _tokens_alike(differs)
                break
            differs = self._word(one[left], at) ^ self._word(other[left], at)
            found[left] += _tokens_alike(differs)
            at += 1
            left = left[(differs == 0) & (at < shorter)]
        return np.minimum(found, np.minimum(self.lengths[one], self.lengths[other]))


def _tokens_alike(differs: IntArray) -> IntArray:
    """Return how many first tokens of two words are the same, given their exclusive or."""
    bounds = np.array([1, 1 << _BITS, 1 << 2 * _BITS])
    return _WORD - np.searchsorted(bounds, differs, side="right")


class _Minima:
    """The least of any run of an array, from a table of those of all runs of 1, 2, 4, … values."""

    def __init__(self, values: IntArray) -> None:
        self._of = [values]
        while 2 << len(self._of) - 1 <= len(values):
            last, half = self._of[-1], 1 << len(self._of) - 1
            self._of.append(np.minimum(last[:-half], last[half:]))
        width = max(len(values), 1)
        self._table = np.zeros((len(self._of), width), np.int64)
        for level, row in enumerate(self._of):
            self._table[level, : len(row)] = row

    def between(self, start: IntArray, stop: IntArray) -> IntArray:
        """Return the least of ``values[start:stop]`` for each pair; each run has one value."""
        level = np.frexp((stop - start).astype(np.float64))[1] - 1
        least: IntArray = np.minimum(
            self._table[level, start], self._table[level, stop - (1 << level)]
        )
        return least


def _sorted_rows(ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Return codes that order the rows as their columns do, sorted, and the rows in that order."""
    code = np.zeros(len(ranks), np.int64)
    room = 1
    for column in ranks.T:
        met = np.zeros(int(column.max()) + 2, bool)
        met[column + 1] = True
        dense = (np.cumsum(met) - 1)[column + 1]
        values = int(met.sum())
        if room * values >= 1 << 62:
            _, code = np.unique(code, return_inverse=True)
            room = int(code.max()) + 1
        code = code * values + dense
        room *= values
    order = np.argsort(code, kind="stable")
    return code[order], order


def _first_difference(ranks: IntArray, common: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each row the first column in which it differs from the row above it, and how many
    first tokens the two parts there have in common; nothing for the first row.

    ``common``: how many each rank shares with the next one.
    """  # noqa: D205
    slot, alike = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    slot[1:] = (ranks[1:] != ranks[:-1]).argmax(axis=1)
    rows = np.arange(len(ranks) - 1)
    above, below = ranks[:-1][rows, slot[1:]], ranks[1:][rows, slot[1:]]
    alike[1:] = _Minima(common).between(above, below)
    return slot, alike


def _without_shared(
    number: IntArray, parts: Sequences, slot: IntArray, alike: IntArray, position: IntArray
) -> Ordered:
    """Return sorted sequences of ``parts``, what each shares with the one above left out."""
    columns = np.arange(number.shape[1])
    used = number >= 0
    lengths = np.where(used, np.diff(parts.offsets)[number], 0)
    starts = parts.offsets[number]
    rows = np.arange(len(number))
    own = np.where(columns < slot[:, None], 0, lengths)
    own[rows, slot] -= alike
    starts[rows, slot] += alike
    total, of_own = lengths.sum(axis=1), own.sum(axis=1)
    tokens = parts.tokens[ranges(starts.reshape(-1), own.reshape(-1))]
    return Ordered(total, total - of_own, tokens, position)
