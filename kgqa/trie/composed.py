"""Languages that are built while they are decoded: states are numbered as they are reached.

A segment (head, relation, tail, …) is a small trie over the texts of some paths. A state is a set
of positions, since a prefix may stand for several things: shared names, names that begin others or
contain the separator. A path language accepts what a stored trie of the same rules does, at the
cost of what the decoder asks of it; that of triplets is Decoding on Graphs' (arXiv 2410.18415).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.triplets import as_paths, joined_rows
from kgqa.paths.walk import TAIL, PathTable, admissible, empty_paths, hops_out_of, ordered
from kgqa.trie.arrays import Groups, TokenTrie, build_trie, in_order
from kgqa.trie.constraint import Expansion, nothing_to_write
from kgqa.trie.stored import distinct_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.triplets import Triplets
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.arrays import Sequences
    from kgqa.trie.lexicon import PathLexicon

Moves: TypeAlias = "tuple[IntArray, IntArray]"
"""The tokens that may follow, ascending, and the state that each leads to."""


@dataclass(slots=True, eq=False)
class Segment:
    """What a segment of some paths may be: a trie over its texts.

    ``level``: segments before it (even: entities, odd: relations). ``rows``: the paths, topic key,
    then four columns a hop. ``groups``: which have a leaf's text. ``following``: segments by leaf.
    """

    level: int
    trie: TokenTrie
    rows: IntArray
    groups: Groups
    following: dict[int, Segment] = field(default_factory=dict)

    def of(self, leaf: int) -> IntArray:
        """Return the paths whose text in this segment is that of ``leaf``."""
        return self.rows[self.groups.rows(leaf)]


class Segments:
    """Makes the segments of paths in one graph, the names and hops of many in few calls."""

    def __init__(self, store: GraphStore, lexicon: PathLexicon) -> None:
        self._store = store
        self._lexicon = lexicon

    @property
    def closing(self) -> int:
        """The token that ends a path."""
        return self._lexicon.closing

    def heads(self, rows: IntArray) -> Segment:
        """Return the segment of the heads of ``rows``."""
        keys, text_of = np.unique(rows[:, 0], return_inverse=True)
        return _segment(0, rows, self._lexicon.heads(self._store, keys), text_of)

    def follow(self, ends: Iterable[tuple[Segment, int]]) -> None:
        """Put into ``following`` what may follow each leaf of a segment, for all together."""
        names: list[tuple[Segment, int, IntArray]] = []
        relations: list[tuple[Segment, int, IntArray]] = []
        for segment, leaf in ends:
            (relations if segment.level % 2 else names).append((segment, leaf, segment.of(leaf)))
        if names:
            extended = self._extended([(segment.level // 2, rows) for segment, _, rows in names])
            for (segment, leaf, _), rows in zip(names, extended, strict=True):
                level = segment.level + 1
                pairs, text_of = distinct_pairs(rows[:, 2 * level - 1], rows[:, 2 * level + 1])
                texts = self._lexicon.relations(self._store, pairs)
                segment.following[leaf] = _segment(level, rows, texts, text_of)
        if relations:
            tails = [rows[:, 2 * segment.level + 2] for segment, _, rows in relations]
            keys, number = np.unique(np.concatenate(tails), return_inverse=True)
            texts = self._lexicon.tails(self._store, keys)
            split = np.split(number, np.cumsum([len(one) for one in tails[:-1]]))
            for (segment, leaf, rows), of in zip(relations, split, strict=True):
                mine, text_of = np.unique(of, return_inverse=True)
                following = _segment(segment.level + 1, rows, texts.take(mine), text_of)
                segment.following[leaf] = following

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        return [rows for _, rows in paths]


def _segment(level: int, rows: IntArray, texts: Sequences, text_of: IntArray) -> Segment:
    distinct = in_order(texts)
    groups = Groups(distinct.number[text_of], len(distinct))
    return Segment(level, build_trie(distinct), rows, groups)


@dataclass(frozen=True, slots=True)
class _Position:
    segment: Segment
    node: int
    leaf: int


@dataclass(slots=True)
class _State:
    positions: list[_Position]
    moves: Moves | None = None
    ended: list[IntArray] = field(default_factory=list)


class LazyConstraint(ABC):
    """A ``Constraint`` of paths of at most ``hops`` hops, made by ``segments``; for one thread."""

    def __init__(self, segments: Segments, heads: Iterable[Segment], hops: int) -> None:
        self._segments = segments
        self._last_level = 2 * hops
        self._states = [_State([_position(segment, 0) for segment in heads])]

    @property
    def paths(self) -> None:
        """Not counted: counting would mean building the language."""
        return

    def start(self) -> int:
        """Return the state before the first token."""
        return 0

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` stand after the closing token."""
        return np.array([bool(self._states[state].ended) for state in states], bool)

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""
        wanted = [self._states[one] for one in dict.fromkeys(states)]
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
        return self._states[state].ended

    def _enter_following(self, states: Sequence[_State]) -> None:
        waiting = [(state, position) for state in states for position in state.positions]
        while waiting:
            ends = [
                (state, one.segment, one.leaf)
                for state, one in waiting
                if one.leaf >= 0 and one.segment.level < self._last_level
            ]
            unknown = dict.fromkeys(
                (segment, leaf) for _, segment, leaf in ends if leaf not in segment.following
            )
            self._segments.follow(unknown)
            waiting = [(state, _position(one.following[leaf], 0)) for state, one, leaf in ends]
            for state, position in waiting:
                state.positions.append(position)

    def _moves(self, state: _State) -> Moves:
        nexts: dict[int, list[_Position]] = {}
        closed: list[IntArray] = []
        for position in state.positions:
            segment = position.segment
            tokens, first = segment.trie.children(position.node)
            for at, token in enumerate(tokens.tolist(), first):
                nexts.setdefault(token, []).append(_position(segment, at))
            if position.leaf >= 0 and segment.level > 0 and segment.level % 2 == 0:
                closed.append(segment.of(position.leaf))
        reached = {token: _State(positions) for token, positions in nexts.items()}
        if closed:
            # names are encoded as plain text, so no name holds the closing token
            reached[self._segments.closing] = _State([], _NO_MOVES, closed)
        tokens = np.array(sorted(reached), np.int64)
        numbers = np.arange(len(self._states), len(self._states) + len(reached), dtype=np.int64)
        self._states.extend(reached[token] for token in tokens.tolist())
        return tokens, numbers


