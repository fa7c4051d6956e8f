"""The model's forward over trees of tokens: one for all questions at hand.

A token of a tree sees its own question's prompt and its own ancestors, and its position is its
depth. A question's prompt is run once, together with the first tokens after it, and shared by all
its prefixes. The children's logits are gathered under one log-sum-exp over the whole vocabulary, so
that no mask of the vocabulary's size is ever built.

The mask is additive and of the weights' type, which is right under eager and SDPA attention alike.
Whether a model can be run so at all is not assumed here: :mod:`kgqa.decoding.probe` finds out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from kgqa.decoding.cache import ColumnCache
from kgqa.decoding.wave import NO_TOKEN, PrefixTree
from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.search import Demand, Scored
    from kgqa.decoding.wave import Node
    from kgqa.trie.constraint import Constraint, Expansion

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]

DEFAULT_BUDGET = 128
# Logits that become float32, and are exponentiated, at a time: copies of 4 MB on a CPU, which its
# caches hold; 128 MB elsewhere, where each further call costs more than memory does.
_LOGITS_AT_ONCE = {"cpu": 1 << 20}
_LOGITS_AT_ONCE_ELSEWHERE = 1 << 25


@dataclass(slots=True)
class Asked:
    """A prompt with what is known of the prefixes after it, and where its tokens are cached.

    ``rule``: log-probabilities over the whole vocabulary (GCR), or renormalised over what the
    constraint allows (DoG: the mask before the softmax). ``coverage``: whether the tree also learns
    which share of the whole vocabulary's probability is allowed. Raises ModelError for an empty
    prompt.
    """

    prompt: Sequence[int]
    tree: PrefixTree
    rule: ScoreRule = "vocabulary"
    columns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # the prompt
    above: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # of a state, its own last
    coverage: bool = False

    def __post_init__(self) -> None:
        if not len(self.prompt):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        self.above[self.tree.start] = np.empty(0, np.int64)

    def all_columns(self) -> NDArray[np.int64]:
        """Return every column of the cache that this question owns."""
        own = [columns[-1:] for columns in self.above.values()]
        return np.concatenate([self.columns, *own])

    def drop_beside(self, states: Iterable[int]) -> NDArray[np.int64]:
        """Forget where all prefixes are cached but ``states``, those above and those below them.

        Returns the columns that this frees. What was dropped, and what lies below it, cannot be
        scored any more; scores that are known stay known.
        """
        tree, below = self.tree, set(states)
        for state in self.above:  # parents stand before their children
            if state != tree.start and tree.node(state).parent in below:
                below.add(state)
        kept = below | {tree.start}
        for state in states:
            above = tree.node(state).parent
            while above not in kept:
                kept.add(above)
                above = tree.node(above).parent
        gone = [state for state in self.above if state not in kept]
        freed = [self.above.pop(state)[-1:] for state in gone]
        return np.concatenate(freed) if freed else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Part:
    """One question's share of a forward: the next ``prompt`` tokens of its prompt, then nodes.

    Nodes stand after their parents; there are none before the prompt is complete.
    """

    asked: Asked
    prompt: int
    nodes: Sequence[Node]

    @property
    def tokens(self) -> int:
        """The tokens that it adds to the forward."""
        return self.prompt + sum(node.token != NO_TOKEN for node in self.nodes)


class TreeForward:
    """A model with the cache of all trees that are being decoded."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.cache = ColumnCache()

    def score(self, parts: Sequence[Part]) -> None:
        """Run one forward and let each question's tree learn what it says.

        All or nothing: where it fails (out of memory, Ctrl-C) no tree and no question has changed.
        """
        for part in parts:
            check_tokens(self.model, [*part.asked.prompt, *(node.token for node in part.nodes)])
        expansions = [p.asked.tree.expansion([node.state for node in p.nodes]) for p in parts]
        columns = self.cache.take(sum(part.tokens for part in parts))
        try:
            packed = Packed(parts, columns)
            self.cache.aim(columns, self.model.device)
            logits = self.run(packed)
            first, learned = 0, []
            for part, moves in zip(parts, expansions, strict=True):
                rows = slice(first, first + len(part.nodes))
                learned.append(scores_of(logits[rows], moves, part.asked))
                first += len(part.nodes)
        except BaseException:
            self.cache.give_back(columns)
            raise
        packed.settle()
        for part, scores in zip(parts, learned, strict=True):
            part.asked.tree.learn([node.state for node in part.nodes], *scores)

    @torch.inference_mode()
    def run(self, packed: Packed) -> torch.Tensor:
        """Return the logits of all nodes. Shape ``[nodes, vocabulary]``."""
        model, device = self.model, self.model.device
        dtype = float_type(model)
        hidden = torch.from_numpy(~packed.seen(self.cache.width)).to(device)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        mask.masked_fill_(hidden, torch.finfo(dtype).min)
        out: Any = model(
            input_ids=torch.tensor([packed.tokens], device=device),
            attention_mask=mask[None, None],
            position_ids=torch.tensor([packed.positions], device=device),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=torch.tensor(packed.kept, dtype=torch.long, device=device),
        )
        logits: torch.Tensor = out.logits[0]
        return logits

    def keep_only(self, asked: Asked, demand: Demand) -> None:
        """Free the columns of prefixes that a search will never go on from, where it says so."""
        if demand.all_later_below:
            self.cache.give_back(asked.drop_beside(demand.states))

    def forget(self, asked: Asked) -> None:
        """Free a question's columns; it starts from its prompt if it is scored again."""
        self.cache.give_back(asked.all_columns())
        asked.columns = np.empty(0, np.int64)
        asked.above = {asked.tree.start: np.empty(0, np.int64)}


