"""The model's forward pass: over trees of tokens, or over whole prefixes one beside the other.

A token of a tree sees its question's prompt and its ancestors, and its position is its depth.
Children's logits are gathered under one log-sum-exp, so no mask of the vocabulary's size is built.
The attention mask is additive and of the weights' type, right under eager and SDPA alike. Models
unfit for trees (:mod:`kgqa.decoding.probe`) take whole prefixes: a row holds the prompt, the prefix
and the forced run after it; nothing is cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch

from kgqa.decoding.cache import ColumnCache
from kgqa.decoding.model import Sight, TreeModel
from kgqa.decoding.wave import NO_TOKEN, PrefixTree
from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.search import Demand
    from kgqa.decoding.wave import WaveNode
    from kgqa.trie.constraint import Expansion

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]
T = TypeVar("T")

DEFAULT_BUDGET = 128
DEFAULT_WIDEST = 8_192  # tokens of a batch of whole prefixes, padding included
_FORCED = 64  # the longest forced run that is scored with a whole prefix
# Logits that become float32, and are exponentiated, at a time: copies of 4 MB on a CPU, which its
# caches hold; 128 MB elsewhere, where each further call costs more than memory does.
_LOGITS_AT_ONCE = {"cpu": 1 << 20}
_LOGITS_AT_ONCE_ELSEWHERE = 1 << 25
_HEADS = 24  # states whose logits are made at a time, if the model lets that be chosen


def _no_columns() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class PromptTree:
    """A prompt with what is known of the prefixes after it, and where its tokens are cached.

    ``rule``: log-probabilities over the vocabulary (GCR), or renormalised over allowed moves (DoG).
    ``coverage``: learn the allowed share. ``columns``: the prompt's places in the cache, ``above``:
    those of cached prefixes. Raises ModelError for an empty prompt.
    """

    prompt: Sequence[int]
    tree: PrefixTree
    rule: ScoreRule = "vocabulary"
    columns: NDArray[np.int64] = field(default_factory=_no_columns)
    above: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    coverage: bool = False

    def __post_init__(self) -> None:
        if not len(self.prompt):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        self.above[self.tree.start] = _no_columns()

    @property
    def uncached(self) -> int:
        """How many of the prompt's last tokens are still to be run."""
        return len(self.prompt) - len(self.columns)

    def all_columns(self) -> NDArray[np.int64]:
        """Return every column of the cache that this question owns."""
        return np.concatenate([self.columns, *(own[-1:] for own in self.above.values())])

    def drop_beside(self, states: Iterable[int]) -> NDArray[np.int64]:
        """Forget, and return, the columns of prefixes that are not above or below ``states``."""
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
        return np.concatenate([_no_columns(), *(self.above.pop(state)[-1:] for state in gone)])


@dataclass(frozen=True, slots=True)
class WavePart:
    """One question's part of a forward pass: ``prompt`` more tokens, then nodes, parents first."""

    asked: PromptTree
    prompt: int
    nodes: Sequence[WaveNode]

    @property
    def tokens(self) -> int:
        """The tokens that it adds to the forward pass."""
        return self.prompt + sum(node.token != NO_TOKEN for node in self.nodes)


