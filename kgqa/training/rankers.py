"""Learning from people's questions: fits a head of the path ranker to one KG.

Each quarter of the questions is asked of what the others taught: only if the fitted ranker is
better there is it kept. Questions that are made from the KG alone are not learnt from: on graphs
that nothing was chosen on they made answers worse.

The head is a low-rank change of the vectors that the encoder makes of texts (after LoRA, arXiv
2106.09685). Texts are read once; a step is then a product of small matrices, so that all relation
paths out of a topic take part. The loss of a question is the negative log-likelihood of its
relation paths under a softmax over all that leave the topic entity, and "none of them".
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import normalize

from kgqa.display import said_name
from kgqa.errors import DataError
from kgqa.linking.resolve import resolve_entity
from kgqa.methods.rank_words import RankWords
from kgqa.models.path_ranker import (
    HEAD,
    OWN_RANKER,
    UNIVERSAL,
    PathRanker,
    load_path_ranker,
    ranker_changes,
    relations_elsewhere,
    save_path_ranker,
    suited_ranker,
)
from kgqa.paths.phrases import PHRASES_FILE, phrases_of, read_phrases, write_phrases
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import WalkRules, relation_paths_to
from kgqa.training.data import CAP, Meant, TrainingQuestion, meant_by, read_file
from kgqa.training.loop import Fit, Schedule
from kgqa.training.reports import LearnReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.graph.store import GraphStore
    from kgqa.paths.schema import Hop
    from kgqa.progress import Progress
    from kgqa.questions.base import Question
    from kgqa.training.options import LearnOptions

    Head = tuple[NDArray[np.float32], NDArray[np.float32]]

_TOGETHER = 64  # questions of a step
_WARM_UP = 10  # steps in which the learning rate rises


@dataclass(frozen=True, slots=True)
class RankingBatch:
    """Questions with the relation paths that they choose among.

    ``paths``: in words, with their ``hops`` and how many paths each ``stands_for``; ``questions``:
    without topic names. For each question: ``candidates``, indices into ``paths``, and ``gold``,
    the right ones among them; none if the graph has no answer.
    """

    paths: list[str]
    hops: list[int]
    stands_for: list[float]
    questions: list[str]
    candidates: list[list[int]]
    gold: list[list[int]]


class _Questions:
    """A batch as tensors: vectors of questions and relation paths, and which ones are right."""

    def __init__(self, ranker: PathRanker, batch: RankingBatch) -> None:
        paths = len(batch.paths)
        self.questions = torch.from_numpy(ranker.vectors(batch.questions))
        self.paths = torch.from_numpy(ranker.vectors(batch.paths))
        self.bias = torch.from_numpy(ranker.scaled(np.zeros(paths, np.float32), batch.hops))
        self.scale = ranker.card.scale / ranker.card.temperature
        self.none = ranker.none
        self.among = torch.zeros(len(batch.questions), paths + 1, dtype=torch.bool)
        self.right = torch.zeros_like(self.among)  # the last one is "none of them"
        for row, (candidates, gold) in enumerate(zip(batch.candidates, batch.gold, strict=True)):
            self.among[row, [*candidates, paths]] = True
            self.right[row, gold or [paths]] = True

    def loss(self, down: Tensor, up: Tensor, draw: torch.Generator) -> Tensor:
        """Return the mean loss of a random sample of questions under the head ``down``, ``up``."""
        rows = torch.randint(len(self.questions), (_TOGETHER,), generator=draw)
        used = self.among[rows, :-1].any(0).nonzero().squeeze(1)  # a small part of many
        questions, paths = (
            normalize(vectors + vectors @ down.T @ up.T, dim=-1)
            for vectors in (self.questions[rows], self.paths[used])
        )
        logits = self.scale * (questions @ paths.T) + self.bias[used]
        logits = torch.cat([logits, torch.full((len(rows), 1), self.none)], 1)
        last = self.among.shape[1] - 1
        columns = torch.cat([used, torch.tensor([last])])
        whole, right = (
            logits.masked_fill(~which[rows][:, columns], -torch.inf).logsumexp(1)
            for which in (self.among, self.right)
        )
        return (whole - right).mean()


def fit_head(
    ranker: PathRanker,
    batch: RankingBatch,
    *,
    steps: int,
    rate: float,
    seed: int,
    rank: int = 32,
    progress: Progress,
) -> Head:
    """Fit a head of ``ranker`` to ``batch``, joined after a head that it has, and return it."""
    draw = torch.Generator().manual_seed(seed)
    questions, width = _Questions(ranker, batch), ranker.encoder.width
    down = torch.nn.Parameter(torch.randn(rank, width, generator=draw) / width**0.5)
    up = torch.nn.Parameter(torch.zeros(width, rank))  # a head begins by changing nothing
    fit = Fit[None](
        torch.nn.ParameterList([down, up]),
        torch.optim.AdamW([down, up], lr=rate, weight_decay=0.0),
        Schedule(steps, _WARM_UP, least=0.0),
        lambda _: questions.loss(down, up, draw),
        progress,
        clip=torch.inf,  # two small factors: no step was ever too long
    )
    fit.run(repeat(None))
    return joined(ranker.head, (down.numpy(force=True), up.numpy(force=True)))


def joined(first: Head | None, second: Head) -> Head:
    """Return one head that changes vectors, up to length, like ``first`` followed by ``second``."""
    if first is None:
        return second
    down, up = second
    after = down + down @ first[1] @ first[0]
    return np.concatenate([first[0], after]), np.concatenate([first[1], up], axis=1)


def rights(ranker: PathRanker, batch: RankingBatch) -> NDArray[np.bool_]:
    """Return for each question with an answer whether its most probable candidate is right.

    Questions without one are left out.
    """
    logits = ranker.logits(batch.questions, batch.paths, batch.hops)
    return np.array(
        [
            candidates[int(np.argmax(row[candidates]))] in gold
            for row, candidates, gold in zip(logits, batch.candidates, batch.gold, strict=True)
            if gold
        ],
        bool,
    )


def log_likelihoods(ranker: PathRanker, batch: RankingBatch) -> NDArray[np.float64]:
    """Return each question's log-probability of the right candidates, or of "none"."""
    logits = ranker.logits(batch.questions, batch.paths, batch.hops).astype(np.float64)
    logs = []
    for row, candidates, gold in zip(logits, batch.candidates, batch.gold, strict=True):
        whole = np.logaddexp.reduce([*row[candidates], ranker.none])
        logs.append((np.logaddexp.reduce(row[gold]) if gold else ranker.none) - whole)
    return np.array(logs)


