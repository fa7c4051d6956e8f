"""Stored and composed constraints accept exactly the paths of the graph, and ground them alike."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import EmptyLanguageError, MarkerMissingError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie import composed
from kgqa.trie.composed import ComposedConstraint
from kgqa.trie.index import open_index
from kgqa.trie.index.constraint import MarisaConstraint
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.stored import path_tokens, stored_constraint
from tests.graph.tables import entity, tables_of
from tests.trie.language import (
    CharacterEncoder,
    PairEncoder,
    brute_force,
    graphs,
    id_paths,
    language,
    rules_of,
    store_of,
    text_of,
    tokens_of,
)
from tests.trie.precomputed import FORM, KEY, build

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore

ENCODERS = [CharacterEncoder(), PairEncoder()]


def stored(store: GraphStore, topics: list[int], rules: WalkRules, form: PathFormat = FORM):
    lexicon = PathLexicon(CharacterEncoder(), form)
    table, over = walk(store, keys_array(topics), rules)
    assert not len(over)
    return stored_constraint([(path_tokens(store, table, lexicon), table)])


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables=graphs(), rules=rules_of, data=st.data())
def test_stored_composed_and_brute_force_are_one_language(tables, rules, data, tmp_path) -> None:
    topics = data.draw(
        st.lists(st.integers(0, tables.nodes.num_rows - 1), min_size=1, max_size=3, unique=True)
    )
    kinds = tables.nodes["kind"].to_pylist()
    topics = [topic for topic in topics if kinds[topic] == Kind.ENTITY] or [0]
    expected: dict[str, list] = defaultdict(list)
    for topic in topics:
        for path in brute_force(tables, topic, rules):
            expected[text_of(tables, path, FORM)].append(path)
    lexicon = PathLexicon(CharacterEncoder(), FORM)
    many = data.draw(st.sampled_from([0, 4, 1_000]))  # beyond, names are begun by their first words
    with store_of(tables, tmp_path) as store, patch.object(composed, "_MANY", many):
        if not expected:
            with pytest.raises(EmptyLanguageError):
                stored(store, topics, rules)
            with pytest.raises(EmptyLanguageError):
                ComposedConstraint(store, keys_array(topics), rules, lexicon)
            return
        from_index = language(stored(store, topics, rules))
        on_the_fly = language(ComposedConstraint(store, keys_array(topics), rules, lexicon))
    assert from_index == on_the_fly
    texts = {lexicon.encoder.decode(tokens)[1:]: paths for tokens, paths in from_index.items()}
    assert len(texts) == len(from_index)
    assert {text: sorted(paths) for text, paths in texts.items()} == {
        text: sorted(paths) for text, paths in expected.items()
    }


@given(tables=graphs(), rules=rules_of, encoder=st.sampled_from(ENCODERS))
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_an_index_gives_back_is_the_language(tables, rules, encoder, tmp_path) -> None:
    """Written to disk and read again: every entity's sequences, and what each grounds to.

    Also under a tokenizer that joins characters, so that parts of one text have other tokens.
    """
    lexicon = PathLexicon(encoder, FORM)
    key = replace(
        KEY,
        tokenizer=encoder.fingerprint,
        hops=rules.hops,
        direction=rules.direction,
        mediators=rules.mediators,
    )
    store_of(tables, tmp_path).close()
    build(
        tmp_path / "graph.sqlite",
        tmp_path,
        key=key,
        cap=100_000,
        encoder=encoder,
        unit=3,
        rebuild=True,
    )
    with SqliteStore(tmp_path / "graph.sqlite") as store, open_index(tmp_path, key) as index:
        topics = store.topic_keys()
        ids = store.entities(topics).ids
        assert index.stored_ids() == set(ids)
        for topic, one in zip(topics.tolist(), ids, strict=True):
            expected: dict[tuple[int, ...], list] = defaultdict(list)
            for path in sorted(brute_force(tables, topic, rules)):
                expected[tokens_of(tables, path, lexicon)].append(path)
            trie = index.look_up(one, topic)
            assert trie is not None
            assert len(trie.table) == sum(map(len, expected.values()))
            if not expected:
                continue
            read = language(stored_constraint([(trie.sequences, trie.table)]))
            composed = language(ComposedConstraint(store, keys_array([topic]), rules, lexicon))
            on_trie = language(MarisaConstraint([trie], rules.hops, lexicon.closing))
            assert read == composed == on_trie
            assert {tokens: sorted(paths) for tokens, paths in read.items()} == expected


@given(tables=graphs(), rules=rules_of)
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_walk_finds_every_path_once(tables, rules, tmp_path) -> None:
    with store_of(tables, tmp_path) as store:
        topics = store.topic_keys()
        table, over = walk(store, topics, rules)
    assert not len(over)
    found = id_paths(table)
    assert len(found) == len(set(found))
    expected = set().union(*(brute_force(tables, topic, rules) for topic in topics.tolist()))
    assert set(found) == expected


@given(tables=graphs(), rules=rules_of, cap=st.integers(0, 12))
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_entity_is_cut_by_the_cap(tables, rules, cap, tmp_path) -> None:
    """A topic has all its paths in the table or none and stands among those over the cap."""
    with store_of(tables, tmp_path) as store:
        topics = store.topic_keys()
        table, over = walk(store, topics, rules, cap)
    for topic in topics.tolist():
        expected = brute_force(tables, topic, rules)
        if topic in over.tolist():
            assert len(expected) > cap or len(table.of(topic)) == 0
            assert not len(table.of(topic))
        else:
            assert set(id_paths(table.of(topic))) == expected
            assert len(expected) <= cap


def test_markers_open_and_close_every_path(tmp_path) -> None:
    tables = tables_of([entity("x", "X"), entity("y", "Y")], [("x", "r", "y")])
    form = PathFormat(start="<a>", end="</a>")
    with store_of(tables, tmp_path) as store:
        (sequence,) = language(stored(store, [0], WalkRules(), form))
        lexicon = PathLexicon(CharacterEncoder(), form)
        (composed,) = language(ComposedConstraint(store, keys_array([0]), WalkRules(), lexicon))
    assert sequence == composed
    assert (sequence[0], sequence[-1]) == (1, 2)
    assert lexicon.encoder.decode(sequence) == "X -> r -> Y"


def test_a_format_whose_markers_the_tokenizer_lacks_is_an_error() -> None:
    with pytest.raises(MarkerMissingError, match="<PATH>"):
        PathLexicon(CharacterEncoder(), PathFormat(start="<PATH>", end="</PATH>"))


def test_composing_costs_calls_by_step_not_by_state(tmp_path) -> None:
    """The states of one step share their store calls: a beam of 30 costs what a beam of 1 does."""
    spokes = [entity(f"s{at:02}", f"spoke {at:02}") for at in range(30)]
    far = [entity(f"t{at:02}", f"far {at:02}") for at in range(30)]
    edges = [("hub", "r", f"s{at:02}") for at in range(30)]
    edges += [(f"s{at:02}", "q", f"t{at:02}") for at in range(30)]
    tables = tables_of([entity("hub", "hub"), *spokes, *far], edges)
    with store_of(tables, tmp_path) as store:
        counted = _Counting(store)
        lexicon = PathLexicon(CharacterEncoder(), FORM)
        constraint = ComposedConstraint(counted, keys_array([0]), WalkRules(), lexicon)
        states = [constraint.start()]
        calls = []
        while states:
            counted.calls = 0
            states = constraint.expand(states).state.tolist()
            calls.append(counted.calls)
    assert max(calls) <= 3
    assert sum(calls) <= 8


def test_of_a_hubs_names_only_those_are_tokenised_whose_first_word_is_written(tmp_path) -> None:
    names = [f"{'Ada' if at % 50 else 'Bo'} number {at}" for at in range(2_000)]
    tables = tables_of(
        [entity("hub", "hub"), *(entity(f"s{at:04}", name) for at, name in enumerate(names))],
        [("hub", "r", f"s{at:04}") for at in range(2_000)],
    )
    encoder = CharacterEncoder()
    encoded: list[str] = []
    encode = encoder.encode
    encoder.encode = lambda texts: encoded.extend(texts) or encode(texts)  # type: ignore[method-assign]
    with store_of(tables, tmp_path) as store:
        lexicon = PathLexicon(encoder, FORM)
        constraint = ComposedConstraint(store, keys_array([0]), WalkRules(1), lexicon)
        encoded.clear()
        state = constraint.start()
        for token in lexicon.sequence("hub", [("r", "Bo")])[:-1]:
            moves = constraint.expand([state])
            state = int(moves.state[moves.token.tolist().index(token)])
        assert set(encoded) == {" Ada", " Bo", " r", " hub"}
        encoded.clear()
        constraint.expand([state])
    assert sorted(encoded) == sorted(f" {name}" for name in names if name[0] == "B")


class _Counting:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.calls = 0

    def __getattr__(self, name: str):
        self.calls += name in ("neighbours", "entities")
        return getattr(self._store, name)
