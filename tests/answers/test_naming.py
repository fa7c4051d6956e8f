"""What a model wrote is linked to the entity that it means, and to no other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.naming import PathNames, form_of, in_graph, is_name_of
from kgqa.paths.ground import Fact, GroundedPath, Node, PathEdge
from tests.fixtures import LINCOLN, TOLKIEN


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


def test_names_inside_a_sentence_are_found_as_whole_words() -> None:
    names = PathNames(
        [chain("T", name) for name in ("New York", "New York City", "English", "Malé", "War")]
    )
    said = names.contained
    assert ids(said("They speak English in New York City, I think.")) == ["English", "NewYorkCity"]
    assert ids(said("It is Male")) == ["Malé"]
    assert said("He was warned") == [], "a part of a word is no name"
    assert said("") == []


def test_a_part_of_a_name_means_it_only_where_it_means_no_other() -> None:
    names = PathNames([chain("T", "Ernest Hemingway"), chain("T", "Ernest Lawrence")])
    assert ids(names.contained("Hemingway")) == ["ErnestHemingway"]
    assert names.contained("Ernest") == []
    assert names.contained("e") == []


def test_a_name_in_the_graph_means_the_best_connected_entity(sample) -> None:
    found = in_graph(sample, ["abraham lincoln", "nobody of that name", "", "J. R. R. Tolkien"])
    assert [node and node.id for node in found] == [LINCOLN, None, None, TOLKIEN]
    assert in_graph(sample, []) == []
    _rows, keys = sample.find_names(["abraham lincoln"])
    degrees = sample.degrees(keys)
    assert sample.degrees(sample.keys_of([LINCOLN]))[0] == degrees.max()
