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
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.graph.quantities import Kind, Value
    from kgqa.graph.store import GraphStore
    from kgqa.linking.linker import Candidate
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules
    from kgqa.understanding.literals import ValueCondition

WEIGHTS = weights("answers")
Step: TypeAlias = "tuple[int, int]"
Place: TypeAlias = "tuple[int, int]"  # the hop of a path, and TAIL or MEDIATOR
Fits: TypeAlias = "Callable[[Candidate | str, Sequence[Step]], Sequence[float]]"
"""The probability of each relation out of x, in a question about x, or if x is what is named."""

MOST_PATHS = 2_000  # most paths that are filtered
_MOST_EDGES = 500  # an entity with more is not tested


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
    least = WEIGHTS["considered"] * max(scores.values())
    answers = {key for key, score in scores.items() if score >= least}
    ends = np.array(sorted(answers), np.int64)
    rows = [_best_rows(*pair, ends) for pair in zip(tables, probabilities, strict=True)]
    table = joined_tables([one.take(at) for one, at in zip(tables, rows, strict=True)])
    if len(table) > MOST_PATHS:
        return narrowed
    weight = [scores[key] for key in table.ends().tolist()]
    beside = _edges_beside(store, table, rules, ends=bool(named or values or denied))
    kept = _Kept(store, fits, beside, list(range(len(table))))
    if over := _over(store, beside, table, until, today):
        kept.left = _still(narrowed, kept.left, over, weight)
    kept.by_named(named, answers)
    kept.left = _likeliest(kept.left, weight)
    narrowed.denied = kept.by_denied(denied)
    narrowed.left_out = kept.by_values(values)
    left, used = kept.left, kept.used
    grounded = _grounded(store, form, [[(words, met[row]) for words, met in used] for row in left])
    ends = table.ends()[left].tolist()
    met = {end: one for end, one in zip(ends[::-1], grounded[::-1], strict=True) if one is not None}
    if met and (used or narrowed.over or any(narrowed.denied.values())):
        good = [row for row, one in zip(left, grounded, strict=True) if one is not None]
        narrowed.rows = _of_each_table(rows, np.array(good))
        narrowed.conditions = met if used else {}
        narrowed.scores = {
            key: score if key in met else WEIGHTS["unmet"] * score for key, score in scores.items()
        }
    return narrowed


