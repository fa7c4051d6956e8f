"""Training a graph reasoner to walk from topic entities to answers.

After KG-CoT (IJCAI 2024, sec. 3.1): the squared error between the scores of the entities around a
question and its answers, and the cross-entropy of the hop weights if the hops are known. Beside it,
which is this project's, relation paths that lead to just the answers teach the relation scores
directly. The best weights are chosen by the first answers to check questions.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from kgqa.errors import DataError
from kgqa.graph.model import Kind
from kgqa.graph.names import normalise
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.methods.kg_cot.scores import padded, relation_words
from kgqa.methods.kg_cot.walk import FLOOR, Walked, walk_rows
from kgqa.models.graph_reasoner_card import ReasonerCard
from kgqa.models.graph_reasoner_torch import (
    TorchMath,
    TrainableReasoner,
    hop_loss,
    path_loss,
    relation_logits,
    save_reasoner,
    walk_loss,
)
from kgqa.models.sentences import load_sentence_encoder
from kgqa.paths.walk import TAIL, WalkRules
from kgqa.questions.base import is_held_out
from kgqa.training.adapters import about
from kgqa.training.data import (
    GOLD,
    DataReport,
    Meant,
    TrainingQuestion,
    meant_by,
    near_best,
    read_file,
)
from kgqa.training.loop import Checked, Checkpoint, Fit, Schedule, alone, digest_of
from kgqa.training.reports import ReasonerReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import Tensor

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.models.graph_reasoner import EncodedQuestions, Tables
    from kgqa.models.sentence_encoder import SentenceEncoder, TokenStates
    from kgqa.progress import Progress
    from kgqa.training.options import ReasonerSettings, ReasonerTraining

_NEAR = 0.95  # of the best mark: relation paths that are as good
_LEAST = 0.7  # F1 of the tails against the answers: a relation path with less is not meant

Steps: TypeAlias = "tuple[tuple[int, int], ...]"


@dataclass(frozen=True, slots=True)
class WalkQuestion:
    """A question as keys: where walks start and should end.

    ``hops``: the number of hops, 0 if unknown. ``paths``: its relation paths, two steps a hop (2 *
    relation, + 1 reversed): gold ones if the data set has them, else those whose tails fit the
    answers.
    """

    id: str
    question: str
    topics: IntArray
    answers: IntArray
    hops: int = 0
    paths: tuple[Steps, ...] = ()


def is_check(question_id: str) -> bool:
    """Return whether a training question is one of the tenth that choose the checkpoint.

    The hash differs from that of the held-out fifth, so that the choices are independent.
    """
    digest = hashlib.sha256(b"check:" + question_id.encode()).digest()
    return int.from_bytes(digest[:4], "big") < 0.1 * 2**32


def walk_questions(
    table: HopTable,
    questions: Iterable[tuple[TrainingQuestion, int]],
    total: int,
    progress: Progress,
) -> tuple[list[WalkQuestion], DataReport]:
    """Return the trainable questions with their hops (0: unknown), and a report.

    Each of ``questions`` comes with its hops; one whose topic entities or answers are not in the
    KG, or are not connected, is left out. A known gold relation path counts as connection. A
    question without answers has the tails of most of its gold relation paths. Raises GraphError.
    """
    store, rules = table.store, table.rules
    report = DataReport()
    usable = []
    relations = store.relations().ids
    mediated = rules.mediators == "collapse" and store.info.mediators > 0
    number = {} if mediated else {name: at for at, name in enumerate(relations)}
    with progress.task("finding answers", total, "questions") as task:
        for question, hops in questions:
            report.questions += 1
            task.advance()
            paths = _steps_of_gold(question, rules, number)
            if paths and question.answers:  # what is spelt need not be walked
                question = replace(question, relation_paths=())
            meant = meant_by(store, question, rules)
            topics, answers = np.unique(meant.topics), np.unique(meant.answers)
            if not len(topics) or not len(answers):
                report.unknown.append(question.id)
                continue
            if not paths and not np.isin(answers, _around(table, topics)).any():
                report.unreachable.append(question.id)
                continue
            paths = paths or _fitting(meant)
            lengths = {len(path) for path in paths}
            hops = hops or (lengths.pop() if len(lengths) == 1 else 0)
            asked = question.question
            usable.append(WalkQuestion(question.id, asked, topics, answers, hops, paths))
    report.used = len(usable)
    return usable, report


def _around(table: HopTable, topics: IntArray) -> IntArray:
    """Return the keys of entities that walks from ``topics`` can end in."""
    reached = frontier = np.unique(topics)
    ends = [np.empty(0, np.int64)]
    for _ in range(table.rules.hops):
        out = table.out_of(frontier)
        tails, first = np.unique(out.hop[:, TAIL], return_index=True)
        ends.append(tails)
        onward = tails[out.kind[first] != Kind.VALUE]
        frontier = np.setdiff1d(onward, reached, assume_unique=True)
        reached = np.union1d(reached, frontier)
        if not len(frontier):
            break
    return np.unique(np.concatenate(ends))


def _steps_of_gold(
    question: TrainingQuestion, rules: WalkRules, number: Mapping[str, int]
) -> tuple[Steps, ...]:
    """Return the gold relation paths as steps (2 * relation, + 1 reversed) of single edges.

    ``number``: of relations by id. Paths that are too long or have another relation are left out;
    () if they state no directions.
    """
    spelt = []
    for path in () if question.loose else question.relation_paths:
        names = [step.removeprefix("^") for step in path]
        if path and len(path) <= rules.hops and all(name in number for name in names):
            keys = (
                2 * number[name] + (name != step) for name, step in zip(names, path, strict=True)
            )
            spelt.append(tuple((key, -1) for key in keys))
    return tuple(dict.fromkeys(spelt))


def _fitting(meant: Meant) -> tuple[Steps, ...]:
    """Return the gold paths that lead to an answer, else those whose tails fit best, as steps."""
    candidates = meant.relation_paths()
    gold = [path for path, mark in candidates if mark >= GOLD or meant.by_paths]
    fitting = near_best([pair for pair in candidates if pair[0].f1 >= _LEAST], near=_NEAR)
    return tuple(dict.fromkeys(path.steps for path in gold or fitting))


_WARM_UP = 0.05  # part of the steps in which the learning rate rises
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
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
) -> ReasonerReport:
    """Train on ``questions``, and write the reasoner that is best on ``checks`` into ``out``.

    ``described`` goes into the card. ``encoder_name``: loads the encoder again, if that is not its
    name. A stopped run resumes from its last checkpoint in ``out``, unless the settings forbid it,
    and ends in the same weights as an uninterrupted one.

    Raises DataError if there is nothing to train on, or if the checkpoint is of another run or
    damaged; UsageError if two runs use the same folder; GraphError; and ModelError if ``out``
    cannot be written.
    """
    if not questions:
        raise DataError(
            "None of the questions can be trained on.",
            "Questions need topic entities and answers that the KG holds, a few hops apart.",
        )
    checks = checks or questions  # too few questions to keep some apart
    with alone(out):
        record = _record(table, questions, checks, encoder)
        checkpoint = Checkpoint(out, record, settings, progress)
        began = time.perf_counter()
        run = ReasonerRun(table, questions, checks, encoder, settings, progress)
        fit = run.fit
        checkpoint.take_up(fit, run.take)
        fit.run(run.batches, lambda: checkpoint.after_step(fit, run.beside()))
        run.model.forget(run.seen)
        best = fit.best
        assert best is not None  # the last step is always checked
        result = ReasonerReport(
            folder=out,
            questions=len(run.questions) - len(run.check_rows),
            checked=len(run.check_rows),
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


class ReasonerRun:
    """A training run: the model, the questions' encoder states, and its relation vectors."""

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
        self.table = table
        self.questions = [*questions, *checks]
        self.check_rows = np.arange(number, number + len(checks))
        self.settings = settings
        self.states = _encoded(encoder, [asked.question for asked in self.questions], progress)
        texts = [relation_words(name) for name in table.store.relations().names]
        self.words = torch.from_numpy(encoder.encode(texts))
        rules = table.rules
        self.model = TrainableReasoner(rules.hops, encoder.width, settings.hidden, settings.dropout)
        self._pairs: dict[tuple[int, int], int] = {}
        self.seen = torch.zeros(2, 2, dtype=torch.bool)  # places of a relation, and directions
        epochs = range(math.ceil(settings.epochs))
        order = np.concatenate([random.permutation(number) for _ in epochs])
        order = order[: math.ceil(number * max(settings.epochs, 1.0))]
        size = settings.batch_size
        self.batches = [order[start : start + size] for start in range(0, len(order), size)]
        steps = len(self.batches)
        self.fit = Fit(
            self.model.train(),
            torch.optim.AdamW(self.model.parameters(), settings.learning_rate, weight_decay=0.01),
            Schedule(steps, round(_WARM_UP * steps), falls="cosine"),
            self.loss,
            progress,
            check=self.check,
            check_every=max(1, steps // settings.checks),
        )

    def beside(self) -> dict[str, Any]:
        """Return the further state of a checkpoint: directions seen, and relations in order."""
        return {"seen": self.seen, "relations": torch.from_numpy(self.table.relations())}

    def take(self, beside: Mapping[str, Any]) -> None:
        """Restore the further state of a checkpoint."""
        self.seen.copy_(beside["seen"])
        self.table.number(beside["relations"].numpy())

    def _walk(self, rows: IntArray) -> tuple[Walked, EncodedQuestions]:
        """Walk for a batch of questions; return where it leads, and the reasoner's encoding.

        ``rows``: numbers of the questions.
        """
        reading = self.model.read(*map(torch.from_numpy, padded(self.states, rows)))
        tables = self.model.tables(self.words)

        def made(relations: IntArray) -> Tables:
            """Return vectors of all steps (2 * relation, + 1 reversed).

            In training, record which places and directions ``relations`` have.
            """
            if self.model.training:
                for place in (0, 1):
                    steps = relations[relations[:, place] >= 0, place]
                    self.seen[place, np.unique(steps % 2)] = True
            return tables

        topics = [self.questions[row].topics for row in rows]
        question = np.repeat(np.arange(len(rows)), list(map(len, topics)))
        start = np.concatenate(topics)
        walked = walk_rows(self.table, made, reading, start, question, math=TorchMath())
        return walked, reading

    def loss(self, rows: IntArray) -> Tensor:
        """Return the loss of a batch; ``rows``: numbers of its questions."""
        walked, reading = self._walk(rows)
        settings = self.settings
        wanted = torch.from_numpy(self._wanted(walked, rows))
        question = torch.from_numpy(walked.question)
        error = walk_loss(walked.scores, wanted, question, len(rows), settings.answer_weight)
        hops = [self.questions[row].hops for row in rows]
        error = error + settings.hop_weight * hop_loss(reading.log_beta, hops)
        if not settings.path_weight:
            return error
        return error + settings.path_weight * self._path_loss(rows, reading)

    def _path_loss(self, rows: IntArray, reading: EncodedQuestions) -> Tensor:
        """Return the loss of relation scores against the questions' relation paths, over hops.

        0 if none of the questions has a known one.
        """
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
        """Return 1 for each pair of question and entity in ``walked`` that is an answer, else 0."""
        wanted = np.zeros(len(walked.node), np.float32)
        bounds = np.searchsorted(walked.question, np.arange(len(rows) + 1))
        for number, row in enumerate(rows):
            here = slice(bounds[number], bounds[number + 1])
            wanted[here] = np.isin(walked.node[here], self.questions[row].answers)
        return wanted

    @torch.inference_mode()
    def check(self) -> Checked:
        """Return the figures on the check questions, in percent, and the mark to compare checks by.

        ``answer_threshold``: the one with the best F1, which is not in percent.
        """
        self.model.eval()
        rows, first, tenth = self.check_rows, 0, 0
        f1 = np.zeros(len(_THRESHOLDS))
        for start in range(0, len(rows), self.settings.batch_size):
            batch = rows[start : start + self.settings.batch_size]
            walked, _ = self._walk(batch)
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
                for place, threshold in enumerate(_THRESHOLDS):
                    kept = score >= threshold * score[order[0]]
                    f1[place] += 2 * right[kept].sum() / (kept.sum() + golds)
        self.model.train()
        best = int(np.argmax(f1))
        hits, ten, fit = (
            100 * float(sum_) / max(len(rows), 1) for sum_ in (first, tenth, f1[best])
        )
        figures = {"hits_at_1": hits, "hit_at_10": ten, "f1": fit}
        return Checked(hits + fit, {**figures, "answer_threshold": _THRESHOLDS[best]})


def _encoded(encoder: SentenceEncoder, texts: Sequence[str], progress: Progress) -> TokenStates:
    """Return the token states of all texts, encoded in parts that show progress."""
    parts = []
    with progress.task("encoding questions", len(texts), "questions") as task:
        for start in range(0, len(texts), 1_000):
            some = texts[start : start + 1_000]
            parts.append(encoder.encode_tokens(some))
            task.advance(len(some))
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    return type(parts[0])(
        np.concatenate([part.states for part in parts]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([part.vectors for part in parts]),
    )


def _record(
    table: HopTable,
    questions: Sequence[WalkQuestion],
    checks: Sequence[WalkQuestion],
    encoder: SentenceEncoder,
) -> dict[str, Any]:
    """Return what identifies a run besides its settings: the KG, questions and encoder."""
    asked = [
        row
        and (row.id, row.question, row.topics.tolist(), row.answers.tolist(), row.hops, row.paths)
        for row in (*questions, None, *checks)
    ]
    rules = table.rules
    return {
        "KG": table.store.info.version,
        "hops": rules.hops,
        "direction": rules.direction,
        "mediators": rules.mediators,
        "encoder": f"{encoder.name}, {encoder.width} numbers",
        "examples": digest_of(asked),
    }


def _card(
    run: ReasonerRun, encoder: str, settings: ReasonerSettings, result: ReasonerReport
) -> ReasonerCard:
    """Return the card of the trained reasoner."""
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
            "settings": {**settings.fixed(), "floor": FLOOR},
            "figures": figures,
        },
    )


