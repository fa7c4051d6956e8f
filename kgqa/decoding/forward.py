"""The model's forward pass: over trees of tokens, or over a batch of whole prefixes.

A token of a tree sees its question's prompt and its ancestors, and its position is its depth.
Children's logits are gathered under one log-sum-exp, so no mask of the vocabulary's size is built.
The attention mask is additive and of the weights' type, right under eager and SDPA alike. Models
unfit for trees (:mod:`kgqa.decoding.capabilities`) take whole prefixes: a row holds the prompt, the
prefix and the forced run after it; nothing is cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from kgqa.decoding.arrays import on_device, on_host
from kgqa.decoding.model import AttentionBlock, ColumnCache, TreeModel
from kgqa.decoding.scores import (
    Head,
    ScoreRule,
    by_rule,
    check_highest,
    gathered,
    log_probabilities,
    moves_of,
    scores_of,
)
from kgqa.decoding.speculative_tree import NO_TOKEN, PrefixTree, WaveNode
from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.search import Demand

T = TypeVar("T")

DEFAULT_BUDGET = 128
DEFAULT_WIDEST = 8_192  # tokens of a batch of whole prefixes, padding included
_FORCED = 64  # the longest forced run that is scored with a whole prefix
_NO_COLUMN = -1  # of the start, which has no token of its own
_LAST = np.int32(np.iinfo(np.int32).max)


def _no_columns() -> NDArray[np.int64]:
    """Return an empty array of cache columns."""
    return np.empty(0, np.int64)


@dataclass(slots=True)
class PromptTree:
    """A prompt, the scored prefixes after it, and the key-value cache columns of both.

    ``rule``: log-probabilities over the vocabulary (GCR), or renormalised over allowed moves (DoG).
    ``coverage``: also learn the total probability of allowed moves. ``columns``: cache columns of
    the prompt's tokens; ``cached``: of cached prefixes, parents first, the column of the last token
    and the parent's state, by state. Raises ModelError for an empty prompt.
    """

    prompt: Sequence[int]
    tree: PrefixTree
    rule: ScoreRule = "vocabulary"
    columns: NDArray[np.int64] = field(default_factory=_no_columns)
    cached: dict[int, tuple[int, int]] = field(default_factory=dict)
    coverage: bool = False

    def __post_init__(self) -> None:
        if not len(self.prompt):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        self.cached[self.tree.start] = _NO_COLUMN, self.tree.start

    @property
    def uncached(self) -> int:
        """The number of the prompt's last tokens that are not in the cache."""
        return len(self.prompt) - len(self.columns)

    def all_columns(self) -> NDArray[np.int64]:
        """Return every cache column of this prompt and its prefixes."""
        own = [column for column, _ in self.cached.values() if column != _NO_COLUMN]
        return np.concatenate([self.columns, np.array(own, np.int64)])

    def columns_to(self, state: int) -> NDArray[np.int64]:
        """Return the cache columns of the prompt and of the cached prefixes down to ``state``."""
        own: list[int] = []
        while state != self.tree.start:
            column, state = self.cached[state]
            own.append(column)
        return np.concatenate([self.columns, np.array(own[::-1], np.int64)])

    def drop_beside(self, states: Iterable[int]) -> NDArray[np.int64]:
        """Forget all prefixes but ``states``, their ancestors and descendants.

        Return the columns of the forgotten ones.
        """
        tree, kept = self.tree, set(states)
        # a prefix above or below a demand is attended to again, all others never are
        for state, (_, parent) in self.cached.items():  # parents stand before their children
            if parent in kept and state != tree.start:
                kept.add(state)
        kept.add(tree.start)
        for state in states:
            above = tree.node(state).parent
            while above not in kept:
                kept.add(above)
                above = tree.node(above).parent
        gone = [state for state in self.cached if state not in kept]
        return np.array([self.cached.pop(state)[0] for state in gone], np.int64)


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
        self.begin(parts)()

    def begin(self, parts: Sequence[WavePart]) -> Callable[[], None]:
        """Begin one forward pass; return a function that waits for it and stores the scores.

        Passes are finished in the order in which they were begun. If one fails, no prefix tree is
        changed.
        """
        for part in parts:
            prompt = part.asked.prompt if part.prompt else ()
            check_tokens(self.model, [*prompt, *(node.token for node in part.nodes)])
        states = [[node.state for node in part.nodes] for part in parts]
        allowed = [part.asked.tree.allowed(own) for part, own in zip(parts, states, strict=True)]
        joint, rule = moves_of([*chain(*allowed)]), joint_rule([part.asked for part in parts])
        found, packed = self._run(
            parts, lambda states, head: on_host(gathered(states, joint, rule, head))
        )

        def finish() -> None:
            """Wait for the pass, and store its scores in each part's prefix tree."""
            try:
                scores = scores_of(found(), joint, rule, sum(map(len, states)))
            except BaseException:  # Ctrl-C, too, must leave no column that nobody owns
                self.cache.give_back(packed.columns)
                raise
            packed.commit()
            done = 0
            for part, own, tokens in zip(parts, states, allowed, strict=True):
                last = done + sum(map(len, tokens))
                learn(part.asked, own, tokens, scores[done:last], rule)
                done = last

        return finish

    def run(self, parts: Sequence[WavePart], read: Callable[[torch.Tensor], T]) -> T:
        """Run one forward pass; return ``read(logits)``, logits being ``[nodes, vocabulary]``."""
        result, packed = self._run(
            parts, lambda states, head: read(head(states) if head else states)
        )
        packed.commit()
        return result

    def clear(self) -> None:
        """Forget everything that is cached."""
        self.cache.clear()

    def release(self) -> None:
        """Free what only makes passes faster, after memory has run out."""

    @torch.inference_mode()
    def _run(
        self,
        parts: Sequence[WavePart],
        read: Callable[[torch.Tensor, Head | None], T],
    ) -> tuple[T, PackedPass]:
        """Run one pass; return the result of ``read``, and the pass, which is to be committed.

        Its cache columns are freed if it fails. ``read`` gets the hidden states and the head, or
        logits and None.
        """
        columns = self.cache.take(sum(part.tokens for part in parts))
        try:
            packed = PackedPass(parts, columns)
            self.cache.aim(columns)
            result = read(*self._states(packed))
        except BaseException:  # Ctrl-C in a pass, too, must leave no column that nobody owns
            self.cache.give_back(columns)
            raise
        return result, packed

    def _states(self, packed: PackedPass) -> tuple[torch.Tensor, Head | None]:
        """Return the nodes' last hidden states and the head for logits, or logits and None."""
        model: Any = self.model
        device = model.device
        if isinstance(model, TreeModel):
            states = model.states(
                packed.tokens, packed.positions, packed.blocks(device), self.cache
            )
            kept = on_device(np.array(packed.kept, np.int64), device)
            return states.index_select(0, kept), model.logits
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
        asked.cached = {asked.tree.start: (_NO_COLUMN, asked.tree.start)}


