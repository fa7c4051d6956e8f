"""Checkpoints of a reasoner in training, so that a run that was stopped goes on where it was.

Beside weights, optimizer and random state a checkpoint holds the numbers that relations got as they
were met, so that a run that goes on ends in the same weights as one that nobody stopped. Only the
last is kept; a checkpoint appears whole, under its name, or not at all. The questions' token states
are not kept, which would be hundreds of megabytes: they are made again. What this does not do:
train, or say which checkpoint is the best reasoner (``kg_cot``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from kgqa.errors import DataError, ModelError
from kgqa.training.kg_cot_run import Checked
from kgqa.training.settings import checkpoint_to_resume

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.sentences import SentenceEncoder
    from kgqa.training.kg_cot import ReasonerSettings
    from kgqa.training.kg_cot_data import WalkQuestion
    from kgqa.training.kg_cot_run import ReasonerRun

_STATE = "state.pt"
_STEP = "trainer_state.json"  # what `checkpoint_to_resume` takes the step from
_UNREADABLE = (
    OSError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    pickle.UnpicklingError,
)
_FREE = ("checkpoint_every",)  # settings that leave the weights as they are


@dataclass(frozen=True, slots=True)
class Best:
    """The check that did best so far: its figures, its step and the weights then."""

    checked: Checked
    step: int
    weights: dict[str, Tensor]

    @property
    def mark(self) -> tuple[float, int]:
        """What checks are ordered by: the figures, then the earlier one."""
        return self.checked.hits_at_1 + self.checked.f1, -self.step


@dataclass(slots=True)
class Reached:
    """How far a run has come: ``step`` steps, the loss of each, the best check."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    best: Best | None = None


def reasoner_record(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    settings: ReasonerSettings,
) -> dict[str, Any]:
    """Return what a run is known by: KG, walks, encoder, questions in their order, settings."""
    digest = hashlib.sha256()
    for one in (*questions, None, *checks):
        told = one and (
            one.id, one.question, one.topics.tolist(), one.answers.tolist(), one.hops, one.paths
        )  # fmt: skip
        digest.update(json.dumps(told).encode() + b"\n")
    rules = table.rules
    return {
        "KG": table.store.info.version,
        "hops": rules.hops,
        "direction": rules.direction,
        "mediators": rules.mediators,
        "encoder": f"{encoder.name}, {encoder.width} numbers",
        "examples": digest.hexdigest(),
        **{
            name: value for name, value in dataclasses.asdict(settings).items() if name not in _FREE
        },
    }


class Checkpoints:
    """The checkpoints of one run in ``folder``; ``every`` so many steps, 0: none.

    Raises DataError where those in ``folder`` are of another run, by what is different; with
    ``resume`` False they are removed unread.
    """

    def __init__(self, folder: Path, record: dict[str, Any], every: int, *, resume: bool) -> None:
        self.folder = folder
        self._every = every
        self._last, self.step = checkpoint_to_resume(folder, record, resume=resume)

    def restore(
        self,
        run: ReasonerRun,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
    ) -> Reached:
        """Bring a run to where its last checkpoint was; where there is none, leave it as it is.

        Raises DataError where the checkpoint is damaged.
        """
        if self._last is None:
            return Reached()
        try:
            state = torch.load(self._last / _STATE, map_location="cpu", weights_only=True)
            run.model.load_state_dict(state["weights"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
            run.seen.copy_(state["seen"])
            run.table.number(state["relations"].numpy())
            torch.set_rng_state(state["random"])
            best = state["best"]
            return Reached(
                state["step"],
                state["losses"],
                best and Best(Checked(*best["checked"]), best["step"], best["weights"]),
            )
        except _UNREADABLE as error:
            said = str(error).partition("\n")[0][:120]
            raise DataError(
                f"The checkpoint {self._last} is damaged: {said}.", "Begin anew with --no-resume."
            ) from None

    def keep(
        self,
        run: ReasonerRun,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        reached: Reached,
    ) -> None:
        """Write a checkpoint where it is time for one, and remove the one before.

        Raises ModelError where it cannot be written.
        """
        if not self._every or reached.step % self._every:
            return
        best = reached.best
        state = {
            "step": reached.step,
            "losses": reached.losses,
            "best": best
            and {
                "checked": dataclasses.astuple(best.checked),
                "step": best.step,
                "weights": best.weights,
            },
            "weights": run.model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "seen": run.seen,
            "relations": torch.from_numpy(run.table.relations()),
            "random": torch.get_rng_state(),
        }
        name = f"checkpoint-{reached.step}"
        part = self.folder / f"{name}.part"
        try:
            part.mkdir()
            torch.save(state, part / _STATE)
            (part / _STEP).write_text(json.dumps({"global_step": reached.step}) + "\n", "utf-8")
            last = part.rename(self.folder / name)
            if self._last is not None:
                shutil.rmtree(self._last)
        except (OSError, RuntimeError) as error:  # torch says RuntimeError where a disk is full
            raise ModelError(
                f"The checkpoint {part} cannot be written: {error}.",
                "Make room, and give the same command again to go on from the one before.",
            ) from None
        self._last = last

    def remove(self) -> None:
        """Remove what a run that has ended needs no more."""
        shutil.rmtree(self.folder)
