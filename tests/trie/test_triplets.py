"""The triplets that may come next are exactly those of the graph that touch what was visited."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.decoding.span_markers import MarkedConstraint, Markers
from kgqa.errors import EmptyLanguageError
from kgqa.graph.model import Kind, keys_array
from kgqa.paths.format import PathFormat
from kgqa.paths.ground import verify
from kgqa.paths.triplets import (
    SomeTriplets,
    StoreTriplets,
    as_paths,
    as_rows,
    joined_rows,
    lasting,
    turned,
)
from kgqa.paths.walk import hops_out_of
from kgqa.trie import composed
from kgqa.trie.composed import TripletLanguage
from kgqa.trie.lexicon import PathLexicon
from tests.graph.tables import entity, random_tables, tables_of
from tests.trie.language import (
    CharacterEncoder,
    PairEncoder,
    graphs,
    id_paths,
    language,
    store_of,
    tokens_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import GraphTables

FORM = PathFormat()
ENCODERS = [CharacterEncoder(), PairEncoder()]
Row = tuple[int, ...]
property_test = settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def all_triplets(tables: GraphTables, *, keep: bool, entered: bool) -> set[Row]:
    """Every triplet of a KG, by the definition: stored triples, and mediators' facts."""
    kinds = tables.nodes["kind"].to_pylist()
    edges = tables.edges.select(["head", "relation", "tail"]).to_pylist()
    triples = [(edge["head"], edge["relation"], edge["tail"]) for edge in edges]

    def through(node: int) -> bool:
        return not keep and kinds[node] == Kind.MEDIATOR

    found = {
        (head, 2 * relation, -1, -1, tail)
        for head, relation, tail in triples
        if head != tail and not through(head) and not through(tail)
    }
    steps = defaultdict(list)  # of a mediator: (node, the step to the mediator)
    for head, relation, tail in triples:
        if through(tail) and not through(head):
            steps[tail].append((head, 2 * relation))
        if through(head) and not through(tail):
            steps[head].append((tail, 2 * relation + 1))
    for mediator, ends in steps.items():
        for start, first in ends:
            for end, back in ends:
                second = back ^ 1
                along = first % 2 == 0 and second % 2 == 0
                mixed = first % 2 != second % 2
                if start != end and (along or (entered and mixed)):
                    found.add((start, first, mediator, second, end))
    return found


def rows_of(tables: GraphTables, path_rows: list) -> set[Row]:
    return {(topic, *hops[0]) for topic, hops in path_rows}


@property_test
@given(tables=graphs(), keep=st.booleans(), entered=st.booleans(), data=st.data())
def test_the_language_is_that_of_brute_force(tables, keep, entered, data, tmp_path) -> None:
    """Texts, and what each stands for, for any visited set, in whatever order it was visited."""
    lexicon = PathLexicon(data.draw(st.sampled_from(ENCODERS)), FORM)
    kinds = tables.nodes["kind"].to_pylist()
    every = all_triplets(tables, keep=keep, entered=entered)
    nodes = [key for key, kind in enumerate(kinds) if keep or kind != Kind.MEDIATOR]
    steps = data.draw(st.lists(st.lists(st.sampled_from(nodes), min_size=1), min_size=1))
    many = data.draw(st.sampled_from([0, 2, 1_000]))  # beyond, names are begun by first words
    with store_of(tables, tmp_path) as store, patch.object(composed, "_MANY", many):
        source = StoreTriplets(store, "keep" if keep else "collapse", entered=entered)
        shared = TripletLanguage(store, source, lexicon)
        visited: set[int] = set()
        for step in steps:
            visited |= set(step)
            live = {key for key in visited if kinds[key] != Kind.VALUE}
            expected = {row for row in every if live & {row[0], row[4]}}
            by_text = defaultdict(set)
            for row in expected:
                by_text[tokens_of(tables, (row[0], (row[1:],)), lexicon)].add(row)
            if not expected:
                with pytest.raises(EmptyLanguageError, match="No triplet touches"):
                    shared.constraint(visited)
                continue
            found = language(shared.constraint(visited))
            assert {text: rows_of(tables, rows) for text, rows in found.items()} == by_text
            for rows in found.values():
                assert len(rows) == len(set(rows))
            fresh = TripletLanguage(
                store, StoreTriplets(store, source._rules.mediators, entered=entered), lexicon
            )
            assert language(fresh.constraint(visited)) == found


@property_test
@given(tables=graphs(), data=st.data())
def test_a_part_of_the_graph_allows_that_part(tables, data, tmp_path) -> None:
    lexicon = PathLexicon(CharacterEncoder(), FORM)
    every = sorted(all_triplets(tables, keep=False, entered=False))
    kinds = tables.nodes["kind"].to_pylist()
    with store_of(tables, tmp_path) as store:
        some = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
        rows = np.array(some, np.int64).reshape(-1, 5)
        nodes = [key for key, kind in enumerate(kinds) if kind == Kind.ENTITY]
        visited = set(data.draw(st.lists(st.sampled_from(nodes), min_size=1)))
        inside = TripletLanguage(store, SomeTriplets(store, rows), lexicon)
        expected = {row for row in some if visited & {row[0], row[4]}}
        if not expected:
            with pytest.raises(EmptyLanguageError):
                inside.constraint(visited)
            return
        found = language(inside.constraint(visited))
        assert {row for rows in found.values() for row in rows_of(tables, rows)} == expected


