"""The training loop: optimizer steps, learning rate schedule, checks and checkpoints.

Of every check the weights are kept if they are the best so far. :meth:`Fit.state` holds all that a
run needs to end in the weights of one that nobody stopped: weights, optimizer, random state.

A checkpoint is one file in the folder of the run, which appears whole or not at all, and is resumed
only by a run that would have made it: same model, data and settings.
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from kgqa.errors import DataError, ModelError, UsageError
from kgqa.files import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from kgqa.progress import Progress
    from kgqa.training.options import FitSettings

BatchT = TypeVar("BatchT")
LOSS_WINDOW = 20  # steps whose mean loss is shown


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning rate schedule: the factor rises for ``warm_up`` steps, then falls to ``least``."""

    steps: int
    warm_up: int = LOSS_WINDOW
    least: float = 0.05
    falls: Literal["cosine", "linear"] = "linear"

    def __call__(self, step: int) -> float:
        """Return the factor of the learning rate at a training step, counted from 0."""
        rise = min((step + 1) / max(1, self.warm_up), 1.0)
        if self.falls == "linear":
            return rise * max(self.least, 1 - step / self.steps)
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        half = 0.5 * (1 + math.cos(math.pi * min(max(done, 0.0), 1.0)))
        return rise * (self.least + (1 - self.least) * half)


@dataclass(frozen=True, slots=True)
class Checked:
    """Figures on questions that are not trained on; the check with the highest ``mark`` wins.

    Without a mark they are only reported, and the last weights are kept.
    """

    mark: float | None
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Best:
    """The best check so far: its figures, step and weights."""

    checked: Checked
    step: int
    weights: dict[str, Tensor]