class Packed:
    """The parts of one forward as tokens, positions and what each token sees.

    ``columns``: where each token is cached, in order.
    """

    def __init__(self, parts: Sequence[Part], columns: NDArray[np.int64]) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.kept: list[int] = []  # the tokens whose logits are wanted: one for each node
        self._new: list[tuple[Part, NDArray[np.int64], dict[int, NDArray[np.int64]], int]] = []
        for part in parts:
            asked, first = part.asked, len(self.tokens)
            done = len(asked.columns)
            self.tokens += asked.prompt[done : done + part.prompt]
            self.positions += range(done, done + part.prompt)
            prompt = np.concatenate([asked.columns, columns[first : first + part.prompt]])
            above: dict[int, NDArray[np.int64]] = {}
            for node in part.nodes:
                if node.token == NO_TOKEN:
                    self.kept.append(first + part.prompt - 1)
                    continue
                over = above.get(node.parent)
                over = asked.above[node.parent] if over is None else over
                above[node.state] = np.append(over, columns[len(self.tokens)])
                self.kept.append(len(self.tokens))
                self.tokens.append(node.token)
                self.positions.append(len(asked.prompt) + node.depth - 1)
            self._new.append((part, prompt, above, first))

    def seen(self, width: int) -> NDArray[np.bool_]:
        """Return which columns each token attends to. Shape ``[tokens, width]``."""
        seen = np.zeros((len(self.tokens), width), bool)
        for part, prompt, above, first in self._new:
            count = part.prompt
            run = np.arange(first, first + count)
            seen[np.ix_(run, prompt)] = np.tri(count, len(prompt), len(prompt) - count, dtype=bool)
            nodes = np.arange(first + count, first + count + len(above))
            seen[np.ix_(nodes, prompt)] = True
            for row, columns in zip(nodes.tolist(), above.values(), strict=True):
                seen[row, columns] = True
        return seen

    def settle(self) -> None:
        """Enter the new columns with their questions: the forward is done."""
        for part, prompt, above, _ in self._new:
            part.asked.columns = prompt
            part.asked.above.update(above)


def float_type(model: PreTrainedModel) -> torch.dtype:
    """Return the type of the model's activations.

    It is that of its embeddings, which stay as they are where other weights are quantized.
    """
    dtype = model.get_input_embeddings().weight.dtype
    assert isinstance(dtype, torch.dtype)
    return dtype if dtype.is_floating_point else model.dtype


def check_tokens(model: PreTrainedModel, tokens: Sequence[int]) -> None:
    """Raise ModelError where the model has no embedding of a token.

    A device would fail on it for good, and take every other question with it.
    """
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    _check_highest(max(tokens, default=0), len(weight))


