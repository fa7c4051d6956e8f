"""How often an answer is among the first K entities: a reasoner, BM25 and dense retrieval of paths.

BM25 and the sentence encoder rank the texts of all paths out of the topic entities (of a hub a
sample, whose size ``cap`` says); an entity stands where its best path does. The reasoner ranks
entities. Every question counts, those without a topic entity or a path as missed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Answer, TopicEntity
from kgqa.errors import KgqaError
from kgqa.linking.resolve import resolve_entities
from kgqa.methods.base import candidate_paths
from kgqa.methods.gcr import Asking
from kgqa.methods.retrieval import in_words
from kgqa.paths.format import PathFormat
from kgqa.questions.meanings import known_topics, meanings_of
from scripts.benchmarks.bm25 import bm25

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.method import KgCot
    from kgqa.models.sentences import SentenceEncoder
    from kgqa.paths.walk import WalkRules
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


def measure(
    store: GraphStore,
    questions: Sequence[Question],
    method: KgCot,
    encoder: SentenceEncoder | None,
    rules: WalkRules,
    cap: int,
) -> list[Coverage]:
    """Return the coverage of the reasoner, and of BM25 and the encoder where there is one."""
    reasoner, lexical, dense = Coverage("kg-cot"), Coverage("bm25"), Coverage("dense")
    golds = []
    askings = []
    for question in questions:
        golds.append(set(meanings_of(store, question.answers, question.names).same))
        askings.append(Asking(question.question, topics_of(store, question)))

    def given() -> Iterator[Asking | KgqaError]:
        for one in askings:
            yield one if one.topics else KgqaError("no topic entity is in the KG")

    began = time.perf_counter()
    for number, answer in method.answers(store, given()):
        spent = time.perf_counter() - began
        ranked = []
        if isinstance(answer, Answer):
            ranked = [one.id or "" for one in (*answer.answers, *answer.others)]
        reasoner.add(ranked, golds[number], spent)
        began = time.perf_counter()
    if encoder is None:
        return [reasoner]
    for asking, gold in zip(askings, golds, strict=True):
        began = time.perf_counter()
        texts, ends = _texts(store, asking, rules, cap)
        walked = time.perf_counter() - began
        for coverage in (lexical, dense):
            began = time.perf_counter()
            if not texts:
                scores = np.zeros(0)
            elif coverage is lexical:
                scores = bm25(asking.question, texts)
            else:
                vectors = encoder.encode([asking.question, *texts])
                scores = vectors[1:] @ vectors[0]
            order = np.argsort(-scores, kind="stable")
            ranked = list(dict.fromkeys(ends[row] for row in order.tolist()))
            coverage.add(ranked, gold, walked + time.perf_counter() - began)
    return [reasoner, lexical, dense]


def _texts(
    store: GraphStore, asking: Asking, rules: WalkRules, cap: int
) -> tuple[list[str], list[str]]:
    """Return the texts of paths, each with the entity that it ends in."""
    if not asking.topics:
        return [], []
    try:
        found = candidate_paths(store, asking.topics, rules, PathFormat(), cap)
    except KgqaError:
        return [], []
    pairs = [
        (in_words(path), path.tail.id)
        for group in found.groups
        for path in {one.tail.id: one for one in group}.values()
    ]
    return [text for text, _ in pairs], [end for _, end in pairs]
