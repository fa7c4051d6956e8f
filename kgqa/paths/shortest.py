"""Shortest paths from topic entities to answers, and relation paths ranked by what they reach.

GCR (arXiv 2410.13080, sec. 4.2) trains on every shortest path; ranking them by how well their tails
match the answers is this project's refinement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.walk import FIRST, SECOND, joined_tables, walk

if TYPE_CHECKING:
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import PathTable, WalkRules


@dataclass(frozen=True, slots=True)
class RelationPath:
    """Paths of one topic with the same steps, to answers; ``f1``: of all their tails."""

    topic: int
    steps: tuple[tuple[int, int], ...]
    f1: float
    tails: IntArray
    paths: PathTable


def relation_paths_to(
    store: GraphStore, topics: IntArray, answers: IntArray, rules: WalkRules, cap: int
) -> list[RelationPath]:
    """Return the relation paths from ``topics`` to any of ``answers``: by F1, hops, then steps.

    Topics with more than ``cap`` paths are walked one hop less each time until they fit.
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
    found = []
    for number in np.unique(group[hit]).tolist():
        members = np.flatnonzero(group == number)
        tails = np.unique(ends[members])
        right = len(gold.intersection(tails.tolist()))
        f1 = 2 * right / (len(tails) + len(gold))
        first = members[0]
        steps = tuple((a, b) for a, b in steps_of[first, : table.length[first]].tolist())
        paths = table.take(members[hit[members]])
        found.append(RelationPath(int(table.topic[first]), steps, f1, tails, paths))
    found.sort(key=lambda path: (-path.f1, len(path.steps), path.steps, path.topic))
    return found
