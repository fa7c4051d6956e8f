"""Ranks entities by decoded paths, and computes the confidence in the first one.

Paths of one relation path (out of one topic entity) say what the question asks for: their
probabilities add up, and go to each of its tails in full, since a question for a list has many
right answers. Paths that end in one entity say that it is an answer: what its relation paths weigh
adds up, too, and one that several topic entities lead to in the graph is preferred.

A *score* is an entity's part of the probability of the decoded paths. The *threshold* takes those
that weigh nearly as much as the first. The *confidence* is made of the *evidence*: the probability
of the relation paths that lead to the first answer, each times its coverage if that was measured.
It means something only if the scores of paths were renormalised over what the constraint allows
(``score_rule`` "allowed"); over the whole vocabulary it falls with every token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kgqa.answers.answer import Findings, RankedAnswer
from kgqa.answers.expand import expanded, paths_along, reached_by
from kgqa.answers.naming import tally
from kgqa.display import NO_EVIDENCE, said_entity, said_name
from kgqa.errors import UsageError
from kgqa.graph.model import keys_array
from kgqa.paths.ground import Node
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kgqa.answers.answer import ExpandedPath, ScoredPath, TopicEntity
    from kgqa.answers.naming import WrittenAnswer
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules

WEIGHTS = weights("answers")
# the head's id; for each hop the relation as it is shown, and the predicates behind it
Signature: TypeAlias = "tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]"

TAIL_TEMPERATURE = WEIGHTS["tail_temperature"]
SUPPORT = WEIGHTS["support"]
_NAMED = 3  # most entities named in a note
ROUNDING = 1e-9  # of sums of probabilities: two that are equal may differ by as much


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How decoded paths become answers. The measurements behind the defaults: docs/results.md.

    ``tail_temperature`` (above 0): a tail's probability relative to the best one of its relation
    path is raised to 1/temperature; infinite: all tails weigh the same. ``max_tails``: a relation
    path with more is not expanded. ``answer_threshold`` (0 to 1): the part of the first entity's
    weight that makes an entity an answer; ``answer_threshold_several``: the same for questions with
    several topic entities, which mostly ask for what they have in common. ``min_confidence`` (0 to
    1): an answer of lower confidence is withheld. ``slope`` (above 0) and ``shift``: the
    confidence's log-odds are the evidence's, times ``slope``, plus ``shift``. Raises UsageError.
    """

    tail_temperature: float = TAIL_TEMPERATURE
    max_tails: int = 200
    answer_threshold: float = WEIGHTS["answer_threshold"]
    answer_threshold_several: float = WEIGHTS["answer_threshold_several"]
    min_confidence: float = 0.0
    slope: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.answer_threshold, self.answer_threshold_several, self.min_confidence)
        for name, fits in (
            ("tail_temperature", self.tail_temperature > 0.0),
            ("max_tails", self.max_tails >= 1),
            ("answer_threshold", all(0.0 <= share <= 1.0 for share in shares[:2])),
            ("min_confidence", 0.0 <= shares[2] <= 1.0),
            ("slope", 0.0 < self.slope < math.inf),
            ("shift", math.isfinite(self.shift)),
        ):
            if not fits:
                raise UsageError(f"`{name}` cannot be {getattr(self, name)}.")

    def threshold(self, topics: int) -> float:
        """Return the answer threshold for a question with ``topics`` topic entities."""
        return self.answer_threshold_several if topics > 1 else self.answer_threshold


@dataclass(slots=True)
class WeighedRelationPath:
    """The decoded paths of one relation path out of one topic entity.

    ``probability``: their sum; ``weight``: the same without the part that is due to a lack of
    alternatives in the graph (``ScoredPath.lost``); ``source``, ``grounding``: the best path;
    ``tails``: the probability of each end; ``expanded``: paths walked to other tails.
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

    def leads_to(self, entity: str) -> bool:
        """Return whether a decoded or an expanded path ends in ``entity`` (id)."""
        return entity in self.tails or any(
            path.grounding.tail.id == entity for path in self.expanded
        )


@dataclass(frozen=True, slots=True)
class WeighedEntity:
    """An entity that paths lead to, or that was written after them, with its weight.

    ``weight``: comparable only within a question; ``probability``: of the decoded paths that end in
    it; ``heads``: the ids of the topic entities with a path to it; ``path``: the one that
    contributes most weight, ``expanded`` if it was walked; ``written``: the probability of the
    answers written for it. An entity that was only written has no path, and an empty id if not in
    the KG.
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
    """Return the key of a path's topic entity and relation path."""
    return path.head.id, tuple(
        (edge.relation, tuple(fact.predicate for fact in edge.facts)) for edge in path.edges
    )


