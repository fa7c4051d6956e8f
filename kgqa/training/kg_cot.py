"""Training a graph reasoner: questions and answers → a model that walks to the answers.

After KG-CoT (IJCAI 2024, sec. 3.1): the squared error between the scores of the entities around a
question and its answers, answers weighing more, and the cross-entropy of the hop weights where the
hops are known. Beside it, which is this project's, relation paths that lead to just the answers
teach the relation scores directly. The encoder is frozen, so each question is encoded once and
kept. Checkpoints are chosen by the first answers to a tenth of the training questions, that is not
trained on. What this does not do: read questions, or answer them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.errors import DataError
from kgqa.methods.kg_cot.walk import FLOOR
from kgqa.models.graph_reasoner_card import ReasonerCard, save_reasoner
from kgqa.training.kg_cot_checkpoint import Best, Checkpoints, reasoner_record
from kgqa.training.kg_cot_run import ReasonerRun
from kgqa.training.settings import alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.graph_reasoner import BetaReads, RelationsBy
    from kgqa.models.sentences import SentenceEncoder
    from kgqa.progress import Progress
    from kgqa.training.kg_cot_data import WalkQuestion

_WARM_UP = 0.05  # share of the steps in which the learning rate rises
_CHECKED = 500  # questions that a checkpoint is chosen by, at most
_LEAST = 0.05  # of the learning rate, at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonerSettings:
    """How a reasoner is trained.

    ``epochs``: passes over the questions, of which a part may be less than one. ``answer_weight``:
    what an answer weighs in the error beside another entity (100 on WebQSP and 10 on CWQ in the
    public programs). ``hop_weight``: of the hops' cross-entropy (0.01 there). ``path_weight``: of
    the loss of relation paths, 0 to train by answers alone, as published. ``beta_reads``: what the
    number of hops is read from. ``checks``: how often the check questions are asked, the end
    included. ``checkpoint_every``: steps between checkpoints, 0 for none.
    """

    relations_by: RelationsBy = "ids"
    beta_reads: BetaReads = "tokens"
    epochs: float = 10.0
    learning_rate: float = 1e-3
    batch_size: int = 16
    hidden: int = 192
    dropout: float = 0.2
    answer_weight: float = 10.0
    hop_weight: float = 0.01
    path_weight: float = 0.1
    decay: float = 0.01
    checks: int = 10
    checkpoint_every: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ReasonerResult:
    """What a training run gave; figures are of the check questions, in per cent.

    ``seconds`` are of this process alone, ``resumed_from`` the step of the checkpoint that the run
    went on from.
    """

    folder: Path
    questions: int
    checked: int
    steps: int
    loss: float
    hits_at_1: float
    hit_at_10: float
    f1: float
    cut: float
    seconds: float
    resumed_from: int | None = None


def train_reasoner(
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
) -> ReasonerResult:
    """Train on ``questions`` and write the reasoner that does best on ``checks`` into ``out``.

    The walks are those of ``table``. ``described`` goes into the card. ``encoder_name``: what
    loads the encoder again, where that is not its name. A run that was stopped goes on from its
    last checkpoint in ``out/checkpoints``, unless ``resume`` is False, and ends in the weights that
    it would have had; the checkpoints are removed when a run has ended.

    Raises DataError where there is nothing to train or check on, or where the checkpoints are of
    another run or damaged; UsageError where two runs want the same folder; GraphError; and
    ModelError where ``out`` cannot be written.
    """
    if not questions:
        raise DataError(
            "There is no question to train on.",
            "Questions need topic entities and answers that the KG holds, a few hops apart.",
        )
    if not checks:  # too few questions to keep some apart
        checks = questions
    with alone(out):
        record = reasoner_record(table, questions, checks, encoder, settings)
        kept = Checkpoints(out / "checkpoints", record, settings.checkpoint_every, resume=resume)
        if kept.step is not None:
            progress.note(f"Going on from step {kept.step}, the last checkpoint in {kept.folder}.")
        run, result = _train(table, questions, checks, encoder, out, settings, kept, progress)
        card = _card(run, encoder_name or encoder.name, settings, result, described)
        save_reasoner(out, run.model, card, run.words)
        kept.remove()
        return result


def _train(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    out: Path,
    settings: ReasonerSettings,
    kept: Checkpoints,
    progress: Progress,
) -> tuple[ReasonerRun, ReasonerResult]:
    """Return a run that has ended, its model that of the best check, and what it gave."""
    began = time.perf_counter()
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    # of a part of an epoch only the questions that are used are encoded
    number = len(questions)
    if settings.epochs < 1:
        some = np.sort(random.permutation(number)[: math.ceil(settings.epochs * number)])
        questions = [questions[row] for row in some.tolist()]
        number = len(questions)
    if len(checks) > _CHECKED:
        checks = [checks[row] for row in np.sort(random.permutation(len(checks))[:_CHECKED])]
    run = ReasonerRun(table, [*questions, *checks], encoder, settings, progress)
    check_rows = np.arange(number, number + len(checks))
    order = np.concatenate([random.permutation(number) for _ in range(math.ceil(settings.epochs))])
    order = order[: math.ceil(number * max(settings.epochs, 1.0))]
    size = settings.batch_size
    steps = math.ceil(len(order) / size)
    optimizer = torch.optim.AdamW(
        run.model.parameters(), settings.learning_rate, weight_decay=settings.decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    every = max(1, steps // settings.checks)
    reached = kept.restore(run, optimizer, schedule)
    run.model.train()
    with progress.task("training", steps, "steps") as task:
        task.advance(reached.step)
        for step in range(reached.step + 1, steps + 1):
            loss = run.loss(order[(step - 1) * size : step * size])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            reached.step = step
            reached.losses.append(float(loss.detach()))
            task.advance()
            if step % every == 0 or step == steps:
                checked = run.check(check_rows)
                mean = np.mean(reached.losses[-every:])
                progress.note(
                    f"step {step}/{steps}: loss {mean:.4f}, check questions: {checked}; "
                    f"{time.perf_counter() - began:.0f} s"
                )
                weights = {name: one.clone() for name, one in run.model.state_dict().items()}
                best = Best(checked, step, weights)
                if reached.best is None or best.mark > reached.best.mark:
                    reached.best = best
            kept.keep(run, optimizer, schedule, reached)
    assert reached.best is not None  # the last step is always checked
    best = reached.best
    run.model.load_state_dict(best.weights)
    run.model.forget(*run.seen)
    return run, ReasonerResult(
        folder=out,
        questions=number,
        checked=len(checks),
        steps=best.step,
        loss=float(np.mean(reached.losses[-every:])),
        **dataclasses.asdict(best.checked),
        seconds=time.perf_counter() - began,
        resumed_from=kept.step,
    )


def _rate(step: int, steps: int) -> float:
    """Return the part of the learning rate at ``step``: it rises, then falls by a cosine."""
    warm = max(1, round(_WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _card(
    run: ReasonerRun,
    encoder: str,
    settings: ReasonerSettings,
    result: ReasonerResult,
    described: Mapping[str, Any],
) -> ReasonerCard:
    rules = run.table.rules
    figures = {
        "check questions": result.checked,
        "hits_at_1": round(result.hits_at_1, 1),
        "hit_at_10": round(result.hit_at_10, 1),
        "f1": round(result.f1, 1),
        "step": result.steps,
    }
    return ReasonerCard(
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
        relations_by=settings.relations_by,
        beta_reads=settings.beta_reads,
        encoder=encoder,
        width=run.model.shape.width,
        hidden=settings.hidden,
        relations=tuple(run.table.store.relations().ids),
        texts=tuple(run.texts),
        cut=result.cut,
        described={
            **described,
            "settings": {**dataclasses.asdict(settings), "floor": FLOOR},
            "figures": figures,
        },
    )
