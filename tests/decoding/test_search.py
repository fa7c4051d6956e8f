"""The ranked list is that of ``generate`` under the same constraint, in fewer forwards."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from kgqa.decoding.forward import TreeScorer
from kgqa.decoding.search import beam_search
from kgqa.errors import ModelError, UsageError
from kgqa.paths.walk import PathTable
from kgqa.trie.arrays import sequences
from kgqa.trie.stored import StoredConstraint, stored_constraint

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY = 60
EOS = 1
PROMPT = [7, 8, 9, 10]


def constraint_of(rows: Sequence[Sequence[int]]) -> StoredConstraint:
    """A constraint that accepts exactly ``rows``."""
    number = np.arange(len(rows), dtype=np.int64)
    hops = np.stack([number, number * 0 - 1, number * 0 - 1, number], axis=1)[:, None]
    table = PathTable(number, np.ones(len(rows), np.int64), hops)
    return stored_constraint([(sequences(rows), table)])


def random_rows(seed: int, count: int) -> list[list[int]]:
    """Sequences with shared beginnings and long forced runs, as paths have them."""
    choose = random.Random(seed)
    rows = {(5, 6, 2)}
    while len(rows) < count:
        stem = choose.choice(sorted(rows))
        cut = choose.randrange(1, len(stem))
        rows.add((*stem[:cut], *(choose.randrange(2, VOCABULARY) for _ in range(7))))
    return [[*row, EOS] for row in sorted(rows)]


def tiny_llama(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=EOS,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config).eval()


class Table:
    """Scores of edges by (state, token), with no model behind them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._known: dict[tuple[int, int], float] = {}

    def score(self, states, moves):
        keys = [
            (states[row], token)
            for row, token in zip(moves.row.tolist(), moves.token.tolist(), strict=True)
        ]
        for key in keys:
            self._known.setdefault(key, math.log(self._random.uniform(0.01, 1.0)))
        return np.array([self._known[key] for key in keys])

    def total(self, constraint: StoredConstraint, row: Sequence[int]) -> float:
        state, total = constraint.start(), 0.0
        for token in row:
            moves = constraint.expand([state])
            total += self.score([state], moves)[moves.token.tolist().index(token)]
            state = int(moves.state[moves.token.tolist().index(token)])
        return total


@given(seed=st.integers(0, 10_000), count=st.integers(1, 30))
@settings(deadline=None, max_examples=60)
def test_a_wide_beam_ranks_the_whole_language(seed: int, count: int) -> None:
    rows = random_rows(seed, count)
    constraint, table = constraint_of(rows), Table(seed)
    found = beam_search(constraint, table, k=count + 5)
    expected = sorted((table.total(constraint, row) for row in rows), reverse=True)
    assert [one.log_probability for one in found] == pytest.approx(expected)
    assert {one.tokens for one in found} == {tuple(row) for row in rows}


