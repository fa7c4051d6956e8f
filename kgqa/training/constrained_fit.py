"""Fitting an adapter with the loss under the constraint.

The negative log-likelihood of a path where each token's probability is over the tokens that the
graph allows there, as decoding scores it (``score_rule`` "allowed"): nothing is spent on learning
which names of relations exist, only on which of those available is meant.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from kgqa.models.pretrained import quiet
from kgqa.training.encode import Collator
from kgqa.training.steps import take_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kgqa.models.kg_llm import KgLLM
    from kgqa.progress import Progress
    from kgqa.training.domain_paths import Branching

_CLOSED = -1e9  # the logit of what is not allowed


def fit_constrained(
    kg_llm: KgLLM,
    batches: Iterable[Sequence[Branching]],
    *,
    steps: int,
    rank: int,
    rate: float,
    seed: int,
    progress: Progress,
) -> tuple[Any, float]:
    """Fit an adapter of ``rank`` to as many of ``batches`` as there are steps.

    Returns the model with it, of peft, and the mean loss of the last steps.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with quiet():
        model: Any = get_peft_model(kg_llm.model.bfloat16(), config).train()
    weights = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    loss = take_steps(
        optimizer,
        weights,
        batches,
        lambda batch: _losses(model, batch).sum() / len(batch),
        steps,
        progress,
    )
    return model.eval(), loss


def path_losses(
    model: Any, examples: Sequence[Branching], together: int = 32
) -> NDArray[np.float64]:
    """Return the negative log-likelihood of each example's path under the constraint, in nats."""
    found: list[float] = []
    with torch.inference_mode():
        for start in range(0, len(examples), together):
            some = examples[start : start + together]
            losses = _losses(model, some).tolist()
            ends = np.cumsum([0, *(len(one.places) for one in some)]).tolist()
            found += [math.fsum(losses[begin:end]) for begin, end in pairwise(ends)]
    return np.array(found)


def _losses(model: Any, batch: Sequence[Branching]) -> torch.Tensor:
    """Return the loss of each choice, of all examples in turn."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    device = causal.get_output_embeddings().weight.device
    padded = Collator(0)([{"input_ids": one.tokens, "labels": one.tokens} for one in batch])
    rows = [row for row, one in enumerate(batch) for _ in one.places]
    places = [place for one in batch for place in one.places]
    sets = [allowed for one in batch for allowed in one.allowed]
    most = max(map(len, sets), default=1)
    allowed = torch.tensor([[*one, *[-1] * (most - len(one))] for one in sets], device=device)
    chosen = torch.tensor([place for one in batch for place in one.chosen], device=device)
    # plain attention: for texts as short as these, backward is twice as fast on a CPU
    with torch.autocast(device.type, torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
        states = causal.base_model(
            input_ids=padded["input_ids"].to(device),
            attention_mask=padded["attention_mask"].to(device),
        ).last_hidden_state[rows, places]
        embeddings = causal.get_output_embeddings().weight[allowed.clamp(min=0)]
        logits = torch.einsum("nd,nkd->nk", states.float(), embeddings.float())
    logits = logits.float().masked_fill(allowed < 0, _CLOSED)
    return torch.nn.functional.cross_entropy(logits, chosen, reduction="none")
