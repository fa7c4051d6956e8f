"""Scores without a tree: every demanded prefix is run whole, as a row of a batch.

For models that a tree of tokens does not fit: state-space layers, attention windows shorter than
the prompt with its path. It gives the same log-probabilities with more work: a row holds the
prompt, the prefix and the forced run after it, nothing is cached, nothing is looked at ahead. Rows
are padded on the right, where no causal model looks. What it does not do: choose when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.decoding.forward import Asked, check_tokens, scores_of
from kgqa.decoding.wave import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from kgqa.decoding.forward import ScoreRule
    from kgqa.decoding.search import Demand, Scored
    from kgqa.trie.constraint import Constraint

_FORCED = 64  # the longest forced run that is scored with a prefix
DEFAULT_WIDEST = 8_192  # tokens of a batch, padding included


class PlainForward:
    """A model that is run on whole prefixes."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def next_batch(self, asked: Asked, states: Sequence[int], widest: int) -> list[list[int]]:
        """Return the first of ``states`` as runs of states, each a row, that fit into a forward.

        A run is a state with the forced run after it. ``widest``: tokens of a forward, padding
        included; one row is always taken.
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

    def score(self, asked: Asked, runs: Sequence[Sequence[int]]) -> None:
        """Run one forward, a row for each run, and let the tree learn.

        All or nothing, as :meth:`kgqa.decoding.forward.TreeForward.score`.
        """
        rows = [[*asked.prompt, *asked.tree.prefix(run[-1])] for run in runs]
        # where the last token of each state of a run stands
        for row in rows:
            check_tokens(self.model, row)
        wanted = [
            np.arange(len(row) - len(run), len(row)) for row, run in zip(rows, runs, strict=True)
        ]
        states = [state for run in runs for state in run]
        moves = asked.tree.expansion(states)
        first = min(int(at[0]) for at in wanted)
        logits = self.run(rows, first)
        number = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
        device = logits.device
        places = torch.from_numpy(np.concatenate(wanted) - first).to(device)
        picked = logits[torch.from_numpy(number).to(device), places]
        asked.tree.learn(states, *scores_of(picked, moves, asked))

    @torch.inference_mode()
    def run(self, rows: Sequence[Sequence[int]], first: int) -> torch.Tensor:
        """Return the logits from position ``first`` on. Shape ``[rows, positions, vocabulary]``."""
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


class PlainScorer:
    """A scorer for one search after one prompt, without a tree."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompt: Sequence[int],
        constraint: Constraint,
        *,
        rule: ScoreRule = "vocabulary",
        widest: int = DEFAULT_WIDEST,
    ) -> None:
        self._asked = Asked(prompt, PrefixTree(constraint), rule)
        self._forward = PlainForward(model)
        self._widest = widest
        self.forward_passes = 0

    def score(self, demand: Demand) -> Scored:
        """Return the moves out of the demanded states with their log-probabilities."""
        tree = self._asked.tree
        while missing := tree.missing(demand.states):
            runs = self._forward.next_batch(self._asked, missing, self._widest)
            self._forward.score(self._asked, runs)
            self.forward_passes += 1
        return tree.scored(demand.states)
