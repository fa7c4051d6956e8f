"""Decoding by kgqa's engine and by ``generate`` of transformers, on real question graphs."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, walk
from scripts.benchmarks import common

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kgqa.decoding.engine import DecodingPlan, Engine
    from kgqa.models.kg_llm import KgLLM
    from kgqa.trie.stored import StoredConstraint

    # decodes questions together: the ranked lists, and the forward passes
    Way = Callable[[Sequence["Question"]], tuple[list[list[tuple[int, ...]]], int]]


class Question(NamedTuple):
    """A prompt, its language as a constraint, and as a trie of dicts."""

    name: str
    prompt: list[int]
    constraint: StoredConstraint
    trie: dict[int, Any]
    paths: int
    longest: int  # tokens of a path, the closing included


def read_question(file: Path, loaded: KgLLM) -> Question:
    """Make the tries of a question's graph."""
    from kgqa.trie.lexicon import PathLexicon
    from kgqa.trie.stored import path_tokens, stored_constraint

    with common.question_graph(file) as (question, store, topic):
        table, _ = walk(store, topic, WalkRules(2, "out", "keep"))
        tokens = path_tokens(store, table, PathLexicon(loaded.encoder, PathFormat()))
        constraint = stored_constraint([(tokens, table)])
    trie: dict[int, Any] = {}
    rows = [tokens[number] for number in range(len(tokens))]
    for row in rows:
        node = trie
        for token in row:
            node = node.setdefault(token, {})
    prompt = loaded.prompt_ids(question["question"], question["topic_entities"])
    return Question(file.stem, prompt, constraint, trie, len(rows), max(map(len, rows)))


def ours(model: Any, plan: DecodingPlan, k: int, questions: Sequence[Question]) -> Any:
    """Decode by an engine made for these questions."""
    from kgqa.decoding.engine import Engine

    return decoded(Engine(model, plan, together=len(questions)), k, questions)


def decoded(engine: Engine, k: int, questions: Sequence[Question]) -> Any:
    """Decode by ``engine``."""
    from kgqa.decoding.engine import DecodingRequest
    from kgqa.decoding.searches import beam

    before = engine.forward_passes
    requests = (
        DecodingRequest(
            prompt=question.prompt,
            constraint=question.constraint,
            search=beam(question.constraint, k),
        )
        for question in questions
    )
    jobs = dict(engine.run(requests))
    ranked = [
        [hypothesis.tokens for hypothesis in jobs[number].found().hypotheses]
        for number in range(len(questions))
    ]
    return ranked, engine.forward_passes - before


def generate(loaded: KgLLM, k: int, questions: Sequence[Question]) -> Any:
    """Decode by ``generate``, prompts padded on the left."""
    import torch

    from kgqa.decoding.generate import accepted

    model, eos, passes = loaded.model, loaded.encoder.eos_id, []
    width = max(len(question.prompt) for question in questions)
    pads = [width - len(question.prompt) for question in questions]
    pairs = list(zip(pads, (question.prompt for question in questions), strict=True))

    def allowed(number: int, ids: Any) -> list[int]:
        node = questions[number].trie
        for token in ids[width:].tolist():
            node = node.get(token, {})
        return [*node] or [eos]

    hook = model.register_forward_hook(lambda *_: passes.append(1))
    out: torch.Tensor = model.generate(
        torch.tensor([[eos] * pad + prompt for pad, prompt in pairs], device=model.device),
        attention_mask=torch.tensor(
            [[0] * pad + [1] * len(prompt) for pad, prompt in pairs], device=model.device
        ),
        prefix_allowed_tokens_fn=allowed,
        num_beams=k,
        num_return_sequences=k,
        length_penalty=0.0,
        early_stopping=False,
        do_sample=False,
        max_new_tokens=max(question.longest for question in questions),
        eos_token_id=eos,
        pad_token_id=eos,
    )
    hook.remove()
    after = out[:, width:].tolist()
    ranked = [  # without what a language smaller than K is filled up with
        [
            hypothesis.tokens
            for hypothesis in accepted(question.constraint, after[at * k : (at + 1) * k], 0)
        ]
        for at, question in enumerate(questions)
    ]
    return ranked, len(passes)


def compare(
    ways: dict[str, Way], groups: Sequence[Sequence[Question]], rounds: int
) -> dict[str, Any]:
    """Decode each group by all ways, in turn; return forward passes, ms and agreement.

    Agreement is with the first way: ``identical`` of the last, and ``same`` of each.
    """
    figures: dict[str, Any] = {way: {"forwards": [], "ms": []} for way in ways}
    first, *others = ways
    same: dict[str, list[bool]] = {way: [] for way in others}
    for number in range(rounds):
        for group in groups:
            lists, shown = {}, []
            for way in sorted(ways, reverse=number % 2 == 1):
                began = time.perf_counter()
                lists[way], passes = ways[way](group)  # lists are on the CPU: nothing is left to do
                ms = 1_000 * (time.perf_counter() - began)
                figures[way]["forwards"].append(passes)
                figures[way]["ms"].append(ms)
                shown.append(f"{way} {passes} forward passes {ms:.0f} ms")
            for way in others:
                same[way] += [a == b for a, b in zip(lists[first], lists[way], strict=True)]
            names = " ".join(question.name for question in group)
            paths = sum(question.paths for question in group)
            print(f"  {names} ({paths:,} paths): {', '.join(shown)}", flush=True)
    for way in others:
        print(f"  {sum(same[way])} of {len(same[way])} ranked lists identical ({way})")
    shares = {way: statistics.mean(agreed) for way, agreed in same.items()}
    return {**figures, "same": shares, "identical": shares[others[-1]]}
