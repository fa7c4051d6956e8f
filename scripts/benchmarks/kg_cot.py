"""How often an answer is among the first K entities that a reasoner ranks.

Every question counts, those without a topic entity or a path as missed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Answer, TopicEntity
from kgqa.errors import KgqaError
from kgqa.linking.resolve import resolve_entities
from kgqa.methods.base import LinkedQuestion
from kgqa.questions.meanings import known_topics, meanings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.method import KgCot
    from kgqa.questions import Question

FIRST = (1, 5, 10, 15)


@dataclass(slots=True)
class Coverage:
    """Of one way to rank: how many questions it was asked, found in the first K, and seconds."""

    name: str
    asked: int = 0
    found: dict[int, int] = field(default_factory=lambda: dict.fromkeys(FIRST, 0))
    seconds: list[float] = field(default_factory=list)

    def add(self, ranked: Sequence[str], gold: set[str], seconds: float) -> None:
        """Count a question whose answers are ``gold`` and whose ids were ranked so."""
        self.asked += 1
        self.seconds.append(seconds)
        for first in FIRST:
            self.found[first] += bool(gold.intersection(ranked[:first]))

    def figures(self) -> dict[str, float]:
        """Return shares in per cent, and seconds a question."""
        shares = {f"top_{one}": 100 * self.found[one] / max(self.asked, 1) for one in FIRST}
        p50, p95 = np.percentile(self.seconds or [0.0], [50, 95])
        return {**shares, "seconds_p50": float(p50), "seconds_p95": float(p95)}


def topics_of(store: GraphStore, question: Question) -> tuple[TopicEntity, ...]:
    """Return the topic entities that the file gives, as far as the KG knows them."""
    try:
        found = resolve_entities(store, known_topics(store, question))
    except KgqaError:
        return ()
    return tuple(TopicEntity(one.key, one.id, one.name, 1.0) for one in found)


def measure(store: GraphStore, questions: Sequence[Question], method: KgCot) -> Coverage:
    """Return the coverage of the reasoner of ``method``."""
    golds = [set(meanings_of(store, one.answers, one.names).same) for one in questions]
    topics = [topics_of(store, one) for one in questions]
    asked = [
        LinkedQuestion(one.question, found) if found else KgqaError("no topic entity is in the KG")
        for one, found in zip(questions, topics, strict=True)
    ]
    coverage, began = Coverage("kg-cot"), time.perf_counter()
    for number, answer in method.answers(store, asked):
        spent = time.perf_counter() - began
        ranked = []
        if isinstance(answer, Answer):
            ranked = [one.id or "" for one in (*answer.answers, *answer.others)]
        coverage.add(ranked, golds[number], spent)
        began = time.perf_counter()
    return coverage
