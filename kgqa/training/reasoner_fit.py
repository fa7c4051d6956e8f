"""Fitting a graph reasoner: questions and answers → a model that walks to the answers.

After KG-CoT (IJCAI 2024, sec. 3.1): the squared error between the scores of the entities around a
question and its answers, and the cross-entropy of the hop weights if the hops are known. Beside
it, which is this project's, relation paths that lead to just the answers teach the relation scores
directly. The best weights are chosen by the first answers to check questions.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.errors import DataError
from kgqa.methods.kg_cot.walk import FLOOR
from kgqa.models.graph_reasoner_card import ReasonerCard
from kgqa.models.graph_reasoner_files import save_reasoner
from kgqa.training.checkpoints import Checkpoint, alone, digest_of
from kgqa.training.loop import Fit, Schedule
from kgqa.training.reasoner_run import ReasonerRun
from kgqa.training.reports import ReasonerReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress
    from kgqa.training.options import ReasonerSettings
    from kgqa.training.reasoner_questions import WalkQuestion

_WARM_UP = 0.05  # part of the steps in which the learning rate rises
_CHECKED = 500  # questions that a checkpoint is chosen by, at most


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
    not its name. A run that was stopped goes on from its last checkpoint in ``out``,
    unless ``resume`` is False, and ends in the weights that it would have had.

    Raises DataError if there is nothing to train on, or if the checkpoint is of another run or
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
        checkpoint = Checkpoint(
            out, record, settings.checkpoint_every, resume=resume, progress=progress
        )
        began = time.perf_counter()
        lane = _lane(table, questions, checks, encoder, settings, progress)
        run, fit = lane.run, lane.fit
        checkpoint.take_up(fit, run.take)
        fit.run(lane.batches, lambda: checkpoint.after_step(fit, run.beside()))
        run.model.forget(run.seen)
        best = fit.best
        assert best is not None  # the last step is always checked
        result = ReasonerReport(
            folder=out,
            questions=lane.questions,
            checked=len(lane.check_rows),
            steps=best.step,
            loss=fit.mean_loss,
            **best.checked.figures,
            seconds=time.perf_counter() - began,
            resumed_from=checkpoint.step,
            data=dict(described),
        )
        card = _card(run, encoder_name or encoder.name, settings, result)
        save_reasoner(out, run.model, card)
        checkpoint.drop()
        return result


@dataclass(frozen=True, slots=True)
class _Lane:
    """The parts of a run: the model, how it is fitted, its batches, which checks."""

    run: ReasonerRun
    fit: Fit[IntArray]
    batches: list[IntArray]
    questions: int
    check_rows: IntArray


def _lane(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    settings: ReasonerSettings,
    progress: Progress,
) -> _Lane:
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    number = len(questions)
    if settings.epochs < 1:  # only the questions that are used are encoded
        some = np.sort(random.permutation(number)[: math.ceil(settings.epochs * number)])
        questions = [questions[row] for row in some.tolist()]
        number = len(questions)
    if len(checks) > _CHECKED:
        checks = [checks[row] for row in np.sort(random.permutation(len(checks))[:_CHECKED])]
    run = ReasonerRun(table, [*questions, *checks], encoder, settings, progress)
    check_rows = np.arange(number, number + len(checks))
    epochs = range(math.ceil(settings.epochs))
    order = np.concatenate([random.permutation(number) for _ in epochs])
    order = order[: math.ceil(number * max(settings.epochs, 1.0))]
    size = settings.batch_size
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    steps = len(batches)
    optimizer = torch.optim.AdamW(
        run.model.parameters(), settings.learning_rate, weight_decay=settings.decay
    )
    fit = Fit(
        run.model.train(),
        optimizer,
        Schedule(steps, round(_WARM_UP * steps), falls="cosine"),
        run.loss,
        progress,
        check=lambda: run.check(check_rows),
        check_every=max(1, steps // settings.checks),
    )
    return _Lane(run, fit, batches, number, check_rows)


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
    return ReasonerCard(
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
        encoder=encoder,
        width=run.model.width,
        hidden=settings.hidden,
        relations=tuple(run.table.store.relations().ids),
        answer_threshold=result.answer_threshold,
        described={
            **result.data,
            "settings": {**settings.model_dump(), "floor": FLOOR},
            "figures": figures,
        },
    )
