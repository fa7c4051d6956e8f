"""Which prefixes the next forward scores: what is demanded, forced runs, then the likeliest."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.decoding.speculative_tree import NO_TOKEN, PrefixTree
from kgqa.trie.constraint import ListedConstraint
from tests.decoding.languages import EOS, constraint_of, random_language


class Counting:
    """A constraint that counts how often it is asked to expand, and what."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.asked: list[list[int]] = []
        self.start, self.is_end, self.ground = inner.start, inner.is_end, inner.ground

    def expand(self, states):
        self.asked.append(list(states))
        return self.inner.expand(states)


def learn(tree: PrefixTree, states: list[int], score: float = -0.5) -> None:
    tree.learn(states, np.full(len(tree.expansion(states).token), score))


@pytest.mark.parametrize("in_memory", [True, False])
@given(seed=st.integers(0, 5_000), count=st.integers(1, 40), budget=st.integers(1, 120))
@settings(max_examples=60)
def test_a_wave_holds_the_demand_then_distinct_prefixes_up_to_the_budget(
    in_memory: bool, seed: int, count: int, budget: int
) -> None:
    constraint = constraint_of(random_language(seed, count))
    tree = PrefixTree(constraint if in_memory else Counting(constraint))
    demanded = [tree.start]
    while demanded:
        wave = tree.choose(demanded, budget)
        states = [node.state for node in wave]
        missing = tree.missing(demanded)
        assert states[: len(missing)] == missing
        assert len(set(states)) == len(states) <= max(budget, len(missing))
        assert not constraint.is_end(states).any()
        placed = set()
        for node in wave:  # parents first, and never scored twice
            assert node.state in tree.missing([node.state])
            assert (
                node.token == NO_TOKEN or node.parent in placed or not tree.missing([node.parent])
            )
            placed.add(node.state)
        learn(tree, states)
        below = tree.scored(demanded).moves.state.tolist()
        demanded = [s for s in below if not constraint.is_end([s])[0]]


@given(seed=st.integers(0, 5_000), count=st.integers(1, 40))
@settings(max_examples=30)
def test_moves_read_one_state_at_a_time_are_those_of_an_expansion(seed: int, count: int) -> None:
    constraint = constraint_of(random_language(seed, count))
    assert isinstance(constraint, ListedConstraint)
    assert not isinstance(Counting(constraint), ListedConstraint)
    states = [constraint.start()]
    for state in states:  # grows while it is read
        moves, expansion = constraint.moves(state), constraint.expand([state])
        assert (moves is None) == bool(constraint.is_end([state])[0])
        if moves is not None:
            assert moves == (expansion.token.tolist(), expansion.state.tolist())
            states += moves[1]


@pytest.mark.parametrize("forced_free", [False, True])
def test_a_name_may_have_more_tokens_than_calls_may_be_nested(forced_free: bool) -> None:
    long = [7] * (2 * sys.getrecursionlimit())
    tree = PrefixTree(constraint_of([[2, *long, EOS]]), forced_free=forced_free)
    state = tree.start
    for _ in range(1 + len(long)):
        (state,) = tree.expansion([state]).state.tolist()
    assert tree.node(state).depth == 1 + len(long)
    assert tree.prefix(state) == [2, *long]


def test_what_is_forced_waits_for_what_is_below_it() -> None:
    rows = [[one, *range(10, 20), two, EOS] for one in (2, 3) for two in (4, 5)]
    tree = PrefixTree(constraint_of(rows), forced_free=True)
    assert [node.state for node in tree.choose([tree.start], 1)] == [tree.start]
    learn(tree, [tree.start])
    states = tree.scored([tree.start]).moves.state.tolist()
    assert not tree.missing(states), "forced: nothing is to be scored"
    for _ in range(10):
        scored = tree.scored(states)
        assert (scored.scores == 0).all()
        states = scored.moves.state.tolist()
    assert tree.missing(states) == states
    wave = tree.choose(states[:1], 1, cached={tree.start})
    assert tree.prefix(states[0]) == [node.token for node in wave]
    learn(tree, [node.state for node in wave])
    assert tree.prefix(states[0]) == [2, *range(10, 20)]


def test_a_forced_run_is_scored_to_its_end() -> None:
    tree = PrefixTree(constraint_of([[5, *range(10, 30), 2, EOS], [5, *range(10, 30), 3, EOS]]))
    wave = tree.choose([tree.start], 22)
    assert [node.token for node in wave] == [NO_TOKEN, 5, *range(10, 30)]
    assert [node.depth for node in wave] == list(range(22))


def test_look_ahead_follows_the_likelier_of_what_is_known() -> None:
    tree = PrefixTree(constraint_of([[2, *range(10, 20), EOS], [3, *range(20, 30), EOS]]))
    tree.choose([tree.start], 1)
    tree.expansion([tree.start])
    tree.learn([tree.start], np.array([-5.0, -0.1]))
    wave = tree.choose([tree.start], 11)  # nothing is missing: all of it is look-ahead
    assert [node.token for node in wave] == [3, *range(20, 30)]


def test_look_ahead_is_no_deeper_than_it_may_be() -> None:
    tree = PrefixTree(constraint_of([[5, *range(10, 30), EOS]]))
    assert [node.depth for node in tree.choose([tree.start], 99, deepest=6)] == list(range(7))


def test_what_is_known_is_not_asked_again() -> None:
    counting = Counting(constraint_of(random_language(1, 30)))
    tree = PrefixTree(counting)
    wave = [node.state for node in tree.choose([tree.start], 40)]
    learn(tree, wave)
    tree.expansion(wave)
    tree.scored(wave)
    asked = [state for batch in counting.asked for state in batch]
    assert len(asked) == len(set(asked))
    before = len(counting.asked)
    tree.choose([tree.start], 40)
    assert len(counting.asked) - before < 40  # in rounds, not one by one


def test_a_prefix_is_the_tokens_that_lead_to_its_state() -> None:
    row = [5, 6, 7, 8, EOS]
    tree = PrefixTree(constraint_of([row]))
    last = tree.choose([tree.start], 9)[-1]
    assert tree.prefix(last.state) == row[:-1]
    assert tree.prefix(tree.start) == []
    assert tree.forced_run(tree.start, 99) == [n.state for n in tree.choose([tree.start], 9)[1:]]
    assert len(tree.forced_run(tree.start, 2)) == 2


def test_the_scores_of_a_demand_come_in_its_order() -> None:
    tree = PrefixTree(constraint_of([[2, 7, EOS], [3, 8, EOS]]))
    states = [node.state for node in tree.choose([tree.start], 9)]
    moves = tree.expansion(states)
    tree.learn(states, -np.arange(1.0, len(moves.token) + 1))
    both = tree.scored(states[::-1])
    assert both.moves.row.tolist() == sorted(both.moves.row.tolist())
    alone = [tree.scored([state]).scores for state in states[::-1]]
    assert both.scores == pytest.approx(np.concatenate(alone))
