"""Fit a ranker of whole plans: low-rank changes of its encoder and a small head.

    python -m scripts.planner.fit_plans --data DIR --proposals FILE … --out FOLDER [--seconds N]
                                        [--device cuda] [--seed N]

DIR has ``train.jsonl`` and ``schemas.json`` of the Neo4j Labs text2cypher collection, each FILE
lists of what the planner proposed (:mod:`scripts.planner.proposals`). A list is a question with
plans, gold first; the loss is that of a softmax over the list. It starts from the bundled plan
scorer, which knows what parts of a schema a question uses; two databases and eight domains are
never trained on, and what is right first of their lists is printed as it goes: by the planner's own
score, by the ranker, and by both, each weight of :data:`WEIGHTS`. Every five minutes the ranker is
written into FOLDER with the best weight, so that a run that is stopped leaves one.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from kgqa.models.locate import minilm_folder
from kgqa.models.plan_ranker import (
    LONGEST_PLAN,
    LONGEST_QUESTION,
    PLAN_RANKERS,
    PlanRankerCard,
)
from kgqa.models.plan_scorer import SCORERS, UNIVERSAL
from kgqa.models.pretrained import quiet
from scripts.planner.examples import ASIDE
from scripts.planner.plan_lists import Listed, PlanLists
from scripts.planner.proposed import Proposals, Proposed
from scripts.universal.ranker import lora_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from kgqa.models.folders import Changes

_RANK, _RATE, _HEAD_RATE = 32, 8e-4, 1.5e-3
_LAYERS = [2, 3, 4, 5]  # those below stay as they are: half of the time
_HIDDEN = 128
_LISTS, _SORTED = 6, 16  # lists of a step; steps whose lists are sorted by length
_WARM_UP, _SAVED = 25, 300.0  # steps, seconds
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 1000.0)  # of the ranker's log-odds beside the scorer's


class PlansFit:
    """An encoder of transformers with a head, in training on ``device``."""

    def __init__(self, device: str) -> None:
        from peft import LoraConfig, get_peft_model
        from tokenizers import Tokenizer
        from transformers import AutoModel

        folder = minilm_folder()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._ends = [self._tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")]
        bare = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
        _, _, changes = SCORERS.read(SCORERS.folder(UNIVERSAL))
        self._start: Changes = changes
        weights = dict(bare.named_parameters())
        for name, (down, up) in changes.items():
            weights[name].data += torch.from_numpy(np.asarray(up @ down, np.float32))
        bare.requires_grad_(False)
        targets = ["query", "key", "value", "dense"]
        lora = LoraConfig(
            r=_RANK, lora_alpha=2 * _RANK, target_modules=targets, layers_to_transform=_LAYERS
        )
        with quiet():
            self.model: Any = get_peft_model(bare, lora).eval().to(device)
        width = 2 * bare.config.hidden_size
        self.head = nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))
        self.head.to(device)
        self._device = device

    def logits(self, listed: Sequence[Listed]) -> list[Tensor]:
        """Return the logits of each list's plans."""
        start, end = self._ends
        rows = [
            [start, *self._ids(one.question)[:LONGEST_QUESTION], end,
             *self._ids(plan)[:LONGEST_PLAN], end]
            for one in listed
            for plan in one.plans
        ]  # fmt: skip
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        ids, mask = ids.to(self._device), mask.to(self._device)
        with torch.autocast(self._device.partition(":")[0], dtype=torch.bfloat16):
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        states, shown = states.float(), mask.unsqueeze(-1).float()
        means = (states * shown).sum(1) / shown.sum(1)
        logits = self.head(torch.cat([means, states[:, 0]], -1)).squeeze(-1)
        return list(torch.split(logits, [len(one.plans) for one in listed]))

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @torch.no_grad()
    def right_of(self, proposed: Sequence[Proposed]) -> dict[float, float]:
        """Return for how many lists, in per cent, gold is first by each of :data:`WEIGHTS`."""
        odds = [
            torch.log_softmax(self.logits([Listed(one.question, one.plans)])[0], 0).cpu().numpy()
            for one in proposed
        ]
        return {
            weight: 100 * float(np.mean([
                int(np.argmax(np.array(one.scores) + weight * odd)) in one.right
                for one, odd in zip(proposed, odds, strict=True)
            ]))
            for weight in WEIGHTS
        }  # fmt: skip

    def fit(
        self,
        lists: PlanLists,
        proposed: Proposals,
        out: Path,
        seconds: float,
        described: dict[str, Any],
    ) -> None:
        """Take steps for so many seconds, and write the ranker. Raises ModelError."""
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        groups = [{"params": weights}, {"params": list(self.head.parameters())}]
        optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.01)
        began = saved = time.monotonic()
        losses: list[float] = []
        for batch in _batches(proposed.lists(lists), Random(1)):
            done = (time.monotonic() - began) / seconds
            if done >= 1:
                break
            rise = min(1.0, (len(losses) + 1) / _WARM_UP)
            factor = rise * (0.5 + 0.5 * math.cos(math.pi * done))
            for group, rate in zip(optimizer.param_groups, (_RATE, _HEAD_RATE), strict=True):
                group["lr"] = rate * factor
            each = [
                torch.logsumexp(torch.log_softmax(logits, 0)[: one.right], 0)
                for one, logits in zip(batch, self.logits(batch), strict=True)
            ]
            loss = -torch.stack(each).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            if time.monotonic() - saved > _SAVED:
                saved = time.monotonic()
                self.save(proposed, out, losses, described)
        self.save(proposed, out, losses, described)

    def save(
        self, proposed: Proposals, out: Path, losses: Sequence[float], described: dict[str, Any]
    ) -> None:
        """Write the ranker with its figures of what is never trained on. Raises ModelError."""
        figures = {name: self.right_of(some) for name, some in proposed.checks.items()}
        sums = {
            weight: sum(len(some) * figures[name][weight] for name, some in proposed.checks.items())
            for weight in WEIGHTS
        }
        best = max(WEIGHTS, key=lambda weight: (sums[weight], -weight))
        loss = round(float(np.mean(losses[-50:])), 3) if losses else None
        print(f"step {len(losses)}, loss {loss}, weight {best}", flush=True)
        for name, by_weight in figures.items():
            print(f"  right of {name}:", {w: round(one, 1) for w, one in by_weight.items()})
        changes = dict(self._start)
        for name, (down, up) in lora_changes(self.model).items():
            if name in changes:  # two changes of one weight are one of both ranks
                before, after = changes[name]
                down, up = np.concatenate([before, down]), np.concatenate([after, up], 1)
            changes[name] = (down, up)
        head = {
            f"head.{name}": weight.detach().cpu().numpy()
            for name, weight in self.head.state_dict().items()
        }
        shown = {name: round(by_weight[best], 1) for name, by_weight in figures.items()}
        described = {**described, "steps": len(losses), "right": shown}
        card = PlanRankerCard(encoder="all-MiniLM-L6-v2", new=best, described=described)
        PLAN_RANKERS.save(out, card, head, changes)


