"""Fitting a path ranker: low-rank changes of its sentence encoder, and a few numbers beside it.

After LoRA (arXiv 2106.09685). The loss of a question is the negative log-likelihood of its relation
paths under a softmax over all that leave the topic entity, and "none of them"; a candidate that
stands for several that were left out counts as often (importance weights of a sampled softmax).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.models.path_ranker import RankerCard
from kgqa.models.pretrained import quiet
from kgqa.models.sentences_torch import TorchSentenceEncoder
from kgqa.training.steps import take_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.models.path_ranker import Changes, PathRanker
    from kgqa.progress import Progress

_TARGETS = ["query", "key", "value", "dense"]  # linear layers of an encoder of BERT's family
_BESIDE = 2e-2  # learning rate of the numbers beside the encoder


@dataclass(frozen=True, slots=True)
class RankingBatch:
    """Questions, and the relation paths that they choose among.

    ``paths`` in words, their numbers of ``hops``, and how many paths each ``stands_for``;
    ``questions`` without their topics' names. For each question: ``candidates``, positions in
    ``paths``, and ``gold``, those of them that are right; none if the graph has no answer.
    """

    paths: list[str]
    hops: list[int]
    stands_for: list[float]
    questions: list[str]
    candidates: list[list[int]]
    gold: list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerSettings:
    """How a ranker is fitted; ``rank`` of the changes, ``rate``: the learning rate."""

    steps: int
    rank: int = 32
    rate: float = 5e-4
    seed: int = 1


@dataclass(frozen=True, slots=True)
class FittedRanker:
    """A card, the changes of weights by name as two factors, the mean loss of the last steps."""

    card: RankerCard
    changes: Changes
    loss: float


def fit_ranker(
    start: PathRanker,
    batches: Iterable[RankingBatch],
    settings: RankerSettings,
    progress: Progress,
) -> FittedRanker:
    """Fit ``start`` to as many of ``batches`` as there are steps; its encoder is changed in place.

    The ``changes`` are those of this fit alone.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(settings.seed)
    encoder, card = start.encoder, start.card
    assert isinstance(encoder, TorchSentenceEncoder)  # one that is loaded to be trained
    bare = encoder.model
    bare.requires_grad_(False)
    lora = LoraConfig(r=settings.rank, lora_alpha=2 * settings.rank, target_modules=_TARGETS)
    with quiet():
        model = get_peft_model(bare, lora).eval()  # without dropout, as it will be used
    weights = [one for one in model.parameters() if one.requires_grad]
    numbers = torch.tensor([card.scale, card.none, *card.hop_bias]) / card.temperature
    beside = torch.nn.Parameter(numbers)
    groups: list[dict[str, Any]] = [
        {"params": weights, "lr": settings.rate},
        {"params": [beside], "lr": _BESIDE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    loss = take_steps(
        optimizer,
        weights,
        batches,
        lambda batch: _loss(encoder, beside, batch),
        settings.steps,
        progress,
    )
    scale, none, *bias = beside.detach().tolist()
    changes = lora_changes(model)
    model.unload()
    encoder.change({name: up @ down for name, (down, up) in changes.items()})
    made = RankerCard(
        encoder=card.encoder, hops=card.hops, scale=scale, none=none, hop_bias=tuple(bias)
    )
    return FittedRanker(made, changes, loss)


def _loss(encoder: TorchSentenceEncoder, beside: Tensor, batch: RankingBatch) -> Tensor:
    """Return the mean loss of the questions of ``batch``."""
    vectors = encoder.vectors([*batch.paths, *batch.questions])
    paths, questions = vectors[: len(batch.paths)], vectors[len(batch.paths) :]
    scale, none, bias = beside[0], beside[1], beside[2:]
    hops = torch.tensor(batch.hops).clamp(max=len(bias)) - 1
    logits = scale * (questions @ paths.T) + bias[hops]
    every = logits + torch.tensor(batch.stands_for).log()
    losses = []
    for row, (candidates, gold) in enumerate(zip(batch.candidates, batch.gold, strict=True)):
        whole = torch.logsumexp(torch.cat([every[row, candidates], none[None]]), 0)
        right = torch.logsumexp(logits[row, gold], 0) if gold else none
        losses.append(whole - right)
    return torch.stack(losses).mean()


def lora_changes(model: Any) -> Changes:
    """Return the factors of the weights' changes, the scaling in the second; untouched ones not."""
    found = {}
    prefix = "base_model.model."
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            down = module.lora_A["default"].weight.detach()
            up = module.lora_B["default"].weight.detach() * module.scaling["default"]
            if bool(up.any()):
                found[f"{name.removeprefix(prefix)}.weight"] = (
                    down.clone().numpy(force=True),
                    up.clone().numpy(force=True),
                )
    return found


def first_right(start: PathRanker, batches: Sequence[RankingBatch]) -> float:
    """Return the part of answerable questions whose likeliest candidate is right, in 0..1."""
    right = rights(start, batches)
    return float(right.mean()) if len(right) else 0.0


def rights(start: PathRanker, batches: Sequence[RankingBatch]) -> NDArray[np.bool_]:
    """Return of each answerable question whether its likeliest candidate is right."""
    right = []
    for batch in batches:
        logits = start.logits(batch.questions, batch.paths, batch.hops)
        for row, (candidates, gold) in enumerate(zip(batch.candidates, batch.gold, strict=True)):
            if gold:
                right.append(candidates[int(np.argmax(logits[row, candidates]))] in gold)
    return np.array(right, bool)


def log_likelihoods(start: PathRanker, batches: Sequence[RankingBatch]) -> NDArray[np.float64]:
    """Return of each question the logarithm of the probability of what is right, or of none."""
    logs = []
    for batch in batches:
        logits = start.logits(batch.questions, batch.paths, batch.hops).astype(np.float64)
        for row, (candidates, gold) in enumerate(zip(batch.candidates, batch.gold, strict=True)):
            whole = np.logaddexp.reduce([*logits[row, candidates], start.none])
            right = np.logaddexp.reduce(logits[row, gold]) if gold else start.none
            logs.append(right - whole)
    return np.array(logs)
