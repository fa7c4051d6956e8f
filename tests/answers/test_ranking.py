"""What paths say together, scores that sum to at most 1, and when there is no answer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import ExpandedPath, ScoredPath
from kgqa.answers.ranking import (
    SUPPORT,
    RankingOptions,
    aggregate,
    decide,
    relation_paths,
    signature,
    to_probability,
    worth_expanding,
)
from kgqa.errors import UsageError
from kgqa.paths.ground import Fact, GroundedPath, Node, PathEdge

EVEN = math.inf  # the temperature at which all tails of a relation path weigh the same


def path(head: str, relation: str, tail: str) -> GroundedPath:
    left, right = Node(head, head.upper()), Node(tail, tail.upper())
    edge = PathEdge(left, relation, right, False, (Fact(head, relation, tail),))
    return GroundedPath((edge,), f"{head.upper()} -> {relation} -> {tail.upper()}")


def scored(probability: float, *paths: GroundedPath) -> ScoredPath:
    return ScoredPath(paths[0].text, math.log(probability), paths[0].tail.name, paths)


def ranked(paths: list[ScoredPath], temperature: float = EVEN, **more) -> list[str]:
    return [one.node.id for one in aggregate(relation_paths(paths), paths, temperature, **more)]


def test_paths_of_one_relation_path_add_up() -> None:
    paths = [
        scored(0.3, path("t", "born", "a")),
        scored(0.25, path("t", "speaks", "b")),
        scored(0.2, path("t", "speaks", "c")),
    ]
    found = relation_paths(paths)
    assert [one.grounding.edges[0].relation for one in found] == ["speaks", "born"]
    assert [one.probability for one in found] == pytest.approx([0.45, 0.3])
    assert ranked(paths) == ["b", "c", "a"], "what is asked for comes before which of them"
    assert ranked(paths, 0.2) == ["b", "a", "c"]


def test_a_relation_that_was_only_chosen_for_want_of_another_weighs_less() -> None:
    paths = [
        replace(scored(0.6, path("t", "born", "a")), lost=math.log(0.01)),
        replace(scored(0.3, path("t", "speaks", "b")), lost=math.log(0.5)),
    ]
    found = relation_paths(paths)
    assert [one.grounding.tail.id for one in found] == ["b", "a"]
    assert found[0].weight / found[1].weight == pytest.approx(0.3 * 0.5 / (0.6 * 0.01))
    assert [one.probability for one in found] == pytest.approx([0.3, 0.6]), "as it was decoded"
    assert ranked(paths) == ["b", "a"]


def test_relations_that_are_all_unlikely_keep_their_proportion() -> None:
    paths = [
        replace(scored(0.5, path("t", "r", "a")), lost=-900.0),
        replace(scored(0.4, path("t", "s", "b")), lost=-901.0),
    ]
    weights = [one.weight for one in relation_paths(paths)]
    assert weights == pytest.approx([0.5, 0.4 * math.exp(-1.0)])


def test_an_entity_of_several_relation_paths_has_the_weight_of_all() -> None:
    paths = [
        scored(0.3, path("t", "r", "a")),
        scored(0.2, path("t", "s", "b")),
        scored(0.2, path("t", "u", "b")),
    ]
    first = aggregate(relation_paths(paths), paths, EVEN)[0]
    assert first.node.id == "b"
    assert first.weight == pytest.approx(0.4)
    assert first.probability == pytest.approx(0.4)
    assert first.path.tail.id == "b"


def test_what_several_topic_entities_lead_to_comes_first() -> None:
    paths = [
        scored(0.4, path("s", "r", "a")),
        scored(0.3, path("s", "q", "b")),
        scored(0.05, path("t", "r", "b")),
    ]
    first = aggregate(relation_paths(paths), paths, EVEN)[0]
    assert (first.node.id, first.heads) == ("b", ("s", "t"))
    assert first.weight == pytest.approx((1 + SUPPORT) * 0.35)
    # the graph may say so, too, if the model wrote no path from the second one
    assert ranked(paths[:2], reached={"b": ["s", "t"]}) == ["b", "a"]
    assert ranked(paths[:2], reached={"a": ["s"], "b": ["s"]}) == ["a", "b"]
    assert (
        ranked([paths[0], scored(0.12, path("s", "q", "b"))], reached={"b": ["s", "t"]})[0] == "b"
    )
    assert (
        ranked([paths[0], scored(0.09, path("s", "q", "b"))], reached={"b": ["s", "t"]})[0] == "a"
    )


def test_a_text_with_several_groundings_divides_its_probability() -> None:
    paths = [scored(0.5, path("t", "r", "a"), path("t", "r", "b"))]
    found = relation_paths(paths)
    assert found[0].tails == pytest.approx({"a": 0.25, "b": 0.25})
    assert sum(one.probability for one in found) == pytest.approx(0.5)


def test_expanded_tails_weigh_no_more_than_the_least_decoded_one() -> None:
    paths = [scored(0.4, path("t", "r", "a")), scored(0.1, path("t", "r", "b"))]
    found = relation_paths(paths)
    found[0].expanded = [ExpandedPath(path("t", "r", one), paths[0].text) for one in ("b", "c")]
    weights = {one.node.id: one for one in aggregate(found, paths, 1.0)}
    assert weights["a"].weight == pytest.approx(0.5)
    assert weights["b"].weight == weights["c"].weight == pytest.approx(0.125)
    assert weights["b"].expanded is None, "it was decoded: its own path is shown"
    assert weights["c"].expanded is not None
    assert weights["c"].path == weights["c"].expanded.grounding
    assert weights["c"].probability == 0.0


def test_only_probable_relation_paths_are_expanded() -> None:
    paths = [scored(0.5, path("t", "r", "a")), scored(0.01, path("t", "s", "b"))]
    found = relation_paths(paths)
    assert [one.grounding.edges[0].relation for one in worth_expanding(found)] == ["r"]
    paths[1] = scored(0.06, path("t", "s", "b"))
    assert len(worth_expanding(relation_paths(paths))) == 2, "a tenth is enough"
    assert worth_expanding([]) == []


def test_paths_too_unlikely_for_a_float_keep_their_order() -> None:
    likely = [ScoredPath("x", s, "x", (path("t", f"r{s}", f"e{s}"),)) for s in (-1.0, -2.0, -4.0)]
    unlikely = [ScoredPath("x", p.score - 9000, "x", p.groundings) for p in likely]
    assert ranked(unlikely) == ranked(likely)
    assert 0 < sum(map(to_probability(unlikely), (one.score for one in unlikely))) <= 1


def test_relation_paths_of_one_name_with_other_predicates_stay_apart() -> None:
    one, other = path("t", "r", "a"), path("t", "r", "b")
    fact = Fact("t", "another", "b")
    edge = PathEdge(other.head, "r", other.tail, False, (fact,))
    assert signature(one) != signature(GroundedPath((edge,), other.text))
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    "options",
    [
        {"tail_temperature": 0.0},
        {"max_tails": 0},
        {"answer_threshold": 1.1},
        {"answer_threshold": math.nan},
        {"min_confidence": -0.1},
        {"slope": 0.0},
        {"shift": math.inf},
    ],
)
def test_options_that_mean_nothing_are_refused(options) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        RankingOptions(**options)


NAMES = st.sampled_from("abcd")


@given(
    st.lists(
        st.tuples(st.floats(-30, -2.4), st.sampled_from("st"), st.sampled_from("rq"), NAMES),
        min_size=1,
        max_size=10,
        unique_by=lambda tuple: tuple[1:],
    ),
    st.floats(0.2, 100),
)
def test_every_end_is_ranked_once_and_probabilities_are_kept(drawn, temperature) -> None:
    paths = [ScoredPath("x", s, t, (path(h, r, t),)) for s, h, r, t in drawn]
    found = relation_paths(paths)
    given_ = math.fsum(math.exp(one.score) for one in paths)
    assert math.fsum(one.probability for one in found) == pytest.approx(given_)
    entities = aggregate(found, paths, temperature)
    assert sorted(entity.node.id for entity in entities) == sorted({one[3] for one in drawn})
    assert math.fsum(entity.probability for entity in entities) == pytest.approx(given_)
    weights = [entity.weight for entity in entities]
    assert weights == sorted(weights, reverse=True)
    assert all(entity.path.tail == entity.node for entity in entities)


PATHS = [
    scored(0.5, path("t", "r", "a")),
    scored(0.2, path("t", "r", "b")),
    scored(0.1, path("t", "s", "c")),
]


def judged(paths: list[ScoredPath], temperature: float = EVEN, **options):
    found = relation_paths(paths)
    return decide(aggregate(found, paths, temperature), found, RankingOptions(**options))


def test_the_answers_are_those_that_weigh_nearly_as_much_as_the_first() -> None:
    assert judged(PATHS, answer_threshold=0.5).chosen == 2
    assert judged(PATHS, answer_threshold=1.0).chosen == 2, "what weighs the same is chosen with it"
    assert judged(PATHS, answer_threshold=0.0).chosen == 3
    assert judged(PATHS).chosen == 2, "a weight of a seventh of the first is too little"
    assert judged(PATHS, 1.0, answer_threshold=0.5).chosen == 1


def test_scores_are_parts_of_what_was_decoded() -> None:
    found = judged(PATHS)
    assert sum(found.scores) == pytest.approx(0.8)
    assert found.scores[0] == found.scores[1] > found.scores[2]


def test_confidence_is_that_of_what_is_asked_for_not_of_one_tail() -> None:
    assert judged(PATHS).confidence == pytest.approx(0.7)


def test_with_insufficient_evidence_there_is_no_answer() -> None:
    found = judged(PATHS, min_confidence=0.75)
    assert found.chosen == 0
    assert sum(found.scores) == pytest.approx(0.8), "the entities keep their scores"
    assert judged(PATHS, min_confidence=0.65).chosen
    nothing = decide([], [], RankingOptions())
    assert not nothing.chosen
    assert nothing.scores == ()


@given(
    st.lists(
        st.tuples(st.floats(-2000, 0), st.sampled_from("st"), st.sampled_from("rq")),
        min_size=1,
        max_size=12,
    ),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_scores_fall_and_never_sum_to_more_than_one(drawn, threshold, least) -> None:
    paths = [
        ScoredPath("x", s, "x", (path(h, r, f"e{number}"),))
        for number, (s, h, r) in enumerate(drawn)
    ]
    found = judged(paths, 3.0, answer_threshold=threshold, min_confidence=least)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    assert math.fsum(found.scores) <= 1.0 + 1e-9
    assert 0.0 <= found.confidence <= 1.0
    assert (found.chosen == 0) == (found.confidence < least)
