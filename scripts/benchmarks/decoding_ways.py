"""The questions of scripts/bench_decoding, and the two ways to decode them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.decoding_shapes import Loaded
    from kgqa.decoding.engine import Plan
    from kgqa.trie.stored import StoredConstraint

Ranked = list[tuple[int, ...]]


@dataclass(frozen=True)
class Question:
    """A prompt and its trie. ``longest``: tokens of the longest path, the closing included."""

    name: str
    prompt: list[int]
    constraint: StoredConstraint
    paths: int
    longest: int


@dataclass(frozen=True)
class Decoded:
    """What a way gave for some questions: the ranked lists, forward passes, seconds in all."""

    ranked: list[Ranked]
    forwards: int
    seconds: float


# ── questions ───────────────────────────────────────────────────────────────────────────────


def read_question(file: Path, loaded: Loaded) -> Question:
    """Make the trie of a question's graph: parts tokenised once each, ids joined."""
    import numpy as np

    from kgqa.paths.format import PathFormat
    from kgqa.paths.walk import PathTable
    from kgqa.trie.arrays import sequences
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.stored import stored_constraint

    content = json.loads(file.read_text("utf-8"))
    (topic,) = content["topic_entities"]
    edges: dict[str, list[tuple[str, str]]] = {}
    for head, relation, tail in sorted({tuple(edge) for edge in content["edges"]}):
        edges.setdefault(head, []).append((relation, tail))
    form, encoder = PathFormat(), loaded.encoder
    lexicon = PathLexicon(encoder, form)
    names = {name for edge in content["edges"] for name in (edge[0], edge[2])}
    relations = {edge[1] for edge in content["edges"]}
    parts = sorted(names | relations)
    of = dict(zip(parts, encoder.encode([form.gap + part for part in parts]), strict=True))
    link, closing = lexicon.link, lexicon.closing
    (first,) = encoder.encode([form.lead + topic])

    rows = set()
    for relation, middle in edges.get(topic, ()):
        if middle == topic:
            continue
        one = (*lexicon.opening, *first, *link, *of[relation], *link, *of[middle])
        rows.add((*one, closing))
        for second, tail in edges.get(middle, ()):
            if tail not in (topic, middle):
                rows.add((*one, *link, *of[second], *link, *of[tail], closing))
    ordered = sorted(rows)
    number = np.arange(len(ordered), dtype=np.int64)
    hops = np.stack([number, number * 0 - 1, number * 0 - 1, number], axis=1)[:, None]
    table = PathTable(number, np.ones(len(ordered), np.int64), hops)
    constraint = stored_constraint([(sequences(ordered), table)])
    prompt = loaded.prompt(content["question"], [topic])
    return Question(file.stem, prompt, constraint, len(ordered), max(map(len, ordered)))


# ── the two ways ────────────────────────────────────────────────────────────────────────────


class Ways:
    """Both ways to decode the same questions with the same weights."""

    def __init__(self, loaded: Loaded, k: int, budget: int | None) -> None:
        self.model, self.asked, self.k = loaded.model, loaded.asked, k
        self.device = (self.asked or self.model).device
        self.eos = loaded.encoder.eos_id
        self.plan = plan_for(self.asked, budget) if self.asked is not None else None
        self._forwards = 0
        if self.model is not None:
            self.model.register_forward_hook(self._count)

    def _count(self, *_: Any) -> None:
        self._forwards += 1

    def run(self, way: str, questions: Sequence[Question]) -> Decoded:
        """Decode ``questions`` together."""
        self._wait()
        self._forwards, began = 0, time.perf_counter()
        ranked = self.ours(questions) if way == "ours" else self.generate(questions)
        self._wait()
        return Decoded(ranked, self._forwards, time.perf_counter() - began)

    def ours(self, questions: Sequence[Question]) -> list[Ranked]:
        """Decode by the engine."""
        from kgqa.decoding.engine import DecodingRequest, Engine
        from kgqa.decoding.searches import beam

        engine = Engine(self.asked, self.plan, together=len(questions))
        jobs = (
            DecodingRequest(
                prompt=one.prompt, constraint=one.constraint, search=beam(one.constraint, self.k)
            )
            for one in questions
        )
        found = dict(engine.run(jobs))
        self._forwards = engine.forward_passes
        return [
            [one.tokens for one in found[number].found().hypotheses]
            for number in range(len(questions))
        ]

    def generate(self, questions: Sequence[Question]) -> list[Ranked]:
        """Decode by ``generate``, prompts padded on the left."""
        import torch

        from kgqa.decoding.generate import accepted

        width = max(len(one.prompt) for one in questions)
        pads = [width - len(one.prompt) for one in questions]
        rows = [[self.eos] * pad + one.prompt for pad, one in zip(pads, questions, strict=True)]
        seen = [[0] * pad + [1] * len(one.prompt) for pad, one in zip(pads, questions, strict=True)]
        device = self.model.device
        out: torch.Tensor = self.model.generate(
            torch.tensor(rows, device=device),
            attention_mask=torch.tensor(seen, device=device),
            prefix_allowed_tokens_fn=allowed_by(questions, width, self.eos),
            num_beams=self.k,
            num_return_sequences=self.k,
            length_penalty=0.0,
            early_stopping=False,
            do_sample=False,
            max_new_tokens=max(one.longest for one in questions),
            eos_token_id=self.eos,
            pad_token_id=self.eos,
        )
        after = out[:, width:].tolist()
        # without what a language smaller than K is filled up with
        return [
            [
                one.tokens
                for one in accepted(question.constraint, after[at * self.k : (at + 1) * self.k], 0)
            ]
            for at, question in enumerate(questions)
        ]

    def _wait(self) -> None:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize()


def plan_for(model: Any, tokens: int | None) -> Plan:
    """Decide as at load: whether trees fit the model, and how wide a forward should be.

    ``tokens``: the width, None to measure it.
    """
    from kgqa.decoding.probe import measured_plan

    plan = measured_plan(model)
    return replace(plan, budget=tokens) if tokens else plan


def allowed_by(
    questions: Sequence[Question], width: int, eos: int
) -> Callable[[int, Any], list[int]]:
    """Return a ``prefix_allowed_tokens_fn`` that walks the arrays of each question's trie."""
    tries = [one.constraint.trie for one in questions]

    def allowed(number: int, ids: Any) -> list[int]:
        trie, node = tries[number], 0
        for token in ids[width:].tolist():
            first, last = trie.first_child[node], trie.first_child[node + 1]
            at = first + trie.token[first:last].searchsorted(token)
            if at >= last or trie.token[at] != token:
                return [eos]
            node = int(at)
        below = trie.token[trie.first_child[node] : trie.first_child[node + 1]].tolist()
        return below or [eos]

    return allowed