@dataclass
class Fit(Generic[BatchT]):
    """Fits a model, or a list of weights, to batches with ``optimizer``.

    ``loss`` returns the loss of a batch, or the parts that it is the sum of, one in memory at a
    time. ``clip``: the norm to which gradients are clipped. ``check`` is called every
    ``check_every`` steps and at the end; ``checks``: the figures so far, by step.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    loss: Callable[[BatchT], Tensor | Iterable[Tensor]]
    progress: Progress
    clip: float = 1.0
    check: Callable[[], Checked] | None = None
    check_every: int = LOSS_WINDOW
    step: int = 0
    losses: list[float] = field(default_factory=list)
    checks: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    best: Best | None = None

    def __post_init__(self) -> None:
        rate = self.schedule
        self._rates = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: rate(step))

    @property
    def mean_loss(self) -> float:
        """The mean loss of the last steps, NaN before the first."""
        return float(np.mean(self.losses[-self.check_every :])) if self.losses else math.nan

    def run(self, batches: Iterable[BatchT], after: Callable[[], None] = lambda: None) -> None:
        """Run the remaining training steps, one a batch; ``after`` is called after each.

        ``batches``: of all steps; those done already are skipped. With a check that has a mark, the
        model ends with the best weights.
        """
        steps, weights = self.schedule.steps, list(self._weights().values())
        with self.progress.task("training", steps, "steps") as task:
            task.advance(self.step)
            for batch in islice(batches, self.step, steps):
                self.optimizer.zero_grad()
                loss = self.loss(batch)
                total = 0.0
                for part in [loss] if isinstance(loss, torch.Tensor) else loss:
                    part.backward()
                    total += float(part.detach())
                torch.nn.utils.clip_grad_norm_(weights, self.clip)
                self.optimizer.step()
                self._rates.step()
                self.step += 1
                self.losses.append(total)
                task.tell(f"loss {np.mean(self.losses[-LOSS_WINDOW:]):.2f}")
                task.advance()
                if self.check and (self.step % self.check_every == 0 or self.step == steps):
                    self._compare(self.check())
                after()  # once the step is checked: a checkpoint holds the best weights, too
        if self.best is not None:
            self._take(self.best.weights)

    def _compare(self, checked: Checked) -> None:
        """Note a check, and remember the weights if it is the best; without a mark it never is."""
        shown = ", ".join(f"{name} {value:.3g}" for name, value in checked.figures.items())
        self.progress.note(
            f"step {self.step}/{self.schedule.steps}: loss {self.mean_loss:.4f}, {shown}"
        )
        self.checks.append((self.step, checked.figures))
        before = None if self.best is None else self.best.checked.mark
        if checked.mark is not None and (before is None or checked.mark > before):
            weights = {name: weight.detach().clone() for name, weight in self._weights().items()}
            self.best = Best(checked, self.step, weights)

    def _weights(self) -> dict[str, torch.nn.Parameter]:
        """Return the trained weights by name: an adapter's, without those of its base model."""
        every = self.model.named_parameters()
        return {name: weight for name, weight in every if weight.requires_grad}

    @torch.no_grad()
    def _take(self, weights: Mapping[str, Tensor]) -> None:
        """Copy ``weights``, by name, into the model."""
        for name, weight in self._weights().items():
            weight.copy_(weights[name])

    def state(self) -> dict[str, Any]:
        """Return the state of the loop, as tensors and plain values, for a checkpoint."""
        best = None if self.best is None else asdict(self.best)
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {
            "reached": {"step": self.step, "losses": self.losses, "checks": self.checks},
            "best": best,
            "weights": {name: weight.detach() for name, weight in self._weights().items()},
            "optimizer": self.optimizer.state_dict(),
            "rates": self._rates.state_dict(),
            "random": (torch.get_rng_state(), cuda),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the loop to a state that :meth:`state` returned.

        Raises an error for the state of another model. Call it after everything that draws random
        numbers: dropout must continue where it was.
        """
        self._take(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._rates.load_state_dict(state["rates"])
        for name in ("step", "losses", "checks"):
            setattr(self, name, state["reached"][name])
        if (best := state["best"]) is not None:
            self.best = Best(**{**best, "checked": Checked(**best["checked"])})
        here, cuda = state["random"]
        torch.set_rng_state(here)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


FILE = "checkpoint.pt"
_NAMES = {
    "examples": "set of examples",
    "start from": "adapter to start from",
    "prompt": "prompt",
}
_UNREADABLE = (OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, UnpicklingError)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Lock the folder ``out`` for one run. Raises UsageError if another run has it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise UsageError(
            f"Another run is training into {out}.",
            "Wait until it has ended, or name another `out`.",
        ) from None
    except FileExistsError:
        raise UsageError(
            f"{out} is not a folder.", "Name a folder for the result as `out`."
        ) from None


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn libraries' write errors inside ``with`` into ModelError."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:  # PyTorch's is a RuntimeError
        raise ModelError(
            f"The model cannot be written to {folder}: {str(error).partition(chr(10))[0]}.",
            "See that the disk has room; the same command then goes on from its last checkpoint.",
        ) from None


class Checkpoint:
    """The checkpoint in the folder ``out`` of the run identified by ``record`` and settings.

    ``step``: of the checkpoint to resume from, None without one. Raises DataError, which names the
    differences, if it belongs to another run, or is damaged.
    """

    def __init__(
        self, out: Path, record: Mapping[str, Any], settings: FitSettings, progress: Progress
    ) -> None:
        self._file = out / FILE
        self._record = {**record, **settings.fixed()}
        self._every = settings.checkpoint_every
        self._found: dict[str, Any] = {}
        self.step: int | None = None
        if not settings.resume:
            self._file.unlink(missing_ok=True)
        if self._file.exists():
            with self._reading():
                self._found = torch.load(self._file, map_location="cpu", weights_only=True)
                before, self.step = self._found["record"], self._found["fit"]["reached"]["step"]
            self._check_same(before)
            progress.note(f"Going on from step {self.step}, the last checkpoint in {out}.")

    def take_up(
        self, fit: Fit[Any], take: Callable[[Mapping[str, Any]], None] = lambda _: None
    ) -> None:
        """Restore ``fit`` from the checkpoint, if there is one.

        ``take`` receives its further state.
        """
        if self._found:
            with self._reading():
                take(self._found["beside"])
                fit.restore(self._found["fit"])
            self._found = {}

    def after_step(self, fit: Fit[Any], beside: Mapping[str, Any] | None = None) -> None:
        """Write the checkpoint if it is due after this training step.

        ``beside``: further state for :meth:`take_up`. Raises ModelError if writing fails.
        """
        if not self._every or fit.step % self._every:
            return
        # renamed when it is whole: a run that is killed while it writes goes on from the one before
        part = self._file.with_suffix(".part")
        state = {"record": self._record, "fit": fit.state(), "beside": dict(beside or {})}
        with writing_to(self._file.parent):
            torch.save(state, part)
            sync(part)
            part.replace(self._file)

    def drop(self) -> None:
        """Delete the checkpoint at the end of a run."""
        for file in (self._file, self._file.with_suffix(".part")):
            file.unlink(missing_ok=True)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of a damaged checkpoint inside ``with`` into DataError."""
        try:
            yield
        except _UNREADABLE as error:
            why = str(error).partition("\n")[0][:120]
            raise DataError(
                f"The checkpoint {self._file} is damaged: {why}.",
                "Set `resume` to false to start again.",
            ) from None

    def _check_same(self, before: Mapping[str, Any]) -> None:
        """Raise DataError unless the record ``before`` of a checkpoint equals this run's."""
        other = [name for name, value in self._record.items() if before.get(name) != value]
        if other:
            said = ", ".join(
                _NAMES.get(name) or f"{name} ({before.get(name)}, not {self._record[name]})"
                for name in other
            )
            raise DataError(
                f"The checkpoint {self._file} is of a run with another {said}.",
                "Give the same options and files to go on with it, another `out`, or set `resume` "
                "to false to start again.",
            )


def digest_of(items: Any) -> str:
    """Return the hex SHA-256 of data as JSON, which identifies it in a run's record."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()
