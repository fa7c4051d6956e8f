"""The loop of a fit: steps of an optimizer, a rate that rises and falls, checks, checkpoints.

Of every check the weights are kept if they are the best so far. A checkpoint holds all that a run
needs to end in the weights of one that nobody stopped: weights, optimizer, random state, and what
its owner adds. Only the last one stays, and it appears whole or not at all.
"""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, dataclass, field
from itertools import islice
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from kgqa.errors import DataError, ModelError
from kgqa.training.checkpoints import STEP_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from torch import Tensor

    from kgqa.progress import Progress

BatchT = TypeVar("BatchT")
_STATE_FILE = "state.pt"
_SHOWN = 20  # steps whose mean loss is shown
_UNREADABLE = (OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, UnpicklingError)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The factor of the learning rate: it rises for ``warm_up`` steps and falls to ``least``.

    It falls linearly or, with ``cosine``, by half a cosine.
    """

    steps: int
    warm_up: int = 20
    least: float = 0.05
    cosine: bool = False

    def __call__(self, step: int) -> float:
        """Return the factor of a step, counted from 0."""
        if not self.cosine:
            return min((step + 1) / self.warm_up, 1.0) * max(self.least, 1 - step / self.steps)
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = min((step - self.warm_up) / max(1, self.steps - self.warm_up), 1.0)
        return self.least + (1 - self.least) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True, slots=True)
class Checked:
    """Figures of questions that are not trained on; of two checks the higher ``mark`` is better."""

    mark: float
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Best:
    """The check that did best so far: its figures, its step and the weights then."""

    checked: Checked
    step: int
    weights: dict[str, Tensor]


@dataclass
class Fit(Generic[BatchT]):
    """A model, or a list of weights, that ``optimizer`` fits to batches; ``loss`` is that of one.

    ``clip``: the length to which gradients are cut. ``check`` is asked every ``check_every`` steps
    and at the end.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    loss: Callable[[BatchT], Tensor]
    progress: Progress
    clip: float = 1.0
    check: Callable[[], Checked] | None = None
    check_every: int = _SHOWN
    step: int = 0
    losses: list[float] = field(default_factory=list)
    best: Best | None = None

    def __post_init__(self) -> None:
        rate = self.schedule
        self._rates = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: rate(step))

    @property
    def mean_loss(self) -> float:
        """The mean loss of the last steps; not a number before the first."""
        return float(np.mean(self.losses[-self.check_every :])) if self.losses else math.nan

    def run(self, batches: Iterable[BatchT], after: Callable[[], None] = lambda: None) -> None:
        """Take the steps that are left, one a batch; ``after`` is called after each.

        With a check, the model ends with the best weights.
        """
        steps = self.schedule.steps
        weights = [one for one in self.model.parameters() if one.requires_grad]
        with self.progress.task("training", steps, "steps") as task:
            task.advance(self.step)
            for batch in islice(batches, steps - self.step):
                loss = self.loss(batch)
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(weights, self.clip)
                self.optimizer.step()
                self._rates.step()
                self.step += 1
                self.losses.append(float(loss.detach()))
                task.tell(f"loss {np.mean(self.losses[-_SHOWN:]):.2f}")
                task.advance()
                if self.check and (self.step % self.check_every == 0 or self.step == steps):
                    self._compare(self.check())
                after()  # once the step is checked: a checkpoint holds the best weights, too
        if self.best is not None:
            self.model.load_state_dict(self.best.weights)

    def _compare(self, checked: Checked) -> None:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in checked.figures.items())
        self.progress.note(
            f"step {self.step}/{self.schedule.steps}: loss {self.mean_loss:.4f}, {shown}"
        )
        if self.best is None or checked.mark > self.best.checked.mark:
            weights = {name: one.clone() for name, one in self.model.state_dict().items()}
            self.best = Best(checked, self.step, weights)

    def keep(self, checkpoints: Path, before: Path | None, beside: dict[str, Any]) -> Path:
        """Write a checkpoint with ``beside`` (tensors and plain values); remove the one before.

        Raises ModelError if that fails.
        """
        best = None if self.best is None else asdict(self.best)
        state = {
            "reached": {"step": self.step, "losses": self.losses, "best": best},
            "weights": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rates": self._rates.state_dict(),
            "random": torch.get_rng_state(),
            "beside": beside,
        }
        folder = checkpoints / f"checkpoint-{self.step}"
        # renamed when it is whole: a run that is killed while it writes goes on from the one before
        part = folder.with_name(f"{folder.name}.part")
        try:
            part.mkdir()
            torch.save(state, part / _STATE_FILE)
            (part / STEP_FILE).write_text(json.dumps({"global_step": self.step}) + "\n", "utf-8")
            part.rename(folder)
            if before is not None:
                shutil.rmtree(before)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError if a disk is full
            raise ModelError(
                f"The checkpoint {part} cannot be written: {error}.",
                "Make room, and give the same command again to go on from the one before.",
            ) from None
        return folder

    def restore(self, checkpoint: Path, take: Callable[[dict[str, Any]], None]) -> None:
        """Bring the fit to where a checkpoint was; ``take`` gets what it has beside.

        Raises DataError if it is damaged.
        """
        try:
            state = torch.load(checkpoint / _STATE_FILE, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["weights"])
            self.optimizer.load_state_dict(state["optimizer"])
            self._rates.load_state_dict(state["rates"])
            take(state["beside"])
            # last: what is loaded before may draw numbers, and dropout must go on where it was
            torch.set_rng_state(state["random"])
            reached = state["reached"]
            self.step, self.losses = reached["step"], reached["losses"]
            if (best := reached["best"]) is not None:
                self.best = Best(**{**best, "checked": Checked(**best["checked"])})
        except _UNREADABLE as error:
            why = str(error).partition("\n")[0][:120]
            raise DataError(
                f"The checkpoint {checkpoint} is damaged: {why}.",
                "Set `resume` to false to start again.",
            ) from None
