"""Bounded walks: to all tails of a relation path, and between topic entities and an entity.

A question for "languages" wants the list, and the decoder wrote some of it: the relation path of a
decoded path is walked in the store again, and each of its tails gets a grounded path of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import ExpandedPath
from kgqa.graph.model import Kind
from kgqa.paths.ground import ground_each
from kgqa.paths.walk import (
    FIRST,
    SECOND,
    TAIL,
    PathTable,
    WalkRules,
    admissible,
    empty_paths,
    hops_out_of,
    ordered,
    ranges,
)
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath, PathEdge
    from kgqa.paths.walk import Hops

WEIGHTS = weights("answers")
FRONTIER = 20_000  # entities whose hops are read in one call
MOST_PATHS = 100_000  # in memory while one relation path is walked
MOST_ASKED = 500  # most entities tested for several topic entities
LACKING = WEIGHTS["not_reached"]
MOST_EDGES = 10_000  # most edges of an entity tested for topic entities
AGAINST: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


def paths_along(
    store: GraphStore, path: GroundedPath, rules: WalkRules, most: int, most_paths: int = MOST_PATHS
) -> PathTable | None:
    """Return one path to each tail that the relations of ``path`` lead to, ordered by tail key.

    ``rules``: the walk rules that ``path`` was found under. Of several paths to a tail the first by
    ids is taken. None if there are more than ``most`` tails, or more than ``most_paths`` paths on
    the way: the first ones by key would be an arbitrary choice.
    """
    head = store.keys_of([path.head.id])
    if head[0] < 0 or len(path.edges) > rules.hops:
        return empty_paths(rules.hops)
    steps = _steps(store, path)
    topic, taken = head, np.full((1, rules.hops, 4), -1, np.int64)
    for depth, step in enumerate(steps):
        longer = next_hops(store, topic, taken, depth, rules, partial(_takes, step), most_paths)
        if longer is None:
            return None
        topic, taken, kind = longer
        if depth < len(steps) - 1:  # walks end at values
            onward = kind != Kind.VALUE
            topic, taken = topic[onward], taken[onward]
    table = ordered(PathTable(topic, np.full(len(topic), len(steps), np.int64), taken), store)
    _, firsts = np.unique(table.ends(), return_index=True)
    return table.take(firsts) if len(firsts) <= most else None


def expanded(
    store: GraphStore,
    found: Sequence[tuple[GroundedPath, str, PathTable]],
    form: PathFormat,
) -> list[list[ExpandedPath]]:
    """Return for each path the verified paths to the other tails of its relation path.

    ``found``: decoded paths, each with its text and the paths along its relations. Paths that the
    store lacks are dropped, as is the decoded one.
    """
    every = ground_each(store, [tails for *_, tails in found], form)
    return [
        [ExpandedPath(one, source) for one in grounded if one is not None and one != path]
        for (path, source, _), grounded in zip(found, every, strict=True)
    ]


def tails(store: GraphStore, path: GroundedPath, rules: WalkRules) -> IntArray:
    """Return the keys of all entities that the relation path of ``path`` leads to from its head.

    ``rules``: the walk rules that ``path`` was found under. The walk goes over sets of entities, so
    that a hub is read once; walks that visit an entity twice are included.
    """
    frontier = store.keys_of([path.head.id])
    frontier = frontier[frontier >= 0]
    for step in _steps(store, path):
        reached = [
            hops.hop[_takes(step, hops), TAIL] for hops in hops_in_turn(store, frontier, rules)
        ]
        frontier = np.unique(np.concatenate(reached)) if reached else frontier[:0]
    return frontier


def hops_in_turn(store: GraphStore, frontier: IntArray, rules: WalkRules) -> Iterator[Hops]:
    """Yield the hops out of the distinct keys of ``frontier``, a few thousand keys at a time.

    Rows are counted within each batch.
    """
    for start in range(0, len(frontier), FRONTIER):
        yield hops_out_of(store, frontier[start : start + FRONTIER], rules)


def next_hops(
    store: GraphStore,
    topic: IntArray,
    taken: IntArray,
    depth: int,
    rules: WalkRules,
    keep: Callable[[Hops], BoolArray],
    most: int,
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return paths of ``depth`` hops extended by every permitted hop, and the kinds of their tails.

    ``topic`` ``[n]`` and ``taken`` ``[n, hops, 4]``: the paths' starts and hops; ``keep``: returns
    which hops may be taken. None if more than ``most`` would have to be joined.
    """
    ends = taken[:, depth - 1, TAIL] if depth else topic
    unique, at = np.unique(ends, return_inverse=True)
    row, hop, kind = [np.empty(0, np.int64)], [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)]
    for number, hops in enumerate(hops_in_turn(store, unique, rules)):
        mine = keep(hops)
        row.append(hops.row[mine] + number * FRONTIER)
        hop.append(hops.hop[mine])
        kind.append(hops.kind[mine].astype(np.int64))
    starts = np.searchsorted(np.concatenate(row), np.arange(len(unique) + 1)).astype(np.int64)
    counts = np.diff(starts)[at]
    if int(counts.sum()) > most:
        return None
    pick = ranges(starts[:-1][at], counts)
    topic, taken = np.repeat(topic, counts), np.repeat(taken, counts, axis=0)
    added = np.concatenate(hop)[pick]
    good = admissible(topic, taken, depth, added)
    taken = taken[good]
    taken[:, depth] = added[good]
    return topic[good], taken, np.concatenate(kind)[pick][good]


