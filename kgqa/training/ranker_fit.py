"""Fitting a path ranker's head: a low-rank change of the vectors that its encoder makes of texts.

After LoRA (arXiv 2106.09685). Texts are read once; a step is then a product of small matrices, so
that all relation paths out of a topic take part, and thousands of questions. The loss of a question
is the negative log-likelihood of its relation paths under a softmax over all that leave the topic
entity, and "none of them".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import normalize

from kgqa.training.loop import Fit, Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.models.path_ranker import PathRanker
    from kgqa.progress import Progress

    Head = tuple[NDArray[np.float32], NDArray[np.float32]]

_TOGETHER = 64  # questions of a step
_WARM_UP = 10  # steps in which the learning rate rises


@dataclass(frozen=True, slots=True)
class RankingBatch:
    """Questions, and the relation paths that they choose among.

    ``paths`` in words, their numbers of ``hops``, and how many paths each ``stands_for``;
    ``questions`` without their topics' names. For each question: ``candidates``, positions in
    ``paths``, and ``gold``, those of them that are right; none if the graph has no answer.
    """

    paths: list[str]
    hops: list[int]
    stands_for: list[float]
    questions: list[str]
    candidates: list[list[int]]
    gold: list[list[int]]


class _Questions:
    """Questions: their vectors, which relation paths each has, and which of those are right."""

    def __init__(self, ranker: PathRanker, batch: RankingBatch) -> None:
        paths = len(batch.paths)
        self.questions = torch.from_numpy(ranker.vectors(batch.questions))
        self.paths = torch.from_numpy(ranker.vectors(batch.paths))
        self.bias = torch.from_numpy(ranker.scaled(np.zeros(paths, np.float32), batch.hops))
        self.scale = ranker.card.scale / ranker.card.temperature
        self.none = ranker.none
        self.among = torch.zeros(len(batch.questions), paths + 1, dtype=torch.bool)
        self.right = torch.zeros_like(self.among)  # the last one is "none of them"
        for row, (candidates, gold) in enumerate(zip(batch.candidates, batch.gold, strict=True)):
            self.among[row, [*candidates, paths]] = True
            self.right[row, gold or [paths]] = True

    def loss(self, down: Tensor, up: Tensor, draw: torch.Generator) -> Tensor:
        """Return the mean loss of some questions."""
        rows = torch.randint(len(self.questions), (_TOGETHER,), generator=draw)
        used = self.among[rows, :-1].any(0).nonzero().squeeze(1)  # a small part of many
        questions, paths = (
            normalize(vectors + vectors @ down.T @ up.T, dim=-1)
            for vectors in (self.questions[rows], self.paths[used])
        )
        logits = self.scale * (questions @ paths.T) + self.bias[used]
        logits = torch.cat([logits, torch.full((len(rows), 1), self.none)], 1)
        last = self.among.shape[1] - 1
        columns = torch.cat([used, torch.tensor([last])])
        whole, right = (
            logits.masked_fill(~which[rows][:, columns], -torch.inf).logsumexp(1)
            for which in (self.among, self.right)
        )
        return (whole - right).mean()


def fit_head(
    ranker: PathRanker,
    batch: RankingBatch,
    *,
    steps: int,
    rate: float,
    seed: int,
    rank: int = 32,
    progress: Progress,
) -> Head:
    """Return a head for ``ranker`` that fits ``batch``; if it has one already, that is in it."""
    draw = torch.Generator().manual_seed(seed)
    questions, width = _Questions(ranker, batch), ranker.encoder.width
    down = torch.nn.Parameter(torch.randn(rank, width, generator=draw) / width**0.5)
    up = torch.nn.Parameter(torch.zeros(width, rank))  # a head begins by changing nothing
    fit = Fit[None](
        torch.nn.ParameterList([down, up]),
        torch.optim.AdamW([down, up], lr=rate, weight_decay=0.0),
        Schedule(steps, _WARM_UP, least=0.0),
        lambda _: questions.loss(down, up, draw),
        progress,
        clip=torch.inf,  # two small factors: no step was ever too long
    )
    fit.run(repeat(None))
    return joined(ranker.head, (down.numpy(force=True), up.numpy(force=True)))


def joined(first: Head | None, second: Head) -> Head:
    """Return the head that changes vectors, up to their length, as the one after the other does."""
    if first is None:
        return second
    down, up = second
    after = down + down @ first[1] @ first[0]
    return np.concatenate([first[0], after]), np.concatenate([first[1], up], axis=1)


def rights(ranker: PathRanker, batch: RankingBatch) -> NDArray[np.bool_]:
    """Return of each answerable question whether its likeliest candidate is right."""
    logits = ranker.logits(batch.questions, batch.paths, batch.hops)
    return np.array(
        [
            candidates[int(np.argmax(row[candidates]))] in gold
            for row, candidates, gold in zip(logits, batch.candidates, batch.gold, strict=True)
            if gold
        ],
        bool,
    )


def log_likelihoods(ranker: PathRanker, batch: RankingBatch) -> NDArray[np.float64]:
    """Return of each question the logarithm of the probability of what is right, or of none."""
    logits = ranker.logits(batch.questions, batch.paths, batch.hops).astype(np.float64)
    logs = []
    for row, candidates, gold in zip(logits, batch.candidates, batch.gold, strict=True):
        whole = np.logaddexp.reduce([*row[candidates], ranker.none])
        logs.append((np.logaddexp.reduce(row[gold]) if gold else ranker.none) - whole)
    return np.array(logs)