def to_probability(paths: Sequence[ScoredPath]) -> Callable[[float], float]:
    """Return the function that converts scores to probabilities, given the scores of ``paths``.

    If all are too small for a float, they are scaled up in proportion.
    """
    top = max((path.score for path in paths), default=0.0)
    if top > -600:  # exp of it is a normal float
        return math.exp
    return lambda score: math.exp(score - top) / len(paths)


def relation_paths(paths: Sequence[ScoredPath]) -> list[WeighedRelationPath]:
    """Group ``paths`` by relation path, the heaviest first.

    A path whose text stands for several id paths (entities may share a name) gives each an equal
    part of its probability.
    """
    by_signature: dict[Signature, WeighedRelationPath] = {}
    least = max((path.lost for path in paths), default=0.0)
    scale = to_probability(paths)
    for path in paths:
        part = scale(path.score) / len(path.groundings)
        for grounding in path.groundings:
            key = signature(grounding)
            mine = by_signature.setdefault(key, WeighedRelationPath(key, path, grounding))
            mine.probability += part
            mine.weight += part * math.exp(path.lost - least)
            mine.tails[grounding.tail.id] = mine.tails.get(grounding.tail.id, 0.0) + part
    return sorted(
        by_signature.values(), key=lambda weighed_relation_path: -weighed_relation_path.weight
    )  # stable: the best path's first


def worth_expanding(paths: Sequence[WeighedRelationPath]) -> list[WeighedRelationPath]:
    """Return the relation paths with a large enough share of weight to be expanded to all tails."""
    total = math.fsum(path.weight for path in paths)
    return [path for path in paths if path.weight >= WEIGHTS["expanded"] * total] if total else []


def aggregate(
    weighed: Iterable[WeighedRelationPath],
    paths: Sequence[ScoredPath],
    tail_temperature: float = TAIL_TEMPERATURE,
    reached: Mapping[str, Iterable[str]] | None = None,
    written: Sequence[WrittenAnswer] = (),
) -> list[WeighedEntity]:
    """Return the entities that relation paths lead to, by weight; ties by name, then id.

    ``paths``: the decoded ones in the relation paths ``weighed``. ``reached``: by entity id,
    further topic entities that have a path to it in the graph. ``written``: answers that no path
    contains (:func:`kgqa.answers.naming.tally`), weighted by their probability.
    """
    weights: dict[str, dict[str, float]] = {}  # entity -> topic entity -> weight
    best: dict[str, tuple[float, GroundedPath, ExpandedPath | None]] = {}
    decoded: dict[str, float] = {}
    shown: dict[tuple[Signature, str], GroundedPath] = {}  # the best path to each tail
    for path in paths:
        for grounding in path.groundings:
            shown.setdefault((signature(grounding), grounding.tail.id), grounding)
    for relation in weighed:
        ends = {
            expanded_path.grounding.tail.id: expanded_path for expanded_path in relation.expanded
        }
        for entity, part in _parts(relation, ends, tail_temperature).items():
            weight = relation.weight * part
            heads = weights.setdefault(entity, {})
            heads[relation.head] = heads.get(relation.head, 0.0) + weight
            decoded[entity] = decoded.get(entity, 0.0) + relation.tails.get(entity, 0.0)
            if entity not in best or weight > best[entity][0]:
                walked = None if entity in relation.tails else ends[entity]
                way = walked.grounding if walked else shown[relation.signature, entity]
                best[entity] = (weight, way, walked)
    beyond, nodes = _written(written, paths)
    entities = [
        WeighedEntity(node, beyond[entity], 0.0, (), None, None, beyond[entity], grounded)
        for entity, (node, grounded) in nodes.items()
        if entity not in weights
    ]
    for entity, parts in weights.items():
        _, way, walked = best[entity]
        heads_of = tuple(sorted({*parts, *(reached or {}).get(entity, ())}))
        weight = math.fsum(parts.values()) * (1.0 + SUPPORT * (len(heads_of) - 1))
        more = beyond.get(entity, 0.0)
        entities.append(
            WeighedEntity(way.tail, weight + more, decoded[entity], heads_of, way, walked, more)
        )
    return sorted(
        entities,
        key=lambda weighed_entity: (
            -weighed_entity.weight,
            -weighed_entity.probability,
            weighed_entity.node.name,
            weighed_entity.node.id,
        ),
    )


