"""Walking a graph by a reasoner's relation scores: questions → scores of the entities around them.

A batch of questions is walked together, each from its own topic entities (a *row* is a question and
one of them), over pairs of a row and an entity: flat arrays, no loop over questions or edges. An
edge that would carry less than ``FLOOR`` is not taken, so what a trained reasoner is sure of costs
little even around a hub. A row never comes back to its topic entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kgqa.graph.model import Kind
from kgqa.models.graph_reasoner import clamped, relation_logits, transition
from kgqa.paths.walk import MEDIATOR, TAIL, ranges
from kgqa.trie.arrays import dense

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.graph_reasoner import Reading, Tables

FLOOR = 1e-3  # what an edge carries at least, of 1 that starts at a topic entity


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs (row, entity) that a walk is at after some hops, and the edges taken to them.

    Of pairs: ``row``, ``node`` (key), ``kind``, and ``scores``. Of edges: ``source``, a position
    among the pairs before, ``target``, one among these, ``hop`` ``[edges, 4]``, ``relation`` (its
    number in the hop table), ``passed`` (the relation's score), ``copy`` (counted by another).
    """

    row: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    scores: Tensor
    source: IntArray
    target: IntArray
    hop: IntArray
    relation: IntArray
    passed: NDArray[np.float32]


class Walked(NamedTuple):
    """Where a batch of questions leads.

    ``question``, ``node``, ``kind`` and ``scores`` belong to pairs of a question and an entity, in
    that order; the scores, in 0..1, are those of all steps, weighed by ``beta``.
    """

    question: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    scores: Tensor
    levels: tuple[Level, ...]


def walk_rows(
    table: HopTable,
    tables: Callable[[IntArray], Tables],
    reading: Reading,
    topics: IntArray,
    question: IntArray,
    floor: float = FLOOR,
) -> Walked:
    """Walk from ``topics`` ``[rows]``, each of them for the ``question`` of its row.

    ``reading`` is of the questions. ``tables`` gives the steps' vectors, at least of relations
    ``[n, 2]``. Raises GraphError.
    """
    rows, none = len(topics), np.empty(0, np.int64)
    hidden = reading.hidden[torch.from_numpy(question)]
    level = Level(
        row=np.arange(rows),
        node=topics,
        kind=np.zeros(rows, np.uint8),
        scores=torch.ones(rows),
        source=none,
        target=none,
        hop=none.reshape(0, 4),
        relation=none,
        passed=np.empty(0, np.float32),
    )
    levels = [level]
    for depth in range(hidden.shape[1]):
        level = _hop(table, tables, hidden[:, depth], level, topics, floor)
        levels.append(level)
        if not len(level.row):
            break
    return _together(levels, reading.beta, question)


def _hop(
    table: HopTable,
    tables: Callable[[IntArray], Tables],
    hidden: Tensor,
    before: Level,
    topics: IntArray,
    floor: float,
) -> Level:
    weight = before.scores.detach().numpy()
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
    first, second = torch.from_numpy(steps.T)
    scores = torch.sigmoid(relation_logits(hidden, tables(steps), first, second))
    cell = row * len(numbers) + relation[pick]
    carried = weight[source] * scores.detach().numpy().reshape(-1)[cell]
    hop = out.hop[pick]
    topic = topics[row]
    good = np.flatnonzero((carried > floor) & (hop[:, TAIL] != topic) & (hop[:, MEDIATOR] != topic))
    pick, source, row, cell, hop = pick[good], source[good], row[good], cell[good], hop[good]
    passed = scores.reshape(-1)[torch.from_numpy(cell)]

    pair, node, kind, target = _pairs(row, hop[:, TAIL], out.kind[pick])
    counted = torch.from_numpy(~out.copy[pick])
    after = transition(
        before.scores,
        torch.from_numpy(source),
        passed * counted,
        torch.from_numpy(target),
        len(node),
    )
    return Level(
        row=pair,
        node=node,
        kind=kind,
        scores=after,
        source=source,
        target=target,
        hop=hop,
        relation=numbers[relation[pick]],
        passed=passed.detach().numpy(),
    )


def _pairs(
    row: IntArray, node: IntArray, kind: NDArray[np.uint8]
) -> tuple[IntArray, IntArray, NDArray[np.uint8], IntArray]:
    """Return rows, nodes and kinds of the distinct pairs, sorted, and which pair each entry is."""
    nodes, local = dense(node)
    width = max(len(nodes), 1)
    cells, at = dense(row * width + local)
    kinds = np.zeros(len(nodes), np.uint8)
    kinds[local] = kind
    there = cells % width
    return cells // width, nodes[there], kinds[there], at


def _together(levels: list[Level], beta: Tensor, question: IntArray) -> Walked:
    """Put the steps together: the scores of all of them, weighed by ``beta``, by question."""
    reached = levels[1:]
    row = np.concatenate([level.row for level in reached])
    node = np.concatenate([level.node for level in reached])
    kind = np.concatenate([level.kind for level in reached])
    depth = np.repeat(np.arange(len(reached)), [len(level.row) for level in reached])
    of = question[row]
    pair, nodes, kinds, at = _pairs(of, node, kind)
    weight = beta[torch.from_numpy(of), torch.from_numpy(depth)]
    parts = torch.cat([level.scores for level in reached]) * weight
    summed = torch.zeros(len(nodes)).index_add(0, torch.from_numpy(at), parts)
    return Walked(pair, nodes, kinds, clamped(summed), tuple(levels))
