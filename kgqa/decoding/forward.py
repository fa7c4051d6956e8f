"""The model's forward pass: over trees of tokens, or over a batch of whole prefixes.

A token of a tree sees its question's prompt and its ancestors, and its position is its depth.
Children's logits are gathered under one log-sum-exp, so no mask of the vocabulary's size is built.
The attention mask is additive and of the weights' type, right under eager and SDPA alike. Models
unfit for trees (:mod:`kgqa.decoding.capabilities`) take whole prefixes: a row holds the prompt, the
prefix and the forced run after it; nothing is cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch

from kgqa.decoding.model import AttentionBlock, ColumnCache, TreeModel
from kgqa.decoding.speculative_tree import NO_TOKEN, PrefixTree, WaveNode
from kgqa.errors import ModelError
from kgqa.trie.constraint import Expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.search import Demand

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]
T = TypeVar("T")

DEFAULT_BUDGET = 128
DEFAULT_WIDEST = 8_192  # tokens of a batch of whole prefixes, padding included
_FORCED = 64  # the longest forced run that is scored with a whole prefix
# Logits that become float32, and are exponentiated, at a time: copies of 4 MB on a CPU, which its
# caches hold; 128 MB elsewhere, where each further call costs more than memory does.
_LOGITS_AT_ONCE = {"cpu": 1 << 20}
_LOGITS_ELSEWHERE = 1 << 25
# States whose logits are made at a time, if the model lets that be chosen.
_HEADS_AT_ONCE = {"cpu": 24}
_HEADS_ELSEWHERE = 256


def _no_columns() -> NDArray[np.int64]:
    """Return an empty array of cache columns."""
    return np.empty(0, np.int64)


@dataclass(slots=True)
class PromptTree:
    """A prompt, the scored prefixes after it, and the key-value cache columns of both.

    ``rule``: log-probabilities over the vocabulary (GCR), or renormalised over allowed moves (DoG).
    ``coverage``: also learn the total probability of allowed moves. ``columns``: cache columns of
    the prompt's tokens; ``above``: of cached prefixes, by state. Raises ModelError for an empty
    prompt.
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
        """The number of the prompt's last tokens that are not in the cache."""
        return len(self.prompt) - len(self.columns)

    def all_columns(self) -> NDArray[np.int64]:
        """Return every cache column of this prompt and its prefixes."""
        return np.concatenate([self.columns, *(own[-1:] for own in self.above.values())])

    def drop_beside(self, states: Iterable[int]) -> NDArray[np.int64]:
        """Forget all prefixes but ``states``, their ancestors and descendants.

        Return the columns of the forgotten ones.
        """
        tree, below = self.tree, set(states)
        # a prefix above or below a demand is attended to again, all others never are
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
    """One search's part of a forward pass.

    ``prompt``: how many of its uncached prompt tokens to run; ``nodes`` follow them, parents first.
    """

    asked: PromptTree
    prompt: int
    nodes: Sequence[WaveNode]

    @property
    def tokens(self) -> int:
        """The number of tokens that this part adds to the forward pass."""
        return self.prompt + sum(node.token != NO_TOKEN for node in self.nodes)


class TreeForward:
    """Runs a model over token trees; all trees share one key-value cache."""

    def __init__(self, model: PreTrainedModel | TreeModel) -> None:
        self.model = model
        self.cache = ColumnCache()
        self._given: Any = self.cache
        if not isinstance(model, TreeModel):
            from kgqa.decoding.transformers_cache import TransformersCache

            self._given = TransformersCache(self.cache)

    def score(self, parts: Sequence[WavePart]) -> None:
        """Run one forward pass and store the scores in each part's prefix tree.

        If it fails, in none.
        """
        for part in parts:
            check_tokens(self.model, [*part.asked.prompt, *(node.token for node in part.nodes)])
        moves = [part.asked.tree.expansion([node.state for node in part.nodes]) for part in parts]
        counts = [len(part.nodes) for part in parts]
        asked = [part.asked for part in parts]
        joint, rule = joined_moves(moves, counts), joint_rule(asked)
        scores = self._run(
            parts,
            lambda states, head: log_probabilities(states, joint, rule, head),
        )
        starts = np.cumsum([len(move.row) for move in moves])[:-1].tolist()
        each = zip(parts, moves, counts, np.split(scores, starts), strict=True)
        for part, own, count, scored in each:
            learned = by_rule(scored, own, part.asked, rule, count)
            part.asked.tree.learn([node.state for node in part.nodes], *learned)

    def run(self, parts: Sequence[WavePart], read: Callable[[torch.Tensor], T]) -> T:
        """Run one forward pass; return ``read(logits)``, logits being ``[nodes, vocabulary]``."""
        return self._run(parts, lambda states, head: read(head(states) if head else states))

    def clear(self) -> None:
        """Forget everything that is cached."""
        self.cache.clear()

    @torch.inference_mode()
    def _run(
        self,
        parts: Sequence[WavePart],
        read: Callable[[torch.Tensor, Head | None], T],
    ) -> T:
        """Run one pass and return the result of ``read``; free the new cache columns if it fails.

        ``read`` gets the hidden states and the head, or logits and None.
        """
        columns = self.cache.take(sum(part.tokens for part in parts))
        try:
            packed = _Packed(parts, columns)
            self.cache.aim(columns, self.model.device)
            result = read(*self._states(packed))
        except BaseException:  # Ctrl-C in a pass, too, must leave no column that nobody owns
            self.cache.give_back(columns)
            raise
        packed.commit()
        return result

    def _states(self, packed: _Packed) -> tuple[torch.Tensor, Head | None]:
        """Return the nodes' last hidden states and the head for logits, or logits and None."""
        model: Any = self.model
        device = model.device
        if isinstance(model, TreeModel):
            states = model.states(
                packed.tokens, packed.positions, packed.blocks(device), self.cache
            )
            return states[packed.kept], model.logits
        dtype = float_type(model)
        # the smallest finite number, not infinity: a row that sees nothing must not become NaN
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
        """Free the cache of prefixes that are neither on the way to ``demand`` nor below it.

        Do nothing unless the demand promises ``all_later_below``.
        """
        if demand.all_later_below:
            self.cache.give_back(asked.drop_beside(demand.states))

    def forget(self, asked: PromptTree) -> None:
        """Free all cache columns of a prompt and its prefixes; its scores are kept."""
        self.cache.give_back(asked.all_columns())
        asked.columns = _no_columns()
        asked.above = {asked.tree.start: _no_columns()}