def _written(
    written: Sequence[WrittenAnswer], paths: Sequence[ScoredPath]
) -> tuple[dict[str, float], dict[str, tuple[Node, bool]]]:
    """Return the probability and the (node, grounded) of each written answer, by id or name.

    An answer that names several entities gives each an equal part.
    """
    probability: dict[str, float] = {}
    nodes: dict[str, tuple[Node, bool]] = {}
    scale = to_probability(paths)
    for answer in written:
        meant = answer.nodes or (Node("", answer.name),)
        for node in meant:
            key = node.id or f"\0{answer.name}"
            probability[key] = probability.get(key, 0.0) + scale(answer.score) / len(meant)
            nodes.setdefault(key, (node, answer.grounded))
    return probability, nodes


def _parts(
    relation: WeighedRelationPath, ends: Iterable[str], tail_temperature: float
) -> dict[str, float]:
    """Return each tail's weight relative to the best tail of the relation path, which has 1.

    ``ends``: ids of tails that were walked; one that was not decoded gets the weight of the least
    probable decoded one.
    """
    top = max(relation.tails.values())
    if not top:
        return dict.fromkeys([*relation.tails, *ends], 1.0)
    power = 1.0 / tail_temperature
    parts = {entity: (tail / top) ** power for entity, tail in relation.tails.items()}
    least = min(parts.values())
    return {**dict.fromkeys(ends, least), **parts}


class Decision(NamedTuple):
    """The scores of a ranked list, how many of it are answers, and the confidence.

    ``scores``: one for each entity, in order, falling, sum at most 1; ``chosen``: the number of
    answers at the head of the list, 0 if the ``confidence`` (0..1) is too low.
    """

    scores: tuple[float, ...]
    chosen: int
    confidence: float


def decide(
    entities: Sequence[WeighedEntity],
    paths: Sequence[WeighedRelationPath],
    options: RankingOptions,
    topics: int = 1,
) -> Decision:
    """Return scores, number of answers and confidence for ``entities`` (best first).

    ``topics``: the number of topic entities. An entity's score is its share, by weight, of the
    probability of ``paths`` and of written answers that no path contains.
    """
    if not entities:
        return Decision((), 0, 0.0)
    confidence = calibrated(evidence_for(entities[0], paths), options.slope, options.shift)
    weights = [entity.weight for entity in entities]
    sure = confidence >= options.min_confidence
    chosen = near_first(weights, options.threshold(topics)) if sure else 0
    written = (entity.written for entity in entities)
    decoded = min(1.0, math.fsum([*(path.probability for path in paths), *written]))
    total = math.fsum(weights)
    scores = tuple(decoded * weight / total if total else 0.0 for weight in weights)
    return Decision(scores, chosen, confidence)


def near_first(weights: Sequence[float], threshold: float) -> int:
    """Return how many ``weights`` are at least ``threshold`` times the first one; 0 for none."""
    least = threshold * weights[0] * (1.0 - ROUNDING) if weights else 0.0
    return sum(weight >= least for weight in weights)


def calibrated(evidence: float, slope: float, shift: float) -> float:
    """Return the confidence for evidence of 0..1; it never falls when the evidence grows.

    >>> calibrated(0.25, 1.0, 0.0)
    0.25
    """
    if (slope, shift) == (1.0, 0.0) or not 0.0 < evidence < 1.0:
        return evidence
    odds = slope * (math.log(evidence) - math.log1p(-evidence)) + shift
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700 else 0.0


def evidence_for(first: WeighedEntity, paths: Sequence[WeighedRelationPath]) -> float:
    """Return the probability of the relation paths that lead to ``first``.

    Each counts by its weight, times its coverage if that was measured; the probability of answers
    written for ``first`` is added.
    """
    decoded = math.fsum(path.probability for path in paths)
    total = math.fsum(path.weight for path in paths)
    leading = (
        decoded
        * (path.weight / total if total else 0.0)
        * (1.0 if path.source.coverage is None else path.source.coverage)
        for path in paths
        if path.leads_to(first.node.id)
    )
    return min(1.0, math.fsum([*leading, first.written]))


