"""Attached Neo4j databases: as they are, live, and only ever read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tomllib
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kgqa import cypher
from kgqa.cypher.attached import attached, quoted
from kgqa.errors import GraphError, KgqaError, PlanError, StoreUnavailableError, UsageError
from kgqa.graph import attached_reader
from kgqa.graph.attached import (
    FILE_NAME,
    RECORD_NAME,
    Attachment,
    Called,
    Mediators,
    Naming,
    Words,
    as_toml,
    new_survey,
    read_attachment,
)
from kgqa.graph.attached_attach import Taken, attach, described
from kgqa.graph.attached_store import AttachedStore, is_due
from kgqa.graph.browser import browser_url
from kgqa.graph.model import Kind, keys_array
from kgqa.graph.neo4j import Neo4jConnection
from kgqa.graph.open import list_kgs, open_store, open_writer
from kgqa.graph.schema import PropertyGraph
from kgqa.graph.store import GraphStore
from kgqa.progress import Silent
from kgqa.queries.cypher import cypher_of
from kgqa.queries.execute import run_plan
from kgqa.queries.plan import quoted_name, quoted_value
from kgqa.queries.text import parse_plan
from tests.graph.attached_conformance import CYPHER, HOSTILE, AttachedConformance
from tests.graph.neo4j_server import ask
from tests.graph.tables import HOSTILE_CYPHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.graph.neo4j_server import Neo4jServer

MARK = "KgqaTest"  # nodes of these tests bear it, so that they are found again
neo4j_test = pytest.mark.neo4j


class Reader(Neo4jConnection):
    """A connection that can only be read from: kgqa's way to a session that writes is shut."""

    def session(self) -> Any:
        raise AssertionError("a session that writes was asked for")


class LeastReader(Reader):
    """What an account of Enterprise that may read, and list neither indexes nor constraints, sees.

    Community has no such accounts.
    """

    def read_marked(self, statement: str, *args: Any, **more: Any) -> Any:
        if "SHOW " in statement:
            raise GraphError("Permission has not been granted for user 'reader'.")
        return super().read_marked(statement, *args, **more)


def run(server: Neo4jServer, text: str, **parameters: Any) -> list[dict[str, Any]]:
    with server.connect() as connection:
        return ask(connection, text, **parameters)


def connect(server: Neo4jServer) -> Reader:
    return Reader(server.uri, server.username, server.password)


FILMS = f"""
CREATE (tom:{MARK}:Actor {{name: 'Tom Hanks', born: 1956, nickname: ['Tommy']}}),
  (film:{MARK}:Film {{uid: 2, title: 'Apollo 13', year: 1995, released: date('1995-06-30'),
    rating: 7.7, plot: $long, tags: ['space', 'NASA'], note: 'NULL'}}),
  (ron:{MARK}:Actor:Director {{name: 'Ron Howard', born: 1954}}),
  (lone:{MARK} {{name: 'no label but the mark'}}),
  (shot:{MARK}:Shot {{number: 12, `odd ``name`: 1}})
CREATE (ron)-[:DIRECTED]->(film), (tom)-[:PLAYED {{role: 'Jim Lovell', scenes: 40}}]->(film),
  (tom)-[:PLAYED {{role: 'Narrator'}}]->(film), (tom)-[:KNOWS]->(ron), (ron)-[:KNOWS]->(lone),
  (tom)-[:KNOWS]->(tom), (film)-[:`HAS ``SHOT`]->(shot), (tom)-[:LIVES]->(:{MARK}Place)
"""
TAKEN = Taken(only=[MARK])


def clean(server: Neo4jServer) -> None:
    run(server, f"MATCH (n:{MARK}|{MARK}Place) DETACH DELETE n")
    for row in run(server, "SHOW CONSTRAINTS YIELD name WHERE name STARTS WITH 'test '"):
        run(server, f"DROP CONSTRAINT {quoted(row['name'])}")
    for row in run(server, "SHOW INDEXES YIELD name WHERE name STARTS WITH 'test '"):
        run(server, f"DROP INDEX {quoted(row['name'])}")


@contextmanager
def filled(server: Neo4jServer, text: str, **parameters: Any) -> Iterator[Neo4jServer]:
    clean(server)
    run(server, text, **parameters)
    yield server
    clean(server)


@pytest.fixture
def films(neo4j_server: Neo4jServer) -> Iterator[Neo4jServer]:
    """A small graph that somebody else wrote."""
    with filled(neo4j_server, FILMS, long="x" * 5000):
        yield neo4j_server


