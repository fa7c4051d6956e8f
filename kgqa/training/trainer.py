"""The parts of transformers' Trainer that are this project's own: loss, order, log and checks."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import Trainer, TrainerCallback

from kgqa.errors import ModelError
from kgqa.graph.files import write_whole
from kgqa.training.encode import IGNORED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.models.kg_llm import KgLLM
    from kgqa.progress import Progress, Task
    from kgqa.training.check import PathCheck
    from kgqa.training.encode import ByLength
    from kgqa.training.options import TrainingSettings


class RunLog:
    """``training.jsonl``: a line for each log and each check; those after a step may be dropped.

    ``after``: the step of the checkpoint that the run goes on from; None starts an empty file.
    """

    def __init__(self, path: Path, after: int | None) -> None:
        self._path = path
        kept = [] if after is None else [one for one in self.lines() if one["step"] <= after]
        write_whole(path, "".join(json.dumps(one) + "\n" for one in kept).encode())

    def lines(self) -> list[dict[str, Any]]:
        """Return what has been written; one that was cut short is left out."""
        found = []
        text = self._path.read_text("utf-8") if self._path.is_file() else ""
        for line in text.splitlines():
            try:
                one = json.loads(line)
                found.append({**one, "step": int(one["step"])})
            except (ValueError, TypeError, KeyError):
                continue
        return found

    def write(self, **fields: Any) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


@contextmanager
def writing_to(folder: str | Path) -> Iterator[None]:
    """Make what libraries raise when they cannot write a ModelError, in a ``with``."""
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:  # PyTorch's is a RuntimeError
        raise ModelError(
            f"The model cannot be written to {folder}: {str(error).partition(chr(10))[0]}.",
            "See that the disk has room; the same command then goes on from its last checkpoint.",
        ) from None


class PathTrainer(Trainer):
    """Logits only at labels (a third less time a step on a CPU), and batches in a given order."""

    def __init__(self, order: ByLength, **settings: Any) -> None:
        self._order = order
        self._short: bool | None = None
        super().__init__(**settings)
        # the loss is over all completion tokens of a step, however they fall into its batches
        self.model_accepts_loss_kwargs = True

    def _save_checkpoint(self, *given: Any) -> None:
        with writing_to(str(self.args.output_dir)):
            super()._save_checkpoint(*given)

    def _get_train_sampler(self, train_dataset: Any = None) -> ByLength:
        return self._order

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Return the loss: the mean over the completion tokens of the whole step."""
        causal = self.accelerator.unwrap_model(model)
        if hasattr(causal, "get_base_model"):  # an adapter's
            causal = causal.get_base_model()
        labels = inputs["labels"][:, 1:]
        there = labels != IGNORED
        if self._short is None:
            self._short = _head_is_plain(causal, inputs)
        asked = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        if self._short:
            hidden = causal.base_model(**asked).last_hidden_state
            logits = causal.get_output_embeddings()(hidden[:, :-1][there])
        else:
            logits = causal(**asked).logits[:, :-1][there]
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[there], reduction="sum")
        count = there.sum() if num_items_in_batch is None else num_items_in_batch
        loss = loss / count
        return (loss, {"loss": loss}) if return_outputs else loss


def _head_is_plain(causal: Any, inputs: dict[str, Any]) -> bool:
    """Return whether nothing is done to the logits: some architectures scale or cap them."""
    row = {name: inputs[name][:1] for name in ("input_ids", "attention_mask")}
    training = causal.training
    causal.eval()
    try:
        with torch.no_grad():
            whole = causal(**row).logits
            hidden = causal.base_model(**row).last_hidden_state
            return torch.allclose(
                causal.get_output_embeddings()(hidden).float(), whole.float(), atol=1e-3, rtol=1e-3
            )
    except (AttributeError, TypeError):
        return False
    finally:
        causal.train(training)


class Watch(TrainerCallback):
    """Shows steps and losses, and logs them; counts right paths after every evaluation."""

    def __init__(
        self,
        log: RunLog,
        check: PathCheck | None,
        kg_llm: KgLLM,
        settings: TrainingSettings,
        progress: Progress,
    ) -> None:
        self._log = log
        self._check = check
        self._kg_llm = kg_llm
        self._settings = settings
        self._progress = progress
        self._began = time.monotonic()
        self._shown = ExitStack()
        self._task: Task | None = None
        self.accuracy: float | None = None

    def close(self) -> None:
        """Show no more steps."""
        self._shown.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show how far the steps are."""
        task = self._progress.task("training", int(state.max_steps), "steps")
        self._task = self._shown.enter_context(task)
        self._task.advance(int(state.global_step))  # those before the checkpoint

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the step, and ask for an evaluation every so many; one comes at the end."""
        if self._task is not None:
            self._task.advance()
        every = self._settings.check_every
        if every and state.global_step % every == 0 and state.global_step < state.max_steps:
            control.should_evaluate = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Report the loss."""
        if not logs or "loss" not in logs:
            return
        loss = float(logs["loss"])
        self._log.write(
            step=state.global_step,
            epoch=round(float(state.epoch or 0), 4),
            loss=loss,
            learning_rate=float(logs.get("learning_rate", 0.0)),
            seconds=round(time.monotonic() - self._began, 1),
        )
        self._progress.note(f"step {state.global_step}/{state.max_steps} loss {loss:.3f}")

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Count right paths and report them with the held-out loss."""
        loss = float((metrics or {}).get("eval_loss", float("nan")))
        fields: dict[str, Any] = {"step": state.global_step, "held_out_loss": loss}
        shown = f"step {state.global_step}/{state.max_steps} held-out loss {loss:.3f}"
        if self._check is not None:
            model: Any = self._kg_llm.model
            training = model.training
            model.eval()
            right, asked = self._check.right(), len(self._check)
            model.train(training)
            self.accuracy = 100 * right / asked
            fields |= {"path_accuracy": round(self.accuracy, 2), "checked": asked}
            shown += f", path accuracy {self.accuracy:.1f} % ({right} of {asked})"
        self._log.write(**fields)
        self._progress.note(shown)

    def mean_loss(self, otherwise: float) -> float:
        """Return the mean of the logged losses: of all parts of a run that was stopped."""
        losses = [one["loss"] for one in self._log.lines() if "loss" in one]
        return sum(losses) / len(losses) if losses else otherwise
