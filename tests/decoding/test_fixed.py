"""Forward passes of fixed shapes say what those of any shape say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from kgqa.decoding.engine import DecodingRequest, Engine, Plan
from kgqa.decoding.fixed import TOKENS, FixedForward, padded
from kgqa.decoding.forward import TreeForward
from kgqa.decoding.searches import beam
from kgqa.models.llama import Llama, fused
from tests.decoding.languages import PROMPT, constraint_of, random_language, tiny_model

if TYPE_CHECKING:
    from kgqa.decoding.engine import DecodingOutcome


def llama(dtype: torch.dtype = torch.float32) -> Llama:
    model = tiny_model("llama")
    weights = {name: one.to(dtype) for name, one in fused(model).items()}
    return Llama(model.config.to_dict(), weights)


def found_by(model: Any, *, fixed: bool, together: int = 3) -> list[DecodingOutcome]:
    engine = Engine(model, Plan(budget=48), together=together)
    engine._tree = TreeForward(model, fixed=fixed)
    languages = [constraint_of(random_language(seed, 30)) for seed in range(5)]
    rules: list[Any] = ["vocabulary", "allowed"]
    requests = [
        DecodingRequest(
            prompt=PROMPT * (1 + number),
            constraint=one,
            search=beam(one, 6),
            rule=rules[number % 2],
            coverage=number > 2,
        )
        for number, one in enumerate(languages)
    ]
    return [outcome for _, outcome in sorted(engine.run(requests), key=lambda one: one[0])]


def test_lists_and_scores_are_the_same() -> None:
    model = llama()
    for other, fixed in zip(found_by(model, fixed=False), found_by(model, fixed=True), strict=True):
        expected, found = other.found().hypotheses, fixed.found().hypotheses
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        scores = [one.log_probability for one in expected]
        assert [one.log_probability for one in found] == pytest.approx(scores, abs=1e-4)
        assert fixed.forward_passes == other.forward_passes
        for some, same in zip(other.coverage, fixed.coverage, strict=True):
            assert same == pytest.approx(some, abs=1e-4)


def test_scores_in_bfloat16_are_near() -> None:
    exact = {
        one.tokens: one.log_probability
        for outcome in found_by(llama(), fixed=True)
        for one in outcome.found().hypotheses
    }
    coarse = {
        one.tokens: one.log_probability
        for outcome in found_by(llama(torch.bfloat16), fixed=True)
        for one in outcome.found().hypotheses
    }
    both = exact.keys() & coarse.keys()
    assert len(both) > len(exact) / 2
    assert np.mean([abs(exact[one] - coarse[one]) for one in both]) < 0.5


def test_only_a_few_shapes_are_run_and_each_pass_is_one_copy_up(monkeypatch: Any) -> None:
    model, shapes, uploads = llama(), list[tuple[int, int]](), list[int]()
    through, upload = FixedForward._through, FixedForward._upload

    def run(self: Any, inputs: Any, size: int, width: int) -> Any:
        shapes.append((size, width))
        return through(self, inputs, size, width)

    def copied(self: Any, *parts: Any) -> Any:
        uploads.append(sum(part.nbytes for part in parts))
        return upload(self, *parts)

    monkeypatch.setattr(FixedForward, "_through", run)
    monkeypatch.setattr(FixedForward, "_upload", copied)
    found_by(model, fixed=True)
    assert len(uploads) == len(shapes) > 5
    assert all(size in TOKENS and width.bit_count() == 1 for size, width in shapes)


def test_widths_grow_and_keep_what_was_written() -> None:
    model = llama()
    prompt = PROMPT * 70  # wider than the first buffers
    language = constraint_of(random_language(1, 30))
    found = []
    for fixed in (True, False):
        engine = Engine(model, Plan(budget=8))
        engine._tree = TreeForward(model, fixed=fixed)
        requests = [
            DecodingRequest(prompt=one, constraint=language, search=beam(language, 4))
            for one in (PROMPT, prompt, PROMPT)
        ]
        outcomes = dict(engine.run(requests))
        found.append([one.tokens for at in range(3) for one in outcomes[at].found().hypotheses])
    assert found[0] == found[1]


@pytest.mark.parametrize(("count", "size"), [(1, 16), (16, 16), (17, 32), (513, 1024)])
def test_sizes_are_rounded_up(count: int, size: int) -> None:
    assert padded(count, TOKENS) == size
