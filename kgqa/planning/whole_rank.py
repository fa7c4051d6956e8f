"""Reranks plans by the plan scorer's sum and the plan ranker's probability."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kgqa.planning.plan_words import plan_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.models.plan_ranker import PlanRanker
    from kgqa.planning.aggregates import ScoredPlan

MORE_PLANS = 24  # that are ranked, before the best of them are run


def by_ranker(question: str, plans: Sequence[ScoredPlan], ranker: PlanRanker) -> list[ScoredPlan]:
    """Return the plans sorted by the combined score of both models, stably.

    Raises ModelError.
    """
    odds = ranker.log_odds(question, [plan_words(plan.plan) for plan in plans])
    old, new = ranker.card.old, ranker.card.new
    ranked = [
        replace(one, score=old * one.score + new * odd)
        for one, odd in zip(plans, odds, strict=True)
    ]
    return sorted(ranked, key=lambda one: -one.score)
