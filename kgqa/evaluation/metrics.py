"""How good one question's answers are, means over a file, and their bootstrap intervals.

Strict scores compare ids exactly. Legacy ones do what the published GCR and RoG programs do, quirks
included: they match text by substrings and flatter.

In its graph: distances, breadth-first over sets of entities; relation paths; linking; triplets as
in Decoding on Graphs (arXiv 2410.18415, sec. 4), of which the store decides by id if one is ill.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgqa.answers.expand import hops_in_turn, walked_back
from kgqa.answers.naming import form_of
from kgqa.errors import LinkingError
from kgqa.graph.model import Kind, keys_array
from kgqa.linking.linker import link, topic_entities
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import TAIL, WalkRules
from kgqa.questions.meanings import known_topics, meanings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from kgqa.answers.answer import Answer
    from kgqa.graph.model import IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.paths.ground import GroundedPath, PathEdge
    from kgqa.questions.base import Question, Triple

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class StrictScores:
    """One question's scores by exact comparison; ``mrr``: one over the first right rank."""

    hits_at_1: float
    hit_at_k: float
    mrr: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class LegacyScores:
    """One question's scores by substring; RoG's ``precision`` and ``f1`` may exceed 1."""

    hit: float
    f1: float
    precision: float
    recall: float
    acc: float


