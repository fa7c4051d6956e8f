"""One graph from its tables in SQLite and in Neo4j, and attached from a native Neo4j: the same."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from neo4j.time import Date

import kgqa
import kgqa.data
from kgqa.cypher.attached import quoted
from kgqa.graph.literals import value_type
from kgqa.graph.model import keys_array
from tests.graph.neo4j_server import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa.graph.neo4j import Neo4jConnection
    from tests.graph.neo4j_server import Neo4jServer

pytestmark = [pytest.mark.neo4j, pytest.mark.model]

TABLES = Path(kgqa.data.__path__[0]) / "tables" / "bookshop"
PLANS = (
    "Book | desc Book.price | limit 3 | give Book, Book.price",
    "Book | give sum Book.pages, average Book.price, most Book.published",
    'Author | Author.born < "1960" | give Author, Author.born',
    "Book genre> Genre | by Genre | desc count Book | give Genre, count Book",
    "Book | Book.in_print = true | give count Book",
    'Book stock> Branch | Branch.name = "Quayside" | stock.copies > 3 | give Book, stock.shelf',
    "Staff | asc Staff.hired | limit 2 | give Staff, Staff.hired",
)
QUESTIONS = (
    "Who wrote The Salt Garden?",
    "How many pages does Harbour Lights have?",
    "When was Tomas Arkwright born?",
    "Which books did Ada Winterbourne write?",
    "How many copies of The Salt Garden are at Quayside?",
    "Is Slate a novel?",
)
CHECKS = (
    ("The Salt Garden", "author", "Ada Winterbourne"),
    ("Slate", "author", "Ada Winterbourne"),
    ("Slate", "pages", "152"),
    ("Slate", "in_print", "true"),
)
_OURS = ("_file", "_row", "name")  # where a row stood; a name that no column holds


def seen_of(kg: kgqa.KG) -> dict[str, Any]:
    """Return all that people can see of a KG, by name."""
    schema, seen = kg.schema(), {}
    for type_ in schema.types:
        seen[f"type {type_.name}"] = type_.count, _properties(type_.properties)
        for key in kg.store.instances(type_.name).tolist():
            found = kg.store.details(key)
            held = {name: v for name, v in found.properties.items() if name not in _OURS}
            seen[f"thing {found.name}"] = found.types, held, found.aliases
            if sum(found.name.encode()) % 3 == 0:  # two hops out of a third of them reach the rest
                paths = kg.paths(found.id, hops=2, limit=100_000)
                seen[f"paths {found.name}"] = sorted(path.text for path in paths.paths)
    for each in schema.relations:
        name = f"relation {each.relation} {each.head} {each.tail}"
        seen[name] = each.count, _properties(each.properties)
    for plan in PLANS:
        rows = kg.query(plan).rows
        seen[plan] = sorted(str([getattr(cell, "name", cell) for cell in row]) for row in rows)
    for triple in CHECKS:
        seen[f"check {triple}"] = kg.check(triple).found
    for question in QUESTIONS:
        answer = kg.ask(question)
        found = {ranked.name for ranked in answer.answers}
        scores = [path.score for path in answer.paths]  # equal ones are cut off by key
        paths = {path.text for path in answer.paths if path.score > scores[0] - 1e-6}
        seen[question] = answer.best and answer.best.name, found
        if paths:  # a plan, which answers where paths are less sure, has none
            seen[f"paths of {question}"] = paths
    return seen


def _properties(found: Any) -> dict[str, Any]:
    return {
        one.name: (one.type, one.many, one.count, one.walked)
        for one in found
        if one.name not in _OURS
    }


def write_natively(connection: Neo4jConnection, kg: kgqa.KG) -> None:
    """Write a KG as a person would by hand: labels, relationships, properties of Neo4j's types."""
    store, schema = kg.store, kg.schema()
    relations = store.relations().ids
    held = {
        relation.relation: [each.name for each in relation.properties]
        for relation in schema.relations
    }
    for type_ in schema.types:
        names = [property_.name for property_ in type_.properties]
        rows = []
        for key in store.instances(type_.name).tolist():
            properties = _held(store, key, names)
            name = store.details(key).name
            if name not in properties.values():
                properties["name"] = name
            rows.append({"key": key, "properties": properties})
        statement = f"CREATE (n:{quoted(type_.name)} {{mark: row.key}}) SET n += row.properties"
        ask(connection, f"UNWIND $rows AS row {statement}", rows=rows)
    edges = defaultdict(list)
    for type_ in schema.types:
        keys = store.instances(type_.name)
        found = store.facts(keys, range(len(relations)), inverse=False)
        columns = (found.row, found.relation, found.other, found.fact)
        for row, number, other, fact in zip(*(c.tolist() for c in columns), strict=True):
            name = relations[number]
            properties = _held(store, fact, held[name]) if fact >= 0 else {}
            edges[name].append([int(keys[row]), other, properties])
    for name, rows in edges.items():
        ask(
            connection,
            "UNWIND $rows AS row MATCH (head {mark: row[0]}) MATCH (tail {mark: row[1]}) "
            f"CREATE (head)-[r:{quoted(name)}]->(tail) SET r = row[2]",
            rows=rows,
        )
    ask(connection, "MATCH (n) WHERE n.mark IS NOT NULL REMOVE n.mark")


def _held(store: Any, key: int, names: list[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        for value in store.property_values(keys_array([key]), name)[1]:
            is_date = isinstance(value, str) and value_type(value) == "date"
            found[name] = Date.from_iso_format(value) if is_date else value
    return found


@pytest.fixture(scope="module")
def home(neo4j_server: Neo4jServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEO4J_USERNAME", neo4j_server.username)
        patch.setenv("NEO4J_PASSWORD", neo4j_server.password)
        yield tmp_path_factory.mktemp("same")


@pytest.fixture(scope="module")
def in_sqlite(home: Path) -> dict[str, Any]:
    with kgqa.ingest("tables", TABLES, home=home / "a", graph=f"sqlite:///{home / 'a'}") as kg:
        return seen_of(kg)


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    either = one.keys() ^ other.keys()
    names = sorted(
        (one.keys() | other.keys()) - {each for each in either if each.startswith("paths of ")}
    )
    pairs = {name: (one.get(name), other.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def test_in_our_own_neo4j_it_is_as_in_sqlite(
    neo4j_server: Neo4jServer, home: Path, in_sqlite: dict[str, Any]
) -> None:
    with kgqa.ingest("tables", TABLES, home=home / "b", kg="same", graph=neo4j_server.uri) as kg:
        try:
            assert differences(in_sqlite, seen_of(kg)) == {}
        finally:
            kg.close()
            kgqa.delete("same", home=home / "b", graph=neo4j_server.uri)


def test_attached_it_is_as_from_its_tables(
    neo4j_server: Neo4jServer, home: Path, in_sqlite: dict[str, Any]
) -> None:
    with (
        neo4j_server.connect() as connection,
        kgqa.open(home=home / "a", graph=f"sqlite:///{home / 'a'}") as loaded,
    ):
        labels = [type_.name for type_ in loaded.schema().types]
        of_ours = "MATCH (n) WHERE any(label IN labels(n) WHERE label IN $labels) "
        assert not ask(connection, of_ours + "RETURN n LIMIT 1", labels=labels)
        try:
            write_natively(connection, loaded)
            with kgqa.attach(neo4j_server.uri, home=home / "c", kg="same", only=labels) as kg:
                assert differences(in_sqlite, seen_of(kg)) == {}
        finally:
            ask(connection, of_ours + "DETACH DELETE n", labels=labels)
