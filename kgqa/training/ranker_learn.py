"""Learning a KG: the path ranker that suits it, with a head that is fitted to people's questions.

Each quarter of the questions is asked of what the others taught: only if the fitted ranker is
better there is it kept. Questions that are made from the KG alone are not learnt from: on graphs
that nothing was chosen on they made answers worse.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import DataError
from kgqa.methods.rank_words import RankWords
from kgqa.models.path_ranker import (
    HEAD,
    OWN_RANKER,
    load_path_ranker,
    ranker_changes,
    relations_elsewhere,
    save_path_ranker,
    suited_ranker,
)
from kgqa.paths.phrases import PHRASES_FILE, phrases_of, read_phrases, write_phrases
from kgqa.paths.walk import WalkRules
from kgqa.training.questions import read_file
from kgqa.training.ranker_fit import fit_head, log_likelihoods, rights
from kgqa.training.ranker_questions import batch_of, kg_questions
from kgqa.training.reports import LearnReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import PathRanker
    from kgqa.progress import Progress
    from kgqa.training.options import LearnOptions
    from kgqa.training.ranker_questions import KgQuestion

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
) -> LearnReport:
    """Fit a ranker to people's questions, and keep it if it is better than the one it starts from.

    That is the one of ``options``, or else the bundled one that suits the KG. ``folder`` is the
    KG's, where the ranker and the phrases of ``options`` are kept. A run that is stopped changes
    nothing but the phrases. Raises DataError if there are too few questions.
    """
    began = time.perf_counter()
    out = folder / OWN_RANKER
    if options.phrases is not None:
        _take_phrases(store, folder, options.phrases, progress)
    if options.questions is None:
        return LearnReport(seconds=time.perf_counter() - began)
    start_from = options.start_from or suited_ranker(store.relations().known)
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
    """Return the questions of a file that the KG can answer, and how many it cannot.

    Raises DataError.
    """
    read = read_file(file, form, None, progress)
    questions = [read.in_graph(words.store, question) for question in read.questions]
    asked, unusable = kg_questions(words, questions, start)
    if len(asked) < _LEAST:
        raise DataError(
            f"{file} has {len(asked)} questions that {words.store.info.name} can answer; "
            f"{_LEAST} are needed to learn from.",
            "Each line names its answers, and topic entities that a path leads from to them.",
        )
    return asked, unusable


def _fitted(
    ranker: PathRanker, asked: Sequence[KgQuestion], options: LearnOptions, progress: Progress
) -> PathRanker:
    """Return ``ranker`` with a head that is fitted to ``asked``."""
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
    """Keep the phrases in ``file`` with the KG; write it if it is not there. Raises DataError."""
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
