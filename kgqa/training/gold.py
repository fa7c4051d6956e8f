"""Gold relation paths of data sets: which walks in the KG they stand for.

A gold relation path is a sequence of predicates. Two of them may be one hop here: the halves of a
collapsed mediator, or a relation that was merged of both (``/a/b/c./d/e/f``). Some data sets write
predicates without their directions; those are matched loosely: a step from x to y counts if the KG
has the predicate from x to y *or* from y to x, by whatever edge the rules let the step take.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import (
    FIRST,
    MEDIATOR,
    SECOND,
    TAIL,
    Hops,
    PathTable,
    WalkRules,
    admissible,
    empty_paths,
    hops_out_of,
    ranges,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore

_MOST_PATHS = 100_000  # walks of one gold relation path that are held in memory
_MOST_TAILS = 50  # of a gold relation path that no other one confirms
_HALVES = re.compile(r"\./|\.\.")


@dataclass(frozen=True, slots=True)
class GoldPath:
    """The walks of one topic entity along a gold relation path, all with the same ``steps``.

    ``steps``: two of each hop (2 * relation, + 1 reversed), the second -1 without a mediator.
    """

    topic: int
    steps: tuple[tuple[int, int], ...]  # (first, second or -1)
    rank: int  # the gold relation path's place in its list
    tails: IntArray  # the distinct keys where the walks end
    paths: PathTable


def predicates_of(relation: str) -> tuple[str, ...]:
    """Return the predicates that a relation's id stands for, as gold relation paths spell them.

    >>> predicates_of("/people/person/spouse_s./people/marriage/spouse")
    ('people.person.spouse_s', 'people.marriage.spouse')
    """
    if not relation.startswith("/"):
        return (relation,)
    return tuple(part.strip("/").replace("/", ".") for part in _HALVES.split(relation))


def gold_paths(
    store: GraphStore,
    topics: IntArray,
    gold: Sequence[Sequence[str]],
    rules: WalkRules,
    *,
    loose: bool,
) -> list[GoldPath]:
    """Return the walks along gold relation paths out of ``topics`` (keys), in order of ``gold``.

    ``gold``: relation paths as predicates, ``^`` before a reversed one; ``loose``: they state no
    direction. A relation path with too many walks gives none.
    """
    reading = _Reading(store, rules, loose)
    paths = []
    for rank, path in enumerate(gold):
        table = reading.walks(np.unique(topics), tuple(path))
        for topic, steps, rows in _by_steps(table):
            of = table.take(rows)
            paths.append(GoldPath(topic, steps, rank, np.unique(of.ends()), of))
    return paths


def _by_steps(table: PathTable) -> Iterator[tuple[int, tuple[tuple[int, int], ...], IntArray]]:
    """Yield (topic, steps, rows of ``table``) of the paths with equal steps from one topic.

    Steps are two a hop (2 * relation, + 1 reversed), the second -1 without a mediator.
    """
    if not len(table):
        return
    flat = table.hops[:, :, (FIRST, SECOND)].reshape(len(table), -1)
    signature = np.concatenate([table.topic[:, None], flat], axis=1)
    _, group = np.unique(signature, axis=0, return_inverse=True)
    group = group.reshape(-1)
    for number in range(int(group.max()) + 1):
        rows = np.flatnonzero(group == number)
        first = rows[0]
        hops = table.hops[first, : table.length[first]][:, (FIRST, SECOND)]
        yield int(table.topic[first]), tuple((int(a), int(b)) for a, b in hops), rows


def agreed(paths: Sequence[GoldPath]) -> IntArray:
    """Return the keys that the most gold relation paths lead to: the expected answers.

    Each leads to the answers and perhaps beyond them, so what several have in common are the
    answers. If nothing is in common, the first one's tails are taken, unless they are too many.
    """
    by_rank: dict[int, set[int]] = {}
    for path in paths:
        by_rank.setdefault(path.rank, set()).update(path.tails.tolist())
    support = Counter(tail for tails in by_rank.values() for tail in tails)
    if not support:
        return np.empty(0, np.int64)
    most = max(support.values())
    common = {tail for tail, count in support.items() if count == most}
    if most == 1:
        first = by_rank[min(by_rank)]
        common = first if len(first) <= _MOST_TAILS else set()
    return np.array(sorted(common), np.int64)


# topics and hops taken, [n, L, 4], of walks that have used as many of a gold path's predicates
_Walks: TypeAlias = "tuple[IntArray, IntArray]"


class _Reading:
    """Walks gold relation paths, whose predicates are spelt as in a data set, in a KG."""

    def __init__(self, store: GraphStore, rules: WalkRules, loose: bool) -> None:
        self._store = store
        self._rules = rules
        self._loose = loose
        relations = store.relations()
        key = {id_: number for number, id_ in enumerate(relations.ids)}
        self._relation = {predicates_of(id_): number for id_, number in key.items()}
        self._relation |= {(id_,): number for id_, number in key.items()}
        self._inverse = {
            number: key[other]
            for number, other in enumerate(relations.inverses)
            if other is not None and other in key
        }

    def walks(self, topics: IntArray, gold: tuple[str, ...]) -> PathTable:
        """Return all walks out of ``topics`` along the predicates ``gold``.

        An empty table if they are too many.
        """
        hops = self._rules.hops
        level: dict[int, _Walks] = {0: (topics, np.full((len(topics), hops, 4), -1, np.int64))}
        done: list[tuple[int, _Walks]] = []
        for depth in range(hops):
            longer: dict[int, list[_Walks]] = {}
            for used, walks in level.items():
                made = self._extended(walks, depth, gold, used)
                if made is None:
                    return empty_paths(hops)
                for then, part in made:
                    if then == len(gold):
                        done.append((depth + 1, part))
                    elif depth + 1 < hops:
                        longer.setdefault(then, []).append(part)
            level = {then: _joined(parts) for then, parts in longer.items()}
        if not done:
            return empty_paths(hops)
        length = np.repeat([depth for depth, _ in done], [len(walks[0]) for _, walks in done])
        whole, taken = _joined([walks for _, walks in done])
        return PathTable(whole, length.astype(np.int64), taken)

    def _extended(
        self, walks: _Walks, depth: int, gold: tuple[str, ...], used: int
    ) -> list[tuple[int, _Walks]] | None:
        """Extend walks of ``depth`` hops by one hop; return them by number of predicates used.

        ``used``: how many of ``gold`` the walks realise so far. None if there are too many walks.
        """
        starting, before = walks
        ends = before[:, depth - 1, TAIL] if depth else starting
        unique, at = np.unique(ends, return_inverse=True)
        hops = hops_out_of(self._store, unique, self._rules)
        reads = self._read(unique, hops, gold, used)
        longer = []
        for count in np.unique(reads[reads > 0]).tolist():
            # a walk ends at a value, so only the last hop may lead to one
            mine = reads == count
            if used + count < len(gold):
                mine &= hops.kind != Kind.VALUE
            row, hop = hops.row[mine], hops.hop[mine]
            starts = np.searchsorted(row, np.arange(len(unique) + 1))
            counts = np.diff(starts)[at]
            if int(counts.sum()) > _MOST_PATHS:
                return None
            pick = ranges(starts[:-1][at], counts)
            topic, taken = np.repeat(starting, counts), np.repeat(before, counts, axis=0)
            good = admissible(topic, taken, depth, hop[pick])
            topic, taken = topic[good], taken[good]
            taken[:, depth] = hop[pick][good]
            longer.append((used + count, (topic, taken)))
        return longer

    def _read(self, unique: IntArray, hops: Hops, gold: tuple[str, ...], used: int) -> IntArray:
        """Return how many of the next predicates of ``gold`` each hop realises, 0 for none.

        ``unique``: the keys that the rows of ``hops`` index; ``used``: how many predicates come
        before.
        """
        reads = np.zeros(len(hops.row), np.int64)
        hop = hops.hop
        direct = hop[:, MEDIATOR] < 0
        source, middle, tail = unique[hops.row], hop[:, MEDIATOR], hop[:, TAIL]
        # a predicate may be half of a collapsed mediator, so a hop uses one or two of them
        for step, count in self._steps(gold, used):
            reads[direct & (hop[:, FIRST] == step)] = count
            for beyond, more in self._steps(gold, used + count):
                reads[~direct & (hop[:, FIRST] == step) & (hop[:, SECOND] == beyond)] = count + more
        if not self._loose:
            return reads
        open_ = direct & (reads == 0)
        reads[open_] = self._says(gold, used, source[open_], hop[open_, FIRST], tail[open_])
        open_ = ~direct & (reads == 0)
        if used + 1 < len(gold):
            first = self._says(gold, used, source[open_], hop[open_, FIRST], middle[open_])
            second = self._says(gold, used + 1, middle[open_], hop[open_, SECOND], tail[open_])
            reads[open_] = 2 * (first & second)
        return reads

    def _steps(self, gold: tuple[str, ...], used: int) -> list[tuple[int, int]]:
        """Return (step, predicates used) for each step that the next predicates of ``gold`` allow.

        A step is 2 * relation, + 1 reversed; ``used``: how many predicates are used already.
        """
        steps = []
        for count in range(1, len(gold) - used + 1):
            part = gold[used : used + count]
            back = all(predicate.startswith("^") for predicate in part)
            key = tuple(predicate[1:] for predicate in reversed(part)) if back else part
            relation = self._relation.get(key)
            if relation is None:
                continue
            steps.append((2 * relation + back, count))
            if back and relation in self._inverse:
                steps.append((2 * self._inverse[relation], count))
        return steps

    def _says(
        self, gold: tuple[str, ...], used: int, start: IntArray, step: IntArray, end: IntArray
    ) -> BoolArray:
        """Return for each edge whether the next predicate joins its ends, in either direction.

        ``step``: of each edge (2 * relation, + 1 reversed); ``start``, ``end``: keys.
        """
        relation = self._relation.get((gold[used].removeprefix("^"),))
        if relation is None:
            return np.zeros(len(start), np.bool_)
        says: BoolArray = step // 2 == relation
        left = np.flatnonzero(~says)
        asked = np.full(len(left), relation, np.int64)
        says[left] = self._store.has_edges(end[left], asked, start[left])
        return says


def _joined(parts: Sequence[_Walks]) -> _Walks:
    """Concatenate several sets of walks."""
    topics, taken = zip(*parts, strict=True)
    return np.concatenate(topics), np.concatenate(taken)
