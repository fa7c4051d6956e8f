"""Paths of the invented domains as the universal adapter reads them: which tokens a graph allows.

A topic of a domain's type has the relations of its type, some left out, under names as one designer
may have given them; an example is the path that a question asks for, one name at each station. The
loss is the negative log-likelihood of a path where each token's probability is over the tokens that
the graph allows there, as decoding scores it (``score_rule`` "allowed"): nothing is spent on
learning which names of relations exist, only on which of those available is meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from kgqa.cli.terminal import TerminalProgress
from kgqa.config import Settings
from kgqa.methods.base import path_format
from kgqa.models.adapter import AdapterCard
from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.models.pretrained import quiet
from kgqa.training.fit import collated, save_model
from kgqa.training.loop import Fit, Schedule
from kgqa.trie.lexicon import PathLexicon
from scripts.universal.domains import DOMAINS, HELD_OUT, Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.models.kg_llm import KgLLM
    from kgqa.progress import Progress
    from scripts.universal.domains import Asked

    Prompt = Callable[[str, Sequence[str]], list[int]]

CALIBRATION = 0.354, 2.21  # slope and shift of the confidence, on the graphs of scripts/bench_own
_CHECKS = 40  # questions of each held-out domain
_BATCH, _RANK, _RATE, _SEED = 16, 8, 1e-3, 1
_CLOSED = -1e9  # the logit of what is not allowed
_STYLES = ("snake", "snake", "snake", "camel", "words", "upper")  # of relations' names
_HAS = 0.1  # part of the examples in which half of the relations are called "has …"
_MISSING = 0.12  # part of the relations that a topic lacks
_COMPOSED, _OF_TWO = 0.15, 0.25  # parts of the questions: composed ones, others about two hops


@dataclass(slots=True)
class Branching:
    """A prompt with a path as token ids, and where the graph leaves a choice.

    ``places``: positions in ``tokens`` before a choice; ``allowed``: the ids that the graph allows
    next, ascending; ``chosen``: which of them the path takes. Names of entities leave no choice.
    """

    tokens: list[int]
    places: list[int] = field(default_factory=list)
    allowed: list[list[int]] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def follow(self, path: Sequence[int], beside: Iterable[Sequence[int]]) -> None:
        """Append ``path``, which the graph allows as it does each of ``beside``."""
        live = [path, *beside]
        for place, token in enumerate(path):
            live = [way for way in live if len(way) > place and way[:place] == path[:place]]
            allowed = sorted({way[place] for way in live})
            if len(allowed) > 1:
                self.places.append(len(self.tokens) - 1)
                self.allowed.append(allowed)
                self.chosen.append(allowed.index(token))
            self.tokens.append(token)


def drawn(domains: Sequence[Domain], random: Random) -> tuple[Domain, Asked]:
    """Return a question of one of ``domains``, more often about two hops than they have them."""
    domain = random.choice(domains)
    kind = random.random()
    if kind < _COMPOSED and (composed := list(domain.composed(random, 1))):
        return domain, composed[0]
    if kind < _COMPOSED + _OF_TWO and (longer := [q for q in domain.questions if len(q.path) > 1]):
        return domain, random.choice(longer)
    return domain, random.choice(domain.questions)


def branching(
    domain: Domain, asked: Asked, lexicon: PathLexicon, prompt: Prompt, random: Random | None
) -> Branching:
    """Return the path that ``asked`` asks for, drawn by ``random``; without it always the same.

    ``prompt``: the token ids before a path, by the question and the names of its topic entities.
    """
    names, ends = domain.types, domain.ends[asked.type]
    style, has = _STYLES[0], False
    if random is not None:
        style, has = random.choice(_STYLES), random.random() < _HAS

    def name_of(type_: str) -> str:
        given = names[type_]["names"]
        return str(given[0] if random is None else random.choice(given))

    def there() -> bool:
        return random is None or random.random() > _MISSING

    topic = name_of(asked.type)
    first, *more = [hop[0] for hop in asked.path]
    firsts = [path[0][0] for path in ends if len(path) == 1 and (path[0][0] == first or there())]
    station = name_of(ends[asked.path[:1]])
    seconds = [
        path[1][0]
        for path in ends
        if len(path) == 2 and path[0][0] == first and (path == asked.path or there())
    ]
    steps = list(dict.fromkeys((*firsts, *seconds)))
    inverse = lexicon.form.inverse
    texts = [
        (inverse if step % 2 else "") + _styled(domain.phrases[step // 2], style, has, random)
        for step in steps
    ]
    relations = {
        step: lexicon.parts("", [(text, "")])[2] for step, text in zip(steps, texts, strict=True)
    }
    head, tail = (lexicon.parts(name, [])[1] for name in (topic, station))
    example = Branching([*prompt(asked.text.replace("{x}", topic), [topic]), *head])
    example.follow(relations[first], [relations[step] for step in firsts])
    example.tokens += tail
    end = [lexicon.closing]
    following = relations[more[0]] if more else end
    example.follow(following, [end, *(relations[step] for step in seconds)])
    return example


def batches_of_paths(
    domains: Sequence[Domain], size: int, lexicon: PathLexicon, prompt: Prompt, random: Random
) -> Iterator[list[Branching]]:
    """Yield batches of ``size`` examples without end; those without any choice are left out."""
    while True:
        made = [branching(*drawn(domains, random), lexicon, prompt, random) for _ in range(size)]
        yield [example for example in made if example.places]


def _styled(phrase: str, style: str, has: bool, random: Random | None) -> str:
    """Return the name of a relation in a style of naming."""
    words = phrase.split()
    if has and random is not None and random.random() < 0.5 and words[0] not in ("has", "is"):
        words = ["has", *words]
    if style == "camel":
        return words[0] + "".join(word.title() for word in words[1:])
    joined = (" " if style == "words" else "_").join(words)
    return joined.upper() if style == "upper" else joined


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
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    fit = Fit(
        model,
        optimizer,
        Schedule(steps),
        lambda batch: _losses(model, batch).sum() / len(batch),
        progress,
    )
    fit.run(batches)
    return model.eval(), fit.mean_loss


def path_losses(
    model: Any, examples: Sequence[Branching], together: int = 32
) -> NDArray[np.float64]:
    """Return the negative log-likelihood of each example's path under the constraint, in nats."""
    sums: list[float] = []
    with torch.inference_mode():
        for start in range(0, len(examples), together):
            some = examples[start : start + together]
            losses = _losses(model, some).tolist()
            ends = np.cumsum([0, *(len(example.places) for example in some)]).tolist()
            sums += [math.fsum(losses[begin:end]) for begin, end in pairwise(ends)]
    return np.array(sums)


