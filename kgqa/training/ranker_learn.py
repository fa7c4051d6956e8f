"""Learning a KG: the universal path ranker, fitted to questions about one KG.

They are made from the KG alone, in people's words; people's own, if there are any, count as much as
all of those together. A part is held out, people's own first: only if the fitted ranker gives what
is right more probability there is it kept.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

from kgqa.errors import DataError
from kgqa.methods.rank_words import RankWords
from kgqa.models.path_ranker import (
    OWN_RANKER,
    load_path_ranker,
    ranker_changes,
    save_path_ranker,
)
from kgqa.paths.phrases import PHRASES_FILE, phrases_of, read_phrases, write_phrases
from kgqa.paths.walk import WalkRules
from kgqa.paths.words import TOPIC
from kgqa.training.questions import read_file
from kgqa.training.ranker_fit import (
    RankerSettings,
    first_right,
    fit_ranker,
    joined_changes,
    log_likelihoods,
)
from kgqa.training.ranker_made import made_questions
from kgqa.training.ranker_questions import batch_of, kg_questions
from kgqa.training.reports import LearnReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.path_ranker import Changes, PathRanker
    from kgqa.progress import Progress
    from kgqa.training.options import LearnOptions
    from kgqa.training.ranker_fit import RankingBatch
    from kgqa.training.ranker_questions import KgQuestion

_TOGETHER = 16  # questions of a batch
_LEAST = 8  # questions of people that something is learnt from
_HELD_OUT = 4  # one of so many
_MOST_HELD = 48  # made questions that decide, beside people's
_STEPS = 30  # with made questions alone; people's own add to them
_ROUNDS = 8  # how often each of people's questions is seen


def learn(
    store: GraphStore,
    folder: Path,
    options: LearnOptions,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> LearnReport:
    """Fit the ranker that ``options`` start from to the KG, and keep it if it is better.

    ``folder`` is the KG's, where it is kept. A run that is stopped changes nothing but the KG's
    phrases. Raises DataError if there are too few questions.
    """
    began = time.perf_counter()
    out = folder / OWN_RANKER
    if options.phrases is not None:
        _take_phrases(store, folder, options.phrases, progress)
    load = partial(
        load_path_ranker,
        device=device,
        cache=cache,
        progress=progress,
        encoder=options.encoder,
        trainable=True,
    )
    start = load(options.start_from)
    random = Random(options.seed)
    words = RankWords(store, WalkRules(start.card.hops, store.info.direction), folder)
    drawn = made_questions(words, start, random, progress, cache)
    start.vectors([one.text.replace("{x}", TOPIC) for one in drawn])  # faster together
    made = [one.of_kg(words, start) for one in drawn if not one.held_out]
    asked: list[KgQuestion] = []
    unusable = 0
    if options.questions is not None:
        read = read_file(options.questions, options.format, None, progress)
        asked, unusable = kg_questions(words, read.questions, start)
        if len(asked) < _LEAST:
            raise DataError(
                f"{options.questions} has {len(asked)} questions that {store.info.name} can "
                f"answer; {_LEAST} are needed to learn from.",
                "Each names its `answers`, and topic entities that a path leads from to them.",
            )
    elif len(made) < _LEAST:
        raise DataError(
            f"No questions can be made about {store.info.name}: its relations are like none that "
            "people's questions are known for.",
            "Give some questions of the kind that will be asked, with their answers, by "
            "`questions`.",
        )
    apart = [one for one in drawn if one.held_out]
    apart = random.sample(apart, min(len(apart), _MOST_HELD))
    held = [*asked[::_HELD_OUT], *(one.of_kg(words, start) for one in apart)]
    rest = [one for place, one in enumerate(asked) if place % _HELD_OUT]
    checks = [batch_of(held, None)]
    before, first_before = log_likelihoods(start, checks), first_right(start, checks)
    changes = _fitted(start, rest, made, options, progress)
    after, first_after = log_likelihoods(start, checks), first_right(start, checks)
    gain = after - before
    better = first_after >= first_before and gain.mean() > gain.std() / math.sqrt(len(gain))
    if asked and gain[: len(held) - len(apart)].mean() <= 0:
        better = False
    if better:
        if asked:  # with those that were held out, too
            start = load(options.start_from)
            changes = _fitted(start, asked, made, options, progress)
        described = {
            "kg": store.info.name,
            "made": len(made),
            "asked": len(asked),
            "changed": store.info.changed,
            "relations": store.info.next_relation,
            "held_out": {"questions": len(held), "before": first_before, "after": first_after},
        }
        every = joined_changes(ranker_changes(options.start_from), changes)
        save_path_ranker(out, replace(start.card, described=described), every)
    return LearnReport(
        folder=out if better else None,
        questions=len(asked),
        made=len(made),
        unusable=unusable,
        held_out=len(held),
        before=float(before.mean()),
        after=float(after.mean()),
        first_before=100 * first_before,
        first_after=100 * first_after,
        seconds=time.perf_counter() - began,
    )


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


def _fitted(
    start: PathRanker,
    asked: Sequence[KgQuestion],
    made: Sequence[KgQuestion],
    options: LearnOptions,
    progress: Progress,
) -> Changes:
    """Fit ``start`` itself; return the changes."""
    steps = (_STEPS if made else 0) + round(_ROUNDS * len(asked) / _TOGETHER)
    settings = RankerSettings(
        steps=steps, rank=16, rate=options.learning_rate, seed=options.seed, weights_only=True
    )
    batches = _batches(asked, made, Random(options.seed))
    fitted = fit_ranker(start, batches, settings, progress)
    start.forget()
    return fitted.changes


def _batches(
    asked: Sequence[KgQuestion], made: Sequence[KgQuestion], random: Random
) -> Iterator[RankingBatch]:
    """Yield batches without end: questions about few topics, half people's if there are any."""
    by_topic: dict[int, list[KgQuestion]] = {}
    for one in made:
        by_topic.setdefault(one.topic, []).append(one)
    topics = cycle(random.sample(list(by_topic.values()), len(by_topic)))
    people = cycle(random.sample(asked, len(asked)))
    half = _TOGETHER // 2
    while True:
        batch = [next(people) for _ in range(half if made else _TOGETHER) if asked]
        while made and len(batch) < _TOGETHER:
            ours = next(topics)
            batch += random.sample(ours, min(half, len(ours)))
        yield batch_of(batch, random)
