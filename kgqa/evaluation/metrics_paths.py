"""How far answers are, which relation paths were taken, and where a question failed.

Distances are breadth-first over sets of entities, never over paths, so a hub costs its edges and no
more. What it does not do: compare answers; see ``metrics``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kgqa.graph.model import Kind
from kgqa.paths.walk import FIRST, SECOND, TAIL, hops_out_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath, PathEdge
    from kgqa.paths.walk import Hops, WalkRules

RelationPath: TypeAlias = tuple[str, ...]
_FRONTIER = 20_000  # entities whose hops are asked for in one call


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
        for hops in _hops(store, frontier, rules):
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


def tails(store: GraphStore, path: GroundedPath, rules: WalkRules) -> IntArray:
    """Return the keys of all entities to which the relation path of ``path`` leads from its head.

    ``rules`` are those that the path was walked by.
    """
    relations = {one: number for number, one in enumerate(store.relations().ids)}
    frontier = store.keys_of([path.head.id])
    for edge in path.edges:
        first, second = _steps(edge, relations)
        reached = []
        for hops in _hops(store, frontier[frontier >= 0], rules):
            taken = (hops.hop[:, FIRST] == first) & (hops.hop[:, SECOND] == second)
            reached.append(hops.hop[taken, TAIL])
        frontier = np.unique(np.concatenate(reached)) if reached else frontier[:0]
    return frontier


def relation_path(path: GroundedPath, inverses: Mapping[str, str]) -> RelationPath:
    """Return the predicates of ``path``, mediators' halves apart; ``^`` marks one walked back.

    A predicate whose inverse the KG knows (``inverses``) is never walked back: its inverse is
    walked instead, so that both spellings of one path are equal.
    """
    steps = []
    for edge in path.edges:
        for fact, back in zip(edge.facts, _walked_back(edge), strict=True):
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


def _hops(store: GraphStore, frontier: IntArray, rules: WalkRules) -> Iterable[Hops]:
    for start in range(0, len(frontier), _FRONTIER):
        yield hops_out_of(store, frontier[start : start + _FRONTIER], rules)


def _walked_back(edge: PathEdge) -> list[bool]:
    """Return for each fact behind ``edge`` whether it is walked against its direction."""
    back = [edge.facts[0].head != edge.head.id]
    if len(edge.facts) == 2:
        back.append(edge.facts[1].tail != edge.tail.id)
    return back


def _steps(edge: PathEdge, relations: Mapping[str, int]) -> tuple[int, int]:
    steps = [
        2 * relations[fact.predicate] + back
        for fact, back in zip(edge.facts, _walked_back(edge), strict=True)
    ]
    return steps[0], steps[1] if len(steps) == 2 else -1
