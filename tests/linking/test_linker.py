from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import LinkingError
from kgqa.linking import link, topic_entities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.model import IntArray
    from kgqa.graph.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("question", "entity", "match"),
    [
        ("who is Barack Obama married to?", "m.obama", "name"),
        ("who is barack obama's wife", "m.obama", "name"),
        ("WHERE WAS BARACK OBAMA BORN", "m.obama", "name"),
        ("what is the city of light", "m.paris", "alias"),
        ("who runs paris?", "m.paris", "name"),  # not the one in Texas
        ("who is paris hilton", "m.hilton", "name"),  # the longest mention
        ("what is the name of a film about lewis & clark", "m.lewis", "name"),
        ("who wrote lord of the rings", "m.lotr", "form"),
        ("who is the president of the us", "m.usa", "form"),
        ("what languages do germans speak", "m.germany", "form"),
        ("who speaks german", "m.german", "form"),
        ("what was hitler", "m.hitler", "partial"),
        ("where did hugo chavez die", "m.chavez", "partial"),
        ("北京的人口是多少", "m.beijing", "name"),
        ("where are The Who from", "m.who", "name"),
        ('who wrote "It"?', "m.it", "name"),
    ],
)
def test_topic_entity_of_a_question(
    store: SqliteStore, question: str, entity: str, match: str
) -> None:
    best = link(store, question)[0]
    assert (best.id, best.match) == (entity, match)
    assert question[best.start : best.end] == best.mention
    assert [topic.id for topic in topic_entities([best])] == [entity]


def test_neighbour_named_beside_it_tells_two_of_one_name_apart(store: SqliteStore) -> None:
    alone, other = link(store, "who runs utica")[:2]
    assert (alone.id, other.id) == ("m.utica_oh", "m.utica_ny")  # the better connected first
    first = link(store, "who runs utica, ny")[0]
    assert first.id == "m.utica_ny"
    assert first.parts.context == 1.0


def test_entity_comes_once_and_best_first(store: SqliteStore) -> None:
    found = link(store, "who is barack obama, president obama, obama")
    ids = [candidate.id for candidate in found]
    assert len(set(ids)) == len(ids)
    assert ids[0] == "m.obama"
    scores = [candidate.score for candidate in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0].degree == 22


def test_limit_cuts_the_tail(store: SqliteStore) -> None:
    question = "paris utica ohio germany"
    assert link(store, question, limit=2) == link(store, question, limit=10)[:2]


def test_everyday_words_link_only_where_nothing_else_does(store: SqliteStore) -> None:
    assert link(store, "what is the name of barack obama")[0].id == "m.obama"
    assert link(store, "what film?")[0].id == "m.film"


def test_second_topic_only_where_it_is_as_strong(store: SqliteStore) -> None:
    best = link(store, "where is barack obama")[0]
    apart = replace(best, key=best.key + 1, start=100, end=110)
    weaker = replace(apart, score=0.9 * best.score)
    partial = replace(apart, match="partial")
    shorter = replace(apart, parts=replace(best.parts, length=0.1))
    same_mention = replace(best, key=best.key + 1)
    assert topic_entities([best, apart]) == [best, apart]
    for other in (weaker, partial, shorter, same_mention):
        assert topic_entities([best, other]) == [best]
    assert topic_entities([]) == []


def test_mostly_one_topic(store: SqliteStore) -> None:
    for question in ("which film has barack obama", "who runs paris", "who speaks german"):
        assert len(topic_entities(link(store, question))) == 1


def test_little_known_name_does_not_hide_the_well_known_entity(store: SqliteStore) -> None:
    assert {c.id for c in link(store, "where is berlin")} == {"m.berlin_band", "m.berlin_wall"}


@pytest.mark.parametrize("question", ["", "   ", "\n"])
def test_empty_question_is_refused(store: SqliteStore, question: str) -> None:
    with pytest.raises(LinkingError, match="empty"):
        link(store, question)


