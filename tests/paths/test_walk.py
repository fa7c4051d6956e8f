"""Walks and questions that would fill the memory are refused before they do."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import kgqa
from kgqa.errors import GraphError, KgqaError, LinkingError, UsageError
from kgqa.paths.walk import MOST_HOPS, MOST_WALKED, WalkRules, hops_out_of, walk

if TYPE_CHECKING:
    from kgqa.api import KG
    from kgqa.graph.sqlite import SqliteStore

LEAVES = 10_000
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def stars(tmp_path_factory: pytest.TempPathFactory) -> KG:
    """Two hubs with the same leaves, and two that meet in one nameless node."""
    folder = tmp_path_factory.mktemp("stars")
    leaves = [f"leaf {number}" for number in range(LEAVES)]
    lines = [f"{hub}\tr\t{leaf}" for hub in ("A", "B") for leaf in leaves]
    lines += [f"{leaf}\ts\tm.middle" for leaf in leaves]
    lines += [f"m.middle\tt\tend {number}" for number in range(LEAVES)]
    file = folder / "stars.tsv"
    file.write_text("\n".join(lines) + "\n")
    return kgqa.ingest("triples", file, kg="stars", home=folder / "home", mediators=r"m\.middle")


def peak_of(error: type[KgqaError], what: str, call) -> int:
    """The most bytes that were held while ``call`` was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=what):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_hubs_behind_hubs_are_refused_before_memory_is_taken(stars: KG) -> None:
    peak = peak_of(
        GraphError,
        f"and {MOST_WALKED:,} can be",
        lambda: stars.paths("A", hops=3, direction="both"),
    )
    assert peak < 100 * MEGABYTE, "100,000,000 paths of 96 bytes"
    assert stars.paths("A", hops=1).total == LEAVES


def test_long_paths_are_refused_by_the_room_that_they_take(sample: SqliteStore) -> None:
    peak = peak_of(
        GraphError,
        f"and {MOST_WALKED // MOST_HOPS:,} can be",
        lambda: walk(sample, sample.keys_of(["m.041h0"]), WalkRules(MOST_HOPS)),
    )
    assert peak < 2_000 * MEGABYTE, "a million paths of 32 hops are a gigabyte"


def test_a_nameless_node_between_many_is_refused_before_memory_is_taken(stars: KG) -> None:
    keys = np.sort(stars.store.keys_of([f"leaf {number}" for number in range(LEAVES)]))
    rules = WalkRules(1, "out")
    peak = peak_of(GraphError, "to walk at once", lambda: hops_out_of(stars.store, keys, rules))
    assert peak < 100 * MEGABYTE
    assert len(walk(stars.store, keys[:2], rules)[0]) == 2 * LEAVES


@pytest.mark.parametrize("hops", [33, 10**9, 10**30])
def test_hops_are_bounded(stars: KG, hops: int) -> None:
    assert peak_of(UsageError, "hops", lambda: stars.paths("A", hops=hops)) < MEGABYTE
    with pytest.raises(UsageError, match="hops"):
        stars.qa(hops=hops)


def test_paths_that_are_looked_for_are_bounded(stars: KG) -> None:
    with pytest.raises(UsageError, match="k"):
        stars.qa(k=10**9)


def test_topic_entities_are_bounded(stars: KG) -> None:
    with pytest.raises(UsageError, match="1,000 topic entities"):
        stars.ask("What is A?", entities=["A"] * 100_000)
    with pytest.raises(LookupError) as caught:
        stars.ask("What is A?", entities=["A" * 100_000])
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("text", ["x" * 100_000, "what is A " * 10_000, "\U0001f600" * 20_000])
def test_a_question_of_any_length_ends_in_a_named_error(stars: KG, text: str) -> None:
    for entities in ((), ("A",)):
        with pytest.raises(LinkingError, match="characters"):
            stars.ask(text, entities=entities)
    with pytest.raises(LinkingError, match="characters"):
        stars.link(text)
