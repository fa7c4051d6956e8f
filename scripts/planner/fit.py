"""Fitting a plan scorer: low-rank changes of its encoder and small heads, by cross-entropy."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from kgqa.cli.terminal import TerminalProgress
from kgqa.models.locate import minilm_folder
from kgqa.models.path_ranker import UNIVERSAL, ranker_changes
from kgqa.models.plan_scorer import ROLES, SCORERS, WHOLE, PartTokens, ScorerCard
from kgqa.paths.words import relation_phrase
from kgqa.training.loop import Checked, Fit, Schedule
from scripts.planner.examples import ASIDE, Database, collection, nouns_of, taught_domains
from scripts.universal.ranker import lora_changes, with_lora

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from torch import Tensor

    from kgqa.models.folders import Changes
    from scripts.planner.examples import Example

    Loop: TypeAlias = Fit[Sequence[Example]]

_HIDDEN = 128
_RANK, _RATE, _BATCH, _SEED = 32, 4e-4, 16, 1
_CHECKED, _EVERY = 240, 250  # questions of a check, and steps between two
_MADE = 0.45  # part of the questions that are of invented domains


class PlanFit:
    """An encoder of transformers with heads, in training."""

    def __init__(self, folder: Path, start: Changes, rank: int) -> None:
        from tokenizers import Tokenizer
        from transformers import AutoModel

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokens = PartTokens(tokenizer)
        # the fused attention is slow to differentiate on a CPU
        bare = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        weights = dict(bare.named_parameters())
        for name, (down, up) in start.items():
            weights[name].data += torch.from_numpy(up @ down)
        self.model = with_lora(bare, rank)
        width = bare.config.hidden_size
        sizes = {kind: (3 * width, len(roles)) for kind, roles in ROLES.items()}
        sizes |= {name: (2 * width, len(values)) for name, values in WHOLE.items()}
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(wide, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, out))
                for name, (wide, out) in sizes.items()
            }
        )
        self.start = start

    def outputs(
        self, examples: Sequence[Example]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Return logits of parts by kind, their gold, and logits of the whole."""
        joined = [self.tokens.joined(example.question, example.parts) for example in examples]
        longest = max(len(ids) for ids, _ in joined)
        ids = torch.tensor([[*row_ids, *[0] * (longest - len(row_ids))] for row_ids, _ in joined])
        mask = torch.tensor(
            [[1] * len(row_ids) + [0] * (longest - len(row_ids)) for row_ids, _ in joined]
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        states = states.float()
        many = max(len(spans) for _, spans in joined)
        pick = torch.zeros(len(joined), many, longest)
        for row, (_, spans) in enumerate(joined):
            for place, (first, last) in enumerate(spans):
                pick[row, place, first:last] = 1 / max(last - first, 1)
        pooled = pick @ states
        asked = pooled[:, 0]
        logits: dict[str, Tensor] = {}
        gold: dict[str, Tensor] = {}
        for kind in ROLES:
            places = [
                (row, at + 1)
                for row, example in enumerate(examples)
                for at, part in enumerate(example.parts)
                if part.kind == kind
            ]
            if not places:
                continue
            rows, ats = (torch.tensor(list(column)) for column in zip(*places, strict=True))
            own, whole = pooled[rows, ats], asked[rows]
            logits[kind] = self.heads[kind](torch.cat([own, whole, own * whole], -1))
            gold[kind] = torch.tensor([examples[row].roles[at - 1] for row, at in places])
        both = torch.cat([asked, states[:, 0]], -1)
        return logits, gold, {name: self.heads[name](both) for name in WHOLE}

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Return the loss of a batch: the sum over a question's parts, and over what it is."""
        logits, gold, whole = self.outputs(examples)
        total = torch.zeros(())
        for kind, logit in logits.items():
            each = nn.functional.binary_cross_entropy_with_logits(
                logit, gold[kind], reduction="none"
            )
            if kind == "hop":  # the side of a hop counts where it is walked
                each = each * torch.stack(
                    [torch.ones(len(each)), gold[kind][:, 0], torch.ones(len(each))], 1
                )
            total = total + each.sum() / len(examples)
        for name, logit in whole.items():
            right = torch.tensor([example.whole[name] for example in examples])
            total = total + nn.functional.cross_entropy(logit, right)
        return total

    def loop(self, schedule: Schedule, rate: float, checks: Sequence[Example], every: int) -> Loop:
        """Return the fit of encoder and heads; ``checks`` are asked ``every`` so many steps."""

        def checked() -> Checked:
            figures = self.check(checks)
            return Checked(figures["all"], figures)

        both = nn.ModuleList([self.model, self.heads])
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": weights, "lr": rate},
            {"params": list(self.heads.parameters()), "lr": 2 * rate},
        ]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
        return Fit(
            both, optimizer, schedule, self.loss, TerminalProgress(),
            check=checked, check_every=every,
        )  # fmt: skip

    @torch.no_grad()
    def check(self, examples: Sequence[Example], at_once: int = 16) -> dict[str, float]:
        """Return how often each kind's roles, and each thing of the whole, are all right, in %."""
        right: dict[str, list[float]] = {}
        for start in range(0, len(examples), at_once):
            some = examples[start : start + at_once]
            logits, gold, whole = self.outputs(some)
            every = np.ones(len(some), bool)
            for kind, roles in ROLES.items():
                if kind not in logits:
                    continue
                rows = [
                    r
                    for r, example in enumerate(some)
                    for part in example.parts
                    if part.kind == kind
                ]
                for number, role in enumerate(roles):
                    fits = ((logits[kind][:, number] > 0) == (gold[kind][:, number] > 0.5)).numpy()
                    if role == "tail":
                        fits = fits | (gold[kind][:, 0] < 0.5).numpy()
                    ok = np.ones(len(some), bool)
                    np.logical_and.at(ok, rows, fits)
                    right.setdefault(f"{kind}.{role}", []).extend(ok)
                    if role in ("used", "answer", "tail", "condition", "order"):
                        every &= ok
            for name, logit in whole.items():
                fits = (logit.argmax(-1) == torch.tensor([e.whole[name] for e in some])).numpy()
                right.setdefault(name, []).extend(fits)
                if name in ("aggregate", "direction"):
                    every &= fits
            right.setdefault("all", []).extend(every)
        return {name: round(100 * float(np.mean(values)), 1) for name, values in right.items()}

    def save(self, folder: Path, card: ScorerCard) -> None:
        """Write the scorer. Raises ModelError."""
        changes = dict(self.start)
        for name, (down, up) in lora_changes(self.model).items():
            if name in changes:  # two changes of one weight are one of both ranks
                before, after = changes[name]
                down, up = np.concatenate([before, down]), np.concatenate([after, up], 1)
            changes[name] = (down, up)
        heads = {name: weight.detach().numpy() for name, weight in self.heads.state_dict().items()}
        SCORERS.save(folder, card, heads, changes)


