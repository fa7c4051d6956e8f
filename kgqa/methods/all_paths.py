"""The KG-LLM left out: every path of the topic entities stands before the general LLM.

An ablation: what does it bring to choose paths? As many paths as a budget of tokens holds are
written into the prompt, those of one hop first, within a length drawn by a seed, so that no
relation is in for its name; how many were left out is told. Tokens are estimated at
four characters each, since the general LLM's tokenizer is not known. What it does not do: call the
general LLM (``methods.WithGeneralLLM``).
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.answers.answer import Answer, ScoredPath, SearchUse, Timings
from kgqa.methods.base import CAP, NO_KG_LLM, candidate_paths, one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kgqa.errors import KgqaError
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import WalkRules

PROMPT_TOKENS = 2_000  # of the paths in a prompt
_CHARACTERS = 4  # of a token
_LINE = 6  # tokens that a path's line has beside the path and its end


@dataclass(frozen=True, slots=True)
class AllPaths:
    """All paths of the topic entities, unscored. A :class:`kgqa.methods.base.Method`.

    Every path has the same score, the log of its share. ``prompt_tokens``: what the paths may take
    of a prompt; one path always stands. ``cap``, ``seed``, ``walks`` as in
    :class:`kgqa.methods.retrieval.Retrieval`.
    """

    form: PathFormat
    walks: Callable[[GraphStore], WalkRules]
    prompt_tokens: int = PROMPT_TOKENS
    cap: int = CAP
    seed: int = 0

    @property
    def name(self) -> str:
        """The method's name."""
        return "gcr"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return which walks of ``store`` are paths."""
        return self.walks(store)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its paths, or its error; nothing is answered yet."""
        rules = self.walks(store)
        return one_by_one(questions, lambda asking: self._answer(store, asking, rules))

    def _answer(self, store: GraphStore, asking: Asking, rules: WalkRules) -> Answer:
        began = time.perf_counter()
        found = candidate_paths(store, asking.topics, rules, self.form, self.cap, self.seed)
        order = list(range(len(found.texts)))
        random.Random(self.seed).shuffle(order)
        order.sort(key=lambda row: len(found.groups[row][0].edges))
        taken: list[int] = []
        left = self.prompt_tokens
        for row in order:
            tail = found.groups[row][0].tail.name
            left -= _LINE + math.ceil((len(found.texts[row]) + len(tail)) / _CHARACTERS)
            if taken and left < 0:
                break
            taken.append(row)
        notes = list(found.notes)
        if len(taken) < len(order):
            notes.append(
                f"{len(taken):,} of {len(order):,} paths fit into {self.prompt_tokens:,} tokens of "
                "the prompt; the others are left out."
            )
        score = -math.log(len(taken))
        paths = tuple(
            ScoredPath(found.texts[row], score, found.groups[row][0].tail.name, found.groups[row])
            for row in taken
        )
        return Answer(
            question=asking.question,
            method=self.name,
            topic_entities=asking.topics,
            answers=(),
            paths=paths,
            constraints=(),
            kg_llm=NO_KG_LLM,
            general_llm=None,
            timings=Timings(link=asking.link_seconds, ground=time.perf_counter() - began),
            forwards=0,
            notes=tuple(notes),
            search=SearchUse("all"),
        )