def train_reasoner(
    store: GraphStore,
    options: ReasonerTraining,
    out: Path,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> ReasonerReport:
    """Train a reasoner into the folder ``out``; a stopped run resumes from its checkpoint.

    ``device`` and ``cache`` are those of the sentence encoder
    (:func:`kgqa.models.sentences.load_sentence_encoder`). A tenth of the questions chooses the
    checkpoint. Raises DataError, GraphError, ModelError, UsageError.
    """
    rules = WalkRules(
        options.hops, options.direction or store.info.direction, options.mediators or "collapse"
    )
    encoder = load_sentence_encoder(options.encoder, device=device, cache=cache, progress=progress)
    table = HopTable(store, rules)
    usable: list[WalkQuestion] = []
    held: set[str] = set()  # what held-out questions ask, whatever their ids
    used = []
    for form, path in options.files:
        file = read_file(path, form, options.topics if form == "jsonl" else None, progress)
        mine = []
        for question in file.questions:
            if options.held_out and is_held_out(question.id):
                held.add(normalise(question.question))
            else:
                mine.append(question)
        resolved = ((file.in_graph(store, question), question.hops or 0) for question in mine)
        some, report = walk_questions(table, resolved, len(mine), progress)
        progress.note(
            f"{path.name}: {report.used:,} of {report.questions:,} questions are used; "
            f"{len(report.unreachable):,} have no path to an answer, {len(report.unknown):,} name "
            "entities that are not in the KG."
        )
        used.append(f"{report.used} of {report.questions} in {path.name}")
        usable += some
    asked = [question for question in usable if normalise(question.question) not in held]
    if len(asked) < len(usable):
        progress.note(
            "Left out, since they ask what a held-out question asks: "
            f"{len(usable) - len(asked):,} of {len(usable):,} questions."
        )
    data = {
        "questions": "; ".join(used),
        "held out": "a fixed fifth by the hash of the id" if options.held_out else "none",
        "KG": about(store.info),
    }
    apart = {question.id for question in asked if is_check(question.id)}
    folder = Path(options.encoder).resolve() if options.encoder else None
    return fit_reasoner(
        table,
        [question for question in asked if question.id not in apart],
        [question for question in asked if question.id in apart],
        encoder,
        out,
        options.settings,
        described=data,
        progress=progress,
        # a folder is found again wherever the reasoner is used from
        encoder_name=str(folder) if folder is not None and folder.is_dir() else None,
    )
