"""The graph model's arithmetic: against a dense reference, and what was never trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.models.graph_reasoner import NumpyMath, Tables
from kgqa.models.graph_reasoner_card import ReasonerCard
from kgqa.models.graph_reasoner_torch import (
    TorchMath,
    TrainableReasoner,
    clamped,
    frozen,
    hop_loss,
    relation_logits,
    transition,
    walk_loss,
)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 8), relations=st.integers(1, 4))
def test_a_transition_is_that_of_dense_matrices(seed: int, size: int, relations: int) -> None:
    """e_t[j] = sum over i of e_{t-1}[i] R[rel(i, j)], clamped at 1 (KG-CoT, sec. 3.1)."""
    random = np.random.default_rng(seed)
    there = random.random((relations, size, size)) < 0.3
    score = random.random(relations).astype(np.float32)
    before = random.random(size).astype(np.float32)
    dense = np.minimum(np.einsum("i,rij,r->j", before, there, score), 1.0)
    of, source, target = np.nonzero(there)
    after = transition(
        torch.from_numpy(before),
        torch.from_numpy(source),
        torch.from_numpy(score)[torch.from_numpy(of)],
        torch.from_numpy(target),
        size,
    )
    np.testing.assert_allclose(after.numpy(), dense, atol=1e-5)


def test_what_is_over_one_is_clamped_and_still_learns() -> None:
    scores = torch.tensor([0.5, 3.0], requires_grad=True)
    found = clamped(scores)
    assert found.tolist() == [0.5, 1.0]
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.tensor([1.0, 1.0 / 3.0]))


def test_a_pair_of_halves_is_the_sum_of_both() -> None:
    torch.manual_seed(0)
    tables = TrainableReasoner(hops=1, width=4, hidden=3).tables(torch.randn(2, 4))
    hidden = torch.randn(5, 3)
    logits = relation_logits(hidden, tables, torch.tensor([0, 2, 0]), torch.tensor([-1, -1, 3]))
    half = hidden @ tables.second[3, :-1] + tables.second[3, -1]
    torch.testing.assert_close(logits[:, 2], logits[:, 0] + half)
    assert not torch.isclose(logits[:, 0], logits[:, 1]).all()


def test_a_direction_that_no_question_took_is_low() -> None:
    torch.manual_seed(0)
    model = TrainableReasoner(hops=1, width=4, hidden=3)
    model.forget(torch.tensor([[True, False], [False, False]]))  # never against, no second half
    words = torch.nn.functional.normalize(torch.randn(6, 4), dim=1)
    first, second = (
        torch.sigmoid(torch.randn(9, 3) @ table[:, :-1].T + table[:, -1])
        for table in model.tables(words)
    )
    assert (first[:, 1::2] < 1e-6).all()
    assert (second < 1e-6).all()
    assert (first[:, ::2] > 1e-6).all()


def test_padding_changes_nothing() -> None:
    torch.manual_seed(3)
    model = TrainableReasoner(hops=2, width=8, hidden=6).eval()
    states, pooled = torch.randn(1, 4, 8), torch.nn.functional.normalize(torch.randn(1, 8), dim=1)
    plain = model.read(states, torch.ones(1, 4, dtype=torch.bool), pooled)
    longer = torch.cat([states, torch.full((1, 3, 8), 9.0)], dim=1)
    there = torch.tensor([[True] * 4 + [False] * 3])
    padded = model.read(longer, there, pooled)
    torch.testing.assert_close(padded.hidden, plain.hidden)
    torch.testing.assert_close(padded.beta, plain.beta)
    torch.testing.assert_close(plain.beta.sum(1), torch.ones(1))


def test_answers_weigh_more_and_every_question_the_same() -> None:
    scores, wanted = torch.tensor([0.0, 0.0, 1.0, 0.5]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    row = torch.tensor([0, 0, 1, 1])
    loss = walk_loss(scores, wanted, row, 2, 9.0)
    torch.testing.assert_close(loss, torch.tensor((9.0 / 10.0 + 0.25 / 10.0) / 2.0))


def test_hops_count_where_they_are_known() -> None:
    log_beta = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]))
    torch.testing.assert_close(hop_loss(log_beta, [0, 1, 3]), -log_beta[1, 0])
    assert hop_loss(log_beta, [0, 0, 0]).item() == 0.0


@pytest.mark.parametrize("hops", [1, 3])
def test_it_answers_by_numpy_as_it_was_trained_by_torch(hops: int) -> None:
    torch.manual_seed(hops)
    card = ReasonerCard(
        hops=hops, direction="out", mediators="collapse", encoder="x", width=8, hidden=6,
        relations=("r",),
    )  # fmt: skip
    trained = TrainableReasoner(hops, card.width, card.hidden, dropout=0.5).eval()
    answers = frozen(trained, card)
    states, pooled = torch.randn(3, 5, 8), torch.nn.functional.normalize(torch.randn(3, 8), dim=1)
    there = torch.arange(5) < torch.tensor([[5], [2], [1]])
    words = torch.nn.functional.normalize(torch.randn(4, 8), dim=1)
    with torch.no_grad():
        wanted = [*trained.read(states, there, pooled), *trained.tables(words)]
    found = answers.read(states.numpy(), there.numpy(), pooled.numpy())
    tables = answers.tables(words.numpy())
    for one, other in zip([*found, *tables], wanted, strict=True):
        np.testing.assert_allclose(one, other.numpy(), atol=1e-5)
    first, second = np.array([0, 3, 7]), np.array([-1, 5, -1])
    by_torch, by_numpy = TorchMath(), NumpyMath()
    with torch.no_grad():
        steps = Tables(*map(torch.from_numpy, tables))
        hidden = torch.from_numpy(found.hidden[:, 0])
        expected = by_torch.relation_scores(hidden, steps, first, second)
    scores = by_numpy.relation_scores(found.hidden[:, 0], tables, first, second)
    np.testing.assert_allclose(scores, expected.numpy(), atol=1e-5)
    before, source, target = scores[0], np.array([0, 1, 2, 2]), np.array([1, 1, 0, 1])
    passed = np.array([0.9, 0.8, 0.1, 0.9], np.float32)
    moved = by_numpy.transition(before, source, passed, target, 3)
    same = by_torch.transition(
        torch.from_numpy(before), source, torch.from_numpy(passed), target, 3
    )
    np.testing.assert_allclose(moved, same.numpy(), atol=1e-6)
