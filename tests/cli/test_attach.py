"""`kgqa attach`: a real database as it is, and all of kgqa over it."""

from __future__ import annotations

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

ONLY = ("--only", "CliPerson,CliFilm")


@pytest.fixture(scope="module")
def films(neo4j_server: Neo4jServer) -> Iterator[Neo4jServer]:
    """A graph that somebody else wrote."""
    with neo4j_server.connect() as connection, connection.translated():
        with connection.session() as session:
            session.run(
                """
                CREATE (tom:CliPerson {name: 'Tom Hanks', born: 1956}),
                  (film:CliFilm {title: 'Apollo 13', released: 1995}),
                  (ron:CliPerson {name: 'Ron Howard', born: 1954})
                CREATE (ron)-[:DIRECTED]->(film),
                  (tom)-[:ACTED_IN {role: 'Jim Lovell'}]->(film),
                  (tom)-[:LIVES_IN]->(:CliPlace {title: 'outside'})
                """
            ).consume()
        yield neo4j_server
        with connection.session() as session:
            session.run("MATCH (n:CliPerson|CliFilm|CliPlace) DETACH DELETE n").consume()


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
    done = kgqa("attach", films.uri, *ONLY, "--kg", "films", **env)
    assert done.code == 0, done.err
    return env


def test_a_url_is_enough_and_it_tells_what_it_took(
    kgqa: Kgqa, films: Neo4jServer, env: dict[str, str | Path]
) -> None:
    done = kgqa("attach", films.uri, *ONLY, **env)
    assert done.code == 0, done.err
    assert "CliFilm 1: called by title" in done.out
    assert "ACTED_IN{role}" in done.out
    assert len(done.out.splitlines()) <= 12
    assert not films.password or films.password not in done.out + done.err
    again = kgqa("attach", "--json", NEO4J_URI=films.uri, **env).json
    assert again["kg"] == again["database"]
    assert again["only"] == ["CliPerson", "CliFilm"], "what was chosen stays"


def test_paths_and_links_over_it(kgqa: Kgqa, attached: dict[str, str | Path]) -> None:
    # whatever --graph says: the name is that of an attached KG
    for more in ({}, {"KGQA_GRAPH": "bolt://127.0.0.1:1"}):
        found = kgqa("paths", "Tom Hanks", "--kg", "films", "--json", **attached | more).json
        texts = [path["text"] for path in found["paths"]]
        assert "Tom Hanks -> born -> 1956" in texts
        assert any(text.endswith("Apollo 13 -> ^directed -> Ron Howard") for text in texts)
        assert any(text.endswith("-> Jim Lovell") for text in texts)
        assert "elementId" in found["browser_url"]
    linked = kgqa("link", "Who directed Apollo 13?", "--json", **attached).json
    assert [candidate["name"] for candidate in linked["candidates"] if candidate["chosen"]] == [
        "Apollo 13"
    ]


def test_status_lists_it_even_where_its_server_is_not_the_graph(
    kgqa: Kgqa, attached: dict[str, str | Path]
) -> None:
    (port,) = free_ports(1)
    for more in ({}, {"NEO4J_URI": f"bolt://127.0.0.1:{port}"}):
        found = kgqa("status", "--json", **attached | more).json
        (kg,) = found["kgs"]
        assert (kg["name"], kg["direction"]) == ("films", "both")


def test_status_of_one_kg_tells_what_it_holds(kgqa: Kgqa, attached: dict[str, str | Path]) -> None:
    lines = kgqa("status", "--kg", "films", **attached).out.splitlines()
    (film,) = [line for line in lines if line.startswith("CliFilm ")]
    assert film.startswith("CliFilm (1), such as Apollo 13: ")
    assert "released (integer: 1995)" in film
    (relation,) = [line for line in lines if line.startswith("CliPerson ACTED_IN> CliFilm")]
    assert "Tom Hanks -> ACTED_IN -> Apollo 13" in relation
    assert "role (text: Jim Lovell)" in relation


@pytest.mark.model
def test_an_answer_over_it(quick: Kgqa, attached: dict[str, str | Path]) -> None:
    found = quick("ask", "When was Apollo 13 released?", "--json", **attached).json
    assert found["answers"][0]["name"] == "1995"
    assert all(path["grounded"] for path in found["paths"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "Nobody=x"], "Nobody is not in the database"),
        (["--name", "CliFilm=x"], "CliFilm.x is not in the database"),
        (["--name", "CliFilm"], "names no property"),
        (["--only", "Nobody"], "Nobody is not in the database"),
    ],
)
def test_what_is_not_there_is_one_line(
    kgqa: Kgqa,
    films: Neo4jServer,
    env: dict[str, str | Path],
    arguments: list[str],
    message: str,
    tmp_path: Path,
) -> None:
    assert message in kgqa("attach", films.uri, "--kg", "films", *arguments, **env).error
    assert not (tmp_path / "home" / "films").exists()


def test_a_server_or_account_that_is_not_there_is_one_line(
    kgqa: Kgqa, films: Neo4jServer, env: dict[str, str | Path]
) -> None:
    (port,) = free_ports(1)
    assert "No Neo4j answers" in kgqa("attach", f"bolt://127.0.0.1:{port}", **env).error
    for url in ("sqlite:///x.sqlite", "somewhere"):
        assert "is not a Neo4j server" in kgqa("attach", url, **env).error
    assert "No Neo4j URL given" in kgqa("attach", **env).error
    assert "cannot name a KG" in kgqa("attach", films.uri, "--kg", "a/b", **env).error
    if not films.password:
        pytest.skip("the server asks for no password")
    with_password = films.uri.replace("://", "://neo4j:wr0ng-p4ss@")
    error = kgqa("attach", with_password, **env).error
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
    assert kgqa("attach", url, *ONLY, "--kg", "films", "--home", home).code == 0
    record = (home / "films" / "attached.toml").read_text(encoding="utf-8")
    assert f'url = "{films.uri}"' in record
    assert films.password not in record
    again = kgqa("paths", "Apollo 13", "--kg", "films", "--graph", url, "--json", "--home", home)
    assert again.json["total"] > 3
    assert films.password not in again.out


def test_a_load_does_not_go_beside_what_others_wrote_unless_asked_to(
    kgqa: Kgqa, films: Neo4jServer, tmp_path: Path
) -> None:
    with films.connect() as connection:
        if connection.list_kgs():
            pytest.skip("KGs are loaded beside what others wrote: so that is meant")
    dump = tmp_path / "mine.tsv"
    dump.write_text("Ada\tknows\tBob\n", encoding="utf-8")
    env = {
        "NEO4J_URI": films.uri,
        "NEO4J_USERNAME": films.username,
        "NEO4J_PASSWORD": films.password,
    }
    error = kgqa("ingest", "triples", dump, "--home", tmp_path, **env).error
    assert "nodes that kgqa did not load" in error
    assert "kgqa attach" in error
    assert "--method" in error
    here = f"sqlite:///{tmp_path}"
    assert kgqa("ingest", "triples", dump, "--home", tmp_path, "--graph", here, **env).code == 0