class TreeForward:
    """A model with the cache of all trees that are being decoded."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.cache = ColumnCache()
        self._given: Any = self.cache
        if not isinstance(model, TreeModel):
            from kgqa.decoding.transformers_cache import TransformersCache

            self._given = TransformersCache(self.cache)

    def score(self, parts: Sequence[WavePart]) -> None:
        """Run one forward pass and let each question's tree learn what it says, all or nothing."""
        for part in parts:
            check_tokens(self.model, [*part.asked.prompt, *(node.token for node in part.nodes)])
        expansions = [p.asked.tree.expansion([node.state for node in p.nodes]) for p in parts]
        ends = np.cumsum([len(part.nodes) for part in parts])[:-1].tolist()

        def scores(states: torch.Tensor, head: Head | None) -> list[_StateScores]:
            rows = states.tensor_split(ends)
            each = zip(rows, expansions, parts, strict=True)
            return [scores_of(some, moves, part.asked, head) for some, moves, part in each]

        for part, learned in zip(parts, self._run(parts, scores), strict=True):
            part.asked.tree.learn([node.state for node in part.nodes], *learned)

    def run(self, parts: Sequence[WavePart], read: Callable[[torch.Tensor], T]) -> T:
        """Run one pass; return ``read`` of the logits ``[nodes, vocabulary]``."""
        return self._run(parts, lambda states, head: read(head(states) if head else states))

    @torch.inference_mode()
    def _run(self, parts: Sequence[WavePart], read: Callable[[torch.Tensor, Head | None], T]) -> T:
        columns = self.cache.take(sum(part.tokens for part in parts))
        try:
            packed = _Packed(parts, columns)
            self.cache.aim(columns, self.model.device)
            result = read(*self._states(packed))
        except BaseException:
            self.cache.give_back(columns)
            raise
        packed.settle()
        return result

    def _states(self, packed: _Packed) -> tuple[torch.Tensor, Head | None]:
        """Return the nodes' last states and what makes logits of them, or logits and None."""
        model: Any = self.model
        device = model.device
        if isinstance(model, TreeModel):
            states = model.states(packed.tokens, packed.positions, packed.sights(), self.cache)
            return states[packed.kept], model.logits
        dtype = float_type(model)
        hidden = torch.from_numpy(~packed.seen(self.cache.width)).to(device)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        mask.masked_fill_(hidden, torch.finfo(dtype).min)
        out: Any = model(
            input_ids=torch.tensor([packed.tokens], device=device),
            attention_mask=mask[None, None],
            position_ids=torch.tensor([packed.positions], device=device),
            past_key_values=self._given,
            use_cache=True,
            logits_to_keep=torch.tensor(packed.kept, dtype=torch.long, device=device),
        )
        logits: torch.Tensor = out.logits[0]
        return logits, None

    def keep_only(self, asked: PromptTree, demand: Demand) -> None:
        """Free the columns of prefixes that a search will never go on from, if it says so."""
        if demand.all_later_below:
            self.cache.give_back(asked.drop_beside(demand.states))

    def forget(self, asked: PromptTree) -> None:
        """Free a question's columns; it starts from its prompt if it is scored again."""
        self.cache.give_back(asked.all_columns())
        asked.columns = _no_columns()
        asked.above = {asked.tree.start: _no_columns()}


class _Packed:
    def __init__(self, parts: Sequence[WavePart], columns: NDArray[np.int64]) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.kept: list[int] = []  # the tokens whose logits are wanted: one for each node
        self._new: list[tuple[WavePart, NDArray[np.int64], dict[int, NDArray[np.int64]], int]] = []
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

    def sights(self) -> list[Sight]:
        """Return what each question's tokens attend to."""
        found = []
        for part, prompt, above, first in self._new:
            columns = np.unique(np.concatenate([prompt, *above.values()]))
            count, at = part.prompt, np.searchsorted(columns, prompt)
            seen = np.zeros((count + len(above), len(columns)), bool)
            seen[:count, at] = np.tri(count, len(prompt), len(prompt) - count, dtype=bool)
            seen[count:, at] = True
            for row, own in enumerate(above.values(), count):
                seen[row, np.searchsorted(columns, own)] = True
            if len(seen):
                stop = first + len(seen)
                found.append(Sight(first, stop, torch.from_numpy(columns), torch.from_numpy(seen)))
        return found

    def settle(self) -> None:
        """Enter the new columns with their questions: the forward pass is done."""
        for part, prompt, above, _ in self._new:
            part.asked.columns = prompt
            part.asked.above.update(above)


