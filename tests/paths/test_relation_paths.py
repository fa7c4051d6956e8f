"""Relation paths: a hub's are found by a sample, and its likely ones are walked whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.graph.model import Kind
from kgqa.paths import relation_paths as module
from kgqa.paths.relation_paths import opened, relation_paths
from kgqa.paths.walk import WalkRules
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from kgqa.graph.model import Direction
    from kgqa.paths.relation_paths import RelationPaths

ENTITIES = [*"abcdefg", "v", "m"]
EDGES = st.lists(
    st.tuples(st.sampled_from("abcdefgm"), st.sampled_from("rst"), st.sampled_from(ENTITIES)),
    min_size=1,
    max_size=25,
    unique=True,
)


def rows_of(paths: RelationPaths) -> set[tuple[int, ...]]:
    """All paths, each with its relation path's number of steps."""
    return {
        (len(paths.steps[of]), *hops.reshape(-1)[: 4 * len(paths.steps[of])].tolist())
        for of, hops in zip(paths.of.tolist(), paths.table.hops, strict=True)
    }


@settings(max_examples=40)
@given(edges=EDGES, direction=st.sampled_from(["out", "both"]))
def test_a_hub_opened_whole_is_the_whole_walk(
    edges: list[tuple[str, str, str]],
    direction: Direction,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    kinds = {"v": Kind.VALUE, "m": Kind.MEDIATOR}
    nodes = [entity(one, one, kind=kinds.get(one, Kind.ENTITY)) for one in ENTITIES]
    tables = tables_of(nodes, edges, direction=direction)
    rules = WalkRules(2, direction)
    with store_of(tables, tmp_path_factory.mktemp("hub")) as store:
        topic = int(store.keys_of(["a"])[0])
        whole, _ = relation_paths(store, topic, rules)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MOST_PATHS", 0)
            hub, hops = relation_paths(store, topic, rules)
        assert hops == 2
        assert set(hub.steps) == set(whole.steps)
        assert hub.closed == {at for at, steps in enumerate(hub.steps) if len(steps) > 1}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_TOGETHER", 3)  # in several parts
            every = opened(store, hub, np.ones(len(hub.steps)), rules)
        assert rows_of(every) == rows_of(whole)
        assert not every.closed


def test_what_is_likely_and_beyond_the_budget_stays_closed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PATHS", 0)
    monkeypatch.setattr(module, "_MOST_READ", 0)
    tables = tables_of(
        [entity(one, one) for one in "abcd"], [("a", "r", "b"), ("b", "r", "c"), ("b", "s", "d")]
    )
    with store_of(tables, tmp_path_factory.mktemp("hub")) as store:
        rules = WalkRules(2, "out")
        hub, _ = relation_paths(store, 0, rules)
        probability = np.array([0.0 if len(steps) == 1 else 1e-9 for steps in hub.steps])
        likely = max(hub.closed)
        probability[likely] = 1.0
        left = opened(store, hub, probability, rules)
        assert left.closed == {likely}
        assert rows_of(left) == rows_of(hub), "nothing of it was read"