def test_unknown_entity_names_the_nearest_and_how_to_go_on(store: SqliteStore) -> None:
    with pytest.raises(LinkingError) as caught:
        link(store, "who is xyzzy smith")
    assert '"xyzzy smith"' in caught.value.message
    assert '"small"' in caught.value.message
    assert "Will Smith" in caught.value.hint
    assert "--entity" in caught.value.hint


@pytest.mark.parametrize("question", ["???", "who is it", '" OR NEAR( * ) -', "zzzz qqqq wwww"])
def test_nothing_to_link_is_an_error_with_a_hint(store: SqliteStore, question: str) -> None:
    with pytest.raises(LinkingError) as caught:
        link(store, question)
    assert "looked for" in caught.value.message
    assert "--entity" in caught.value.hint


def test_name_in_the_question_s_own_capitals_comes_first(store: SqliteStore) -> None:
    upper, lower = link(store, "who played Twin Peaks")[:2]
    assert (upper.id, lower.id) == ("m.twin_upper", "m.twin_lower")
    assert [c.id for c in link(store, "who played twin peaks")[:2]] == [
        "m.twin_lower",
        "m.twin_upper",
    ]


def test_broken_characters_neither_crash_nor_reach_the_error(store: SqliteStore) -> None:
    assert link(store, "who is \udcff barack obama")[0].id == "m.obama"
    with pytest.raises(LinkingError) as caught:
        link(store, "who is \udcff")
    str(caught.value).encode("utf-8")


def test_a_document_is_no_question(store: SqliteStore) -> None:
    with pytest.raises(LinkingError, match="100000 words"):
        link(store, "obama " * 100_000)


def test_entity_without_edges_is_marked_down(store: SqliteStore) -> None:
    lonely = link(store, "where is lonely island")[0]
    assert lonely.id == "m.lonely"
    assert lonely.parts.factor < 1.0


class Counting:
    """The real store, with its calls counted."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        self.calls.append(name)
        return getattr(self._store, name)

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        self.calls.append("find_names")
        assert len(set(names)) == len(names)
        return self._store.find_names(names)


def test_names_are_looked_up_in_one_call(store: SqliteStore) -> None:
    counting = Counting(store)
    link(counting, "who is barack obama in the united states and what did hitler want in utica")
    assert counting.calls.count("find_names") == 1
    assert counting.calls.count("suggest") <= 6


def test_store_order_of_suggestions_does_not_matter(store: SqliteStore) -> None:
    class Shuffled(Counting):
        def suggest(self, text: str, limit: int = 5) -> IntArray:
            return np.ascontiguousarray(self._store.suggest(text, limit)[::-1])

    question = "what did obama and hitler do"
    assert link(Shuffled(store), question) == link(store, question)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=80))
def test_any_text_links_or_is_refused(store: SqliteStore, question: str) -> None:
    try:
        found = link(store, question)
    except LinkingError:
        return
    assert found == link(store, question)
    for candidate in found:
        assert 0.0 <= candidate.score <= 1.0
        assert question[candidate.start : candidate.end] == candidate.mention
    assert 1 <= len(topic_entities(found)) <= 3


def test_real_questions_link_well() -> None:
    repository = Path(__file__).resolve().parents[2]
    shared = Path(os.environ.get("KGQA_SHARED", repository.parent / "shared"))
    if not (shared / "data" / "freebase_subgraph" / "triples.tsv").is_file():
        pytest.skip(f"there is no folder {shared}; KGQA_SHARED names it")
    script = repository / "scripts" / "bench_linking"
    done = subprocess.run(
        [sys.executable, str(script), "--shared", str(shared)],
        capture_output=True,
        text=True,
        check=True,
    )
    goals = [line for line in done.stdout.splitlines() if line.startswith("goal ")]
    assert len(goals) == 2
    assert all(goal.endswith(" met") for goal in goals), goals
