"""What a model wrote is linked to the entity that it means, and counts as a vote for it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import ScoredPath
from kgqa.answers.naming import PathNames, form_of, in_graph, is_name_of, tally
from kgqa.answers.ranking import RankingOptions, aggregate, relation_paths, vote, weigh
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import Fact, GroundedPath, Node, PathEdge
from kgqa.paths.walk import WalkRules
from tests.answers.test_verdict import JAMAICA, MONEY, SPOKEN, decoded, topics_of
from tests.fixtures import LINCOLN, TOLKIEN

FORM = PathFormat()


def chain(*names: str) -> GroundedPath:
    """A path through entities whose ids are their names without spaces."""
    nodes = [Node(name.replace(" ", ""), name) for name in names]
    edges = tuple(
        PathEdge(left, "r", right, False, (Fact(left.id, "r", right.id),))
        for left, right in itertools.pairwise(nodes)
    )
    return GroundedPath(edges, " -> r -> ".join(names))


def ids(nodes: list[Node]) -> list[str]:
    return [node.id for node in nodes]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("hugo chavez.", "Hugo Chávez"),
        ("HUGO CHÁVEZ", "Hugo Chavez"),
        ("the Beatles", "Beatles"),
        ("Beatles", "The Beatles"),
        ("Soren Kierkegaard", "Søren Kierkegaard"),
        ("Lewis & Clark", "Lewis — Clark"),
        ("!!!", "!!!"),
        ("Go\u0308teborg", "G\u00f6teborg"),
    ],
)
def test_spellings_of_one_name(written: str, name: str) -> None:
    assert is_name_of(written, name)


@pytest.mark.parametrize(
    ("written", "name"),
    [("Chavez", "Hugo Chávez"), ("!!!", "???"), ("", ""), ("the", "A"), ("が", "か")],
)
def test_other_names(written: str, name: str) -> None:
    assert is_name_of(written, name) == (written == name)


@given(st.text(max_size=30))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert form_of(form_of(text)) == form_of(text)


def test_an_end_comes_before_an_entity_inside_and_that_before_a_topic() -> None:
    end, inside, topic = (
        Node("e", "Springfield"),
        Node("i", "Springfield"),
        Node("t", "Springfield"),
    )
    other = Node("x", "Elsewhere")

    def path(*nodes: Node) -> GroundedPath:
        edges = (
            PathEdge(a, "r", b, False, (Fact(a.id, "r", b.id),))
            for a, b in itertools.pairwise(nodes)
        )
        return GroundedPath(tuple(edges), "")

    names = PathNames([path(topic, inside, other), path(topic, other, end)])
    assert ids(names.exact("springfield")) == ["e"]
    assert ids(PathNames([path(topic, inside, other)]).exact("springfield")) == ["i"]
    assert ids(PathNames([path(topic, other)]).exact("springfield")) == ["t"]
    assert names.is_grounded(end)
    assert names.is_grounded(inside), "the beginning of a path ends there"
    assert not names.is_grounded(topic)


def test_a_name_in_the_graph_means_the_best_connected_entity(sample) -> None:
    found = in_graph(sample, ["abraham lincoln", "nobody of that name", "", "J. R. R. Tolkien"])
    assert [node and node.id for node in found] == [LINCOLN, None, None, TOLKIEN]
    assert in_graph(sample, []) == []
    _rows, keys = sample.find_names(["abraham lincoln"])
    degrees = sample.degrees(keys)
    assert sample.degrees(sample.keys_of([LINCOLN]))[0] == degrees.max()


def wrote(hypothesis: str, probability: float, *names: str) -> ScoredPath:
    path = chain(*names)
    return ScoredPath(path.text, math.log(probability), hypothesis, (path,))


def test_paths_whose_hypothesis_is_their_end_count_as_they_are() -> None:
    paths = [
        wrote("the b", 0.5, "T", "B"),
        wrote("C", 0.2, "T", "B", "C"),
        wrote(" ", 0.1, "T", "D"),
    ]
    assert tally(paths).paths == tuple(paths)
    assert tally(paths).written == ()


def test_an_entity_inside_the_path_gets_the_vote() -> None:
    paths = [wrote("B", 0.5, "T", "B", "C"), wrote("D", 0.3, "T", "D")]
    ballots = tally(paths)
    assert not ballots.written
    assert ballots.paths[0].text == "T -> r -> B"
    assert ballots.paths[0].groundings[0].edges == paths[0].groundings[0].edges[:1]
    assert [(one.id, one.grounded) for one in vote(paths)] == [("B", True), ("D", True)]


def test_what_no_path_holds_has_half_the_vote_and_is_not_grounded() -> None:
    paths = [wrote("Atlantis", 0.6, "T", "B"), wrote("C", 0.2, "T", "C")]
    found = {one.name: one for one in vote(paths)}
    assert found["Atlantis"].id is None
    assert not found["Atlantis"].grounded
    assert found["Atlantis"].score == found["B"].score == pytest.approx(0.375)
    assert found["B"].grounded
    assert found["C"].score == pytest.approx(0.25)


def test_what_another_path_ends_in_is_grounded_by_that_path() -> None:
    paths = [wrote("C", 0.6, "T", "B"), wrote("C", 0.2, "T", "C")]
    assert [(one.id, one.grounded) for one in vote(paths)] == [("C", True), ("B", True)]
    assert [one.score for one in vote(paths)] == pytest.approx([0.5 / 0.8, 0.3 / 0.8])


def test_the_topic_entity_is_an_answer_that_no_path_ends_in() -> None:
    paths = [wrote("T", 0.6, "T", "B")]
    assert {(one.id, one.grounded) for one in vote(paths)} == {("T", False), ("B", True)}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "T", "A", "B", "C", "Atlantis", "Lemuria"]),
            st.floats(1e-6, 0.2),
            st.permutations(["A", "B", "C"]),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_probability_is_lost_or_made(drawn) -> None:
    paths = [wrote(said, score, "T", *names[:hops]) for said, score, names, hops in drawn]
    ballots = tally(paths)
    given_ = math.fsum(math.exp(path.score) for path in paths)
    cast_ = math.fsum(math.exp(path.score) for path in (*ballots.paths, *ballots.written))
    assert cast_ == pytest.approx(given_)
    assert sum(one.score for one in vote(paths)) == pytest.approx(1.0)
    found = relation_paths(ballots.paths)
    for one in aggregate(found, ballots.paths, written=ballots.written):
        assert one.grounded or one.path is None
        assert bool(one.path) <= one.grounded


def test_weighed_with_the_others_and_looked_up_in_the_graph(sample) -> None:
    first, second = decoded(sample, JAMAICA, SPOKEN, MONEY)
    paths = [replace(first, hypothesis="abraham lincoln"), replace(second, hypothesis="Atlantis")]
    options = RankingOptions(answer_threshold=0.0)
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), WalkRules(), FORM, options)
    found = {ranked.name: ranked for ranked in verdict.answers}
    lincoln = found["Abraham Lincoln"]
    assert (lincoln.id, lincoln.grounded) == (LINCOLN, False)
    assert (found["Atlantis"].id, found["Atlantis"].grounded) == (None, False)
    assert all(
        one.grounded for name, one in found.items() if name not in ("Abraham Lincoln", "Atlantis")
    )
    assert {path.groundings[0].tail.name for path in paths} <= set(found), "ends stay answers"
    assert sum(ranked.score for ranked in verdict.answers) == pytest.approx(0.8)


def test_nothing_written_leaves_the_weighing_as_it_was(sample) -> None:
    paths = decoded(sample, JAMAICA, SPOKEN, MONEY)
    spelt = [replace(path, hypothesis=path.hypothesis.upper() + ".") for path in paths]
    topics = topics_of(sample, JAMAICA)
    assert weigh(sample, spelt, topics, WalkRules(), FORM) == weigh(
        sample, paths, topics, WalkRules(), FORM
    )