@dataclass(slots=True)
class _Kept:
    """The paths that are left by the conditions so far, as rows, with the edges ``beside`` each.

    ``used``: the words of each condition that was met, with the edge beside each path that meets
    it.
    """

    store: GraphStore
    fits: Fits
    beside: Sequence[Mapping[Place, list[Edge]]]
    left: list[int]
    used: list[tuple[str, dict[int, Edge]]] = field(default_factory=list)

    def by_named(self, named: Sequence[Candidate], answers: Container[int]) -> None:
        """Keep the paths beside which each named entity is that is beside any.

        Of entities that the same words may name the first counts; ``answers`` (keys) and values do
        not.
        """
        taken: list[Candidate] = []
        for one in named:
            if one.key in answers or read_value(one.name) is not None:
                continue
            if any(one.start < other.end and other.start < one.end for other in taken):
                continue
            if met := self._to(one):
                taken.append(one)
                self._keep(one.mention, met)

    def by_denied(self, denied: Mapping[str, Candidate | str]) -> dict[str, int | None]:
        """Keep the paths beside which there is nothing that the question denies.

        Return the number that each negation leaves out, None if none or all of them.
        """
        many: dict[str, int | None] = {}
        for words, about in denied.items():
            has = self._with_relation(about) if isinstance(about, str) else self._to(about)
            without = [row for row in self.left if row not in has]
            many[words] = len(self.left) - len(without) if has and without else None
            self.left = without or self.left
        return many

    def by_values(self, values: Sequence[ValueCondition]) -> list[str]:
        """Keep the paths that meet each comparison that any meets; return the others' words."""
        left_out = []
        for asked in values:
            if met := self._to_value(asked):
                self._keep(asked.words, met)
            elif _is_left_out(asked, self.used):
                left_out.append(asked.words)
        return left_out

    def _keep(self, words: str, met: dict[int, Edge]) -> None:
        """Keep the paths that meet a condition, with its words and the edges that meet it."""
        self.used.append((words, met))
        self.left = [row for row in self.left if row in met]

    def _edges(self, rows: Iterable[int]) -> Iterator[tuple[int, tuple[Place, Step], Edge]]:
        """Yield the edges beside paths, as (row, (place, relation), edge)."""
        for row in rows:
            for place, edges in self.beside[row].items():
                for edge in edges:
                    yield row, (place, _relation(place, edge)), edge

    def _to(self, entity: Candidate) -> dict[int, Edge]:
        """Return by row the edge that leads to ``entity`` by its likeliest relations; else {}.

        Paths without such an edge are left out.
        """
        ways: dict[tuple[Place, Step], dict[int, Edge]] = defaultdict(dict)
        for row, way, edge in self._edges(self.left):
            if edge.hop[TAIL] == entity.key:
                ways[way].setdefault(row, edge)
        if not ways:
            return {}
        back = [
            (second ^ 1, first ^ 1) if second >= 0 else (first ^ 1, -1)
            for _, (first, second) in ways
        ]
        share = self.fits(entity, back)
        met: dict[int, Edge] = {}
        for value, to in sorted(zip(share, ways.values(), strict=True), key=lambda one: -one[0]):
            if value >= WEIGHTS["nearly"] * max(share):
                met = {**to, **met}
        return met

    def _with_relation(self, words: str) -> set[int]:
        """Return the rows of paths at whose end there is a relation that ``words`` name.

        It is searched for at the ends of all paths: a thing that was never restored has none of
        that kind, and its neighbours say what it is called.
        """
        ways: dict[Step, set[int]] = defaultdict(set)
        for row, (place, relation), _ in self._edges(range(len(self.beside))):
            if place[1] == TAIL:
                ways[relation].add(row)
        share = self.fits(words, list(ways)) if ways else ()
        if max(share, default=0.0) < WEIGHTS["value_relation"]:
            return set()
        least = WEIGHTS["nearly"] * max(share)
        likely = (to for part, to in zip(share, ways.values(), strict=True) if part >= least)
        return set().union(*likely)

    def _to_value(self, asked: ValueCondition) -> dict[int, Edge]:
        """Return by row an edge to a value that satisfies ``asked``, by the likeliest relation.

        {} if no relation has comparable values or is likely; rows without such an edge are left
        out.
        """
        ways: dict[tuple[Place, Step], dict[int, list[Edge]]] = defaultdict(dict)
        tails = set()
        for row, way, edge in self._edges(self.left):
            ways[way].setdefault(row, []).append(edge)
            tails.add(edge.hop[TAIL])
        entities = self.store.entities(np.array(sorted(tails), np.int64))
        value = {key: read_value(entities.label(at)) for at, key in enumerate(sorted(tails))}
        kinds = {
            key: kind for key, way in ways.items()
            if (kind := _kind(asked, way, value, len(self.left)))
        }  # fmt: skip
        if not kinds:
            return {}
        share = self.fits(asked.about, [step for _, step in kinds])
        likeliest, key = max(zip(share, kinds, strict=True), key=lambda pair: pair[0])
        if likeliest < WEIGHTS["value_relation"]:
            return {}
        return _met(asked, ways[key], value, kinds[key])


def _likeliest(left: Sequence[int], weight: Sequence[float]) -> list[int]:
    """Return the paths of ``left`` that weigh nearly as much as the heaviest of them."""
    least = WEIGHTS["nearly"] * max(weight[row] for row in left)
    return [row for row in left if weight[row] >= least]


