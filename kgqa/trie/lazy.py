"""Constraints whose states are numbered, and whose paths are read, as the decoder reaches them.

A segment (head, relation, tail, …) is a small trie over the texts of some paths. A state is a set
of positions, since a prefix may stand for several things: shared names, names that begin others or
contain the separator. A language accepts what the arrays of all its paths would, at the cost of
what the decoder asks of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.trie.arrays import Groups, Sequences, TokenTrie, build_trie, in_order
from kgqa.trie.constraint import Expansion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.paths.walk import PathTable

Moves: TypeAlias = "tuple[IntArray, IntArray]"
"""The tokens that may follow, ascending, and the state that each leads to."""


@dataclass(slots=True, eq=False)
class Segment:
    """A trie of the texts that one part (a name or a relation) of a set of paths may have.

    ``level``: the number of segments before it (even: entities, odd: relations). ``rows``: the
    paths, in the form of the class that made the segment. ``groups``: the rows of each leaf's text.
    ``following``: the next segments by leaf. ``begun``: whether the texts are first words of names,
    whose rests follow as segments of the same level.
    """

    level: int
    trie: TokenTrie
    rows: IntArray
    groups: Groups
    following: dict[int, Segment] = field(default_factory=dict)
    begun: bool = False

    def of(self, leaf: int) -> IntArray:
        """Return the rows of the paths whose text in this segment is that of ``leaf``."""
        return self.rows[self.groups.rows(leaf)]


class Segments(ABC):
    """Reads the segments of paths from a graph or an index."""

    closing: int
    """The token that ends a path."""

    @abstractmethod
    def follow(self, ends: Iterable[tuple[Segment, int]]) -> None:
        """Set in ``following`` the next segments of each (segment, leaf), reading all at once."""

    def ended(self, segment: Segment, leaf: int) -> IntArray:
        """Return those rows with the text of ``leaf`` whose paths end there."""
        return segment.of(leaf)


def segment_of(
    level: int, rows: IntArray, texts: Sequences, text_of: IntArray, *, begun: bool = False
) -> Segment:
    """Build the segment of ``rows`` at ``level``, see :class:`Segment`.

    ``texts``: of the segment, in tokens; ``text_of``: each row's index into them.
    """
    distinct = in_order(texts)
    groups = Groups(distinct.number[text_of], len(distinct))
    return Segment(level, build_trie(distinct), rows, groups, begun=begun)


@dataclass(frozen=True, slots=True)
class _Position:
    """A node of a segment's trie, and its leaf or -1."""

    segment: Segment
    node: int
    leaf: int


@dataclass(slots=True)
class _State:
    """A decoding state: its trie positions, its moves once read, and the rows that end in it."""

    positions: list[_Position]
    moves: Moves | None = None
    ended: list[IntArray] = field(default_factory=list)


class LazyConstraint(ABC):
    """A ``Constraint`` that reads paths of up to ``hops`` hops from ``segments`` on demand.

    For one thread.
    """

    def __init__(self, segments: Segments, heads: Iterable[Segment], hops: int) -> None:
        self._segments = segments
        self._last_level = 2 * hops
        self._states = [_State([_position(segment, 0) for segment in heads])]

    @property
    def paths(self) -> int | None:
        """The number of id paths, None if counting would mean building the language."""
        return None

    def start(self) -> int:
        """Return the state before the first token."""
        return 0

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` stand after the closing token."""
        return np.array([bool(self._states[state].ended) for state in states], bool)

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        wanted = [self._states[state] for state in dict.fromkeys(states)]
        if fresh := [state for state in wanted if state.moves is None]:
            self._enter_following(fresh)
            for state in fresh:
                state.moves = self._moves(state)
        moves = [self._states[state].moves or _NO_MOVES for state in states]
        row = np.repeat(np.arange(len(moves)), [len(tokens) for tokens, _ in moves])
        if not len(row):
            return Expansion(row, *_NO_MOVES)
        tokens = np.concatenate([tokens for tokens, _ in moves])
        return Expansion(row, tokens, np.concatenate([nexts for _, nexts in moves]))

    @abstractmethod
    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""

    def _ended(self, state: int) -> list[IntArray]:
        """Return the rows of the paths that end in ``state``; [] unless it is an end."""
        return self._states[state].ended

    def _enter_following(self, states: Sequence[_State]) -> None:
        """Add to states at the end of a segment the roots of the next segments."""
        # all states at once: each level of segments is one question to the store or the index
        waiting = [(state, position) for state in states for position in state.positions]
        while waiting:
            ends = [
                (state, node.segment, node.leaf)
                for state, node in waiting
                if node.leaf >= 0 and (node.segment.begun or node.segment.level < self._last_level)
            ]
            unknown = dict.fromkeys(
                (segment, leaf) for _, segment, leaf in ends if leaf not in segment.following
            )
            self._segments.follow(unknown)
            waiting = [(state, _position(node.following[leaf], 0)) for state, node, leaf in ends]
            for state, position in waiting:
                state.positions.append(position)

    def _moves(self, state: _State) -> Moves:
        """Return the tokens and new states out of ``state``; after a path, the closing token."""
        nexts: dict[int, list[_Position]] = {}
        closed: list[IntArray] = []
        for position in state.positions:
            segment = position.segment
            tokens, first = segment.trie.children(position.node)
            for at, token in enumerate(tokens.tolist(), first):
                nexts.setdefault(token, []).append(_position(segment, at))
            whole = position.leaf >= 0 and not segment.begun
            if whole and segment.level > 0 and segment.level % 2 == 0:
                rows = self._segments.ended(segment, position.leaf)
                closed += [rows] if len(rows) else []
        reached = {token: _State(positions) for token, positions in nexts.items()}
        if closed:
            # names are encoded as plain text, so no name holds the closing token
            reached[self._segments.closing] = _State([], _NO_MOVES, closed)
        tokens = np.array(sorted(reached), np.int64)
        numbers = np.arange(len(self._states), len(self._states) + len(reached), dtype=np.int64)
        self._states.extend(reached[token] for token in tokens.tolist())
        return tokens, numbers


def _position(segment: Segment, node: int) -> _Position:
    """Return the position of ``node`` in a segment, with its leaf."""
    return _Position(segment, node, int(segment.trie.leaf[node]))


_NO_MOVES = (np.empty(0, np.int64), np.empty(0, np.int64))
