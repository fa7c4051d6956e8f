"""A reasoner in a graph: scores of relations at each step of a question, and of entities.

A reasoner knows relations by its own numbers, a store by its keys; here the two meet. One of ids
has no score for relations it was not trained with, and does not walk them; one that reads
relations by their words encodes others when it encounters them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from kgqa.errors import AdapterMismatchError
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.methods.kg_cot.walk import FLOOR, Level, walk_rows
from kgqa.models.folders import MOSTLY, known_part
from kgqa.models.graph_reasoner import relation_logits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.models.graph_reasoner import Reading, Tables
    from kgqa.models.graph_reasoner_files import LoadedReasoner
    from kgqa.models.sentence_encoder import TokenStates
    from kgqa.paths.walk import WalkRules

UNKNOWN_STEP = -2
_WORDS = str.maketrans(dict.fromkeys("._/^", " "))


@dataclass(frozen=True, slots=True)
class RelationScores:
    """How well each relation fits each step of a question's walk.

    ``relations`` ``[n, 2]`` are (first step, second step or -1) as :mod:`kgqa.paths.walk` has them,
    those around the topic entities; ``scores`` ``[hops, n]`` are in 0..1; ``beta``
    ``[hops]`` says how likely the question takes so many hops, and sums to 1.
    """

    relations: IntArray
    scores: NDArray[np.float32]
    beta: NDArray[np.float32]

    def of_step(self, hop: int) -> dict[tuple[int, int], float]:
        """Return the scores of one hop (0 is the first) by relation."""
        pairs = map(tuple, self.relations.tolist())
        return dict(zip(pairs, self.scores[hop].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """What a reasoner says of one question.

    ``node`` and ``kind`` are entities around the topic entities, ``score`` how likely each is the
    answer, in 0..1, the best first (of equal ones the lower key). ``levels`` are the walk itself,
    its rows the ``topics``. ``tokens``: what the encoder read.
    """

    topics: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    score: NDArray[np.float32]
    relations: RelationScores
    levels: tuple[Level, ...]
    tokens: int

    def only(self, keep: BoolArray) -> QuestionScores:
        """Return the same for some of the entities; the walk stays."""
        return replace(self, node=self.node[keep], kind=self.kind[keep], score=self.score[keep])

    def times(self, factor: NDArray[np.float64]) -> QuestionScores:
        """Return the same with each score times its factor, the best first again."""
        score = (self.score * factor).astype(np.float32)
        order = np.argsort(-score, kind="stable")
        return replace(self, node=self.node[order], kind=self.kind[order], score=score[order])


class BoundReasoner:
    """``reasoner`` in one store, walking by ``rules``; belongs to the thread of the store.

    Raises AdapterMismatchError for a reasoner of ids trained with less than half of the KG's
    relations, or for walks of other rules.
    """

    def __init__(self, reasoner: LoadedReasoner, store: GraphStore, rules: WalkRules) -> None:
        self.reasoner = reasoner
        self.store = store
        self.rules = rules
        self.version = store.info.version
        self.hops = HopTable(store, rules)
        relations = store.relations()
        card = reasoner.card
        if rules.hops > card.hops:
            raise AdapterMismatchError(
                f"The reasoner {reasoner.name} walks {card.hops} hops at most, not {rules.hops}.",
                f"Set `hops` to {card.hops}, or train one: kgqa train kg-cot.",
            )
        part = known_part(card.relations, relations.known)
        if card.relations_by == "ids" and part < MOSTLY:
            raise AdapterMismatchError(
                f"The reasoner {reasoner.name} was trained with {part:.0%} of the relations of the "
                f"KG {store.info.name}: it is another KG's, and knows relations by their ids.",
                "Train one for this KG: kgqa train kg-cot; with `relations` text it can move to "
                "another KG.",
            )
        self._tables: Tables | None = None
        if card.relations_by == "ids":
            number = {one: at for at, one in enumerate(card.relations)}
            known = np.array([number.get(one, -1) for one in relations.ids], np.int64)
            self._step = steps_by(known, card.direction)
            return
        assert reasoner.words is not None  # the card says so, and loading has checked it
        self._step = steps_by(np.arange(len(relations)), card.direction)
        self._texts = [relation_words(name) for name in relations.names]
        texts = card.texts or [relation_words(one) for one in card.relations]
        place = {text: at for at, text in enumerate(texts)}
        self._known = np.array([place.get(text, -1) for text in self._texts], np.int64)
        self._words = torch.zeros(len(relations), card.width)
        there = np.flatnonzero(self._known >= 0)
        self._words[there] = reasoner.words[torch.from_numpy(self._known[there])]

    def tables(self, relations: IntArray) -> tuple[Tables, IntArray]:
        """Return the vectors of steps, and ``relations`` ``[n, 2]`` as it counts them."""
        if self.reasoner.card.relations_by == "text":
            keys = np.unique(relations[relations >= 0] // 2)
            new = keys[self._known[keys] < 0]
            if len(new):
                made = self.reasoner.encoder.encode([self._texts[key] for key in new.tolist()])
                self._words[torch.from_numpy(new)] = torch.from_numpy(made)
                self._known[new] = 0
                self._tables = None
        if self._tables is None:
            words = self._words if self.reasoner.card.relations_by == "text" else None
            with torch.inference_mode():
                self._tables = self.reasoner.model.tables(words)
        return self._tables, own_steps(relations, self._step)


def relation_words(name: str) -> str:
    """Return a relation as an encoder reads it: the words that it is made of.

    >>> relation_words("people.person.place_of_birth")
    'people person place of birth'
    """
    return " ".join(name.translate(_WORDS).split())


def steps_by(number: IntArray, direction: str = "both") -> IntArray:
    """Return for each step of a store the step of a reasoner, given its number of each relation.

    Steps against ``direction`` are unknown: the reasoner was never trained in them.
    """
    along = np.where(number >= 0, 2 * number, UNKNOWN_STEP)
    against = np.where(number >= 0, 2 * number + 1, UNKNOWN_STEP)
    step = np.stack([along, against], axis=1).reshape(-1)
    if direction != "both":
        step[direction == "out" :: 2] = UNKNOWN_STEP
    return step


def own_steps(relations: IntArray, step: IntArray) -> IntArray:
    """Return ``relations`` ``[n, 2]`` in a reasoner's steps; -1 stays."""
    return np.where(relations >= 0, step[np.maximum(relations, 0)], relations)


