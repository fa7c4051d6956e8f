"""Triplets around entities as integer arrays: all facts that have the entity at either end.

A row ``[head, first, mediator, second, tail]`` is a stored triple in its own direction, or the fact
of a collapsed mediator (-1: none). Only in a bidirectional KG may a mediator's fact be entered
against an edge. No triplet leads to its head, through two mediators, or on from a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import FIRST, SECOND, Hops, Mediators, PathTable, WalkRules, hops_out_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore

WIDTH = 5
END = WIDTH - 1  # the tail's column; the head's is 0
NO_TRIPLETS: IntArray = np.empty((0, WIDTH), np.int64)


class Triplets(Protocol):
    """A graph as seen by a walk: the triplets that touch an entity."""

    def around(self, keys: IntArray) -> list[IntArray]:
        """Return, for each distinct key, the triplets that touch it, sorted ``[n, 5]``.

        A value, which walks do not leave, has none. Raises GraphError.
        """


class StoreTriplets:
    """The triplets of a whole store; each entity is read once.

    ``entered``: whether a mediator may be entered against an edge's direction.
    """

    def __init__(
        self, store: GraphStore, mediators: Mediators = "collapse", *, entered: bool = False
    ) -> None:
        self._store = store
        self._rules = WalkRules(1, "both", mediators)
        self._entered = entered
        self._around: dict[int, IntArray] = {}

    def around(self, keys: IntArray) -> list[IntArray]:
        """Return the triplets that touch each of ``keys``, none for a value.

        Remembers what it reads.
        """
        new = np.array([key for key in keys.tolist() if key not in self._around], np.int64)
        if len(new):
            self._around.update(dict.fromkeys(new.tolist(), NO_TRIPLETS))
            live = new[lasting(self._store, new)]
            if len(live):
                hops = hops_out_of(self._store, live, self._rules)
                owner, rows = _as_stored(live, hops, entered=self._entered)
                order = np.lexsort([*rows.T[::-1], owner])
                owner, rows = owner[order], rows[order]
                starts = np.searchsorted(owner, np.arange(len(live) + 1))
                for number, key in enumerate(live.tolist()):
                    self._around[key] = rows[starts[number] : starts[number + 1]]
        return [self._around[key] for key in keys.tolist()]


class SomeTriplets:
    """A graph of only the triplets ``rows`` of a store."""

    def __init__(self, store: GraphStore, rows: IntArray) -> None:
        self.rows = sorted_rows(rows)
        ends = np.unique(self.rows[:, (0, END)])
        self._lasting = set(ends[lasting(store, ends)].tolist())

    def around(self, keys: IntArray) -> list[IntArray]:
        """Return those of ``rows`` that touch each of ``keys``, none for a value."""
        return [
            self.rows[(self.rows[:, 0] == key) | (self.rows[:, END] == key)]
            if key in self._lasting
            else NO_TRIPLETS
            for key in keys.tolist()
        ]


def lasting(store: GraphStore, keys: IntArray) -> BoolArray:
    """Return for each key whether a path can go on from it, ``[len(keys)]``: not from a value."""
    if not len(keys):
        return np.zeros(0, bool)
    lasts: BoolArray = store.entities(keys).kinds != Kind.VALUE
    return lasts


def sorted_rows(rows: IntArray) -> IntArray:
    """Return the distinct triplets, sorted by column."""
    return np.unique(rows, axis=0) if len(rows) else NO_TRIPLETS


def joined_rows(several: Iterable[IntArray]) -> IntArray:
    """Return the distinct rows of ``several``, sorted."""
    parts = [rows for rows in several if len(rows)]
    return sorted_rows(np.concatenate(parts)) if parts else NO_TRIPLETS


def turned(rows: IntArray) -> IntArray:
    """Return the same facts as seen from their tails, each step reversed. Shape ``[n, 5]``.

    Rows are (head, step, mediator, step, tail); a step is 2 * relation, + 1 reversed.
    """
    head, first, mediator, second, tail = rows.T
    through = second >= 0
    into, out = np.where(through, second, first) ^ 1, np.where(through, first ^ 1, -1)
    return np.stack([tail, into, mediator, out, head], axis=1)


def as_paths(rows: IntArray) -> PathTable:
    """Return each triplet of ``rows`` as a path of one hop, in order."""
    return PathTable(rows[:, 0], np.ones(len(rows), np.int64), rows[:, 1:].reshape(-1, 1, 4))


def as_rows(table: PathTable) -> IntArray:
    """Return paths of one hop as triplets: the inverse of :func:`as_paths`."""
    return np.concatenate([table.topic[:, None], table.hops[:, 0]], axis=1)


def _as_stored(keys: IntArray, hops: Hops, *, entered: bool) -> tuple[IntArray, IntArray]:
    """Convert hops out of ``keys`` to triplets in stored direction, with an index into ``keys``.

    A hop through a mediator whose halves have different directions is given in both if ``entered``,
    else dropped.
    """
    rows = np.concatenate([keys[hops.row][:, None], hops.hop], axis=1)
    first, second = hops.hop[:, FIRST], hops.hop[:, SECOND]
    single = second < 0
    along = (first % 2 == 0) & (single | (second % 2 == 0))
    against = (first % 2 == 1) & (single | (second % 2 == 1))
    mixed = ~along & ~against & entered
    owner = [hops.row[along], hops.row[against], hops.row[mixed], hops.row[mixed]]
    parts = [rows[along], turned(rows[against]), rows[mixed], turned(rows[mixed])]
    return np.concatenate(owner), np.concatenate(parts)
