"""The probabilities of what follows a text: of the whole vocabulary, or of a constraint's moves.

Texts that begin alike share the places of their tokens in the cache. A place that was given back is
known by its stamp, and such a token run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from kgqa.deadline import check_deadline
from kgqa.decoding.forward import (
    DEFAULT_BUDGET,
    DEFAULT_WIDEST,
    PlainForward,
    PromptTree,
    TreeForward,
    WavePart,
)
from kgqa.decoding.wave import NoConstraint, PrefixTree
from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.decoding.forward import ScoreRule
    from kgqa.decoding.search import Demand, Scored
    from kgqa.trie.constraint import Constraint

_NONE = np.empty(0, np.int64)
_PIECE = 1_024  # tokens of a prompt that are run between two looks at the time


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Tokens, prompt included; ``columns`` of the first in the cache, ``stamps`` of their use."""

    tokens: tuple[int, ...]
    columns: NDArray[np.int64]
    stamps: NDArray[np.int64]

    def extended(self, tokens: Sequence[int]) -> Text:
        """Return the text with ``tokens`` at its end, which are not run yet."""
        return Text((*self.tokens, *tokens), self.columns, self.stamps)


class TextForward:
    """A model with the cache of all texts that are being written, for one thread.

    ``trees``: whether the model can run them, else texts are run whole. ``budget``: tokens that
    look-ahead fills.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        trees: bool = True,
        budget: int = DEFAULT_BUDGET,
        widest: int = DEFAULT_WIDEST,
    ) -> None:
        self.budget = budget
        self.widest = widest
        self.forward_passes = 0
        self.tree = TreeForward(model) if trees else None
        self.plain = PlainForward(model)
        self._stamps = _NONE  # of each column, 0 if nobody owns it
        self._last_stamp = 0

    def text(self, tokens: Sequence[int]) -> Text:
        """Return a text of which nothing was run. Raises ModelError if it has no token."""
        if not len(tokens):
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        return Text(tuple(tokens), _NONE, _NONE)

    @torch.inference_mode()
    def following(self, texts: Sequence[Text]) -> tuple[list[Text], torch.Tensor]:
        """Return the texts, now run, and next log-probabilities ``[texts, vocabulary]``."""
        self.forward_passes += 1
        check_deadline()
        if self.tree is None:
            rows = [text.tokens for text in texts]
            first = min(map(len, rows)) - 1
            logits = self.plain.run(rows, first)
            last = torch.tensor([len(row) - 1 - first for row in rows], device=logits.device)
            picked = logits[torch.arange(len(rows), device=logits.device), last]
            return list(texts), _log_softmax(picked)
        asked = [self._asked(text, NoConstraint(), "vocabulary") for text in texts]
        for tree in asked:  # the last token is run again if it was before: its logits are gone
            tree.columns = tree.columns[: len(tree.prompt) - 1]
            self.begin(tree)
        parts = [WavePart(tree, tree.uncached, [tree.tree.node(tree.tree.start)]) for tree in asked]
        scores = self.tree.run(parts, _log_softmax)
        self.own(np.concatenate([tree.columns for tree in asked]))
        return [self.cached(tuple(tree.prompt), tree.columns) for tree in asked], scores

    def begin(self, asked: PromptTree) -> None:
        """Run a long prompt but for its last piece. Raises what limits this work."""
        check_deadline()
        while self.tree is not None and asked.uncached > _PIECE:
            self.tree.run([WavePart(asked, _PIECE, [])], _log_softmax)
            self.own(asked.columns)
            check_deadline()

    def scorer(self, text: Text, constraint: Constraint, rule: ScoreRule) -> SpanScorer:
        """Return what scores a search under ``constraint`` after ``text``."""
        return SpanScorer(self, self._asked(text, constraint, rule))

    def keep(self, texts: Iterable[Text]) -> None:
        """Give back the cache of every token that is not in one of ``texts``."""
        if self.tree is None:
            return
        gone = self._stamps > 0
        for text in texts:
            gone[text.columns[: self._valid(text)]] = False
        columns = np.flatnonzero(gone)
        self.tree.cache.give_back(columns)
        self._stamps[columns] = 0

    def _asked(self, text: Text, constraint: Constraint, rule: ScoreRule) -> PromptTree:
        columns = text.columns[: self._valid(text)]
        return PromptTree(text.tokens, PrefixTree(constraint), rule, columns)

    def _valid(self, text: Text) -> int:
        # a column may have been given back and taken again by another text: the stamp tells
        other = np.flatnonzero(self._stamps[text.columns] != text.stamps)
        return int(other[0]) if len(other) else len(text.columns)

    def own(self, columns: NDArray[np.int64]) -> None:
        """Stamp those of ``columns`` that were written now."""
        if not len(columns):
            return
        missing = int(columns.max()) + 1 - len(self._stamps)
        if missing > 0:
            self._stamps = np.concatenate([self._stamps, np.zeros(missing, np.int64)])
        # only columns without a stamp are new; a chain that shares older ones keeps them valid
        new = columns[self._stamps[columns] == 0]
        self._last_stamp += 1
        self._stamps[new] = self._last_stamp

    def cached(self, tokens: tuple[int, ...], columns: NDArray[np.int64]) -> Text:
        """Return the text of ``tokens`` of which the first are cached in ``columns``."""
        return Text(tokens, columns, self._stamps[columns])


class SpanScorer:
    """A scorer for one search after one text, from :meth:`TextForward.scorer`."""

    def __init__(self, forward: TextForward, asked: PromptTree) -> None:
        self._forward = forward
        self._asked = asked
        # a forward pass must run the token whose logits are the first ones wanted
        asked.columns = asked.columns[: len(asked.prompt) - 1]

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of ``demand.states`` with their log-probabilities."""
        asked, tree, forward = self._asked, self._asked.tree, self._forward
        while missing := tree.missing(demand.states):
            forward.begin(asked)
            if forward.tree is None:
                plain = forward.plain
                plain.score(asked, plain.next_batch(asked, missing, forward.widest))
            else:
                states = demand.states
                if asked.uncached and tree.start not in states:
                    states = (tree.start, *states)
                nodes = tree.choose(states, forward.budget)
                forward.tree.score([WavePart(asked, asked.uncached, nodes)])
                forward.own(asked.all_columns())
            forward.forward_passes += 1
        return tree.scored(demand.states)

    def after(self, state: int, tokens: Sequence[int]) -> Text:
        """Return the text with the ``tokens`` that lead to ``state``, with all that was run."""
        asked, tree = self._asked, self._asked.tree
        while state not in asked.above:  # the last tokens may not have been run
            state = tree.node(state).parent
        columns = np.concatenate([asked.columns, asked.above[state]])
        return self._forward.cached((*asked.prompt, *tokens), columns)


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().log_softmax(-1)
