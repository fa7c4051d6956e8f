"""From paths to the list of answers, over the bundled sample and with a real constraint."""

from __future__ import annotations

import math

import pytest

from kgqa.answers.answer import ScoredPath, TopicEntity
from kgqa.answers.ranking import RankingOptions, vote, weigh
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, walk
from tests.methods.given import about, answered, gcr

FORM = PathFormat()
RULES = WalkRules()
JAMAICA, TOLKIEN = "m.03_r3", "m.041h0"


def topics_of(store, *ids: str) -> list[TopicEntity]:
    keys = store.keys_of(ids)
    entities = store.entities(keys)
    return [
        TopicEntity(int(key), entities.ids[row], entities.label(row), 1.0)
        for row, key in enumerate(keys)
    ]


def decoded(store, topic: str, *wanted: tuple[str, float]) -> list[ScoredPath]:
    """The first real path of each relation wanted, with a made-up probability."""
    table, _ = walk(store, store.keys_of([topic]), WalkRules(hops=1))
    grounded = [path for path in ground(store, table, FORM) if path]
    found = []
    for relation, probability in wanted:
        path = next(one for one in grounded if one.edges[0].relation == relation)
        found.append(ScoredPath(path.text, math.log(probability), path.tail.name, (path,)))
    return found


SPOKEN = ("location.country.languages_spoken", 0.7)
MONEY = ("location.country.currency_used", 0.1)


def test_a_question_for_a_list_gets_the_list(sample) -> None:
    paths = decoded(sample, JAMAICA, SPOKEN, MONEY)
    assert len(vote(paths)) == 2
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), RULES, FORM)
    languages = {ranked.name for ranked in verdict.answers}
    assert len(languages) > 1
    assert paths[0].hypothesis in languages
    assert [other.name for other in verdict.others] == [paths[1].hypothesis]
    scores = [ranked.score for ranked in (*verdict.answers, *verdict.others)]
    assert sum(scores) == pytest.approx(0.8)
    assert scores == sorted(scores, reverse=True)
    assert verdict.confidence == pytest.approx(0.7)


def test_every_answer_has_a_path_of_its_own(sample) -> None:
    paths = decoded(sample, JAMAICA, SPOKEN, MONEY)
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), RULES, FORM)
    shown = {path.groundings[0].tail.id for path in paths}
    shown |= {path.grounding.tail.id for path in verdict.expanded}
    assert {ranked.id for ranked in (*verdict.answers, *verdict.others)} == shown
    assert verdict.expanded
    for one in verdict.expanded:
        fact = one.grounding.edges[-1].facts[-1]
        ends = sample.keys_of([fact.head, fact.tail])
        relation = sample.relations().ids.index(fact.predicate)
        assert sample.has_edges(ends[:1], ends[:1] * 0 + relation, ends[1:]).all()


def test_a_hub_is_left_as_it_was_decoded_and_that_is_said(sample) -> None:
    paths = decoded(sample, JAMAICA, SPOKEN, MONEY)
    options = RankingOptions(max_tails=1)
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), RULES, FORM, options)
    assert [ranked.name for ranked in verdict.answers] == [paths[0].hypothesis]
    assert any("languages_spoken" in note and "Jamaica" in note for note in verdict.notes)


def test_insufficient_evidence_is_reported_and_its_entities_are_kept(sample) -> None:
    paths = decoded(sample, JAMAICA, (SPOKEN[0], 0.02), (MONEY[0], 0.01))
    options = RankingOptions(min_confidence=0.3)
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), RULES, FORM, options)
    assert verdict.answers == ()
    assert verdict.others[0].name in verdict.notes[-1]
    assert "no answer" in verdict.notes[-1]


def test_what_a_second_topic_entity_leads_to_comes_first(sample) -> None:
    """Of two people's places the one that is in a second topic entity's reach is preferred."""
    table, _ = walk(sample, sample.keys_of([JAMAICA]), WalkRules(hops=1))
    tails = {path.tail.id: path for path in ground(sample, table, FORM) if path}
    for other in sample.entities(sample.topic_keys(limit=400)).ids:
        reach, _ = walk(sample, sample.keys_of([other]), RULES)
        near = set(sample.entities(reach.ends()).ids) & set(tails)
        far = set(tails) - near - {other}
        if other != JAMAICA and near and far:
            break
    near_path, far_path = tails[sorted(near)[0]], tails[sorted(far)[0]]
    paths = [
        ScoredPath(far_path.text, math.log(0.5), far_path.tail.name, (far_path,)),
        ScoredPath(near_path.text, math.log(0.4), near_path.tail.name, (near_path,)),
    ]

    def first(*topics: str) -> str:
        options = RankingOptions(max_tails=1)
        verdict = weigh(sample, paths, topics_of(sample, *topics), RULES, FORM, options)
        return verdict.answers[0].name

    assert first(JAMAICA) == far_path.tail.name
    assert first(JAMAICA, other) == near_path.tail.name


def test_weighed_answers_come_with_what_else_was_found(sample, random_llm) -> None:
    method = gcr(random_llm, score_rule="allowed", expand=True, min_confidence=0.0)
    answer = answered(sample, method, about(sample, JAMAICA, question="Which?"))
    given = answer.to_dict()
    everything = [*given["answers"], *given["others"]]
    assert sum(one["score"] for one in everything) <= 1.0 + 1e-9
    ends = {path["edges"][-1]["tail"]["id"] for path in given["paths"]}
    ends |= {path["edges"][-1]["tail"]["id"] for path in given["expanded"]}
    assert {one["id"] for one in everything} == ends
    assert 0.0 < given["confidence"] <= 1.0
    facts = set(answer.facts())
    assert all(
        set(ranked.grounding.edges[-1].facts) <= facts for ranked in answer.expanded_answers()
    )


def test_a_least_confidence_is_for_probabilities_over_what_is_allowed(sample, random_llm) -> None:
    """Over the whole vocabulary every path is unlikely; that is not evidence against it."""
    for rule, is_answered in (("vocabulary", True), ("allowed", False)):
        method = gcr(random_llm, k=2, score_rule=rule, expand=True, min_confidence=1.0)
        answer = answered(sample, method, about(sample, JAMAICA, question="Which?"))
        assert bool(answer.answers) == is_answered
        assert bool(answer.notes) != is_answered


def test_multiple_choice_answers_with_a_choice(sample, random_llm) -> None:
    choices = ("London", "Bloemfontein", "Atlantis 9")
    method = gcr(random_llm, expand=True)
    answer = answered(sample, method, about(sample, TOLKIEN, choices=choices))
    assert {ranked.name for ranked in answer.answers[:2]} == {"London", "Bloemfontein"}
    assert answer.answers[2].name == "Atlantis 9"
    assert {path.hypothesis for path in answer.paths} <= {"London", "Bloemfontein"}
    assert any("Atlantis 9" in note for note in answer.notes)