def weigh(
    store: GraphStore,
    paths: Sequence[ScoredPath],
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    form: PathFormat,
    options: RankingOptions | None = None,
) -> Findings:
    """Rank entities by decoded, grounded ``paths`` out of ``topics``, and return the findings.

    Sufficiently probable relation paths are expanded to all their tails; ``expanded`` has a path
    for each entity in which no decoded one ends. With insufficient evidence nothing is answered,
    and all entities are ``others``. Scores sum to at most 1 over both. ``rules`` and ``form``: the
    walk rules and format of the paths. Raises GraphError.
    """
    options = options or RankingOptions()
    ballots = tally(paths, store)
    weighed = relation_paths(ballots.paths)
    notes: list[str] = []
    found = []
    for path in worth_expanding(weighed):
        tails = paths_along(store, path.grounding, rules, options.max_tails)
        if tails is not None:
            found.append((path, tails))
            continue
        label = " -> ".join(said_name(edge.relation) for edge in path.grounding.edges)
        head = path.grounding.head
        notes.append(
            f"{label} leads from {said_entity(head.name, head.id)} to more than "
            f"{options.max_tails:,} entities; only those that the KG-LLM wrote are listed "
            f"({len(path.tails)})."
        )
    asked = [(path.grounding, path.source.text, tails) for path, tails in found]
    for (path, _), walked in zip(found, expanded(store, asked, form), strict=True):
        path.expanded = walked
    reached = _reached(store, topics, weighed, rules, notes)
    entities = aggregate(weighed, ballots.paths, options.tail_temperature, reached, ballots.written)
    judged = decide(entities, weighed, options, len(topics))
    ranked = [
        RankedAnswer(entity.node.id or None, entity.node.name, score, entity.grounded)
        for entity, score in zip(entities, judged.scores, strict=True)
    ]
    if entities and not judged.chosen:
        first = entities[0].node
        notes.append(
            f"{NO_EVIDENCE}: the paths found have little to do with the "
            f"question (confidence {judged.confidence:.2f}). The best of them ends in "
            + (f"{said_entity(first.name, first.id)}." if first.id else f"{said_name(first.name)}.")
        )
    return Findings(
        answers=tuple(ranked[: judged.chosen]),
        others=tuple(ranked[judged.chosen :]),
        expanded=tuple(entity.expanded for entity in entities if entity.expanded is not None),
        confidence=judged.confidence,
        notes=tuple(notes),
    )


def vote(paths: Sequence[ScoredPath], store: GraphStore | None = None) -> list[RankedAnswer]:
    """Rank the ends of ``paths`` by the summed probability of the paths to each.

    A path gives its probability to every entity that its text can end in (entities may share a
    name), or to the answer written after it (:func:`kgqa.answers.naming.tally`; in ``store`` names
    are looked up that no path contains). Scores sum to 1; ties are ordered by name, then id. Raises
    GraphError.
    """
    ballots = tally(paths, store)
    scale = to_probability(ballots.paths)
    weight, nodes = _written(ballots.written, ballots.paths)
    for path in ballots.paths:
        for tail in {grounding.tail.id: grounding.tail for grounding in path.groundings}.values():
            weight[tail.id] = weight.get(tail.id, 0.0) + scale(path.score)
            nodes[tail.id] = tail, True
    total = math.fsum(weight.values())
    ranked = [
        RankedAnswer(node.id or None, node.name, weight[key] / total, grounded)
        for key, (node, grounded) in nodes.items()
    ]
    return sorted(ranked, key=lambda one: (-one.score, one.name, one.id or ""))


def _reached(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    paths: Sequence[WeighedRelationPath],
    rules: WalkRules,
    notes: list[str],
) -> dict[str, list[str]]:
    """Return by entity id the ids of topic entities with a path to it; {} for a single topic.

    Messages on what could not be tested are added to ``notes``.
    """
    if len(topics) < 2:
        return {}
    decoded = (entity for weighed_relation_path in paths for entity in weighed_relation_path.tails)
    walked = (
        path.grounding.tail.id
        for weighed_relation_path in paths
        for path in weighed_relation_path.expanded
    )
    ids = list(dict.fromkeys([*decoded, *walked]))
    keys = store.keys_of(ids)
    by, left_out = reached_by(store, keys_array([topic.key for topic in topics]), keys, rules)
    if len(left_out):
        names = store.entities(left_out[:_NAMED])
        shown = ", ".join(
            said_entity(names.label(row), names.ids[row]) for row in range(len(names))
        )
        more = len(left_out) - _NAMED
        notes.append(
            f"Too well connected to see which topic entities lead there: {shown}"
            + (f" and {more} more." if more > 0 else ".")
        )
    return {
        entity: [topic.id for topic in topics if key in by.get(topic.key, ())]
        for entity, key in zip(ids, keys.tolist(), strict=True)
    }
