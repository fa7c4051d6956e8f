"""A tree of tokens is scored as its prefixes are one by one, whatever shares the forward."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding.forward import PromptTree, TreeForward, WavePart
from kgqa.decoding.model import ColumnCache
from kgqa.decoding.scores import log_probabilities
from kgqa.decoding.search import ExactOptions, run
from kgqa.decoding.searches import ExactSearch, beam
from kgqa.decoding.speculative_tree import PrefixTree
from kgqa.trie.constraint import Expansion
from tests.decoding.languages import (
    EOS,
    PROMPT,
    ModelScorer,
    constraint_of,
    decoded,
    random_language,
    tiny_model,
)

FAMILIES = ["llama", "mistral", "qwen2", "qwen3"]


def same(found, expected) -> bool:
    return [hypothesis.tokens for hypothesis in found.hypotheses] == [
        hypothesis.tokens for hypothesis in expected.hypotheses
    ] and np.allclose(
        [hypothesis.log_probability for hypothesis in found.hypotheses],
        [hypothesis.log_probability for hypothesis in expected.hypotheses],
        atol=1e-4,
    )


@pytest.mark.parametrize("family", FAMILIES)
@given(
    seed=st.integers(0, 5_000),
    count=st.integers(1, 40),
    budget=st.integers(1, 200),
    k=st.integers(1, 8),
)
@settings(max_examples=12)
def test_a_wave_scores_what_plain_forwards_score(
    family: str, seed: int, count: int, budget: int, k: int
) -> None:
    """The ranked list and its scores depend neither on the budget nor on sharing a forward."""
    model, constraint = tiny_model(family), constraint_of(random_language(seed, count))
    found = decoded(model, constraint, beam(constraint, k), budget=budget).found()
    assert same(found, run(beam(constraint, k), ModelScorer(model, constraint)))


def test_every_move_has_the_score_of_its_prefix_alone() -> None:
    constraint, model = constraint_of(random_language(4, 30)), tiny_model("qwen3")
    tree = PrefixTree(constraint)
    wave = tree.choose([tree.start], 60)
    TreeForward(model).score([WavePart(PromptTree(PROMPT, tree), len(PROMPT), wave)])
    for node in wave:
        with torch.inference_mode():
            row = [*PROMPT, *tree.prefix(node.state)]
            plain = model(torch.tensor([row])).logits[0, -1].log_softmax(-1)
        scored = tree.scored([node.state])
        assert scored.scores == pytest.approx(plain[scored.moves.token].numpy(), abs=1e-4)


def test_a_forward_is_saved_by_forced_runs_and_by_look_ahead() -> None:
    rows = [[5, *range(10, 30), last, *range(30, 50), EOS] for last in (2, 3, 4)]
    constraint, model = constraint_of(rows), tiny_model("llama")
    forward_passes = {}
    for budget in (1, 22, 200):
        outcome = decoded(model, constraint, beam(constraint, 3), budget=budget)
        assert len(outcome.found().hypotheses) == 3
        forward_passes[budget] = outcome.forward_passes
    assert forward_passes[1] == len(rows[0])  # a token each
    assert forward_passes[200] == 1  # the prompt with the whole language behind it
    assert 1 < forward_passes[22] < 6


def test_renormalised_scores_are_probabilities_of_the_language() -> None:
    """Under the mask-before-softmax rule the whole language has probability one."""
    constraint = constraint_of(random_language(5, 30))
    outcome = decoded(tiny_model("llama"), constraint, beam(constraint, 50), rule="allowed")
    found = outcome.found().hypotheses
    assert sum(math.exp(one.log_probability) for one in found) == pytest.approx(1.0, abs=1e-5)


def test_a_forward_that_fails_changes_nothing() -> None:
    """A fault in the middle of the layers leaves no half state: the next forward is right."""
    constraint, model = constraint_of(random_language(6, 30)), tiny_model("llama")
    forward, tree = TreeForward(model), PrefixTree(constraint)
    asked = PromptTree(PROMPT, tree)
    forward.score([WavePart(asked, len(PROMPT), tree.choose([tree.start], 10))])
    owned = forward.cache.used

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    below = [s for s in tree.scored([tree.start]).moves.state.tolist() if tree.missing([s])]
    wave = tree.choose([tree.start, *below], 40)
    hook = model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        forward.score([WavePart(asked, 0, wave)])
    hook.remove()
    assert forward.cache.used == owned
    assert tree.missing([node.state for node in wave]) == [node.state for node in wave]
    forward.score([WavePart(asked, 0, wave)])
    plain = ModelScorer(model, constraint)
    assert same(run(beam(constraint, 8), _over(forward, asked)), run(beam(constraint, 8), plain))


def _over(forward: TreeForward, asked: PromptTree):
    class Over:
        def score(self, demand):
            if asked.tree.missing(demand.states):
                forward.score([WavePart(asked, 0, asked.tree.choose(demand.states, 8))])
            return asked.tree.scored(demand.states)

    return Over()


def test_columns_given_back_are_used_again() -> None:
    cache = ColumnCache()
    first, second = cache.take(20), cache.take(20)
    assert not set(first) & set(second)
    cache.give_back(first)
    assert set(cache.take(20)) == set(first)
    assert cache.used == 40


def test_many_rows_are_summed_like_few() -> None:
    logits = torch.randn(600, 30, generator=torch.Generator().manual_seed(0))
    moves = Expansion(np.arange(600), np.full(600, 3), np.arange(600))
    expected = logits.log_softmax(-1)[:, 3].numpy()
    assert log_probabilities(logits, moves, "vocabulary") == pytest.approx(expected, abs=1e-5)


@given(seed=st.integers(0, 5_000), count=st.integers(5, 60), k=st.integers(1, 6))
@settings(max_examples=25)
def test_prefixes_that_left_the_beams_give_their_columns_back(
    seed: int, count: int, k: int
) -> None:
    """What stays cached lies above or below what is demanded, and the list is the same."""
    model, constraint = tiny_model("llama"), constraint_of(random_language(seed, count))
    forward, tree = TreeForward(model), PrefixTree(constraint)
    asked = PromptTree(PROMPT, tree)

    class Keeping:
        def score(self, demand):
            if tree.missing(demand.states):
                forward.keep_only(asked, demand)
                ways = [tree.prefix(state) for state in demand.states]
                for state in asked.cached:
                    own = tree.prefix(state)
                    assert any(own[: len(way)] == way[: len(own)] for way in ways)
                forward.score([WavePart(asked, asked.uncached, tree.choose(demand.states, 12))])
                assert forward.cache.used == len(asked.all_columns())
            return tree.scored(demand.states)

    found = run(beam(constraint, k), Keeping())
    assert same(found, run(beam(constraint, k), ModelScorer(model, constraint)))


def test_columns_stay_where_a_search_may_come_back() -> None:
    """Exact search takes up prefixes that it had left: nothing of them may be forgotten."""
    model, constraint = tiny_model("llama"), constraint_of(random_language(3, 40))
    search = ExactSearch(ExactOptions())
    found = decoded(model, constraint, search.start(constraint, 5), budget=6).found()
    assert same(found, run(search.start(constraint, 5), ModelScorer(model, constraint)))
