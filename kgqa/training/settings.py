"""The settings of a training run, what it gave, and which checkpoints belong to it.

A checkpoint is gone on from only by a run that would have made it: same model, data and settings.
What this module does not do: train.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from filelock import FileLock, Timeout

from kgqa.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Schedule: TypeAlias = Literal["cosine", "linear", "constant_with_warmup"]
Loss: TypeAlias = Literal["path", "relations"]

RUN_FILE = "run.json"
_STATE = "trainer_state.json"  # what a checkpoint gets last
# settings that leave the weights as they are, so that they may change when a run goes on
_FREE = ("checkpoint_every", "check_every", "check_questions")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a run. ``rank``, ``alpha`` and ``dropout`` are those of LoRA.

    ``full``: all weights are trained, not an adapter. ``warmup``: share of the steps. An optimiser
    step sees ``batch_size * accumulation`` examples. ``max_tokens``: of prompt and path together; a
    longer example is left out. ``loss``: over the whole path, or over its relations and its end
    alone (``encode``). ``checkpoint_every`` and ``check_every`` are in steps (0: only at the end),
    ``check_questions`` the held-out questions whose paths are decoded then (0: none).
    Raises UsageError for a value that cannot be meant.
    """

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    epochs: float = 3.0
    learning_rate: float = 5e-4
    warmup: float = 0.03
    schedule: Schedule = "cosine"
    batch_size: int = 16
    accumulation: int = 1
    max_tokens: int = 256
    loss: Loss = "path"
    checkpoint_every: int = 100
    check_every: int = 200
    check_questions: int = 50
    seed: int = 0
    full: bool = False

    def __post_init__(self) -> None:
        for name in ("rank", "alpha", "batch_size", "accumulation", "max_tokens"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}.")
        for name in ("checkpoint_every", "check_every", "check_questions", "seed"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is at least 0, not {getattr(self, name)}.")
        if self.epochs <= 0 or self.learning_rate <= 0:
            raise UsageError(
                f"{self.epochs:g} epochs at a learning rate of {self.learning_rate:g} train "
                "nothing.",
                "Both are above 0.",
            )
        if not 0 <= self.warmup <= 1 or not 0 <= self.dropout < 1:
            raise UsageError("warmup and dropout are shares, from 0 to 1.")

    def check_start(self, start_from: Path | None) -> None:
        """Raise UsageError where a run of all weights is to start from an adapter."""
        if self.full and start_from is not None:
            raise UsageError(
                "All weights cannot be trained from an adapter's.",
                "Leave out --start-from, or train an adapter.",
            )


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a run gave: losses are means over completion tokens, ``path_accuracy`` is in percent.

    ``path_accuracy``: of ``checked`` held-out questions, those whose best path takes one of their
    gold relation paths; None where nothing was held out. ``seconds``: of this process alone.
    """

    folder: Path
    examples: int
    too_long: int
    steps: int
    loss: float
    held_out_loss: float | None
    seconds: float
    path_accuracy: float | None = None
    checked: int = 0
    resumed_from: int | None = None  # the step of the checkpoint that the run went on from


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder ``out`` for one run. Raises UsageError where another one has it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise UsageError(
            f"Another run is training into {out}.",
            "Wait until it has ended, or name another --out.",
        ) from None
    except FileExistsError:
        raise UsageError(
            f"{out} is no folder.", "Name a folder that is to hold the result: --out"
        ) from None


def run_record(
    model: str, card: str, rows: Sequence[Any], start_from: Path | None, settings: TrainingSettings
) -> dict[str, Any]:
    """Return what a run is known by: model, prompt (its card's fingerprint), data, settings."""
    data = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    start = None
    if start_from is not None:
        weights = start_from / "adapter_model.safetensors"
        try:
            with weights.open("rb") as file:
                start = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(
                f"The adapter {start_from} to start from cannot be read: {error.strerror}.",
                "Name a folder that `kgqa train run` wrote.",
            ) from None
    kept = {name: value for name, value in asdict(settings).items() if name not in _FREE}
    return {"model": model, "prompt": card, "examples": data, "start from": start, **kept}


def checkpoint_to_resume(
    folder: Path, record: Mapping[str, Any], *, resume: bool
) -> tuple[Path | None, int | None]:
    """Return the last whole checkpoint in ``folder`` and its step, None where there is none.

    Makes the folder, with ``record`` in it; what was cut short while it was written is removed, and
    all that is in it where ``resume`` is False. Raises DataError where the checkpoints are of a run
    with another model, other data or other settings, by the names of these.
    """
    if not resume and folder.is_dir():
        shutil.rmtree(folder)
    found = []
    for path in folder.glob("checkpoint-*") if folder.is_dir() else ():
        number = path.name.removeprefix("checkpoint-")
        if number.isdecimal() and _is_whole(path):
            found.append((int(number), path))
        else:
            shutil.rmtree(path)
    if found:
        _check_same(folder, record)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_FILE).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    if not found:
        return None, None
    step, path = max(found)
    return path, step


def _is_whole(checkpoint: Path) -> bool:
    try:
        return "global_step" in json.loads((checkpoint / _STATE).read_text("utf-8"))
    except (OSError, ValueError):
        return False


def _check_same(folder: Path, record: Mapping[str, Any]) -> None:
    try:
        before = json.loads((folder / RUN_FILE).read_text("utf-8"))
        assert isinstance(before, dict)
    except (OSError, ValueError, AssertionError):
        before = {}
    other = [name for name in record if before.get(name) != record[name]]
    if not other:
        return
    said = ", ".join(_difference(name, before.get(name), record[name]) for name in other)
    what = f"another {said}" if before else "settings that are not known"
    raise DataError(
        f"The checkpoints in {folder} are of a run with {what}.",
        "Give the same flags and files to go on with it, another --out, or --no-resume to begin "
        "anew.",
    )


def _difference(name: str, before: Any, now: Any) -> str:
    if name in ("prompt", "examples", "start from"):
        return {"examples": "set of examples", "start from": "adapter to start from"}.get(
            name, name
        )
    return f"{name} ({before}, not {now})"