def _position(segment: Segment, node: int) -> _Position:
    return _Position(segment, node, int(segment.trie.leaf[node]))


_NO_MOVES = (np.empty(0, np.int64), np.empty(0, np.int64))


_ONWARD = -1  # the last column of a path: whether a walk may leave the entity it ends in


class ComposedConstraint(LazyConstraint):
    """All paths out of ``topics`` under ``rules``, for one thread. Raises EmptyLanguageError."""

    def __init__(
        self, store: GraphStore, topics: IntArray, rules: WalkRules, lexicon: PathLexicon
    ) -> None:
        self._hops = rules.hops
        walks = _Walks(store, rules, lexicon)
        topics = walks.with_hops(np.unique(topics))
        if not len(topics):
            raise nothing_to_write("The topic entities have no path")
        rows = np.full((len(topics), 4 * rules.hops + 2), -1, np.int64)
        rows[:, 0] = topics
        rows[:, _ONWARD] = True
        super().__init__(walks, [walks.heads(rows)], rules.hops)

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""
        ended = self._ended(state)
        if not ended:
            return empty_paths(self._hops)
        rows = np.concatenate(ended)
        hops = _hops_of(rows)
        return ordered(PathTable(rows[:, 0], (hops[:, :, TAIL] >= 0).sum(axis=1), hops))


def _hops_of(rows: IntArray) -> IntArray:
    return rows[:, 1:_ONWARD].reshape(len(rows), rows.shape[1] // 4, 4)


class _Walks(Segments):
    """Segments of walks; the hops out of an entity are read once."""

    def __init__(self, store: GraphStore, rules: WalkRules, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._rules = rules
        self._out: dict[int, tuple[IntArray, IntArray]] = {}  # hops, and the kinds of their tails

    def with_hops(self, keys: IntArray) -> IntArray:
        """Return those of the distinct ``keys`` that a walk can leave."""
        self._read(keys)
        return keys[[len(self._out[key][0]) > 0 for key in keys.tolist()]]

    def _read(self, keys: IntArray) -> None:
        new = np.array([key for key in keys.tolist() if key not in self._out], np.int64)
        if not len(new):
            return
        hops = hops_out_of(self._store, new, self._rules)
        offsets = hops.offsets(len(new)).tolist()
        for number, key in enumerate(new.tolist()):
            part = slice(offsets[number], offsets[number + 1])
            self._out[key] = (hops.hop[part], hops.kind[part].astype(np.int64))

    def _extended(self, paths: list[tuple[int, IntArray]]) -> list[IntArray]:
        paths = [(depth, rows[rows[:, _ONWARD] > 0]) for depth, rows in paths]
        self._read(np.unique(np.concatenate([rows[:, 4 * depth] for depth, rows in paths])))
        return [self._one_more(depth, rows) for depth, rows in paths]

    def _one_more(self, depth: int, rows: IntArray) -> IntArray:
        out = [self._out[key] for key in rows[:, 4 * depth].tolist()]
        added = np.concatenate([np.empty((0, 4), np.int64), *(hops for hops, _ in out)])
        kind = np.concatenate([np.empty(0, np.int64), *(kinds for _, kinds in out)])
        rows = np.repeat(rows, [len(kinds) for _, kinds in out], axis=0)
        good = admissible(rows[:, 0], _hops_of(rows), depth, added)
        rows = rows[good]
        rows[:, 4 * depth + 1 : 4 * depth + 5] = added[good]
        rows[:, _ONWARD] = kind[good] != Kind.VALUE
        return rows


class TripletLanguage(Segments):
    """Triplets of one graph as tokens, shared by all its constraints; for one thread."""

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        super().__init__(store, lexicon)
        self._triplets = triplets
        self._around: dict[int, Segment | None] = {}  # heads of the triplets that touch an entity

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of triplets that touch ``visited``. Raises EmptyLanguageError."""
        keys = np.unique(np.array(list(visited), np.int64))
        self._read(np.array([key for key in keys.tolist() if key not in self._around], np.int64))
        heads = [found for key in keys.tolist() if (found := self._around[key]) is not None]
        if not heads:
            raise nothing_to_write("No triplet touches the entities")
        return TripletConstraint(self, heads, 1)

    def _read(self, keys: IntArray) -> None:
        if not len(keys):
            return
        found = self._triplets.around(keys)
        heads = [rows[:, 0] for rows in found if len(rows)]
        if heads:  # into the lexicon's memory, from where each segment takes its own
            self._lexicon.heads(self._store, np.unique(np.concatenate(heads)))
        for key, rows in zip(keys.tolist(), found, strict=True):
            self._around[key] = self.heads(rows) if len(rows) else None


class TripletConstraint(LazyConstraint):
    """The language of one step of a chain. A :class:`kgqa.trie.constraint.Constraint`."""

    def ground(self, state: int) -> PathTable:
        """Return every triplet that the text of the end ``state`` stands for, as a path, sorted."""
        return as_paths(joined_rows(self._ended(state)))
