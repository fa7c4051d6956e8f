"""The KG-LLM left out: every path of the topic entities stands before the general LLM.

An ablation: what does it gain to choose paths? As many paths as a budget of tokens holds are
written into the prompt, those of one hop first, within a length drawn by a seed, so that no
relation is in for its name; a note says how many were left out. Tokens are estimated at four
characters each, since the general LLM's tokenizer is not known.
"""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING, Any

from kgqa.answers.answer import Findings, SearchUse, Timings
from kgqa.methods.base import Method
from kgqa.methods.options import AllPathsOptions
from kgqa.methods.retrieval import topic_paths

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion

_CHARACTERS = 4  # of a token
_LINE = 6  # tokens that a path's line has beside the path and its end
_SEED = 0


class AllPaths(Method[AllPathsOptions]):
    """All paths of the topic entities; every path has the same score, the log of its part."""

    name = "all-paths"
    Options = AllPathsOptions

    def own_settings(self) -> dict[str, Any]:
        """Return how many paths there may be."""
        return {"k": None, "prompt_tokens": self.options.prompt_tokens, "cap": self.options.cap}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the paths that fit into the prompt; one always stands."""
        began = time.perf_counter()
        rules, room = self.walks(store), self.options.prompt_tokens
        found = topic_paths(store, question.topics, rules, self.form, self.options.cap, _SEED)
        order = list(range(len(found.texts)))
        random.Random(_SEED).shuffle(order)
        order.sort(key=lambda row: len(found.groups[row][0].edges))
        taken: list[int] = []
        left = room
        for row in order:
            tail = found.groups[row][0].tail.name
            left -= _LINE + math.ceil((len(found.texts[row]) + len(tail)) / _CHARACTERS)
            if taken and left < 0:
                break
            taken.append(row)
        notes = list(found.notes)
        if len(taken) < len(order):
            notes.append(
                f"{len(taken):,} of {len(order):,} paths fit into {room:,} tokens of the prompt; "
                "the others are left out."
            )
        return Findings(
            paths=tuple(found.scored(row, -math.log(len(taken))) for row in taken),
            timings=Timings(ground=time.perf_counter() - began),
            notes=tuple(notes),
            search=SearchUse("all"),
        )