@dataclass(frozen=True, slots=True)
class PackedPart:
    """The tokens of one part of a pass, and the cache columns that any of them attends to.

    Tokens and columns stand in one order, in which a token attends to the columns that begin at or
    before its place and end after it: the prompt, then the prefixes depth first, so that what is
    below a prefix is a range. ``first``: the first token's row in the pass. ``places``: of the
    tokens; ``columns`` of the cache, with their ``begins`` and ``ends``.
    """

    first: int
    places: NDArray[np.int32]
    columns: NDArray[np.int64]
    begins: NDArray[np.int32]
    ends: NDArray[np.int32]

    def seen(self, order: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Return which of the columns in ``order`` each token attends to, ``[tokens, columns]``."""
        places = self.places[:, None]
        seen: NDArray[np.bool_] = (self.begins[order] <= places) & (places < self.ends[order])
        return seen


class PackedPass:
    """The parts of one forward pass as flat lists: tokens, positions, and what each attends to.

    ``kept``: the tokens whose logits are wanted, one for each node. ``columns``: where the cache
    takes the tokens' keys and values.
    """

    def __init__(self, parts: Sequence[WavePart], columns: NDArray[np.int64]) -> None:
        self.columns = columns
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.kept: list[int] = []
        self.parts: list[PackedPart] = []
        self._new: list[tuple[WavePart, NDArray[np.int64], dict[int, tuple[int, int]]]] = []
        free = columns.tolist()
        for part in parts:
            first, done = len(self.tokens), len(part.asked.columns)
            self.tokens += part.asked.prompt[done : done + part.prompt]
            self.positions += range(done, done + part.prompt)
            start = len(part.asked.prompt) - 1
            nodes: dict[int, tuple[int, int]] = {}
            for state, token, parent, depth in part.nodes:
                if token == NO_TOKEN:
                    self.kept.append(first + part.prompt - 1)
                    continue
                nodes[state] = free[len(self.tokens)], parent
                self.kept.append(len(self.tokens))
                self.tokens.append(token)
                self.positions.append(start + depth)
            prompt = np.concatenate([part.asked.columns, columns[first : first + part.prompt]])
            self._new.append((part, prompt, nodes))
            if len(self.tokens) > first:
                self.parts.append(_packed_part(part.asked, first, part.prompt, prompt, nodes))

    def seen(self, width: int) -> NDArray[np.bool_]:
        """Return which cache columns each token attends to, a mask ``[tokens, width]``."""
        seen = np.zeros((len(self.tokens), width), bool)
        for part in self.parts:
            rows = np.arange(part.first, part.first + len(part.places))
            seen[np.ix_(rows, part.columns)] = part.seen(slice(None))
        return seen

    def blocks(self, device: torch.device) -> list[AttentionBlock]:
        """Return the attention block of each part's tokens."""
        rows = []
        for part in self.parts:
            order = np.argsort(part.columns)
            columns, last = part.columns[order], part.first + len(part.places)
            adjoining = bool(columns[-1] == len(columns) - 1)
            placed, mask = (on_device(each, device) for each in (columns, part.seen(order)))
            rows.append(AttentionBlock(part.first, last, placed, mask, adjoining))
        return rows

    def commit(self) -> None:
        """Record the columns written by a finished pass in the prompt trees of its parts."""
        for part, prompt, nodes in self._new:
            part.asked.columns = prompt
            part.asked.cached.update(nodes)


def _packed_part(
    asked: PromptTree,
    first: int,
    run: int,
    prompt: NDArray[np.int64],
    nodes: Mapping[int, tuple[int, int]],
) -> PackedPart:
    """Return the part whose tokens are the last ``run`` of the prompt's, then ``nodes``.

    ``prompt``: the columns of the prompt's tokens so far, these included; ``nodes``: column and
    parent of each new prefix, by state, parents first.
    """
    columns, parents = zip(*asked.cached.values(), *nodes.values(), strict=True)
    number = dict(zip(chain(asked.cached, nodes), range(len(parents)), strict=True))
    # the start, the first of all, has itself as its parent, and stands for the prompt's end
    before, after = depth_first([number[parent] for parent in parents])
    own = np.array(columns[1:], np.int64)
    read = len(prompt)
    begins, ends = np.arange(read + len(own), dtype=np.int32), np.full(read + len(own), _LAST)
    begins[read:] = np.array(before[1:], np.int32) + read
    ends[read:] = np.array(after[1:], np.int32) + read
    new = np.concatenate([begins[read - run : read], begins[len(begins) - len(nodes) :]])
    return PackedPart(first, new, np.concatenate([prompt, own]), begins, ends)


def depth_first(parents: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return each node's place in depth-first order, and the place after all nodes below it.

    ``parents``: each node's parent by number, which is lower than its own; the root, number 0, is
    its own parent.
    """
    size = [1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        size[parents[node]] += size[node]
    before, free = [0] * len(parents), [1] * len(parents)
    for node in range(1, len(parents)):
        parent = parents[node]
        place = before[node] = free[parent]
        free[parent] = place + size[node]
        free[node] = place + 1
    return before, [place + below for place, below in zip(before, size, strict=True)]


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
        allowed = asked.tree.allowed(states)
        moves, rule = moves_of(allowed), joint_rule([asked])
        first = min(int(at[0]) for at in places)
        logits = self.run(rows, first)
        number = torch.from_numpy(np.repeat(np.arange(len(runs)), [len(run) for run in runs]))
        place = torch.from_numpy(np.concatenate(places) - first)
        picked = logits[number.to(logits.device), place.to(logits.device)]
        scores = log_probabilities(picked, moves, rule)
        learn(asked, states, allowed, scores, rule)

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
    check_highest(max(tokens, default=0), len(weight))


def joint_rule(asked: Sequence[PromptTree]) -> ScoreRule:
    """Return the rule to score a shared pass by: "allowed" only if every prompt needs just that.

    :func:`kgqa.decoding.scores.by_rule` converts the scores to each prompt's own rule.
    """
    only = all(tree.rule == "allowed" and not tree.coverage for tree in asked)
    return "allowed" if only else "vocabulary"


def learn(
    asked: PromptTree,
    states: Sequence[int],
    allowed: Sequence[Sequence[int]],
    scores: NDArray[np.float64],
    rule: ScoreRule,
) -> None:
    """Store the scores under ``rule`` of the ``allowed`` moves out of ``states``, by their rule."""
    covered = None
    if asked.coverage or asked.rule != rule:
        moves, wanted = moves_of(allowed), asked.rule
        scores, covered = by_rule(
            scores, moves, len(states), given=rule, wanted=wanted, coverage=asked.coverage
        )
    asked.tree.learn(states, scores, covered)
