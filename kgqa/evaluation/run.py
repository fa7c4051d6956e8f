"""A run over a file of questions, and its summary over *all* of them, failed ones included.

What it does not do: decide how a question is answered; the caller passes that as a function.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.errors import KgqaError
from kgqa.evaluation.metrics import gcr_scores, mean_percent, rog_scores, strict_scores
from kgqa.paths.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kgqa.evaluation.readers import Question, QuestionFile
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.progress import Progress
    from kgqa.reasoning.answer import Answer

_WALKED = 500_000  # paths up to which it is found out whether an answer can be reached


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one question: the answer, or the error that a user would have seen."""

    question: Question
    gold: tuple[str, ...]  # ids
    gold_names: tuple[str, ...]
    answer: Answer | None
    error: str
    seconds: float
    reachable: bool

    @property
    def predictions(self) -> list[str]:
        """Ids of the answers, best first; an answer without an id stands as its name."""
        return [one.id or one.name for one in self.answer.answers] if self.answer else []

    def to_json(self) -> dict[str, Any]:
        """Return the line of the run's log."""
        scores = strict_scores(self.predictions, self.gold)
        return {
            "id": self.question.id,
            "question": self.question.question,
            "gold": list(self.gold),
            "predictions": self.predictions[:10],
            "hits_at_1": scores.hits_at_1,
            "hit_at_k": scores.hit_at_k,
            "f1": scores.f1,
            "reachable": self.reachable,
            "paths": [path.text for path in self.answer.paths] if self.answer else [],
            "error": self.error,
            "seconds": round(self.seconds, 3),
        }


def gold_ids(store: GraphStore, answers: Sequence[str]) -> tuple[str, ...]:
    """Return the ids that the answers of a file mean.

    An id stands for itself, a name for all entities of that name; what the KG does not know stays
    as it is, so that it counts as missed.
    """
    found: list[str] = []
    by_id = store.keys_of(answers) >= 0
    for answer, known in zip(answers, by_id.tolist(), strict=True):
        if known:
            found.append(answer)
            continue
        keys = store.find_names([answer])[1]
        found.extend(store.entities(keys).ids if len(keys) else [answer])
    return tuple(dict.fromkeys(found))


def gold_names(store: GraphStore, gold: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each id, or the id itself where the KG does not know it."""
    keys = store.keys_of(gold)
    known = store.entities(keys[keys >= 0])
    names = iter(known.label(row) for row in range(len(known)))
    return tuple(next(names) if key >= 0 else one for key, one in zip(keys, gold, strict=True))


def is_reachable(
    store: GraphStore, topics: IntArray, gold: Sequence[str], rules: WalkRules
) -> bool:
    """Return whether any path out of ``topics`` ends in one of ``gold``.

    A topic with more paths than can be looked at counts as reaching everything.
    """
    wanted = store.keys_of(gold)
    wanted = wanted[wanted >= 0]
    if not len(topics) or not len(wanted):
        return False
    table, over = walk(store, np.unique(topics), rules, _WALKED)
    return bool(len(over)) or bool(np.isin(table.ends(), wanted).any())


def run_questions(
    store: GraphStore,
    questions: Sequence[Question],
    answer: Callable[[Question], Answer],
    rules: WalkRules,
    progress: Progress,
    each: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Answer every question and return the results in order; a failed one has an error.

    ``each`` is called with every result as it comes.
    """
    results = []
    with progress.task("answering", len(questions), "questions") as task:
        for question in questions:
            began = time.perf_counter()
            given, error = None, ""
            try:
                given = answer(question)
            except KgqaError as fault:
                error = str(fault)
            seconds = time.perf_counter() - began
            gold = gold_ids(store, question.answers)
            asked = (
                [topic.id for topic in given.topic_entities]
                if given
                else [*gold_ids(store, question.topic_entities)]
            )
            topics = store.keys_of(asked)
            reachable = is_reachable(store, topics[topics >= 0], gold, rules)
            names = gold_names(store, gold)
            result = Result(question, gold, names, given, error, seconds, reachable)
            each(result)
            results.append(result)
            task.advance()
    return results


def summary(
    file: QuestionFile, results: Sequence[Result], *, kg: str, method: str, form: str
) -> dict[str, Any]:
    """Return the JSON of ``kgqa eval``: percentages over all questions of the file."""
    total = file.total
    strict = [strict_scores(result.predictions, result.gold) for result in results]
    names = [
        [one.name for one in result.answer.answers] if result.answer else [] for result in results
    ]
    texts = [result.gold_names for result in results]
    legacy = {
        "gcr": [gcr_scores(p, g) for p, g in zip(names, texts, strict=True)],
        "rog": [rog_scores(p, g) for p, g in zip(names, texts, strict=True)],
    }
    answered = [result for result in results if result.answer]
    correct = [r for r, s in zip(results, strict, strict=True) if s.hit_at_k and r.answer]
    by_hop: dict[str, list[float]] = defaultdict(list)
    for result, scores in zip(results, strict, strict=True):
        by_hop[str(result.question.hops)].append(scores.hits_at_1)
    general = [r.answer.general_llm for r in answered if r.answer and r.answer.general_llm]
    return {
        "format": form,
        "kg": kg,
        "method": method,
        "questions": total,
        "answered": len(answered),
        "hit": mean_percent([one.hit for one in legacy["gcr"]], total),
        "hits_at_1": mean_percent([one.hits_at_1 for one in strict], total),
        "hit_at_k": mean_percent([one.hit_at_k for one in strict], total),
        "mrr": mean_percent([one.mrr for one in strict], total),
        "accuracy": None,
        "f1": mean_percent([one.f1 for one in strict], total),
        "precision": mean_percent([one.precision for one in strict], total),
        "recall": mean_percent([one.recall for one in strict], total),
        "legacy": {
            name: {
                "hit": mean_percent([one.hit for one in scores], total),
                "f1": mean_percent([one.f1 for one in scores], total),
                "precision": mean_percent([one.precision for one in scores], total),
                "recall": mean_percent([one.recall for one in scores], total),
                "acc": mean_percent([one.acc for one in scores], total),
            }
            for name, scores in legacy.items()
        },
        # a path that is not grounded never becomes part of an answer, so what is counted is
        # whether an answer has one
        "grounded_paths": mean_percent(
            [float(bool(r.answer and r.answer.paths)) for r in answered]
        ),
        "faithful_of_correct": mean_percent(
            [float(bool(r.answer and r.answer.answers[0].grounded)) for r in correct]
        ),
        "reachable": mean_percent([float(result.reachable) for result in results], total),
        "by_hop": {
            hop: {"questions": len(hits), "hits_at_1": mean_percent(hits)}
            for hop, hits in sorted(by_hop.items())
        },
        "seconds": _percentiles([result.seconds for result in answered], 50, 95),
        "forwards": _percentiles([r.answer.forwards for r in answered if r.answer], 50),
        "general_llm": {
            "model": general[0].model,
            "calls": sum(use.calls for use in general),
            "prompt_tokens": sum(use.prompt_tokens for use in general),
            "completion_tokens": sum(use.completion_tokens for use in general),
        }
        if general
        else None,
    }


def _percentiles(values: Sequence[float], *which: int) -> dict[str, float | None]:
    return {
        f"p{one}": round(float(np.percentile(values, one)), 3) if len(values) else None
        for one in which
    }
