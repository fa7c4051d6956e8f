"""How much of what the model would have written the graph has: evidence that there is an answer.

Probabilities that are renormalised over what the constraint allows cannot say that the model would
rather have written something else: asked of the wrong entity, it is as sure of the least wrong
path. The share of its whole probability that the allowed tokens had can. It is taken at the tokens
of relations alone: which names a graph has is nothing that a model could know, which relation a
question asks for is what it was trained on.

What it does not do: decide what is too little (:mod:`kgqa.answers.confidence`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def relation_spans(parts: Sequence[Sequence[int]], link: int) -> list[tuple[int, int]]:
    """Return where the tokens of each relation begin and end in the token sequence of a path.

    ``parts``: the path's tokens as :meth:`kgqa.trie.lexicon.PathLexicon.parts` gives them;
    ``link``: how many tokens the link has that stands on both sides of a relation and does not
    belong to it.
    """
    opening, head, *hops, _ = map(len, parts)
    at = opening + head
    found: list[tuple[int, int]] = []
    for relation, tail in zip(hops[::2], hops[1::2], strict=True):  # a relation with its links
        found.append((at + link, at + relation - link))
        at += relation + tail
    return found


def evidence_of(
    parts: Sequence[Sequence[int]], link: int, covered: Sequence[float]
) -> tuple[float, float]:
    """Return how much of a path's relations the graph has, and what they have lost by that.

    ``parts``, ``link``: see :func:`relation_spans`. ``covered``: the logarithm of the share of the
    model's probability that was allowed, at each token of the path
    (:class:`kgqa.decoding.engine.DecodingOutcome`).

    The first, in 0..1, is the geometric mean of that share over the tokens of relations, so that
    long relations are not taken for unlikely ones.

    The second, at most 0, is the sum of ``covered`` at the tokens of relations, the links around
    them and the closing token, so at all that is no name: the logarithm of what renormalising over
    the graph took from the words that the model would rather have written. Where an entity has one
    relation, its renormalised probability is 1 however little the question asks for it, and so is
    the end's where there is none (label bias: Lafferty et al. 2001, sec. 2); added to the score,
    this undoes it.
    """
    spans = relation_spans(parts, link)
    own = [covered[at] for start, end in spans for at in range(start, end)]
    around = [
        covered[at]
        for start, end in spans
        for at in (*range(start - link, start), *range(end, end + link))
    ]
    coverage = math.exp(min(0.0, math.fsum(own) / max(1, len(own))))
    closing = len(covered) - 1
    return coverage, min(0.0, math.fsum([*own, *around, covered[closing]]))
