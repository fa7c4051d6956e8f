"""Whether a model can be run over trees of tokens: found out by running it, never assumed.

A few prompts with a small tree behind each are run both ways: as trees that share forward passes, and
each prefix alone. The tree is right where its log-probabilities differ from the plain ones by no
more than rounding; how much the plain ones change when another ancestor stands in a prefix is the
scale, so that a model with flat distributions cannot pass by having little to differ in.

A configuration can say that attention ends after so many tokens: up to there a tree is tried, and
beyond it never used. What this module does not do: remember what it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch

from kgqa.decoding.forward import Asked, Packed, Part, TreeForward, float_type
from kgqa.decoding.plain import PlainForward
from kgqa.decoding.wave import NO_TOKEN, NoConstraint, Node, PrefixTree

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedModel

Way: TypeAlias = Literal["tree", "plain"]

# Differences that rounding makes, as a share of what another ancestor makes.
_TOLERANCE = {torch.float32: 2e-3, torch.float64: 2e-3, torch.float16: 0.1, torch.bfloat16: 0.25}
_FLOOR = 2e-5  # what float32 rounds off in a model whose distributions are nearly flat
_PROMPTS = (3, 24)
_BRANCHES = 2
_DEPTH = 3
_WINDOWS = ("sliding_window", "attention_chunk_size")


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model is run. ``why``: what decided it, for people.

    ``limit``: tokens of a prompt with its path up to which a tree is right; None: any number.
    """

    way: Way
    why: str
    limit: int | None = None


def probe(model: PreTrainedModel) -> Fit:
    """Run ``model`` both ways and return which way is right. Memory that runs out is raised."""
    limit = window_of(model)
    if limit is not None and limit < max(_PROMPTS) + _DEPTH:
        return Fit("plain", f"its attention ends after {limit} tokens")
    try:
        differs, scale = _compare(model)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # an architecture may refuse a mask or a cache in any way it likes
        return Fit("plain", f"it cannot be run over a tree ({type(error).__name__})")
    allowed = _TOLERANCE.get(float_type(model), 0.25) * scale + _FLOOR
    if not differs <= allowed:  # NaN is no fit either
        return Fit("plain", f"a tree changes its log-probabilities by {differs:.2g}")
    why = f"a tree changes its log-probabilities by {differs:.1g}, which is rounding"
    return Fit("tree", why, limit)


def window_of(model: PreTrainedModel) -> int | None:
    """Return after how many tokens the attention of some layer ends, as the configuration says."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if kinds and all(kind == "full_attention" for kind in kinds):
        return None
    if not kinds and getattr(config, "use_sliding_window", True) is False:
        return None
    found = [getattr(config, name, None) for name in _WINDOWS]
    return min((int(one) for one in found if one), default=None)


def _compare(model: PreTrainedModel) -> tuple[float, float]:
    """Return the mean difference of tree and plain, and of plain with another ancestor."""
    vocabulary = int(model.config.get_text_config().vocab_size)
    choose = np.random.default_rng(0)
    forward, plain = TreeForward(model), PlainForward(model)
    asked, waves = [], []
    for length in _PROMPTS:
        prompt = choose.integers(0, vocabulary, length).tolist()
        asked.append(Asked(prompt, PrefixTree(NoConstraint())))
        # the same tokens at every depth: nodes differ by their ancestors alone
        waves.append(_nodes(choose.choice(vocabulary, _BRANCHES, replace=False).tolist()))
    differs, scale = [], []
    seen: list[dict[int, NDArray[np.float32]]] = [{} for _ in asked]
    for depths in (range(2), range(2, _DEPTH + 1)):  # with the prompt, and on what is cached
        nodes = [[node for node in wave if node.depth in depths] for wave in waves]
        parts = [
            Part(one, len(one.prompt) if 0 in depths else 0, some)
            for one, some in zip(asked, nodes, strict=True)
        ]
        columns = forward.cache.take(sum(part.tokens for part in parts))
        packed = Packed(parts, columns)
        forward.cache.aim(columns, model.device)
        logits = forward.run(packed).float().log_softmax(-1).cpu().numpy()
        packed.settle()
        number = 0
        for question, some in enumerate(nodes):
            for node in some:
                seen[question][node.state] = logits[number]
                number += 1
    for question, one in enumerate(asked):
        tokens = {node.state: node for node in waves[question]}
        rows = [[*one.prompt, *_prefix(tokens, node)] for node in waves[question]]
        last: dict[tuple[int, int], NDArray[np.float32]] = {}
        for node, row in zip(waves[question], rows, strict=True):
            truth = plain.run([row], len(row) - 1)[0, 0].float().log_softmax(-1).cpu().numpy()
            differs.append(float(np.abs(truth - seen[question][node.state]).mean()))
            twin = last.setdefault((node.depth, node.token), truth)
            if twin is not truth:
                scale.append(float(np.abs(truth - twin).mean()))
    return max(differs) if np.isfinite(differs).all() else float("nan"), float(np.mean(scale))


def _nodes(tokens: list[int]) -> list[Node]:
    nodes = [Node(0, NO_TOKEN, 0, 0)]
    for parent in nodes:  # grows while it is read
        if parent.depth == _DEPTH:
            break
        nodes += [
            Node(len(nodes) + at, token, parent.state, parent.depth + 1)
            for at, token in enumerate(tokens)
        ]
    return nodes


def _prefix(nodes: dict[int, Node], node: Node) -> list[int]:
    return [] if node.token == NO_TOKEN else [*_prefix(nodes, nodes[node.parent]), node.token]
