"""A graph with faults keeps all but the edges it says, and every false edge is false."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.errors import UsageError
from kgqa.questions.graphs import own_tables
from scripts.benchmarks.noise import Change, edges_of, noisy_tables
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kgqa.graph.model import GraphTables
    from kgqa.graph.sqlite import SqliteStore

TRIPLES = [(f"e{head}", f"r{head % 3}", f"e{(head * 7 + 3) % 40}") for head in range(40)]
TRIPLES += [("e1", "only", "e2"), ("m.0x", "r1", "e3"), ("e4", "r0", "m.0x")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterable[SqliteStore]:
    with store_of(own_tables("kg", TRIPLES, []), tmp_path_factory.mktemp("kg")) as one:
        yield one


def triples(tables: GraphTables) -> set[tuple[int, ...]]:
    columns = (tables.edges.column(one).to_pylist() for one in ("head", "relation", "tail"))
    return set(zip(*columns, strict=True))


@settings(max_examples=40)
@given(
    change=st.sampled_from(["removed", "falsified"]),
    share=st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0]),
    seed=st.integers(0, 5),
)
def test_only_so_many_edges_change(
    store: SqliteStore, change: Change, share: float, seed: int
) -> None:
    true = set(map(tuple, edges_of(store, 41).tolist()))
    assert len(true) == len(set(TRIPLES))
    tables = noisy_tables(store, change, share, seed)
    found = triples(tables)
    wanted = round(share * len(true))
    if change == "removed":
        assert found < true or share == 0.0
        assert len(found) == len(true) - wanted
    else:
        assert len(found) == len(true)  # a false edge never falls together with another
        false = found - true
        assert len(false) <= wanted
        assert len(false) >= 0.8 * wanted  # few have no false tail
        tails: dict[int, set[int]] = {}
        for _, relation, tail in true:
            tails.setdefault(relation, set()).add(tail)
        assert all(tail in tails[relation] and tail != head for head, relation, tail in false)
    assert tables.info.edges == len(found)
    assert tables.nodes.column("id").to_pylist() == store.entities(np.arange(len(tables.nodes))).ids
    assert noisy_tables(store, change, share, seed).edges == tables.edges


@pytest.mark.parametrize("change", ["removed", "falsified"])
def test_a_larger_share_changes_the_same_edges_and_more(store: SqliteStore, change: Change) -> None:
    true = set(map(tuple, edges_of(store, 41).tolist()))
    less, more = (true - triples(noisy_tables(store, change, share)) for share in (0.2, 0.5))
    assert len(less) < len(more)
    if change == "removed":
        assert less < more


def test_it_is_a_graph_of_its_own(store: SqliteStore, tmp_path: Path) -> None:
    tables = noisy_tables(store, "removed", 0.2, 1)
    assert tables.info.name == "kg-removed-20"
    assert "9 of 43 edges removed (seed 1)" in tables.info.source
    others = [noisy_tables(store, "removed", 0.2, 2), noisy_tables(store, "falsified", 0.2, 1)]
    versions = {store.info.version, tables.info.version, *(one.info.version for one in others)}
    assert len(versions) == 4  # so that no index of one serves another
    with store_of(tables, tmp_path) as changed:
        assert changed.info.mediators == store.info.mediators == 1
        assert changed.relations() == store.relations()
        assert set(map(tuple, edges_of(changed, 41).tolist())) == triples(tables)


def test_what_cannot_be_meant(store: SqliteStore) -> None:
    with pytest.raises(UsageError, match="from 0 to 1, not 20"):
        noisy_tables(store, "removed", 20)
    with pytest.raises(UsageError, match="'doubled'"):
        noisy_tables(store, "doubled", 0.2)  # type: ignore[arg-type]
