"""Fit what a hop and an unasked word cost a plan, on what the planner proposes beside gold.

    python -m scripts.planner.fit_costs --data DIR [--questions N] [--seed N]

DIR has ``train.jsonl`` and ``schemas.json`` of the Neo4j Labs text2cypher collection. Of each
question the planner's plans are taken; where gold is among them, three weights are fitted by a
softmax over the list: of the score, of a plan's hops, and of the words in its names that the
question lacks. Each database is left out in turn, and a line says of how many questions gold is
among the plans, first, and first with the costs fitted on the others. The last line is the
``unasked`` of the plan scorer's card.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from kgqa.models.plan_scorer import load_plan_scorer
from scripts.planner.chains import ChainSchema
from scripts.planner.cypher_chains import chain_of
from scripts.planner.examples import collection, schema_of
from scripts.planner.proposals import Proposer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    List = tuple[NDArray[np.float64], NDArray[np.bool_]]  # features of each plan; which are gold

_SCALE = np.array([0.2, 0.5, 0.25])  # of a score's distance, hops, words, to be about as large
_START = np.array([4.0, 0.0, 0.0])
_STEPS, _RATE, _RIDGE = 400, 0.05, 0.01


def fitted(lists: Sequence[List]) -> NDArray[np.float64]:
    """Return the weights of scaled features that make gold likeliest (Adam)."""
    weights, first, second = _START.copy(), np.zeros(3), np.zeros(3)
    for step in range(1, _STEPS + 1):
        slope = _RIDGE * (weights - _START)
        for features, gold in lists:
            odds = np.exp(features @ weights - (features @ weights).max())
            right = odds * gold
            slope += features.T @ (odds / odds.sum() - right / right.sum()) / len(lists)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        rise = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        weights -= _RATE * rise
    return weights


def proposed(data: Path, most: int, seed: int) -> tuple[dict[str, list[List]], dict[str, int]]:
    """Return each database's lists with gold among them, and how many questions were asked."""
    schemas, rows = collection(data)
    chains = {name: ChainSchema.of_json(schema) for name, schema in schemas.items()}
    scorer = load_plan_scorer()
    planners = {name: Proposer(schema_of(schema), scorer) for name, schema in schemas.items()}
    lists: dict[str, list[List]] = defaultdict(list)
    asked: dict[str, int] = defaultdict(int)
    Random(seed).shuffle(rows)
    for row in rows:
        name = row["database"]
        gold = chain_of(row["cypher"], chains[name]) if name in chains else None
        if gold is None or sum(asked.values()) >= most:
            continue
        plans = planners[name].plans(row["question"], gold)
        asked[name] += 1
        is_gold = np.array([plan.is_gold for plan in plans], bool)
        if is_gold.any():
            features = [(plan.score - plans[0].score, *plan.unasked) for plan in plans]
            lists[name].append((np.array(features) * _SCALE, is_gold))
    return lists, asked


def main() -> None:
    """Fit as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--questions", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    lists, asked = proposed(given.data, given.questions, given.seed)
    for left_out in sorted(lists):
        rest = [one for name, some in lists.items() if name != left_out for one in some]
        weights = fitted(rest)
        before = sum(bool(gold[0]) for _, gold in lists[left_out])
        after = sum(bool(gold[(rows @ weights).argmax()]) for rows, gold in lists[left_out])
        print(
            f"{left_out}: {asked[left_out]} questions, gold among the plans "
            f"{len(lists[left_out])}, first {before}, with costs {after}"
        )
    weights = fitted([one for some in lists.values() for one in some]) * _SCALE
    print(f'"unasked": {[round(float(-one / weights[0]), 2) for one in weights[1:]]}')


if __name__ == "__main__":
    main()
