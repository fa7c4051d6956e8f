"""From decoded paths to weighed entities: what paths say together.

Paths are put together twice. Paths of one relation path (out of one topic entity) say what the
question asks for: their probabilities add up. Paths that end in one entity say that it is an
answer: what its relation paths weigh adds up, too, and one that several topic entities lead to is
preferred, since a question that names several things is mostly about what they have in common.
Whether a further topic entity leads to it is asked of the graph, not of the model, which seldom
writes paths out of each.

A relation path's weight goes to its tails in full, not divided among them: a question for a list
has many right answers, each as right as the others. How much less a tail gets that the model found
less probable than its sisters, is an option.

What it does not do: walk the store (``expand``), or say which entities are the answers
(``confidence``). Pure functions over paths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kgqa.errors import UsageError
from kgqa.paths.ground import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kgqa.answers.answer import ScoredPath
    from kgqa.answers.ballots import Written
    from kgqa.answers.expand import ExpandedPath
    from kgqa.paths.ground import GroundedPath

# the head's id; for each hop the relation as it is shown, and the predicates behind it
Signature: TypeAlias = "tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]"

SHARPNESS = 0.3  # where neither the options nor the model's card say one


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """How paths are weighed. The defaults and the figures that chose them: docs/evaluation.md.

    ``sharpness`` (at least 0): the power of a tail's probability against its most probable sister
    of the same relation path; at 0 all tails of a relation path weigh the same, at 1 as their
    probabilities do; None is what the model's card says, and 0.3 where nobody says. ``unbias`` (at
    least 0): how much of what a path's relations owe to there being no others is taken from it
    (:func:`kgqa.answers.evidence.evidence_of`); 0 leaves probabilities as they were decoded.
    ``support`` (at least 0): the share that an entity's weight grows by for each further topic
    entity with a path to it. ``expand``: whether relation paths are walked again for the tails that
    were not decoded. ``share`` (0 to 1): the least part of the decoded probability that a relation
    path must have for that. ``most_tails`` (at least 1): a relation path with more tails is not
    expanded; its decoded tails stand, and that is told.
    """

    sharpness: float | None = None
    unbias: float = 1.0
    support: float = 3.0
    expand: bool = True
    share: float = 0.1
    most_tails: int = 200

    def __post_init__(self) -> None:
        for name, least, most in (
            ("unbias", 0.0, math.inf),
            ("sharpness", 0.0, math.inf),
            ("support", 0.0, math.inf),
            ("share", 0.0, 1.0),
            ("most_tails", 1, math.inf),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            if not least <= value <= most:
                raise UsageError(
                    f"The option {name} of putting paths together cannot be {value}.",
                    f"It is at least {least}" + ("." if most == math.inf else f", at most {most}."),
                )


@dataclass(slots=True)
class RelationPath:
    """The decoded paths of one relation path out of one topic entity.

    ``probability``: what they have together; ``weight``: the same without what their relations owe
    to there being no others (:func:`kgqa.answers.evidence.evidence_of`); ``source``,
    ``grounding``: the best of them; ``tails``: the entities that decoded paths end in, and the
    probability of each; ``expanded``: the paths that were walked to other tails.
    """

    signature: Signature
    source: ScoredPath
    grounding: GroundedPath
    probability: float = 0.0
    weight: float = 0.0
    tails: dict[str, float] = field(default_factory=dict)
    expanded: list[ExpandedPath] = field(default_factory=list)

    @property
    def head(self) -> str:
        """The id of the topic entity."""
        return self.signature[0]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that paths lead to, or that was written after them.

    ``weight``: comparable within a question only; ``probability``: that of the decoded paths that
    end in it; ``heads``: the ids of the topic entities with a path to it; ``path``: the path that
    gives it most of its weight, ``expanded`` whether that one was walked, not decoded; ``written``:
    the probability of what was written for it after paths that do not hold it. One that was only
    written has no path, and an empty id where nothing is called so.
    """

    node: Node
    weight: float
    probability: float
    heads: tuple[str, ...]
    path: GroundedPath | None
    expanded: ExpandedPath | None = None
    written: float = 0.0
    grounded: bool = True


def signature(path: GroundedPath) -> Signature:
    """Return what paths of one relation path out of one topic entity have in common."""
    return path.head.id, tuple(
        (edge.relation, tuple(fact.predicate for fact in edge.facts)) for edge in path.edges
    )


def probabilities(paths: Sequence[ScoredPath]) -> list[float]:
    """Return the probability of each path; where all are too small for a float, in proportion.

    They sum to at most 1 where the scores are those of different paths of one constraint.
    """
    scale = _scale(paths)
    return [scale(path.score) for path in paths]


def _scale(paths: Sequence[ScoredPath]) -> Callable[[float], float]:
    """Return what makes a probability of a score among ``paths``."""
    top = max((path.score for path in paths), default=0.0)
    if top > -600.0:  # exp of it is a float that can still be divided
        return math.exp
    return lambda score: math.exp(score - top) / len(paths)


