"""Dense retrieval: the nearest of all paths, each in the graph, and a vote over their ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import Answer
from kgqa.errors import LinkingError, ModelNotFoundError
from kgqa.methods.base import candidate_paths
from kgqa.methods.gcr import Asking
from kgqa.methods.retrieval import Retrieval, in_words
from kgqa.models.sentences import load_sentence_encoder
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.test_base import rules, topic

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.sentences import SentenceEncoder

pytestmark = pytest.mark.model
FORM = PathFormat()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    cache = tmp_path_factory.mktemp("cache")
    try:
        return load_sentence_encoder(None, device="cpu", cache=cache, progress=Silent())
    except ModelNotFoundError as error:
        pytest.skip(error.message)


def ask(store: SqliteStore, encoder: SentenceEncoder, asking: Asking, **more: int) -> Answer:
    method = Retrieval(encoder, FORM, rules, **more)
    answer = dict(method.answers(store, [LinkingError("none"), asking]))[1]
    assert isinstance(answer, Answer), answer
    return answer


def test_the_nearest_paths_are_those_of_highest_cosine(
    sample: SqliteStore, encoder: SentenceEncoder
) -> None:
    asking = Asking("Where was Abraham Lincoln born?", (topic(sample, LINCOLN),))
    answer = ask(sample, encoder, asking, k=4)
    every = candidate_paths(sample, asking.topics, WalkRules(), FORM, cap=100_000)
    vectors = encoder.encode([asking.question, *(in_words(group[0]) for group in every.groups)])
    cosines = dict(zip(every.texts, (vectors[1:] @ vectors[0]).tolist(), strict=True))
    best = sorted(cosines.values(), reverse=True)[:4]
    assert [cosines[path.text] for path in answer.paths] == pytest.approx(best, abs=1e-5)
    scores = [path.score for path in answer.paths]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] - scores[1] == pytest.approx(20 * (best[0] - best[1]), abs=1e-3)
    assert sum(map(math.exp, scores)) <= 1.0 + 1e-9
    ends = {one.tail.id for path in answer.paths for one in path.groundings}
    assert {one.id for one in answer.answers} == ends
    assert all(one.grounded for one in answer.answers)
    assert (answer.method, answer.kg_llm.model, answer.forwards) == ("retrieval", "none", 0)


def test_a_sample_is_told(sample: SqliteStore, encoder: SentenceEncoder) -> None:
    answer = ask(sample, encoder, Asking("Who?", (topic(sample, TOLKIEN),)), k=50, cap=5)
    assert len(answer.paths) <= 5
    assert "at most 5 paths" in answer.notes[0]


def test_of_choices_only_choices_are_answers(sample: SqliteStore, encoder: SentenceEncoder) -> None:
    paths = candidate_paths(sample, [topic(sample, LINCOLN)], WalkRules(), FORM, cap=100_000)
    tails = list(dict.fromkeys(group[0].tail.id for group in paths.groups))[:2]
    asking = Asking("Which?", (topic(sample, LINCOLN),), choices=(*tails, "no such thing"))
    answer = ask(sample, encoder, asking)
    assert {one.id for one in answer.answers if one.grounded} == set(tails)
    assert {one.tail.id for path in answer.paths for one in path.groundings} <= set(tails)


def test_predicates_are_read_as_words(sample: SqliteStore) -> None:
    found = candidate_paths(sample, [topic(sample, TOLKIEN)], WalkRules(), FORM, cap=100_000)
    for group in found.groups:
        words = in_words(group[0])
        relations = words.split(" -> ")[1::2]
        assert not any(mark in relation for relation in relations for mark in "._/^")
        assert "  " not in words