def _batches(lists: Iterator[Listed], random: Random) -> Iterator[list[Listed]]:
    """Yield batches without end, of lists of like lengths."""
    while True:
        some = sorted(
            islice(lists, _LISTS * _SORTED),
            key=lambda one: len(one.question) + max(map(len, one.plans)),
        )
        groups = [some[at : at + _LISTS] for at in range(0, len(some), _LISTS)]
        random.shuffle(groups)
        yield from groups


def train(
    data: Path, files: Sequence[Path], out: Path, seconds: float, device: str, seed: int
) -> None:
    """Fit a ranker in so many seconds, and write it into ``out``. Raises ModelError."""
    torch.manual_seed(seed)
    lists = PlanLists(data, ASIDE, Random(seed))
    proposed = Proposals(files, ASIDE, Random(seed))
    print(f"questions whose query is one chain: {lists.counts}", flush=True)
    described = {
        "data": "text2cypher collection of Neo4j Labs (CC0 1.0), invented domains",
        "held_out": [*ASIDE], "seconds": seconds, "device": device, "seed": seed,
    }  # fmt: skip
    PlansFit(device).fit(lists, proposed, out, seconds, described)


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--proposals", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    train(given.data, given.proposals, given.out, given.seconds, given.device, given.seed)


if __name__ == "__main__":
    main()