ALL_RIGHT = StrictScores(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def strict_scores(
    predictions: Sequence[str], gold: Iterable[str], *, k: int | None = None
) -> StrictScores:
    """Score ``predictions`` (best first) against the set ``gold`` by exact comparison.

    Repeated predictions count once, at their first rank; ``hit_at_k`` uses the first ``k`` (all by
    default). Without gold all are 0.
    """
    ranked = list(dict.fromkeys(predictions))
    wanted = set(gold)
    rank = next((place for place, id_ in enumerate(ranked, 1) if id_ in wanted), 0)
    right = len(wanted.intersection(ranked))
    precision = right / len(ranked) if ranked else 0.0
    recall = right / len(wanted) if wanted else 0.0
    return StrictScores(
        hits_at_1=float(rank == 1),
        hit_at_k=float(0 < rank <= (len(ranked) if k is None else k)),
        mrr=1.0 / rank if rank else 0.0,
        precision=precision,
        recall=recall,
        f1=_harmonic(precision, recall),
    )


def normalise_answer(text: str) -> str:
    """Normalise a text as the published programs do before they compare answers.

    >>> normalise_answer("The  U.S.A., an   idea")
    'usa idea'
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def gcr_scores(prediction: str | Sequence[str], gold: Sequence[str]) -> LegacyScores:
    """Compute scores as GCR's published program does; all are 0 without gold answers.

    A text is one prediction a line, the most frequent first. Recall is the share of gold answers
    found anywhere, precision that of predictions with a gold answer. An empty gold answer is found
    even in an empty text.
    """
    counted = Counter(line for line in _prediction_lines(prediction) if line.strip())
    predictions = [line for line, _ in counted.most_common()]
    acc, hit = _recall_and_hit(predictions, gold)
    if not predictions:
        return LegacyScores(hit, 0.0, 0.0, 0.0, acc)
    forms = [normalise_answer(answer) for answer in gold]
    right = sum(any(form in normalise_answer(line) for form in forms) for line in predictions)
    precision = right / len(predictions)
    return LegacyScores(hit, _harmonic(precision, acc), precision, acc, acc)


def rog_scores(prediction: str | Sequence[str], gold: Sequence[str]) -> LegacyScores:
    """Compute scores as RoG's published program does; all are 0 without gold answers.

    A text is one prediction a line, repeated ones counted; in a list they count once. Precision is
    gold answers found over predictions, so it and F1 can exceed 1.
    """
    predictions = _prediction_lines(prediction)
    if not isinstance(prediction, str):
        predictions = list(dict.fromkeys(predictions))
    acc, hit = _recall_and_hit(predictions, gold)
    if not predictions:
        return LegacyScores(hit, 0.0, 0.0, 0.0, acc)
    precision = acc * len(gold) / len(predictions)
    return LegacyScores(hit, _harmonic(precision, acc), precision, acc, acc)


def mean_percent(shares: Sequence[float]) -> float:
    """Return the mean of shares in percent, 0 without any."""
    return 100.0 * math.fsum(shares) / len(shares) if shares else 0.0


def _prediction_lines(prediction: str | Sequence[str]) -> list[str]:
    """Split a text into its lines; a list stays a list."""
    return prediction.split("\n") if isinstance(prediction, str) else list(prediction)


def _recall_and_hit(predictions: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Return the share of gold answers found as substrings, and 1.0 if any is found."""
    everything = normalise_answer(" ".join(predictions))
    hits = sum(normalise_answer(answer) in everything for answer in gold)
    return (hits / len(gold) if gold else 0.0), float(hits > 0)


def _harmonic(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall (F1)."""
    both = precision + recall
    return 2.0 * precision * recall / both if both else 0.0


RESAMPLES = 2_000
LEVEL = 0.95
_DRAWN = 4_000_000  # questions drawn at once: what is held in memory


def interval(values: ArrayLike) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the mean of ``values``, with a fixed seed.

    None without values.
    """
    table = np.asarray(values, np.float64)
    questions = len(table)
    if not questions:
        return None
    random = np.random.default_rng(0)
    block = max(1, _DRAWN // questions)
    means = []
    for start in range(0, RESAMPLES, block):
        rows = min(block, RESAMPLES - start)
        drawn = random.integers(0, questions, (rows, questions))
        drawn += np.arange(rows)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=rows * questions)
        means.append(counts.reshape(rows, questions).astype(np.float64) @ table / questions)
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


RelationPath: TypeAlias = tuple[str, ...]
CHAINS = "dog"  # the method whose paths are chains of triplets, gold ones or not
TRIPLET_SCORES = ("f1", "precision", "recall")
_FIVE = 5  # candidates of the linker that are looked at


def distance(store: GraphStore, topics: IntArray, wanted: IntArray, rules: WalkRules) -> int | None:
    """Return the number of hops from ``topics`` to the nearest of ``wanted`` (keys).

    None if none is within the hops that ``rules`` allow.
    """
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
    """Return the predicates of ``path``, a mediator's two separately; ``^`` marks a backward one.

    A backward predicate with an inverse in the KG is written as that inverse, so both spellings are
    equal.
    """
    steps = []
    for edge in path.edges:
        for fact, back in zip(edge.facts, walked_back(edge), strict=True):
            steps.append(f"^{fact.predicate}" if back else fact.predicate)
    return same_spelling(steps, inverses)


def same_spelling(steps: Iterable[str], inverses: Mapping[str, str]) -> RelationPath:
    """Replace backward predicates of a relation path by their inverses where these are known."""
    return tuple(
        inverses[step[1:]] if step.startswith("^") and step[1:] in inverses else step
        for step in steps
    )


def path_recall(
    gold: Sequence[Sequence[str]], paths: Iterable[GroundedPath], inverses: Mapping[str, str]
) -> float | None:
    """Return the share of gold relation paths among those of ``paths``; None without gold."""
    wanted = {same_spelling(path, inverses) for path in gold}
    if not wanted:
        return None
    taken = {relation_path(path, inverses) for path in paths}
    return len(wanted & taken) / len(wanted)


def linking_of(store: GraphStore, question: Question) -> dict[str, Any] | None:
    """Score the linker on the topic entities that the file gives; None if it gives none.

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
    """Score an answer's first path by triplets; count malformed triplets of all its paths.

    ``f1``, ``precision``, ``recall`` (0 to 1) are None without gold triplets, 0 without a path.
    Raises GraphError.
    """
    paths = [path.groundings[0] for path in answer.paths if path.groundings] if answer else []
    scores = triplet_scores(store, question.gold_triplets, paths[0] if paths else None)
    topics = [entity.id for entity in answer.topic_entities] if answer else []
    ill, written = ill_triplets(store, paths, topics)
    return {**(scores or dict.fromkeys(TRIPLET_SCORES)), "ill": ill, "written": written}


def triplet_scores(
    store: GraphStore, gold: Iterable[Triple], path: GroundedPath | None
) -> dict[str, float] | None:
    """Return F1, precision and recall of a path's triplets by name, None without gold.

    Names are compared in normalised form; without a path all are 0.
    """
    relations = store.relations()
    names = dict(zip(relations.ids, relations.names, strict=True))
    wanted = {_forms(triple) for triple in gold}
    if not wanted:
        return None
    written = {_forms(_triplet(edge, names)) for edge in path.edges} if path is not None else set()
    right = len(wanted & written)
    return {
        "f1": 2 * right / (len(wanted) + len(written)),
        "precision": right / len(written) if written else 0.0,
        "recall": right / len(wanted),
    }


def ill_triplets(
    store: GraphStore, paths: Sequence[GroundedPath], topics: Iterable[str]
) -> tuple[int, int]:
    """Return the numbers of malformed and of all triplets of ``paths``. Raises GraphError.

    A triplet is well-formed if its facts are stored, and an end is a topic or a non-value end of an
    earlier triplet of its path.
    """
    relations = {id_: number for number, id_ in enumerate(store.relations().ids)}
    asked = frozenset(topics)
    ill = total = 0
    for path in paths:
        visited = set(asked)
        for edge in path.edges:
            total += 1
            ends = store.keys_of([edge.head.id, edge.tail.id])
            known = bool((ends >= 0).all()) and _is_stored(store, edge, relations)
            if not known or not visited & {edge.head.id, edge.tail.id}:
                ill += 1
            if known:
                kinds = store.entities(ends).kinds.tolist()
                both = zip((edge.head.id, edge.tail.id), kinds, strict=True)
                visited |= {entity for entity, kind in both if kind != Kind.VALUE}
    return ill, total


def _is_stored(store: GraphStore, edge: PathEdge, relations: dict[str, int]) -> bool:
    """Return whether an edge's facts form a chain between its ends and are all stored."""
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


def _triplet(edge: PathEdge, names: Mapping[str, str]) -> Triple:
    """Return an edge as (head, relation, tail) names in stored direction.

    ``names``: of relations by id.
    """
    if not edge.inverse:
        return edge.head.name, edge.relation, edge.tail.name
    along = [names[fact.predicate] for fact in reversed(edge.facts)]
    return edge.tail.name, PathFormat().joiner.join(along), edge.head.name


def _forms(triplet: Triple) -> Triple:
    """Normalise the names of a triplet for comparison."""
    head, relation, tail = triplet
    return form_of(head), form_of(relation), form_of(tail)