_NEARLY = 0.9  # part of the best F1 from which a relation path is right, too
_RIGHT = 0.5  # F1 that the best one has at least; for several topics it may have less
_CANDIDATES = 32  # relation paths that a question chooses among, beside its topic's others


@dataclass(frozen=True, slots=True)
class KgQuestion:
    """A question about a topic entity, with its candidate relation paths and the right ones.

    ``asked``: without the topic's name; ``topic``: its key; ``paths``: words and number of hops of
    each, nearest first; ``gold``: the right ones among them, none if the graph has no answer.
    """

    asked: str
    topic: int
    paths: Mapping[str, int]
    gold: frozenset[str]


def kg_question(
    words: RankWords,
    ranker: PathRanker,
    asked: str,
    topic: int,
    steps: Sequence[Sequence[Hop]],
    gold: Collection[Sequence[Hop]],
) -> KgQuestion:
    """Make a KgQuestion from relation paths ``steps``, of which ``gold`` are right.

    Of the others only the nearest are kept.
    """
    order = words.nearest(ranker, asked, steps)
    kept = [steps[at] for place, at in enumerate(order) if place < _CANDIDATES or steps[at] in gold]
    paths = {words.path(path): len(path) for path in kept}
    return KgQuestion(
        asked, topic, paths, frozenset(words.path(path) for path in kept if path in gold)
    )