def _still(
    narrowed: Narrowed, left: list[int], over: Container[int], weight: Sequence[float]
) -> list[int]:
    """Return the paths of ``left`` that are not ``over``, all if no likely one still holds.

    ``narrowed`` records which.
    """
    still = [row for row in left if row not in over]
    likely = WEIGHTS["nearly"] * max(weight)
    if not any(weight[row] >= likely for row in still):
        narrowed.over = None
        return left
    narrowed.over = True
    return still


def _is_left_out(asked: ValueCondition, used: Sequence[tuple[str, object]]) -> bool:
    """Return whether a comparison that no path meets is to be noted.

    Not an equality, a superlative, nor a day of every week or year that another condition has.
    """
    if asked.operator not in (None, "="):
        return True
    return bool(asked.each) and not any(words in asked.words for words, _ in used)


def _of_each_table(rows: Sequence[IntArray], at: IntArray) -> list[IntArray]:
    """Return the ``rows`` of each table that are at the places ``at`` of the joined one."""
    starts = np.cumsum([0, *map(len, rows)])
    return [
        mine[at[(start <= at) & (at < start + len(mine))] - start]
        for mine, start in zip(rows, starts.tolist(), strict=False)
    ]


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
        topic = int(table.topic[row])
        on_path = {topic, *(key for hop in hops for key in (hop[MEDIATOR], hop[TAIL]))}
        mine: dict[Place, list[Edge]] = {}
        for hop, part in places:
            at = position.get(hops[hop][part], -1)
            if at < 0:
                continue
            start = topic if hop == 0 else hops[hop - 1][TAIL]
            onward = hops[hop + 1] if hop + 1 < len(hops) else None
            edges = [
                edge
                for step in out.hop[starts[at] : starts[at + 1]].tolist()
                if step[TAIL] not in on_path
                and (edge := _edge_beside(hops[hop], onward, start, part, step))
            ]
            if edges:
                mine[hop, part] = edges
        edges_beside.append(mine)
    return edges_beside


def _edge_beside(
    hop: Sequence[int], onward: Sequence[int] | None, start: int, part: int, step: Sequence[int]
) -> Edge | None:
    """Return a step out of a node of a path as an edge beside it, None if it is none.

    ``hop``: of the path, to the node, which is its TAIL or MEDIATOR; ``onward``: the next hop;
    ``start``: where ``hop`` begins.
    """
    first, mediator, second, tail = step
    if part == MEDIATOR:
        return Edge(start, (hop[FIRST], hop[MEDIATOR], first, tail)) if mediator < 0 else None
    if onward is not None and (onward[FIRST], onward[SECOND]) == (first, second):
        return None
    if mediator >= 0 and first == hop[SECOND] ^ 1:
        return None  # a fact of the kind that led here: its own qualifiers are what counts
    return Edge(hop[TAIL], (first, mediator, second, tail))


def _relation(place: Place, edge: Edge) -> Step:
    """Return the steps (2 * relation, + 1 reversed) of an edge, as walked from its place.

    Of a qualifier, an edge of a mediator: its own step and -1.
    """
    return (edge.hop[SECOND], -1) if place[1] == MEDIATOR else (edge.hop[FIRST], edge.hop[SECOND])


def _kind(
    asked: ValueCondition,
    way: Mapping[int, Sequence[Edge]],
    value: Mapping[int, Value | None],
    paths: int,
) -> Kind | None:
    """Return whether a relation's values compare with ``asked`` as days or as amounts, else None.

    ``value``: of each tail, None if it has none. None also if too few tails, or too few of the
    ``paths``, have a value, or units differ.
    """
    every = [value[edge.hop[TAIL]] for edges in way.values() for edge in edges]
    known = [quantity for quantity in every if quantity is not None]
    if len(known) < WEIGHTS["usual"] * max(len(every), paths):
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
            height = sign * span[0] if asked.operator is None else 0.0
            fits = asked.operator is None or asked.met_by(quantity, kind)
            if fits and (row not in good or height > good[row][0]):
                good[row] = (height, edge)
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
