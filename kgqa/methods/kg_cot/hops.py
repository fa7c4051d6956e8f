"""A cache of the hops out of entities, as arrays, for KG-CoT's walks.

A hop is what :mod:`kgqa.paths.walk` says it is, so that a walk here is a path there. Hops that
differ in the collapsed mediator alone say the same triple (subject, relation, object); all of them
may be paths, and ``copy`` marks all but the first, so that a triple is counted once.
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
    """The hops of entities, sorted by ``row``; columns are ``[n]``, except ``hop`` ``[n, 4]``.

    ``row``: a position in the requested keys; ``hop``: as in :class:`kgqa.paths.walk.Hops`;
    ``relation``: the number of the hop's relation; ``kind``: the tail's kind.
    """

    row: IntArray
    hop: IntArray
    relation: IntArray
    kind: NDArray[np.uint8]
    copy: BoolArray


class HopTable:
    """A cache of hops out of the entities of ``store`` under ``rules``, of about ``most`` hops."""

    def __init__(self, store: GraphStore, rules: WalkRules, most: int = MOST_KEPT) -> None:
        self.store = store
        self.rules = rules
        self._most = most
        self._numbers: dict[tuple[int, int], int] = {}
        self._clear()

    def _clear(self) -> None:
        """Empty the cache."""
        self._keys = np.empty(0, np.int64)  # sorted
        self._start = np.empty(0, np.int64)
        self._count = np.empty(0, np.int64)
        self._used = 0
        self._columns: dict[str, NDArray[Any]] = {
            "hop": np.empty((0, 4), np.int64),
            "relation": np.empty(0, np.int64),
            "kind": np.empty(0, np.uint8),
            "copy": np.empty(0, np.bool_),
        }

    def relations(self) -> IntArray:
        """Return the two steps of every relation, by number, ``[n, 2]``.

        A step is 2 * relation, + 1 reversed; the second is -1 without a mediator.
        """
        return np.array(list(self._numbers), np.int64).reshape(-1, 2)

    def number(self, relations: IntArray) -> None:
        """Assign the next numbers to ``relations``, as :meth:`relations` returned them, in order.

        In an empty table each gets the number it had before; known ones keep theirs. Rows are two
        steps (2 * relation, + 1 reversed), the second -1 without a mediator.
        """
        for first, second in relations.tolist():
            self._numbers.setdefault((first, second), len(self._numbers))

    def out_of(self, keys: IntArray) -> HopsOf:
        """Return every hop out of the distinct, sorted ``keys``. Raises GraphError.

        Known entities need no store call; the others one for the whole frontier (two with collapsed
        mediators; in chunks if it is long).
        """
        if self._used > self._most:
            self._clear()
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        if not known.all():
            self._read(keys[~known])
            at = np.searchsorted(self._keys, keys)
        counts = self._count[at]
        pick = ranges(self._start[at], counts)
        columns = {name: column[pick] for name, column in self._columns.items()}
        return HopsOf(np.repeat(np.arange(len(keys)), counts), **columns)

    def _read(self, missing: IntArray) -> None:
        """Read the hops of the entities ``missing`` from the store into the cache."""
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
        """Append hops to the columns, and mark those that repeat a (row, relation, tail)."""
        pairs, inverse = np.unique(hops.hop[:, (FIRST, SECOND)], axis=0, return_inverse=True)
        self.number(pairs)
        numbers = [self._numbers[first, second] for first, second in pairs.tolist()]
        relation = np.array(numbers, np.int64)[inverse.reshape(-1)]
        triple = np.stack([hops.row, relation, hops.hop[:, TAIL]])
        order = np.lexsort(triple[::-1])  # stable: the first of equals stays first
        copy = np.zeros(len(hops.row), np.bool_)
        copy[order[1:][(np.diff(triple[:, order]) == 0).all(axis=0)]] = True
        end = self._used + len(hops.row)
        added = {"hop": hops.hop, "relation": relation, "kind": hops.kind, "copy": copy}
        for name, values in added.items():
            kept = self._columns[name]
            if end > len(kept):  # room grows by doubling, so that many small reads stay cheap
                room = max(end, 2 * len(kept), 1024)
                self._columns[name] = np.zeros((room, *kept.shape[1:]), kept.dtype)
                self._columns[name][: self._used] = kept[: self._used]
            self._columns[name][self._used : end] = values
        self._used = end
