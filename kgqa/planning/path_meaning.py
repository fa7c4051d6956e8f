"""How well a plan's paths fit the question: from what it names to what it asks for.

The plan scorer reads the schema a part at a time; the path ranker (:mod:`kgqa.models.path_ranker`)
has learnt what whole paths are called. How much worse a plan's paths fit than those of the plan
whose paths fit best counts in its score by one weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.paths.words import TOPIC, relation_path_text, relation_phrase
from kgqa.queries.plan import Aggregate, Comparison, NodeRef, PropertyRef
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kgqa.models.path_ranker import PathRanker
    from kgqa.planning.aggregates import ScoredPlan
    from kgqa.planning.evidence import QuestionReading
    from kgqa.queries.plan import Plan

WEIGHTS = weights("planning")
MORE_PLANS = 24  # that are ranked, before the best of them are run


def by_meaning(
    reading: QuestionReading,
    plans: Sequence[ScoredPlan],
    load_ranker: Callable[[], PathRanker],
    folder: Path,
) -> list[ScoredPlan]:
    """Return the plans with the fit of their paths in the score, the best first, stably.

    ``load_ranker`` is called only if paths differ; ``folder``: the KG's, for the cache of their
    vectors. Raises ModelError.
    """
    paths = [_paths(reading, one.plan) for one in plans]
    questions = list(dict.fromkeys(asked for some in paths for asked, *_ in some))
    hops = {text: many for some in paths for _, text, many in some}
    if not hops or (len(hops) == 1 and all(paths)):
        return list(plans)
    ranker = load_ranker()
    kept = ranker.keep_in(folder) if folder.is_dir() else None
    logits = ranker.logits(questions, list(hops), list(hops.values()), kept)
    row, column = ({one: at for at, one in enumerate(some)} for some in (questions, hops))
    fits = [
        float(np.mean([logits[row[asked], column[text]] for asked, text, _ in some]))
        if some
        else None
        for some in paths
    ]
    best = max(one for one in fits if one is not None)
    ranked = [
        one
        if fit is None
        else replace(one, score=one.score + WEIGHTS["path_meaning"] * (fit - best))
        for one, fit in zip(plans, fits, strict=True)
    ]
    return sorted(ranked, key=lambda one: -one.score)


def _paths(reading: QuestionReading, plan: Plan) -> list[tuple[str, str, int]]:
    """Return the paths from each named entity of a plan to what it gives, [] for none.

    Each with the question in which ``x`` stands for the entity and other names are left out, and
    with its number of hops. A plan in two steps has none.
    """
    if plan.first is not None:
        return []
    found = []
    for one in plan.where:
        if isinstance(one.left, NodeRef) and one.operator in ("=", "in"):
            steps = _steps(plan, one.left.node)
            if steps:
                phrases = [phrase for phrase, _ in steps]
                numbered = [(2 * at + back, -1) for at, (_, back) in enumerate(steps)]
                text = relation_path_text(numbered, phrases)
                found.append((_masked(reading, one), text, len(steps)))
    return found


def _steps(plan: Plan, start: int) -> list[tuple[str, bool]]:
    """Return the steps from a node to what a plan gives, each a phrase and whether it goes back.

    The last step is the given property, if any; [] without a step.
    """
    given = plan.give[0]
    if isinstance(given, Aggregate):
        given = given.of
    owner = given.owner if isinstance(given, PropertyRef) else given
    if not isinstance(owner, NodeRef):
        return []
    ways: dict[int, list[tuple[str, bool]]] = {start: []}
    reached = [start]
    for node in reached:
        for hop in plan.hops:
            for here, there, back in (
                (hop.source, hop.target, hop.inverse),
                (hop.target, hop.source, not hop.inverse),
            ):
                if here == node and there not in ways:
                    ways[there] = [*ways[node], (relation_phrase(hop.relation), back)]
                    reached.append(there)
    if owner.node not in ways:
        return []
    last = [(relation_phrase(given.name), False)] if isinstance(given, PropertyRef) else []
    return [*ways[owner.node], *last]


def _masked(reading: QuestionReading, named: Comparison) -> str:
    """Return the question with ``x`` for the entity of a condition, without other entities."""
    ids = {*named.right} if isinstance(named.right, tuple) else set()
    text = reading.question
    for value in sorted(reading.values, key=lambda one: -one.start):
        theirs = {
            id_ for some in (value.fields, value.things) for of in some.values() for id_ in of
        }
        if value.things or any(kind == "entity" for kind, *_ in value.fields):
            mark = TOPIC if theirs & ids else ""
            text = text[: value.start] + mark + text[value.end :]
    return " ".join(text.split())