class OneGraph:
    """Tests that change nothing, of which a class has the films once."""

    @pytest.fixture(scope="class")
    @classmethod
    def films(cls, neo4j_server: Neo4jServer) -> Iterator[Neo4jServer]:
        with filled(neo4j_server, FILMS, long="x" * 5000):
            yield neo4j_server

    @pytest.fixture(scope="class")
    @classmethod
    def store(
        cls, films: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[AttachedStore]:
        with opened(films, tmp_path_factory.mktemp("films")) as store:
            yield store


@contextmanager
def opened(server: Neo4jServer, home: Path, taken: Taken = TAKEN) -> Iterator[AttachedStore]:
    with connect(server) as connection:
        attach(connection, home, "films", taken, Silent())
        with AttachedStore(connection, home / "films") as store:
            yield store


def edges(store: AttachedStore, *ids: str) -> set[tuple[str, str, str]]:
    """What walks see at entities: name or "fact" of the entity, relation, name or "fact"."""
    keys = store.keys_of(ids)
    assert (keys >= 0).all(), ids
    near = store.neighbours(keys, "both")
    ends = store.entities(near.target)
    names = store.relations().ids
    rows = store.entities(keys)
    return {
        (rows.names[row] or "fact", "^" * (step % 2) + names[step // 2], name or "fact")
        for row, step, name in zip(near.row.tolist(), near.step.tolist(), ends.names, strict=True)
    }


def use(store: AttachedStore) -> None:
    """Ask for everything that a store can be asked for."""
    keys = store.topic_keys()
    store.entities(keys)
    near = store.neighbours(keys, "out")
    assert store.has_edges(keys[near.row], near.step >> 1, near.target).all()
    facts = np.unique(near.target[near.kind == Kind.MEDIATOR])
    store.neighbours(facts, "both")
    for key in keys.tolist():
        store.details(key)
    store.find_names(["Tom Hanks"])
    store.suggest("apollo")
    store.degrees(near.target)
    store.keys_of([*store.entities(near.target).ids, "Film:2", "nothing"])
    for type_ in store.schema().types:
        store.property_values(store.instances(type_.name), "name")
    store.facts(keys, range(len(store.relations())), inverse=True)
    store.refresh()


@neo4j_test
class TestSuite(AttachedConformance):
    """What every attached database must do."""

    @pytest.fixture(scope="class")
    @classmethod
    def attached(
        cls, neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[AttachedStore]:
        with (
            filled(neo4j_server, CYPHER, hostile=HOSTILE),
            opened(neo4j_server, tmp_path_factory.mktemp("attached")) as store,
        ):
            yield store


@neo4j_test
class TestAsItIs(OneGraph):
    """Labels, names, properties and relationships as they lie there."""

    def test_ids_and_names_by_label(self, store: AttachedStore) -> None:
        ids = ["Film:2", "Shot:12"]
        found = store.entities(store.keys_of(ids))
        assert (found.ids, found.names) == (ids, ["Apollo 13", "Shot 12"])
        names = ["tom HANKS", "Tommy", "Ron Howard", "no label but the mark", "Shot 12"]
        positions, keys = store.find_names(names)
        assert positions.tolist() == [0, 1, 2, 3, 4]
        assert store.entities(keys).names == ["Tom Hanks", "Tom Hanks", *names[2:]]
        assert all(id_.startswith("#") or ":" in id_ for id_ in store.entities(keys).ids)
        assert isinstance(store, GraphStore)
        assert isinstance(store, PropertyGraph)

    def test_properties_are_edges_and_relationships_with_properties_are_facts(
        self, store: AttachedStore
    ) -> None:
        assert edges(store, "Film:2") == {
            ("Apollo 13", "^DIRECTED", "Ron Howard"),
            ("Apollo 13", "^PLAYED", "fact"),
            ("Apollo 13", "HAS `SHOT", "Shot 12"),
            ("Apollo 13", "year", "1995"),
            ("Apollo 13", "released", "1995-06-30"),
            ("Apollo 13", "rating", "7.7"),
            ("Apollo 13", "tags", "space"),
            ("Apollo 13", "tags", "NASA"),
        }  # no long text, no text that stands for null, not its own name or id
        near = store.neighbours(store.keys_of(["Film:2"]), "in")
        facts = near.target[near.kind == Kind.MEDIATOR]
        assert len(facts) == 2, "parallel relationships stay apart"
        ids = store.entities(facts).ids
        assert store.keys_of(ids).tolist() == facts.tolist()
        found = {edge for id_ in ids for edge in edges(store, id_)}
        assert found == {
            ("fact", "PLAYED", "Apollo 13"),
            ("fact", "^PLAYED", "Tom Hanks"),
            ("fact", "role", "Jim Lovell"),
            ("fact", "role", "Narrator"),
            ("fact", "scenes", "40"),
        }
        (row,), scenes = store.property_values(facts, "scenes")
        assert scenes == [40]
        assert ("fact", "role", "Jim Lovell") in edges(store, ids[row])

    def test_the_schema(self, store: AttachedStore) -> None:
        schema = store.schema()
        film = next(type_ for type_ in schema.types if type_.name == "Film")
        assert (film.count, film.id_property, film.names) == (1, "uid", ("title",))
        held = {
            property_.name: (property_.type, property_.many, property_.walked)
            for property_ in film.properties
        }
        assert held["released"] == ("date", False, True)
        assert held["tags"] == ("text", True, True)
        assert not held["plot"][2]
        played = {
            (relation.head, relation.tail): [each.name for each in relation.properties]
            for relation in schema.relations
            if relation.relation == "PLAYED"
        }
        assert played["Actor", "Film"] == ["role", "scenes"]
        joins = {(each.head, each.relation, each.tail) for each in schema.relations}
        assert joins >= {
            ("Actor", "KNOWS", "Director"),
            ("Director", "DIRECTED", "Film"),
        }
        assert len(store.instances("Actor")) == 2
        knows = store.relations().ids.index("KNOWS")
        facts = store.facts(store.instances("Director"), [knows], inverse=True)
        assert (facts.row.tolist(), facts.fact.tolist()) == ([0], [-1])

    def test_details_have_labels_and_all_properties(self, store: AttachedStore) -> None:
        details = store.details(int(store.keys_of(["Film:2"])[0]))
        assert (details.types, details.properties["released"]) == (
            ["Film", MARK],
            "1995-06-30",
        )
        assert len(details.properties["plot"]) == 5000
        json.dumps(details.properties)


@neo4j_test
class TestAsItIsTaken:
    """The same after a change of the graph, or of what is taken of it."""

    def test_every_edge_is_looked_up_on_the_server(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        with opened(films, tmp_path) as store:
            keys = store.keys_of(["Film:2"])
            near = store.neighbours(keys, "both")
            ends = np.repeat(keys, len(near)), near.target
            heads, tails = (np.where(near.step % 2 == side, *ends) for side in (0, 1))
            facts = store.neighbours(near.target[near.kind == Kind.MEDIATOR], "out")
            middle = near.target[near.kind == Kind.MEDIATOR][facts.row]
            heads, tails = np.append(heads, middle), np.append(tails, facts.target)
            relations = np.append(near.step, facts.step) // 2
            assert store.has_edges(heads, relations, tails).all()
            assert not store.has_edges(tails, relations, heads).any()
            assert not store.has_edges(heads, (relations + 1) % len(store.relations()), tails).any()
            run(films, f"MATCH (f:{MARK}:Film)-[r]-() DELETE r SET f.year = 1996 REMOVE f.tags")
            kept = store.has_edges(heads, relations, tails)
            assert set(np.array(store.relations().ids)[relations[kept]]) == {
                "released",
                "rating",
            }

    def test_what_is_skipped_is_shown_nowhere(self, films: Neo4jServer, tmp_path: Path) -> None:
        taken = Taken(
            only=[MARK], skip=["Film.year", f"{MARK}.year", "Director", "PLAYED.scenes", "KNOWS"]
        )
        with opened(films, tmp_path, taken) as store:
            everything = str(store.schema()) + str(edges(store, "Film:2"))
            key = int(store.keys_of(["Film:2"])[0])
            everything += str(store.details(key)) + str(store.relations())
            for hidden in ("1995'", "year", "Ron Howard", "scenes", "KNOWS", "Place"):
                assert hidden not in everything
            assert not len(store.find_names(["Ron Howard"])[0])
            assert store.property_values(keys_array([key]), "year")[1] == []

    def test_what_is_remembered_has_bounds_and_one_look_at_them_has_not(
        self, films: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server asks for years; a question may need more at once than is kept."""
        monkeypatch.setattr(attached_reader, "KEPT", 3)
        with opened(films, tmp_path) as store:
            keys = store.keys_of(["Film:2"])
            (value,) = store.keys_of(['"space"'])
            for _ in range(3):
                use(store)
                near = store.neighbours(store.topic_keys(), "both")
                every = np.unique(np.concatenate([keys, near.target]))
                assert len(every) > 3
                assert len(store.entities(every).ids) == len(every)
                before = edges(store, "Film:2")
                store.refresh()
                assert edges(store, "Film:2") == before
            for number in range(20):
                store.intern(f'"{number}"', str(number))
                store.refresh()
            remembered = (store._known, store._facts, store._values, store._older)
            assert max(map(len, remembered)) <= len(every) + 3
            assert not store.knows_value(int(value))
            assert store.keys_of(['"space"']) == [value]  # it is read again
            assert edges(store, "Film:2") == before

    def test_a_name_that_the_user_chose(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path, Taken(only=[MARK], name={"Film": "uid"})) as store:
            assert store.entities(store.keys_of(["Film:2"])).names == ["2"]

    def test_mediators_and_values_by_label(self, films: Neo4jServer, tmp_path: Path) -> None:
        taken = Taken(only=[MARK], mediators=Mediators(label="Shot"), values="Film")
        with opened(films, tmp_path, taken) as store:
            assert store.entities(store.keys_of(["Shot:12", "Film:2"])).kinds.tolist() == [1, 2]
            near = store.neighbours(store.keys_of(["Film:2"]), "out")
            assert Kind.MEDIATOR in near.kind.tolist()

    def test_numbers_and_dates_kept_as_text(self, films: Neo4jServer, tmp_path: Path) -> None:
        run(
            films,
            f"UNWIND range(1, 200) AS n CREATE (:{MARK}:Bill {{number: n, day: '1996-07-04', "
            "freight: CASE n WHEN 7 THEN 'free' WHEN 9 THEN 'NULL' ELSE toString(n / 4.0) END, "
            "code: CASE n % 2 WHEN 0 THEN '12' ELSE 'A' END}"
            f")-[:PAID {{part: toString(n)}}]->(:{MARK}:Sum {{number: n, title: toString(n)}})",
        )
        with connect(films) as connection:
            said = "\n".join(described(attach(connection, tmp_path, "films", TAKEN, Silent())))
            assert "Bill.freight (float, 1 not)" in said
            assert "Bill.freight (1)" in said.partition("NULL")[2]
            with AttachedStore(connection, tmp_path / "films") as store:
                types = {type_.name: type_ for type_ in store.schema().types}
                held = {each.name: (each.type, each.as_text) for each in types["Bill"].properties}
                assert held["freight"] == ("float", True)
                assert held["day"] == ("date", True)
                assert held["code"] == ("text", False)
                assert types["Sum"].properties[-1].type in ("integer", "text")
                assert ("title", "text") in {(e.name, e.type) for e in types["Sum"].properties}
                bills = store.instances("Bill")
                rows, values = store.property_values(bills, "freight")
                assert (len(rows), sum(values)) == (198, 50 * 100.5 - 7 / 4 - 9 / 4)  # type: ignore[arg-type]
                text = cypher_of(parse_plan("Bill | give sum Bill.freight"), store.schema())
                assert [*store.run(text, {})[0].values()] == [sum(values)]  # type: ignore[arg-type]
                assert {
                    ("Bill 10", "freight", "2.5"),
                    ("Bill 10", "day", "1996-07-04"),
                } <= edges(store, "Bill:10")
                assert ("Bill 7", "freight", "free") in edges(store, "Bill:7")
                key = int(store.keys_of(["Bill:10"])[0])
                assert store.details(key).properties["freight"] == 2.5
                for id_, names in (
                    ('"2.5"^^xsd:double', {"Bill 10"}),
                    ('"1996-07-04"^^xsd:date', {f"Bill {n}" for n in range(1, 201)}),
                ):
                    near = store.neighbours(store.keys_of([id_]), "in")
                    assert set(store.entities(near.target).names) == names
                    relations = near.step // 2
                    ends = np.repeat(store.keys_of([id_]), len(near))
                    assert store.has_edges(near.target, relations, ends).all()
                paid = store.relations().ids.index("PAID")
                facts = store.facts(keys_array([key]), [paid], inverse=False).fact
                assert store.property_values(facts, "part")[1] == [10]

    def test_a_survey_says_how_far_it_is(self, films: Neo4jServer, tmp_path: Path) -> None:
        """A step for each label and each type of relationships, of as many as there are."""
        tasks: list[tuple[int | None, Counter[str]]] = []

        class Told(Silent):
            @contextmanager
            def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Any]:
                steps = Counter[str]()
                tasks.append((total, steps))
                yield SimpleNamespace(
                    advance=lambda amount=1: steps.update(steps=amount), tell=lambda text: None
                )

        with connect(films) as connection:
            attach(connection, tmp_path, "films", TAKEN, Told())
        total, steps = tasks[0]
        assert total == steps["steps"] > 5

    def test_a_survey_says_that_it_sampled(
        self, films: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kgqa.graph.attached_survey._ALL_NODES", 2)
        monkeypatch.setattr("kgqa.graph.attached_survey._COUNTED", 4)
        with connect(films) as connection:
            taken = Taken(only=[MARK, "DIRECTED"])  # no other test's relationships
            found = attach(connection, tmp_path, "films", taken, Silent())
            assert any("of a sample" in line for line in described(found))
            with AttachedStore(connection, tmp_path / "films") as store:
                assert store.schema().sampled
                _, keys = store.find_names(["Ron Howard"])
                assert store.entities(keys).names == ["Ron Howard"]

    def test_relationships_between_nodes_that_are_not_taken_are_no_relations(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(films, "CREATE (:Stranger)-[:STRANGE]->(:Stranger)")
        try:
            with opened(films, tmp_path, TAKEN) as store:
                assert {"KNOWS", "LIVES"} <= {*store.relations().ids}
                assert "STRANGE" not in store.relations().ids
        finally:
            run(films, "MATCH (n:Stranger) DETACH DELETE n")

    def test_databases_are_kgs_of_their_own(self, films: Neo4jServer, tmp_path: Path) -> None:
        other = films.uri.replace("bolt://", "neo4j://")
        named = []
        for uri in (films.uri, other, films.uri):
            with Reader(uri, films.username, films.password, "neo4j") as connection:
                named.append(attach(connection, tmp_path, None, TAKEN, Silent()).kg)
        assert named == ["neo4j", "neo4j-2", "neo4j"]
        records = [read_attachment(tmp_path / name) for name in named[:2]]
        assert [(record.url, record.database) for record in records] == [
            (films.uri, "neo4j"),
            (other, "neo4j"),
        ]
        with (
            Reader(films.uri, films.username, films.password, "nothere") as connection,
            pytest.raises(StoreUnavailableError, match="no database nothere"),
        ):
            attach(connection, tmp_path, None, TAKEN, Silent())

    def test_a_plan_is_run_read_only_with_a_limit(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            text = f"MATCH (n:{MARK}) RETURN n.born AS born, n.released AS day ORDER BY born"
            rows = store.run(text, {}, limit=2)
            assert rows == [{"born": 1954, "day": None}, {"born": 1956, "day": None}]
            with pytest.raises(GraphError, match=r"read access mode|AccessMode|not allowed"):
                store.run(f"CREATE (:{MARK})", {})


@neo4j_test
class TestNamesAndValuesAsPeopleKeepThem:
    @pytest.mark.parametrize(
        ("first", "last"),
        [("nameFirst", "nameLast"), ("name_first", "name_last"), ("firstname", "surname")],
    )
    def test_a_first_and_a_last_name_are_the_name(
        self, films: Neo4jServer, tmp_path: Path, first: str, last: str
    ) -> None:
        run(
            films,
            f"CREATE (:{MARK}:Nurse {{{first}: 'Ada', {last}: 'Moss', jobTitle: 'Head Nurse'}}), "
            f"(:{MARK}:Nurse {{{first}: 'Bo', {last}: 'Moss', jobTitle: 'Night Nurse'}})",
        )
        with opened(films, tmp_path, Taken(only=["Nurse"])) as store:
            keys = store.find_names(["ada moss", "Bo Moss", "Night Nurse"])
            assert [store.entities(keys[1]).label(at) for at in (0, 1)] == ["Ada Moss", "Bo Moss"]
            assert keys[0].tolist() == [0, 1]
            plan = parse_plan('Nurse | Nurse = "Ada Moss" | give Nurse')
            text = cypher_of(plan, store.schema())
            assert [row[0].name for row in run_plan(plan, store).rows] == ["Ada Moss"]
            assert len(store.run(text, {})) == 1

    def test_a_title_beside_a_first_and_a_last_name_is_no_name(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(films, f"CREATE (:{MARK}:Clerk {{forename: 'Ida', surname: 'Orr', title: 'Manager'}})")
        with opened(films, tmp_path, Taken(only=["Clerk"])) as store:
            assert store.entities(store.instances("Clerk")).names == ["Ida Orr"]

    def test_a_name_beside_a_surname_is_the_first_name(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (:{MARK}:Officer {{name: 'Ida', surname: 'Orr', badge_no: '7-01'}}), "
            f"(:{MARK}:Officer {{name: 'Ida', surname: 'Moss', badge_no: '7-02'}})",
        )
        with opened(films, tmp_path, Taken(only=["Officer"])) as store:
            names = store.entities(store.instances("Officer")).names
            assert sorted(names) == ["Ida Moss", "Ida Orr"]
            badges = [one for one in store.schema().types[0].properties if one.name == "badge_no"]
            assert badges[0].walked  # people ask for it, though it is the id

    def test_a_label_with_one_text_is_called_by_it(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"UNWIND ['a@b.org', 'c@d.org'] AS a CREATE (:{MARK}:Mailbox {{address: a}})",
        )
        with opened(films, tmp_path, Taken(only=["Mailbox"])) as store:
            keys = store.instances("Mailbox")
            assert sorted(store.entities(keys).names) == ["a@b.org", "c@d.org"]

    def test_a_plan_by_ids_is_shown_as_cypher_that_finds_them(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (:{MARK}:Nurse {{first_name: 'Ada', last_name: 'Moss'}}), "
            f"(:{MARK}:Nurse {{first_name: 'Bo', last_name: 'Moss'}}), "
            f"(:{MARK}:Ward {{id: 'w-7', name: 'North'}}), "
            f"(:{MARK}:Ward {{id: 'w-8', name: 'East'}})",
        )
        with opened(films, tmp_path, Taken(only=["Nurse", "Ward"])) as store:
            for class_, name in (("Nurse", "Ada Moss"), ("Ward", "North")):
                keys = store.find_names([name])[1]
                id_ = store.entities(keys).ids[0]
                plan = parse_plan(f'{class_} | {class_} = "{id_}" | give {class_}')
                assert [row[0].name for row in run_plan(plan, store).rows] == [name]
                assert len(store.run(cypher_of(plan, store.schema()), {})) == 1
                other = parse_plan(f'{class_} | {class_} <> "{id_}" | give {class_}')
                assert len(store.run(cypher_of(other, store.schema()), {})) == 1

    @pytest.mark.parametrize(
        ("ids", "names"),
        [
            (["Asthma", "Type 2 Diabetes", "Crohn's"], ["Asthma", "Type 2 Diabetes", "Crohn's"]),
            (["user-1", "user-2"], ["Illness user-1", "Illness user-2"]),
            (["a1b2", "c3d4"], ["Illness a1b2", "Illness c3d4"]),
        ],
    )
    def test_an_id_of_words_is_a_name(
        self, films: Neo4jServer, tmp_path: Path, ids: list[str], names: list[str]
    ) -> None:
        run(films, f"UNWIND $ids AS id CREATE (:{MARK}:Illness {{id: id}})", ids=ids)
        with opened(films, tmp_path, Taken(only=["Illness"])) as store:
            keys = store.instances("Illness")
            assert sorted(store.entities(keys).names) == sorted(names)
            assert store.keys_of([f"Illness:{id_}" for id_ in ids]).min() >= 0

    def test_a_title_or_a_vendor_is_no_name_beside_a_label(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (:{MARK}:Router {{label: 'R-1', vendor: 'Nova Networks', street: 'Oak'}}), "
            f"(:{MARK}:Router {{label: 'R-2', vendor: 'Orbit Systems', street: 'Elm'}})",
        )
        with opened(films, tmp_path, Taken(only=["Router"])) as store:
            assert sorted(store.entities(store.instances("Router")).names) == ["R-1", "R-2"]

    def test_labels_of_neosemantics_are_names_without_their_tags(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (a:{MARK}:owl__Class {{uri: 'x:A', rdfs__label: ['Herz@de', 'Heart@en'], "
            f"skos__altLabel: ['Pump@en-GB']}}), (b:{MARK}:owl__Class {{uri: 'http://x/B', "
            "rdfs__label: 'Organ@en'}) CREATE (a)-[:rdfs__subClassOf]->(b)",
        )
        with opened(films, tmp_path, Taken(only=["owl__Class"])) as store:
            place, keys = store.find_names(["Heart", "herz", "Pump", "Heart@en"])
            assert place.tolist() == [0, 1, 2]
            assert store.entities(keys).names == ["Heart"] * 3
            assert "sub class of" in store.relations().names

    def test_a_property_of_a_general_type_says_the_relation(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (a:{MARK}:Firm {{name: 'Arn'}}), (b:{MARK}:Firm {{name: 'Bel'}}), "
            f"(c:{MARK}:Firm {{name: 'Cor'}}) CREATE (a)-[:LINK {{type: 'founded'}}]->(b), "
            "(c)-[:LINK {type: 'founded', year: 1990}]->(b), (c)-[:LINK {type: 'supplies'}]->(b), "
            "(a)-[:HAS_ADDRESS {type: 'home'}]->(c)",
        )
        with opened(films, tmp_path, Taken(only=["Firm"])) as store:
            said = {each.relation: each.kind for each in store.schema().relations}
            assert said == {"founded": "type", "supplies": "type", "HAS_ADDRESS": ""}
            use(store)

            def rows(plan: str) -> list[list[str]]:
                read = parse_plan(plan)
                found = sorted([node.name for node in row] for row in run_plan(read, store).rows)
                text = cypher_of(read, store.schema())
                assert len(store.run(text, {})) == len(found), text
                return found

            assert rows("Firm founded> Firm#2 | give Firm, Firm#2") == [
                ["Arn", "Bel"],
                ["Cor", "Bel"],
            ]
            assert rows("Firm supplies> Firm#2 | give Firm, Firm#2") == [["Cor", "Bel"]]
            assert rows("Firm founded> Firm#2 | founded.year = 1990 | give Firm") == [["Cor"]]
            assert rows("Firm founded*> Firm#2 | give Firm") == [["Arn"], ["Cor"]]
            arn, bel, cor = store.find_names(["Arn", "Bel", "Cor"])[1].tolist()
            ids = store.entities(keys_array([arn, bel, cor])).ids
            for relation, drawn in (("supplies", 1), ("founded", 1), ("LINK", 2)):
                text = store.drawing([(ids[2], relation, ids[1])])
                assert len(store.run(text, {})) == drawn
            # a relation that the survey does not know is one of the type, not lost
            run(films, f"MATCH (a:{MARK} {{name: 'Arn'}}), (c:{MARK} {{name: 'Cor'}}) "
                "CREATE (a)-[:LINK {type: 'owns'}]->(c)")  # fmt: skip
            near = store.neighbours(keys_array([arn]), "out")
            assert store.has_edges(
                keys_array([arn] * len(near.row)), near.step >> 1, near.target
            ).all()
            record = store.record
            relations = {**record.relations, "LINK": Called(relation="")}
            dataclasses.replace(record, relations=relations).write(store.folder)
            store.refresh()
            assert "founded" not in store.relations().ids
            assert rows('Firm LINK> Firm#2 | LINK.type = "supplies" | give Firm') == [["Cor"]]

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            ("[:LINK {type: 'KNOWS'}]->(b), (a)-[:KNOWS]->(b)", "a type has that name"),
            ("[:LINK {type: 7}]->(b)", "it is not text"),
            ("[:LINK]->(b), (b)-[:LINK {type: 'rare'}]->(a), (a)-[:LINK]->(a)", "most have none"),
            ("[:LINK {type: ' '}]->(b)", "it is blank"),
        ],
    )
    def test_a_property_that_says_no_relation_stays_one(
        self, films: Neo4jServer, tmp_path: Path, facts: str, why: str
    ) -> None:
        run(
            films,
            f"CREATE (a:{MARK}:Firm {{name: 'Arn'}}), (b:{MARK}:Firm {{name: 'Bel'}}), (a)-{facts}",
        )
        with opened(films, tmp_path, Taken(only=["Firm"])) as store:
            assert not [each for each in store.schema().relations if each.kind], why
            assert "LINK" in store.relations().ids
            use(store)

    def test_amounts_and_moments_are_compared_as_such(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        run(
            films,
            f"CREATE (:{MARK}:Parcel {{name: 'A', rent: '$1,200.50', weight: '12 kg', size: '3 m',"
            f" sent: date('-0044-03-15'), code: '1E5', took: duration('PT90M')}}), "
            f"(:{MARK}:Parcel {{name: 'B', rent: '$300.00', weight: '900 g', size: '9 kg',"
            " sent: date('0014-08-19'), code: '2E4', took: duration('PT2H'), age: 'NA'}),"
            f"(:{MARK}:Parcel {{name: 'C', rent: '$89.99', weight: '2.5 kg', age: '12'}}),"
            f"(:{MARK}:Parcel {{name: 'D', age: '9'}})",
        )

        def names(plan: str) -> list[Any]:
            return [row[0].name for row in run_plan(parse_plan(plan), store).rows]

        with opened(films, tmp_path, Taken(only=["Parcel"])) as store:
            assert names("Parcel | desc Parcel.rent | limit 1 | give Parcel") == ["A"]
            assert names("Parcel | asc Parcel.weight | limit 1 | give Parcel") == ["B"]
            assert names("Parcel | Parcel.weight > 2 | give Parcel") == ["A", "C"]
            assert names("Parcel | desc Parcel.age | limit 1 | give Parcel") == ["C"]
            assert names("Parcel | asc Parcel.sent | limit 1 | give Parcel") == ["A"]
            assert names("Parcel | Parcel.sent missing | give Parcel") == ["C", "D"]
            assert names('Parcel | Parcel.took > "PT100M" | give Parcel') == ["B"]
            assert names('Parcel | Parcel.code = "1E5" | give Parcel') == ["A"]
            with pytest.raises(PlanError, match="cannot be compared"):
                names("Parcel | desc Parcel.size | limit 1 | give Parcel")


@neo4j_test
def test_plans_over_a_hostile_schema_give_nothing_but_data(
    neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    clean(neo4j_server)
    try:
        for name in HOSTILE_CYPHER:
            label, type_ = quoted(name), quoted(f"R {name}")
            run(
                neo4j_server,
                f"CREATE (:{MARK}:{label} {{name: $name, {label}: $name}})"
                f"-[:{type_} {{{label}: 7}}]->(:{MARK}:{label} {{name: 'other', {label}: 'x'}})",
                name=name,
            )
        with opened(neo4j_server, tmp_path) as store:
            before = store.run(f"MATCH (n:{MARK}) RETURN count(n) AS n", {})
            for name in HOSTILE_CYPHER:
                relation = quoted_name(f"R {name}")
                own = quoted_name(name, of_property=True)
                text = (
                    f"{quoted_name(name)} {relation}> {quoted_name(name)}#2"
                    f" | {quoted_name(name)} = {quoted_value(name)} | {relation}.{own} = 7"
                    f" | {quoted_name(name)}.{own} contains {quoted_value(name)}"
                    f" | give {quoted_name(name)}.{own}, {quoted_name(name)}#2"
                )
                plan = parse_plan(text)
                assert parse_plan(str(plan)) == plan
                result = run_plan(plan, store)
                assert result.plain_rows() == [[name, "other"]], text
                (fact,) = result.evidence(0).facts
                assert fact.predicate == f"R {name}"
                shown = store.run(cypher_of(plan, store.schema()), {})
                assert [row[result.columns[0]] for row in shown] == [name]
            assert store.run(f"MATCH (n:{MARK}) RETURN count(n) AS n", {}) == before
    finally:
        clean(neo4j_server)


@neo4j_test
class TestNothingIsWritten(OneGraph):
    """The database is the same before and after, and the server itself would refuse."""

    def test_the_database_is_the_same_after_attach_and_use(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        before = snapshot(films)
        with opened(films, tmp_path) as store:
            use(store)
        assert snapshot(films) == before

    def test_a_reader_who_may_list_no_index_attaches_and_asks(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        with LeastReader(films.uri, films.username, films.password) as connection:
            progress = Silent()
            found = attach(connection, tmp_path, "films", TAKEN, progress)
            assert found.record.types["Film"].name == ("title",)
            assert [note.split(":")[0] for note in progress.notes] == [
                "The constraints cannot be listed",
                "The indexes cannot be listed",
            ]
            with AttachedStore(connection, tmp_path / "films") as store:
                use(store)

    @pytest.mark.parametrize(
        "statement",
        [
            f"CREATE (:{MARK}:Intruder)",
            f"MATCH (n:{MARK}) SET n.kgqa = 1",
            f"MATCH (n:{MARK}) DETACH DELETE n",
            f"CREATE INDEX intruder FOR (n:{MARK}) ON (n.year)",
            f"CREATE CONSTRAINT intruder FOR (n:{MARK}) REQUIRE n.uid IS UNIQUE",
            f"CREATE FULLTEXT INDEX intruder FOR (n:{MARK}) ON EACH [n.title]",
        ],
    )
    def test_the_server_refuses_a_write_on_the_ways_that_are_used(
        self, films: Neo4jServer, statement: str
    ) -> None:
        before = snapshot(films)
        with connect(films) as reader:
            for way in (
                reader.read,
                lambda text: reader.read_marked(text, {}),
                lambda text: list(reader.stream(text)),
            ):
                with pytest.raises(GraphError, match=r"read access mode|AccessMode|not allowed"):
                    way(statement)
        assert snapshot(films) == before

    @pytest.mark.parametrize("name", [n for n in cypher.names() if n.startswith("attached_")])
    def test_every_statement_only_reads(self, films: Neo4jServer, name: str) -> None:
        text = attached(name.removeprefix("attached_"), "TestThing", "uid")
        assert explained(films, text).query_type == "r", "by the server's own judgement"


def explained(server: Neo4jServer, text: str) -> Any:
    """The server's own summary of a statement that it does not run."""
    wanted = {part[1:] for part in cypher._PLACES.findall(text) if part.startswith("$")}
    with server.connect() as connection, connection.session() as session:
        return session.run(f"EXPLAIN {text}", dict.fromkeys(wanted)).consume()


def snapshot(server: Neo4jServer) -> list[Any]:
    """All that there is to see of a database."""
    return [
        run(server, text)
        for text in (
            "MATCH (n) RETURN labels(n) AS l, count(*) AS c, sum(size(keys(n))) AS k ORDER BY l",
            "MATCH ()-[r]->() RETURN type(r) AS t, count(*) AS c, sum(size(keys(r))) AS k "
            "ORDER BY t",
            "CALL db.labels() YIELD label RETURN label ORDER BY label",
            "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey ORDER BY propertyKey",
            "SHOW INDEXES YIELD name, type, labelsOrTypes, properties "
            "RETURN name, type, labelsOrTypes, properties ORDER BY name",
            "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties "
            "RETURN name, type, labelsOrTypes, properties ORDER BY name",
        )
    ]


def operators(plan: dict[str, Any]) -> set[str]:
    found = {plan["operatorType"].split("@")[0]}
    return found.union(*(operators(child) for child in plan.get("children", [])))


@neo4j_test
class TestStatements(OneGraph):
    """Odd names cannot be read as Cypher, and look-ups do not scan."""

    @pytest.mark.parametrize(
        "name",
        ["neighbours_out", "neighbours_in", "has_edges", "entities", "degrees", "values", "facts"],
    )
    def test_a_look_up_never_scans(self, films: Neo4jServer, name: str) -> None:
        used = operators(explained(films, attached(name)).plan)
        assert not [one for one in used if "Scan" in one], used

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.one_of(
            st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text),
            st.text("`\\u0060 {}()$:", min_size=1, max_size=20),
        )
    )
    def test_the_server_reads_a_quoted_name_as_that_name(
        self, neo4j_server: Neo4jServer, name: str
    ) -> None:
        try:
            name.encode()
        except UnicodeEncodeError:
            return
        with connect(neo4j_server) as reader:
            rows = reader.read(f"RETURN keys({{{quoted(name)}: 1}}) AS found")
        assert rows[0]["found"] == [name]

    def test_what_is_put_in_is_no_place_to_put_something_in(self) -> None:
        text = attached("by_value", "`id`", "`Freebase`")
        assert text.count("```Freebase```") == text.count("n.`") == 2
        assert text.count("```id```") == 1


@neo4j_test
class TestLive:
    """A changed database is simply read."""

    def test_new_nodes_types_and_properties_are_found(
        self, films: Neo4jServer, tmp_path: Path
    ) -> None:
        with opened(films, tmp_path) as store:
            version = store.info.version
            store.refresh()
            assert store.info.version == version
            run(
                films,
                f"MATCH (f:{MARK}:Film) CREATE (f)<-[:SCORED]-(:{MARK}:Composer "
                "{name: 'James Horner', debut: 1978})",
            )
            store.refresh()
            assert store.info.version != version
            _, keys = store.find_names(["james horner"])
            assert store.entities(keys).names == ["James Horner"]
            id_ = store.entities(keys).ids[0]
            found = edges(store, id_)
            assert ("James Horner", "SCORED", "Apollo 13") in found
            assert ("James Horner", "debut", "1978") in found
            assert ("Apollo 13", "^SCORED", "James Horner") in edges(store, "Film:2")

    def test_new_names_are_found_before_the_survey_is(
        self, films: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kgqa.graph.attached_store._LONG", -1.0)
        with opened(films, tmp_path) as store:
            run(
                films,
                f"MATCH (n:{MARK}:Director) DETACH DELETE n CREATE (:{MARK}:Actor {{name: "
                "'Ed Harris', born: 1950}), (f:Sequel:KgqaTest {name: 'Apollo 14'})",
            )
            store.refresh()
            _, keys = store.find_names(["ed harris"])
            assert store.entities(keys).names == ["Ed Harris"]
            assert not len(store.find_names(["ron howard"])[0]), "it is gone"
            assert "Ron Howard" not in store.entities(store.suggest("howard")).names
            (said,) = store.remarks()
            assert "seconds ago" in said

    def test_a_survey_that_takes_longer_is_made_again_now_and_then(
        self, films: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kgqa.graph.attached_store._SHORT", -1.0)
        with opened(films, tmp_path) as store:
            for pause, remarks in ((1e9, 1), (0.0, 0)):
                monkeypatch.setattr("kgqa.graph.attached_store._PAUSE", pause)
                run(films, f"CREATE (:{MARK}:Actor {{name: 'Ed Harris {pause}'}})")
                store.refresh()
                assert len(store.remarks()) == remarks

    def test_an_answer_knows_that_the_state_moved(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            assert not store.has_moved()
            run(films, f"MATCH (f:{MARK}:Film) SET f.year = 1994")
            assert store.has_moved()
            store.refresh()
            assert not store.has_moved()
            assert ("Apollo 13", "year", "1994") in edges(store, "Film:2")

    def test_an_edited_record_is_read(self, films: Neo4jServer, tmp_path: Path) -> None:
        with opened(films, tmp_path) as store:
            record = store.record
            film = dataclasses.replace(record.types["Film"], name=("uid",), also=("movie",))
            types = {**record.types, "Film": film}
            dataclasses.replace(record, types=types, skip=("Film.rating",)).write(
                tmp_path / "films"
            )
            store.refresh()
            assert store.entities(store.keys_of(["Film:2"])).names == ["2"]
            (found,) = (type_ for type_ in store.schema().types if type_.name == "Film")
            assert found.also == ("movie",)
            assert "rating" not in str(edges(store, "Film:2"))
            assert len(store.find_names(["2"])[0]) == 1


@neo4j_test
class TestOpening(OneGraph):
    """An attached KG is found by its name, and its record tells no secret."""

    @pytest.fixture(scope="class")
    @classmethod
    def attached_home(cls, films: Neo4jServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
        home = tmp_path_factory.mktemp("attached")
        with connect(films) as connection:
            attach(connection, home, "films", TAKEN, Silent())
        return home

    @pytest.fixture
    def home(self, attached_home: Path, tmp_path: Path) -> Path:
        return shutil.copytree(attached_home, tmp_path / "home")

    def account(self, server: Neo4jServer) -> dict[str, str]:
        return {"username": server.username, "password": server.password}

    def test_by_name_wherever_the_url_leads(self, films: Neo4jServer, home: Path) -> None:
        for url in (home, home / "else", home / "x.sqlite", "bolt://127.0.0.1:1"):
            with open_store(url, "films", home=home, **self.account(films)) as store:
                assert isinstance(store, AttachedStore)
                use(store)

    def test_it_is_listed_without_its_server(self, home: Path) -> None:
        assert [info.name for info in list_kgs(home)] == ["films"]
        faults: list[KgqaError] = []
        infos = list_kgs("bolt://127.0.0.1:1", home=home, faults=faults)
        assert [info.entities > 3 for info in infos] == [True]
        assert [type(fault) for fault in faults] == [StoreUnavailableError]

    def test_its_name_cannot_be_loaded_into(self, home: Path) -> None:
        with (
            pytest.raises(UsageError, match="films is attached"),
            open_writer(home, "films", home=home),
        ):
            pass

    def test_no_secret_is_kept(self, films: Neo4jServer, home: Path) -> None:
        if not films.password:
            pytest.skip("the server asks for no password")
        for path in (home / "films").iterdir():
            assert films.password.encode() not in path.read_bytes()

    @pytest.mark.parametrize("content", ["url", "", "url = 3", 'url = "x"\nunknown = 1', "\x00"])
    def test_a_malformed_record_is_said(self, home: Path, content: str) -> None:
        (home / "films" / RECORD_NAME).write_text(content)
        with pytest.raises(GraphError, match=r"attached\.toml is malformed") as caught:
            open_store(home, "films")
        assert "kgqa attach" in caught.value.hint
        faults: list[KgqaError] = []
        assert list_kgs(home, faults=faults) == []
        assert len(faults) == 1

    @pytest.mark.parametrize("damage", ["gone", "empty", "cut", "text"])
    def test_a_damaged_survey_is_made_again(
        self, films: Neo4jServer, home: Path, damage: str
    ) -> None:
        path = home / "films" / FILE_NAME
        content = path.read_bytes()
        path.write_bytes({"cut": content[:1000], "text": b"x" * 9000}.get(damage, b""))
        if damage == "gone":
            path.unlink()
        with open_store(home, "films", **self.account(films)) as store:
            assert isinstance(store, AttachedStore)
            use(store)

    def test_attaching_again_keeps_what_was_edited(self, films: Neo4jServer, home: Path) -> None:
        record = read_attachment(home / "films")
        types = {**record.types, "Film": Naming(("uid",), "uid", ("movie",))}
        dataclasses.replace(record, types=types).write(home / "films")
        with connect(films) as connection:
            found = attach(connection, home, None, TAKEN, Silent())
            again = attach(connection, home, "films", Taken(), Silent())
            assert found.kg == connection.database, "named after the database"
        assert again.record.types["Film"] == types["Film"]

    def test_the_browser_draws_relationships(self, films: Neo4jServer, home: Path) -> None:
        with opened(films, home) as store:
            near = store.neighbours(store.keys_of(["Film:2"]), "in")
            fact = store.entities(near.target[near.kind == Kind.MEDIATOR][:1]).ids[0]
            director = store.entities(near.target[near.kind == Kind.ENTITY][:1]).ids[0]
            facts = [(fact, "PLAYED", "Film:2"), (director, "DIRECTED", "Film:2")]
            url = browser_url(store, [*facts, ("Film:2", "year", '"1995"^^xsd:integer')])
        assert url is not None
        (text,) = parse_qs(urlsplit(url).query)["arg"]
        paths = text.replace("RETURN path", "UNWIND relationships(path) AS x RETURN type(x) AS t")
        assert {row["t"] for row in run(films, paths)} == {"PLAYED", "DIRECTED"}


TEXT = st.text(st.characters(codec="utf-8"), max_size=9)


@given(
    st.builds(
        Attachment,
        url=TEXT,
        database=TEXT,
        attached=TEXT,
        only=st.lists(TEXT).map(tuple),
        types=st.dictionaries(
            TEXT,
            st.builds(
                Naming,
                id=TEXT,
                name=st.lists(TEXT).map(tuple),
                description=TEXT,
                properties=st.dictionaries(TEXT, st.builds(Words, also=st.just(("x",)))),
            ),
        ),
        relations=st.dictionaries(TEXT, st.builds(Called)),
    )
)
def test_a_record_is_read_as_it_was_written(record: Attachment) -> None:
    assert TypeAdapter(Attachment).validate_python(tomllib.loads(as_toml(record))) == record


def test_what_a_killed_survey_left_is_removed_by_the_next(tmp_path: Path) -> None:
    import subprocess
    import sys

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, running = (
        tmp_path / f".survey.sqlite.{process}.partial" for process in (ended.pid, os.getppid())
    )
    for file in (left, running, tmp_path / ".survey.sqlite.x.partial"):
        file.touch()
    with contextlib.suppress(ZeroDivisionError), new_survey(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == [running]


@pytest.mark.parametrize(
    ("seconds", "ago", "due"),
    [(0.1, 0, True), (1.0, 5, False), (1.0, 11, True), (1.0, -86_400, True), (9.0, 999, False)],
)
def test_a_survey_is_made_again_whatever_the_clock_was_set_to(
    seconds: float, ago: float, due: bool
) -> None:
    """One of the future was read before the clock was set back: nobody waits until it is past."""
    survey: Any = SimpleNamespace(seconds=seconds, read=1e9)
    assert is_due(survey, 1e9 + ago) == due
