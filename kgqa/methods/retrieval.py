"""Baselines without a KG-LLM: the paths whose text is nearest to the question, and all paths.

``retrieval``: every path out of the topic entities is made a vector by a sentence encoder, as the
question is, and the K with the highest cosine are taken. A path's score is the log-softmax of the
cosines over all paths, scaled as in the training of such encoders (× 20), and their ends are voted
on as those of decoded ones are. ``all-paths``: the general LLM is shown as many paths as fit.
"""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kgqa.answers.answer import Findings, ScoredPath, SearchUse, Timings
from kgqa.answers.choices import find_choices, rank_choices
from kgqa.answers.expand import LACKING, lacking
from kgqa.answers.ranking import vote
from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import Method
from kgqa.methods.options import AllPathsOptions, RetrievalOptions
from kgqa.paths.ground import ground
from kgqa.paths.sample import Sample, sample_walk
from kgqa.paths.walk import joined_tables, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import TopicEntity
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.methods.resources import Resources
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules

SCALE = 20.0  # what cosines are multiplied by in the encoders' training
_WORDS = str.maketrans(dict.fromkeys("._/^", " "))
_CHARACTERS = 4  # of a token: the general LLM's tokenizer is not known
_LINE = 6  # tokens that a path's line has beside the path and its end
_SEED = 0


class Retrieval(Method[RetrievalOptions]):
    """Answers from the K paths nearest to the question.

    In multiple choice only paths that end in a choice are looked at.
    """

    name = "retrieval"
    Options = RetrievalOptions

    def __init__(
        self, options: RetrievalOptions, resources: Resources, *, general: bool = True
    ) -> None:
        super().__init__(options, resources, general=general)
        self.encoder = resources.sentence_encoder(options.encoder)

    def own_settings(self) -> dict[str, Any]:
        """Return the encoder and the size of a sample."""
        return {"encoder": self.encoder.name, "cap": self.options.cap}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the nearest paths and the vote of their ends."""
        began = time.perf_counter()
        rules, topics = self.walks(store), question.topics
        found = topic_paths(store, topics, rules, self.form, self.options.cap)
        choices = find_choices(store, question.choices) if question.choices else []
        if choices:
            found = found.ending_in({id_ for one in choices for id_ in one.ids})
        walked = time.perf_counter()
        texts = [in_words(group[0]) for group in found.groups]
        vectors = self.encoder.encode([question.question, *texts])
        scores = SCALE * (vectors[1:].astype(np.float64) @ vectors[0].astype(np.float64))
        order = np.argsort(-scores, kind="stable")
        ends = store.keys_of([found.groups[row][0].tail.id for row in order.tolist()])
        scores[order] += math.log(LACKING) * lacking(store, topics, ends, rules)
        scores -= np.logaddexp.reduce(scores)
        nearest = np.argsort(-scores, kind="stable")[: self.options.k].tolist()
        paths = tuple(found.scored(row, float(scores[row])) for row in nearest)
        retrieved = time.perf_counter()
        answers = rank_choices(choices, paths) if choices else vote(paths)
        return Findings(
            answers=tuple(answers),
            paths=paths,
            timings=Timings(
                decode=retrieved - walked,
                ground=walked - began,
                answer=time.perf_counter() - retrieved,
            ),
            notes=found.notes,
            search=SearchUse("dense"),
        )


def in_words(path: GroundedPath) -> str:
    """Return a path as an encoder reads it: predicates as the words they are made of."""
    parts = [path.head.name]
    for edge in path.edges:
        parts += [edge.relation.translate(_WORDS).strip(), edge.tail.name]
    return " -> ".join(" ".join(part.split()) for part in parts)


class TopicPaths(NamedTuple):
    """The paths out of some topic entities, those of one text in a group; shorter ones first.

    ``notes`` tell if a sample stands for all.
    """

    groups: list[tuple[GroundedPath, ...]]
    notes: tuple[str, ...]

    def ending_in(self, ids: set[str]) -> TopicPaths:
        """Return those paths that end in one of ``ids``. Raises EmptyLanguageError for none."""
        groups = [tuple(one for one in group if one.tail.id in ids) for group in self.groups]
        if not any(groups):
            raise EmptyLanguageError(
                "No path leads from the topic entities to one of the choices.",
                "Allow longer paths with `hops`, or name another `entity`.",
            )
        return TopicPaths([group for group in groups if group], self.notes)

    def scored(self, row: int, score: float) -> ScoredPath:
        """Return the paths of a row as one with a score."""
        group = self.groups[row]
        return ScoredPath(group[0].text, score, group[0].tail.name, group)


def topic_paths(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    form: PathFormat,
    cap: int,
) -> TopicPaths:
    """Return every path out of ``topics``, each checked in the store.

    Of a topic entity with more than ``cap`` paths a random sample of so many is taken, and a note
    says so. Raises EmptyLanguageError if there is no path at all.
    """
    keys = keys_array(list(dict.fromkeys(topic.key for topic in topics)))
    table, over = walk(store, keys, rules, cap)
    tables, notes = [table], []
    if len(over):
        sample = Sample(cap, "random", _SEED)
        tables.append(sample_walk(store, over, rules, sample))
        many = set(over.tolist())
        notes = [
            f"{topic.name} ({topic.id}) has too many paths; a sample stands for them: {sample}."
            for topic in {one.key: one for one in topics}.values()
            if topic.key in many
        ]
    table = joined_tables(tables)
    by_text: dict[str, list[GroundedPath]] = {}
    for path in ground(store, table.take(np.argsort(table.length, kind="stable")), form):
        if path is not None:
            by_text.setdefault(path.text, []).append(path)
    if not by_text:
        raise EmptyLanguageError(
            f"No path of at most {rules.hops} hops leads out of the topic entities.",
            "Name another `entity`, or set `direction` to both.",
        )
    return TopicPaths(list(map(tuple, by_text.values())), tuple(notes))


class AllPaths(Method[AllPathsOptions]):
    """All paths of the topic entities, as many as a budget of tokens holds.

    Those of one hop come first, within a length drawn by a seed, so that no relation is in for its
    name. Every path has the same score, the log of its part.
    """

    name = "all-paths"
    Options = AllPathsOptions

    def own_settings(self) -> dict[str, Any]:
        """Return how many paths there may be."""
        return {"k": None, "prompt_tokens": self.options.prompt_tokens, "cap": self.options.cap}

    def answer(self, store: GraphStore, question: LinkedQuestion) -> Findings:
        """Return the paths that fit into the prompt; one always stands."""
        began = time.perf_counter()
        rules, room = self.walks(store), self.options.prompt_tokens
        found = topic_paths(store, question.topics, rules, self.form, self.options.cap)
        order = list(range(len(found.groups)))
        random.Random(_SEED).shuffle(order)
        order.sort(key=lambda row: len(found.groups[row][0].edges))
        taken: list[int] = []
        left = room
        for row in order:
            first = found.groups[row][0]
            left -= _LINE + math.ceil((len(first.text) + len(first.tail.name)) / _CHARACTERS)
            if taken and left < 0:
                break
            taken.append(row)
        notes = list(found.notes)
        if len(taken) < len(order):
            notes.append(
                f"{len(taken):,} of {len(order):,} paths fit into {room:,} tokens of the prompt; "
                "the others are left out."
            )
        return Findings(
            paths=tuple(found.scored(row, -math.log(len(taken))) for row in taken),
            timings=Timings(ground=time.perf_counter() - began),
            notes=tuple(notes),
            search=SearchUse("all"),
        )
