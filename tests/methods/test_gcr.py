"""A question to answers: which constraint serves, its notes, and what a general LLM may add."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import Answer
from kgqa.answers.general import general_prompt
from kgqa.answers.ranking import vote
from kgqa.errors import EmptyLanguageError, LinkingError, ShardDamagedError, UsageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.gcr import PRIOR
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import about, answered, gcr

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.trie.index import TrieIndex


def ask(store: SqliteStore, llm: KgLLM, *ids: str, index=None, **options) -> Answer:
    method = gcr(llm, store=store, index=index, **options)
    return answered(store, method, about(store, *ids))


def same(first: Answer, second: Answer) -> bool:
    """Whether all is equal, scores as far as floats of different batches are."""

    def shown(answer: Answer):
        return [(p.text, p.groundings) for p in answer.paths], [
            ranked.id for ranked in answer.answers
        ]

    def scores(answer: Answer):
        return [p.score for p in answer.paths], [ranked.score for ranked in answer.answers]

    near = [pytest.approx(values, rel=1e-5, abs=1e-3) for values in scores(second)]
    return shown(first) == shown(second) and list(scores(first)) == near


def test_an_entity_that_the_index_lacks_is_answered_on_the_fly_and_said(
    sample, random_llm, index: TrieIndex
) -> None:
    other = sample.entities(sample.topic_keys()[:1]).ids[0]
    answer = ask(sample, random_llm, other, index=index)
    assert [use.source for use in answer.constraints] == ["composed"]
    assert other in answer.notes[0]


def test_a_damaged_shard_is_named_and_answered_around(sample, random_llm, index: TrieIndex) -> None:
    path = index.folder / index.manifest.shards[0].file
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    answer = ask(sample, random_llm, TOLKIEN, index=index)
    assert same(answer, ask(sample, random_llm, TOLKIEN))
    assert path.name in answer.notes[0]
    assert "on the fly" in answer.notes[0]


def test_an_entity_without_a_path_is_an_error_and_no_guess(sample, random_llm) -> None:
    lonely = next(
        key
        for key in sample.topic_keys(limit=5_000).tolist()
        if not len(sample.neighbours(keys_array([key]), "out"))
    )
    with pytest.raises(EmptyLanguageError, match="no path"):
        ask(sample, random_llm, sample.entities(keys_array([lonely])).ids[0])


def test_an_index_that_lies_is_caught_by_the_graph(sample, random_llm, index: TrieIndex) -> None:
    """Paths whose checksums fit but that the graph does not hold: the graph answers instead."""
    stored = index.look_up(TOLKIEN, int(sample.keys_of([TOLKIEN])[0]))
    assert stored is not None
    table = stored.table
    broken = replace(table, hops=table.hops.copy())
    broken.hops[:, 0, 3] = sample.keys_of([LINCOLN])[0]

    class Lying:
        manifest = index.manifest

        def look_up(self, entity: str, key: int):
            return SimpleNamespace(paths=stored.paths, sequences=stored.sequences, table=broken)

    answer = ask(sample, random_llm, TOLKIEN, index=Lying())
    assert same(answer, ask(sample, random_llm, TOLKIEN))
    assert "The index does not fit the graph" in answer.notes[0]
    assert {use.source for use in answer.constraints} == {"composed"}


def test_a_large_language_is_decoded_straight_on_the_trie(
    sample, random_llm, index: TrieIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_arrays = ask(sample, random_llm, TOLKIEN, LINCOLN, index=index)
    monkeypatch.setattr("kgqa.methods.grounding.LARGE", 1)
    on_the_trie = ask(sample, random_llm, TOLKIEN, LINCOLN, index=index)
    assert same(on_arrays, on_the_trie)
    assert on_arrays.constraints == on_the_trie.constraints
    assert not on_the_trie.notes


def test_damage_that_is_met_while_decoding_is_answered_around(
    sample, random_llm, index: TrieIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise ShardDamagedError("The shard is damaged.", "Build it again.")

    monkeypatch.setattr("kgqa.methods.grounding.LARGE", 1)
    monkeypatch.setattr("kgqa.trie.index.constraint._hops", damaged)
    answer = ask(sample, random_llm, TOLKIEN, index=index)
    assert same(answer, ask(sample, random_llm, TOLKIEN))
    assert answer.notes[0].startswith("The shard is damaged.")
    assert "on the fly" in answer.notes[0]


@pytest.fixture(scope="module")
def ten(sample, kg_llm) -> Answer:
    """An answer of the real model by ten paths."""
    return ask(sample, kg_llm, TOLKIEN, k=10)


def test_scores_are_sums_of_log_probabilities_best_first(ten: Answer) -> None:
    answer, scores = ten, [path.score for path in ten.paths]
    assert scores == sorted(scores, reverse=True)
    assert all(score < 0 for score in scores)
    assert len(scores) == 10
    assert answer.forward_passes < sum(path.text.count(" ") for path in answer.paths)


def test_votes_add_up_the_probabilities_of_paths(ten: Answer) -> None:
    answer = ten
    assert sum(ranked.score for ranked in answer.answers) == pytest.approx(1.0)
    total = sum(
        math.exp(path.score) * len({grounding.tail.id for grounding in path.groundings})
        for path in answer.paths
    )
    best = answer.answers[0]
    mine = sum(
        math.exp(path.score)
        for path in answer.paths
        if best.id in {grounding.tail.id for grounding in path.groundings}
    )
    assert best.score == pytest.approx(mine / total)
    assert vote(answer.paths) == list(answer.answers)


def test_a_general_llm_answers_from_the_paths(sample, kg_llm, openai_server) -> None:
    """A real OpenAI-compatible server gets the paths and its answer is linked back."""
    from kgqa.models.general import GeneralLLM

    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        answer = ask(sample, kg_llm, TOLKIEN, k=3, general=general)
    assert answer.general_llm is not None
    assert answer.general_llm.calls == 1
    assert answer.general_llm.prompt_tokens > 50
    prompt = general_prompt(answer)
    assert all(f'"{edge.tail.name}"' in prompt for path in answer.paths for edge in path.edges)
    nodes = {
        edge.tail.id for p in answer.paths for grounding in p.groundings for edge in grounding.edges
    }
    for ranked in answer.answers:
        assert ranked.grounded
        assert ranked.id in nodes


def test_the_json_is_the_contract(ten: Answer) -> None:
    given = ten.to_dict()
    assert set(given) == {
        "question",
        "method",
        "topic_entities",
        "answers",
        "paths",
        "constraints",
        "kg_llm",
        "general_llm",
        "timings",
        "forwards",
        "search",
        "others",
        "confidence",
        "expanded",
        "notes",
        "readings",
        "understood",
        "browser_url",
    }
    named = {*("id", "name", "score", "grounded", "paths", "conditions", "types")}
    assert set(given["answers"][0]) == named
    path = given["paths"][0]
    assert set(path) == {"text", "score", "hypothesis", "edges", "groundings", "grounded"}
    assert path["groundings"][0] == path["edges"]
    assert set(path["edges"][0]) == {"head", "relation", "tail", "inverse", "facts"}
    assert set(path["edges"][0]["facts"][0]) == {"head", "predicate", "tail"}
    assert set(given["timings"]) == {"link", "constraint", "decode", "ground", "answer", "total"}


CHOICES = ("Bloemfontein", "London", "Atlantis 9")


def choose(
    store: SqliteStore,
    llm: KgLLM,
    *,
    question: str = "Where was he born?",
    choices: tuple[str, ...] = CHOICES,
    **options,
) -> Answer:
    asked = about(store, TOLKIEN, question=question, choices=choices)
    return answered(store, gcr(llm, **options), asked)


@pytest.mark.parametrize("k", [1, 4, 20])
def test_every_choice_that_can_be_reached_has_a_path(
    sample: SqliteStore, random_llm: KgLLM, k: int
) -> None:
    """However few paths are asked for, and whatever the model prefers."""
    found = choose(sample, random_llm, k=k)
    assert {path.hypothesis for path in found.paths} == {"Bloemfontein", "London"}
    assert len(found.paths) <= max(k, 2)
    assert {ranked.name for ranked in found.answers} == set(CHOICES)
    assert sum(ranked.score for ranked in found.answers) == pytest.approx(1.0)
    last = found.answers[-1]
    assert (last.name, last.score, last.grounded) == ("Atlantis 9", 0.0, False)
    assert found.notes == ('No path leads to: "Atlantis 9".',)
    assert [path.score for path in found.paths] == sorted(p.score for p in found.paths)[::-1]


def test_what_a_path_says_without_a_question_is_subtracted(
    sample: SqliteStore, random_llm: KgLLM
) -> None:
    """Asked nothing, every path counts by the rest of its own log-probability alone."""
    found = choose(sample, random_llm, question="", k=40)
    weight = {"Bloemfontein": 0.0, "London": 0.0}
    top = max(path.score for path in found.paths)
    for path in found.paths:
        weight[path.hypothesis] += math.exp((1 - PRIOR) * (path.score - top))
    total = sum(weight.values())
    for answer in found.answers[:2]:
        assert answer.score == pytest.approx(weight[answer.name] / total, rel=1e-4)


def test_choices_that_no_path_leads_to_are_an_error(sample: SqliteStore, random_llm: KgLLM) -> None:
    with pytest.raises(EmptyLanguageError, match="Atlantis 9"):
        choose(sample, random_llm, choices=("Atlantis 9", "Tlon"))


@pytest.mark.parametrize("kind", ["exact", "diverse", "sample"])
def test_other_searches_find_paths_to_each_choice_too(
    sample: SqliteStore, random_llm: KgLLM, kind: str
) -> None:
    groups = {"groups": 5} if kind == "diverse" else {}
    found = choose(sample, random_llm, k=10, search=kind, **groups)
    assert {path.hypothesis for path in found.paths} == {"Bloemfontein", "London"}
    assert found.search.kind == kind


def test_questions_with_and_without_choices_come_back_under_their_numbers(
    sample: SqliteStore, random_llm: KgLLM
) -> None:
    free, chosen = about(sample, LINCOLN), about(sample, TOLKIEN, choices=CHOICES)
    questions = [free, chosen, LinkingError("Nobody."), chosen, free]
    method = gcr(random_llm, k=3, together=2)
    found = dict(method.answers(sample, iter(questions)))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert isinstance(found[2], LinkingError)
    for number, question in enumerate(questions):
        answer = found[number]
        if number != 2:
            assert isinstance(answer, Answer)
            assert isinstance(question, LinkedQuestion)
            named = {ranked.name for ranked in answer.answers}
            assert (named == set(CHOICES)) == bool(question.choices)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"search": "diverse", "groups": 11, "k": 10}, "1 to 10 groups"),
        ({"search": "sample", "length_penalty": 1.0}, "length penalty"),
    ],
)
def test_a_search_that_does_not_fit_is_refused_before_a_model_is_loaded(given, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        gcr(None, **given)
