"""Languages, scorers and models small enough to reason about, for the tests of searches."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.decoding.engine import DecodingOutcome, DecodingPlan, DecodingRequest, Engine
from kgqa.decoding.search import Scored
from kgqa.paths.walk import PathTable
from kgqa.trie.arrays import sequences
from kgqa.trie.constraint import Expansion
from kgqa.trie.stored import StoredConstraint, stored_constraint
from tests.tiny import tiny

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.decoding.search import Demand, Search
    from kgqa.trie.constraint import Constraint

VOCABULARY = 60
EOS = 1
PAD = 0
PROMPT = [7, 8, 9, 10]


def constraint_of(rows: Sequence[Sequence[int]]) -> StoredConstraint:
    """A constraint that accepts exactly ``rows``."""
    number = np.arange(len(rows), dtype=np.int64)
    hops = np.stack([number, number * 0 - 1, number * 0 - 1, number], axis=1)[:, None]
    table = PathTable(number, np.ones(len(rows), np.int64), hops)
    return stored_constraint([(sequences(rows), table)])


def random_language(seed: int, count: int) -> list[list[int]]:
    """Sequences with shared beginnings and long forced runs, as paths have them.

    Some are another one cut short, as where one name is the beginning of another.
    """
    choose = random.Random(seed)
    rows = {(5, 6, 2)}
    while len(rows) < count:
        stem = choose.choice(sorted(row for row in rows if len(row) > 1))
        cut = choose.randrange(1, len(stem))
        tail = () if choose.random() < 0.15 else (_token(choose) for _ in range(7))
        rows.add((*stem[:cut], *tail))
    return [[*row, EOS] for row in sorted(rows)]


def _token(choose: random.Random) -> int:
    return choose.randrange(2, VOCABULARY)


class TableScorer:
    """Random log-probabilities by (state, token), with no model behind them."""

    def __init__(self, constraint: Constraint, seed: int) -> None:
        self._constraint = constraint
        self._random = random.Random(seed)
        self._known: dict[tuple[int, int], float] = {}
        self.demands: list[Demand] = []

    def score(self, demand: Demand) -> Scored:
        self.demands.append(demand)
        return self._score(demand.states)

    def _score(self, states: Sequence[int]) -> Scored:
        moves = self._constraint.expand(states)
        keys = [
            (states[row], token)
            for row, token in zip(moves.row.tolist(), moves.token.tolist(), strict=True)
        ]
        for key in keys:
            self._known.setdefault(key, math.log(self._random.uniform(0.01, 1.0)))
        return Scored(moves, np.array([self._known[key] for key in keys], np.float64))

    def total(self, row: Sequence[int]) -> float:
        """The log-probability of a whole sequence, added up without a search."""
        state, total = self._constraint.start(), 0.0
        for token in row:
            scored = self._score([state])
            move = scored.moves.token.tolist().index(token)
            total += float(scored.scores[move])
            state = int(scored.moves.state[move])
        return total


class Moves:
    """A constraint and its scores written out: state -> [(token, next state, probability)]."""

    paths = None

    def __init__(self, moves: Mapping[int, Sequence[tuple[int, int, float]]]) -> None:
        self._moves = moves

    def start(self) -> int:
        return 0

    def expand(self, states: Sequence[int]) -> Expansion:
        flat = [
            (row, token, state)
            for row, at in enumerate(states)
            for token, state, _ in sorted(self._moves.get(at, ()))
        ]
        return Expansion(*np.array(flat, np.int64).reshape(-1, 3).T)

    def is_end(self, states: Sequence[int]) -> Any:
        return np.array([state not in self._moves for state in states], bool)

    def ground(self, state: int) -> PathTable:
        raise NotImplementedError

    def score(self, demand: Demand) -> Scored:
        scores = [
            math.log(probability)
            for at in demand.states
            for _, _, probability in sorted(self._moves.get(at, ()))
        ]
        return Scored(self.expand(demand.states), np.array(scores, np.float64))


class ModelScorer:
    """Scores by the plainest forward there is: every prefix whole, no cache, no tree."""

    def __init__(
        self, model: Any, constraint: Constraint, prompt: Sequence[int] = tuple(PROMPT)
    ) -> None:
        self._model = model
        self._constraint = constraint
        self._prefixes: dict[int, list[int]] = {constraint.start(): list(prompt)}

    @torch.inference_mode()
    def score(self, demand: Demand) -> Scored:
        moves = self._constraint.expand(demand.states)
        prefixes = [self._prefixes[state] for state in demand.states]
        for row, token, state in zip(moves.row, moves.token, moves.state, strict=True):
            self._prefixes[int(state)] = [*prefixes[row], int(token)]
        longest = max(map(len, prefixes))  # padding on the right is seen by nothing before it
        ids = torch.tensor([[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes])
        logits = self._model(ids).logits
        last = torch.tensor([len(prefix) - 1 for prefix in prefixes])
        shares = logits[torch.arange(len(prefixes)), last].float().log_softmax(-1)
        scores = shares[torch.from_numpy(moves.row), torch.from_numpy(moves.token)]
        return Scored(moves, scores.double().numpy())


def decoded(
    model: Any, constraint: Constraint, search: Search, *, rule: Any = "vocabulary", **plan: Any
) -> DecodingOutcome:
    """What an engine finds by one search after the usual prompt."""
    request = DecodingRequest(prompt=PROMPT, constraint=constraint, search=search, rule=rule)
    return Engine(model, DecodingPlan(**plan)).decode(request)


@cache
def tiny_model(family: str, seed: int = 0) -> Any:
    """A model of two small layers with random weights: llama, mistral, qwen2 or qwen3."""
    more: dict[str, Any] = {"Mistral": {"sliding_window": None}, "Qwen3": {"head_dim": 8}}
    ids = {"eos_token_id": EOS, "bos_token_id": None, "pad_token_id": PAD}
    family = family.title()
    return tiny(VOCABULARY, seed, family, **ids, initializer_range=0.5, **more.get(family, {}))
