"""What is measured of a question in its graph: distances, relation paths, linking, triplets.

Distances are breadth-first over sets of entities. Triplets are measured as in Decoding on Graphs
(arXiv 2410.18415, sec. 4); whether one is ill is decided by id, in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.answers.expand import hops_in_turn, walked_back
from kgqa.answers.naming import form_of
from kgqa.errors import LinkingError
from kgqa.graph.model import Kind, keys_array
from kgqa.linking.linker import link, topic_entities
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import TAIL
from kgqa.questions.meanings import known_topics, meanings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.answers.answer import Answer
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath, PathEdge
    from kgqa.paths.walk import WalkRules
    from kgqa.questions.base import Question, Triple

RelationPath: TypeAlias = tuple[str, ...]
CHAINS = "dog"  # the method whose paths are chains of triplets, gold ones or not
TRIPLET_SCORES = ("f1", "precision", "recall")
_FIVE = 5  # candidates of the linker that are looked at


def distance(store: GraphStore, topics: IntArray, wanted: IntArray, rules: WalkRules) -> int | None:
    """Return the hops from ``topics`` to the nearest ``wanted`` (keys), or None."""
    if not len(topics) or not len(wanted):
        return None
    seen = frontier = np.unique(topics)
    for depth in range(1, rules.hops + 1):
        reached = []
        for hops in hops_in_turn(store, frontier, rules):
            ends = hops.hop[:, TAIL]
            if np.isin(ends, wanted).any():
                return depth
            reached.append(np.unique(ends[hops.kind != Kind.VALUE]))
        ends = np.unique(np.concatenate(reached)) if reached else frontier[:0]
        frontier = np.setdiff1d(ends, seen, assume_unique=True)
        seen = np.union1d(seen, frontier)
        if not len(frontier):
            return None
    return None


def relation_path(path: GroundedPath, inverses: Mapping[str, str]) -> RelationPath:
    """Return the predicates of ``path``, mediators' halves apart; ``^`` marks one walked back.

    A predicate with an inverse in the KG is written as that, so both spellings are equal.
    """
    steps = []
    for edge in path.edges:
        for fact, back in zip(edge.facts, walked_back(edge), strict=True):
            steps.append(f"^{fact.predicate}" if back else fact.predicate)
    return same_spelling(steps, inverses)


def same_spelling(steps: Iterable[str], inverses: Mapping[str, str]) -> RelationPath:
    """Return a relation path with known inverses in place of predicates walked back."""
    return tuple(
        inverses[step[1:]] if step.startswith("^") and step[1:] in inverses else step
        for step in steps
    )


def path_recall(
    gold: Sequence[Sequence[str]], paths: Iterable[GroundedPath], inverses: Mapping[str, str]
) -> float | None:
    """Return the share of gold relation paths that ``paths`` take, None if there are none."""
    wanted = {same_spelling(path, inverses) for path in gold}
    if not wanted:
        return None
    taken = {relation_path(path, inverses) for path in paths}
    return len(wanted & taken) / len(wanted)


def linking_of(store: GraphStore, question: Question) -> dict[str, Any] | None:
    """Return how well the linker finds the topic entities that the file gives, if any.

    ``first``, ``in_five``: whether one is the best candidate, or in ``candidates`` (five ids).
    ``in_linked``, ``all_linked``: whether one, or all, are among ``linked``.
    """
    expected = meanings_of(store, known_topics(store, question), question.names)
    if not expected.ids:
        return None
    try:
        candidates = link(store, question.question, limit=2 * _FIVE)
    except LinkingError:
        candidates = []
    ids = [candidate.id for candidate in candidates]
    linked = [entity.id for entity in topic_entities(candidates)]
    gold = set(expected.ids)
    return {
        "candidates": ids[:_FIVE],
        "linked": linked,
        "first": bool(gold.intersection(expected.canonical(ids[:1]))),
        "in_five": bool(gold.intersection(expected.canonical(ids[:_FIVE]))),
        "in_linked": bool(gold.intersection(expected.canonical(linked))),
        "all_linked": gold.issubset(expected.canonical(linked)),
    }


def triplets_of(store: GraphStore, question: Question, answer: Answer | None) -> dict[str, Any]:
    """Return a first path's triplet scores, and how many of all paths' are ill. Raises GraphError.

    ``f1``, ``precision``, ``recall`` (0 to 1) are None without gold triplets, 0 without a path.
    """
    paths = [path.groundings[0] for path in answer.paths if path.groundings] if answer else []
    scores = triplet_scores(store, question.gold_triplets, paths[0] if paths else None)
    topics = [entity.id for entity in answer.topic_entities] if answer else []
    ill, written = ill_triplets(store, paths, topics)
    return {**(scores or dict.fromkeys(TRIPLET_SCORES)), "ill": ill, "written": written}


def triplet_scores(
    store: GraphStore, gold: Iterable[Triple], path: GroundedPath | None
) -> dict[str, float] | None:
    """Return F1, precision and recall of a chain's triplets by name, None without gold."""
    relations = store.relations()
    names = dict(zip(relations.ids, relations.names, strict=True))
    wanted = {_formed(triple) for triple in gold}
    if not wanted:
        return None
    written = {_formed(_stored(edge, names)) for edge in path.edges} if path is not None else set()
    right = len(wanted & written)
    return {
        "f1": 2 * right / (len(wanted) + len(written)),
        "precision": right / len(written) if written else 0.0,
        "recall": right / len(wanted),
    }


def ill_triplets(
    store: GraphStore, paths: Sequence[GroundedPath], topics: Iterable[str]
) -> tuple[int, int]:
    """Return how many triplets of ``paths`` are ill, and how many there are. Raises GraphError.

    Well-formed: every fact is stored, and an end is a topic or a non-value end of one before.
    """
    relations = {id_: number for number, id_ in enumerate(store.relations().ids)}
    asked = frozenset(topics)
    ill = total = 0
    for path in paths:
        visited = set(asked)
        for edge in path.edges:
            total += 1
            ends = store.keys_of([edge.head.id, edge.tail.id])
            known = bool((ends >= 0).all()) and _stored_facts(store, edge, relations)
            if not known or not visited & {edge.head.id, edge.tail.id}:
                ill += 1
            if known:
                kinds = store.entities(ends).kinds.tolist()
                both = zip((edge.head.id, edge.tail.id), kinds, strict=True)
                visited |= {entity for entity, kind in both if kind != Kind.VALUE}
    return ill, total


def _stored_facts(store: GraphStore, edge: PathEdge, relations: dict[str, int]) -> bool:
    if not edge.facts or any(fact.predicate not in relations for fact in edge.facts):
        return False
    at = edge.head.id
    for fact in edge.facts:
        if at not in (fact.head, fact.tail):
            return False
        at = fact.tail if at == fact.head else fact.head
    if at != edge.tail.id:
        return False
    heads = store.keys_of([fact.head for fact in edge.facts])
    tails = store.keys_of([fact.tail for fact in edge.facts])
    if (heads < 0).any() or (tails < 0).any():
        return False
    predicates = keys_array([relations[fact.predicate] for fact in edge.facts])
    return bool(store.has_edges(heads, predicates, tails).all())


def _stored(edge: PathEdge, names: Mapping[str, str]) -> Triple:
    if not edge.inverse:
        return edge.head.name, edge.relation, edge.tail.name
    along = [names[fact.predicate] for fact in reversed(edge.facts)]
    return edge.tail.name, PathFormat().joiner.join(along), edge.head.name


def _formed(triplet: Triple) -> Triple:
    head, relation, tail = triplet
    return form_of(head), form_of(relation), form_of(tail)
