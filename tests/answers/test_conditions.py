"""Conditions choose among what relation paths lead to, and each is an edge of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.answers import conditions as module
from kgqa.answers.conditions import Narrowed, narrow
from kgqa.graph.model import Kind
from kgqa.linking.linker import link
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, walk
from kgqa.understanding.literals import value_conditions
from tests.graph.tables import entity, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore

SHOPS = [
    ("mill", "1998-04-25", "12 t", "Bonn"),
    ("shop", "2014-02-20", "900 kg", "Kiel"),
    ("farm", "2014-11-01", "3 t", "Bonn"),
    ("yard", "1975", "4.5 t", "Kiel"),
]
ROLES = [("cast 1", "Ada", "Captain Gray", "1999"), ("cast 2", "Bo", "The Cook", "2001")]
EDGES = [("Acme", "owns", name) for name, *_ in SHOPS]
for name, opened, stock, city in SHOPS:
    EDGES += [(name, "opened", opened), (name, "stock", stock), (name, "city", city)]
for role, actor, character, year in ROLES:
    EDGES += [("Film", "starring", role), (role, "actor", actor)]
    EDGES += [(role, "character", character), (role, "year", year)]
KINDS = {one[0]: Kind.MEDIATOR for one in ROLES} | {"1999": Kind.VALUE, "2001": Kind.VALUE}
RULES = WalkRules(1, "both")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    names = sorted({end for head, _, tail in EDGES for end in (head, tail)})
    rows = [
        entity(name, None if name in KINDS else name, kind=KINDS.get(name, Kind.ENTITY))
        for name in names
        if KINDS.get(name) != Kind.VALUE
    ]
    rows += [entity(name, name, kind=Kind.VALUE) for name in names if KINDS.get(name) == Kind.VALUE]
    return store_of(tables_of(rows, EDGES, direction="both"), tmp_path_factory.mktemp("shops"))


def asked(store: SqliteStore, topic: str, relation: str, question: str, about: str) -> Narrowed:
    """What a question leaves of the tails of one relation; it is about values of ``about``."""
    table, _ = walk(store, store.keys_of([topic]), RULES)
    names = store.relations().names
    table = table.take(np.flatnonzero(table.hops[:, 0, 0] == 2 * names.index(relation)))
    if relation == "starring":
        actor = 2 * names.index("actor")
        table = table.take(np.flatnonzero(table.hops[:, 0, 2] == actor))
    scores = dict.fromkeys(table.ends().tolist(), 0.8)
    found = link(store, f"{question} Acme")
    named = [one for one in found if one.features.match > 0.8 and one.name not in (topic, "Acme")]
    return narrow(
        store, [table], [np.full(len(table), 0.8)], scores, RULES, PathFormat(), named,
        value_conditions(question),
        lambda _, steps: [0.9 if names[step[0] // 2] == about else 0.05 for step in steps],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("question", "about", "right"),
    [
        ("Which of x's shops are in Kiel?", "city", {"shop", "yard"}),
        ("Which of x's opened after 1998?", "opened", {"shop", "farm"}),
        ("Which of x's opened before 1998?", "opened", {"yard"}),
        ("Which of x's hold more than 3 t?", "stock", {"mill", "yard"}),
        ("the oldest of x's", "opened", {"yard"}),
        ("which of x's holds the least stock", "stock", {"shop"}),
        ("which of x's in Bonn is the newest", "opened", {"farm"}),
        ("which of x's opened in 2014", "opened", {"shop", "farm"}),
    ],
)
def test_tails_that_meet_it_stay(
    store: SqliteStore, question: str, about: str, right: set[str]
) -> None:
    found = asked(store, "Acme", "owns", question, about)
    keys = dict(zip(store.keys_of([one for one, *_ in SHOPS]).tolist(), SHOPS, strict=True))
    assert {keys[key][0] for key in found.conditions} == right
    best = max(found.scores.values())
    assert {keys[key][0] for key, score in found.scores.items() if score == best} == right
    assert set(found.scores) == set(keys), "the others are less likely, not gone"
    for key, met in found.conditions.items():
        for one in met:
            (edge,) = one.grounding.edges
            (fact,) = edge.facts
            assert fact.head == keys[key][0]
            assert (fact.head, fact.predicate, fact.tail) in EDGES


@pytest.mark.parametrize("question", ["who played Captain Gray in x?", "who acted in x in 1999"])
def test_a_qualifier_of_the_fact_chooses(store: SqliteStore, question: str) -> None:
    found = asked(
        store, "Film", "starring", question, "year" if "1999" in question else "character"
    )
    ((key, (one,)),) = found.conditions.items()
    assert store.entities(np.array([key])).ids == ["Ada"]
    (edge,) = one.grounding.edges
    assert (edge.head.id, [fact.head for fact in edge.facts]) == ("Film", ["Film", "cast 1"])
    assert edge.tail.name in question
    assert found.rows[0].tolist() == [0]


@pytest.mark.parametrize(
    ("question", "about", "left_out"),
    [
        ("Which of x's opened after 2020?", "opened", ["after 2020"]),
        ("Which of x's opened in 2020?", "opened", []),
        ("Which of x's opened after 1998?", "nothing", ["after 1998"]),
        ("Which of x's is the oldest?", "nothing", []),
        ("Which of x's has Mrs Nobody?", "city", []),
    ],
)
def test_what_no_tail_meets_changes_nothing(
    store: SqliteStore, question: str, about: str, left_out: list[str]
) -> None:
    found = asked(store, "Acme", "owns", question, about)
    assert set(found.scores.values()) == {0.8}
    assert (found.conditions, found.rows, found.left_out) == ({}, [], left_out)


def test_a_condition_that_is_not_in_the_store_is_not_met(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ground", lambda _store, table, _form: [None] * len(table))
    found = asked(store, "Acme", "owns", "the oldest of x's", "opened")
    assert found.conditions == {}
    assert set(found.scores.values()) == {0.8}
