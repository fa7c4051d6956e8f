"""Walking up to L hops out of many entities at once, over any store, as integer arrays.

A hop is one edge, or the two through a collapsed mediator. A walk visits no node twice and ends at
a value. An entity with more paths than ``cap`` is reported and gets none.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.deadline import check_deadline
from kgqa.errors import GraphError, UsageError
from kgqa.graph.model import DIRECTIONS, Direction, Kind
from kgqa.graph.store import calls_are_requests, id_places
from kgqa.registry import Mediators as Mediators  # noqa: TC001 - others import it from here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import EndpointStore, GraphStore

MOST_HOPS = 32  # of a path; each is room in every row of a table
MOST_WALKED = 20_000_000  # edges read, or hops of paths made, at once: 0.6 GB a copy
FIRST, MEDIATOR, SECOND, TAIL = range(4)  # the columns of a hop


@dataclass(frozen=True, slots=True)
class WalkRules:
    """Which walks count as paths.

    At most ``hops``; a kept mediator is a node like any other. ``types``: whether type relations
    (``KGInfo.type_relations``) are walked; a class joins all of its instances, so that paths
    through one say nothing.
    """

    hops: int = 2
    direction: Direction = "out"
    mediators: Mediators = "collapse"
    types: bool = False

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise UsageError(f"A path needs at least one hop, not {self.hops}.")
        if self.hops > MOST_HOPS:
            raise UsageError(
                f"A path has at most {MOST_HOPS} hops, not {self.hops}.", "Ask for fewer `hops`."
            )
        if self.direction not in DIRECTIONS:
            raise UsageError(
                f"A walk has no direction '{self.direction}'.", f"It is one of {DIRECTIONS}."
            )
        if self.mediators not in ("collapse", "keep"):
            raise UsageError(
                f"Mediators cannot be '{self.mediators}'.",
                "They are collapsed ('collapse') or kept ('keep').",
            )

    @property
    def fingerprint(self) -> str:
        """A hash of the rules."""
        rules = {name: value for name, value in asdict(self).items() if name != "types" or value}
        return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Hops:
    """All hops out of a frontier, sorted by ``row``, a position in the frontier.

    ``hop``: columns ``FIRST`` (step), ``MEDIATOR`` (key or -1), ``SECOND`` (the step out of the
    mediator or -1), ``TAIL``. A step is 2 * relation, + 1 reversed.
    """

    row: IntArray
    hop: IntArray  # [n, 4]
    kind: NDArray[np.uint8]

    def offsets(self, rows: int) -> IntArray:
        """Return where the hops of each frontier entry start, ``[rows + 1]``, the last is the end.

        ``rows``: the number of frontier entries.
        """
        starts: IntArray = np.searchsorted(self.row, np.arange(rows + 1)).astype(np.int64)
        return starts


@dataclass(frozen=True, slots=True)
class PathTable:
    """Paths of topics: ``topic``, ``length`` ``[n]``; ``hops`` ``[n, L, 4]``, padded by -1."""

    topic: IntArray
    length: IntArray
    hops: IntArray

    def __len__(self) -> int:
        return len(self.topic)

    def of(self, topic: int) -> PathTable:
        """Return the paths of one topic entity."""
        return self.take(np.flatnonzero(self.topic == topic))

    def take(self, rows: IntArray) -> PathTable:
        """Return the table of the paths at the row numbers ``rows``, in their order."""
        return PathTable(self.topic[rows], self.length[rows], self.hops[rows])

    def ends(self) -> IntArray:
        """Return the key of each path's last entity, ``[n]``."""
        ends: IntArray = self.hops[np.arange(len(self)), self.length - 1, TAIL]
        return ends


def empty_paths(hops: int) -> PathTable:
    """Return a table without a path, with room for ``hops`` hops."""
    none = np.empty(0, np.int64)
    return PathTable(none, none, np.empty((0, hops, 4), np.int64))


