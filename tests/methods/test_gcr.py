"""A question to answers: which constraint serves, what is told, and what a general LLM may add."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.answers.prompts import general_prompt, read_answers
from kgqa.answers.vote import vote
from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import keys_array
from kgqa.methods.gcr import GcrOptions, answer_question
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from kgqa.trie.lexicon import PathLexicon
from tests.fixtures import LINCOLN, TOLKIEN

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM
    from kgqa.trie.index import TrieIndex

FORM = PathFormat()
RULES = WalkRules()


def topic_of(store: SqliteStore, entity_id: str) -> TopicEntity:
    key = int(store.keys_of([entity_id])[0])
    assert key >= 0
    return TopicEntity(key, entity_id, store.entities(keys_array([key])).label(0), 1.0)


def ask(store: SqliteStore, llm: KgLLM, *ids: str, **options) -> Answer:
    k = options.pop("k", 5)
    return answer_question(
        store,
        llm,
        PathLexicon(llm.encoder, FORM),
        options.pop("question", "Where was he born?"),
        [topic_of(store, one) for one in ids],
        RULES,
        GcrOptions(k=k),
        **options,
    )


def same(first: Answer, second: Answer) -> bool:
    """Whether all is equal, scores as far as floats of different batches are."""

    def shown(answer: Answer):
        return [(p.text, p.groundings) for p in answer.paths], [one.id for one in answer.answers]

    def scores(answer: Answer):
        return [p.score for p in answer.paths], [one.score for one in answer.answers]

    near = [pytest.approx(values, rel=1e-5, abs=1e-3) for values in scores(second)]
    return shown(first) == shown(second) and list(scores(first)) == near


@pytest.mark.parametrize("topics", [[TOLKIEN], [TOLKIEN, LINCOLN]])
def test_the_answer_does_not_depend_on_the_form_of_the_constraint(
    sample, random_llm, index: TrieIndex, topics: list[str]
) -> None:
    from_shard = ask(sample, random_llm, *topics, index=index)
    on_the_fly = ask(sample, random_llm, *topics)
    assert same(from_shard, on_the_fly)
    assert {use.source for use in from_shard.constraints} == {"shard"}
    assert {use.source for use in on_the_fly.constraints} == {"composed"}
    assert all(use.paths for use in from_shard.constraints)
    assert not from_shard.notes


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
    """Paths whose checksums fit but that the graph does not hold are left out, and said."""
    stored = index.look_up(TOLKIEN)
    assert stored is not None
    table = stored.table
    broken = replace(table, hops=table.hops.copy())
    broken.hops[:, 0, 3] = sample.keys_of([LINCOLN])[0]

    class Lying:
        manifest = index.manifest

        def look_up(self, entity: str):
            return replace(stored, table=broken)

        def is_composed(self, entity: str) -> bool:
            return False

    with pytest.raises(EmptyLanguageError, match="found in the graph"):
        ask(sample, random_llm, TOLKIEN, index=Lying())


def test_scores_are_sums_of_log_probabilities_best_first(sample, kg_llm) -> None:
    answer = ask(sample, kg_llm, TOLKIEN, k=10)
    scores = [path.score for path in answer.paths]
    assert scores == sorted(scores, reverse=True)
    assert all(score < 0 for score in scores)
    assert len(scores) == 10
    assert answer.forwards < sum(path.text.count(" ") for path in answer.paths)


def test_votes_add_up_the_probabilities_of_paths(sample, kg_llm) -> None:
    answer = ask(sample, kg_llm, TOLKIEN, k=10)
    assert sum(one.score for one in answer.answers) == pytest.approx(1.0)
    total = sum(
        math.exp(path.score) * len({one.tail.id for one in path.groundings})
        for path in answer.paths
    )
    best = answer.answers[0]
    mine = sum(
        math.exp(path.score)
        for path in answer.paths
        if best.id in {one.tail.id for one in path.groundings}
    )
    assert best.score == pytest.approx(mine / total)
    assert vote(answer.paths) == list(answer.answers)


def test_what_a_general_llm_adds_is_marked(sample, kg_llm) -> None:
    paths = ask(sample, kg_llm, TOLKIEN, k=10).paths
    tail = paths[0].groundings[0].tail
    answers = read_answers(f"1. {tail.name.upper()}\n- Atlantis\n\n{tail.name}\nnone", paths)
    assert [(one.id, one.grounded) for one in answers if one.name != tail.name] == [(None, False)]
    assert answers[0].id == tail.id
    assert answers[0].grounded
    assert read_answers("None", paths) == []


def test_a_general_llm_answers_from_the_paths(sample, kg_llm, openai_server) -> None:
    """A real OpenAI-compatible server gets the paths and its answer is linked back."""
    from kgqa.models.general import GeneralLLM

    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        answer = ask(sample, kg_llm, TOLKIEN, k=3, general=general)
    assert answer.general_llm is not None
    assert answer.general_llm.calls == 1
    assert answer.general_llm.prompt_tokens > 50
    prompt = general_prompt(answer.question, answer.paths)
    assert all(path.text in prompt for path in answer.paths)
    nodes = {edge.tail.id for p in answer.paths for one in p.groundings for edge in one.edges}
    for one in answer.answers:
        assert one.grounded == (one.id is not None)
        assert one.id is None or one.id in nodes | {TOLKIEN}


def test_the_json_is_the_contract(sample, kg_llm) -> None:
    given = ask(sample, kg_llm, TOLKIEN, k=2).to_json(None)
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
        "browser_url",
    }
    path = given["paths"][0]
    assert set(path) == {"text", "score", "hypothesis", "edges", "groundings", "grounded"}
    assert path["groundings"][0] == path["edges"]
    assert set(path["edges"][0]) == {"head", "relation", "tail", "inverse", "facts"}
    assert set(path["edges"][0]["facts"][0]) == {"head", "predicate", "tail"}
    assert set(given["timings"]) == {"link", "constraint", "decode", "ground", "answer", "total"}
