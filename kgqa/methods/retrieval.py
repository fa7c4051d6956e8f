"""Dense retrieval: the paths whose text is nearest to the question, and answers from their ends.

This is the baseline that needs no KG-LLM: every path out of the topic entities is made a vector by
a sentence encoder, as the question is, and the K with the highest cosine are taken. A path's score
is the log-softmax of the cosines over all paths, sharpened as such encoders are trained (× 20),
and the ends of the paths are voted on as those of decoded ones are. What it does not do: expand
relation paths, or keep vectors from one question to the next.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.answer import Answer, ScoredPath, SearchUse, Timings
from kgqa.answers.choices import find_choices, rank_choices
from kgqa.answers.vote import vote
from kgqa.methods.base import CAP, NO_KG_LLM, candidate_paths, one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kgqa.errors import KgqaError
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.models.sentences import SentenceEncoder
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules

SHARPNESS = 20.0  # what cosines are multiplied by in the encoders' training


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Answers from the ``k`` paths nearest to the question: a method.

    Of a multiple-choice question only paths that end in a choice are looked at.

    ``walks`` says which walks of a store are paths. Of a topic entity with more than ``cap`` paths
    a sample by ``seed`` is searched, and a note says so.
    """

    encoder: SentenceEncoder
    form: PathFormat
    walks: Callable[[GraphStore], WalkRules]
    k: int = 10
    cap: int = CAP
    seed: int = 0

    @property
    def name(self) -> str:
        """The method's name."""
        return "retrieval"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, in their order."""
        rules = self.walks(store)
        return one_by_one(questions, lambda asking: self._answer(store, asking, rules))

    def _answer(self, store: GraphStore, asking: Asking, rules: WalkRules) -> Answer:
        began = time.perf_counter()
        found = candidate_paths(store, asking.topics, rules, self.form, self.cap, self.seed)
        choices = find_choices(store, asking.choices) if asking.choices else []
        if choices:
            found = found.ending_in({id_ for one in choices for id_ in one.ids})
        walked = time.perf_counter()
        texts = [in_words(group[0]) for group in found.groups]
        vectors = self.encoder.encode([asking.question, *texts])
        cosines = vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64)
        scores = SHARPNESS * cosines
        scores -= np.logaddexp.reduce(scores)
        nearest = np.argsort(-scores, kind="stable")[: self.k].tolist()
        paths = tuple(
            ScoredPath(
                found.texts[row],
                float(scores[row]),
                found.groups[row][0].tail.name,
                found.groups[row],
            )
            for row in nearest
        )
        retrieved = time.perf_counter()
        answers = rank_choices(choices, paths) if choices else vote(paths)
        return Answer(
            question=asking.question,
            method=self.name,
            topic_entities=asking.topics,
            answers=tuple(answers),
            paths=paths,
            constraints=(),
            kg_llm=NO_KG_LLM,
            general_llm=None,
            timings=Timings(
                link=asking.link_seconds,
                decode=retrieved - walked,
                ground=walked - began,
                answer=time.perf_counter() - retrieved,
            ),
            forwards=0,
            notes=found.notes,
            search=SearchUse("dense"),
        )


def in_words(path: GroundedPath) -> str:
    """Return a path as an encoder reads it: predicates as the words they are made of."""
    parts = [path.head.name]
    for edge in path.edges:
        parts += [edge.relation.translate(_WORDS).strip(), edge.tail.name]
    return " -> ".join(" ".join(part.split()) for part in parts)


_WORDS = str.maketrans(dict.fromkeys("._/^", " "))
