"""How a model is best run on its device: found out by running it, never assumed.

Trees are right if log-probabilities differ from those of plain prefixes by no more than rounding,
on the scale of how much another ancestor changes them. Where a configuration ends attention, trees
end, too. The budget of tokens follows from measured times (:mod:`kgqa.decoding.widths`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from kgqa.decoding.engine import DecodingPlan
from kgqa.decoding.fixed_shapes import FixedForward, tree_forward
from kgqa.decoding.forward import PlainForward, PromptTree, TreeForward, WavePart, float_type
from kgqa.decoding.model import TreeModel
from kgqa.decoding.speculative_tree import NO_TOKEN, NoConstraint, PrefixTree, WaveNode
from kgqa.decoding.widths import FORWARD_PASSES, choose, cost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

# Differences that rounding makes, relative to those that another ancestor makes.
_TOLERANCE = {torch.float32: 2e-3, torch.float64: 2e-3, torch.float16: 0.1, torch.bfloat16: 0.25}
_FLOOR = 2e-5  # what float32 rounds off in a model whose distributions are nearly flat
_PROMPTS = (3, 24)
_BRANCHES = 2
_DEPTH = 3
_WINDOWS = ("sliding_window", "attention_chunk_size")

WIDTHS = (1, 16, 32, 64, 96, 128)
_WIDE = (256, 512, 1_024, 2_048)  # on a GPU as well; the widest are of many questions
_CONTEXT = 64  # cached tokens that a measured forward pass attends to
_REPEATS = 3
_REPEATS_FIXED = 5  # of which the first two prepare a graph


def measured_plan(model: PreTrainedModel, *, fixed: bool | None = None) -> DecodingPlan:
    """Return the fastest decoding plan for ``model``, after timing test passes on its device.

    ``fixed``: whether passes have fixed shapes, None: on CUDA.
    A model that cannot be run over a tree gets the plan "plain", without timing. Out-of-memory
    errors propagate.
    """
    own = isinstance(model, TreeModel)
    plan = DecodingPlan("tree", "built-in Llama runtime") if own else probe(model)
    if plan.way == "plain":
        return plan
    # other work on the machine is not a reason for another budget
    on_cpu = model.device.type == "cpu"
    widths = WIDTHS if on_cpu else WIDTHS + _WIDE
    clock = time.process_time if on_cpu else time.perf_counter
    taken = measure(model, widths, clock=clock, fixed=fixed)
    rounded = {width: round(milliseconds, 3) for width, milliseconds in taken.items()}
    budget = choose(taken)
    return replace(plan, budget=budget, milliseconds=rounded)


def probe(model: PreTrainedModel) -> DecodingPlan:
    """Compare tree passes with whole-prefix passes; return plan "tree" if they agree, else "plain".

    Out-of-memory errors propagate.
    """
    limit = _window_of(model)
    if limit is not None and limit < max(_PROMPTS) + _DEPTH:
        return DecodingPlan("plain", f"its attention ends after {limit} tokens")
    try:
        differs, scale = _compare(model)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # an architecture may refuse a mask or a cache in any way it likes
        return DecodingPlan("plain", f"it cannot be run over a tree ({type(error).__name__})")
    allowed = _TOLERANCE.get(float_type(model), 0.25) * scale + _FLOOR
    if not differs <= allowed:  # NaN does not fit either
        return DecodingPlan("plain", f"a tree changes its log-probabilities by {differs:.2g}")
    why = f"a tree changes its log-probabilities by {differs:.1g}, which is rounding"
    return DecodingPlan("tree", why, limit)


def _window_of(model: PreTrainedModel) -> int | None:
    """Return the model's sliding attention window in tokens; None if it attends to all tokens."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if kinds and all(kind == "full_attention" for kind in kinds):
        return None
    if not kinds and getattr(config, "use_sliding_window", True) is False:
        return None
    windows = [getattr(config, name, None) for name in _WINDOWS]
    return min((int(window) for window in windows if window), default=None)


