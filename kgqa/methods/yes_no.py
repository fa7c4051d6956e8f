"""Yes-or-no questions about two entities: whether a path between them confirms the question.

Out of each of the two its relation paths are ranked by the question without both names, as for any
question. The ones that lead to the other entity say what is asked if they have enough of the
probability: the geometric mean of both sides, since "capital of" leads from Lyon to nothing, but
from France to Paris. A graph is never a proof of no.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.linking.masking import without_name
from kgqa.paths.walk import FIRST, SECOND
from kgqa.understanding import direction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.paths.walk import PathTable

_MARKS = ("\x03", "\x04")  # in place of the two names, in the order of the topics
OTHER_WAY = "The graph has it the other way round"


@dataclass(frozen=True, slots=True)
class ConfirmingPaths:
    """The probability that paths between two entities confirm the question.

    ``rows``: the confirming paths in the table of the topic number ``side``, the likeliest first.
    """

    probability: float
    side: int
    rows: IntArray


def connection(
    keys: tuple[int, int],
    tables: Sequence[PathTable],
    of: Sequence[IntArray],
    probability: Sequence[NDArray[np.float64]],
    turned: Sequence[BoolArray],
) -> ConfirmingPaths:
    """Return how probably the paths between two topic entities confirm the question.

    ``keys``: of the two; ``tables``: the paths out of each; ``of``: each path's relation path;
    ``probability``: of each relation path; ``turned``: paths that run the wrong way
    (:func:`pair_turned`), which do not count. A side without a path to the other one is ignored,
    unless both lack it.
    """
    best = ConfirmingPaths(0.0, 0, np.zeros(0, np.int64))
    sides = []
    for side, table in enumerate(tables):
        rows = np.flatnonzero((table.ends() == keys[1 - side]) & ~turned[side])
        if not len(rows):
            continue
        share = float(probability[side][np.unique(of[side][rows])].sum())
        sides.append(share)
        if not len(best.rows) or share > best.probability:
            rows = rows[np.argsort(-probability[side][of[side][rows]], kind="stable")]
            best = ConfirmingPaths(share, side, rows)
    return ConfirmingPaths(
        min(math.prod(sides) ** (1 / len(sides)), 1.0) if sides else 0.0, best.side, best.rows
    )


def pair_turned(
    question: str,
    names: Mapping[int, Sequence[str]],
    keys: tuple[int, int],
    tables: Sequence[PathTable],
    phrases: Sequence[str],
) -> list[BoolArray]:
    """Return for each of two topics which of its paths run against the question's direction.

    They are single facts whose ends are swapped against the question; none if it does not name
    both. ``keys``: of the two; ``names``: of the topics, by key; ``tables``: the paths out of each;
    ``phrases``: of relations.
    """
    masked = question
    for key, mark in zip(keys, _MARKS, strict=True):
        masked = without_name(masked, names[key], mark)
    places = [masked.find(mark) for mark in _MARKS]
    if min(places) < 0:
        return [np.zeros(len(table), np.bool_) for table in tables]
    swapped = places[1] < places[0]
    order = _MARKS[::-1] if swapped else _MARKS
    said = masked.replace(order[0], direction.FIRST).replace(order[1], direction.SECOND)
    return [
        _turned(said, table, side, keys[1 - side], phrases, swapped=swapped)
        for side, table in enumerate(tables)
    ]


def _turned(
    question: str,
    table: PathTable,
    side: int,
    other: int,
    phrases: Sequence[str],
    *,
    swapped: bool,
) -> BoolArray:
    """Return which paths of one topic are single facts whose ends are swapped.

    ``side``: 0 for the first topic, 1 for the second; ``other``: the other topic's key;
    ``swapped``: the question names the second one first.
    """
    turned = np.zeros(len(table), np.bool_)
    single = (table.length == 1) & (table.hops[:, 0, SECOND] < 0) & (table.ends() == other)
    for step in np.unique(table.hops[single, 0, FIRST]).tolist():
        phrase = phrases[step // 2]
        who = direction.head_of(question, phrase)
        if who:
            head = int((who == direction.SECOND) != swapped)  # the number of its topic
            if head != (side if step % 2 == 0 else 1 - side):  # where it is stored
                turned |= single & (table.hops[:, 0, FIRST] == step)
    return turned
