"""Two topic entities mean what both lead to, whatever method answers and however it scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.answers.expand import MOST_ASKED, lacking
from kgqa.paths.walk import WalkRules
from tests.graph.tables import entity, tables_of
from tests.methods.given import about, answered, kg_cot
from tests.methods.reasoners import encoder_folder, random_reasoner, tiny_encoder
from tests.trie.language import store_of

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.sentence_encoder import SentenceEncoder

EDGES = [
    ("shop", "sold by", "Ada"), ("shop", "owner", "Bo"), ("mill", "sold by", "Ada"),
    ("Ada", "born in", "Kiel"), ("farm", "owner", "Bo"), ("Cy", "born in", "Ulm"),
]  # fmt: skip
NAMES = sorted({end for head, _, tail in EDGES for end in (head, tail)})
RULES = WalkRules(1, "both")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    tables = tables_of([entity(one, one) for one in NAMES], EDGES, direction="both")
    return store_of(tables, tmp_path_factory.mktemp("shops"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    return tiny_encoder(encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


def lacks(store: SqliteStore, topics: list[str], entities: list[str]) -> list[int]:
    asked = about(store, *topics).topics
    return lacking(store, asked, store.keys_of(entities), RULES).tolist()


def test_what_a_topic_entity_does_not_lead_to_is_lacking(store: SqliteStore) -> None:
    assert lacks(store, ["Ada", "Bo"], ["farm", "shop", "mill", "unknown"]) == [1, 0, 1, 2]
    assert lacks(store, ["Ada"], ["farm", "shop"]) == [0, 0]
    assert lacks(store, ["Ada", "Cy"], ["shop", "Ulm"]) == [0, 0], "nothing in common: as it was"
    assert lacks(store, ["Ada", "Bo"], []) == []


def test_the_likeliest_are_looked_at(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgqa.answers.expand.MOST_ASKED", 2)
    assert lacks(store, ["Ada", "Bo"], ["farm", "shop", "shop"]) == [1, 0, 1]
    assert MOST_ASKED > 2


@pytest.mark.parametrize("seed", range(3))
def test_what_both_lead_to_comes_first_and_nothing_is_lost(
    store: SqliteStore, encoder: SentenceEncoder, seed: int
) -> None:
    reasoner = random_reasoner(store, RULES, encoder, seed=seed)
    method = kg_cot(reasoner, k=10)
    question = ("Which?", "Who owns it?", "Where is what was sold?")[seed]
    both = answered(store, method, about(store, "Ada", "Bo", question=question))
    every = [*both.answers, *both.others]
    assert every[0].id == "shop"
    assert {"farm", "mill", "Kiel"} <= {one.id for one in every}
    scores = np.array([one.score for one in every])
    assert (np.diff(scores) <= 1e-9).all()
    apart = answered(store, method, about(store, "Ada", "Cy", question=question))
    assert {"shop", "Ulm"} <= {ranked.id for ranked in (*apart.answers, *apart.others)}