def padded(states: TokenStates, rows: IntArray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return states ``[n, tokens, width]``, which are there, and the vectors of some questions."""
    counts = states.starts[rows + 1] - states.starts[rows]
    there = np.arange(int(counts.max())) < counts[:, None]
    block = np.zeros((*there.shape, states.vectors.shape[1]), np.float32)
    flat = np.concatenate([states.states[states.starts[r] : states.starts[r + 1]] for r in rows])
    block[there] = flat
    return torch.from_numpy(block), torch.from_numpy(there), torch.from_numpy(states.vectors[rows])


@torch.inference_mode()
def score_questions(
    bound: BoundReasoner,
    questions: Sequence[tuple[str, IntArray]],
    floor: float = FLOOR,
) -> list[QuestionScores]:
    """Return what the reasoner says of each question, a pair of its text and its topics' keys.

    The questions are walked together. Raises GraphError.
    """
    states = bound.reasoner.encoder.encode_tokens([text for text, _ in questions])
    reading = bound.reasoner.model.read(*padded(states, np.arange(len(questions))))
    hops = bound.rules.hops
    log_beta = torch.log_softmax(reading.log_beta[:, :hops], dim=1)
    reading = reading._replace(
        hidden=reading.hidden[:, :hops], beta=log_beta.exp(), log_beta=log_beta
    )
    topics = [np.unique(keys) for _, keys in questions]
    question = np.repeat(np.arange(len(topics)), list(map(len, topics)))
    row_of = np.concatenate([[0], np.cumsum(list(map(len, topics)))])
    every = np.concatenate(topics)
    walked = walk_rows(bound.hops, bound.tables, reading, every, question, floor)
    found = []
    bounds = np.searchsorted(walked.question, np.arange(len(topics) + 1))
    for number, keys in enumerate(topics):
        here = slice(bounds[number], bounds[number + 1])
        score = walked.scores[here].numpy()
        order = np.argsort(-score, kind="stable")  # nodes ascend, so equal ones stay by key
        levels = walked.levels
        if len(topics) > 1:
            levels = tuple(_rows(walked.levels, int(row_of[number]), int(row_of[number + 1])))
        found.append(
            QuestionScores(
                topics=keys,
                node=walked.node[here][order],
                kind=walked.kind[here][order],
                score=score[order],
                relations=_relation_scores(bound, levels, keys, reading, number),
                levels=levels,
                tokens=int(states.starts[number + 1] - states.starts[number]),
            )
        )
    return found


def _relation_scores(
    bound: BoundReasoner, levels: Sequence[Level], topics: IntArray, reading: Reading, number: int
) -> RelationScores:
    walked = [one.relation for one in levels[1:]]
    numbers = np.unique(np.concatenate([bound.hops.out_of(topics).relation, *walked]))
    relations = bound.hops.relations()[numbers]
    tables, steps = bound.tables(relations)
    first, second = torch.from_numpy(steps[:, 0]), torch.from_numpy(steps[:, 1])
    logits = relation_logits(reading.hidden[number], tables, first, second)
    return RelationScores(relations, torch.sigmoid(logits).numpy(), reading.beta[number].numpy())


def _rows(levels: Sequence[Level], first: int, last: int) -> Iterator[Level]:
    before = 0
    for level in levels:
        low, high = np.searchsorted(level.row, [first, last]).tolist()  # pairs ascend by row
        edges = np.flatnonzero((level.target >= low) & (level.target < high))
        yield Level(
            level.row[low:high] - first,
            level.node[low:high],
            level.kind[low:high],
            level.scores[low:high],
            level.source[edges] - before,
            level.target[edges] - low,
            level.hop[edges],
            level.relation[edges],
            level.passed[edges],
        )
        before = low
