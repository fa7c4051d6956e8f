"""KG-CoT as a method: whatever the weights, answers and paths are in the graph."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from kgqa.answers.answer import TopicEntity
from kgqa.errors import AdapterMismatchError, EmptyLanguageError
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.kg_cot.scores import BoundReasoner, score_question
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.precompute import all_topics
from tests.fixtures import LINCOLN, TOLKIEN
from tests.graph.tables import entity, tables_of
from tests.methods.given import about, answered, kg_cot, topic
from tests.methods.reasoners import encoder_folder, random_reasoner, tiny_encoder
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.answers.answer import Answer
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from kgqa.models.graph_reasoner import LoadedReasoner
    from kgqa.models.sentence_encoder import SentenceEncoder

RULES = WalkRules()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    return tiny_encoder(encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


@pytest.fixture(scope="module")
def reasoner(sample: SqliteStore, encoder: SentenceEncoder) -> LoadedReasoner:
    return random_reasoner(sample, RULES, encoder)


def ask(
    store: GraphStore, reasoner: LoadedReasoner, question: LinkedQuestion, **more: float
) -> Answer:
    return answered(store, kg_cot(reasoner, **more), question)


def test_every_path_is_a_path_of_the_graph(sample: SqliteStore, reasoner: LoadedReasoner) -> None:
    keys = all_topics(sample)[::60]
    keys = [key for key in keys.tolist() if len(sample.neighbours(keys_array([key]), "out"))]
    names = sample.entities(keys_array(keys))
    checked = 0
    for row, key in enumerate(keys):
        start = TopicEntity(key, names.ids[row], names.label(row), 1.0)
        answer = ask(sample, reasoner, LinkedQuestion("Who?", (start,)), k=5, paths_each=2)
        every = {
            tuple(map(tuple, hops[:length].tolist()))
            for hops, length in zip(*_hops(sample, key), strict=True)
        }
        shown = [path for scored in answer.paths for path in scored.groundings]
        shown += [one.grounding for one in answer.expanded]
        for path in shown:
            assert path.head.id == start.id
            assert _ids(sample, path) in every
            checked += 1
        ends = {path.tail.id for path in shown}
        assert {ranked.id for ranked in (*answer.answers, *answer.others)} <= ends
        assert all(ranked.grounded for ranked in answer.answers)
        assert sum(ranked.score for ranked in (*answer.answers, *answer.others)) <= 1.0 + 1e-6
    assert checked > 300


def _hops(store: GraphStore, key: int) -> tuple:
    table, _ = walk(store, keys_array([key]), RULES)
    return table.hops, table.length


def _ids(store: GraphStore, path) -> tuple:
    """A grounded path as hops of keys, made from its facts alone."""
    relation = {id_: number for number, id_ in enumerate(store.relations().ids)}
    hops = []
    for edge in path.edges:
        steps = [2 * relation[fact.predicate] for fact in edge.facts]
        middle = edge.facts[0].tail if len(steps) == 2 else None
        keys = store.keys_of([edge.tail.id, *([middle] if middle else [])]).tolist()
        hops.append((steps[0], keys[1] if middle else -1, steps[1] if middle else -1, keys[0]))
    return tuple(hops)


def test_scores_say_what_they_are(sample: SqliteStore, reasoner: LoadedReasoner) -> None:
    asking = about(sample, TOLKIEN)
    answer = ask(sample, reasoner, asking, k=4, answer_threshold=0.0)
    bound = BoundReasoner(reasoner, sample, RULES)
    key = sample.keys_of([TOLKIEN])
    scores = score_question(bound, asking.question, key)
    ranked = sample.entities(scores.node).ids
    shown = [ranked.id for ranked in (*answer.answers, *answer.others)]
    assert shown == ranked[: len(shown)]
    assert len(answer.answers) == len(shown)  # a threshold of 0 takes all
    assert [ranked.score for ranked in answer.answers] == pytest.approx(
        (scores.score / scores.score.sum())[: len(shown)].tolist(), abs=1e-5
    )
    assert answer.confidence == pytest.approx(float(scores.score[0]))
    relation: list[dict[tuple[int, int], float]] = []
    for level in scores.levels[1:]:
        taken = bound.hops.relations()[level.relation]
        relation.append(dict(zip(map(tuple, taken.tolist()), level.passed.tolist(), strict=True)))
    numbers = {id_: at for at, id_ in enumerate(sample.relations().ids)}
    for path in answer.paths:
        steps = [
            tuple([*(2 * numbers[fact.predicate] for fact in edge.facts), -1][:2])
            for edge in path.groundings[0].edges
        ]
        mean = sum(relation[at][step] for at, step in enumerate(steps)) / len(steps)
        assert path.score == pytest.approx(math.log(mean), abs=1e-4)


def test_relations_that_are_read_later_score_as_those_read_at_first(
    sample: SqliteStore, reasoner: LoadedReasoner
) -> None:
    used, keys = BoundReasoner(reasoner, sample, RULES), sample.keys_of([TOLKIEN, LINCOLN])
    for asked in (keys[:1], keys, keys[1:]):
        found = score_question(used, "Where was she born?", asked)
        alone = score_question(BoundReasoner(reasoner, sample, RULES), "Where was she born?", asked)
        assert found.node.tolist() == alone.node.tolist()
        assert found.score == pytest.approx(alone.score, abs=1e-6)


def test_the_json_is_the_contracts(sample: SqliteStore, reasoner: LoadedReasoner) -> None:
    answer = ask(sample, reasoner, about(sample, LINCOLN), k=3, paths_each=2)
    found = json.loads(json.dumps(answer.to_dict()))
    assert found["method"] == "kg-cot"
    assert found["kg_llm"]["adapter"] == "random"
    assert (found["kg_llm"]["calls"], found["kg_llm"]["generated_tokens"]) == (1, 0)
    assert found["kg_llm"]["prompt_tokens"] > 0
    assert found["general_llm"] is None
    assert found["search"]["kind"] == "walk"
    assert found["constraints"] == []
    for path in found["paths"]:
        assert path["grounded"]
        assert path["edges"] == path["groundings"][0]
        assert path["score"] <= 0.0
    assert len({path["text"] for path in found["paths"]}) == len(found["paths"])


def test_of_choices_only_choices_are_answers(sample: SqliteStore, reasoner: LoadedReasoner) -> None:
    start = topic(sample, LINCOLN)
    table, _ = walk(sample, keys_array([start.key]), RULES)
    names = sample.entities(table.ends()[[0, 40]])
    choices = (*names.ids, "no such thing")
    answer = ask(sample, reasoner, about(sample, LINCOLN, choices=choices))
    assert {ranked.id for ranked in answer.answers if ranked.grounded} == set(names.ids)
    assert [(ranked.name, ranked.score) for ranked in answer.answers if not ranked.grounded] == [
        ("no such thing", 0.0)
    ]
    assert sum(ranked.score for ranked in answer.answers) == pytest.approx(1.0)
    ends = {grounding.tail.id for path in answer.paths for grounding in path.groundings}
    assert ends == set(names.ids)


def test_of_an_entity_without_paths_it_is_said(
    sample: SqliteStore, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    with store_of(
        tables_of([entity("a"), entity("b"), entity("c")], [("a", "r", "b")]), tmp_path
    ) as store:
        reasoner = random_reasoner(store, RULES, encoder)
        with pytest.raises(EmptyLanguageError, match="no path"):
            ask(store, reasoner, about(store, "c"))


def test_a_reasoner_moves_to_another_kg(
    sample: SqliteStore, reasoner: LoadedReasoner, tmp_path: Path
) -> None:
    with store_of(
        tables_of([entity("a"), entity("b")], [("a", "was born in", "b")]), tmp_path
    ) as store:
        answer = ask(store, reasoner, about(store, "a"))
        assert answer.paths[0].text == "a -> was born in -> b"
    with pytest.raises(AdapterMismatchError, match="walks 2 hops at most"):
        BoundReasoner(reasoner, sample, WalkRules(3))


def test_hops_are_kept_from_one_question_to_the_next(
    sample: SqliteStore, reasoner: LoadedReasoner
) -> None:
    method = kg_cot(reasoner)
    first = answered(sample, method, about(sample, TOLKIEN))
    bound = method._in(sample)
    again = answered(sample, method, about(sample, TOLKIEN))
    assert method._in(sample) is bound
    assert (first.answers, first.paths) == (again.answers, again.paths)
