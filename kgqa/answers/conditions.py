"""Filters the entities of a relation path by the further conditions of a question.

Beside the path a question names entities ("which of X's papers appeared at Y"), compares values
("that opened after 1975") or asks for an extreme ("the oldest"). Each is looked for among the edges
of the path's last entity, of the entities between, and of its mediators (the fact's qualifiers);
which relation it is about is decided by words. One that no path meets is left out. What a question
denies ("that were never restored", "not by Y") is looked for in the same way, and its paths are
left out. Only paths that were walked already are chosen from: a condition never leads anywhere
itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kgqa.answers.answer import Condition
from kgqa.graph.quantities import read_value
from kgqa.graph.store import foresee
from kgqa.paths.ground import ground
from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, PathTable, hops_out_of, joined_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.quantities import Kind, Value
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.understanding.literals import ValueCondition

Step: TypeAlias = "tuple[int, int]"
Place: TypeAlias = "tuple[int, int]"  # the hop of a path, and TAIL or MEDIATOR
Fits: TypeAlias = "Callable[[Candidate | str, Sequence[Step]], Sequence[float]]"
"""The probability of each relation out of x, in a question about x, or if x is what is named."""

MOST_PATHS = 2_000  # most paths that are filtered
_CONSIDERED = 0.3  # part of the best score from which entities are tested
_UNMET = 0.1  # factor of the score of an entity that fails the conditions
_MOST_EDGES = 500  # an entity with more is not tested
_MIN_PROBABILITY = 0.5  # least probability of a value's relation, among all and none
_NEARLY = 0.7  # part of the best probability from which a relation counts, too
_USUAL = 0.5  # part of entities with a value that makes a value relation


class Edge(NamedTuple):
    """An edge beside a path: its start, and its hop as FIRST, MEDIATOR, SECOND, TAIL."""

    start: int
    hop: tuple[int, int, int, int]


@dataclass(slots=True)
class Narrowed:
    """The entities of paths, scored by whether they meet the conditions.

    ``scores``: of all entities, lowered for those that fail; ``conditions``: of those that meet
    them; ``rows``: for each topic entity the paths that meet them, empty if no condition was used;
    ``left_out``: the words of comparisons that no path meets; ``over``: whether facts that no
    longer hold were left out, None if all have ended, or this was not tested.
    """

    scores: dict[int, float]
    conditions: dict[int, tuple[Condition, ...]] = field(default_factory=dict)
    rows: list[IntArray] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    over: bool | None = False
    denied: dict[str, int | None] = field(default_factory=dict)
    opposite: str = ""


def narrow(
    store: GraphStore,
    tables: Sequence[PathTable],
    probabilities: Sequence[NDArray[np.float64]],
    scores: dict[int, float],
    rules: WalkRules,
    form: PathFormat,
    named: Sequence[Candidate],
    values: Sequence[ValueCondition],
    fits: Fits,
    until: Collection[int] = (),
    today: int = 0,
    denied: Mapping[str, Candidate | str] = MappingProxyType({}),
) -> Narrowed:
    """Filter the ``scores`` (above 0) of entities by the conditions of a question.

    ``tables``: the paths out of each topic entity, with their ``probabilities``. ``named``: other
    entities that the question may name, the likeliest first. ``until``: steps (2 * relation, + 1
    reversed) to a fact's end date, if only facts that hold ``today`` count. ``denied``: the words
    of each negation, with the entity that they name, else the words again. With very many paths, or
    no condition met, the scores are unchanged. Raises GraphError.
    """
    narrowed = Narrowed(scores)
    if not (named or values or until or denied):
        return narrowed
    least = _CONSIDERED * max(scores.values())
    ends = np.array(sorted(key for key, score in scores.items() if score >= least), np.int64)
    answers = set(ends.tolist())
    named = [
        candidate
        for candidate in named
        if candidate.key not in answers and read_value(candidate.name) is None
    ]
    rows = [_best_rows(*pair, ends) for pair in zip(tables, probabilities, strict=True)]
    table = joined_tables(
        [path_table.take(at) for path_table, at in zip(tables, rows, strict=True)]
    )
    if len(table) > MOST_PATHS:
        return narrowed
    weight = [scores[key] for key in table.ends().tolist()]
    beside = _edges_beside(store, table, rules, ends=bool(named or values or denied))
    left = list(range(len(table)))
    used: list[tuple[str, dict[int, Edge]]] = []
    taken: list[Candidate] = []
    if over := _over(store, beside, table, until, today):
        still = [row for row in left if row not in over]
        likely = _NEARLY * max(weight)
        narrowed.over = True if any(weight[row] >= likely for row in still) else None
        left = still if narrowed.over else left
    for candidate in named:
        if any(candidate.start < other.end and other.start < candidate.end for other in taken):
            continue
        if met := _named(candidate, beside, left, fits):
            taken.append(candidate)
            used.append((candidate.mention, met))
            left = [row for row in left if row in met]
    best = max(weight[row] for row in left)
    left = [row for row in left if weight[row] >= _NEARLY * best]
    for words, about in denied.items():
        has = _denied(about, beside, left, fits, len(table))
        without = [row for row in left if row not in has]
        narrowed.denied[words] = len(left) - len(without) if has and without else None
        left = without or left
    for asked in values:
        if met := _valued(store, asked, beside, left, fits):
            used.append((asked.words, met))
            left = [row for row in left if row in met]
        elif asked.operator not in (None, "=") or (
            asked.each and not any(words in asked.words for words, _ in used)
        ):
            narrowed.left_out.append(asked.words)
    path = _grounded(store, form, [[(words, met[row]) for words, met in used] for row in left])
    met_by: dict[int, tuple[Condition, ...]] = {}
    good = [row for row, edge in zip(left, path, strict=True) if edge is not None]
    for end, conditions in zip(table.ends()[left].tolist(), path, strict=True):
        if conditions is not None:
            met_by.setdefault(end, conditions)
    if not (used or narrowed.over or any(narrowed.denied.values())) or not good:
        return narrowed
    starts = np.cumsum([0, *map(len, rows)])
    at = np.array(good)
    narrowed.rows = [
        rows[number][at[(starts[number] <= at) & (at < starts[number + 1])] - starts[number]]
        for number in range(len(rows))
    ]
    narrowed.conditions = met_by if used else {}
    narrowed.scores = {
        key: score if key in met_by else _UNMET * score for key, score in scores.items()
    }
    return narrowed


def _over(
    store: GraphStore,
    beside: Sequence[Mapping[Place, list[Edge]]],
    table: PathTable,
    ends: Collection[int],
    today: int,
) -> set[int]:
    """Return the rows of ``table`` on which a fact, or a node that stands for one, has ended.

    ``beside``: edges beside each path; ``ends``: relations to end dates. A fact ends before
    ``today``; without a readable date it has not.
    """
    ended = [
        (row, edge.hop[TAIL])
        for row, places in enumerate(beside if ends else ())
        for place, edges in places.items()
        if place[1] == MEDIATOR or place[0] < table.length[row] - 1
        for edge in edges
        if _relation(place, edge)[0] in ends
    ]
    entities = store.entities(np.unique(np.array([key for _, key in ended], np.int64)))
    days = {key: read_value(entities.label(row)) for row, key in enumerate(entities.keys.tolist())}
    return {
        row
        for row, key in ended
        if (moment := days[key]) and moment.days and moment.days[1] < today
    }


def _best_rows(table: PathTable, probability: NDArray[np.float64], wanted: IntArray) -> IntArray:
    """Return the rows of paths to ``wanted`` entities by each one's likeliest relation path.

    ``wanted``: keys, ascending; ``probability``: of each path.
    """
    ends = table.ends()
    rows = np.flatnonzero(np.isin(ends, wanted))
    _, at = np.unique(ends[rows], return_inverse=True)
    most = np.zeros(len(wanted) + 1)
    np.maximum.at(most, at, probability[rows])
    best: IntArray = rows[probability[rows] >= most[at]]
    return best


def _edges_beside(
    store: GraphStore, table: PathTable, rules: WalkRules, *, ends: bool
) -> list[dict[Place, list[Edge]]]:
    """Return for each path the edges beside it, by their place on it, without the path's own.

    ``ends``: also the edges of the entities that paths lead to. Nodes with very many edges have
    none.
    """
    places = [(hop, part) for hop in range(table.hops.shape[1]) for part in (TAIL, MEDIATOR)]
    through = table.hops[:, :, (MEDIATOR, TAIL)].copy()
    if not ends:  # no request to an endpoint is needed
        through[np.arange(len(table)), table.length - 1, 1] = -1
    nodes = np.unique(through)
    nodes = nodes[nodes >= 0]
    foresee(store, nodes, "both")
    nodes = nodes[store.degrees(nodes) <= _MOST_EDGES]
    out = hops_out_of(store, nodes, replace(rules, types=True))
    starts = out.offsets(len(nodes))
    position = {key: row for row, key in enumerate(nodes.tolist())}
    edges_beside = []
    for row in range(len(table)):
        hops = table.hops[row].tolist()
        on_path = {int(table.topic[row]), *(key for hop in hops for key in (hop[1], hop[3]))}
        ahead = [tuple(hop[i] for i in (FIRST, SECOND)) for hop in hops[1:]]
        mine: dict[Place, list[Edge]] = {}
        for hop, part in places:
            at = position.get(hops[hop][part], -1)
            if at < 0:
                continue
            start = int(table.topic[row]) if hop == 0 else hops[hop - 1][TAIL]
            for first, mediator, second, tail in out.hop[starts[at] : starts[at + 1]].tolist():
                if tail in on_path or (part == TAIL and ahead[hop : hop + 1] == [(first, second)]):
                    continue
                if part == TAIL and mediator >= 0 and first == hops[hop][SECOND] ^ 1:
                    continue  # a fact of the kind that led here: its own qualifiers are what counts
                if part == TAIL:
                    edge = Edge(hops[hop][TAIL], (first, mediator, second, tail))
                elif mediator < 0:
                    edge = Edge(start, (hops[hop][FIRST], hops[hop][MEDIATOR], first, tail))
                else:
                    continue
                mine.setdefault((hop, part), []).append(edge)
        edges_beside.append(mine)
    return edges_beside


def _relation(place: Place, edge: Edge) -> Step:
    """Return the steps (2 * relation, + 1 reversed) of an edge, as walked from its place.

    Of a qualifier, an edge of a mediator: its own step and -1.
    """
    return (edge.hop[SECOND], -1) if place[1] == MEDIATOR else (edge.hop[FIRST], edge.hop[SECOND])


def _named(
    entity: Candidate, beside: Sequence[Mapping[Place, list[Edge]]], rows: Iterable[int], fits: Fits
) -> dict[int, Edge]:
    """Return by path row the edge that leads to ``entity`` by its likeliest relations; else {}.

    ``beside``: edges beside each path; ``rows``: the paths to search; paths without such an edge
    are left out.
    """
    ways: dict[tuple[Place, Step], dict[int, Edge]] = defaultdict(dict)
    for row in rows:
        for place, edges in beside[row].items():
            for edge in edges:
                if edge.hop[TAIL] == entity.key:
                    ways[place, _relation(place, edge)].setdefault(row, edge)
    if not ways:
        return {}
    back = [
        (second ^ 1, first ^ 1) if second >= 0 else (first ^ 1, -1) for _, (first, second) in ways
    ]
    share = fits(entity, back)
    best = max(share)
    met: dict[int, Edge] = {}
    for value, way in sorted(zip(share, ways.values(), strict=True), key=lambda pair: -pair[0]):
        if value >= _NEARLY * best:
            met = {**way, **met}
    return met


def _denied(
    about: Candidate | str,
    beside: Sequence[Mapping[Place, list[Edge]]],
    rows: Sequence[int],
    fits: Fits,
    paths: int,
) -> Container[int]:
    """Return the rows of paths at whose end there is what a question denies; () if nothing fits.

    ``about``: an entity, or words for a relation. The relation is searched for at the ends of all
    ``paths``: a thing that was never restored has none of that kind, and its neighbours say what it
    is called.
    """
    if not isinstance(about, str):
        return _named(about, beside, rows, fits)
    ways: dict[Step, set[int]] = defaultdict(set)
    for row in range(paths):
        for place, edges in beside[row].items():
            if place[1] == TAIL:
                for edge in edges:
                    ways[_relation(place, edge)].add(row)
    share = fits(about, list(ways)) if ways else ()
    if max(share, default=0.0) < _MIN_PROBABILITY:
        return ()
    return set().union(*(
        way for part, way in zip(share, ways.values(), strict=True)
        if part >= _NEARLY * max(share)
    ))  # fmt: skip


def _valued(
    store: GraphStore,
    asked: ValueCondition,
    beside: Sequence[Mapping[Place, list[Edge]]],
    rows: Sequence[int],
    fits: Fits,
) -> dict[int, Edge]:
    """Return by path row an edge to a value that satisfies ``asked``, by the likeliest relation.

    {} if no relation has comparable values or is likely; rows without such an edge are left out.
    """
    ways: dict[tuple[Place, Step], dict[int, list[Edge]]] = defaultdict(dict)
    for row in rows:
        for place, edges in beside[row].items():
            for edge in edges:
                ways[place, _relation(place, edge)].setdefault(row, []).append(edge)
    tails = sorted({edge.hop[TAIL] for way in ways.values() for es in way.values() for edge in es})
    entities = store.entities(np.array(tails, np.int64))
    value = {key: read_value(entities.label(row)) for row, key in enumerate(tails)}
    kinds = {key: kind for key, way in ways.items() if (kind := _kind(asked, way, value, rows))}
    if not kinds:
        return {}
    share = fits(asked.about, [step for _, step in kinds])
    likeliest, (key, kind) = max(zip(share, kinds.items(), strict=True), key=lambda pair: pair[0])
    if likeliest < _MIN_PROBABILITY:
        return {}
    return _met(asked, ways[key], value, kind)


def _kind(
    asked: ValueCondition,
    way: Mapping[int, Sequence[Edge]],
    value: Mapping[int, Value | None],
    rows: Sequence[int],
) -> Kind | None:
    """Return whether a relation's values compare with ``asked`` as days or as amounts, else None.

    ``value``: of each tail, None if it has none. None also if too few tails have a value, or units
    differ.
    """
    every = [value[edge.hop[TAIL]] for edges in way.values() for edge in edges]
    known = [quantity for quantity in every if quantity is not None]
    if len(known) < _USUAL * max(len(every), len(rows)):
        return None
    kind: Kind = "days" if all(value_.days for value_ in known) else "amount"
    if kind == "amount" and len({value_.unit for value_ in known if value_.amount is not None}) > 1:
        return None
    if asked.each:
        return kind if kind == "days" else None
    if asked.operator is not None:
        return kind if asked.low is not None and asked.low.range(kind) else None
    return kind if (asked.days if kind == "days" else asked.amount) else None


def _met(
    asked: ValueCondition,
    way: Mapping[int, Sequence[Edge]],
    value: Mapping[int, Value | None],
    kind: Kind,
) -> dict[int, Edge]:
    """Return by row the edge whose value satisfies the comparison, or is the extreme one.

    Rows of ``way`` without such an edge are left out.
    """
    good: dict[int, tuple[float, Edge]] = {}
    sign = asked.days if kind == "days" else asked.amount
    for row, edges in way.items():
        for edge in edges:
            quantity = value[edge.hop[TAIL]]
            span = quantity.range(kind) if quantity is not None else None
            if quantity is None or span is None:
                continue
            if asked.operator is not None:
                if asked.met_by(quantity, kind):
                    good.setdefault(row, (0.0, edge))
            elif row not in good or sign * span[0] > good[row][0]:
                good[row] = (sign * span[0], edge)
    most = max((height for height, _ in good.values()), default=0.0)
    return {row: edge for row, (height, edge) in good.items() if height == most}


def _grounded(
    store: GraphStore, form: PathFormat, used: Sequence[Sequence[tuple[str, Edge]]]
) -> list[tuple[Condition, ...] | None]:
    """Return the verified conditions of each path, None if the store lacks one of its edges.

    ``used``: for each path its (words, edge) pairs.
    """
    every = [edge for steps in used for _, edge in steps]
    if not every:
        return [() for _ in used]
    table = PathTable(
        np.array([edge.start for edge in every], np.int64),
        np.ones(len(every), np.int64),
        np.array([[edge.hop] for edge in every], np.int64),
    )
    paths = iter(ground(store, table, form))
    conditions: list[tuple[Condition, ...] | None] = []
    for steps in used:
        checked = [(words, next(paths)) for words, _ in steps]
        kept = tuple(Condition(words, path) for words, path in checked if path is not None)
        conditions.append(kept if len(kept) == len(steps) else None)
    return conditions
