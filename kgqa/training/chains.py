"""Training chains for Decoding on Graphs: thoughts, triplets and an answer line.

A chain (DoG, arXiv 2410.18415) follows the relation path that means the question: before each
triplet a short thought made of the relation's words, and at the end the answers, as many as fit
with their triplets into its steps, so that what it says is what it showed. The graph of the prompt
is the one that the question would be asked with, the chain's own triplets always in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from kgqa.answers.naming import form_of
from kgqa.decoding.span_markers import FreeText
from kgqa.errors import EmptyLanguageError
from kgqa.methods.dog.answers import claimed
from kgqa.methods.dog.chains import OPENING
from kgqa.methods.options import DogOptions
from kgqa.paths.ground import GroundedPath, ground
from kgqa.paths.triplets import WIDTH, StoreTriplets, as_paths, turned
from kgqa.paths.walk import FIRST, MEDIATOR, SECOND, TAIL, RelationPath, WalkRules
from kgqa.training.data import (
    DataReport,
    TrainingExample,
    TrainingQuestion,
    near_best,
    relation_paths_of,
)
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.dog.graph import GraphFilter
    from kgqa.progress import Progress

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MOST = DogOptions().steps  # triplets of a chain
_NAMELESS = "look for a fact that helps"
_ANOTHER = "There is another one."


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a chain: a thought, and the stored triplet after it, names and relation as text."""

    thought: str
    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class ChainExample(TrainingExample):
    """The parts of a prompt, and the chain to write.

    ``graph``: the texts of the prompt's triplets in order, which contain those of ``steps``.
    """

    graph: tuple[str, ...]
    steps: tuple[Step, ...]
    answers: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[object, ...]:
        """The chain's triplets."""
        return self.hops

    @property
    def hops(self) -> tuple[tuple[str, str, str], ...]:
        """The triplets of the chain, in order."""
        return tuple((step.head, step.relation, step.tail) for step in self.steps)

    @property
    def conclusion(self) -> str:
        """The answer line, with all answers."""
        return concluded(self.answers)


def concluded(answers: Sequence[str]) -> str:
    """Return the answer line for these answers.

    >>> concluded(["Inn", "Sava"])
    'Therefore, the answer is * Inn, and * Sava.'
    """
    return f"Therefore, the answer is {', and '.join(f'* {answer}' for answer in answers)}."


@dataclass(slots=True)
class ChainReport(DataReport):
    """Counts of questions by what became of them: chains made, or the reason for none."""

    unwritable: int = 0  # questions of which no answer can be written
    put_in: int = 0  # chains with a triplet that was not in the graph that the filter chose

    def __str__(self) -> str:
        """Return the report as a sentence."""
        more = f" Of {self.put_in:,} chains a triplet had to be put into the prompt's graph."
        if self.unwritable:
            more += f" {self.unwritable:,} questions have no answer whose name can be written."
        return DataReport.__str__(self) + more


def build_chains(
    store: GraphStore,
    questions: Sequence[TrainingQuestion],
    rules: WalkRules,
    chosen: GraphFilter,
    *,
    per_question: int = 1,
    seed: int = 0,
    progress: Progress,
) -> tuple[list[ChainExample], ChainReport]:
    """Return chains for ``questions``, at most ``per_question`` each, and a report.

    ``chosen`` filters the graph of a prompt. A relation path with more hops than a chain may have
    triplets gives none. Every triplet is verified in ``store``. Raises GraphError.
    """
    made: list[ChainExample] = []
    report = ChainReport(questions=len(questions))
    random = np.random.default_rng(seed)
    with progress.task("chains to answers", len(questions), "questions") as task:
        for question in questions:
            candidates = relation_paths_of(store, question, rules, report)
            paths = near_best(candidates, per_question)
            if paths:
                maker = _Maker(store, question, rules, chosen)
                chains = [chain for path in paths if (chain := maker.chain(path, random, report))]
                report.used += bool(chains)
                report.unwritable += not chains
                made += chains
            task.advance()
    report.examples = len(made)
    return made, report


class _Maker:
    """Makes the chains of one question."""

    def __init__(
        self,
        store: GraphStore,
        question: TrainingQuestion,
        rules: WalkRules,
        chosen: GraphFilter,
    ) -> None:
        self._store = store
        self._question = question
        self._filter = chosen
        keys = store.keys_of(question.topics)
        self._known = tuple(compress(question.topics, keys >= 0))
        self._topics = keys[keys >= 0]
        # for one question alone: what was read of an entity is kept, and of a whole set it is much
        self._triplets = StoreTriplets(store, rules.mediators, entered=rules.direction != "out")
        self._graph: list[str] | None = None

    def chain(
        self, path: RelationPath, random: np.random.Generator, report: ChainReport
    ) -> ChainExample | None:
        """Return the chain along a relation path, None if a triplet of it is not in the store.

        Triplets that the prompt's graph lacks are put in, which ``report`` counts.
        """
        store, form = self._store, self._filter.form
        rows, walked, answers = _rows(store, path, random)
        # both ways of reading are checked in the store, edge by edge
        stored, walked_paths = (ground(store, as_paths(way), form) for way in (rows, walked))
        steps = _steps(stored, walked_paths)
        if not steps:
            return None
        if self._graph is None:
            self._graph = self._shown()
        own = dict.fromkeys(
            " ".join(form.path(step.head, [(step.relation, step.tail)]).split()) for step in steps
        )
        shown, missing = self._graph, [text for text in own if text not in self._graph]
        if missing:
            report.put_in += 1
            shown = _with(shown, missing, set(own), self._filter.most, random)
        return ChainExample(
            question_id=self._question.id,
            question=self._question.question,
            topics=tuple(dict.fromkeys(names_of(store, self._topics))),
            graph=tuple(shown),
            steps=tuple(steps),
            answers=tuple(answers),
            topic_ids=self._known,
        )

    def _shown(self) -> list[str]:
        """Return the texts of the filtered graph that the prompt shows, [] if nothing fits."""
        try:
            graph = self._filter.graph(
                self._store,
                self._triplets,
                self._question.question,
                self._topics,
                len(self._topics) + self._filter.most,
                lambda texts: [0] * len(texts),  # its tokens do not matter here
            )
        except EmptyLanguageError:
            return []
        return list(graph.all_texts())


