"""Answers from scored paths without a general LLM: a vote, or paths weighed and expanded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kgqa.answers.answer import Findings, RankedAnswer
from kgqa.answers.expand import expanded, paths_along, reached_by
from kgqa.answers.naming import cast
from kgqa.answers.ranking import RankingOptions, aggregate, judge, relation_paths, worth_expanding
from kgqa.graph.model import keys_array
from kgqa.paths.format import PathFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import ScoredPath, TopicEntity
    from kgqa.answers.ranking import RelationPath
    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules

_NAMED = 3  # entities that a note names


def weigh(
    store: GraphStore,
    paths: Sequence[ScoredPath],
    topics: Sequence[TopicEntity],
    rules: WalkRules,
    form: PathFormat,
    options: RankingOptions | None = None,
) -> Findings:
    """Return what decoded, grounded ``paths`` out of ``topics`` say together.

    Relation paths that are sure enough are expanded to all their tails; ``expanded`` has a path for
    each entity that no decoded one ends in. With insufficient evidence there is no answer, and all
    stand in ``others``. Scores sum to at most 1 over both. ``rules`` and ``form`` are those that
    the paths were walked by and are written in. Raises GraphError.
    """
    options = options or RankingOptions()
    ballots = cast(paths, form, store)
    found = relation_paths(ballots.paths)
    notes: list[str] = []
    for one in worth_expanding(found):
        tails = paths_along(store, one.grounding, rules, options.max_tails)
        if tails is not None:
            one.expanded = expanded(store, one.grounding, one.source.text, tails, form)
            continue
        label = " -> ".join(edge.relation for edge in one.grounding.edges)
        head = one.grounding.head
        notes.append(
            f"{label} leads from {head.name} ({head.id}) to more than {options.max_tails:,} "
            f"entities; only those that the KG-LLM wrote are listed ({len(one.tails)})."
        )
    reached = _reached(store, topics, found, rules, notes)
    entities = aggregate(found, ballots.paths, options.tail_temperature, reached, ballots.written)
    judged = judge(entities, found, options, len(topics))
    ranked = [
        RankedAnswer(one.node.id or None, one.node.name, score, one.grounded)
        for one, score in zip(entities, judged.scores, strict=True)
    ]
    if entities and not judged.chosen:
        first = entities[0].node
        notes.append(
            "This graph seems to hold no answer: the paths found have little to do with the "
            f"question (confidence {judged.confidence:.2f}). The best of them ends in {first.name}"
            + (f" ({first.id})." if first.id else ".")
        )
    return Findings(
        answers=tuple(ranked[: judged.chosen]),
        others=tuple(ranked[judged.chosen :]),
        expanded=tuple(one.expanded for one in entities if one.expanded is not None),
        confidence=judged.confidence,
        notes=tuple(notes),
    )


def vote(paths: Sequence[ScoredPath], store: GraphStore | None = None) -> list[RankedAnswer]:
    """Return the ends of ``paths``, ranked by the probability that leads to them.

    A path gives its probability to every entity that its text can end in (entities may share a
    name), or to what was written after it (:func:`kgqa.answers.naming.cast`; ``store`` is where
    names that no path holds are looked up). Scores sum to 1 over all votes; equal ones are ordered
    by name, then id. Raises GraphError.
    """
    ballots = cast(paths, PathFormat(), store)
    weight: dict[str, float] = {}
    name: dict[str, str] = {}
    beyond: set[str] = set()
    for path in ballots.paths:
        for tail in {one.tail.id: one.tail for one in path.groundings}.values():
            weight[tail.id] = weight.get(tail.id, 0.0) + math.exp(path.score)
            name[tail.id] = tail.name
    for one in ballots.written:
        for id_, shown in [(node.id, node.name) for node in one.nodes] or [("", one.name)]:
            key = id_ or f"\0{shown}"
            if key not in weight and not one.grounded:
                beyond.add(key)
            weight[key] = weight.get(key, 0.0) + math.exp(one.score)
            name[key] = shown
    total = sum(weight.values())
    if total == 0.0:  # every path is too unlikely for a float: their order still stands
        weight = {one: 1.0 / (1 + rank) for rank, one in enumerate(weight)}
        total = sum(weight.values())
    ranked = sorted(weight, key=lambda one: (-weight[one], name[one], one))
    return [
        RankedAnswer(
            None if one.startswith("\0") else one, name[one], weight[one] / total, one not in beyond
        )
        for one in ranked
    ]


def _reached(
    store: GraphStore,
    topics: Sequence[TopicEntity],
    found: Sequence[RelationPath],
    rules: WalkRules,
    notes: list[str],
) -> dict[str, list[str]]:
    """Return for each entity that ``found`` leads to which of several topic entities reach it."""
    if len(topics) < 2:
        return {}
    decoded = (entity for one in found for entity in one.tails)
    walked = (path.grounding.tail.id for one in found for path in one.expanded)
    ids = list(dict.fromkeys([*decoded, *walked]))
    keys = store.keys_of(ids)
    by, left_out = reached_by(store, keys_array([topic.key for topic in topics]), keys, rules)
    if len(left_out):
        names = store.entities(left_out[:_NAMED])
        shown = ", ".join(f"{names.label(row)} ({names.ids[row]})" for row in range(len(names)))
        more = len(left_out) - _NAMED
        notes.append(
            f"Too well connected to see which topic entities lead there: {shown}"
            + (f" and {more} more." if more > 0 else ".")
        )
    return {
        entity: [topic.id for topic in topics if key in by.get(topic.key, ())]
        for entity, key in zip(ids, keys.tolist(), strict=True)
    }
