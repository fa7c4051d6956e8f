"""Fitting a path ranker's head: a low-rank change of the vectors that its encoder makes of texts.

Texts are read once; a step is then a product of small matrices, so that all relation paths out of a
topic take part, and thousands of questions. The loss is that of :mod:`kgqa.training.ranker_fit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.models.path_ranker import PathRanker
    from kgqa.progress import Progress
    from kgqa.training.ranker_fit import RankerSettings, RankingBatch

    Head = tuple[NDArray[np.float32], NDArray[np.float32]]

_TOGETHER = 64  # questions of a step
_WARM_UP = 10  # steps in which the learning rate rises


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
            normalize(one + one @ down.T @ up.T, dim=-1)
            for one in (self.questions[rows], self.paths[used])
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
    settings: RankerSettings,
    progress: Progress,
    strength: float = 1.0,
) -> Head:
    """Return a head for ``ranker`` that fits ``batch``; if it has one already, that is in it.

    ``strength``: the part of the change that is kept. Less than all is surer to do no harm to what
    the ranker knew (weight-space ensembles: Wortsman et al., arXiv 2109.01903).
    """
    draw = torch.Generator().manual_seed(settings.seed)
    questions = _Questions(ranker, batch)
    width, steps = ranker.encoder.width, settings.steps
    down = (torch.randn(settings.rank, width, generator=draw) / width**0.5).requires_grad_()
    up = torch.zeros(width, settings.rank, requires_grad=True)
    optimizer = torch.optim.AdamW([down, up], lr=settings.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / _WARM_UP, 1.0) * (1 - step / steps)
    )
    with progress.task("learning", steps, "steps") as task:
        for _ in range(steps):
            loss = questions.loss(down, up, draw)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            task.tell(f"loss {float(loss.detach()):.2f}")
            task.advance()
    return joined(ranker.head, (down.numpy(force=True), (strength * up).numpy(force=True)))


def averaged(heads: Sequence[Head], rank: int) -> Head:
    """Return the head of ``rank`` that is nearest to the mean of ``heads``.

    Fits of other seeds err in other ways (model soups: Wortsman et al., arXiv 2203.05482).
    """
    mean = np.mean([up @ down for down, up in heads], axis=0)
    up, strength, down = np.linalg.svd(mean)
    half = np.sqrt(strength[:rank])
    return half[:, None] * down[:rank], up[:, :rank] * half


def joined(first: Head | None, second: Head) -> Head:
    """Return the head that changes vectors, up to their length, as the one after the other does."""
    if first is None:
        return second
    down, up = second
    after = down + down @ first[1] @ first[0]
    return np.concatenate([first[0], after]), np.concatenate([first[1], up], axis=1)
