"""The answer that a model writes after each path, if it was trained to (``# Answer:``).

The path is constrained, what follows is not: it is written greedily and ends with the line. It is
the model's word, not the graph's: :func:`kgqa.answers.naming.cast` decides what it counts for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from kgqa.decoding.marked import Markers
from kgqa.decoding.pieces import FreeText, Limits, SpanOptions
from kgqa.decoding.spans import Chain, Writer
from kgqa.decoding.text import TextForward
from kgqa.errors import ModelError
from kgqa.models.prompt import lead_to_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.engine import Plan
    from kgqa.models.kg_llm import KgLLM

MOST_TOKENS = 48  # of an answer: longer than any name that is worth reading
_TOGETHER = 32  # paths that are continued in one forward pass


class Hypotheses(NamedTuple):
    """What was written after some paths: ``texts`` in their order, without white space around.

    ``tokens``: those that were written; ``forward_passes`` and ``seconds``: what it took.
    """

    texts: tuple[str, ...]
    tokens: int
    forward_passes: int
    seconds: float


def write_hypotheses(
    kg_llm: KgLLM,
    plan: Plan,
    prompt: Sequence[int],
    paths: Sequence[Sequence[int]],
    most_tokens: int = MOST_TOKENS,
) -> Hypotheses:
    """Return what the model answers after each of ``paths``, decoded greedily.

    ``prompt`` and ``paths`` are token ids; a path has its closing marker. All share the cache of
    the prompt. Raises ModelError if the model gives no numbers, or memory runs out for one path.
    """
    began = time.perf_counter()
    lead = lead_to_answer(kg_llm.card, kg_llm.tokenizer)
    longest = len(prompt) + max(map(len, paths), default=0) + len(lead) + most_tokens
    trees = plan.way == "tree" and (plan.limit is None or longest <= plan.limit)
    forward = TextForward(kg_llm.model, trees=trees)
    after = [[*path, *lead] for path in paths]
    texts: list[str] = []
    tokens = 0
    width = _TOGETHER
    while len(texts) < len(after):
        some = after[len(texts) : len(texts) + width]
        try:
            written = _written(kg_llm, forward, prompt, some, most_tokens)
        except torch.OutOfMemoryError as error:
            if width == 1:
                raise ModelError(
                    "Memory ran out when the model was to write its answer after a path.",
                    "Use a smaller or quantized model, or another `device`.",
                ) from error
            width = max(1, min(width, len(some)) // 2)
            forward = TextForward(kg_llm.model, trees=trees)
            continue
        texts += [text for text, _ in written]
        tokens += sum(count for _, count in written)
    return Hypotheses(tuple(texts), tokens, forward.forward_passes, time.perf_counter() - began)


def _written(
    kg_llm: KgLLM,
    forward: TextForward,
    prompt: Sequence[int],
    paths: Sequence[Sequence[int]],
    most_tokens: int,
) -> list[tuple[str, int]]:
    """Return the text after each of ``paths`` and how many tokens were written for it."""
    closing = kg_llm.encoder.marker_id(kg_llm.card.end)
    assert closing is not None  # a constraint without it would not have been made
    known = kg_llm.tokenizer.added_tokens_decoder.items()
    special = {number for number, token in known if token.special}
    ends = frozenset({*special, kg_llm.encoder.eos_id} - {closing})
    options = SpanOptions(
        Markers(((closing,),)),  # with no span allowed: it is never written
        end_tokens=ends,
        limits=Limits(tokens=most_tokens, spans=0),
        stop=("\n",),
    )
    writer = Writer(forward, kg_llm.encoder.decode, lambda _number, _before: None, options)
    base = forward.text(prompt)
    if forward.tree is not None:  # its cache is shared by all that follow
        (base,), _ = forward.following([base])
    texts = [base.extended(path) for path in paths]
    done = writer.free([Chain(text, len(text.tokens)) for text in texts])
    writer.keep([])
    found = []
    for chain in done:
        text, count = "", 0
        for piece in chain.pieces:
            assert isinstance(piece, FreeText)
            count += len(piece.tokens)
            last = piece.tokens[-1:] if chain.stop == "end token" else ()
            text += piece.text.removesuffix(kg_llm.encoder.decode(last)) if last else piece.text
        found.append((text.strip(), count))
    return found