def train(data: Path, out: Path, steps: int) -> None:
    """Train a scorer on questions with Cypher and on the invented domains into ``out``.

    ``data`` has ``train.jsonl`` (database, question, cypher) and ``schemas.json``, as the Neo4j
    Labs text2cypher collection has them. Of the checks on the databases held out the best is kept.
    """
    random = Random(_SEED)
    schemas, rows = collection(data)
    databases = {
        name: Database(schema, [row for row in rows if row["database"] == name])
        for name, schema in schemas.items()
    }
    for name, database in databases.items():
        print(f"{name}: {len(database.questions)} questions read, {database.unread} not")
    checks = [
        databases[name].example(random, *asked)
        for name in ASIDE
        for asked in databases[name].questions
    ]
    random.shuffle(checks)
    fit = PlanFit(minilm_folder(), dict(ranker_changes(UNIVERSAL)), _RANK)
    schedule = Schedule(steps, 60, 0.03, "cosine")
    loop = fit.loop(schedule, _RATE, checks[:_CHECKED], _EVERY)
    loop.run(_batches(_examples(databases, random), random))
    assert loop.best is not None  # the last step is always checked
    described = {
        "data": "text2cypher collection of Neo4j Labs (CC0 1.0), invented domains",
        "held_out": ASIDE,
        "step": loop.best.step,
        "right": loop.best.checked.figures,
    }
    fit.save(out, ScorerCard(encoder="all-MiniLM-L6-v2", described=described))


def _examples(databases: dict[str, Database], random: Random) -> Iterator[Example]:
    """Yield questions of databases and of invented domains without end."""
    made = taught_domains()
    nouns = nouns_of(made)
    phrases = sorted({relation_phrase(name) for domain in made for name in domain.relations})
    learnt = [
        (database, *asked)
        for name, database in databases.items()
        if name not in ASIDE
        for asked in database.questions
    ]
    while True:
        random.shuffle(learnt)
        for database, question, gold in learnt:
            while random.random() < _MADE:
                if (example := random.choice(made).example(random)) is not None:
                    yield example
            yield database.example(random, question, gold, nouns, phrases)


def _batches(examples: Iterator[Example], random: Random) -> Iterator[list[Example]]:
    """Yield batches without end, of examples of like lengths."""
    while True:
        some = sorted(islice(examples, 8 * _BATCH), key=lambda example: len(example.parts))
        groups = [some[at : at + _BATCH] for at in range(0, len(some), _BATCH)]
        random.shuffle(groups)
        yield from groups
