"""Training a graph walker: questions and answers → a model that walks to the answers.

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
from kgqa.models.graph_walker import (
    GraphWalker,
    WalkerShape,
    hop_loss,
    path_loss,
    relation_logits,
    walk_loss,
)
from kgqa.models.graph_walker_card import WalkerCard, save_walker
from kgqa.reasoning.kg_cot_scores import own_steps, padded, relation_words, steps_by
from kgqa.reasoning.kg_cot_walk import FLOOR, walk_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from kgqa.graph.model import IntArray
    from kgqa.models.graph_walker import Reading, RelationsBy, Tables
    from kgqa.models.sentences import SentenceEncoder, TokenStates
    from kgqa.progress import Progress
    from kgqa.reasoning.kg_cot_hops import HopTable
    from kgqa.reasoning.kg_cot_walk import Walked
    from kgqa.training.kg_cot_data import WalkQuestion

_WARM_UP = 0.05  # share of the steps in which the learning rate rises
_CHECKED = 500  # questions that a checkpoint is chosen by, at most
_LEAST = 0.05  # of the learning rate, at the end
_CUTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkerSettings:
    """How a walker is trained.

    ``epochs``: passes over the questions, of which a part may be less than one. ``answer_weight``:
    what an answer weighs in the error beside another entity (100 on WebQSP and 10 on CWQ in the
    public programs). ``hop_weight``: of the hops' cross-entropy (0.01 there). ``path_weight``: of
    the loss of relation paths, 0 to train by answers alone, as published. ``checks``: how often the
    check questions are asked, the end included.
    """

    relations_by: RelationsBy = "ids"
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
    seed: int = 0


@dataclass(frozen=True, slots=True)
class WalkerResult:
    """What a training run gave; figures are of the check questions, in per cent."""

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


class _Run:
    """One run: the model, the questions' states, and the relations as the model counts them."""

    def __init__(
        self,
        table: HopTable,
        questions: Sequence[WalkQuestion],
        encoder: SentenceEncoder,
        settings: WalkerSettings,
        progress: Progress,
    ) -> None:
        self.table = table
        self.questions = questions
        self.settings = settings
        self.states = _encoded(encoder, [one.question for one in questions], progress)
        relations = table.store.relations()
        by_text = settings.relations_by == "text"
        self.texts = [relation_words(name) for name in relations.names] if by_text else []
        self.words = torch.from_numpy(encoder.encode(self.texts)) if by_text else None
        self.steps = steps_by(np.arange(len(relations)))
        shape = WalkerShape(
            hops=table.rules.hops,
            width=encoder.width,
            hidden=settings.hidden,
            relations=0 if by_text else len(relations),
        )
        self.model = GraphWalker(shape, settings.dropout)
        self._pairs: dict[tuple[int, int], int] = {}
        self.seen = torch.zeros(2, 2 * len(relations), dtype=torch.bool)

    def walk(self, rows: IntArray) -> tuple[Walked, Reading]:
        """Walk the questions of ``rows``."""
        reading = self.model.read(*padded(self.states, rows))
        tables = self.model.tables(self.words)

        def made(relations: IntArray) -> tuple[Tables, IntArray]:
            if self.model.training:
                for place in (0, 1):
                    self.seen[place, relations[relations[:, place] >= 0, place]] = True
            return tables, own_steps(relations, self.steps)

        topics = [self.questions[row].topics for row in rows]
        question = np.repeat(np.arange(len(rows)), list(map(len, topics)))
        return walk_rows(self.table, made, reading, np.concatenate(topics), question), reading

    def loss(self, rows: IntArray) -> Tensor:
        """Return the loss of a batch."""
        walked, reading = self.walk(rows)
        settings = self.settings
        wanted = self._wanted(walked, rows)
        error = walk_loss(
            walked.scores,
            torch.from_numpy(wanted),
            torch.from_numpy(walked.question),
            len(rows),
            settings.answer_weight,
        )
        hops = [self.questions[row].hops for row in rows]
        error = error + settings.hop_weight * hop_loss(reading.log_beta, hops)
        if not settings.path_weight:
            return error
        return error + settings.path_weight * self._path_loss(rows, reading)

    def _path_loss(self, rows: IntArray, reading: Reading) -> Tensor:
        """Return the loss of the relations that the questions' relation paths take, by step."""
        known = self.table.relations()
        if len(known) != len(self._pairs):
            self._pairs = {(int(a), int(b)): at for at, (a, b) in enumerate(known)}
        tables = self.model.tables(self.words)
        first, second = torch.from_numpy(known[:, 0]), torch.from_numpy(known[:, 1])
        parts = []
        for depth in range(self.table.rules.hops):
            taken = [
                [self._pairs[path[depth]] for path in self.questions[row].paths
                 if depth < len(path) and path[depth] in self._pairs]
                for row in rows.tolist()
            ]  # fmt: skip
            some = [number for number, pairs in enumerate(taken) if pairs]
            if not some:
                continue
            right = torch.zeros(len(some), len(known), dtype=torch.bool)
            for number, at in enumerate(some):
                right[number, taken[at]] = True
            logits = relation_logits(reading.hidden[some, depth], tables, first, second)
            parts.append(path_loss(logits, right) * len(some) / len(rows))
        return torch.stack(parts).sum() if parts else reading.beta.sum() * 0.0

    def _wanted(self, walked: Walked, rows: IntArray) -> np.ndarray[Any, np.dtype[np.float32]]:
        wanted = np.zeros(len(walked.node), np.float32)
        bounds = np.searchsorted(walked.question, np.arange(len(rows) + 1))
        for number, row in enumerate(rows):
            here = slice(bounds[number], bounds[number + 1])
            wanted[here] = np.isin(walked.node[here], self.questions[row].answers)
        return wanted

    @torch.inference_mode()
    def check(self, rows: IntArray) -> _Checked:
        """Return the figures of the questions of ``rows``."""
        self.model.eval()
        first, tenth = 0, 0
        f1 = np.zeros(len(_CUTS))
        for start in range(0, len(rows), self.settings.batch_size):
            batch = rows[start : start + self.settings.batch_size]
            walked, _ = self.walk(batch)
            wanted = self._wanted(walked, batch)
            bounds = np.searchsorted(walked.question, np.arange(len(batch) + 1))
            for number, row in enumerate(batch):
                here = slice(bounds[number], bounds[number + 1])
                score, right = walked.scores[here].numpy(), wanted[here]
                if not len(score):
                    continue
                order = np.argsort(-score, kind="stable")
                first += bool(right[order[0]])
                tenth += bool(right[order[:10]].any())
                golds = len(self.questions[row].answers)
                for place, cut in enumerate(_CUTS):
                    kept = score >= cut * score[order[0]]
                    f1[place] += 2 * right[kept].sum() / (kept.sum() + golds)
        self.model.train()
        best = int(np.argmax(f1))
        share = 100 / max(len(rows), 1)
        return _Checked(share * first, share * tenth, share * float(f1[best]), _CUTS[best])


