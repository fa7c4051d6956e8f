"""What every attached database must do: one suite, put under a Neo4j and under SPARQL endpoints.

Keys and stored ids differ between them, so the suite speaks of names. A test module derives from
``AttachedConformance`` and gives a fixture ``attached``: an open store over the graph
of this module, which ``TURTLE`` and ``CYPHER`` write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import EntityNotFoundError
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.sparql_client import literal
from kgqa.graph.store import GraphStore, LiveStore
from kgqa.lexicon.tokens import last_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from kgqa.graph.store import LiveStore as Store

MARK = "KgqaTest"
EXTRAS = 40  # who appear in the film
HOSTILE = [
    'a"b', "a\\b", "a'b", "}", "{", ">", "<x>", '"} ; DROP ALL #', "SELECT * WHERE {?s ?p ?o}",
    "\\u0022", '"""', "''' }", "a\\", '\\"', "?x", "$x", "# c", "a;b", "é", "😀", "%22", "&amp;",
    "BIND(1 AS ?n)", ")", "(", "^^<x>", "@en", "a@en", "[]", "_:b", "<", "{}", "||", "!", "`",
    "UNION", "`) DETACH DELETE n //", "' OR 1=1 --", "a\nb", "a\tb",
]  # fmt: skip
X = "http://x.org/"
TURTLE = (
    f"@prefix : <{X}> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    ':film a :Film ; rdfs:label "Apollo 13" ; :year 1995 ; :released "1995-06-30"^^xsd:date .\n'
    ':ron a :Person ; rdfs:label "Ron Howard" ; :born 1954 ; :directed :film .\n'
    ':tom a :Person ; rdfs:label "Tom Hanks" ; :born 1956 ; :played :film ; :knows :ron, :tom .\n'
    + "".join(
        f':e{n} a :Extra ; rdfs:label "Extra {n}" ; :appeared :film .\n' for n in range(EXTRAS)
    )
    + "".join(
        f":h{n} a :Hostile ; rdfs:label {literal(text)} ; :likes :film ; "
        f":note {literal(text, 'en' if n % 2 else None)} .\n"
        for n, text in enumerate(HOSTILE)
    )
)
CYPHER = f"""
CREATE (film:{MARK}:Film {{name: 'Apollo 13', year: 1995, released: date('1995-06-30')}}),
  (ron:{MARK}:Person {{name: 'Ron Howard', born: 1954}}),
  (tom:{MARK}:Person {{name: 'Tom Hanks', born: 1956}}),
  (ron)-[:directed]->(film), (tom)-[:played]->(film), (tom)-[:knows]->(ron), (tom)-[:knows]->(tom)
WITH film UNWIND range(0, {EXTRAS - 1}) AS n
CREATE (:{MARK}:Extra {{name: 'Extra ' + n}})-[:appeared]->(film)
WITH DISTINCT film UNWIND $hostile AS text
CREATE (:{MARK}:Hostile {{name: text, note: text}})-[:likes]->(film)
"""
OF_FILM = {
    ("year", "1995"), ("released", "1995-06-30"), ("^directed", "Ron Howard"),
    ("^played", "Tom Hanks"), *(("^appeared", f"Extra {n}") for n in range(EXTRAS)),
    *(("^likes", text) for text in HOSTILE),
}  # fmt: skip
OF_TOM = {
    ("born", "1956"), ("played", "Apollo 13"), ("knows", "Ron Howard"), ("knows", "Tom Hanks"),
    ("^knows", "Tom Hanks"),
}  # fmt: skip


def key_of(store: Store, name: str) -> Any:
    """The key of the one entity with a name, as a frontier."""
    assert isinstance(store, GraphStore)
    _, keys = store.find_names([name])
    named = store.entities(keys)
    (key,) = {k for k, one in zip(keys.tolist(), named.names, strict=True) if one == name}
    return keys_array([key])