class PlainForward:
    """A model that is run on whole prefixes."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def next_batch(self, asked: PromptTree, states: Sequence[int], widest: int) -> list[list[int]]:
        """Return the first of ``states``, with forced runs, that fit ``widest`` tokens."""
        runs: list[list[int]] = []
        longest = 0
        for state in states:
            run = [state, *asked.tree.forced_run(state, _FORCED)]
            length = len(asked.prompt) + asked.tree.node(run[-1]).depth
            if runs and max(longest, length) * (len(runs) + 1) > widest:
                break
            longest = max(longest, length)
            runs.append(run)
        return runs

    def score(self, asked: PromptTree, runs: Sequence[Sequence[int]]) -> None:
        """Run one forward pass, a row for each run, and let the tree learn. All or nothing."""
        rows = [[*asked.prompt, *asked.tree.prefix(run[-1])] for run in runs]
        for row in rows:
            check_tokens(self.model, row)
        # where the last token of each state of a run stands
        places = [
            np.arange(len(row) - len(run), len(row)) for row, run in zip(rows, runs, strict=True)
        ]
        states = [state for run in runs for state in run]
        moves = asked.tree.expansion(states)
        first = min(int(at[0]) for at in places)
        logits = self.run(rows, first)
        number = torch.from_numpy(np.repeat(np.arange(len(runs)), [len(run) for run in runs]))
        place = torch.from_numpy(np.concatenate(places) - first)
        picked = logits[number.to(logits.device), place.to(logits.device)]
        asked.tree.learn(states, *scores_of(picked, moves, asked))

    @torch.inference_mode()
    def run(self, rows: Sequence[Sequence[int]], first: int) -> torch.Tensor:
        """Return the logits from ``first`` on: ``[rows, positions, vocabulary]``, padded right."""
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        device = self.model.device
        out: Any = self.model(
            input_ids=ids.to(device),
            use_cache=False,
            logits_to_keep=torch.arange(first, longest, device=device),
        )
        logits: torch.Tensor = out.logits
        return logits


def float_type(model: PreTrainedModel) -> torch.dtype:
    """Return the type of the embeddings: that of activations even if weights are quantized."""
    dtype = model.get_input_embeddings().weight.dtype
    assert isinstance(dtype, torch.dtype)
    return dtype if dtype.is_floating_point else model.dtype


def check_tokens(model: PreTrainedModel, tokens: Sequence[int]) -> None:
    """Raise ModelError for a token without an embedding, which would break a device for good."""
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    _check_highest(max(tokens, default=0), len(weight))


def _check_highest(token: int, known: int) -> None:
    if token >= known:
        raise ModelError(
            f"Token {token} is to be scored, and the model knows only {known}.",
            "The index and the model do not fit: build it again with kgqa precompute-tries.",
        )


_StateScores: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64] | None]"
Head: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"


def scores_of(
    states: torch.Tensor, moves: Expansion, asked: PromptTree, head: Head | None = None
) -> _StateScores:
    """Return the moves' scores by the question's rule, and the log-coverage if it wants that.

    ``states`` as in :func:`log_probabilities`; coverage: ``[states]``, ``-inf`` without a move.
    """
    if not asked.coverage:
        return log_probabilities(states, moves, asked.rule, head), None
    scores = log_probabilities(states, moves, "vocabulary", head)
    covered = _log_sums(scores, moves.row, len(states))
    if asked.rule == "allowed":
        scores = scores - covered[moves.row]
    return scores, np.minimum(covered, 0.0)


@torch.inference_mode()
def log_probabilities(
    states: torch.Tensor, moves: Expansion, rule: ScoreRule, head: Head | None = None
) -> NDArray[np.float64]:
    """Return moves' log-probabilities. Raises ModelError.

    ``states`` are logits ``[states, vocabulary]``, or what ``head`` makes them of, some at a time.
    """
    if not len(moves.token):
        return np.empty(0)
    if head is not None:
        return _by_head(states, moves, rule, head)
    logits = states
    _check_highest(int(moves.token.max()), logits.shape[-1])
    rows = torch.from_numpy(moves.row).to(logits.device)
    picked = logits[rows, torch.from_numpy(moves.token).to(logits.device)].float()
    if rule == "allowed":
        own = picked.cpu().numpy().astype(np.float64)
        renormalised: NDArray[np.float64] = own - _log_sums(own, moves.row, len(logits))[moves.row]
        return renormalised
    most = _LOGITS_AT_ONCE.get(logits.device.type, _LOGITS_AT_ONCE_ELSEWHERE)
    chunks = torch.split(logits, max(1, most // logits.shape[-1]))
    sums = [chunk.float().logsumexp(-1) for chunk in chunks]
    both = torch.cat([picked, *sums]).cpu().numpy().astype(np.float64)  # one transfer
    scores: NDArray[np.float64] = both[: len(picked)] - both[len(picked) :][moves.row]
    return scores


def _by_head(
    states: torch.Tensor, moves: Expansion, rule: ScoreRule, head: Head
) -> NDArray[np.float64]:
    found: list[NDArray[np.float64]] = []
    starts = range(0, len(states), _HEADS)
    ends = np.searchsorted(moves.row, [*starts, len(states)]).tolist()
    for start, first, last in zip(starts, ends, ends[1:], strict=False):
        own = slice(first, last)
        rows = moves.row[own] - start
        part = replace(moves, row=rows, token=moves.token[own], state=moves.state[own])
        found.append(log_probabilities(head(states[start : start + _HEADS]), part, rule))
    return np.concatenate(found)


def _log_sums(
    values: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    top = np.full(count, -np.inf)
    np.maximum.at(top, rows, values)
    top[np.isneginf(top)] = 0.0
    total = np.zeros(count)
    np.add.at(total, rows, np.exp(values - top[rows]))
    with np.errstate(divide="ignore"):
        sums: NDArray[np.float64] = top + np.log(total)
    return sums