def relation_paths(paths: Sequence[ScoredPath], unbias: float = 1.0) -> list[RelationPath]:
    """Return the relation paths of ``paths``, those that weigh most first.

    ``unbias``: see :class:`AggregateOptions`. A path whose text stands for several id paths
    (entities may share a name) gives each an equal part of its probability.
    """
    found: dict[Signature, RelationPath] = {}
    least = max((path.lost for path in paths), default=0.0)
    for path, probability in zip(paths, probabilities(paths), strict=True):
        share = probability / len(path.groundings)
        for one in path.groundings:
            key = signature(one)
            mine = found.setdefault(key, RelationPath(key, path, one))
            mine.probability += share
            mine.weight += share * math.exp(unbias * (path.lost - least))
            mine.tails[one.tail.id] = mine.tails.get(one.tail.id, 0.0) + share
    return sorted(found.values(), key=lambda one: -one.weight)  # stable: the best path's first


def worth_expanding(found: Sequence[RelationPath], options: AggregateOptions) -> list[RelationPath]:
    """Return which relation paths have enough of the decoded probability to be expanded."""
    total = math.fsum(one.weight for one in found)
    if not options.expand or not total:
        return []
    return [one for one in found if one.weight >= options.share * total]


def aggregate(
    found: Iterable[RelationPath],
    paths: Sequence[ScoredPath],
    options: AggregateOptions,
    reached: Mapping[str, Iterable[str]] | None = None,
    written: Sequence[Written] = (),
) -> list[Candidate]:
    """Return the entities that ``found`` leads to, best first; equal ones by name, then id.

    ``paths`` are the decoded ones that ``found`` was made of. Every decoded path's end is among the
    candidates, and every expanded one's. ``reached``: for an entity's id the ids of the topic
    entities that have a path to it in the graph, beside those that a path of ``found`` shows.
    ``written``: what was written beyond the paths (:mod:`kgqa.answers.ballots`); it weighs as
    much as its probability.
    """
    weights: dict[str, dict[str, float]] = {}  # entity → topic entity → weight
    best: dict[str, tuple[float, GroundedPath, ExpandedPath | None]] = {}
    decoded: dict[str, float] = {}
    shown = _shown(paths)
    sharpness = SHARPNESS if options.sharpness is None else options.sharpness
    for relation in found:
        ends = {one.grounding.tail.id: one for one in relation.expanded}
        for entity, part in _parts(relation, ends, sharpness).items():
            weight = relation.weight * part
            heads = weights.setdefault(entity, {})
            heads[relation.head] = heads.get(relation.head, 0.0) + weight
            decoded[entity] = decoded.get(entity, 0.0) + relation.tails.get(entity, 0.0)
            if entity not in best or weight > best[entity][0]:
                walked = None if entity in relation.tails else ends[entity]
                path = walked.grounding if walked else shown[relation.signature, entity]
                best[entity] = (weight, path, walked)
    said, nodes = _said(written, paths)
    candidates = [
        Candidate(node, said[entity], 0.0, (), None, None, said[entity], grounded)
        for entity, (node, grounded) in nodes.items()
        if entity not in weights
    ]
    for entity, parts in weights.items():
        _, path, walked = best[entity]
        leading = tuple(sorted({*parts, *(reached or {}).get(entity, ())}))
        weight = math.fsum(parts.values()) * (1.0 + options.support * (len(leading) - 1))
        more = said.get(entity, 0.0)
        candidates.append(
            Candidate(path.tail, weight + more, decoded[entity], leading, path, walked, more)
        )
    return sorted(
        candidates, key=lambda one: (-one.weight, -one.probability, one.node.name, one.node.id)
    )


def _said(
    written: Sequence[Written], paths: Sequence[ScoredPath]
) -> tuple[dict[str, float], dict[str, tuple[Node, bool]]]:
    """Return the probability of what was written, and what it means; unknown names by text."""
    said: dict[str, float] = {}
    nodes: dict[str, tuple[Node, bool]] = {}
    scale = _scale(paths)
    for one in written:
        meant = one.nodes or (Node("", one.name),)
        for node in meant:
            key = node.id or f"\0{one.name}"
            said[key] = said.get(key, 0.0) + scale(one.score) / len(meant)
            nodes.setdefault(key, (node, one.grounded))
    return said, nodes


def _shown(paths: Sequence[ScoredPath]) -> Mapping[tuple[Signature, str], GroundedPath]:
    """Return the best decoded path of each relation path to each of its tails."""
    shown: dict[tuple[Signature, str], GroundedPath] = {}
    for path in paths:
        for one in path.groundings:
            shown.setdefault((signature(one), one.tail.id), one)
    return shown


def _parts(
    relation: RelationPath, ends: Mapping[str, ExpandedPath], sharpness: float
) -> dict[str, float]:
    """Return for each tail which part of the relation path's weight it gets: 1 for the best.

    A tail that was not decoded is no more probable than the least probable decoded one, and is
    given that one's part.
    """
    top = max(relation.tails.values())
    if not top:
        return dict.fromkeys([*relation.tails, *ends], 1.0)
    parts = {entity: (one / top) ** sharpness for entity, one in relation.tails.items()}
    least = min(parts.values())
    return {**dict.fromkeys(ends, least), **parts}
