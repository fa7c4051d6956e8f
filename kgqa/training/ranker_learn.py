"""Learning a KG: the universal path ranker with a head that is fitted to questions about one KG.

They are made from the KG alone, in people's words; people's own, if there are any, come last. A
part of the wordings is held out, and each quarter of people's questions is asked of what the others
taught: only if the fitted ranker is better there is it kept.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from random import Random
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
from kgqa.paths.words import TOPIC
from kgqa.training.questions import read_file
from kgqa.training.ranker_fit import RankerSettings, log_likelihoods, rights
from kgqa.training.ranker_head import fit_head
from kgqa.training.ranker_made import made_questions, phrased
from kgqa.training.ranker_questions import batch_of, kg_questions
from kgqa.training.reports import LearnReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import PathRanker
    from kgqa.progress import Progress
    from kgqa.training.options import LearnOptions
    from kgqa.training.ranker_questions import KgQuestion

_LEAST = 8  # questions of people that something is learnt from
_PARTS = 4  # of people's questions
_NO_ANSWER = 7  # one of so many made questions is asked as if the graph could not answer it
_STEPS, _STEPS_OF_PEOPLE = 60, 8
_PER_STEP = 16  # of many questions of people: each takes part in about four steps
_STRENGTH = 0.5  # of what is learnt from made questions
_LIKELY = 0.2  # probability of what a made question asks for: others mostly ask for something else


def learn(
    store: GraphStore,
    folder: Path,
    options: LearnOptions,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> LearnReport:
    """Fit a ranker to the KG, and keep it if it is better than the one it starts from.

    That is the one of ``options``, or else the bundled one that suits the KG.
    ``folder`` is the KG's, where it is kept. A run that is stopped changes nothing but the KG's
    phrases. Raises DataError if there are too few questions.
    """
    began = time.perf_counter()
    out = folder / OWN_RANKER
    if options.phrases is not None:
        _take_phrases(store, folder, options.phrases, progress)
    start_from = options.start_from or suited_ranker(store.relations().known)
    start = load_path_ranker(
        start_from,
        device=device,
        cache=cache,
        progress=progress,
        encoder=options.encoder,
    )
    words = RankWords(store, WalkRules(start.card.hops, store.info.direction), folder)
    asked, unusable = _asked(words, options, start, progress)
    made, apart = _made(words, options, start, progress, cache)
    if not asked and (not apart or len(made) < _LEAST):
        raise DataError(
            f"No questions can be made about {store.info.name}: its relations are like none that "
            "people's questions are known for.",
            "Give some questions of the kind that will be asked, with their answers, by "
            "`questions`.",
        )

    taught = start
    if made:
        settings = RankerSettings(steps=_STEPS, rate=options.learning_rate, seed=options.seed)
        head = fit_head(start, batch_of(made), settings, progress, _STRENGTH)
        taught = replace(start, head=head)
    least = _STEPS_OF_PEOPLE if made else _STEPS
    parts = [asked[number::_PARTS] for number in range(_PARTS)] if asked else []
    checks = [batch_of(some) for some in (*parts, apart) if some]
    rankers = []
    for part in parts:  # each is asked of what the others taught: too few to set some aside
        others = [one for other in parts if other is not part for one in other]
        rankers.append(_fitted(taught, others, least, options, progress))
    own = _fitted(taught, asked, least, options, progress)
    rankers += [own] if apart else []
    before, after = (
        np.concatenate([log_likelihoods(each, [one]) for each, one in zip(by, checks, strict=True)])
        for by in ([start] * len(checks), rankers)
    )
    was, now = (
        [rights(each, [one]) for each, one in zip(by, checks, strict=True)]
        for by in ([start] * len(checks), rankers)
    )
    first_before, first_after = (
        float(np.concatenate(each).sum() / max(1, sum(map(len, each)))) for each in (was, now)
    )
    gain = after - before
    if asked:  # what they ask counts, and one more of them that is right may be chance
        right_before, right_after = (
            sum(one.sum() for one in each[: len(parts)]) for each in (was, now)
        )
        better = right_after > right_before + 1 and gain.mean() > 0
    else:
        better = first_after >= first_before and gain.mean() > _error(gain)
    if better:
        assert own.head is not None
        described = {
            "kg": store.info.name,
            "made": len(made),
            "asked": len(asked),
            "changed": store.info.changed,
            "relations": store.info.next_relation,
            "held_out": {"questions": len(gain), "before": first_before, "after": first_after},
        }
        changes = {**ranker_changes(start_from), HEAD: own.head}
        # questions made of the KG's own facts say little about what it lacks
        refuses = bool(asked)
        card = replace(start.card, extends="", head_refuses=refuses, described=described)
        save_path_ranker(out, card, changes, relations_elsewhere(start_from))
    return LearnReport(
        folder=out if better else None,
        questions=len(asked),
        made=len(made),
        unusable=unusable,
        held_out=len(gain),
        before=float(before.mean()),
        after=float(after.mean()),
        first_before=100 * first_before,
        first_after=100 * first_after,
        seconds=time.perf_counter() - began,
    )


def _asked(
    words: RankWords, options: LearnOptions, start: PathRanker, progress: Progress
) -> tuple[list[KgQuestion], int]:
    """Return people's questions that the KG can answer, and how many it cannot. Raises DataError.

    Without a file of them there are none.
    """
    if options.questions is None:
        return [], 0
    read = read_file(options.questions, options.format, None, progress)
    asked, unusable = kg_questions(words, read.questions, start, loose=read.loose)
    if len(asked) < _LEAST:
        raise DataError(
            f"{options.questions} has {len(asked)} questions that {words.store.info.name} can "
            f"answer; {_LEAST} are needed to learn from.",
            "Each line names its answers, and topic entities that a path leads from to them.",
        )
    return asked, unusable


def _made(
    words: RankWords, options: LearnOptions, start: PathRanker, progress: Progress, cache: Path
) -> tuple[list[KgQuestion], list[KgQuestion]]:
    """Return questions made from the KG alone: to learn from, and those of held-out wordings."""
    drawn = made_questions(words, start, Random(options.seed), progress, cache)
    start.vectors([one.text.replace("{x}", TOPIC) for one in drawn])  # faster together
    every = [one.of_kg(words, start) for one in drawn]
    likely: Sequence[float] = (
        np.exp(log_likelihoods(start, [batch_of(every)])).tolist() if every else ()
    )
    kept = [  # longer paths stay out of it: a wording for one relation says nothing about them
        (one, one.of_relations(words, start))
        for one, share in zip(drawn, likely, strict=True)
        if share >= _LIKELY or one.text in phrased(words, one.hop)
    ]
    for place in range(0, len(kept), _NO_ANSWER):  # what is missing must not seem to be there
        one, _ = kept[place]
        if sum(len(steps) == 1 for steps in one.among) > 1:
            kept[place] = one, one.without_answer(words, start, -1 - place)
    made, apart = (
        [question for one, question in kept if one.held_out == held_out]
        for held_out in (False, True)
    )
    return made, apart


def _fitted(
    ranker: PathRanker,
    asked: Sequence[KgQuestion],
    least: int,
    options: LearnOptions,
    progress: Progress,
) -> PathRanker:
    """Return ``ranker`` with a head that is fitted to ``asked`` too, in ``least`` steps or more.

    If there are no questions, it is ``ranker`` itself.
    """
    if not asked:
        return ranker
    steps = max(least, len(asked) // _PER_STEP)  # few, if they are few
    settings = RankerSettings(steps=steps, rate=options.learning_rate, seed=options.seed)
    return replace(ranker, head=fit_head(ranker, batch_of(asked), settings, progress))


def _error(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of ``values``."""
    return float(values.std() / math.sqrt(len(values)))


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
    kept = [given.get(id_, one) for id_, one in zip(ids, phrases, strict=True)]
    write_phrases(folder / PHRASES_FILE, store, kept)