class _Packed:
    """The parts of one forward pass as flat lists: tokens, positions, and what each attends to."""

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
                # parents stand before their children, so one of this pass is found here already
                over = above.get(node.parent)
                over = asked.above[node.parent] if over is None else over
                above[node.state] = np.append(over, columns[len(self.tokens)])
                self.kept.append(len(self.tokens))
                self.tokens.append(node.token)
                self.positions.append(len(asked.prompt) + node.depth - 1)
            self._new.append((part, prompt, above, first))

    def seen(self, width: int) -> NDArray[np.bool_]:
        """Return which cache columns each token attends to, a mask ``[tokens, width]``."""
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

    def blocks(self, device: torch.device) -> list[AttentionBlock]:
        """Return the attention block of each part's tokens."""
        rows = []
        for part, prompt, above, first in self._new:
            columns = np.unique(np.concatenate([prompt, *above.values()]))
            count, at = part.prompt, np.searchsorted(columns, prompt)
            seen = np.zeros((count + len(above), len(columns)), bool)
            seen[:count, at] = np.tri(count, len(prompt), len(prompt) - count, dtype=bool)
            seen[count:, at] = True
            for row, own in enumerate(above.values(), count):
                seen[row, np.searchsorted(columns, own)] = True
            if len(seen):
                adjoining = bool(columns[-1] == len(columns) - 1)
                placed, mask = (torch.from_numpy(each).to(device) for each in (columns, seen))
                rows.append(AttentionBlock(first, first + len(seen), placed, mask, adjoining))
        return rows

    def commit(self) -> None:
        """Record the columns written by a finished pass in the prompt trees of its parts."""
        for part, prompt, above, _ in self._new:
            part.asked.columns = prompt
            part.asked.above.update(above)