def _compare(model: PreTrainedModel) -> tuple[float, float]:
    """Return two mean log-probability differences to whole-prefix passes: largest, and wrong.

    The largest one of tree passes, and that of taking a wrong ancestor: what a real fault looks
    like.
    """
    vocabulary = int(model.config.get_text_config().vocab_size)
    choose = np.random.default_rng(0)
    forward, plain = TreeForward(model), PlainForward(model)
    asked, waves = [], []
    for length in _PROMPTS:
        prompt = choose.integers(0, vocabulary, length).tolist()
        asked.append(PromptTree(prompt, PrefixTree(NoConstraint())))
        # the same tokens at every depth: nodes differ by their ancestors alone
        waves.append(_nodes(choose.choice(vocabulary, _BRANCHES, replace=False).tolist()))
    seen: dict[tuple[int, int], NDArray[np.float32]] = {}  # by question and node
    for depths in (range(2), range(2, _DEPTH + 1)):  # with the prompt, and on what is cached
        parts = [
            WavePart(tree, tree.uncached, [node for node in wave if node.depth in depths])
            for tree, wave in zip(asked, waves, strict=True)
        ]
        logits = forward.run(parts, _log_softmax)
        which = [(at, node.state) for at, part in enumerate(parts) for node in part.nodes]
        seen.update(zip(which, logits, strict=True))
    differs, scale = [], []
    for question, (tree, wave) in enumerate(zip(asked, waves, strict=True)):
        prefixes: dict[int, list[int]] = {}
        twins: dict[tuple[int, int], NDArray[np.float32]] = {}
        for node in wave:
            own = [] if node.token == NO_TOKEN else [*prefixes[node.parent], node.token]
            prefixes[node.state] = own
            row = [*tree.prompt, *own]
            truth = _log_softmax(plain.run([row], len(row) - 1)[0, 0])
            differs.append(float(np.abs(truth - seen[question, node.state]).mean()))
            twin = twins.setdefault((node.depth, node.token), truth)
            if twin is not truth:
                scale.append(float(np.abs(truth - twin).mean()))
    return max(differs) if np.isfinite(differs).all() else float("nan"), float(np.mean(scale))


def _log_softmax(logits: torch.Tensor) -> NDArray[np.float32]:
    """Return log-probabilities of ``logits`` as a float32 array on the CPU."""
    scores: NDArray[np.float32] = logits.float().log_softmax(-1).cpu().numpy()
    return scores


def _nodes(tokens: list[int]) -> list[WaveNode]:
    """Return the nodes of a full tree, ``_DEPTH`` deep; each of ``tokens`` follows every node."""
    nodes = [WaveNode(0, NO_TOKEN, 0, 0)]
    for parent in nodes:  # grows while it is read
        if parent.depth == _DEPTH:
            break
        nodes += [
            WaveNode(len(nodes) + at, token, parent.state, parent.depth + 1)
            for at, token in enumerate(tokens)
        ]
    return nodes


def measure(
    model: PreTrainedModel | TreeModel,
    widths: Sequence[int] = WIDTHS,
    *,
    clock: Callable[[], float] = time.perf_counter,
    fixed: bool | None = None,
) -> dict[int, float]:
    """Time forward passes of several widths; return the milliseconds of a pass by width in tokens.

    It stops early at a width that would make a search much slower, or that memory is too small for.
    """
    forward = tree_forward(model, fixed=fixed)
    repeats = _REPEATS_FIXED if isinstance(forward, FixedForward) else _REPEATS
    asked = PromptTree([0] * _CONTEXT, PrefixTree(NoConstraint()))
    forward.score([WavePart(asked, _CONTEXT, [])])
    taken: dict[int, float] = {}
    least = min(FORWARD_PASSES)
    for width in widths:
        nodes = [WaveNode(number, 0, 0, 1) for number in range(1, width + 1)]
        try:
            seconds = min(_timed(forward, asked, nodes, clock) for _ in range(repeats))
        except torch.OutOfMemoryError:
            if width <= least:
                raise
            break
        taken[width] = 1_000 * seconds
        slow = width in FORWARD_PASSES and width > least in taken
        if slow and cost(taken, width) > 2 * cost(taken, least):
            break  # wider ones cannot pay any more
    return taken


def _timed(
    forward: TreeForward, asked: PromptTree, nodes: list[WaveNode], clock: Callable[[], float]
) -> float:
    """Return the seconds of one forward pass over ``nodes`` after the cached prompt."""
    own = PromptTree(asked.prompt, asked.tree, columns=asked.columns)
    began = clock()
    forward.run([WavePart(own, 0, nodes)], lambda logits: logits[:, 0].cpu())  # waits for it
    taken = clock() - began
    forward.cache.give_back(own.all_columns()[_CONTEXT:])
    return taken
