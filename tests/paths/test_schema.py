"""What relations lead to, and what an entity of some kind usually has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.model import keys_array
from kgqa.graph.sqlite import SqliteStore
from kgqa.paths import schema as module
from kgqa.paths.schema import Schema
from kgqa.paths.walk import FIRST, SECOND, WalkRules, hops_out_of
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kgqa.graph.store import GraphStore

RULES = WalkRules(2, "both")


def company(folder: Path) -> GraphStore:
    """Ten services with a team each; all but the last have a person on call."""
    services = [f"service {n}" for n in range(10)]
    nodes = [*services, "team a", "team b", "Ada", "Bo"]
    edges = [(one, "owned by", "team a" if n % 2 else "team b") for n, one in enumerate(services)]
    edges += [(one, "on call", "Ada" if n % 2 else "Bo") for n, one in enumerate(services[:9])]
    edges += [("Ada", "member of", "team a"), ("Bo", "member of", "team b")]
    return store_of(
        tables_of([entity(node, node) for node in nodes], edges, direction="both"), folder
    )


def own_hops(store: GraphStore, id_: str) -> list[tuple[int, int]]:
    hops = hops_out_of(store, store.keys_of([id_]), RULES).hop
    return [(first, second) for first, second in hops[:, (FIRST, SECOND)].tolist()]


def test_a_relation_that_others_of_its_kind_have_is_missing(tmp_path: Path) -> None:
    with company(tmp_path) as store:
        schema = Schema(store, RULES)
        names = store.relations().names
        missing = schema.missing(own_hops(store, "service 9"))
        assert [names[first // 2] for first, _ in missing] == ["on call"]
        assert schema.missing(own_hops(store, "service 1")) == []
        assert schema.missing(own_hops(store, "team a")) == []


@given(
    kinds=st.dictionaries(
        st.frozensets(st.tuples(st.integers(0, 5), st.just(-1)), min_size=1),
        st.integers(1, 9),
        max_size=8,
    ),
    own=st.lists(st.tuples(st.integers(0, 6), st.just(-1))),
)
def test_missing_are_the_usual_hops_of_those_that_share_most(
    kinds: dict[frozenset[tuple[int, int]], int], own: list[tuple[int, int]]
) -> None:
    schema = Schema.__new__(Schema)
    schema._kinds = Counter(kinds)
    mine = frozenset(own)
    like = {k: n for k, n in kinds.items() if len(k & mine) >= module._LIKE * len(k | mine)}
    having: Counter[tuple[int, int]] = Counter()
    for kind, count in like.items():
        having.update(dict.fromkeys(kind - mine, count))
    usual = module._USUAL * sum(like.values())
    assert schema.missing(own) == sorted(hop for hop, n in having.items() if n >= usual)
    for hop in ((at, -1) for at in range(7)):
        both = any({hop, (hop[0] ^ 1, -1)} <= kind for kind in kinds)
        assert schema.both_ways(hop) == both


def test_common_hops_are_those_that_most_entities_have(tmp_path: Path) -> None:
    with company(tmp_path) as store:
        schema = Schema(store, RULES)
        number = {name: at for at, name in enumerate(store.relations().names)}
        first = [(2 * number["owned by"], -1), (2 * number["on call"], -1)]
        assert schema.common(2) == first
        assert sorted(schema.common(99)) == schema.hops()


def test_examples_are_what_a_relation_leads_to(tmp_path: Path) -> None:
    with company(tmp_path) as store:
        schema = Schema(store, RULES)
        number = {name: at for at, name in enumerate(store.relations().names)}
        assert set(schema.examples((2 * number["on call"], -1))) == {"Ada", "Bo"}
        back = schema.examples((2 * number["on call"] + 1, -1))
        assert len(back) == 2
        assert all(one.startswith("service") for one in back)
        assert schema.examples((98, -1)) == ()


def test_a_sample_is_taken_once_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with company(tmp_path) as made:
        assert isinstance(made, SqliteStore)
        first, path = Schema(made, RULES), made.path
    asked: list[str] = []
    query = SqliteStore.query

    def counted(self: SqliteStore, text: str, *more: Any) -> list[Any]:
        asked.append(text)
        return query(self, text, *more)

    monkeypatch.setattr(SqliteStore, "query", counted)
    with SqliteStore(path) as store:
        asked.clear()
        again = Schema(store, RULES)
        assert asked == []
        assert again._to_json() == first._to_json()
        assert again.hops() == first.hops()
        assert all(again.examples(hop) == first.examples(hop) for hop in first.hops())
        Schema(store, WalkRules(2, "out"))
        assert asked, "other walks have another sample"
        asked.clear()
        store.info = replace(store.info, version="next")
        Schema(store, RULES)
        assert asked


def test_a_large_kg_is_sampled_at_places_all_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SAMPLE", 8)
    monkeypatch.setattr(module, "_BLOCKS", 4)
    monkeypatch.setattr(module, "_TOGETHER", 2)
    with company(tmp_path) as store:
        taken = [keys.tolist() for keys in module._sampled(store)]
        every = [key for keys in taken for key in keys]
        assert len(every) == len(set(every)) == 8
        assert max(every) > store.info.nodes // 2
        monkeypatch.setattr(module, "_MOST_EDGES", 4)
        kept = [key for keys in module._sampled(store) for key in keys.tolist()]
        assert all(store.degrees(keys_array([key]))[0] <= 4 for key in kept)
