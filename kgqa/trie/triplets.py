"""The triplets that may be written next: those that touch an entity visited before.

Decoding on Graphs (DoG, arXiv 2410.18415) writes one triplet at a time and may take any that
touches an entity of the question or of the triplets before it, at either end. *One entity's* part
of that language depends on nothing else, so it is composed once, when the entity is first visited,
and kept: heads (the entity itself and all that point to it), then the relations of a head, then the
tails of a relation, each a small trie made when a prefix gets there. The language of several
visited entities is the union of theirs: a state is a set of positions in such tries, so a step of a
chain adds a few tries, and nothing is made again or cut, however large a hub is.

Entities that share a name are told apart afterwards: a text stands for every triplet that it may
mean, and :meth:`TripletConstraint.ground` returns them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import EmptyLanguageError
from kgqa.paths.triplets import END, as_paths, joined_rows
from kgqa.trie.arrays import build_trie, in_order
from kgqa.trie.lazy import LazyConstraint, Position, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.triplets import Triplets
    from kgqa.paths.walk import PathTable
    from kgqa.trie.arrays import Sequences, TokenTrie
    from kgqa.trie.lexicon import PathLexicon

_HEADS, _RELATIONS, _TAILS = range(3)  # what the texts of a part are


class TripletLanguage:
    """Triplets of one graph as tokens: what is known of an entity is shared by all constraints.

    ``triplets``: the graph to walk in, all of it in ``store``. Not for use by several threads.
    """

    def __init__(self, store: GraphStore, triplets: Triplets, lexicon: PathLexicon) -> None:
        self._store = store
        self._triplets = triplets
        self._lexicon = lexicon
        self._parts: dict[int, _Part | None] = {}  # by entity: the heads of its triplets

    @property
    def closing(self) -> int:
        """The token that ends a triplet."""
        return self._lexicon.closing

    def constraint(self, visited: Iterable[int]) -> TripletConstraint:
        """Return the constraint of all triplets that touch one of ``visited`` (entity keys).

        Raises EmptyLanguageError where there is none, GraphError where the store fails.
        """
        keys = np.unique(np.array(list(visited), np.int64))
        self._read(np.array([key for key in keys.tolist() if key not in self._parts], np.int64))
        parts = [part for key in keys.tolist() if (part := self._parts[key]) is not None]
        if not parts:
            raise EmptyLanguageError(
                "No triplet touches the entities, so there is nothing the model may write.",
                "Choose another entity (--entity), or look at this one with: kgqa paths ENTITY",
            )
        return TripletConstraint(self, parts)

    def prepare(self, parts: Iterable[_Part], leaves: Iterable[int]) -> None:
        """Make what follows a leaf of each of ``parts``; names are read for all in one call."""
        asked = list(
            dict.fromkeys(
                (part, leaf)
                for part, leaf in zip(parts, leaves, strict=True)
                if part.level < _TAILS and leaf not in part.following
            )
        )
        tails = [part.of(leaf)[:, END] for part, leaf in asked if part.level == _RELATIONS]
        if tails:  # into the lexicon's memory, from where each part takes its own
            self._lexicon.tails(self._store, np.unique(np.concatenate(tails)))
        for part, leaf in asked:
            part.following[leaf] = self._part(part.level + 1, part.of(leaf))

    def _read(self, keys: IntArray) -> None:
        if not len(keys):
            return
        found = self._triplets.around(keys)
        heads = [rows[:, 0] for rows in found if len(rows)]
        if heads:
            self._lexicon.heads(self._store, np.unique(np.concatenate(heads)))
        for key, rows in zip(keys.tolist(), found, strict=True):
            self._parts[key] = self._part(_HEADS, rows) if len(rows) else None

    def _part(self, level: int, rows: IntArray) -> _Part:
        """Return the trie over the texts that ``rows`` have at ``level``."""
        column, texts = (
            (rows[:, :1], self._heads),
            (rows[:, (1, 3)], self._relations),
            (rows[:, END:], self._tails),
        )[level]
        distinct, number = np.unique(column, axis=0, return_inverse=True)
        ordered = in_order(texts(distinct))
        leaf = ordered.number[number.reshape(-1)]
        order = np.argsort(leaf, kind="stable")
        starts = np.searchsorted(leaf[order], np.arange(len(ordered) + 1))
        return _Part(level, build_trie(ordered), rows[order], starts)

    def _heads(self, keys: IntArray) -> Sequences:
        return self._lexicon.heads(self._store, keys.reshape(-1))

    def _relations(self, pairs: IntArray) -> Sequences:
        return self._lexicon.relations(self._store, pairs)

    def _tails(self, keys: IntArray) -> Sequences:
        return self._lexicon.tails(self._store, keys.reshape(-1))


@dataclass(slots=True, eq=False)
class _Part:
    """A trie over the texts of one part of some triplets; ``rows`` are sorted by leaf."""

    level: int
    trie: TokenTrie
    rows: IntArray  # [n, 5]
    starts: IntArray  # of each leaf's rows, and their end
    following: dict[int, _Part] = field(default_factory=dict)

    def of(self, leaf: int) -> IntArray:
        """Return the triplets whose text in this part is that of ``leaf``."""
        return self.rows[self.starts[leaf] : self.starts[leaf + 1]]


class TripletConstraint(LazyConstraint[_Part, "IntArray"]):
    """The language of one step of a chain. A :class:`kgqa.trie.constraint.Constraint`."""

    def __init__(self, language: TripletLanguage, parts: Iterable[_Part]) -> None:
        super().__init__(parts, language.closing)
        self._language = language

    def ground(self, state: int) -> PathTable:
        """Return every triplet that the text of the end ``state`` stands for, as a path, sorted."""
        return as_paths(joined_rows(self._states[state].ended))

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _prepare(self, states: Sequence[State[_Part, IntArray]]) -> None:
        """Let ``positions`` of ``states`` hold the starts of the parts that may follow, too."""
        waiting = [(state, position) for state in states for position in state.positions]
        while waiting:
            ended = [(state, one) for state, one in waiting if one.leaf >= 0]
            ended = [(state, one) for state, one in ended if one.part.level < _TAILS]
            self._language.prepare([one.part for _, one in ended], [one.leaf for _, one in ended])
            waiting = [(state, Position(one.part.following[one.leaf], 0)) for state, one in ended]
            for state, position in waiting:
                state.positions.append(position)

    def _closure(self, state: State[_Part, IntArray]) -> list[Position[_Part]]:
        return state.positions  # completed by ``_prepare``

    def _end(self, position: Position[_Part]) -> IntArray | None:
        if position.part.level < _TAILS or position.leaf < 0:
            return None
        return position.part.of(position.leaf)
