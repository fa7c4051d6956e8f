"""The model's forward over a tree of tokens: a *wave*.

One forward scores every demanded state and the forced run below it, as a tree under one attention
mask: a token sees the prompt and its own ancestors, its position is its depth. The prompt is
computed once and shared by all hypotheses; the cache only grows and is never copied or reordered.
The children's logits are gathered under one log-sum-exp over the whole vocabulary, so no mask of
the vocabulary's size is ever built.

The mask is an additive float mask, which is right under both eager and SDPA attention. A model
whose attention slides over a window is refused: its mask would be wrong without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch

from kgqa.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    from kgqa.trie.constraint import Constraint, Expansion

ScoreRule: TypeAlias = Literal["vocabulary", "allowed"]


@dataclass(slots=True)
class _Scored:
    """What a forward found out about one state: its moves, their scores, where its token lies."""

    tokens: NDArray[np.int64]
    states: NDArray[np.int64]
    scores: NDArray[np.float64]
    ancestors: NDArray[np.int64]  # cache positions after the prompt, the state's own last


class TreeScorer:
    """Scores the edges of one constraint after one prompt. Used once, then dropped.

    ``rule``: log-probabilities over the whole vocabulary (GCR), or renormalised over what the
    constraint allows (DoG: the mask before the softmax). ``budget``: tokens a forward may score.
    Raises ModelError for models that a tree mask does not fit.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompt: Sequence[int],
        constraint: Constraint,
        *,
        rule: ScoreRule = "vocabulary",
        budget: int = 128,
    ) -> None:
        _check_attention(model)
        if not prompt:
            raise ModelError("The prompt has no token, so nothing can be scored after it.")
        self._model = model
        self._constraint = constraint
        self._rule = rule
        self._budget = budget
        self._prompt = len(prompt)
        self._cached = 0  # tokens in the cache after the prompt
        self._known: dict[int, _Scored] = {}
        self.forwards = 0
        self.scored_tokens = 0
        from transformers import DynamicCache

        self._cache = DynamicCache(config=model.config)
        self._first_logits = self._prefill(list(prompt))

    @torch.inference_mode()
    def _prefill(self, prompt: list[int]) -> torch.Tensor:
        ids = torch.tensor([prompt], device=self._model.device)
        out = self._model(
            input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        self.forwards += 1
        logits: torch.Tensor = out.logits[0, -1]
        return logits

    def score(self, states: Sequence[int], moves: Expansion) -> NDArray[np.float64]:
        """Return the log-probability of each move out of ``states``. Shape ``[len(moves.token)]``.

        Every state is the start, or was led to by a state that has been scored.
        """
        missing = [state for state in dict.fromkeys(states) if state not in self._known]
        if missing:
            self._wave(missing)
        return np.concatenate([self._known[state].scores for state in states])

    def _wave(self, demanded: list[int]) -> None:
        if demanded == [self._constraint.start()]:
            self._settle(demanded, self._first_logits[None], [np.empty(0, np.int64)])
            return
        parents = self._parents(demanded)
        nodes: list[tuple[int, int, NDArray[np.int64]]] = []  # state, token, ancestors
        for state in demanded:
            token, above = parents[state]
            nodes.append((state, token, np.append(above, self._cached + len(nodes))))
        # forced runs: a state with one continuation costs no decision, so score on through it
        edge = list(range(len(nodes)))
        while edge and len(nodes) < self._budget:
            moves = self._constraint.expand([nodes[place][0] for place in edge])
            counts = np.bincount(moves.row, minlength=len(edge))
            forced = np.flatnonzero(counts[moves.row] == 1)
            ends = self._constraint.is_end(moves.state[forced].tolist())
            following = []
            for move, is_end in zip(forced.tolist(), ends.tolist(), strict=True):
                if is_end or len(nodes) >= self._budget:
                    continue
                above = nodes[edge[int(moves.row[move])]][2]
                following.append(len(nodes))
                nodes.append(
                    (
                        int(moves.state[move]),
                        int(moves.token[move]),
                        np.append(above, self._cached + len(nodes)),
                    )
                )
            edge = following
        logits = self._forward([token for _, token, _ in nodes], [above for _, _, above in nodes])
        self._settle([state for state, _, _ in nodes], logits, [above for _, _, above in nodes])

    def _parents(self, states: list[int]) -> dict[int, tuple[int, NDArray[np.int64]]]:
        wanted = set(states)
        found: dict[int, tuple[int, NDArray[np.int64]]] = {}
        for scored in self._known.values():
            for token, child in zip(scored.tokens.tolist(), scored.states.tolist(), strict=True):
                if child in wanted:
                    found[child] = (token, scored.ancestors)
        return found

    @torch.inference_mode()
    def _forward(self, tokens: list[int], ancestors: list[NDArray[np.int64]]) -> torch.Tensor:
        device, dtype = self._model.device, self._model.dtype
        width = self._prompt + self._cached + len(tokens)
        seen = np.zeros((len(tokens), width), bool)
        seen[:, : self._prompt] = True
        for row, above in enumerate(ancestors):
            seen[row, self._prompt + above] = True
        mask = torch.zeros((1, 1, *seen.shape), dtype=dtype, device=device)
        mask.masked_fill_(torch.from_numpy(~seen).to(device), torch.finfo(dtype).min)
        depth = np.array([self._prompt + len(above) - 1 for above in ancestors])
        out = self._model(
            input_ids=torch.tensor([tokens], device=device),
            attention_mask=mask,
            position_ids=torch.from_numpy(depth)[None].to(device),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cached += len(tokens)
        self.forwards += 1
        self.scored_tokens += len(tokens)
        logits: torch.Tensor = out.logits[0]
        return logits

    @torch.inference_mode()
    def _settle(
        self, states: list[int], logits: torch.Tensor, ancestors: list[NDArray[np.int64]]
    ) -> None:
        moves = self._constraint.expand(states)
        logits = logits.float()
        rows = torch.from_numpy(moves.row).to(logits.device)
        tokens = torch.from_numpy(moves.token).to(logits.device)
        picked = logits[rows, tokens].double()
        if self._rule == "vocabulary":
            scores = (picked - logits.logsumexp(-1).double()[rows]).cpu().numpy()
        else:
            scores = _renormalised(picked.cpu().numpy(), moves.row, len(states))
        bounds = np.searchsorted(moves.row, np.arange(len(states) + 1))
        for row, state in enumerate(states):
            mine = slice(bounds[row], bounds[row + 1])
            self._known[state] = _Scored(
                moves.token[mine], moves.state[mine], scores[mine], ancestors[row]
            )


def _renormalised(
    logits: NDArray[np.float64], rows: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    top = np.full(count, -np.inf)
    np.maximum.at(top, rows, logits)
    total = np.zeros(count)
    np.add.at(total, rows, np.exp(logits - top[rows]))
    scores: NDArray[np.float64] = logits - top[rows] - np.log(total)[rows]
    return scores


def _check_attention(model: PreTrainedModel) -> None:
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    slides = bool(window) and getattr(config, "use_sliding_window", True)
    if kinds - {"full_attention"} or (slides and not getattr(config, "layer_types", None)):
        raise ModelError(
            f"The model {config.model_type} has layers that do not attend to all tokens before "
            "them, and tree decoding needs that.",
            "Use a model with full attention (Llama, Qwen, SmolLM, Mistral without a window).",
        )
