"""The graph reasoner in torch: training with gradients, its losses, and saving it.

It computes what :class:`kgqa.models.graph_reasoner.GraphReasoner` does, which answers without
torch; a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from kgqa.models.graph_reasoner import EncodedQuestions, GraphReasoner, Tables
from kgqa.models.graph_reasoner_card import REASONERS, ReasonerCard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from kgqa.models.graph_reasoner import BoolArray, IntArray

UNTRAINED = -100.0  # the logit of what was never trained, whatever its other half adds


class TrainableReasoner(nn.Module):
    """A graph reasoner of ``hops`` hops; ``width`` of encoder vectors, ``hidden`` units."""

    def __init__(self, hops: int, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.width, self.hidden = width, hidden
        self.query = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))
        self.tokens = nn.LayerNorm(width)
        self.attended = nn.Linear(width, hidden)
        self.whole = nn.Linear(width, hidden)
        self.step = nn.Parameter(torch.zeros(hops, hidden))
        self.mixed = nn.Sequential(nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, hidden))
        self.length_query = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))
        self.length = nn.Sequential(
            nn.Linear(width * (1 + hops), hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hops),
        )
        self.dropout = nn.Dropout(dropout)
        # for each place (first, second) and direction (along, against)
        self.words = nn.Parameter(torch.randn(2, 2, width, hidden) * width**-0.5)
        self.bias_of_words = nn.Parameter(torch.zeros(2, 2, width))
        self.bias = nn.Parameter(torch.zeros(2, 2))

    @torch.no_grad()
    def forget(self, seen: Tensor) -> None:
        """Lower the scores of places and directions that training never saw, in place.

        ``seen`` ``[2, 2]``: by place in a hop, and direction. One that never came up has no meaning
        there, whatever the words.
        """
        for weight, low in ((self.words, 0.0), (self.bias_of_words, 0.0), (self.bias, UNTRAINED)):
            weight[~seen] = low

    def read(self, states: Tensor, there: Tensor, pooled: Tensor) -> EncodedQuestions:
        """Encode questions to a vector for each hop, and hop weights.

        ``states`` ``[rows, tokens, width]`` are the tokens' states, ``there`` ``[rows, tokens]`` is
        True for a token, ``pooled`` ``[rows, width]`` the questions' own vectors.
        """
        states = self.tokens(states)
        pooled = pooled * self.width**0.5  # of length 1: units of the size that layers expect
        whole = self.whole(self.dropout(pooled))
        hidden = []
        for number, query in enumerate(self.query):
            attended = _attended(torch.tanh(query(pooled)), states, there)
            mixed = self.attended(self.dropout(attended)) + whole + self.step[number]
            hidden.append(self.mixed(mixed))
        heads = [
            self.dropout(_attended(torch.tanh(query(pooled)), states, there))
            for query in self.length_query
        ]
        log_beta = torch.log_softmax(self.length(torch.cat([pooled, *heads], dim=1)), dim=1)
        return EncodedQuestions(torch.stack(hidden, dim=1), log_beta.exp(), log_beta)

    def tables(self, words: Tensor) -> Tables:
        """Return a vector and a bias for each directed relation at each place of a two-edge hop.

        ``words`` has the shape ``[relations, width]``.
        """
        words = words * self.width**0.5
        made = torch.einsum("rw,pdwh->prdh", words, self.words) * self.width**-0.5
        bias = torch.einsum("rw,pdw->prd", words, self.bias_of_words) + self.bias[:, None, :]
        both = torch.cat([made, bias.unsqueeze(-1)], dim=3).flatten(1, 2)
        return Tables(both[0], both[1])


def _attended(asked: Tensor, states: Tensor, there: Tensor) -> Tensor:
    """Return token states averaged by attention with the query ``asked``."""
    score = torch.einsum("rtw,rw->rt", states, asked) * states.shape[2] ** -0.5
    weight = torch.softmax(score.masked_fill(~there, -torch.inf), dim=1)
    return torch.einsum("rt,rtw->rw", weight, states)


def relation_logits(hidden: Tensor, tables: Tables, first: Tensor, second: Tensor) -> Tensor:
    """Return each relation's logit for each row, ``[rows, relations]``.

    ``hidden`` ``[rows, hidden]`` belongs to one hop of the walk; ``first`` and ``second``
    ``[relations]`` are steps (2 * relation, + 1 reversed), ``second`` -1 if a relation is one edge.
    """
    parts = tables.first[first] + tables.second[second.clamp(min=0)] * (second >= 0).unsqueeze(1)
    logits: Tensor = hidden @ parts[:, :-1].T + parts[:, -1]
    return logits


def transition(before: Tensor, source: Tensor, passed: Tensor, target: Tensor, size: int) -> Tensor:
    """Return the scores of entities after one hop, ``[size]``, none over 1.

    ``before`` are the scores of (row, entity) pairs; edge i goes from pair ``source[i]`` to pair
    ``target[i]`` of the ``size`` pairs after the hop, and ``passed[i]`` is its relation's score.
    """
    moved = before[source] * passed
    return clamped(torch.zeros(size, dtype=moved.dtype).index_add(0, target, moved))


def clamped(scores: Tensor) -> Tensor:
    """Cap ``scores`` at 1, keeping a gradient: those above are divided by their detached values."""
    return scores / scores.detach().clamp(min=1.0)


def walk_loss(
    scores: Tensor, wanted: Tensor, row: Tensor, rows: int, answer_weight: float
) -> Tensor:
    """Return the mean over questions of the weighed squared error over their neighbourhoods.

    ``scores`` and ``wanted`` (1 at answers) belong to pairs of a question ``row`` and an entity. An
    answer weighs ``answer_weight``, any other entity 1 (KG-CoT, sec. 3.1; the weights are those of
    the public programs of its family).
    """
    weight = torch.where(wanted > 0, answer_weight, 1.0)
    error = torch.zeros(rows).index_add(0, row, weight * (scores - wanted).square())
    total = torch.zeros(rows).index_add(0, row, weight)
    return (error / total.clamp(min=1.0)).mean()


def hop_loss(log_beta: Tensor, hops: Sequence[int]) -> Tensor:
    """Return the cross-entropy of hop weights against ``hops``; 0 if no row has a known one.

    Rows with 0 (unknown), or more hops than there are weights, are ignored.
    """
    wanted = torch.tensor(hops) - 1
    known = (wanted >= 0) & (wanted < log_beta.shape[1])
    if not bool(known.any()):
        return log_beta.sum() * 0.0
    return nn.functional.nll_loss(log_beta[known], wanted[known])


def path_loss(logits: Tensor, right: Tensor) -> Tensor:
    """Return the loss of relations' ``logits`` against the gold relations of one hop.

    Both are ``[rows, relations]``; ``right`` is True where the hop takes the relation. The right
    ones are pulled above 0 and all others below, the hardest most. Unlike the walk's squared error
    it does not fade where a score is wrong and sure.
    """
    none = torch.zeros(len(logits), 1)
    away = torch.where(right, -torch.inf, logits)
    towards = torch.where(right, -logits, -torch.inf)
    parts = torch.logsumexp(torch.cat([none, away], dim=1), dim=1)
    parts = parts + torch.logsumexp(torch.cat([none, towards], dim=1), dim=1)
    return parts.mean()


def save_reasoner(folder: Path, model: TrainableReasoner, card: ReasonerCard) -> None:
    """Write weights (float16) and card into ``folder``, creating it. Raises ModelError."""
    REASONERS.save(folder, card, _arrays(model))


def frozen(model: TrainableReasoner, card: ReasonerCard) -> GraphReasoner:
    """Convert a trained model to a GraphReasoner for inference, without gradients and dropout."""
    return GraphReasoner(card, _arrays(model))


def _arrays(model: TrainableReasoner) -> dict[str, NDArray[np.float32]]:
    """Return the model's state as arrays of numpy."""
    return {name: tensor.numpy(force=True) for name, tensor in model.state_dict().items()}


