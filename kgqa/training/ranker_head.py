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
    from kgqa.training.ranker_fit import RankingBatch

    Head = tuple[NDArray[np.float32], NDArray[np.float32]]

_RANK = 32
_STEPS = 60
_TOGETHER = 64  # questions of a step, of each part
_WARM_UP = 10  # steps in which the learning rate rises


class _Part:
    """Questions of one source: vectors, which relation paths each has, which of them are right."""

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
        questions, paths = (
            normalize(one + one @ down.T @ up.T, dim=-1)
            for one in (self.questions[rows], self.paths)
        )
        logits = self.scale * (questions @ paths.T) + self.bias
        logits = torch.cat([logits, torch.full((len(rows), 1), self.none)], 1)
        whole, right = (
            logits.masked_fill(~which[rows], -torch.inf).logsumexp(1)
            for which in (self.among, self.right)
        )
        return (whole - right).mean()


def fit_head(
    ranker: PathRanker, batches: Sequence[RankingBatch], rate: float, seed: int, progress: Progress
) -> Head:
    """Return a head for ``ranker`` that fits ``batches``, all of which count as much.

    If it has one already, it is in the new one. ``rate``: the learning rate.
    """
    draw = torch.Generator().manual_seed(seed)
    parts = [_Part(ranker, batch) for batch in batches]
    width = ranker.encoder.width
    down = (torch.randn(_RANK, width, generator=draw) / width**0.5).requires_grad_()
    up = torch.zeros(width, _RANK, requires_grad=True)
    optimizer = torch.optim.AdamW([down, up], lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / _WARM_UP, 1.0) * (1 - step / _STEPS)
    )
    with progress.task("learning", _STEPS, "steps") as task:
        for _ in range(_STEPS):
            loss = torch.stack([part.loss(down, up, draw) for part in parts]).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            task.tell(f"loss {float(loss.detach()):.2f}")
            task.advance()
    return joined(ranker.head, (down.numpy(force=True), up.numpy(force=True)))


def joined(first: Head | None, second: Head) -> Head:
    """Return the head that changes vectors, up to their length, as the one after the other does."""
    if first is None:
        return second
    down, up = second
    after = down + down @ first[1] @ first[0]
    return np.concatenate([first[0], after]), np.concatenate([first[1], up], axis=1)