def _losses(model: Any, batch: Sequence[Branching]) -> torch.Tensor:
    """Return the loss of each choice, of all examples in turn."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    device = causal.get_output_embeddings().weight.device
    padded = collated(
        [{"input_ids": example.tokens, "labels": example.tokens} for example in batch], 0
    )
    rows = [row for row, example in enumerate(batch) for _ in example.places]
    places = [place for example in batch for place in example.places]
    sets = [allowed for example in batch for allowed in example.allowed]
    most = max(map(len, sets), default=1)
    allowed = torch.tensor([[*ids, *[-1] * (most - len(ids))] for ids in sets], device=device)
    chosen = torch.tensor([place for example in batch for place in example.chosen], device=device)
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


def train(_: Path, out: Path, steps: int) -> None:
    """Train the universal adapter on the invented domains; print the loss on those held out."""
    domains = [Domain(file) for file in sorted(DOMAINS.glob("*.json"))]
    cache, progress = Settings().cache_folder, TerminalProgress()  # type: ignore[call-arg]
    kg_llm = load_kg_llm(None, NO_ADAPTER, device="cpu", cache=cache, progress=progress)
    slope, shift = CALIBRATION
    card = replace(
        AdapterCard(), tail_temperature=math.inf, direction="both",
        calibration_slope=slope, calibration_shift=shift,
    )  # fmt: skip
    lexicon = PathLexicon(kg_llm.encoder, path_format(card))
    random = Random(5)
    checks = [
        branching(domain, asked, lexicon, kg_llm.prompt_ids, None)
        for domain in domains
        if domain.name in HELD_OUT
        for asked in random.sample(domain.questions, _CHECKS)
    ]
    before = path_losses(kg_llm.model, checks).mean()
    taught = [domain for domain in domains if domain.name not in HELD_OUT]
    batches = batches_of_paths(taught, _BATCH, lexicon, kg_llm.prompt_ids, Random(_SEED))
    model, loss = fit_constrained(
        kg_llm, batches, steps=steps, rank=_RANK, rate=_RATE, seed=_SEED, progress=progress
    )
    after = path_losses(model, checks).mean()
    out.mkdir(parents=True, exist_ok=True)
    save_model(kg_llm.with_card(card), model, out)
    print(
        f"{len(taught)} domains, loss {loss:.3f}; of {len(checks)} paths held out "
        f"{before:.3f} before, {after:.3f} after"
    )