class TorchMath:
    """A :class:`kgqa.models.graph_reasoner.WalkMath` over tensors, with gradients."""

    def ones(self, size: int) -> Tensor:
        """Return ``size`` ones."""
        return torch.ones(size)

    def numbers(self, values: Tensor) -> NDArray[np.float32]:
        """Return a CPU tensor as an array that shares its memory, without gradients."""
        return values.detach().numpy()

    def relation_scores(
        self, hidden: Tensor, tables: Tables, first: IntArray, second: IntArray
    ) -> Tensor:
        """Return the score of each relation for each row."""
        steps = torch.from_numpy(first), torch.from_numpy(second)
        return torch.sigmoid(relation_logits(hidden, tables, *steps))

    def masked(self, values: Tensor, keep: BoolArray) -> Tensor:
        """Return ``values``, 0 where not ``keep``."""
        return values * torch.from_numpy(keep)

    def transition(
        self, before: Tensor, source: IntArray, passed: Tensor, target: IntArray, size: int
    ) -> Tensor:
        """Return the scores of entities after one hop."""
        at = torch.from_numpy(source), passed, torch.from_numpy(target)
        return transition(before, *at, size)

    def weighed(
        self, parts: Sequence[Tensor], weights: Tensor, target: IntArray, size: int
    ) -> Tensor:
        """Return the sum of joined ``parts`` times ``weights`` by ``target``."""
        values = torch.cat(list(parts)) * weights
        return clamped(torch.zeros(size).index_add(0, torch.from_numpy(target), values))
