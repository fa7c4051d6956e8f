"""The steps of a short fit: gradients cut to length 1, a rate that rises, then falls linearly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import Tensor

    from kgqa.progress import Progress

_WARM_UP = 20  # steps in which the learning rate rises
_LEAST = 0.05  # of the learning rate, at the end
_SHOWN = 20  # steps whose mean loss is shown
BatchT = TypeVar("BatchT")


def take_steps(
    optimizer: torch.optim.Optimizer,
    weights: Sequence[Tensor],
    batches: Iterable[BatchT],
    loss_of: Callable[[BatchT], Tensor],
    steps: int,
    progress: Progress,
) -> float:
    """Take a step for each of at most ``steps`` batches; return the mean loss of the last ones.

    ``weights``: those whose gradients are cut.
    """
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    losses: list[float] = []
    with progress.task("learning", steps, "steps") as task:
        for _, batch in zip(range(steps), batches, strict=False):
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            task.tell(f"loss {np.mean(losses[-_SHOWN:]):.2f}")
            task.advance()
    return float(np.mean(losses[-_SHOWN:])) if losses else math.nan


def _rate(step: int, steps: int) -> float:
    return min((step + 1) / _WARM_UP, 1.0) * max(_LEAST, 1 - step / steps)
