"""Walks by a reasoner's relation scores: from topic entities to scores of those around them.

A batch of questions is walked together, each from its own topic entities (a *row* is a question and
one of them), over pairs of a row and an entity: flat arrays, no loop over questions or edges. An
edge that would carry less than ``FLOOR`` is not taken, so what a trained reasoner is sure of costs
little even around a hub. A row never comes back to its topic entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kgqa.graph.model import Kind
from kgqa.models.graph_reasoner import NumpyMath
from kgqa.paths.walk import MEDIATOR, TAIL, ranges
from kgqa.trie.arrays import dense

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.graph_reasoner import EncodedQuestions, Tables, WalkMath

_NUMPY = NumpyMath()
FLOOR = 1e-3  # what an edge carries at least, of 1 that starts at a topic entity


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs (row, entity) of a walk at one depth, and the edges into them.

    Of pairs: ``row``, ``node`` (key), ``kind``, and ``scores``. Of edges: ``source``, a position
    among the pairs before, ``target``, one among these, ``hop`` ``[edges, 4]``, ``relation`` (its
    number in the hop table), ``passed`` (the relation's score), ``copy`` (counted by another).
    """

    row: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    scores: Any
    source: IntArray
    target: IntArray
    hop: IntArray
    relation: IntArray
    passed: NDArray[np.float32]


class Walked(NamedTuple):
    """The entities that a batch of questions leads to.

    ``question``, ``node``, ``kind`` and ``scores`` belong to pairs of a question and an entity, in
    that order; the scores, in 0..1, are summed over hops, weighted by ``beta`` (tensors in
    training).
    """

    question: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    scores: Any
    levels: tuple[Level, ...]


def walk_rows(
    table: HopTable,
    tables: Callable[[IntArray], Tables],
    reading: EncodedQuestions,
    topics: IntArray,
    question: IntArray,
    floor: float = FLOOR,
    math: WalkMath = _NUMPY,
) -> Walked:
    """Walk from ``topics`` ``[rows]``, each for the ``question`` of its row.

    ``reading``: the reasoner's encoding of the questions. ``tables`` returns vectors of at least
    the steps in ``[n, 2]`` (2 * relation, + 1 reversed; -1: none). ``floor``: pairs and edges with
    at most this score are not followed. ``math``: the arithmetic, numpy or torch. Raises
    GraphError.
    """
    rows, none = len(topics), np.empty(0, np.int64)
    hidden = reading.hidden[question]
    level = Level(
        row=np.arange(rows),
        node=topics,
        kind=np.zeros(rows, np.uint8),
        scores=math.ones(rows),
        source=none,
        target=none,
        hop=none.reshape(0, 4),
        relation=none,
        passed=np.empty(0, np.float32),
    )
    levels = [level]
    for depth in range(hidden.shape[1]):
        level = _hop(table, tables, hidden[:, depth], level, topics, floor, math)
        levels.append(level)
        if not len(level.row):
            break
    return _together(levels, reading.beta, question, math)


def _hop(
    table: HopTable,
    tables: Callable[[IntArray], Tables],
    hidden: Any,
    before: Level,
    topics: IntArray,
    floor: float,
    math: WalkMath,
) -> Level:
    """Walk one hop: score relations, and sum the scores of edges into entities.

    ``before``: the pairs reached so far. Values, and pairs and edges with at most the score
    ``floor``, are not followed; edges back to the topic are dropped.
    """
    weight = math.numbers(before.scores)
    active = np.flatnonzero((before.kind != Kind.VALUE) & (weight > floor))
    unique, at = np.unique(before.node[active], return_inverse=True)
    out = table.out_of(unique)
    starts = np.searchsorted(out.row, np.arange(len(unique) + 1))
    counts = np.diff(starts)[at]
    pick = ranges(starts[:-1][at], counts)
    source = np.repeat(active, counts)
    row = before.row[source]

    numbers, relation = np.unique(out.relation, return_inverse=True)
    steps = table.relations()[numbers]
    scores = math.relation_scores(hidden, tables(steps), steps[:, 0], steps[:, 1])
    cell = row * len(numbers) + relation[pick]
    carried = weight[source] * math.numbers(scores).reshape(-1)[cell]
    hop = out.hop[pick]
    topic = topics[row]
    good = np.flatnonzero((carried > floor) & (hop[:, TAIL] != topic) & (hop[:, MEDIATOR] != topic))
    pick, source, row, cell, hop = pick[good], source[good], row[good], cell[good], hop[good]
    passed = scores.reshape(-1)[cell]

    pair, node, kind, target = _pairs(row, hop[:, TAIL], out.kind[pick])
    counted = math.masked(passed, ~out.copy[pick])
    after = math.transition(before.scores, source, counted, target, len(node))
    return Level(
        row=pair,
        node=node,
        kind=kind,
        scores=after,
        source=source,
        target=target,
        hop=hop,
        relation=numbers[relation[pick]],
        passed=math.numbers(passed),
    )


def _pairs(
    row: IntArray, node: IntArray, kind: NDArray[np.uint8]
) -> tuple[IntArray, IntArray, NDArray[np.uint8], IntArray]:
    """Return rows, nodes and kinds of the distinct (row, node) pairs, and each entry's pair.

    Pairs are sorted.
    """
    nodes, local = dense(node)
    width = max(len(nodes), 1)
    cells, at = dense(row * width + local)
    kinds = np.zeros(len(nodes), np.uint8)
    kinds[local] = kind
    there = cells % width
    return cells // width, nodes[there], kinds[there], at


def _together(levels: list[Level], beta: Any, question: IntArray, math: WalkMath) -> Walked:
    """Sum the scores of all depths, weighted by ``beta``, for each question and entity.

    ``question``: of each row.
    """
    reached = levels[1:]
    row = np.concatenate([level.row for level in reached])
    node = np.concatenate([level.node for level in reached])
    kind = np.concatenate([level.kind for level in reached])
    depth = np.repeat(np.arange(len(reached)), [len(level.row) for level in reached])
    of = question[row]
    pair, nodes, kinds, at = _pairs(of, node, kind)
    parts = [level.scores for level in reached]
    summed = math.weighed(parts, beta[of, depth], at, len(nodes))
    return Walked(pair, nodes, kinds, summed, tuple(levels))