def batch_of(questions: Sequence[KgQuestion]) -> RankingBatch:
    """Join questions to a batch.

    Questions about one topic share their relation paths as candidates.
    """
    place: dict[str, int] = {}
    hops: list[int] = []
    among: dict[int, dict[int, None]] = {}
    for question in questions:
        for path, count in question.paths.items():
            if path not in place:
                place[path] = len(hops)
                hops.append(count)
            among.setdefault(question.topic, {})[place[path]] = None
    return RankingBatch(
        paths=list(place),
        hops=hops,
        stands_for=[1.0] * len(place),
        questions=[question.asked for question in questions],
        candidates=[list(among.get(question.topic, ())) for question in questions],
        gold=[[place[path] for path in sorted(question.gold)] for question in questions],
    )


def kg_questions(
    words: RankWords, questions: Sequence[TrainingQuestion], ranker: PathRanker
) -> tuple[list[KgQuestion], list[str]]:
    """Return the questions linked to the KG, one for each topic entity, and unusable ones.

    The latter as texts: no topic has relation paths, among them a right one if there is an answer.
    Raises GraphError.
    """
    store, rules = words.store, words.rules
    made: list[KgQuestion] = []
    unusable: list[str] = []
    for question in questions:
        meant, before = meant_by(store, question, rules), len(made)
        names = words.names([resolve_entity(store, topic) for topic in question.topics])
        for topic in meant.topics.tolist():
            paths, _ = relation_paths(store, topic, rules)
            gold = _gold(meant, topic)
            answerable = bool(question.answers or question.relation_paths)
            if not paths.steps or (answerable and not gold.intersection(paths.steps)):
                continue
            asked = words.question(question.question, topic, names)
            made.append(kg_question(words, ranker, asked, topic, paths.steps, gold))
        if len(made) == before:
            unusable.append(question.question)
    return made, unusable


def _gold(meant: Meant, topic: int) -> set[tuple[tuple[int, int], ...]]:
    """Return the relation paths from ``topic`` whose tails are nearly exactly the answers.

    Empty if there are none; of several topic entities each may lead to more.
    """
    if not len(meant.answers):
        return set()
    paths = relation_paths_to(meant.store, np.array([topic]), meant.answers, meant.rules, CAP)
    if not paths or (paths[0].f1 < _RIGHT and len(meant.topics) == 1):
        return set()
    return {path.steps for path in paths if path.f1 >= _NEARLY * paths[0].f1}


_NAMED = 5  # questions of a note
_LEAST = 8  # questions of people that something is learnt from
_PARTS = 4  # of people's questions
_STEPS = 60
_PER_STEP = 16  # of many questions of people: each takes part in about four steps


def learn(
    store: GraphStore,
    folder: Path,
    options: LearnOptions,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
    universal: str = UNIVERSAL,
) -> LearnReport:
    """Fit a ranker to people's questions, and keep it if it beats the one it starts from.

    It starts from the ranker of ``options``, else the bundled one that suits the KG, or
    ``universal``. ``folder``: the KG's, where the ranker and the phrases of ``options`` are kept. A
    stopped run changes only the phrases. Raises DataError if there are too few questions.
    """
    began = time.perf_counter()
    out = folder / OWN_RANKER
    if options.phrases is not None:
        _take_phrases(store, folder, options.phrases, progress)
    if options.questions is None:
        return LearnReport(seconds=time.perf_counter() - began)
    start_from = options.start_from or suited_ranker(store.relations().known, universal=universal)
    start = load_path_ranker(
        start_from, device=device, cache=cache, progress=progress, encoder=options.encoder
    )
    words = RankWords(store, WalkRules(start.card.hops, store.info.direction), folder)
    asked, unusable = _asked(words, options.questions, options.format, start, progress)
    # Each quarter is asked of what the other three taught: too few to set some aside for good.
    parts = [asked[number::_PARTS] for number in range(_PARTS)]
    checks = [batch_of(part) for part in parts]
    others = [
        [question for other in parts if other is not part for question in other] for part in parts
    ]
    rankers = [_fitted(start, some, options, progress) for some in others]
    pairs = [([start] * _PARTS, checks), (rankers, checks)]
    before, after = (
        np.concatenate([log_likelihoods(*pair) for pair in zip(*each, strict=True)])
        for each in pairs
    )
    was, now = (
        np.concatenate([rights(*pair) for pair in zip(*each, strict=True)]) for each in pairs
    )
    # One more of them that is right may be chance.
    better = now.sum() > was.sum() + 1 and after.mean() > before.mean()
    first_before, first_after = (float(hits.mean()) if len(hits) else 0.0 for hits in (was, now))
    # the quarters only decide; what is kept learns from all questions
    if better:
        own = _fitted(start, asked, options, progress)
        assert own.head is not None
        described = {
            "kg": store.info.name,
            "asked": len(asked),
            "changed": store.info.changed,
            "relations": store.info.next_relation,
            "held_out": {"questions": len(asked), "before": first_before, "after": first_after},
        }
        changes = {**ranker_changes(start_from), HEAD: own.head}
        card = replace(start.card, extends="", described=described)
        save_path_ranker(out, card, changes, relations_elsewhere(start_from))
    return LearnReport(
        folder=out if better else None,
        questions=len(asked),
        unusable=unusable,
        held_out=len(asked),
        before=float(before.mean()),
        after=float(after.mean()),
        first_before=100 * first_before,
        first_after=100 * first_after,
        seconds=time.perf_counter() - began,
    )


