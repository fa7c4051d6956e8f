"""Multiple choice: only paths to choices may be written, and every choice gets its share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.answers.answer import ScoredPath
from kgqa.answers.choices import (
    choice_paths,
    find_choices,
    named_choice,
    paths_between,
    rank_choices,
)
from kgqa.errors import EmptyLanguageError, UsageError
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import ground
from kgqa.paths.walk import WalkRules, ordered, walk
from tests.graph.tables import random_tables
from tests.trie.language import rules_up_to, store_of

FORM = PathFormat()
RULES = WalkRules()
TOLKIEN = "m.041h0"


def scored(store, topic: str, *wanted: tuple[str, float]) -> list[ScoredPath]:
    """Real paths of the sample that end in the wanted names, with made-up scores."""
    table, _ = walk(store, store.keys_of([topic]), RULES)
    grounded = [path for path in ground(store, table, FORM) if path]
    found = []
    for name, score in wanted:
        path = next(one for one in grounded if one.tail.name == name)
        found.append(ScoredPath(path.text, score, name, (path,)))
    return found


@pytest.mark.parametrize("choices", [[], ["one"], ["same", "same"]])
def test_fewer_than_two_choices_are_refused(sample, choices: list[str]) -> None:
    with pytest.raises(UsageError, match="at least two"):
        find_choices(sample, choices)


def test_a_choice_is_an_id_or_every_entity_of_that_name(sample) -> None:
    by_id, by_name, unknown = find_choices(sample, ["m.0c499", "united kingdom", "Atlantis 9"])
    assert by_id.ids == ("m.0c499",)
    assert sample.entities(np.array(by_name.keys)).names[0] == "United Kingdom"
    assert unknown.ids == unknown.keys == ()


def test_paths_are_those_to_choices_and_every_other_choice_is_named(sample) -> None:
    choices = find_choices(sample, ["Bloemfontein", "London", "Atlantis 9"])
    table, notes = choice_paths(sample, sample.keys_of([TOLKIEN]), choices, RULES)
    assert notes == ['No path leads to: "Atlantis 9".']
    named = {path.tail.name for path in ground(sample, table, FORM) if path}
    assert named == {"Bloemfontein", "London"}


def test_where_no_choice_can_be_reached_nothing_is_guessed(sample) -> None:
    choices = find_choices(sample, ["Atlantis 9", "Tlon"])
    with pytest.raises(EmptyLanguageError, match="Atlantis 9"):
        choice_paths(sample, sample.keys_of([TOLKIEN]), choices, RULES)


def test_paths_to_one_choice_add_up(sample) -> None:
    choices = find_choices(sample, ["Bloemfontein", "London"])
    paths = scored(sample, TOLKIEN, ("Bloemfontein", -1.0), ("London", -1.5))
    assert [choice.name for choice in rank_choices(choices, paths)] == ["Bloemfontein", "London"]
    twice = [*paths, ScoredPath("another", -1.5, "London", paths[1].groundings)]
    assert [choice.name for choice in rank_choices(choices, twice)] == ["London", "Bloemfontein"]
    unlikely = [ScoredPath(p.text, p.score - 5000, p.hypothesis, p.groundings) for p in paths]
    assert [choice.score for choice in rank_choices(choices, unlikely)] == pytest.approx(
        [choice.score for choice in rank_choices(choices, paths)]
    )


def test_a_name_chooses_the_choice_that_is_called_so_and_nothing_else(sample) -> None:
    choices = find_choices(sample, ["Bloemfontein", "London", "Atlantis 9", "Who", "The Who"])
    named = {
        "London": "London",
        "A) London": "London",
        "the london.": "London",
        "Who": "Who",
        "The answer is London.": None,
        "London, not Bloemfontein": None,
        "Paris": None,
        "": None,
    }
    for text, name in named.items():
        found = named_choice(text, choices)
        assert (None if found is None else found.text) == name, text


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    rules=rules_up_to(3),
    ends=st.integers(0, 3),
)
def test_paths_between_are_the_walks_that_end_there(seed: int, rules: WalkRules, ends: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        store_of(random_tables(seed), Path(folder)) as store,
    ):
        topics, wanted = store.topic_keys()[:3], store.topic_keys()[2 : 2 + ends]
        table, _ = walk(store, topics, rules)
        expected = ordered(table.take(np.flatnonzero(np.isin(table.ends(), wanted))))
        found, cut = paths_between(store, topics, wanted, rules)
        assert not cut
        assert ordered(found).hops.tolist() == expected.hops.tolist()
        assert ordered(found).topic.tolist() == expected.topic.tolist()
        some, cut = paths_between(store, topics, wanted, rules, most=2)
        assert len(some) <= 2
        assert cut or len(some) == len(found)
