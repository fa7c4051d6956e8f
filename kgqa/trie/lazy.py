"""States of a language that is made while it is asked for: numbered as they are come to.

A prefix can stand for several things at once (entities that share a name, a name that is the prefix
of another), so a state is a set of positions in small tries. What those tries are, and what follows
them, is for the language to say (:mod:`kgqa.trie.composed`, :mod:`kgqa.trie.triplets`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from kgqa.trie.constraint import Expansion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.trie.arrays import TokenTrie

Moves: TypeAlias = "tuple[IntArray, IntArray]"
"""The tokens that may follow, ascending, and the state that each leads to."""


class HasTrie(Protocol):
    """A part of a text, by the trie over what it may be."""

    trie: TokenTrie


Part = TypeVar("Part", bound=HasTrie)
End = TypeVar("End")


@dataclass(frozen=True, slots=True)
class Position(Generic[Part]):
    """A node of the trie of a part."""

    part: Part
    node: int

    @property
    def leaf(self) -> int:
        """The text that ends here, -1 where none does."""
        return int(self.part.trie.leaf[self.node])


@dataclass(slots=True)
class State(Generic[Part, End]):
    """Where a prefix stands; ``ended``: what a whole text, closing token included, stands for."""

    positions: list[Position[Part]]
    moves: Moves | None = None
    ended: list[End] = field(default_factory=list)


class LazyConstraint(ABC, Generic[Part, End]):
    """A :class:`kgqa.trie.constraint.Constraint` but for ``ground``. Not for several threads.

    ``roots``: where texts begin; ``closing``: the token that ends one.
    """

    def __init__(self, roots: Iterable[Part], closing: int) -> None:
        self._closing = closing
        self._states: list[State[Part, End]] = [State([Position(part, 0) for part in roots])]

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
        asked = [self._states[one] for one in dict.fromkeys(states)]
        if fresh := [state for state in asked if state.moves is None]:
            self._prepare(fresh)
            for state in fresh:
                state.moves = self._moves(state)
        moves = [self._states[state].moves or _NO_MOVES for state in states]
        row = np.repeat(np.arange(len(moves)), [len(tokens) for tokens, _ in moves])
        if not len(row):
            return Expansion(row, *_NO_MOVES)
        tokens = np.concatenate([tokens for tokens, _ in moves])
        return Expansion(row, tokens, np.concatenate([nexts for _, nexts in moves]))

    # ── for the language to say ─────────────────────────────────────────────────────────────

    @abstractmethod
    def _prepare(self, states: Sequence[State[Part, End]]) -> None:
        """Make every part that may follow the positions of ``states``, for all together."""

    @abstractmethod
    def _closure(self, state: State[Part, End]) -> list[Position[Part]]:
        """Return the positions of ``state`` and the starts of the parts that may follow them."""

    @abstractmethod
    def _end(self, position: Position[Part]) -> End | None:
        """Return what a text that ends at ``position`` stands for, None where none may end."""

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _moves(self, state: State[Part, End]) -> Moves:
        nexts: dict[int, list[Position[Part]]] = {}
        closed: list[End] = []
        for position in self._closure(state):
            tokens, first = position.part.trie.children(position.node)
            for at, token in enumerate(tokens.tolist()):
                nexts.setdefault(token, []).append(Position(position.part, first + at))
            if (end := self._end(position)) is not None:
                closed.append(end)
        made: dict[int, State[Part, End]] = {
            token: State(positions) for token, positions in nexts.items()
        }
        if closed:
            # names are encoded as plain text, so no name holds the closing token
            made[self._closing] = State([], _NO_MOVES, closed)
        tokens = np.array(sorted(made), np.int64)
        numbers = np.arange(len(self._states), len(self._states) + len(made), dtype=np.int64)
        self._states.extend(made[token] for token in tokens.tolist())
        return tokens, numbers


_NO_MOVES = (np.empty(0, np.int64), np.empty(0, np.int64))