def _asked(
    words: RankWords, file: Path, form: str, start: PathRanker, progress: Progress
) -> tuple[list[KgQuestion], int]:
    """Return the questions of a file that the KG can answer, and the number of others.

    Each question counts once; notes name those left out. Raises DataError if too few are left.
    """
    read = read_file(file, form, None, progress)
    kept, changed = _each_once(read.questions)
    questions = [read.in_graph(words.store, question) for question in kept]
    asked, unusable = kg_questions(words, questions, start)
    for some, what in (
        (changed, "were answered otherwise before; of each the last answers count"),
        (unusable, f"are left out: no path of {words.store.info.name} leads to the answers"),
    ):
        if some:
            named = ", ".join(map(said_name, some[:_NAMED])) + ", …" * (len(some) > _NAMED)
            progress.note(f"{len(some):,} of the questions {what}: {named}.")
    if len(asked) < _LEAST:
        raise DataError(
            f"{file} has {len(asked)} questions that {words.store.info.name} can answer; "
            f"{_LEAST} are needed to learn from.",
            "Each line names its answers, and topic entities that a path leads from to them.",
        )
    return asked, len(unusable)


def _each_once(questions: Iterable[Question]) -> tuple[list[Question], list[str]]:
    """Return the last entry of each question, and the texts whose answers it changed.

    Thus a question that was entered or judged several times counts once.
    """
    kept: dict[tuple[str, ...], Question] = {}
    changed: dict[str, None] = {}
    for question in questions:
        key = question.question, *sorted(question.topic_entities)
        if (before := kept.pop(key, None)) and {*before.answers} != {*question.answers}:
            changed[question.question] = None
        kept[key] = question
    return list(kept.values()), list(changed)


def _fitted(
    ranker: PathRanker, asked: Sequence[KgQuestion], options: LearnOptions, progress: Progress
) -> PathRanker:
    """Return ``ranker`` with a head fitted to the questions ``asked``; it is not changed."""
    head = fit_head(
        ranker,
        batch_of(asked),
        steps=max(_STEPS, len(asked) // _PER_STEP),
        rate=options.learning_rate,
        seed=options.seed,
        progress=progress,
    )
    return replace(ranker, head=head)


def _take_phrases(store: GraphStore, folder: Path, file: Path, progress: Progress) -> None:
    """Write the phrases in ``file``, with all others, to the KG's folder.

    If the file is missing, it is written as a template instead, with a note. Raises DataError.
    """
    if not file.exists():
        write_phrases(file, store, phrases_of(store, folder))
        progress.note(f"{file} has a phrase for each relation: edit them, and learn again with it.")
        return
    given = read_phrases(file)
    if unknown := sorted(set(given) - set(store.relations().ids)):
        raise DataError(
            f"{file} has phrases of '{unknown[0]}', which is not a relation of {store.info.name}.",
            "Name relations by their ids, as a file has them that `phrases` writes.",
        )
    phrases = phrases_of(store, folder)
    ids = store.relations().ids
    kept = [given.get(id_, phrase) for id_, phrase in zip(ids, phrases, strict=True)]
    write_phrases(folder / PHRASES_FILE, store, kept)
