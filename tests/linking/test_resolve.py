from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import EntityNotFoundError
from kgqa.linking.resolve import resolve_entities, resolve_entity

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore


@pytest.mark.parametrize(
    "text",
    [
        "m.paris",
        "/m/paris",
        "ns:m.paris",
        "http://rdf.freebase.com/ns/m.paris",
        "<http://rdf.freebase.com/ns/m.paris>",
        " m.paris ",
    ],
)
def test_an_id_is_taken_in_any_usual_spelling(store: SqliteStore, text: str) -> None:
    found = resolve_entity(store, text)
    assert (found.id, found.name, found.by, found.others) == ("m.paris", "Paris", "id", [])
    assert store.keys_of(["m.paris"]).tolist() == [found.key]


def test_a_mediator_is_found_by_id_and_shown_by_it(store: SqliteStore) -> None:
    found = resolve_entity(store, "m.office_1")
    assert (found.id, found.name) == ("m.office_1", "m.office_1")


@pytest.mark.parametrize("text", ["Paris", "paris", " PARIS ", "“Paris”"])
def test_ambiguous_name_takes_the_best_connected_and_lists_the_others(
    store: SqliteStore, text: str
) -> None:
    found = resolve_entity(store, text)
    assert (found.id, found.by) == ("m.paris", "name")
    assert [(other.id, other.name, other.degree) for other in found.others] == [
        ("m.paris_tx", "Paris", 1)
    ]


def test_alias_is_taken(store: SqliteStore) -> None:
    found = resolve_entity(store, "city of light")
    assert (found.id, found.by) == ("m.paris", "alias")


def test_much_better_connected_alias_beats_a_name_and_the_name_is_listed(
    store: SqliteStore,
) -> None:
    found = resolve_entity(store, "mercury")
    assert (found.id, found.by) == ("m.freddie", "alias")
    assert [other.id for other in found.others] == ["m.mercury"]


@pytest.mark.parametrize("text", ["Parris", "m.nothing", "Hilton", "🦆", "'; DROP TABLE entity --"])
def test_unknown_entity_is_named_with_what_to_do(store: SqliteStore, text: str) -> None:
    with pytest.raises(EntityNotFoundError) as caught:
        resolve_entity(store, text)
    assert text in caught.value.message
    assert "kgqa link" in caught.value.hint


def test_nearest_names_are_shown_with_their_ids(store: SqliteStore) -> None:
    with pytest.raises(EntityNotFoundError) as caught:
        resolve_entity(store, "Hilton")
    assert '"Paris Hilton" (m.hilton)' in caught.value.hint


def test_long_text_is_shown_short(store: SqliteStore) -> None:
    with pytest.raises(EntityNotFoundError) as caught:
        resolve_entity(store, "x\n" * 5000)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_broken_characters_do_not_reach_the_error(store: SqliteStore) -> None:
    with pytest.raises(EntityNotFoundError) as caught:
        resolve_entity(store, "\udcff\x00x")
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_entity_is_refused(store: SqliteStore, text: str) -> None:
    with pytest.raises(EntityNotFoundError, match="empty"):
        resolve_entity(store, text)


def test_several_entities_keep_their_order_and_come_once(store: SqliteStore) -> None:
    found = resolve_entities(store, ["Ohio", "m.paris", "Paris", "ohio"])
    assert [entity.id for entity in found] == ["m.ohio", "m.paris"]
