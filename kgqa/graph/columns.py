"""All edges of a KG as flat arrays: what a frontier of a hub's neighbours costs is a copy.

Entity ``k`` has the edges ``start[k]:start[k + 1]`` of ``relation`` and ``target``, sorted by both,
once as their heads and once as their tails; ``kind`` and ``degree`` are each entity's. They are
made of the store's own edges, which stay the truth: whatever is shown is looked up there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.graph.model import Adjacency, keys_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.kept import Arrays
    from kgqa.graph.model import IntArray

MOST_EDGES = 20_000_000  # of a KG whose edges are held as columns
_MOST_OF_KEYS = 4  # a part of them, from which all edges are read
_NAMES = ("start", "relation", "target")


@dataclass(frozen=True, slots=True)
class Side:
    """Edges in compressed sparse row form by head, or by tail; see the module."""

    start: NDArray[np.int64]
    relation: NDArray[np.int32]
    target: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """All edges of a KG in both forms, by head and by tail; see the module."""

    out: Side
    into: Side
    kind: NDArray[np.uint8]
    degree: IntArray

    @classmethod
    def of(
        cls,
        edges: tuple[IntArray, IntArray, IntArray],
        kind: NDArray[np.uint8],
        degree: IntArray,
    ) -> EdgeColumns:
        """Build both sides from edges (heads, relations, tails), sorted in that order.

        ``kind`` and ``degree``: of each node.
        """
        (heads, relations, tails), count = edges, len(kind)
        back = np.argsort(tails * (int(relations.max(initial=0)) + 1) + relations, kind="stable")
        return cls(
            _side(heads, relations, tails, count),
            _side(tails[back], relations[back], heads[back], count),
            kind,
            degree,
        )

    @classmethod
    def read(cls, arrays: Arrays, count: int, relations: int, edges: int) -> EdgeColumns:
        """Build columns from saved arrays. Raises ValueError if they do not fit the KG's counts."""
        sides = []
        for side in ("out", "in"):
            one = Side(*(arrays[f"{side}_{name}"] for name in _NAMES))
            good = (
                one.start.shape == (count + 1,)
                and one.relation.shape == one.target.shape == (edges,)
                and one.start[0] == 0
                and one.start[-1] == edges
                and (np.diff(one.start) >= 0).all()
                and 0 <= one.relation.min(initial=0) <= one.relation.max(initial=0) < relations
                and 0 <= one.target.min(initial=0) <= one.target.max(initial=0) < count
            )
            if not good:
                raise ValueError("the columns are not of this graph")
            sides.append(one)
        kind, degree = arrays["kind"], arrays["degree"]
        if not kind.shape == degree.shape == (count,):
            raise ValueError("the columns are not of this graph")
        return cls(sides[0], sides[1], kind, degree)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays to save, which :meth:`read` takes."""
        sides = (("out", self.out), ("in", self.into))
        named = {f"{key}_{name}": getattr(side, name) for key, side in sides for name in _NAMES}
        return {**named, "kind": self.kind, "degree": self.degree}

    def neighbours(self, keys: IntArray, side: int) -> Adjacency:
        """Return the edges of ``keys`` as heads (``side`` 0) or tails (1); none of unknown keys."""
        one = self.into if side else self.out
        known = (keys >= 0) & (keys < len(self.kind))
        at = np.where(known, keys, 0)
        starts = one.start[at]
        counts = np.where(known, one.start[at + 1] - starts, 0)
        if len(keys) == 1:
            places: IntArray | slice = slice(int(starts[0]), int(starts[0] + counts[0]))
        else:
            ends = np.cumsum(counts)
            places = np.arange(int(counts.sum())) + np.repeat(starts - ends + counts, counts)
        target = one.target[places]
        return Adjacency(
            row=np.repeat(np.arange(len(keys)), counts),
            step=one.relation[places].astype(np.int64) * 2 + side,
            target=target.astype(np.int64),
            kind=self.kind[target],
        )

    def edges_of(self, keys: IntArray, relations: IntArray, side: int) -> Adjacency:
        """Return the edges of ascending ``keys`` whose relation is one of ``relations``.

        ``side``: as of :meth:`neighbours`. If ``keys`` are most of the KG, the edges are scanned by
        relation, not by key.
        """
        one = self.into if side else self.out
        if len(keys) * _MOST_OF_KEYS < len(self.kind):
            near = self.neighbours(keys, side)
            return near.take(np.isin(near.step // 2, relations))
        if len(relations) == 1:
            places = np.flatnonzero(one.relation == relations[0])
        else:
            places = np.flatnonzero(np.isin(one.relation, relations))
        ends = np.repeat(np.arange(len(self.kind), dtype=np.int32), np.diff(one.start))[places]
        row_of = np.full(len(self.kind), -1, np.int64)
        inside = (keys >= 0) & (keys < len(self.kind))
        row_of[keys[inside]] = np.flatnonzero(inside)
        target = one.target[places].astype(np.int64)
        near = Adjacency(
            row=row_of[ends],
            step=one.relation[places].astype(np.int64) * 2 + side,
            target=target,
            kind=self.kind[target],
        )
        return near.take(near.row >= 0)

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key; an unknown key has none."""
        known = (keys >= 0) & (keys < len(self.kind))
        at = np.where(known, keys, 0)
        return keys_array(np.where(known, self.degree[at], 0))


def _side(ends: IntArray, relations: IntArray, others: IntArray, count: int) -> Side:
    """Build one side from edges sorted by ``ends``; ``others``: the nodes at their other ends."""
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=start[1:])
    return Side(start, relations.astype(np.int32), others.astype(np.int32))
