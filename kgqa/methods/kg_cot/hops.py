"""The hops out of entities as KG-CoT walks them, read from a store once and kept.

A hop is what :mod:`kgqa.paths.walk` says it is, so that a walk here is a path there: with mediators
collapsed, the two edges through one are a single hop by a composite relation. Relations of hops
are numbered as they are encountered. Hops that differ in the mediator alone say the same triple
(subject, relation, object); all of them may be paths, and ``copy`` marks all but the first, so that
a triple is counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kgqa.answers.expand import FRONTIER, hops_in_turn
from kgqa.paths.walk import FIRST, SECOND, TAIL, ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import Hops, WalkRules

MOST_KEPT = 4_000_000  # hops in memory, about 50 bytes each


class HopsOf(NamedTuple):
    """The hops of some entities, all columns ``[n]`` but ``hop`` ``[n, 4]``; sorted by ``row``.

    ``row`` is a position in the keys asked for, ``hop`` as in :class:`kgqa.paths.walk.Hops`,
    ``relation`` the number of the hop's relation, ``kind`` the tail's kind.
    """

    row: IntArray
    hop: IntArray
    relation: IntArray
    kind: NDArray[np.uint8]
    copy: BoolArray


class HopTable:
    """Hops out of the entities of ``store`` under ``rules``; at most about ``most`` are kept."""

    def __init__(self, store: GraphStore, rules: WalkRules, most: int = MOST_KEPT) -> None:
        self.store = store
        self.rules = rules
        self._most = most
        self._numbers: dict[tuple[int, int], int] = {}
        self._clear()

    def _clear(self) -> None:
        self._keys = np.empty(0, np.int64)  # sorted
        self._start = np.empty(0, np.int64)
        self._count = np.empty(0, np.int64)
        self._used = 0
        self._hop = np.empty((0, 4), np.int64)
        self._relation = np.empty(0, np.int64)
        self._kind = np.empty(0, np.uint8)
        self._copy = np.empty(0, np.bool_)

    def relations(self) -> IntArray:
        """Return (first step, second step or -1) of every relation by number, ``[n, 2]``."""
        return np.array(list(self._numbers), np.int64).reshape(-1, 2)

    def number(self, relations: IntArray) -> None:
        """Give ``relations``, as :meth:`relations` returned them, the next numbers in that order.

        In an empty table each gets the number it had; those known already keep theirs.
        """
        for first, second in relations.tolist():
            self._numbers.setdefault((first, second), len(self._numbers))

    def out_of(self, keys: IntArray) -> HopsOf:
        """Return every hop out of the distinct, sorted ``keys``. Raises GraphError.

        Entities that were asked for before cost no call of the store; the others one for the whole
        frontier (two with collapsed mediators; in chunks where it is long).
        """
        if self._used > self._most:
            self._clear()
        at = np.searchsorted(self._keys, keys)
        inside = np.minimum(at, max(len(self._keys) - 1, 0))
        known = self._keys[inside] == keys if len(self._keys) else np.zeros(len(keys), np.bool_)
        if not known.all():
            self._read(keys[~known])
            at = np.searchsorted(self._keys, keys)
        counts = self._count[at]
        pick = ranges(self._start[at], counts)
        return HopsOf(
            np.repeat(np.arange(len(keys)), counts),
            self._hop[pick],
            self._relation[pick],
            self._kind[pick],
            self._copy[pick],
        )

    def _read(self, missing: IntArray) -> None:
        counts = np.zeros(len(missing), np.int64)
        start, before = self._used, 0
        for hops in hops_in_turn(self.store, missing, self.rules):
            counts += np.bincount(hops.row + before, minlength=len(missing))
            self._append(hops)
            before += FRONTIER
        starts = start + np.cumsum(counts) - counts
        order = np.argsort(keys := np.concatenate([self._keys, missing]), kind="stable")
        self._keys = keys[order]
        self._start = np.concatenate([self._start, starts])[order]
        self._count = np.concatenate([self._count, counts])[order]

    def _append(self, hops: Hops) -> None:
        count = len(hops.row)
        end = self._used + count
        if end > len(self._relation):  # room grows by doubling, so that many small reads stay cheap
            room = max(end, 2 * len(self._relation), 1024)
            self._hop = _grown(self._hop, room)
            self._relation = _grown(self._relation, room)
            self._kind = _grown(self._kind, room)
            self._copy = _grown(self._copy, room)
        here = slice(self._used, end)
        self._hop[here] = hops.hop
        self._kind[here] = hops.kind
        pairs, inverse = np.unique(hops.hop[:, (FIRST, SECOND)], axis=0, return_inverse=True)
        numbers = [
            self._numbers.setdefault((int(first), int(second)), len(self._numbers))
            for first, second in pairs
        ]
        relation = np.array(numbers, np.int64)[inverse.reshape(-1)]
        self._relation[here] = relation
        tail = hops.hop[:, TAIL]
        order = np.lexsort((tail, relation, hops.row))  # stable: the first of equals stays first
        same = (
            (np.diff(hops.row[order]) == 0)
            & (np.diff(relation[order]) == 0)
            & (np.diff(tail[order]) == 0)
        )
        copy = np.zeros(count, np.bool_)
        copy[order[1:][same]] = True
        self._copy[here] = copy
        self._used = end


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    made = np.zeros((room, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made
