"""How much of what the model would have written the graph has: evidence that there is an answer.

Probabilities that are renormalised over what the constraint allows cannot say that the model would
rather have written something else: asked of the wrong entity, it is as sure of the least wrong
path. The share of its whole probability that the allowed tokens had can. It is taken at the tokens
of relations alone: which names a graph has is nothing that a model could know, which relation a
question asks for is what it was trained on.

What it does not do: decide what is too little (:mod:`kgqa.reasoning.confidence`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.paths.ground import GroundedPath
    from kgqa.trie.lexicon import PathLexicon


def relation_places(path: GroundedPath, lexicon: PathLexicon) -> list[int]:
    """Return the places of the tokens of relations in the token sequence of ``path``.

    The links around a relation do not belong to it.
    """
    return [at for start, end in _relations(path, lexicon)[0] for at in range(start, end)]


def _relations(path: GroundedPath, lexicon: PathLexicon) -> tuple[list[tuple[int, int]], int]:
    """Return where the tokens of each relation begin and end, and the place of the closing one."""
    hops = [(edge.relation, edge.tail.name) for edge in path.edges]
    opening, head, *parts, _ = map(len, lexicon.parts(path.head.name, hops))
    at, link = opening + head, len(lexicon.link)
    found: list[tuple[int, int]] = []
    for relation, tail in zip(parts[::2], parts[1::2], strict=True):  # a relation with its links
        found.append((at + link, at + relation - link))
        at += relation + tail
    return found, at


def relations_lost(path: GroundedPath, lexicon: PathLexicon, covered: Sequence[float]) -> float:
    """Return the logarithm of the probability that the path's relations have lost, at most 0.

    The sum of the log-coverage at their tokens, the links around them and the closing token, so at
    all that is no name: what renormalising over the graph took from the words that the model would
    rather have written. Where an entity has one relation, its renormalised probability is 1 however
    little the question asks for it, and so is the end's where there is none (label bias: Lafferty
    et al. 2001, sec. 2); added to the score, this undoes it. 0 where ``covered`` is empty.
    """
    if not covered:
        return 0.0
    relations, closing = _relations(path, lexicon)
    link = len(lexicon.link)
    places = [at for start, end in relations for at in range(start - link, end + link)]
    return min(0.0, math.fsum(covered[at] for at in [*places, closing]))


def relation_coverage(
    path: GroundedPath, lexicon: PathLexicon, covered: Sequence[float]
) -> float | None:
    """Return which share of the model's probability went to relations that the graph has, in 0..1.

    The geometric mean over the tokens of the path's relations, so that long relations are not taken
    for unlikely ones. ``covered``: the logarithm of the share at each token of the path
    (:class:`kgqa.decoding.engine.Outcome`); None comes of none.
    """
    if not covered:
        return None
    places = relation_places(path, lexicon)
    return math.exp(min(0.0, math.fsum(covered[at] for at in places) / max(1, len(places))))
