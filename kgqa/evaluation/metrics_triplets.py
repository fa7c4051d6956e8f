"""Triplets of chains: how many are the gold chain's, and how many are ill.

Both are figures of Decoding on Graphs (arXiv 2410.18415, sec. 4). Gold triplets are names, as
question files have them; whether a triplet is ill is decided by id, in the store. A run counts the
triplets of its first paths against the gold ones, and those of all its paths as ill or not. What
this does not do: judge answers (``metrics``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.answers.naming import form_of
from kgqa.evaluation.metrics import mean_percent
from kgqa.graph.model import Kind, keys_array
from kgqa.paths.format import PathFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.answers.answer import Answer
    from kgqa.evaluation.report_record import Record
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath, PathEdge
    from kgqa.questions.base import Question

Triplet = tuple[str, str, str]
CHAINS = "dog"  # the method whose paths are chains of triplets, gold ones or none
SCORES = ("f1", "precision", "recall")
# figure: what it is called in a report
TITLES = {
    "f1": "triplets: F1",
    "precision": "triplets: precision",
    "recall": "triplets: recall",
    "ill": "triplets: ill",
}


@dataclass(frozen=True, slots=True)
class TripletScores:
    """Precision, recall and F1 of a chain's triplets, from 0 to 1."""

    precision: float
    recall: float
    f1: float


def triplet_scores(
    store: GraphStore, gold: Iterable[Triplet], path: GroundedPath | None
) -> TripletScores | None:
    """Return how the triplets of a chain agree with the gold ones, None where there are no gold.

    Each counts once; names are compared in the form that models' answers are compared in. A chain
    that was not written (None) has no triplet. Raises GraphError.
    """
    relations = store.relations()
    names = dict(zip(relations.ids, relations.names, strict=True))
    wanted = {_formed(one) for one in gold}
    if not wanted:
        return None
    written = {_formed(_stored(edge, names)) for edge in path.edges} if path is not None else set()
    right = len(wanted & written)
    precision = right / len(written) if written else 0.0
    return TripletScores(precision, right / len(wanted), 2 * right / (len(wanted) + len(written)))


def ill_triplets(
    store: GraphStore, paths: Sequence[GroundedPath], topics: Iterable[str]
) -> tuple[int, int]:
    """Return how many triplets of ``paths`` are ill, and how many there are.

    A triplet is well-formed if every fact behind it is in the store and one of its ends is among
    ``topics`` (entity ids) or among the ends of the triplets before it that are no values. Nothing
    that a decoder kept is believed: all is looked up. Raises GraphError.
    """
    relations = {one: number for number, one in enumerate(store.relations().ids)}
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
                visited |= {one for one, kind in both if kind != Kind.VALUE}
    return ill, total


def triplets_of(store: GraphStore, question: Question, answer: Answer | None) -> dict[str, Any]:
    """Return the triplet scores of a question's first path, and how many of all paths are ill.

    ``f1``, ``precision`` and ``recall`` (0 to 1) are None where the file has no gold triplets, 0
    where there is no path. ``ill`` of ``written`` are counted over the first reading of every path.
    Raises GraphError.
    """
    paths = [path.groundings[0] for path in answer.paths if path.groundings] if answer else []
    found = triplet_scores(store, question.gold_triplets, paths[0] if paths else None)
    topics = [one.id for one in answer.topic_entities] if answer else []
    ill, written = ill_triplets(store, paths, topics)
    scores = {name: None if found is None else getattr(found, name) for name in SCORES}
    return {**scores, "ill": ill, "written": written}


def triplet_figures(records: Sequence[Record], method: str) -> dict[str, float | None] | None:
    """Return percentages; None where no question has gold triplets and ``method`` is not DoG.

    ``f1``, ``precision`` and ``recall``: over the questions with gold triplets, a malformed line of
    such a file being one that was missed; None where there is none. ``ill``: of all triplets that
    were written; None where none was.
    """
    found = [one.triplets for one in records if one.triplets is not None]
    golden = [one for one in found if one["f1"] is not None]
    if not golden and method != CHAINS:
        return None
    missed = sum(one.triplets is None and one.outcome == "malformed" for one in records)
    written = sum(one["written"] for one in found)
    scores = {
        name: mean_percent([*(one[name] for one in golden), *[0.0] * missed]) if golden else None
        for name in SCORES
    }
    ill = sum(one["ill"] for one in found)
    return {**scores, "ill": round(100 * ill / written, 2) if written else None}


def _stored_facts(store: GraphStore, edge: PathEdge, relations: dict[str, int]) -> bool:
    """Return whether the facts behind ``edge`` are stored, and lead from its head to its tail."""
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


def _stored(edge: PathEdge, names: Mapping[str, str]) -> Triplet:
    """Return the triplet as it was written: in stored direction. ``names``: of predicates."""
    if not edge.inverse:
        return edge.head.name, edge.relation, edge.tail.name
    along = [names[fact.predicate] for fact in reversed(edge.facts)]
    return edge.tail.name, PathFormat().joiner.join(along), edge.head.name


def _formed(triplet: Triplet) -> Triplet:
    head, relation, tail = triplet
    return form_of(head), form_of(relation), form_of(tail)