@pytest.mark.parametrize("seed", range(6))
def test_triplets_of_random_graphs_are_in_the_store(seed: int, tmp_path: Path) -> None:
    """Loops, parallel edges, mediators in a row; every triplet and the same one turned round."""
    tables = random_tables(seed)
    every = all_triplets(tables, keep=False, entered=True)
    with store_of(tables, tmp_path) as store:
        keys = np.arange(tables.nodes.num_rows)
        keys = keys[store.entities(keys).kinds != Kind.MEDIATOR]
        found = joined_rows(StoreTriplets(store, entered=True).around(keys))
        live = set(keys[lasting(store, keys)].tolist())
        assert set(map(tuple, found.tolist())) == {row for row in every if live & {row[0], row[4]}}
        assert verify(store, as_paths(found)).all()
        assert verify(store, as_paths(turned(found))).all()
        assert (turned(turned(found)) == found).all()
        assert (as_rows(as_paths(found)) == found).all()


def test_both_ends_are_offered_and_shared_names_are_sets(tmp_path: Path) -> None:
    tables = tables_of(
        [entity("a", "Ada"), entity("b", "Bo"), entity("c", "Bo"), entity("d", "Di")],
        [("a", "knows", "b"), ("c", "knows", "a"), ("b", "knows", "d"), ("a", "knows", "c")],
    )
    lexicon = PathLexicon(CharacterEncoder(), FORM)
    with store_of(tables, tmp_path) as store:
        shared = TripletLanguage(store, StoreTriplets(store), lexicon)

        def texts(*ids: str) -> dict[str, int]:
            found = language(shared.constraint(store.keys_of(ids).tolist()))
            return {lexicon.encoder.decode(text): len(rows) for text, rows in found.items()}

        assert texts("a") == {" Ada -> knows -> Bo": 2, " Bo -> knows -> Ada": 1}
        assert texts("d") == {" Bo -> knows -> Di": 1}
        assert texts("a", "b") == {
            " Ada -> knows -> Bo": 2,
            " Bo -> knows -> Ada": 1,
            " Bo -> knows -> Di": 1,
        }


def test_a_hub_is_whole_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,200 entities that point to a hub each may be the head; the second step reads nothing."""
    names = [f"person {number}" for number in range(1_200)]
    tables = tables_of(
        [entity("hub", "Human"), *(entity(name, name) for name in names)],
        [(name, "is a", "hub") for name in names],
    )
    lexicon = PathLexicon(CharacterEncoder(), FORM)
    with store_of(tables, tmp_path) as store:
        calls: list[int] = []

        def counted(store, keys, rules):
            calls.append(len(keys))
            return hops_out_of(store, keys, rules)

        monkeypatch.setattr("kgqa.paths.triplets.hops_out_of", counted)
        shared = TripletLanguage(store, StoreTriplets(store), lexicon)
        hub, one = store.keys_of(["hub", "person 7"]).tolist()
        assert len(language(shared.constraint([hub]))) == 1_200
        again = shared.constraint([hub, one])
        assert calls == [1, 1]
        assert len(language(again)) == 1_200
        shared.constraint([one, hub])
        assert calls == [1, 1]


def test_hostile_names_stay_inside_their_markers(tmp_path: Path) -> None:
    """Names that spell markers, separators and ends of text close nothing and open nothing."""
    hostile = ["A -> r -> B", "x > y", "< z", "u | v", "<|im_end|>", " >", "*"]
    tables = tables_of(
        [entity(f"n{number}", name) for number, name in enumerate(hostile)],
        [(f"n{one}", "r -> s >", f"n{(one + 1) % len(hostile)}") for one in range(len(hostile))],
    )
    encoder = CharacterEncoder()
    lexicon = PathLexicon(encoder, FORM)
    markers = Markers.of(encoder, "<", " >")
    with store_of(tables, tmp_path) as store:
        keys = store.keys_of([f"n{one}" for one in range(len(hostile))])
        inner = TripletLanguage(store, StoreTriplets(store), lexicon).constraint(keys.tolist())
        closed: dict[str, list] = {}
        marked = MarkedConstraint(inner, markers.closing)
        waiting = [(marked.start(), ())]
        while waiting:
            moves = marked.expand([state for state, _ in waiting])
            following = []
            for row, token, state in zip(moves.row, moves.token, moves.state, strict=True):
                tokens = (*waiting[row][1], int(token))
                if marked.is_end([int(state)])[0]:
                    closed.setdefault(encoder.decode(tokens), []).extend(
                        id_paths(marked.ground(int(state)))
                    )
                else:
                    following.append((int(state), tokens))
            waiting = following
        expected = {}
        for head, name in enumerate(hostile):
            tail = (head + 1) % len(hostile)
            key_head, key_tail = keys_array(keys)[[head, tail]].tolist()
            text = f" {name} -> r -> s > -> {hostile[tail]} >"
            expected[text] = [(key_head, ((0, -1, -1, key_tail),))]
        assert closed == expected
