"""How far answers are, which relation paths were taken, and where a question failed.

Distances are breadth-first over sets of entities, never over paths, so a hub costs its edges and no
more. What it does not do: compare answers; see ``metrics``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.answers.expand import hops_in_turn, walked_back
from kgqa.graph.model import Kind
from kgqa.paths.walk import TAIL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules

RelationPath: TypeAlias = tuple[str, ...]


class Outcome(StrEnum):
    """Where a question ended: answered rightly, or the first stage that failed it."""

    RIGHT = "right"
    MALFORMED = "malformed"  # the line is no question
    NO_GOLD = "no gold answer"  # the file has none: nothing could be right
    LINKING = "linking"  # no topic entity of the file is among those that were linked
    NOT_REACHABLE = "not reachable"  # no path leads from a topic entity to an answer
    FAILED = "failed"  # an error: the time limit, the general LLM
    WRONG_RELATION = "wrong relation"  # the first path's relation path leads to no answer
    WRONG_TAIL = "wrong tail"  # it leads to an answer, but another of its tails was taken
    WRONG_ANSWER = "wrong answer"  # the first path ends in an answer, the first answer is another


def distance(store: GraphStore, topics: IntArray, wanted: IntArray, rules: WalkRules) -> int | None:
    """Return how many hops the nearest of ``wanted`` is from any of ``topics``.

    None where no path of at most ``rules.hops`` hops leads to one. Both are keys.
    """
    if not len(topics) or not len(wanted):
        return None
    seen = frontier = np.unique(topics)
    for depth in range(1, rules.hops + 1):
        reached = []
        for hops in hops_in_turn(store, frontier, rules):
            ends = hops.hop[:, TAIL]
            if np.isin(ends, wanted).any():
                return depth
            reached.append(np.unique(ends[hops.kind != Kind.VALUE]))
        ends = np.unique(np.concatenate(reached)) if reached else frontier[:0]
        frontier = np.setdiff1d(ends, seen, assume_unique=True)
        seen = np.union1d(seen, frontier)
        if not len(frontier):
            return None
    return None


def relation_path(path: GroundedPath, inverses: Mapping[str, str]) -> RelationPath:
    """Return the predicates of ``path``, mediators' halves apart; ``^`` marks one walked back.

    A predicate whose inverse the KG knows (``inverses``) is never walked back: its inverse is
    walked instead, so that both spellings of one path are equal.
    """
    steps = []
    for edge in path.edges:
        for fact, back in zip(edge.facts, walked_back(edge), strict=True):
            steps.append(f"^{fact.predicate}" if back else fact.predicate)
    return same_spelling(steps, inverses)


def same_spelling(steps: Iterable[str], inverses: Mapping[str, str]) -> RelationPath:
    """Return a relation path with known inverses in place of predicates walked back."""
    return tuple(
        inverses[step[1:]] if step.startswith("^") and step[1:] in inverses else step
        for step in steps
    )


def path_recall(
    gold: Sequence[Sequence[str]], paths: Iterable[GroundedPath], inverses: Mapping[str, str]
) -> float | None:
    """Return the share of gold relation paths that ``paths`` take, None where there are none."""
    wanted = {same_spelling(one, inverses) for one in gold}
    if not wanted:
        return None
    taken = {relation_path(path, inverses) for path in paths}
    return len(wanted & taken) / len(wanted)
