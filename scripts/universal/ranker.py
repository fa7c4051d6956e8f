"""Fitting the universal ranker: its encoder by low-rank changes, and what it knows of other KGs.

A candidate that stands for several that were left out counts as often (importance weights of a
sampled softmax). Relations that KGs of many domains have are kept with the ranker, few enough: the
means of groups of the domains' relations (k-means on the sphere: Dhillon and Modha, Machine
Learning 2001), and attributes that people ask for everywhere (a phone number, a price).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kgqa.cli.terminal import TerminalProgress
from kgqa.config import Settings
from kgqa.models.path_ranker import PathRanker, RankerCard, save_path_ranker
from kgqa.models.pretrained import quiet
from kgqa.models.sentences import load_trainable_encoder
from kgqa.models.sentences_torch import TorchSentenceEncoder
from kgqa.paths.words import relation_path_text
from kgqa.training.loop import Fit, Schedule
from kgqa.training.rankers import rights
from scripts.universal.domains import DATA, DOMAINS, HELD_OUT, Domain, batches_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from kgqa.models.folders import Changes
    from kgqa.progress import Progress
    from kgqa.training.rankers import RankingBatch

ATTRIBUTES = DATA / "attributes.tsv"
GROUPS = 254
_ROUNDS = 15
_TARGETS = ["query", "key", "value", "dense"]  # linear layers of an encoder of BERT's family
_SEED = 1
_BESIDE = 2e-2  # learning rate of the numbers beside the encoder


@dataclass(frozen=True, slots=True)
class FittedRanker:
    """A card, the changes of weights by name as two factors, the mean loss of the last steps."""

    card: RankerCard
    changes: Changes
    loss: float


def fit_ranker(
    start: PathRanker,
    batches: Iterable[RankingBatch],
    *,
    steps: int,
    rank: int = 32,
    rate: float = 5e-4,
    seed: int = 1,
    progress: Progress,
) -> FittedRanker:
    """Fit ``start`` to as many of ``batches`` as there are steps; its encoder is changed in place.

    The ``changes`` are those of this fit alone.
    """
    torch.manual_seed(seed)
    encoder, card = start.encoder, start.card
    assert isinstance(encoder, TorchSentenceEncoder)  # one that is loaded to be trained
    model = with_lora(encoder.model, rank)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    numbers = torch.tensor([card.scale, card.none, *card.hop_bias]) / card.temperature
    beside = torch.nn.Parameter(numbers)
    groups: list[dict[str, Any]] = [
        {"params": weights, "lr": rate},
        {"params": [beside], "lr": _BESIDE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    fit = Fit(
        model, optimizer, Schedule(steps), lambda batch: _loss(encoder, beside, batch), progress
    )
    fit.run(batches)
    scale, none, *bias = beside.detach().tolist()
    changes = lora_changes(model)
    model.unload()
    encoder.change({name: up @ down for name, (down, up) in changes.items()})
    made = RankerCard(
        encoder=card.encoder, hops=card.hops, scale=scale, none=none, hop_bias=tuple(bias)
    )
    return FittedRanker(made, changes, fit.mean_loss)


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


def with_lora(encoder: Any, rank: int) -> Any:
    """Return an encoder of BERT's family with changes of ``rank``, which alone are trained."""
    from peft import LoraConfig, get_peft_model

    encoder.requires_grad_(False)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_TARGETS)
    with quiet():
        return get_peft_model(encoder, lora).eval()  # without dropout, as it will be used


def lora_changes(model: Any) -> Changes:
    """Return the factors of the weights' changes, the scaling in the second; untouched ones not."""
    changes = {}
    prefix = "base_model.model."
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            down = module.lora_A["default"].weight.detach()
            up = module.lora_B["default"].weight.detach() * module.scaling["default"]
            if bool(up.any()):
                changes[f"{name.removeprefix(prefix)}.weight"] = (
                    down.clone().numpy(force=True),
                    up.clone().numpy(force=True),
                )
    return changes


def attributes() -> list[str]:
    """Return the attributes in words; a line of their file has a phrase, a tab, two examples."""
    rows = [line.split("\t") for line in ATTRIBUTES.read_text("utf-8").splitlines()]
    return [relation_path_text([(0, -1)], [phrase], shown.split(", ")) for phrase, shown in rows]


def relations_elsewhere(
    ranker: PathRanker, domains: Sequence[Domain], groups: int = GROUPS
) -> NDArray[np.float32]:
    """Return the mean vectors ``[groups, width]`` of the domains' relations, each way."""
    texts = dict.fromkeys(text for domain in domains for text, _ in domain.phrasings())
    vectors = ranker.vectors(list(texts))
    draw = np.random.default_rng(0)
    means = vectors[draw.choice(len(vectors), min(groups, len(vectors)), replace=False)]
    for _ in range(_ROUNDS):
        nearest = (vectors @ means.T).argmax(axis=1)
        for group in range(len(means)):
            mine = vectors[nearest == group]
            if len(mine):
                means[group] = mine.mean(axis=0) / np.linalg.norm(mine.mean(axis=0))
    return means


def train(_: Path, out: Path, steps: int) -> None:
    """Train the universal ranker on the invented domains; print how it does on those held out."""
    files = sorted(DOMAINS.glob("*.json"))
    domains = [Domain(file) for file in files]
    checks = [domain.checks() for domain in domains if domain.name in HELD_OUT]
    taught = [file for file in files if file.stem not in HELD_OUT]
    cache, progress = Settings().cache_folder, TerminalProgress()  # type: ignore[call-arg]
    encoder = load_trainable_encoder(None, device="cpu", cache=cache, progress=progress)
    start = PathRanker("untrained", RankerCard(encoder="all-MiniLM-L6-v2", none=4.0), encoder)

    def first_right(ranker: PathRanker) -> float:
        return round(
            100 * float(np.concatenate([rights(ranker, check) for check in checks]).mean()), 1
        )

    before = first_right(start)
    batches = batches_of(taught, Random(_SEED))
    fitted = fit_ranker(start, batches, steps=steps, seed=_SEED, progress=progress)
    trained = PathRanker("trained", fitted.card, encoder)
    described = {
        "domains": len(taught), "steps": steps, "seed": _SEED,
        "held_out": {
            "domains": len(checks), "untrained": before, "trained": first_right(trained),
        },
    }  # fmt: skip
    elsewhere = np.vstack([relations_elsewhere(trained, domains), trained.vectors(attributes())])
    card = replace(fitted.card, described=described)
    save_path_ranker(out, card, fitted.changes, elsewhere)
    print(described, f"loss {fitted.loss:.3f}")