def _rows(
    store: GraphStore, path: RelationPath, random: np.random.Generator
) -> tuple[IntArray, IntArray, list[str]]:
    """Return a chain's triplets as stored and as walked, both ``[n, 5]``, and its answers.

    Answers are taken in random order; one is left out if its triplets no longer fit, its name
    cannot be written in the answer line, or is another one's.
    """
    ends = path.paths.ends()
    names = dict(zip(ends.tolist(), names_of(store, ends), strict=True))
    walked: dict[tuple[int, ...], tuple[int, ...]] = {}  # by the stored triplet
    answers: dict[str, str] = {}
    reached: set[int] = set()
    for row in random.permutation(len(path.paths)).tolist():
        end = int(ends[row])
        name = " ".join(names[end].split())
        if end in reached or form_of(name) in answers or not can_be_said(name):
            continue
        topic = path.paths.topic[row]
        hops = path.paths.hops[row, : path.paths.length[row]]
        starts = np.concatenate([[topic], hops[:-1, TAIL]])
        new = np.concatenate([starts[:, None], hops], axis=1)
        stored = list(map(tuple, as_stored(new).tolist()))
        fresh = {
            triplet: tuple(walk)
            for triplet, walk in zip(stored, new.tolist(), strict=True)
            if triplet not in walked
        }
        if len(walked) + len(fresh) > _MOST:
            continue
        walked.update(fresh)
        answers[form_of(name)] = name
        reached.add(end)
    shape = (len(walked), WIDTH)
    return (
        np.array(list(walked), np.int64).reshape(shape),
        np.array(list(walked.values()), np.int64).reshape(shape),
        list(answers.values()),
    )


def as_stored(rows: IntArray) -> IntArray:
    """Convert walked hops ``[head, first, mediator, second, tail]`` to triplets as stored.

    One walked against its direction is reversed. A mediator's fact entered against an edge and left
    along one stays as it is, since neither of its ends is the head.
    """
    first, second = rows[:, 1 + FIRST], rows[:, 1 + SECOND]
    back = (first % 2 == 1) & ((rows[:, 1 + MEDIATOR] < 0) | (second % 2 == 1))
    stored = rows.copy()
    stored[back] = turned(rows[back])
    return stored


def can_be_said(name: str) -> bool:
    """Return whether an answer line with ``name`` parses back to that one name.

    A ``<`` would open a triplet, a star would begin another answer.
    """
    text = concluded([name, name + " x"])
    if OPENING in name:
        return False
    read = claimed([FreeText((), text)])
    return read is not None and list(map(form_of, read)) == [form_of(name), form_of(name + " x")]


def _steps(
    stored: Sequence[GroundedPath | None],
    walked: Sequence[GroundedPath | None],
) -> list[Step]:
    """Return the thoughts and triplets of a chain, [] if a triplet is not in the store.

    ``stored``, ``walked``: each triplet in stored and in walked direction.
    """
    asked: set[tuple[str, str]] = set()
    steps: list[Step] = []
    for grounded, walk in zip(stored, walked, strict=True):
        if grounded is None or walk is None:
            return []
        edge, hop = grounded.edges[0], walk.edges[0]
        here = (hop.head.id, hop.relation)
        thought = _ANOTHER if here in asked else _thought(hop.head.name, hop.relation)
        if here not in asked:
            thought = f"{'Then' if steps else 'First'} I {thought}."
        asked.add(here)
        steps.append(Step(thought, edge.head.name, edge.relation, edge.tail.name))
    return steps


def _thought(name: str, relation: str) -> str:
    """Return the thought that announces a relation of the entity ``name``."""
    text = " ".join(f"look for {noun_of(relation).replace('{x}', name)}".split())
    return _NAMELESS if OPENING in text else text  # a name must not open a triplet


def noun_of(relation: str) -> str:
    """Return a noun phrase for the tail of a relation, from the last words of its name.

    A relation walked against its direction (``^``) leads to an entity that has ``{x}`` as its tail.

    >>> noun_of("tv.tv_program.program_creator")
    'the program creator of {x}'
    >>> noun_of("^directed_by")
    'what has {x} as directed by'
    """
    halves = relation.split("..")
    half = halves[-1]
    if half.startswith("^") and len(halves) > 1 and not halves[0].startswith("^"):
        half = halves[0]  # along the first edge and against the second: the first half says more
    last = re.split(r"[./#]", half.removeprefix("^"))[-1]
    words = " ".join(re.split(r"[_\s-]+", _CAMEL.sub(" ", last))).strip().lower() or relation
    return f"what has {{x}} as {words}" if half.startswith("^") else f"the {words} of {{x}}"


def _with(
    shown: list[str], missing: Sequence[str], own: set[str], most: int, random: np.random.Generator
) -> list[str]:
    """Return the texts ``shown`` with the ``missing`` ones inserted at random.

    Of those not in ``own``, the last are dropped beyond ``most`` texts.
    """
    shown = list(shown)
    for text in missing:
        shown.insert(int(random.integers(len(shown) + 1)), text)
    others = [at for at, text in enumerate(shown) if text not in own]
    for at in reversed(others[max(0, most - len(own)) :]):
        shown.pop(at)
    return shown