def edges(store: Any, keys: Any, direction: str = "both") -> set[tuple[str, str]]:
    """What walks see: relation, against its direction with ^, and the name of the other end."""
    near = store.neighbours(keys, direction)
    relations, ends = store.relations().names, store.entities(near.target)
    return {
        ("^" * (step % 2) + relations[step // 2], name)
        for step, name in zip(near.step.tolist(), ends.names, strict=True)
        if relations[step // 2] != "type"  # a class is a node of RDF, and a label of Neo4j
    }


class AttachedConformance:
    """The suite. Derive, and give the fixture ``attached``."""

    bounds: tuple[str, ...] = ()  # names of what bounds how much one query asks for
    no_version: int = 0  # 1 where each answer says that its database has none
    by_iri: int = 0  # nodes without a label, which are called by the last parts of their IRIs

    @pytest.fixture
    def forget(self) -> Callable[[Any], None]:
        """What makes a store read again what it keeps between questions; nothing by default."""
        return lambda _: None

    def test_it_is_a_live_property_graph(self, attached: Any) -> None:
        assert isinstance(attached, GraphStore)
        assert isinstance(attached, LiveStore)
        assert isinstance(attached, PropertyGraph)
        assert "@" not in attached.url
        assert len(attached.remarks()) == self.no_version
        assert not attached.has_moved()

    def test_names_are_found_in_any_case_and_by_their_beginning(self, attached: Any) -> None:
        positions, keys = attached.find_names(["APOLLO 13", "nobody", "tom hanks", ""])
        assert positions.tolist() == [0, 2]
        assert attached.entities(keys).names == ["Apollo 13", "Tom Hanks"]
        assert attached.entities(keys).kinds.tolist() == [Kind.ENTITY, Kind.ENTITY]
        assert attached.entities(attached.suggest("howard")).names == ["Ron Howard"]
        found = attached.suggest("apol", 3, prefix=True)
        assert attached.entities(found).names == ["Apollo 13"]

    def test_edges_in_each_direction(self, attached: Any) -> None:
        film, tom = (key_of(attached, name) for name in ("Apollo 13", "Tom Hanks"))
        for key, expected in ((film, OF_FILM), (tom, OF_TOM)):
            assert edges(attached, key) == expected
            for direction, against in (("out", False), ("in", True)):
                kept = {edge for edge in expected if edge[0].startswith("^") == against}
                assert edges(attached, key, direction) == kept

    def test_a_frontier_beyond_one_query(
        self, attached: Any, forget: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = attached.topic_keys()
        assert len(keys) == 3 + EXTRAS + len(HOSTILE) + self.by_iri
        expected = attached.neighbours(keys, "both")
        for name in self.bounds:
            monkeypatch.setattr(name, 7)
        forget(attached)
        got = attached.neighbours(keys, "both")
        for column in ("row", "step", "target", "kind"):
            assert getattr(got, column).tolist() == getattr(expected, column).tolist()
        assert attached.neighbours(keys_array([]), "both").row.tolist() == []

    def test_the_very_triple_is_looked_up(self, attached: Any) -> None:
        film = key_of(attached, "Apollo 13")
        near = attached.neighbours(film, "both")
        ends = np.repeat(film, len(near)), near.target
        heads, tails = (np.where(near.step % 2 == side, *ends) for side in (0, 1))
        relations = near.step // 2
        assert attached.has_edges(heads, relations, tails).all()
        assert not attached.has_edges(tails, relations, heads).any()
        other = (relations + 1) % len(attached.relations())
        assert not attached.has_edges(heads, other, tails).any()

    def test_degrees_are_the_edges_with_a_loop_once(self, attached: Any) -> None:
        keys = np.concatenate([key_of(attached, name) for name in ("Ron Howard", "Tom Hanks")])
        rows = attached.neighbours(keys, "both").row.tolist()
        assert attached.degrees(keys).tolist() == [rows.count(0), rows.count(1) - 1]

    def test_a_value_leads_back(self, attached: Any) -> None:
        film = key_of(attached, "Apollo 13")
        near = attached.neighbours(film, "out")
        values = near.target[near.kind == Kind.VALUE]
        assert sorted(attached.entities(values).names) == ["1995", "1995-06-30"]
        back = attached.neighbours(values, "in")
        assert set(attached.entities(back.target).names) == {"Apollo 13"}
        assert attached.keys_of(attached.entities(values).ids).tolist() == values.tolist()

    def test_the_survey(self, attached: Any) -> None:
        schema = attached.schema()
        types = {last_part(type_.name): type_ for type_ in schema.types}
        counts = {"Film": 1, "Person": 2, "Extra": EXTRAS, "Hostile": len(HOSTILE)}
        assert {name: types[name].count for name in counts} == counts
        film = {last_part(property_.name): property_.type for property_ in types["Film"].properties}
        assert (film["year"], film["released"]) == ("integer", "date")
        patterns = {tuple(map(last_part, (r.head, r.relation, r.tail))) for r in schema.relations}
        assert {("Person", "directed", "Film"), ("Extra", "appeared", "Film")} <= patterns
        people = attached.instances(types["Person"].name)
        assert sorted(attached.entities(people).names) == ["Ron Howard", "Tom Hanks"]
        (born,) = (p.name for p in types["Person"].properties if last_part(p.name) == "born")
        assert sorted(attached.property_values(people, born)[1]) == [1954, 1956]
        knows = attached.relations().names.index("knows")
        assert len(attached.facts(people, [knows], inverse=False).row) == 2
        assert len(attached.facts(people, [knows], inverse=True).row) == 2

    def test_details(self, attached: Any) -> None:
        details = attached.details(int(key_of(attached, "Apollo 13")[0]))
        assert {"Film"} <= set(map(last_part, details.types))
        held = {last_part(name): value for name, value in details.properties.items()}
        assert (held["year"], held["released"]) == (1995, "1995-06-30")

    def test_unknown_ids_and_keys(self, attached: Any) -> None:
        unknown = [*HOSTILE, "", "http://x.org/nobody", "\udc80", "a\x00b", '"never"',
                   '"never"^^xsd:integer', '"never"^^xsd:boolean']  # fmt: skip
        assert attached.keys_of(unknown).tolist() == [-1] * len(unknown)
        free = 987_654_321  # a small one may be a node's, where others have filled the server
        for look_up in (attached.entities, lambda keys: attached.details(int(keys[0]))):
            with pytest.raises(EntityNotFoundError, match=str(free)):
                look_up(keys_array([free]))

    def test_a_hostile_name_is_a_name(self, attached: Any) -> None:
        (hostile,) = (
            type_ for type_ in attached.schema().types if last_part(type_.name) == "Hostile"
        )
        keys = attached.instances(hostile.name)
        assert sorted(attached.entities(keys).names) == sorted(HOSTILE)
        near = attached.neighbours(keys, "out")
        heads = keys[near.row]
        assert attached.has_edges(heads, near.step // 2, near.target).all()
        values = near.target[near.kind == Kind.VALUE]
        assert sorted(attached.entities(values).names) == sorted(HOSTILE)
        assert attached.keys_of(attached.entities(values).ids).tolist() == values.tolist()
        attached.find_names(HOSTILE)
        for text in HOSTILE:
            attached.suggest(text)

    def test_nothing_was_written(self, attached: Any) -> None:
        state, info = attached.schema_version, attached.info
        attached.refresh()
        assert not attached.has_moved()
        assert (attached.schema_version, attached.info.edges) == (state, info.edges)
