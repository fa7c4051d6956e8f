"""Patterns of classes and hops that a question may be about."""

from __future__ import annotations

from kgqa.planning.evidence import Pattern
from kgqa.queries.plan import Hop


def test_the_order_in_which_hops_were_added_does_not_matter() -> None:
    one = Pattern(
        ("bank", "filing", "bank", "country"),
        (Hop(0, "filed", 1), Hop(1, "names", 2), Hop(0, "in", 3)),
        1.0,
    )
    other = Pattern(
        ("bank", "country", "filing", "bank"),
        (Hop(0, "in", 1), Hop(0, "filed", 2), Hop(2, "names", 3)),
        0.5,
    )
    assert one.key() == other.key()


def test_one_node_of_two_hops_is_not_two_nodes() -> None:
    hops = (Hop(0, "wrote", 1), Hop(0, "edited", 1))
    same = Pattern(("person", "book"), hops, 1.0)
    two = Pattern(("person", "book", "book"), (hops[0], Hop(0, "edited", 2)), 1.0)
    assert same.key() != two.key()


def test_the_place_and_the_direction_of_a_hop_matter() -> None:
    chain = Pattern(("a", "b", "c"), (Hop(0, "r", 1), Hop(1, "s", 2)), 1.0)
    fork = Pattern(("a", "b", "c"), (Hop(0, "r", 1), Hop(0, "s", 2)), 1.0)
    back = Pattern(("a", "b", "c"), (Hop(0, "r", 1), Hop(1, "s", 2, inverse=True)), 1.0)
    assert len({chain.key(), fork.key(), back.key()}) == 3