class PlainForward:
    """Runs a model on batches of whole prefixes, without a tree mask or a kept cache."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def next_batch(self, asked: PromptTree, states: Sequence[int], widest: int) -> list[list[int]]:
        """Return the first of ``states`` to score in one pass, each as a run of states.

        A run is a state and the states that follow it without an alternative. The batch of their
        whole prefixes has at most ``widest`` tokens, padding included, but at least one run.
        """
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
        """Run one forward pass, one row a run; store the scores in the prefix tree."""
        rows = [[*asked.prompt, *asked.tree.prefix(run[-1])] for run in runs]
        for row in rows:
            check_tokens(self.model, row)
        # one pass scores a whole forced run: its tokens have to be read in any case
        # where the last token of each state of a run stands
        places = [
            np.arange(len(row) - len(run), len(row)) for row, run in zip(rows, runs, strict=True)
        ]
        states = [state for run in runs for state in run]
        moves = asked.tree.expansion(states)
        rule = joint_rule([asked])
        first = min(int(at[0]) for at in places)
        logits = self.run(rows, first)
        number = torch.from_numpy(np.repeat(np.arange(len(runs)), [len(run) for run in runs]))
        place = torch.from_numpy(np.concatenate(places) - first)
        picked = logits[number.to(logits.device), place.to(logits.device)]
        scores = log_probabilities(picked, moves, rule)
        asked.tree.learn(states, *by_rule(scores, moves, asked, rule, len(states)))

    @torch.inference_mode()
    def run(self, rows: Sequence[Sequence[int]], first: int) -> torch.Tensor:
        """Return the logits at the positions from ``first`` on: ``[rows, positions, vocabulary]``.

        Rows are token ids, padded on the right; logits of padding are meaningless.
        """
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
    """Return the dtype of the embeddings: that of activations, even if weights are quantized."""
    dtype = model.get_input_embeddings().weight.dtype
    assert isinstance(dtype, torch.dtype)
    return dtype if dtype.is_floating_point else model.dtype


def check_tokens(model: PreTrainedModel | TreeModel, tokens: Sequence[int]) -> None:
    """Raise ModelError for a token id without an embedding, which would crash a GPU for good."""
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    _check_highest(max(tokens, default=0), len(weight))


def _check_highest(token: int, known: int) -> None:
    """Raise ModelError if ``token`` is not below the number of ``known`` tokens."""
    if token >= known:
        raise ModelError(
            f"Token {token} is to be scored, and the model knows only {known}.",
            "The index and the model do not fit: build it again with kgqa precompute-tries.",
        )


_StateScores: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64] | None]"
Head: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"


def joined_moves(moves: Sequence[Expansion], counts: Sequence[int]) -> Expansion:
    """Return the moves of several prompts joined, rows shifted by each one's number of states."""
    first = np.cumsum([0, *counts[:-1]])
    rows = [move.row + start for move, start in zip(moves, first, strict=True)]
    return Expansion(
        np.concatenate(rows),
        np.concatenate([move.token for move in moves]),
        np.concatenate([move.state for move in moves]),
    )


def joint_rule(asked: Sequence[PromptTree]) -> ScoreRule:
    """Return the rule to score a shared pass by: "allowed" only if every prompt needs just that.

    :func:`by_rule` converts the scores to each prompt's own rule.
    """
    only = all(tree.rule == "allowed" and not tree.coverage for tree in asked)
    return "allowed" if only else "vocabulary"


def by_rule(
    scores: NDArray[np.float64], moves: Expansion, asked: PromptTree, rule: ScoreRule, states: int
) -> _StateScores:
    """Convert scores under ``rule`` to the prompt's rule; also return log-coverage.

    Coverage has shape ``[states]``, ``-inf`` for a state without a move; None if the prompt does
    not want it.
    """
    if asked.rule == rule and not asked.coverage:
        return scores, None
    covered = _log_sums(scores, moves.row, states)
    if asked.rule == "allowed":
        scores = scores - covered[moves.row]
    return scores, np.minimum(covered, 0.0) if asked.coverage else None


@torch.inference_mode()
def log_probabilities(
    states: torch.Tensor,
    moves: Expansion,
    rule: ScoreRule,
    head: Head | None = None,
) -> NDArray[np.float64]:
    """Return the log-probability of each move under ``rule``. Raises ModelError.

    ``states``: logits ``[states, vocabulary]``, or hidden states that ``head`` turns into logits,
    in slices, so that the logits of all states are never held at once.
    """
    if not len(moves.token):
        return np.empty(0)
    device = states.device
    where = torch.from_numpy(np.stack([moves.row, moves.token])).to(device)
    if head is None:
        size = max(1, _LOGITS_AT_ONCE.get(device.type, _LOGITS_ELSEWHERE) // states.shape[-1])
    else:
        size = _HEADS_AT_ONCE.get(device.type, _HEADS_ELSEWHERE)
    starts = range(0, len(states), size)
    ends = np.searchsorted(moves.row, [*starts, len(states)]).tolist()
    highest, picked, sums = int(moves.token.max()), [], []
    for start, first, last in zip(starts, ends, ends[1:], strict=False):
        some = states[start : start + size]
        logits = some if head is None else head(some)
        _check_highest(highest, logits.shape[-1])
        rows, tokens = where[:, first:last]
        picked.append(logits[rows - start, tokens].float())
        if rule == "vocabulary":
            sums.append(logits.float().logsumexp(-1))
    both = torch.cat([*picked, *sums]).cpu().numpy().astype(np.float64)  # the only wait
    if not (both < np.inf).all():
        raise ModelError(
            "The model gives no numbers for what it may write.",
            "Its weights or its adapter's are damaged: get them again.",
        )
    own = both[: len(moves.row)]
    total = both[len(own) :] if rule == "vocabulary" else _log_sums(own, moves.row, len(states))
    scores: NDArray[np.float64] = own - total[moves.row]
    return scores


def _log_sums(
    values: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return the log-sum-exp of ``values`` with equal ``rows``, ``[count]``.

    -inf for an empty row.
    """
    top = np.full(count, -np.inf)
    np.maximum.at(top, rows, values)
    top[np.isneginf(top)] = 0.0
    total = np.zeros(count)
    np.add.at(total, rows, np.exp(values - top[rows]))
    with np.errstate(divide="ignore"):
        sums: NDArray[np.float64] = top + np.log(total)
    return sums
