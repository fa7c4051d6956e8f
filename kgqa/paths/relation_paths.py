"""All relation paths out of a topic entity, with their paths; of a hub, the likely ones only.

A hub of a large KG has millions of paths, but no more than some thousands of relation paths. These
are found from a sample of what each of its relations leads to; once it is known how likely each is,
the paths of the likely ones are walked until a budget is spent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.deadline import check_deadline
from kgqa.graph.model import Kind
from kgqa.graph.store import calls_are_requests, foresee
from kgqa.paths.walk import (
    FIRST,
    MEDIATOR,
    SECOND,
    TAIL,
    PathTable,
    WalkRules,
    admissible,
    hops_out_of,
    joined_tables,
    ordered,
    ranges,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.schema import Hop

MOST_PATHS = 300_000  # of a topic entity; one with more is a hub
_MOST_READ = 3_000_000  # edges that are read to walk a hub's likely relation paths
_SAMPLE = 64  # entities that each relation of a hub leads to, for what is beyond them
_SAMPLED = 500_000  # edges of all of these, about
_TOGETHER = 200_000  # edges that are read at a time
_LEAST = 1e-3  # part of the likeliest one's probability from which a relation path is walked


@dataclass(frozen=True, slots=True)
class RelationPaths:
    """The paths out of one topic entity, grouped by relation path.

    ``steps``: the hops of each relation path, each as two steps (2 * relation, + 1 reversed), the
    second -1 without a mediator; ``of``: the relation path of each path of ``table``; ``closed``:
    relation paths that were not walked completely.
    """

    table: PathTable
    steps: tuple[tuple[Hop, ...], ...]
    of: IntArray
    closed: frozenset[int] = frozenset()


def relation_paths(store: GraphStore, topic: int, rules: WalkRules) -> tuple[RelationPaths, int]:
    """Return the relation paths out of ``topic``, and the limit of hops that they were walked to.

    The limit falls to two hops if there are more than ``MOST_PATHS`` longer paths. If there are
    still too many, the relation paths of two hops come from a sample and are closed: :func:`opened`
    walks the likely ones. Raises GraphError.
    """
    topics = np.array([topic])
    foresee_paths(store, topics, rules)
    one_hop = hops_out_of(store, topics, rules)
    beyond = 0
    if rules.direction == "both" and rules.hops > 1:  # it can be counted before it is read
        beyond = store.degrees(np.unique(one_hop.hop[:, TAIL])).sum()
    if beyond <= 3 * MOST_PATHS:
        for hops in range(rules.hops, 1, -1):
            table, over = walk(store, topics, replace(rules, hops=hops), MOST_PATHS, one_hop)
            if not len(over):
                return _grouped(store, table), hops
    near = PathTable(
        np.full(len(one_hop.row), topic), np.ones(len(one_hop.row), np.int64), one_hop.hop[:, None]
    )
    batch = _grouped(store, near)
    if rules.hops == 1 or not batch.steps:
        return batch, rules.hops
    # evenly by relation: a rare one must not be lost beside one with a million tails
    quota = _SAMPLED // len(batch.steps)
    sampled = []
    for at in range(len(batch.steps)):
        rows = np.flatnonzero(batch.of == at)
        rows = rows[np.unique(np.linspace(0, len(rows), _SAMPLE, endpoint=False, dtype=np.int64))]
        edges = np.cumsum(store.degrees(batch.table.ends()[rows]))
        sampled.append(rows[: max(1, int(np.searchsorted(edges, quota, "right")))])
    seen: set[tuple[Hop, ...]] = set()
    for part in _batches(store, batch.table.take(np.concatenate(sampled))):
        seen.update(_grouped(store, _next_hop(store, part, rules)).steps)
    steps = (*batch.steps, *sorted(seen))
    return replace(batch, steps=steps, closed=frozenset(range(len(batch.steps), len(steps)))), 2


def few_paths(store: GraphStore, topic: int, rules: WalkRules, most: int) -> RelationPaths | None:
    """Return the relation paths out of ``topic``; None if it has more than ``most`` paths.

    Raises GraphError.
    """
    table, over = walk(store, np.array([topic]), rules, most)
    return None if len(over) else _grouped(store, table)


def foresee_paths(store: GraphStore, topics: IntArray, rules: WalkRules) -> None:
    """Have an endpoint store prefetch the neighbourhoods of topics and of their neighbours.

    Do nothing for other stores.
    """
    by_requests: bool = calls_are_requests(store)
    if by_requests:
        topics = np.unique(topics)
        foresee(store, topics, "both")  # what leads to it tells it from others of its name
        ends = np.unique(hops_out_of(store, topics, rules).hop[:, (MEDIATOR, TAIL)])
        foresee(store, ends[ends >= 0], "both")


def opened(
    store: GraphStore, paths: RelationPaths, probability: NDArray[np.float64], rules: WalkRules
) -> RelationPaths:
    """Return ``paths`` with its most probable closed relation paths walked.

    ``probability``: of each relation path. Those far below the best are not walked; the others are,
    in descending order, until the edge budget is spent. What was not walked completely stays
    ``closed``. Raises GraphError.
    """
    if not paths.closed:
        return paths
    least = _LEAST * probability.max()
    order = sorted(paths.closed, key=lambda at: (-probability[at], at))
    likely = {paths.steps[at]: at for at in order if probability[at] >= least}
    tables, closed, left = [paths.table], set(likely.values()), _MOST_READ
    for start in dict.fromkeys(steps[:1] for steps in likely):
        wanted = {steps[1]: at for steps, at in likely.items() if steps[:1] == start}
        codes = _codes(np.array(list(wanted)))
        near = paths.table.take(np.flatnonzero(paths.of == paths.steps.index(start)))
        for part in _batches(store, near):
            if left <= 0:
                break
            table = _next_hop(store, part, rules)
            left -= len(table)
            fits = np.isin(_codes(table.hops[:, 1, (FIRST, SECOND)]), codes)
            tables.append(table.take(np.flatnonzero(fits)))
            if sum(map(len, tables)) > MOST_PATHS:
                left = 0
        else:
            closed.difference_update(wanted.values())
    every = _grouped(store, joined_tables(tables))
    place = {steps: at for at, steps in enumerate(paths.steps)}
    of = np.array([place[steps] for steps in every.steps])[every.of]
    return RelationPaths(every.table, paths.steps, of, frozenset(closed))


def _grouped(store: GraphStore, table: PathTable) -> RelationPaths:
    """Return the paths of ``table``, sorted by ids, grouped by their relation paths."""
    table = ordered(table, store)
    steps = table.hops[:, :, (FIRST, SECOND)].reshape(len(table), 2 * table.hops.shape[1])
    base, codes = int(steps.max(initial=0)) + 2, np.zeros(len(steps), np.int64)
    if base ** steps.shape[1] < 1 << 63:  # numbers are sorted ten times as fast as rows
        for column in steps.T:
            codes = codes * base + column + 1
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
        unique = steps[first]
    else:
        unique, of = np.unique(steps, axis=0, return_inverse=True)
    paths = tuple(
        tuple((row[at], row[at + 1]) for at in range(0, len(row), 2) if row[at] >= 0)
        for row in unique.tolist()
    )
    return RelationPaths(table, paths, of.reshape(-1))


def _batches(store: GraphStore, table: PathTable) -> Iterator[PathTable]:
    """Yield, in batches, the one-hop paths that can be extended.

    Those ending in values are dropped.
    """
    ends, of = np.unique(table.ends(), return_inverse=True)
    onward = np.flatnonzero(store.entities(ends).kinds[of] != Kind.VALUE)
    number = np.cumsum(store.degrees(ends)[of][onward]) // _TOGETHER
    for rows in np.split(onward, np.flatnonzero(np.diff(number)) + 1):
        check_deadline()
        yield table.take(rows)


def _next_hop(store: GraphStore, table: PathTable, rules: WalkRules) -> PathTable:
    """Return one-hop paths extended by every next hop that leads to a node not yet on the path."""
    ends, of = np.unique(table.ends(), return_inverse=True)
    hops = hops_out_of(store, ends, rules)
    starts = hops.offsets(len(ends))
    counts = np.diff(starts)[of]
    taken = np.repeat(table.hops, counts, axis=0)
    added = hops.hop[ranges(starts[:-1][of], counts)]
    topic = np.repeat(table.topic, counts)
    good = admissible(topic, taken, 1, added)
    both = np.concatenate([taken[good], added[good, None]], axis=1)
    return PathTable(topic[good], np.full(len(both), 2), both)


def _codes(hops: IntArray) -> IntArray:
    """Return each hop's two steps (2 * relation, + 1 reversed), ``[n, 2]``, as one number."""
    codes: IntArray = hops[:, 0] * (1 << 31) + hops[:, 1]
    return codes