def walked_back(edge: PathEdge) -> list[bool]:
    """Return for each fact of ``edge`` whether it is walked against its direction."""
    back = [edge.facts[0].head != edge.head.id]
    if len(edge.facts) == 2:
        back.append(edge.facts[1].tail != edge.tail.id)
    return back


def _steps(store: GraphStore, path: GroundedPath) -> list[tuple[int, int]]:
    """Return two steps (2 * relation, + 1 reversed) of each edge of ``path``, -1 for no second."""
    relations = {id_: number for number, id_ in enumerate(store.relations().ids)}
    steps = []
    for edge in path.edges:
        back = walked_back(edge)
        facts = zip(edge.facts, back, strict=True)
        first, *second = [2 * relations[fact.predicate] + against for fact, against in facts]
        steps.append((first, second[0] if second else -1))
    return steps


def _takes(step: tuple[int, int], hops: Hops) -> BoolArray:
    """Return which ``hops`` have the two steps ``step`` (2 * relation, + 1 reversed)."""
    taken: BoolArray = (hops.hop[:, FIRST] == step[0]) & (hops.hop[:, SECOND] == step[1])
    return taken


def reached_by(
    store: GraphStore,
    topics: IntArray,
    entities: IntArray,
    rules: WalkRules,
) -> tuple[dict[int, frozenset[int]], IntArray]:
    """Return which of ``entities`` each topic entity has a path to, and the keys left out.

    The search runs from both ends: all hops but the last out of each topic entity, the last one
    back from the entities. Entities with more than ``MOST_EDGES`` edges are left out, and larger
    forward frontiers are not followed: what is found is always right, but may be incomplete. (A
    mediator that a walk passes twice is not noticed.)
    """
    topics, entities = np.unique(topics), np.unique(entities)
    few_topics = topics[store.degrees(topics) <= MOST_EDGES]
    few = entities[store.degrees(entities) <= MOST_EDGES]
    back = WalkRules(1, AGAINST[rules.direction], rules.mediators)
    row, before = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if rules.hops > 1:
        for number, hops in enumerate(hops_in_turn(store, few, back)):
            row.append(few[hops.row + number * FRONTIER])
            before.append(hops.hop[:, TAIL])
    ends, sources = np.concatenate(row), np.concatenate(before)
    by = {}
    for topic in few_topics.tolist():
        inside, onward = _within(store, topic, rules, max(1, rules.hops - 1), MOST_EDGES)
        beyond = ends[np.isin(sources, onward)]
        by[topic] = frozenset(np.intersect1d(entities, np.union1d(beyond, inside)).tolist())
    left = np.union1d(np.setdiff1d(topics, few_topics), np.setdiff1d(entities, few))
    return by, left


def lacking(
    store: GraphStore, topics: Iterable[TopicEntity], entities: IntArray, rules: WalkRules
) -> IntArray:
    """Return by how many topic entities each of ``entities`` is reached less than the best one.

    A topic entity lacks an entity if no path leads from it to the entity; a question with several
    topic entities asks for what all lead to. If no entity is reached by all, those reached by most
    lack nothing. Entities with too many edges to test (:func:`reached_by`) lack nothing either.
    ``entities``: keys, -1 for one that is not in the KG, the likeliest first; those after the first
    ``MOST_ASKED`` are not tested and count as the worst.
    """
    asked = np.unique(np.array([topic.key for topic in topics], np.int64))
    missing = np.zeros(len(entities), np.int64)
    if len(asked) < 2 or not len(entities):
        return missing
    first = entities[:MOST_ASKED]
    by, left_out = reached_by(store, asked, first[first >= 0], rules)
    count = sum((~np.isin(first, list(reached)) for reached in by.values()), missing[:MOST_ASKED])
    count = np.where(np.isin(first, left_out), 0, count)
    missing[:MOST_ASKED] = count - count.min()
    missing[MOST_ASKED:] = missing.max()
    return missing


def _within(
    store: GraphStore, topic: int, rules: WalkRules, hops: int, most: int
) -> tuple[IntArray, IntArray]:
    """Return the keys within ``hops`` hops of ``topic``, and those that walks continue from.

    The first are without the topic, the second without values. The search stops at a frontier of
    more than ``most`` keys.
    """
    frontier = np.array([topic], np.int64)
    inside, onward = frontier[:0], frontier
    for _ in range(hops):
        ends, kinds = [frontier[:0]], [frontier[:0]]
        for hop in hops_in_turn(store, frontier, rules):
            ends.append(hop.hop[:, TAIL])
            kinds.append(hop.kind.astype(np.int64))
        every, first = np.unique(np.concatenate(ends), return_index=True)
        walkable = every[np.concatenate(kinds)[first] != Kind.VALUE]
        inside = np.union1d(inside, every)
        frontier = np.setdiff1d(walkable, onward)
        onward = np.union1d(onward, frontier)
        if not len(frontier) or len(frontier) > most:
            break
    return np.setdiff1d(inside, [topic]), onward