def _check_highest(token: int, known: int) -> None:
    if token >= known:
        raise ModelError(
            f"Token {token} is to be scored, and the model knows only {known}.",
            "The index and the model do not fit: build it again with kgqa precompute-tries.",
        )


@torch.inference_mode()
def log_probabilities(
    logits: torch.Tensor, moves: Expansion, rule: ScoreRule
) -> NDArray[np.float64]:
    """Return the log-probability of each move; ``logits`` has a row for each expanded state.

    Shape of ``logits``: ``[states, vocabulary]``. Raises ModelError where a token lies beyond the
    vocabulary.
    """
    if not len(moves.token):
        return np.empty(0)
    _check_highest(int(moves.token.max()), logits.shape[-1])
    rows = torch.from_numpy(moves.row).to(logits.device)
    picked = logits[rows, torch.from_numpy(moves.token).to(logits.device)].float()
    if rule == "allowed":
        return _renormalised(picked.cpu().numpy().astype(np.float64), moves.row, len(logits))
    most = _LOGITS_AT_ONCE.get(logits.device.type, _LOGITS_AT_ONCE_ELSEWHERE)
    chunks = torch.split(logits, max(1, most // logits.shape[-1]))
    sums = [chunk.float().logsumexp(-1) for chunk in chunks]
    both = torch.cat([picked, *sums]).cpu().numpy().astype(np.float64)  # one transfer
    scores: NDArray[np.float64] = both[: len(picked)] - both[len(picked) :][moves.row]
    return scores


def scores_of(
    logits: torch.Tensor, moves: Expansion, asked: Asked
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the moves' scores by the question's rule, and the log-coverage if it wants that.

    A state's coverage is the share of the whole vocabulary's probability that its moves have.
    Shape of ``logits``: ``[states, vocabulary]``; of the coverage ``[states]``, ``-inf`` without a
    move.
    """
    if not asked.coverage:
        return log_probabilities(logits, moves, asked.rule), None
    over = log_probabilities(logits, moves, "vocabulary")
    top, total = _sums(over, moves.row, len(logits))
    with np.errstate(divide="ignore"):
        covered = top + np.log(total)
    scores = over if asked.rule == "vocabulary" else over - covered[moves.row]
    return scores, np.minimum(covered, 0.0)


def _renormalised(
    logits: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    top, total = _sums(logits, rows, count)
    scores: NDArray[np.float64] = logits - top[rows] - np.log(total[rows])
    return scores


def _sums(
    logits: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each row's highest value, and the sum of the exponentials of what others lack to it.

    A row without a value has 0 and a sum of 0.
    """
    top = np.full(count, -np.inf)
    np.maximum.at(top, rows, logits)
    top[np.isneginf(top)] = 0.0
    total = np.zeros(count)
    np.add.at(total, rows, np.exp(logits - top[rows]))
    return top, total


class TreeScorer:
    """A scorer for one search after one prompt, by trees; used once, then dropped.

    ``budget``: tokens that look-ahead fills a forward up to. For several questions, limits of time
    and memory, and models that trees do not fit, there is :class:`kgqa.decoding.engine.Engine`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompt: Sequence[int],
        constraint: Constraint,
        *,
        rule: ScoreRule = "vocabulary",
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        self._asked = Asked(prompt, PrefixTree(constraint), rule)
        self._forward = TreeForward(model)
        self._budget = budget
        self.forward_passes = 0
        self.scored_tokens = 0  # after the prompt

    @property
    def columns(self) -> int:
        """The tokens that are cached now, the prompt's included."""
        return self._forward.cache.used

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of the demanded states with their log-probabilities."""
        tree = self._asked.tree
        if tree.missing(demand.states):
            rest = len(self._asked.prompt) - len(self._asked.columns)
            states = demand.states
            if rest and tree.start not in states:
                states = (tree.start, *states)
            self._forward.keep_only(self._asked, demand)
            part = Part(self._asked, rest, tree.choose(states, self._budget))
            self._forward.score([part])
            self.forward_passes += 1
            self.scored_tokens += part.tokens - part.prompt
        return tree.scored(demand.states)