@dataclass(frozen=True, slots=True)
class _Checked:
    hits_at_1: float
    hit_at_10: float
    f1: float
    cut: float


def train_walker(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
    out: Path,
    settings: WalkerSettings,
    *,
    described: Mapping[str, Any],
    progress: Progress,
    encoder_name: str | None = None,
) -> WalkerResult:
    """Train on ``questions`` and write the walker that does best on ``checks`` into ``out``.

    The walks are those of ``table``. ``described`` goes into the card. ``encoder_name``: what
    loads the encoder again, where that is not its name. Raises DataError where there
    is nothing to train or check on, GraphError, and ModelError where ``out`` cannot be written.
    """
    began = time.perf_counter()
    if not questions:
        raise DataError(
            "There is no question to train on.",
            "Questions need topic entities and answers that the KG holds, a few hops apart.",
        )
    if not checks:  # too few questions to keep some apart
        checks = questions
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    # of a part of an epoch only the questions that are used are encoded
    number = len(questions)
    if settings.epochs < 1:
        kept = np.sort(random.permutation(number)[: math.ceil(settings.epochs * number)])
        questions = [questions[row] for row in kept.tolist()]
        number = len(questions)
    if len(checks) > _CHECKED:
        checks = [checks[row] for row in np.sort(random.permutation(len(checks))[:_CHECKED])]
    run = _Run(table, [*questions, *checks], encoder, settings, progress)
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
    best: tuple[tuple[float, float], _Checked, dict[str, Tensor], int] | None = None
    losses: list[float] = []
    run.model.train()
    with progress.task("training", steps, "steps") as task:
        for step in range(1, steps + 1):
            loss = run.loss(order[(step - 1) * size : step * size])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            task.advance()
            if step % every and step != steps:
                continue
            checked = run.check(check_rows)
            progress.note(
                f"step {step}/{steps}: loss {np.mean(losses[-every:]):.4f}, check questions: first "
                f"answer right {checked.hits_at_1:.1f} %, one of ten {checked.hit_at_10:.1f} %, "
                f"F1 {checked.f1:.1f} (cut {checked.cut:g}); {time.perf_counter() - began:.0f} s"
            )
            mark = (checked.hits_at_1 + checked.f1, -float(step))
            if best is None or mark > best[0]:
                state = {name: one.detach().clone() for name, one in run.model.state_dict().items()}
                best = (mark, checked, state, step)
    assert best is not None  # the last step is always checked
    _, checked, state, at = best
    run.model.load_state_dict(state)
    run.model.forget(*run.seen)
    result = WalkerResult(
        folder=out,
        questions=number,
        checked=len(checks),
        steps=at,
        loss=float(np.mean(losses[-every:])),
        **dataclasses.asdict(checked),
        seconds=time.perf_counter() - began,
    )
    save_walker(
        out,
        run.model,
        _card(run, encoder_name or encoder.name, settings, result, described),
        run.words,
    )
    return result


def _rate(step: int, steps: int) -> float:
    """Return the part of the learning rate at ``step``: it rises, then falls by a cosine."""
    warm = max(1, round(_WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def _encoded(encoder: SentenceEncoder, texts: Sequence[str], progress: Progress) -> TokenStates:
    """Return the token states of all texts; encoded in parts, so that it can be told how far."""
    parts = []
    with progress.task("encoding questions", len(texts), "questions") as task:
        for start in range(0, len(texts), 1_000):
            some = texts[start : start + 1_000]
            parts.append(encoder.encode_tokens(some))
            task.advance(len(some))
    counts = np.concatenate([np.diff(one.starts) for one in parts])
    return type(parts[0])(
        np.concatenate([one.states for one in parts]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([one.vectors for one in parts]),
    )


def _card(
    run: _Run,
    encoder: str,
    settings: WalkerSettings,
    result: WalkerResult,
    described: Mapping[str, Any],
) -> WalkerCard:
    rules = run.table.rules
    figures = {
        "check questions": result.checked,
        "hits_at_1": round(result.hits_at_1, 1),
        "hit_at_10": round(result.hit_at_10, 1),
        "f1": round(result.f1, 1),
        "step": result.steps,
    }
    return WalkerCard(
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
        relations_by=settings.relations_by,
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
