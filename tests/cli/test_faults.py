"""An index that is missing, stale or damaged, and a server that is: what is said, what still works.

Whatever the index is like, the paths are those of the healthy one: they are composed on the fly.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import QUESTION
from tests.graph.neo4j_server import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Kgqa, Outcome
    from tests.graph.neo4j_server import Neo4jServer

pytest_plugins = ["tests.graph.neo4j_server"]

ASK = ("ask", QUESTION, "--method", "gcr", "--k", "2", "--json")
PASSWORD = "s3cret-p4ss"


@pytest.fixture(scope="session")
def kgqa(kgqa: Kgqa, tiny_folder: Path) -> Kgqa:
    """Commands with a tiny model of random weights: what is answered does not matter here."""
    return partial(kgqa, KGQA_MODEL=tiny_folder)


def assert_same_paths(done: Outcome, healthy: dict[str, Any]) -> None:
    """The same texts, groundings and (but for rounding) scores, without any shard."""
    found = done.json
    assert [use["source"] for use in found["constraints"]] == ["composed"]
    assert [path["text"] for path in found["paths"]] == [path["text"] for path in healthy["paths"]]
    for one, other in zip(found["paths"], healthy["paths"], strict=True):
        assert one["groundings"] == other["groundings"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-3)


def test_no_index(kgqa: Kgqa, plain_home: Path, healthy: dict[str, Any]) -> None:
    done = kgqa(*ASK, "--home", plain_home)
    assert "no trie index" in done.err
    assert f"kgqa precompute-tries --home {plain_home}" in done.err
    assert_same_paths(done, healthy)


def test_an_index_for_other_walks_names_the_command_that_makes_it_fit(
    kgqa: Kgqa, home: Path
) -> None:
    done = kgqa(*ASK, "--hops", "1", KGQA_HOME=home)
    assert done.json["constraints"][0]["source"] == "composed"
    assert all(len(path["edges"]) == 1 for path in done.json["paths"])
    assert "kgqa precompute-tries --hops 1\n" in done.err


def test_an_index_of_another_version_of_the_kg_is_not_used(
    kgqa: Kgqa, own_home: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "other.txt"
    dump.write_text("Barack Obama\tborn_in\tAtlantis\n", encoding="utf-8")
    assert kgqa("ingest", "triples", dump, "--kg", "freebase", "--home", own_home).code == 0
    done = kgqa(*ASK, "--home", own_home)
    assert [path["hypothesis"] for path in done.json["paths"]] == ["Atlantis"]
    assert done.json["constraints"][0]["source"] == "composed"
    assert "does not fit: it has" in done.err
    assert "precompute-tries" in done.err


def manifest_of(home: Path) -> Path:
    (manifest,) = home.rglob("manifest.json")
    return manifest


def flip(data: bytes) -> bytes:
    """Change one bit in the first data page."""
    at = 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_shard(
    kgqa: Kgqa, own_home: Path, healthy: dict[str, Any], damage: Callable[[bytes], bytes]
) -> None:
    (shard,) = own_home.rglob("shard-*.parquet")
    shard.write_bytes(damage(shard.read_bytes()))
    done = kgqa(*ASK, "--home", own_home)
    assert str(shard) in done.err
    assert "on the fly" in done.err
    assert "--rebuild" in done.err
    assert_same_paths(done, healthy)
    checked = kgqa("status", "--verify", "--json", "--home", own_home)
    assert checked.code == 1
    assert str(shard) in checked.out


def test_a_damaged_manifest(kgqa: Kgqa, own_home: Path, healthy: dict[str, Any]) -> None:
    manifest = manifest_of(own_home)
    manifest.write_text(manifest.read_text("utf-8")[:100], encoding="utf-8")
    done = kgqa(*ASK, "--home", own_home)
    assert str(manifest) in done.err
    assert "--rebuild" in done.err
    assert_same_paths(done, healthy)


def test_the_general_llm_is_down(kgqa: Kgqa, home: Path) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}/v1"
    key = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": PASSWORD}
    done = kgqa("ask", QUESTION, "--k", "1", "--general-model", "m", "--home", home, **key)
    assert url in done.error
    assert PASSWORD not in done.err


@pytest.mark.parametrize(
    ("scheme", "command"),
    [("bolt", ("ask", QUESTION)), ("neo4j", ("paths", "Paris")), ("bolt", ("ingest", "umls"))],
)
def test_neo4j_is_down(kgqa: Kgqa, tmp_path: Path, scheme: str, command: tuple[str, ...]) -> None:
    port = free_ports(1)[0]
    url = f"{scheme}://neo4j:{PASSWORD}@127.0.0.1:{port}"
    error = kgqa(*command, "--graph", url, "--home", tmp_path).error
    assert f"{scheme}://127.0.0.1:{port}" in error
    assert "start" in error.casefold()
    assert PASSWORD not in error


def test_status_tells_that_neo4j_is_down_and_goes_on(kgqa: Kgqa, tmp_path: Path) -> None:
    url = f"bolt://127.0.0.1:{free_ports(1)[0]}"
    env = {"NEO4J_URI": url, "NEO4J_PASSWORD": PASSWORD}
    done = kgqa("status", "--json", "--home", tmp_path, **env)
    assert any(url in line for line in done.json["missing"])
    assert done.json["kg_llm"]["model"]
    assert PASSWORD not in done.out + done.err


@pytest.mark.neo4j
def test_neo4j_refuses_the_password(kgqa: Kgqa, neo4j_server: Neo4jServer, tmp_path: Path) -> None:
    env = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": PASSWORD}
    done = kgqa("paths", "Paris", "--home", tmp_path, **env)
    assert neo4j_server.uri in done.error
    assert "NEO4J_PASSWORD" in done.error
    assert PASSWORD not in done.err


@pytest.mark.neo4j
def test_the_commands_on_neo4j(kgqa: Kgqa, neo4j_server: Neo4jServer, tmp_path: Path) -> None:
    dump = tmp_path / "clitest.txt"
    dump.write_text("Ada [x]\tknows\tBob\nBob\tlives_in\tRome\n", encoding="utf-8")
    env = {
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_USERNAME": neo4j_server.username,
        "NEO4J_PASSWORD": neo4j_server.password,
        "KGQA_NEO4J_BROWSER": neo4j_server.browser or "http://localhost:7474",
        "KGQA_HOME": str(tmp_path),
        "KGQA_KG": "clitest",
    }
    assert kgqa("ingest", "triples", dump, "--method", "bolt", **env).code == 0
    done = kgqa("paths", "Ada [x]", "--hops", "1", "--json", **env).json
    assert [path["text"] for path in done["paths"]] == ["Ada [x] -> knows -> Bob"]
    assert done["browser_url"].startswith(env["KGQA_NEO4J_BROWSER"])
    asked = kgqa("ask", "Whom does Ada know?", "--entity", "Ada [x]", "--k", "1", "--json", **env)
    assert asked.json["browser_url"].startswith(env["KGQA_NEO4J_BROWSER"])
    assert neo4j_server.password not in asked.out + asked.err
