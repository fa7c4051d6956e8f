"""A graph reasoner in a store: scores of relations at each step, and of entities.

A relation is read by its words when a walk encounters it, also in a KG that the reasoner was not
trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgqa.errors import AdapterMismatchError
from kgqa.graph.store import id_places
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.methods.kg_cot.walk import FLOOR, walk_rows
from kgqa.models.graph_reasoner import log_softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.walk import Level
    from kgqa.models.graph_reasoner import LoadedReasoner, Tables
    from kgqa.models.sentence_encoder import TokenStates
    from kgqa.paths.walk import WalkRules

_WORDS = str.maketrans(dict.fromkeys("._/^", " "))


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """The reasoner's scores for one question.

    ``node`` and ``kind`` are entities around the topic entities, ``score`` their probability of
    being the answer, in 0..1, the best first (of equal ones the lower id). ``levels`` are the walk,
    whose rows are the ``topics``. ``tokens``: the encoder's token states.
    """

    topics: IntArray
    node: IntArray
    kind: NDArray[np.uint8]
    score: NDArray[np.float32]
    levels: tuple[Level, ...]
    tokens: int

    def only(self, keep: BoolArray) -> QuestionScores:
        """Return the scores of the entities that ``keep`` marks; the walk is shared."""
        return replace(self, node=self.node[keep], kind=self.kind[keep], score=self.score[keep])

    def times(self, factor: NDArray[np.float64]) -> QuestionScores:
        """Return the scores multiplied by ``factor``, sorted again."""
        score = (self.score * factor).astype(np.float32)
        order = np.argsort(-score, kind="stable")
        return replace(self, node=self.node[order], kind=self.kind[order], score=score[order])


class BoundReasoner:
    """A ``reasoner`` that walks in one store by ``rules``; for the thread of the store.

    Raises AdapterMismatchError for walks of more hops than it was trained for.
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
        self._texts = [relation_words(name) for name in relations.names]
        self._known = np.zeros(len(relations), np.bool_)
        self._tables = reasoner.model.tables(np.zeros((len(relations), card.width), np.float32))

    def tables(self, relations: IntArray) -> Tables:
        """Return the vectors of all steps (2 * relation, + 1 reversed); unknown ones are 0.

        Those of ``relations``, rows ``[n, 2]`` of steps or -1, are encoded if they are not known.
        """
        keys = np.unique(relations[relations >= 0] // 2)
        if len(new := keys[~self._known[keys]]):
            texts = self.reasoner.encoder.encode([self._texts[key] for key in new.tolist()])
            steps = (2 * new[:, None] + [0, 1]).reshape(-1)
            made = self.reasoner.model.tables(texts)
            for whole, some in zip(self._tables, made, strict=True):
                whole[steps] = some
            self._known[new] = True
        return self._tables


def relation_words(name: str) -> str:
    """Return a relation's name split into words, for the encoder.

    >>> relation_words("people.person.place_of_birth")
    'people person place of birth'
    """
    return " ".join(name.translate(_WORDS).split())


def padded(
    states: TokenStates, rows: IntArray
) -> tuple[NDArray[np.float32], BoolArray, NDArray[np.float32]]:
    """Return padded token states ``[n, tokens, width]``, their mask, and the text vectors."""
    counts = states.starts[rows + 1] - states.starts[rows]
    there = np.arange(int(counts.max())) < counts[:, None]
    block = np.zeros((*there.shape, states.vectors.shape[1]), np.float32)
    flat = np.concatenate([states.states[states.starts[r] : states.starts[r + 1]] for r in rows])
    block[there] = flat
    return block, there, states.vectors[rows]


def score_question(
    bound: BoundReasoner, question: str, topics: IntArray, floor: float = FLOOR
) -> QuestionScores:
    """Return the reasoner's scores for a question about ``topics`` (keys). Raises GraphError.

    ``floor``: edges that carry no more than this score are not followed.
    """
    states = bound.reasoner.encoder.encode_tokens([question])
    reading = bound.reasoner.model.read(*padded(states, np.zeros(1, np.int64)))
    log_beta = log_softmax(reading.log_beta[:, : bound.rules.hops])
    hidden = reading.hidden[:, : bound.rules.hops]
    reading = reading._replace(hidden=hidden, beta=np.exp(log_beta), log_beta=log_beta)
    topics = np.unique(topics)
    of = np.zeros(len(topics), np.int64)
    walked = walk_rows(bound.hops, bound.tables, reading, topics, of, floor)
    score = walked.scores
    order = np.lexsort((id_places(bound.store, walked.node), -score))
    node, kind = walked.node[order], walked.kind[order]
    return QuestionScores(topics, node, kind, score[order], walked.levels, len(states.states))
