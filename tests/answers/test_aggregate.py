"""What paths say together: relation paths add up, and so do topic entities."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.aggregate import (
    AggregateOptions,
    aggregate,
    probabilities,
    relation_paths,
    signature,
    worth_expanding,
)
from kgqa.answers.answer import ScoredPath
from kgqa.answers.expand import ExpandedPath
from kgqa.errors import UsageError
from kgqa.paths.ground import Fact, GroundedPath, Node, PathEdge

EVEN = AggregateOptions(sharpness=0.0, support=0.0)


def path(head: str, relation: str, tail: str) -> GroundedPath:
    left, right = Node(head, head.upper()), Node(tail, tail.upper())
    edge = PathEdge(left, relation, right, False, (Fact(head, relation, tail),))
    return GroundedPath((edge,), f"{head.upper()} -> {relation} -> {tail.upper()}")


def scored(probability: float, *paths: GroundedPath) -> ScoredPath:
    return ScoredPath(paths[0].text, math.log(probability), paths[0].tail.name, paths)


def ranked(paths: list[ScoredPath], options: AggregateOptions, **more) -> list[str]:
    return [one.node.id for one in aggregate(relation_paths(paths), paths, options, **more)]


def test_paths_of_one_relation_path_add_up() -> None:
    paths = [
        scored(0.3, path("t", "born", "a")),
        scored(0.25, path("t", "speaks", "b")),
        scored(0.2, path("t", "speaks", "c")),
    ]
    found = relation_paths(paths)
    assert [one.grounding.edges[0].relation for one in found] == ["speaks", "born"]
    assert [one.probability for one in found] == pytest.approx([0.45, 0.3])
    assert ranked(paths, EVEN) == ["b", "c", "a"], "what is asked for comes before which of them"
    assert ranked(paths, AggregateOptions(sharpness=5.0, support=0.0)) == ["b", "a", "c"]


def test_a_relation_that_was_only_chosen_for_want_of_another_weighs_less() -> None:
    paths = [
        replace(scored(0.6, path("t", "born", "a")), lost=math.log(0.01)),
        replace(scored(0.3, path("t", "speaks", "b")), lost=math.log(0.5)),
    ]
    biased = relation_paths(paths, unbias=0.0)
    assert [one.grounding.tail.id for one in biased] == ["a", "b"]
    found = relation_paths(paths)
    assert [one.grounding.tail.id for one in found] == ["b", "a"]
    assert found[0].weight / found[1].weight == pytest.approx(0.3 * 0.5 / (0.6 * 0.01))
    assert [one.probability for one in found] == pytest.approx([0.3, 0.6]), "as it was decoded"
    assert ranked(paths, EVEN) == ["b", "a"]


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
    assert ranked(paths, EVEN) == ["a", "b"]
    both = AggregateOptions(sharpness=0.0, support=1.0)
    assert ranked(paths, both) == ["b", "a"]
    # the graph may say so, too, where the model wrote no path from the second one
    assert ranked(paths[:2], both, reached={"b": ["s", "t"]}) == ["b", "a"]
    assert ranked(paths[:2], both, reached={"a": ["s"], "b": ["s"]}) == ["a", "b"]


def test_a_text_with_several_groundings_divides_its_probability() -> None:
    paths = [scored(0.5, path("t", "r", "a"), path("t", "r", "b"))]
    found = relation_paths(paths)
    assert found[0].tails == pytest.approx({"a": 0.25, "b": 0.25})
    assert sum(one.probability for one in found) == pytest.approx(0.5)


def test_expanded_tails_weigh_no_more_than_the_least_decoded_one() -> None:
    paths = [scored(0.4, path("t", "r", "a")), scored(0.1, path("t", "r", "b"))]
    found = relation_paths(paths)
    found[0].expanded = [ExpandedPath(path("t", "r", one), paths[0].text) for one in ("b", "c")]
    weights = {
        one.node.id: one
        for one in aggregate(found, paths, AggregateOptions(sharpness=1.0, support=0.0))
    }
    assert weights["a"].weight == pytest.approx(0.5)
    assert weights["b"].weight == weights["c"].weight == pytest.approx(0.125)
    assert weights["b"].expanded is None, "it was decoded: its own path is shown"
    assert weights["c"].expanded is not None
    assert weights["c"].path == weights["c"].expanded.grounding
    assert weights["c"].probability == 0.0


def test_only_probable_relation_paths_are_expanded() -> None:
    paths = [scored(0.5, path("t", "r", "a")), scored(0.01, path("t", "s", "b"))]
    found = relation_paths(paths)
    names = [one.grounding.edges[0].relation for one in worth_expanding(found, AggregateOptions())]
    assert names == ["r"]
    assert worth_expanding(found, AggregateOptions(expand=False)) == []
    assert len(worth_expanding(found, AggregateOptions(share=0.0))) == 2
    assert worth_expanding([], AggregateOptions()) == []


def test_paths_too_unlikely_for_a_float_keep_their_order() -> None:
    likely = [ScoredPath("x", s, "x", (path("t", f"r{s}", f"e{s}"),)) for s in (-1.0, -2.0, -4.0)]
    unlikely = [ScoredPath("x", p.score - 9000, "x", p.groundings) for p in likely]
    assert ranked(unlikely, EVEN) == ranked(likely, EVEN)
    assert 0 < sum(probabilities(unlikely)) <= 1


def test_relation_paths_of_one_name_with_other_predicates_stay_apart() -> None:
    one, other = path("t", "r", "a"), path("t", "r", "b")
    fact = Fact("t", "another", "b")
    edge = PathEdge(other.head, "r", other.tail, False, (fact,))
    assert signature(one) != signature(GroundedPath((edge,), other.text))
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    "options", [{"sharpness": -1.0}, {"share": 1.5}, {"most_tails": 0}, {"support": float("nan")}]
)
def test_options_that_cannot_be_meant_are_refused(options) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        AggregateOptions(**options)


NAMES = st.sampled_from("abcd")


@given(
    st.lists(
        st.tuples(st.floats(-30, -2.4), st.sampled_from("st"), st.sampled_from("rq"), NAMES),
        min_size=1,
        max_size=10,
        unique_by=lambda one: one[1:],
    ),
    st.floats(0, 2),
    st.floats(0, 5),
)
def test_every_end_is_a_candidate_once_and_probabilities_are_kept(
    drawn, sharpness, support
) -> None:
    paths = [ScoredPath("x", s, t, (path(h, r, t),)) for s, h, r, t in drawn]
    found = relation_paths(paths)
    given_ = math.fsum(probabilities(paths))
    assert math.fsum(one.probability for one in found) == pytest.approx(given_)
    candidates = aggregate(found, paths, AggregateOptions(sharpness=sharpness, support=support))
    assert sorted(one.node.id for one in candidates) == sorted({one[3] for one in drawn})
    assert math.fsum(one.probability for one in candidates) == pytest.approx(given_)
    weights = [one.weight for one in candidates]
    assert weights == sorted(weights, reverse=True)
    assert all(one.path.tail == one.node for one in candidates)
