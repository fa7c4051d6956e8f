"""Fitting a graph reasoner: questions and answers → a model that walks to the answers.

After KG-CoT (IJCAI 2024, sec. 3.1): the squared error between the scores of the entities around a
question and its answers, and the cross-entropy of the hop weights if the hops are known. Beside
it, which is this project's, relation paths that lead to just the answers teach the relation scores
directly. The best weights are chosen by the first answers to check questions.

A checkpoint holds all that a run needs to end in the weights of one that nobody stopped: weights,
optimizer, random state, and the numbers that relations got in the order they were met. Only the
last is kept, and it appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.errors import DataError, ModelError
from kgqa.methods.kg_cot.scores import relation_words
from kgqa.methods.kg_cot.walk import FLOOR
from kgqa.models.graph_reasoner_card import ReasonerCard
from kgqa.models.graph_reasoner_files import save_reasoner
from kgqa.training.checkpoints import (
    STEP_FILE,
    alone,
    checkpoint_to_resume,
    digest_of,
    drop_checkpoints,
)
from kgqa.training.reasoner_run import Checked, ReasonerRun
from kgqa.training.reports import ReasonerReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress
    from kgqa.training.options import ReasonerSettings
    from kgqa.training.reasoner_questions import WalkQuestion

_WARM_UP = 0.05  # part of the steps in which the learning rate rises
_CHECKED = 500  # questions that a checkpoint is chosen by, at most
_LEAST = 0.05  # of the learning rate, at the end
_STATE_FILE = "state.pt"
_UNREADABLE = (OSError, EOFError, LookupError, TypeError, ValueError, RuntimeError, UnpicklingError)


def fit_reasoner(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    out: Path,
    settings: ReasonerSettings,
    *,
    described: Mapping[str, Any],
    progress: Progress,
    encoder_name: str | None = None,
    resume: bool = True,
) -> ReasonerReport:
    """Train on ``questions`` and write the reasoner that does best on ``checks`` into ``out``.

    ``described`` goes into the card. ``encoder_name``: what loads the encoder again, if that is
    not its name. A run that was stopped goes on from its last checkpoint in ``out/checkpoints``,
    unless ``resume`` is False, and ends in the weights that it would have had.

    Raises DataError if there is nothing to train on, or if the checkpoints are of another run or
    damaged; UsageError if two runs want the same folder; GraphError; and ModelError if ``out``
    cannot be written.
    """
    if not questions:
        raise DataError(
            "There is no question to train on.",
            "Questions need topic entities and answers that the KG holds, a few hops apart.",
        )
    checks = checks or questions  # too few questions to keep some apart
    with alone(out):
        record = _record(table, questions, checks, encoder, settings)
        checkpoints = out / "checkpoints"
        last, step = checkpoint_to_resume(checkpoints, record, resume=resume)
        if last is not None:
            progress.note(f"Going on from step {step}, the last checkpoint in {checkpoints}.")
        began = time.perf_counter()
        fit = _Fit(table, questions, checks, encoder, settings, progress)
        if last is not None:
            fit.restore(last)
        best = fit.train(checkpoints, last)
        result = ReasonerReport(
            folder=out,
            questions=fit.questions,
            checked=len(fit.check_rows),
            steps=best.step,
            loss=float(np.mean(fit.losses[-fit.every :])),
            **dataclasses.asdict(best.checked),
            seconds=time.perf_counter() - began,
            resumed_from=step,
            data=dict(described),
        )
        card = _card(fit.run, encoder_name or encoder.name, settings, result)
        save_reasoner(out, fit.run.model, card, fit.run.words)
        drop_checkpoints(checkpoints)
        return result


@dataclass(frozen=True, slots=True)
class _Best:
    """The check that did best so far: its figures, its step and the weights then."""

    checked: Checked
    step: int
    weights: dict[str, Tensor]


class _Fit:
    """One run: the model with its optimizer, the order of the questions, and how far it is."""

    def __init__(
        self,
        table: HopTable,
        questions: Sequence[WalkQuestion],
        checks: Sequence[WalkQuestion],
        encoder: SentenceEncoder,
        settings: ReasonerSettings,
        progress: Progress,
    ) -> None:
        torch.manual_seed(settings.seed)
        random = np.random.default_rng(settings.seed)
        number = len(questions)
        if settings.epochs < 1:  # only the questions that are used are encoded
            some = np.sort(random.permutation(number)[: math.ceil(settings.epochs * number)])
            questions = [questions[row] for row in some.tolist()]
            number = len(questions)
        if len(checks) > _CHECKED:
            checks = [checks[row] for row in np.sort(random.permutation(len(checks))[:_CHECKED])]
        self.settings = settings
        self.progress = progress
        self.questions = number
        self.run = ReasonerRun(table, [*questions, *checks], encoder, settings, progress)
        self.check_rows = np.arange(number, number + len(checks))
        epochs = range(math.ceil(settings.epochs))
        order = np.concatenate([random.permutation(number) for _ in epochs])
        self.order = order[: math.ceil(number * max(settings.epochs, 1.0))]
        self.steps = math.ceil(len(self.order) / settings.batch_size)
        self.every = max(1, self.steps // settings.checks)
        self.optimizer = torch.optim.AdamW(
            self.run.model.parameters(), settings.learning_rate, weight_decay=settings.decay
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: _rate(step, self.steps)
        )
        self.step = 0
        self.losses: list[float] = []  # of each step
        self.best: _Best | None = None

    def train(self, checkpoints: Path, last: Path | None) -> _Best:
        """Take the steps that are left; return the best check, whose weights the model then has."""
        run, size = self.run, self.settings.batch_size
        began = time.perf_counter()
        keep_every = self.settings.checkpoint_every
        run.model.train()
        with self.progress.task("training", self.steps, "steps") as task:
            task.advance(self.step)
            for step in range(self.step + 1, self.steps + 1):
                loss = run.loss(self.order[(step - 1) * size : step * size])
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.step = step
                self.losses.append(float(loss.detach()))
                task.advance()
                if step % self.every == 0 or step == self.steps:
                    checked = run.check(self.check_rows)
                    mean = np.mean(self.losses[-self.every :])
                    self.progress.note(
                        f"step {step}/{self.steps}: loss {mean:.4f}, check questions: {checked}; "
                        f"{time.perf_counter() - began:.0f} s"
                    )
                    if self.best is None or checked.mark > self.best.checked.mark:
                        weights = {name: w.clone() for name, w in run.model.state_dict().items()}
                        self.best = _Best(checked, step, weights)
                if keep_every and step % keep_every == 0:
                    last = self.keep(checkpoints, last)
        assert self.best is not None  # the last step is always checked
        run.model.load_state_dict(self.best.weights)
        run.model.forget(*run.seen)
        return self.best

    def keep(self, checkpoints: Path, before: Path | None) -> Path:
        """Write a checkpoint and remove the one before. Raises ModelError if that fails."""
        best = None if self.best is None else dataclasses.asdict(self.best)
        state = {
            "reached": {"step": self.step, "losses": self.losses, "best": best},
            "weights": self.run.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "seen": self.run.seen,
            "relations": torch.from_numpy(self.run.table.relations()),
            "random": torch.get_rng_state(),
        }
        folder = checkpoints / f"checkpoint-{self.step}"
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

    def restore(self, checkpoint: Path) -> None:
        """Bring the run to where a checkpoint was. Raises DataError if it is damaged."""
        run = self.run
        try:
            state = torch.load(checkpoint / _STATE_FILE, map_location="cpu", weights_only=True)
            run.model.load_state_dict(state["weights"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            run.seen.copy_(state["seen"])
            run.table.number(state["relations"].numpy())
            torch.set_rng_state(state["random"])
            reached = state["reached"]
            self.step, self.losses = reached["step"], reached["losses"]
            if (best := reached["best"]) is not None:
                self.best = _Best(**{**best, "checked": Checked(**best["checked"])})
        except _UNREADABLE as error:
            why = str(error).partition("\n")[0][:120]
            raise DataError(
                f"The checkpoint {checkpoint} is damaged: {why}.",
                "Set `resume` to false to start again.",
            ) from None


def _record(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    settings: ReasonerSettings,
) -> dict[str, Any]:
    """Return what a run is known by."""
    asked = [
        one
        and (one.id, one.question, one.topics.tolist(), one.answers.tolist(), one.hops, one.paths)
        for one in (*questions, None, *checks)
    ]
    rules = table.rules
    return {
        "KG": table.store.info.version,
        "hops": rules.hops,
        "direction": rules.direction,
        "mediators": rules.mediators,
        "encoder": f"{encoder.name}, {encoder.width} numbers",
        "examples": digest_of(asked),
        # how often it is kept leaves the weights as they are
        **settings.model_dump(exclude={"checkpoint_every"}),
    }


def _rate(step: int, steps: int) -> float:
    """Return the factor of the learning rate: it rises, then falls by a cosine."""
    warm = max(1, round(_WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _card(
    run: ReasonerRun, encoder: str, settings: ReasonerSettings, result: ReasonerReport
) -> ReasonerCard:
    rules = run.table.rules
    figures = {
        "check questions": result.checked,
        "hits_at_1": round(result.hits_at_1, 1),
        "hit_at_10": round(result.hit_at_10, 1),
        "f1": round(result.f1, 1),
        "step": result.steps,
    }
    relations = tuple(run.table.store.relations().ids)
    return ReasonerCard(
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
        relations_by=settings.relations,
        beta_reads=settings.beta_reads,
        encoder=encoder,
        width=run.model.shape.width,
        hidden=settings.hidden,
        relations=relations,
        texts=() if run.texts == list(map(relation_words, relations)) else tuple(run.texts),
        answer_threshold=result.answer_threshold,
        described={
            **result.data,
            "settings": {**settings.model_dump(), "floor": FLOOR},
            "figures": figures,
        },
    )
