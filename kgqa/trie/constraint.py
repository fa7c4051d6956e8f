"""The interface of constraints: which token sequences a decoder may write.

A state is an integer that stands for one prefix. It fails closed: a state without a continuation
that is not an end is a dead end. Long work inside a constraint (naming many tails) is done in
pieces, with a call of :func:`kgqa.deadline.check_deadline` between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kgqa.errors import EmptyLanguageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.paths.walk import PathTable


@dataclass(frozen=True, slots=True)
class Expansion:
    """The moves out of states, sorted by (row, token): token and next state of each.

    ``row``: the index, in the list of states expanded, of the state that the move starts from.
    """

    row: IntArray
    token: IntArray
    state: IntArray


class Constraint(Protocol):
    """The set of token sequences that a decoder may write, each closed by a closing token."""

    def start(self) -> int:
        """Return the state before the first token."""

    def expand(self, states: Sequence[int]) -> Expansion:
        """Return the moves out of every one of ``states``."""

    def is_end(self, states: Sequence[int]) -> BoolArray:
        """Return which of ``states`` stand after a closing token. Shape ``[len(states)]``."""

    def ground(self, state: int) -> PathTable:
        """Return every id path that the text of the end ``state`` stands for."""

    @property
    def paths(self) -> int | None:
        """The number of id paths, None if they are not counted."""


@runtime_checkable
class ListedConstraint(Protocol):
    """A constraint in memory, whose states are read one at a time at the cost of a look-up."""

    def moves(self, state: int) -> tuple[list[int], list[int]] | None:
        """Return the tokens and next states of the moves out of ``state``, None for an end."""


def nothing_to_write(what: str) -> EmptyLanguageError:
    """Return the error for an empty language; ``what`` is the sentence with the reason."""
    return EmptyLanguageError(
        f"{what}, so there is nothing the model may write.",
        "Choose another `entity`, or look at this one with: kgqa paths ENTITY",
    )