def joined_tables(tables: Sequence[PathTable]) -> PathTable:
    """Concatenate at least one table, padded to the largest number of hops."""
    if len(tables) == 1:
        return tables[0]
    most = max(table.hops.shape[1] for table in tables)
    room = [most - table.hops.shape[1] for table in tables]
    wide = [
        np.pad(table.hops, [(0, 0), (0, more), (0, 0)], constant_values=-1) if more else table.hops
        for table, more in zip(tables, room, strict=True)
    ]
    return PathTable(
        np.concatenate([table.topic for table in tables]),
        np.concatenate([table.length for table in tables]),
        np.concatenate(wide),
    )


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Return ``starts[i], starts[i] + 1, …`` (``counts[i]`` of them) for each i, concatenated.

    >>> ranges(np.array([5, 9]), np.array([2, 1])).tolist()
    [5, 6, 9]
    """
    total = int(counts.sum())
    indices: IntArray = np.repeat(starts - np.cumsum(counts) + counts, counts)
    indices += np.arange(total, dtype=np.int64)
    return indices


def hops_out_of(store: GraphStore, frontier: IntArray, rules: WalkRules) -> Hops:
    """Return every hop out of the distinct keys of ``frontier``, in one or two store calls.

    Hops back to the same entity are left out, as are type relations unless ``rules.types``.
    Collapsed mediators are passed through, but not two of them in a row. Raises GraphError if
    mediators join too many edges to hold.
    """
    edges = store.neighbours(frontier, rules.direction)
    keep = edges.target != frontier[edges.row]
    if (known := store.info.type_relations) and not rules.types:
        ids = store.relations().ids
        keep &= ~np.isin(edges.step // 2, [ids.index(id_) for id_ in known if id_ in ids])
    row, step = edges.row[keep], edges.step[keep]
    target, kind = edges.target[keep], edges.kind[keep]
    nothing = np.full(len(row), -1, np.int64)
    hop = np.stack([step, nothing, nothing, target], axis=1)
    if rules.mediators == "keep":
        return Hops(row, hop, kind)
    through = kind == Kind.MEDIATOR
    direct = Hops(row[~through], hop[~through], kind[~through])
    if not through.any():
        return direct
    mediators, position = np.unique(target[through], return_inverse=True)
    beyond = store.neighbours(mediators, rules.direction)
    starts = np.searchsorted(beyond.row, np.arange(len(mediators) + 1))
    counts = np.diff(starts)[position]
    _hold(int(counts.sum()))
    pick = ranges(starts[:-1][position], counts)
    source_row = np.repeat(row[through], counts)
    into = np.repeat(np.stack([step, target], axis=1)[through], counts, axis=0)
    joined = np.concatenate([into, np.stack([beyond.step, beyond.target], axis=1)[pick]], axis=1)
    joined_kind = beyond.kind[pick]
    # two mediators in a row do not make a hop; a fact does not lead back to where it was entered
    good = (joined_kind != Kind.MEDIATOR) & (joined[:, TAIL] != frontier[source_row])
    all_rows = np.concatenate([direct.row, source_row[good]])
    order = np.argsort(all_rows, kind="stable")
    return Hops(
        all_rows[order],
        np.concatenate([direct.hop, joined[good]])[order],
        np.concatenate([direct.kind, joined_kind[good]])[order],
    )


def admissible(topic: IntArray, hops: IntArray, depth: int, added: IntArray) -> BoolArray:
    """Return which ``added`` hops ``[n, 4]`` visit only nodes that are not yet on their walk.

    ``topic``, ``hops``: the walks; ``depth``: the number of their hops so far.
    """
    good: BoolArray = added[:, TAIL] != topic
    for level in range(depth):
        good &= added[:, TAIL] != hops[:, level, TAIL]
        good &= added[:, TAIL] != hops[:, level, MEDIATOR]
        through = added[:, MEDIATOR]
        good &= (through < 0) | (
            (through != hops[:, level, MEDIATOR]) & (through != hops[:, level, TAIL])
        )
    good &= added[:, MEDIATOR] != topic
    return good


def walk(
    store: GraphStore,
    topics: IntArray,
    rules: WalkRules,
    cap: int | None = None,
    first: Hops | None = None,
) -> tuple[PathTable, IntArray]:
    """Return every path out of distinct ``topics``, and the topics with more than ``cap`` paths.

    The latter have no path in the table. ``first``: the hops out of sorted ``topics``, if they were
    read before. Raises GraphError, before memory is taken, if the paths
    are too many to hold and ``cap`` is None.
    """
    over = np.zeros(0, np.int64)
    frontier_topic = topics
    frontier_end = topics
    taken = np.full((len(topics), rules.hops, 4), -1, np.int64)
    totals: dict[int, int] = {}
    levels: list[PathTable] = []
    most = MOST_WALKED // rules.hops  # each path has room for all hops
    for depth in range(rules.hops):
        if not len(frontier_topic):
            break
        check_deadline()
        unique, position = np.unique(frontier_end, return_inverse=True)
        if cap is None:
            _hold(int(store.degrees(unique).sum()))
        hops = hops_out_of(store, unique, rules) if depth or first is None else first
        starts = hops.offsets(len(unique))
        counts = np.diff(starts)[position]
        if cap is None:
            _hold(int(counts.sum()) + sum(map(len, levels)), most)
        else:
            # before joining: no hub may fill the memory only to be dropped
            bound, bound_topic = _sum_by(frontier_topic, counts)
            over = np.union1d(over, bound_topic[bound > min(3 * cap, most)])
            counts = np.where(np.isin(frontier_topic, over), 0, counts)
        pick = ranges(starts[:-1][position], counts)
        topic = np.repeat(frontier_topic, counts)
        taken = np.repeat(taken, counts, axis=0)
        added = hops.hop[pick]
        good = admissible(topic, taken, depth, added)
        topic, taken, added, kind = topic[good], taken[good], added[good], hops.kind[pick][good]
        taken[:, depth] = added
        if cap is not None:
            per_topic, found_topic = _sum_by(topic, np.ones(len(topic), np.int64))
            for key, number in zip(found_topic.tolist(), per_topic.tolist(), strict=True):
                totals[key] = totals.get(key, 0) + number
            over = np.union1d(over, np.array([k for k, n in totals.items() if n > cap], np.int64))
            left = ~np.isin(topic, over)
            topic, taken, added, kind = topic[left], taken[left], added[left], kind[left]
        length = np.full(len(topic), depth + 1, np.int64)
        levels.append(PathTable(topic, length, taken))
        onward = kind != Kind.VALUE
        frontier_topic, taken = topic[onward], taken[onward]
        frontier_end = added[onward, TAIL]
    if not levels:
        return empty_paths(rules.hops), over
    table = joined_tables(levels)
    if len(over):
        table = table.take(np.flatnonzero(~np.isin(table.topic, over)))
    return table, over


def _hold(count: int, most: int = MOST_WALKED) -> None:
    """Raise GraphError if ``count`` edges or paths are more than ``most``."""
    if count > most:
        raise GraphError(
            f"There are {count:,} edges or paths to walk at once here, and {most:,} can be.",
            "Ask for fewer `hops`, or about an entity that is less connected.",
        )


def _sum_by(keys: IntArray, amounts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sums of ``amounts`` by key, and the distinct keys, both in ascending key order."""
    unique, position = np.unique(keys, return_inverse=True)
    return np.bincount(position, weights=amounts, minlength=len(unique)).astype(np.int64), unique


