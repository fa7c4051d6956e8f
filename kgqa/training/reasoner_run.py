"""A reasoner in training: its model, the questions' token states, the losses and the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.methods.kg_cot.scores import padded, relation_words
from kgqa.methods.kg_cot.walk import walk_rows
from kgqa.models.graph_reasoner import (
    GraphReasoner,
    hop_loss,
    path_loss,
    relation_logits,
    walk_loss,
)
from kgqa.training.loop import Checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from kgqa.graph.model import IntArray
    from kgqa.methods.kg_cot.hops import HopTable
    from kgqa.methods.kg_cot.walk import Walked
    from kgqa.models.graph_reasoner import Reading, Tables
    from kgqa.models.sentence_encoder import SentenceEncoder, TokenStates
    from kgqa.progress import Progress
    from kgqa.training.options import ReasonerSettings
    from kgqa.training.reasoner_questions import WalkQuestion

_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class ReasonerRun:
    """The model, the questions' states, and the relations as the model counts them."""

    def __init__(
        self,
        table: HopTable,
        questions: Sequence[WalkQuestion],
        encoder: SentenceEncoder,
        settings: ReasonerSettings,
        progress: Progress,
    ) -> None:
        self.table = table
        self.questions = questions
        self.settings = settings
        self.states = _encoded(encoder, [one.question for one in questions], progress)
        texts = [relation_words(name) for name in table.store.relations().names]
        self.words = torch.from_numpy(encoder.encode(texts))
        rules = table.rules
        self.model = GraphReasoner(rules.hops, encoder.width, settings.hidden, settings.dropout)
        self._pairs: dict[tuple[int, int], int] = {}
        self.seen = torch.zeros(2, 2, dtype=torch.bool)  # places of a relation, and directions

    def beside(self) -> dict[str, Any]:
        """Return what a checkpoint has beside the weights: what was met, relations in order."""
        return {"seen": self.seen, "relations": torch.from_numpy(self.table.relations())}

    def take(self, beside: Mapping[str, Any]) -> None:
        """Take what a checkpoint has beside the weights."""
        self.seen.copy_(beside["seen"])
        self.table.number(beside["relations"].numpy())

    def _walk(self, rows: IntArray) -> tuple[Walked, Reading]:
        reading = self.model.read(*padded(self.states, rows))
        tables = self.model.tables(self.words)

        def made(relations: IntArray) -> Tables:
            if self.model.training:
                for place in (0, 1):
                    steps = relations[relations[:, place] >= 0, place]
                    self.seen[place, np.unique(steps % 2)] = True
            return tables

        topics = [self.questions[row].topics for row in rows]
        question = np.repeat(np.arange(len(rows)), list(map(len, topics)))
        return walk_rows(self.table, made, reading, np.concatenate(topics), question), reading

    def loss(self, rows: IntArray) -> Tensor:
        """Return the loss of a batch."""
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
    def check(self, rows: IntArray) -> Checked:
        """Return figures of the questions of ``rows`` in percent.

        ``answer_threshold`` is that of the best F1.
        """
        self.model.eval()
        first, tenth = 0, 0
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
        hits, ten, fit = (100 * float(one) / max(len(rows), 1) for one in (first, tenth, f1[best]))
        figures = {"hits_at_1": hits, "hit_at_10": ten, "f1": fit}
        return Checked(hits + fit, {**figures, "answer_threshold": _THRESHOLDS[best]})


def _encoded(encoder: SentenceEncoder, texts: Sequence[str], progress: Progress) -> TokenStates:
    """Return the token states of all texts; in parts, so that progress shows."""
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
