"""What a path votes for, given what the model wrote after it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.aggregate import aggregate, relation_paths
from kgqa.answers.answer import ScoredPath
from kgqa.answers.ballots import cast
from kgqa.answers.confidence import ConfidenceOptions
from kgqa.answers.vote import WeighOptions, vote, weigh
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules
from tests.answers.test_aggregate import EVEN
from tests.answers.test_naming import chain
from tests.answers.test_vote import JAMAICA, MONEY, SPOKEN, decoded, topics_of
from tests.fixtures import LINCOLN

FORM = PathFormat()


def wrote(hypothesis: str, probability: float, *names: str) -> ScoredPath:
    path = chain(*names)
    return ScoredPath(path.text, math.log(probability), hypothesis, (path,))


def test_paths_whose_hypothesis_is_their_end_count_as_they_are() -> None:
    paths = [
        wrote("the b", 0.5, "T", "B"),
        wrote("C", 0.2, "T", "B", "C"),
        wrote(" ", 0.1, "T", "D"),
    ]
    assert cast(paths, FORM).paths == tuple(paths)
    assert cast(paths, FORM).written == ()


def test_an_entity_inside_the_path_gets_the_vote() -> None:
    paths = [wrote("B", 0.5, "T", "B", "C"), wrote("D", 0.3, "T", "D")]
    ballots = cast(paths, FORM)
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
    ballots = cast(paths, FORM)
    given_ = math.fsum(math.exp(one.score) for one in paths)
    cast_ = math.fsum(math.exp(one.score) for one in (*ballots.paths, *ballots.written))
    assert cast_ == pytest.approx(given_)
    assert sum(one.score for one in vote(paths)) == pytest.approx(1.0)
    candidates = aggregate(
        relation_paths(ballots.paths), ballots.paths, EVEN, written=ballots.written
    )
    for one in candidates:
        assert one.grounded or one.path is None
        assert bool(one.path) <= one.grounded


def test_weighed_with_the_others_and_looked_up_in_the_graph(sample) -> None:
    first, second = decoded(sample, JAMAICA, SPOKEN, MONEY)
    paths = [replace(first, hypothesis="abraham lincoln"), replace(second, hypothesis="Atlantis")]
    options = WeighOptions(confidence=ConfidenceOptions(cut=0.0, doubt=0.0))
    verdict = weigh(sample, paths, topics_of(sample, JAMAICA), WalkRules(), FORM, options)
    found = {one.name: one for one in verdict.answers}
    lincoln = found["Abraham Lincoln"]
    assert (lincoln.id, lincoln.grounded) == (LINCOLN, False)
    assert (found["Atlantis"].id, found["Atlantis"].grounded) == (None, False)
    assert all(
        one.grounded for name, one in found.items() if name not in ("Abraham Lincoln", "Atlantis")
    )
    assert {path.groundings[0].tail.name for path in paths} <= set(found), "ends stay answers"
    assert sum(one.score for one in verdict.answers) == pytest.approx(0.8)


def test_nothing_written_leaves_the_weighing_as_it_was(sample) -> None:
    paths = decoded(sample, JAMAICA, SPOKEN, MONEY)
    spelt = [replace(one, hypothesis=one.hypothesis.upper() + ".") for one in paths]
    topics = topics_of(sample, JAMAICA)
    assert weigh(sample, spelt, topics, WalkRules(), FORM) == weigh(
        sample, paths, topics, WalkRules(), FORM
    )
