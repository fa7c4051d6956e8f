from __future__ import annotations

from typing import TYPE_CHECKING

from kgqa.graph.model import keys_array
from kgqa.linking.lookup import find_hits
from kgqa.linking.mentions import QuestionWords
from kgqa.linking.neighbourhood_features import look_around, stems_of, stems_outside

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.linking.neighbourhood_features import NeighbourhoodFeatures


def around(
    store: SqliteStore, question: str, *, degree: int | None = None
) -> NeighbourhoodFeatures:
    asked = QuestionWords(question)
    hits = find_hits(store, asked, asked.mentions())
    keys = sorted({key for key, _ in hits})
    found = store.degrees(keys_array(keys)).tolist()
    degrees = {key: degree or own for key, own in zip(keys, found, strict=True)}
    return look_around(store, asked, hits, degrees, keys)


def test_words_of_one_stem_are_one_and_so_are_synonyms() -> None:
    assert stems_of("directed director directing") == stems_of("direct")
    assert stems_of("movie") == stems_of("films")
    assert stems_of("the of a") == frozenset()


def test_words_of_the_mention_do_not_count() -> None:
    question = "who directed film"
    found = stems_outside(QuestionWords(question), [(13, 17)])
    assert found[13, 17] == stems_of("directed")


def test_relations_of_candidates_are_read(store: SqliteStore) -> None:
    (key,) = store.keys_of(["m.lotr"]).tolist()
    found = around(store, "which country is the lord of the rings from")
    assert found.stems[key] == stems_of("film country")


def test_what_follows_a_name_and_is_its_neighbour_counts_most(store: SqliteStore) -> None:
    ny, oh = store.keys_of(["m.utica_ny", "m.utica_oh"]).tolist()
    found = around(store, "who runs utica, ohio")
    assert found.beside[oh, 9] == 1.0
    assert 0.0 < found.beside[ny, 9] < 1.0
    assert around(store, "who runs utica in ohio").beside == {}


def test_hubs_are_not_read(store: SqliteStore) -> None:
    found = around(store, "who runs utica, ohio", degree=10**6)
    assert found.stems == {}
    assert set(found.beside.values()) == {0.3}
