"""Which of the weighed entities are the answers, what their scores are, and whether there is one.

Three decisions. A *score* is an entity's share of the probability of the decoded paths: scores of a
list sum to that probability, so to at most 1, and what is missing belongs to paths that were not
decoded. The *cut* takes from the ranked list those that weigh nearly as much as the first. The
*confidence* is made of the *evidence*: the probability of the relation paths that lead to the first
answer (how sure the model is of what is asked for, not of one of its many tails), each times its
coverage where that was measured (:mod:`kgqa.answers.evidence`: how much of its own words the
model found in the graph). Where it is thin, the graph is said to have no answer.

What it does not do: weigh (``aggregate``). Pure functions. A confidence means something only where
the scores of paths were renormalised over what the constraint allows (``score_rule`` "allowed");
over the whole vocabulary it falls with every token, and no threshold fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.aggregate import Candidate, RelationPath

ROUNDING = 1e-9  # of sums of probabilities: two that are equal may differ by as much


@dataclass(frozen=True, slots=True)
class ConfidenceOptions:
    """When to answer what. The defaults and the figures that chose them: docs/evaluation.md.

    ``cut`` (0 to 1): an entity is an answer where it weighs at least that part of the first one; 0
    takes all, 1 only the first and what weighs the same. ``cut_several``: the same for questions
    with several topic entities, which mostly ask for the one thing that they have in common.
    ``doubt`` (0 to 1): with a lower confidence there is no answer; 0 always answers, None is what
    the model's card says, and 0 where nobody says. ``slope`` (above 0) and ``shift`` make a
    confidence of the evidence: its log-odds times the one plus the other; 1 and 0 leave it as it
    is.
    """

    cut: float = 0.3
    cut_several: float = 0.9
    doubt: float | None = None
    slope: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.slope < math.inf and math.isfinite(self.shift)):
            raise UsageError(
                f"Evidence cannot become confidence by a slope of {self.slope} and a shift of "
                f"{self.shift}.",
                "The slope is above 0, and both are finite.",
            )
        for name in ("cut", "cut_several", "doubt"):
            value = getattr(self, name)
            if value is None and name == "doubt":
                continue
            if not 0.0 <= value <= 1.0:
                raise UsageError(
                    f"The threshold {name} is a share from 0 to 1, not {value}.",
                    "0 keeps every answer; higher values keep fewer.",
                )


@dataclass(frozen=True, slots=True)
class Judged:
    """What a ranked list is worth.

    ``scores``: one for each candidate, in their order, falling, sum at most 1; ``chosen``: how many
    at the head of the list are the answers; ``confidence``: in 0..1; ``thin``: whether that is too
    little to answer, then ``chosen`` is 0.
    """

    scores: tuple[float, ...]
    chosen: int
    confidence: float
    thin: bool


def judge(
    candidates: Sequence[Candidate],
    found: Sequence[RelationPath],
    options: ConfidenceOptions,
    topics: int = 1,
) -> Judged:
    """Return scores, cut and confidence of ``candidates`` (best first), weighed from ``found``.

    ``topics``: how many topic entities the question has.
    """
    if not candidates:
        return Judged((), 0, 0.0, thin=True)
    evidence = evidence_of(candidates[0], found)
    confidence = calibrated(evidence, options.slope, options.shift)
    thin = confidence < (options.doubt or 0.0)
    chosen = 0 if thin else cut(candidates, options.cut_several if topics > 1 else options.cut)
    return Judged(tuple(shares(candidates, found)), chosen, confidence, thin)


def shares(candidates: Sequence[Candidate], found: Sequence[RelationPath]) -> list[float]:
    """Return each candidate's share of the probability of ``found``, in proportion to its weight.

    What was written beyond the paths counts to that probability. They sum to it (0 where there is
    no weight), and to no more than 1.
    """
    written = (one.written for one in candidates)
    decoded = min(1.0, math.fsum([*(one.probability for one in found), *written]))
    total = math.fsum(one.weight for one in candidates)
    return [decoded * one.weight / total if total else 0.0 for one in candidates]


def cut(candidates: Sequence[Candidate], share: float) -> int:
    """Return how many of ``candidates`` weigh at least ``share`` of what the first one weighs."""
    if not candidates:
        return 0
    least = share * candidates[0].weight * (1.0 - ROUNDING)
    return sum(one.weight >= least for one in candidates)


def calibrated(evidence: float, slope: float, shift: float) -> float:
    """Return the confidence that evidence of 0..1 gives; it never falls when the evidence grows.

    >>> calibrated(0.25, 1.0, 0.0)
    0.25
    """
    if (slope, shift) == (1.0, 0.0) or not 0.0 < evidence < 1.0:
        return evidence
    odds = slope * (math.log(evidence) - math.log1p(-evidence)) + shift
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


def evidence_of(first: Candidate, found: Sequence[RelationPath]) -> float:
    """Return the probability of the relation paths of ``found`` that lead to ``first``.

    That is their part, by weight, of all that was decoded. Each times its coverage, where that was
    measured. Where ``first`` was written beyond paths, the probability of that counts, too.
    """
    decoded = math.fsum(one.probability for one in found)
    total = math.fsum(one.weight for one in found)
    leading = (
        decoded
        * (one.weight / total if total else 0.0)
        * (1.0 if one.source.coverage is None else one.source.coverage)
        for one in found
        if first.node.id in one.tails
        or any(path.grounding.tail.id == first.node.id for path in one.expanded)
    )
    return min(1.0, math.fsum([*leading, first.written]))
