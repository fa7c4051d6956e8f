"""Exact k-best search for the paths of a walk that end in an entity.

A path's score is the mean of the scores of its relations (KG-CoT, IJCAI 2024, sec. 3.2). How well
the beginning of a path can score at most is known beforehand (dynamic programming over the levels);
the search goes back from the entity, the most promising end first, so the first whole paths are the
best. A path visits no entity and no mediator twice, as :mod:`kgqa.paths.walk` has it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.walk import Level

    Scores: TypeAlias = NDArray[np.float64]
    Hop: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class FoundPath:
    """A path as ids: its topic entity's key, its hops (columns of a hop each), and its score."""

    topic: int
    hops: tuple[Hop, ...]
    score: float


@dataclass(frozen=True, slots=True)
class _Edges:
    """The edges of a level by the pair that they lead to; pair i's begin at ``starts[i]``.

    ``order``: edge numbers, for each pair by descending ``best``; ``best``: the score of the best
    path that ends with an edge.
    """

    starts: IntArray
    order: IntArray
    best: Scores


@dataclass(order=True, slots=True)
class _Way:
    """A partial path from its end: ``place`` is the next edge into ``pair`` at ``depth`` to try.

    Sorted by an upper bound of a whole path's score, then by order of discovery.
    """

    rank: float
    number: int
    length: int = field(compare=False)
    depth: int = field(compare=False)
    pair: int = field(compare=False)
    place: int = field(compare=False)
    scored: float = field(compare=False)
    hops: tuple[Hop, ...] = field(compare=False)


class PathSearch:
    """Finds the best paths of a walk; the rows of ``levels`` start at ``topics`` (keys)."""

    def __init__(self, levels: Sequence[Level], topics: IntArray) -> None:
        self._levels = levels
        self._topics = topics
        self._edges: list[_Edges] = []
        self._reach: list[Scores] = [np.zeros(len(levels[0].row))]  # the best sum up to each pair
        for level in levels[1:]:
            best = self._reach[-1][level.source] + level.passed.astype(np.float64)
            # of one pair the best edge first; equal ones in the order of the store
            order = np.lexsort((-best, level.target))
            starts = np.searchsorted(level.target[order], np.arange(len(level.row) + 1))
            self._edges.append(_Edges(starts, order, best))
            self._reach.append(best[order[starts[:-1]]])

    def best(self, node: int, most: int) -> list[FoundPath]:
        """Return up to ``most`` best paths that end in the entity of key ``node``, best first.

        Paths that differ only in a collapsed mediator count as one.
        """
        paths: list[FoundPath] = []
        seen = set()
        for path in self._paths(node):
            said = (path.topic, tuple((hop[FIRST], hop[SECOND], hop[TAIL]) for hop in path.hops))
            if said not in seen:
                seen.add(said)
                paths.append(path)
                if len(paths) == most:
                    break
        return paths

    def _paths(self, node: int) -> Iterator[FoundPath]:
        """Yield the paths that end in an entity, the best first."""
        heap: list[_Way] = []
        number = 0

        def push(length: int, depth: int, pair: int, place: int, way: _Way | None) -> None:
            """Push the extension of a partial path by the edge number ``place`` into ``pair``.

            ``way``: the partial path, None at the end of a path. Does nothing after the pair's last
            edge.
            """
            nonlocal number
            edges = self._edges[depth - 1]
            at = int(edges.starts[pair]) + place
            if at >= int(edges.starts[pair + 1]):
                return
            scored, hops = (way.scored, way.hops) if way else (0.0, ())
            bound = (float(edges.best[edges.order[at]]) + scored) / length
            number += 1
            heapq.heappush(heap, _Way(-bound, number, length, depth, pair, place, scored, hops))

        for depth, level in enumerate(self._levels[1:], 1):
            for pair in np.flatnonzero(level.node == node).tolist():
                push(depth, depth, pair, 0, None)
        while heap:
            way = heapq.heappop(heap)
            push(way.length, way.depth, way.pair, way.place + 1, way)
            level, edges = self._levels[way.depth], self._edges[way.depth - 1]
            edge = int(edges.order[int(edges.starts[way.pair]) + way.place])
            first, mediator, second, tail = level.hop[edge].tolist()
            hop = (first, mediator, second, tail)
            if not _fits(hop, way.hops):
                continue
            scored = way.scored + float(level.passed[edge])
            hops = (hop, *way.hops)
            source = int(level.source[edge])
            if way.depth == 1:
                topic = int(self._topics[self._levels[0].row[source]])
                yield FoundPath(topic, hops, scored / way.length)
                continue
            longer = _Way(0.0, 0, way.length, way.depth, way.pair, 0, scored, hops)
            push(way.length, way.depth - 1, source, 0, longer)


def _fits(hop: Hop, after: tuple[Hop, ...]) -> bool:
    """Return whether a hop's tail and mediator are not among the nodes of the hops ``after`` it."""
    # the walk itself sees to it that nothing comes back to the topic entity
    visited = {hop_after[place] for hop_after in after for place in (MEDIATOR, TAIL)} - {-1}
    return hop[TAIL] not in visited and hop[MEDIATOR] not in visited
