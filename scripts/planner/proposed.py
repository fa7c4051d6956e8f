"""Lists of plans that the planner proposed, for the ranker of whole plans to learn from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.planner.plan_lists import Listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from scripts.planner.plan_lists import PlanLists

_OTHERS, _NEAREST = 9, 5  # plans of a list besides gold, of which the planner has so many first
_RENAMED = 0.4  # part of the lists whose schema is called otherwise
_GENERAL = 0.35  # lists of exchanged parts for each proposed one
_SURE = 0.5  # part of the lists that are kept where gold is first by far
_FAR = 4.0
_CHECKS = 50  # lists of a database, or of the domains


@dataclass(frozen=True, slots=True)
class Proposed:
    """A question with plans in words, the planner's scores, and which are gold."""

    database: str
    question: str
    plans: list[str]
    scores: list[float]
    right: frozenset[int]
    same: frozenset[int]  # of the same rows, so neither right nor wrong
    gold: str


class Proposals:
    """The lists of files; those of the databases ``aside`` and of held-out domains are checks."""

    def __init__(self, files: Sequence[Path], aside: Sequence[str], random: Random) -> None:
        self._random = random
        every = [_read(line) for file in files for line in file.read_text("utf-8").splitlines()]
        self._learnt = []
        self.checks: dict[str, list[Proposed]] = {}
        for one in every:
            made = one.database.startswith("held-out")
            if made or one.database in aside:
                name = "domains" if made else one.database
                if len(self.checks.setdefault(name, [])) < _CHECKS:
                    self.checks[name].append(one)
            else:
                self._learnt.append(one)

    def lists(self, general: PlanLists) -> Iterator[Listed]:
        """Yield lists to learn from, without end, those of ``general`` among them."""
        random, others = self._random, general.lists()
        while True:
            random.shuffle(self._learnt)
            for one in self._learnt:
                if (listed := self._listed(one)) is not None:
                    yield general.renamed(listed) if random.random() < _RENAMED else listed
                if random.random() < _GENERAL:
                    yield next(others)

    def _listed(self, one: Proposed) -> Listed | None:
        random = self._random
        first = max(range(len(one.plans)), key=lambda at: one.scores[at])
        second = sorted(one.scores)[-2:][0]
        if first in one.right and one.scores[first] - second > _FAR and random.random() > _SURE:
            return None
        right = [one.plans[at] for at in sorted(one.right)] or [one.gold]
        wrong = [
            plan
            for at, plan in enumerate(one.plans)
            if at not in one.right | one.same and plan not in right
        ]
        near, far = wrong[:_NEAREST], wrong[_NEAREST:]
        near += random.sample(far, min(_OTHERS - len(near), len(far)))
        return Listed(one.question, [*right, *near], len(right)) if near else None


def _read(line: str) -> Proposed:
    """Return a line of a file; plans of equal words are one, the best of them."""
    row = json.loads(line)
    plans: dict[str, float] = {}
    right, same = set[str](), set[str]()
    gold = {*row["right"]} or {*row["same"]}
    for at, (plan, score) in enumerate(zip(row["plans"], row["scores"], strict=True)):
        plans[plan] = max(score, plans.get(plan, score))
        if at in gold:
            right.add(plan)
        elif at in row["same"]:
            same.add(plan)
    texts = list(plans)
    return Proposed(
        row["database"], row["question"], texts, [plans[one] for one in texts],
        frozenset(at for at, one in enumerate(texts) if one in right),
        frozenset(at for at, one in enumerate(texts) if one in same - right),
        row["gold"],
    )  # fmt: skip
