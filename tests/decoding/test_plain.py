"""Without a tree the same list comes out, also of models that no tree fits."""

from __future__ import annotations

import pytest
import torch

from kgqa.decoding.search import run
from kgqa.decoding.searches import beam
from kgqa.decoding.spans import TextForward
from tests.decoding.languages import (
    EOS,
    PROMPT,
    VOCABULARY,
    ModelScorer,
    constraint_of,
    random_language,
    tiny_model,
)
from tests.decoding.test_forward import same
from tests.tiny import tiny


def sliding(window: int):
    """A Mistral whose attention ends after ``window`` tokens."""
    ids = {"eos_token_id": EOS, "pad_token_id": 0}
    return tiny(VOCABULARY, 1, "Mistral", sliding_window=window, **ids, initializer_range=0.5)


def state_space():
    """A tiny Mamba: no attention at all."""
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(1)
    config = MambaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        eos_token_id=EOS,
        pad_token_id=0,
        bos_token_id=EOS,
        initializer_range=0.5,
    )
    return MambaForCausalLM(config).eval()


def scorer(forward: TextForward, constraint):
    return forward.scorer(forward.text(PROMPT), constraint, "vocabulary")


@pytest.mark.parametrize("widest", [1, 64, 8192])
@pytest.mark.parametrize("make", [lambda: tiny_model("qwen2"), lambda: sliding(6), state_space])
def test_it_scores_what_a_forward_of_each_prefix_scores(make, widest: int) -> None:
    model, constraint = make(), constraint_of(random_language(2, 20))
    found = run(
        beam(constraint, 5), scorer(TextForward(model, trees=False, widest=widest), constraint)
    )
    assert same(found, run(beam(constraint, 5), ModelScorer(model, constraint)))


def test_forced_runs_cost_no_forward_of_their_own() -> None:
    rows = [[5, *range(10, 30), last, *range(30, 50), EOS] for last in (2, 3, 4)]
    constraint, forward = constraint_of(rows), TextForward(tiny_model("llama"), trees=False)
    assert len(run(beam(constraint, 3), scorer(forward, constraint)).hypotheses) == 3
    assert forward.forward_passes == 2  # the shared run, then the three runs after it as one batch


def test_a_batch_is_no_wider_than_it_may_be() -> None:
    rows = [[first, 30, 31, EOS] for first in range(2, 22)]
    constraint, model = constraint_of(rows), tiny_model("llama")
    widths: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: widths.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        forward = TextForward(model, trees=False, widest=40)
        run(beam(constraint, 20), scorer(forward, constraint))
    finally:
        hook.remove()
    assert max(widths) <= 40
    assert len(widths) > 3