def ordered(table: PathTable, store: GraphStore | None = None) -> PathTable:
    """Return the paths of ``table`` in :func:`order_of`."""
    return table.take(order_of(table, store))


def order_of(table: PathTable, store: GraphStore | EndpointStore | None = None) -> IntArray:
    """Return the row order that sorts paths by ids, so that "first" does not depend on a store.

    Without ``store``, from which the ids come, paths are sorted by keys.
    """
    hops, topic = table.hops, table.topic
    if calls_are_requests(store):
        nodes = hops[:, :, (MEDIATOR, TAIL)]
        keys = np.unique(np.concatenate([topic, nodes[nodes >= 0]]))
        places = id_places(store, keys)
        hops, topic = hops.copy(), places[np.searchsorted(keys, topic)]
        for part in (MEDIATOR, TAIL):
            there = hops[:, :, part] >= 0
            hops[there, part] = places[np.searchsorted(keys, hops[there, part])]
    columns = [hops[:, level, part] for level in range(hops.shape[1]) for part in range(4)]
    order: IntArray = np.lexsort([*reversed(columns), topic])
    return order


@dataclass(frozen=True, slots=True)
class RelationPath:
    """The paths of one topic that have the same ``steps`` and lead to answers.

    ``f1``: of their tails. ``steps``: two of each hop (2 * relation, + 1 reversed), the second -1
    without a mediator.
    """

    topic: int
    steps: tuple[tuple[int, int], ...]
    f1: float
    tails: IntArray
    paths: PathTable


def relation_paths_to(
    store: GraphStore, topics: IntArray, answers: IntArray, rules: WalkRules, cap: int
) -> list[RelationPath]:
    """Return the relation paths from ``topics`` to ``answers``, best F1 first, then by hops, steps.

    GCR (arXiv 2410.13080, sec. 4.2) trains on every shortest path; ranking them by their tails is
    this project's refinement. With more than ``cap`` paths, topics are walked one hop less.
    """
    table, over = walk(store, np.unique(topics), rules, cap)
    while len(over) and rules.hops > 1:
        rules = type(rules)(rules.hops - 1, rules.direction, rules.mediators)
        more, over = walk(store, over, rules, cap)
        table = joined_tables([table, more])
    if not len(table):
        return []
    steps_of = table.hops[:, :, (FIRST, SECOND)]
    signature = np.concatenate([table.topic[:, None], steps_of.reshape(len(table), -1)], axis=1)
    _, group = np.unique(signature, axis=0, return_inverse=True)
    group = group.reshape(-1)
    ends = table.ends()
    hit = np.isin(ends, answers)
    gold = set(answers.tolist())
    parts = []
    for number in np.unique(group[hit]).tolist():
        members = np.flatnonzero(group == number)
        tails = np.unique(ends[members])
        right = len(gold.intersection(tails.tolist()))
        f1 = 2 * right / (len(tails) + len(gold))
        first = members[0]
        steps = tuple((a, b) for a, b in steps_of[first, : table.length[first]].tolist())
        paths = table.take(members[hit[members]])
        parts.append(RelationPath(int(table.topic[first]), steps, f1, tails, paths))
    parts.sort(key=lambda path: (-path.f1, len(path.steps), path.steps, path.topic))
    return parts
