"""What confidence is worth: which questions without an answer it finds, which right ones it costs.

Every question is asked twice: of its own topic entities, and of another question's one from which
no answer can be reached, so that this graph has none. What it does not do: choose questions.
Questions about graphs of people's own (:func:`ask_own`) say themselves what has no answer.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import kgqa
from kgqa.answers.answer import TopicEntity
from kgqa.answers.ranking import calibrated
from kgqa.errors import KgqaError
from kgqa.evaluation.graph_metrics import distance
from kgqa.linking.resolve import resolve_entities
from kgqa.methods.base import LinkedQuestion
from kgqa.questions import read_questions
from kgqa.questions.meanings import known_topics, meanings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.methods.gcr import Gcr
    from kgqa.paths.walk import WalkRules
    from kgqa.questions import Question
    from kgqa.questions.meanings import Meanings

_TRIES = 50  # other questions that are looked at for a topic entity without an answer
_BINS = 10
_STEPS = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """One asking: the evidence, whether the first answer is right, whether there is an answer."""

    evidence: float
    right: bool
    answerable: bool


def askings(
    store: GraphStore, questions: Sequence[Question], rules: WalkRules, seed: int
) -> Iterator[tuple[LinkedQuestion, Meanings, bool]]:
    """Yield each question as it is, then as one that has no answer; unknown topics are left out."""
    drawn = random.Random(seed)
    for question in questions:
        topics = _topics(store, question)
        if not topics:
            continue
        gold = meanings_of(store, question.answers, question.names)
        keys = store.keys_of([one for one in gold.same if one not in gold.unknown])
        wanted = keys[keys >= 0]
        yield LinkedQuestion(question.question, topics), gold, True
        for _ in range(_TRIES):
            other = _topics(store, drawn.choice(questions))[:1]
            if not other or other[0].id in {one.id for one in topics}:
                continue
            if distance(store, np.array([other[0].key]), wanted, rules) is None:
                yield LinkedQuestion(question.question, other), gold, False
                break


def ask(
    store: GraphStore,
    method: Gcr,
    asked: Sequence[tuple[LinkedQuestion, Meanings, bool]],
) -> list[Seen]:
    """Return what the evidence for the first answer of each asking was; a failed one has none."""
    assert method.ranking is not None
    method.ranking = replace(method.ranking, slope=1.0, shift=0.0, min_confidence=0.0)
    found = []
    every = [one for one, _, _ in asked]
    for number, answer in method.answers(store, every):
        _, gold, answerable = asked[number]
        if isinstance(answer, KgqaError):
            found.append(Seen(0.0, False, answerable))
            continue
        first = gold.canonical([one.id or one.name for one in answer.answers])[:1]
        right = answerable and bool(first) and first[0] in gold.ids
        found.append(Seen(answer.confidence or 0.0, right, answerable))
    return found


def ask_own(
    folders: Sequence[Path], file: str, home: Path, **options: float
) -> dict[str, list[tuple[Seen, str]]]:
    """Return of each graph's questions in ``file`` what rank says, and of what kind an answer is.

    The evidence is the first entity's score, of one that no answer is given for 0. Kinds are those
    whose confidence has a fit of its own: ``conditions``, ``several`` topic entities, else none.
    """
    found: dict[str, list[tuple[Seen, str]]] = {}
    for folder in folders:
        names = folder / "names.tsv"
        more = {"names": names} if names.exists() else {}
        asked = list(read_questions(folder / file).questions)
        if not (home / folder.name).exists():
            triples = folder / "triples.tsv"
            kgqa.ingest("triples", triples, kg=folder.name, home=home, **more).close()
        with (
            kgqa.open(folder.name, home=home) as kg,
            kg.qa(method="rank", **options) as session,
        ):
            mine = found[folder.name] = []
            for one, answer in zip(asked, session.batch(asked), strict=True):
                given = answer.answers
                right = bool(given) and bool({given[0].id, given[0].name} & {*one.answers})
                seen = Seen(given[0].score if given else 0.0, right, bool(one.answers))
                kind = "several" if given and len(answer.topic_entities) > 1 else ""
                mine.append((seen, "conditions" if given and given[0].conditions else kind))
    return found


def at(seen: Sequence[Seen], least: float) -> tuple[int, int, int]:
    """Return how many a threshold withholds: without an answer, right ones, wrong ones."""
    withheld = [one for one in seen if one.evidence < least]
    return (
        sum(not one.answerable for one in withheld),
        sum(one.right for one in withheld),
        sum(one.answerable and not one.right for one in withheld),
    )


def fit(seen: Sequence[Seen]) -> tuple[float, float]:
    """Return slope and shift that make confidences of evidence (Platt), by Newton's method.

    A weak pull to 1 and 0 keeps both finite where evidence tells right and wrong apart. A slope
    that would not rise is 1, with 0.
    """
    odds = np.array([_odds(one.evidence) for one in seen])
    right = np.array([one.right for one in seen], float)
    wanted = np.array([1.0, 0.0])
    found = wanted.copy()
    inputs = np.stack([odds, np.ones(len(odds))], axis=1)
    for _ in range(_STEPS):
        said = 1.0 / (1.0 + np.exp(-np.clip(inputs @ found, -500, 500)))
        slope = inputs.T @ (said - right) + 0.1 * (found - wanted)
        bend = (inputs * (said * (1 - said))[:, None]).T @ inputs + 0.1 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        found = found - step / max(1.0, np.abs(step).max())  # or it may leap past the best one
        if np.abs(step).max() < 1e-9:
            break
    return (float(found[0]), float(found[1])) if found[0] > 0 else (1.0, 0.0)


def calibration_error(seen: Sequence[Seen], slope: float = 1.0, shift: float = 0.0) -> float:
    """Return the expected calibration error over ten bins of equal width, in 0..1."""
    said = np.array([calibrated(one.evidence, slope, shift) for one in seen])
    right = np.array([one.right for one in seen], float)
    bins = np.minimum((said * _BINS).astype(int), _BINS - 1)
    parts = (
        float((bins == one).mean() * abs(said[bins == one].mean() - right[bins == one].mean()))
        for one in np.unique(bins)
    )
    return math.fsum(parts)


def _odds(evidence: float) -> float:
    kept = min(max(evidence, 1e-6), 1.0 - 1e-6)
    return math.log(kept) - math.log1p(-kept)


def _topics(store: GraphStore, question: Question) -> tuple[TopicEntity, ...]:
    try:
        found = resolve_entities(store, known_topics(store, question))
    except KgqaError:
        return ()
    return tuple(TopicEntity(one.key, one.id, one.name, 1.0) for one in found)
