"""`kgqa attach`: a real database as it is, and all of kgqa over it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.graph.neo4j_server import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Kgqa
    from tests.graph.neo4j_server import Neo4jServer

pytestmark = pytest.mark.neo4j

HOW = (
    "--label", "CliThing", "--id-property", "uid", "--name-property", "title",
    "--alias-property", "also", "--mediator-label", "CliRole",
)  # fmt: skip


@pytest.fixture(scope="module")
def films(neo4j_server: Neo4jServer) -> Iterator[Neo4jServer]:
    """A graph that somebody else wrote."""
    with neo4j_server.connect() as connection, connection.translated():
        with connection.session() as session:
            session.run(
                """
                CREATE (tom:CliThing {uid: 1, title: 'Tom Hanks', also: ['Thomas Hanks']}),
                  (film:CliThing {uid: 2, title: 'Apollo 13'}), (ron:CliThing {uid: 3,
                  title: 'Ron Howard'}), (role:CliThing:CliRole {uid: 4}),
                  (jim:CliThing {uid: 5, title: 'Jim Lovell'})
                CREATE (ron)-[:DIRECTED]->(film), (tom)-[:PLAYED]->(role), (role)-[:IN]->(film),
                  (role)-[:AS]->(jim), (tom)-[:LIVES_IN]->(:CliPlace {title: 'outside'})
                """
            ).consume()
        yield neo4j_server
        with connection.session() as session:
            session.run("MATCH (n:CliThing|CliPlace) DETACH DELETE n").consume()


@pytest.fixture
def env(films: Neo4jServer, tmp_path: Path) -> dict[str, str | Path]:
    """The account, and a home of its own."""
    return {
        "NEO4J_USERNAME": films.username,
        "NEO4J_PASSWORD": films.password,
        "KGQA_HOME": tmp_path / "home",
    }


@pytest.fixture
def attached(kgqa: Kgqa, films: Neo4jServer, env: dict[str, str | Path]) -> dict[str, str | Path]:
    done = kgqa("attach", "films", "--graph", films.uri, *HOW, **env)
    assert done.code == 0, done.err
    return env


def test_it_tells_what_it_found_and_what_would_help(
    kgqa: Kgqa, films: Neo4jServer, env: dict[str, str | Path]
) -> None:
    done = kgqa("attach", "films", "--graph", films.uri, *HOW, "--json", **env).json
    assert (done["kg"], done["graph"], done["lookup"]) == ("films", films.uri, "element id")
    counts = {name: done[name] for name in ("entities", "mediators", "relations", "edges")}
    assert counts == {"entities": 4, "mediators": 1, "relations": 4, "edges": 4}
    assert list(done["left_out"].values()) == [1]  # the edge to a place
    constraint, text = done["advice"]
    assert constraint == "CREATE CONSTRAINT FOR (n:`CliThing`) REQUIRE n.`uid` IS UNIQUE"
    assert text == "CREATE FULLTEXT INDEX FOR (n:`CliThing`) ON EACH [n.`title`, n.`also`]"
    shown = kgqa("attach", "films", "--graph", films.uri, *HOW, **env)
    assert constraint in shown.out
    assert "outside the label" in shown.out
    assert not films.password or films.password not in shown.out + shown.err


def test_paths_and_links_over_it(kgqa: Kgqa, attached: dict[str, str | Path]) -> None:
    # whatever --graph says: the name is that of an attached KG
    for more in ({}, {"KGQA_GRAPH": "bolt://127.0.0.1:1"}):
        found = kgqa("paths", "Thomas Hanks", "--kg", "films", "--json", **attached | more).json
        assert found["entity"] == {"id": "1", "name": "Tom Hanks"}
        texts = [path["text"] for path in found["paths"]]
        assert texts == [
            "Tom Hanks -> PLAYED..AS -> Jim Lovell",
            "Tom Hanks -> PLAYED..IN -> Apollo 13",
            "Tom Hanks -> PLAYED..IN -> Apollo 13 -> ^DIRECTED -> Ron Howard",
        ]
        assert found["paths"][0]["edges"][0]["facts"] == [
            {"head": "1", "predicate": "PLAYED", "tail": "4"},
            {"head": "4", "predicate": "AS", "tail": "5"},
        ]
        assert "CliThing" in found["browser_url"]
    linked = kgqa("link", "Who directed Apollo 13?", "--json", **attached).json
    assert [one["id"] for one in linked["candidates"] if one["chosen"]] == ["2"]


def test_status_lists_it_even_where_its_server_is_not_the_graph(
    kgqa: Kgqa, attached: dict[str, str | Path]
) -> None:
    (port,) = free_ports(1)
    for more in ({}, {"NEO4J_URI": f"bolt://127.0.0.1:{port}"}):
        found = kgqa("status", "--json", **attached | more).json
        (kg,) = found["kgs"]
        assert (kg["name"], kg["edges"], kg["direction"]) == ("films", 4, "both")
        assert any("precompute-tries --kg films" in text for text in found["missing"])


@pytest.mark.model
def test_an_index_and_an_answer_over_it(quick: Kgqa, attached: dict[str, str | Path]) -> None:
    built = quick("precompute-tries", "--workers", "2", "--json", **attached)
    assert built.json["stored"] == 4
    found = quick(
        "ask", "Who directed Apollo 13?", "--method", "gcr", "--k", "3", "--json", **attached
    ).json
    assert [use["source"] for use in found["constraints"]] == ["shard"]
    assert found["paths"]
    assert all(path["grounded"] for path in found["paths"])


def test_loading_into_its_name_is_refused(
    kgqa: Kgqa, attached: dict[str, str | Path], tmp_path: Path
) -> None:
    dump = tmp_path / "films.txt"
    dump.write_text("a\tr\tb\n", encoding="utf-8")
    error = kgqa("ingest", "triples", dump, **attached).error
    assert "films is attached" in error
    assert "--kg" in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--label", "Nobody"], "No node"),
        (["--name-property", "name"], "Properties there are: also, title, uid."),
        (["--mediators", "4"], "not by both"),
    ],
)
def test_what_is_not_there_is_one_line(
    kgqa: Kgqa,
    films: Neo4jServer,
    env: dict[str, str | Path],
    arguments: list[str],
    told: str,
    tmp_path: Path,
) -> None:
    error = kgqa("attach", "films", "--graph", films.uri, *HOW, *arguments, **env).error
    assert told in error
    assert not (tmp_path / "home" / "films").exists()


def test_a_server_or_account_that_is_not_there_is_one_line(
    kgqa: Kgqa, films: Neo4jServer, env: dict[str, str | Path]
) -> None:
    (port,) = free_ports(1)
    nothing = f"bolt://127.0.0.1:{port}"
    assert "No Neo4j answers" in kgqa("attach", "films", "--graph", nothing, *HOW, **env).error
    for url in ("sqlite:///x.sqlite", "somewhere"):
        assert "is not a Neo4j server" in kgqa("attach", "x", "--graph", url, *HOW, **env).error
    assert "The Neo4j to attach is not named" in kgqa("attach", "films", *HOW, **env).error
    assert "cannot name a KG" in kgqa("attach", "a/b", "--graph", films.uri, *HOW, **env).error
    assert "--label" in kgqa("attach", "films", "--graph", films.uri, **env).error
    if not films.password:
        pytest.skip("the server asks for no password")
    with_password = films.uri.replace("://", "://neo4j:wr0ng-p4ss@")
    error = kgqa("attach", "films", "--graph", with_password, *HOW, **env).error
    assert "refused the user name" in error
    assert "wr0ng" not in error


def test_an_account_in_the_url_is_used_and_not_kept(
    kgqa: Kgqa, films: Neo4jServer, tmp_path: Path
) -> None:
    if not films.password:
        pytest.skip("the server asks for no password")
    account = f"{quote(films.username, safe='')}:{quote(films.password, safe='')}"
    url = films.uri.replace("://", f"://{account}@")
    home = tmp_path / "home"
    assert kgqa("attach", "films", "--graph", url, *HOW, "--home", home).code == 0
    record = json.loads((home / "films" / "attached.json").read_text(encoding="utf-8"))
    assert record["url"] == films.uri
    assert films.password not in json.dumps(record)
    again = kgqa("paths", "1", "--kg", "films", "--graph", url, "--json", "--home", home)
    assert again.json["total"] == 3
    assert films.password not in again.out
