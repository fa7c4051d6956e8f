"""Answers from scored paths without a general LLM: each path votes with its probability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kgqa.reasoning.answer import RankedAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.reasoning.answer import ScoredPath


def vote(paths: Sequence[ScoredPath]) -> list[RankedAnswer]:
    """Return the ends of ``paths``, ranked by the probability that leads to them.

    A path gives its probability to every entity that its text can end in (entities may share a
    name). Scores sum to 1 over all votes; equal ones are ordered by name, then id.
    """
    weight: dict[str, float] = {}
    name: dict[str, str] = {}
    for path in paths:
        for tail in {one.tail.id: one.tail for one in path.groundings}.values():
            weight[tail.id] = weight.get(tail.id, 0.0) + math.exp(path.score)
            name[tail.id] = tail.name
    total = sum(weight.values())
    if total == 0.0:  # every path is too unlikely for a float: their order still stands
        weight = {one: 1.0 / (1 + rank) for rank, one in enumerate(weight)}
        total = sum(weight.values())
    ranked = sorted(weight, key=lambda one: (-weight[one], name[one], one))
    return [RankedAnswer(one, name[one], weight[one] / total, True) for one in ranked]