@given(seed=st.integers(0, 10_000), count=st.integers(1, 60), k=st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_nothing_outside_the_language_is_ever_written(seed: int, count: int, k: int) -> None:
    rows = random_rows(seed, count)
    found = beam_search(constraint_of(rows), Table(seed), k=k)
    assert 1 <= len(found) <= k
    assert len({one.tokens for one in found}) == len(found)
    assert {one.tokens for one in found} <= {tuple(row) for row in rows}
    scores = [one.log_probability for one in found]
    assert scores == sorted(scores, reverse=True)


def test_a_state_without_a_continuation_ends_the_hypothesis() -> None:
    """A constraint with a dead end: what leads there is dropped, never continued freely."""

    class DeadEnd:
        paths = None

        def start(self) -> int:
            return 0

        def expand(self, states):
            from kgqa.trie.constraint import Expansion

            moves = {0: [(3, 1), (4, 2)], 1: [], 2: [(EOS, 3)], 3: []}
            flat = [(row, t, s) for row, state in enumerate(states) for t, s in moves[state]]
            columns = np.array(flat, np.int64).reshape(-1, 3).T
            return Expansion(*columns)

        def is_end(self, states):
            return np.array([state == 3 for state in states], bool)

    found = beam_search(DeadEnd(), TreeScorer(tiny_llama(), PROMPT, DeadEnd()), k=5)
    assert [one.tokens for one in found] == [(4, EOS)]


def test_k_below_one_is_an_error() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        beam_search(constraint_of([[2, EOS]]), Table(0), k=0)


@pytest.mark.parametrize("seed", range(12))
def test_the_ranked_list_is_that_of_generate(seed: int) -> None:
    choose = random.Random(seed)
    rows = random_rows(seed, choose.randrange(12, 80))
    k = choose.choice([1, 3, 5, 10])
    penalty = choose.choice([0.0, 1.0])
    model, constraint = tiny_llama(seed), constraint_of(rows)

    def allowed(_: int, ids: torch.Tensor) -> list[int]:
        state = constraint.start()
        for token in ids[len(PROMPT) :].tolist():
            moves = constraint.expand([state])
            if token not in moves.token.tolist():
                return [EOS]  # after an end: generate asks for finished beams too
            state = int(moves.state[moves.token.tolist().index(token)])
        return constraint.expand([state]).token.tolist() or [EOS]

    with torch.inference_mode():
        out = model.generate(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long),
            num_beams=k,
            num_return_sequences=k,
            max_new_tokens=60,
            do_sample=False,
            length_penalty=penalty,
            early_stopping=False,
            prefix_allowed_tokens_fn=allowed,
            return_dict_in_generate=True,
            output_scores=True,
        )
    expected = []
    for row in out.sequences[:, len(PROMPT) :].tolist():
        expected.append(tuple(row[: row.index(EOS) + 1]))
    scorer = TreeScorer(model, PROMPT, constraint)
    found = beam_search(constraint, scorer, k, length_penalty=penalty)
    assert [one.tokens for one in found] == expected
    if k > 1:
        ours = [one.rank_score(penalty) for one in found]
        assert ours == pytest.approx(out.sequences_scores.tolist(), abs=1e-4)


@pytest.mark.parametrize("budget", [1, 8, 512])
def test_a_wave_scores_what_plain_forwards_score(budget: int) -> None:
    """Log-probabilities do not depend on how many tokens a forward scores at once."""
    rows = random_rows(3, 40)
    model, constraint = tiny_llama(3), constraint_of(rows)
    scorer = TreeScorer(model, PROMPT, constraint, budget=budget)
    for one in beam_search(constraint, scorer, k=10):
        ids = torch.tensor([[*PROMPT, *one.tokens]])
        with torch.inference_mode():
            logits = model(ids).logits[0].log_softmax(-1)
        plain = sum(
            float(logits[len(PROMPT) - 1 + at, token]) for at, token in enumerate(one.tokens)
        )
        assert one.log_probability == pytest.approx(plain, abs=1e-4)


def test_forced_runs_cost_no_forward_of_their_own() -> None:
    rows = [[5, *range(10, 30), last, *range(30, 50), EOS] for last in (2, 3, 4)]
    constraint = constraint_of(rows)
    scorer = TreeScorer(tiny_llama(), PROMPT, constraint)
    assert len(beam_search(constraint, scorer, k=3)) == 3
    assert scorer.forwards == 3  # the prompt, the shared run, the three runs after it together
    assert scorer.scored_tokens == 21 + 3 * 21


def test_renormalised_scores_are_probabilities_of_the_language() -> None:
    """Under the mask-before-softmax rule the whole language has probability one."""
    rows = random_rows(5, 30)
    constraint = constraint_of(rows)
    scorer = TreeScorer(tiny_llama(5), PROMPT, constraint, rule="allowed")
    found = beam_search(constraint, scorer, k=50)
    assert sum(math.exp(one.log_probability) for one in found) == pytest.approx(1.0, abs=1e-5)


def test_a_model_whose_attention_slides_is_refused() -> None:
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=8,
    )
    with pytest.raises(ModelError, match="attend"):
        TreeScorer(MistralForCausalLM(config), PROMPT, constraint_of([[2, EOS]]))
