"""A KG in Neo4j, served: the same answers, and a link that draws them there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.api import Home
from kgqa.progress import Silent
from kgqa.server.forms import PathsForm
from kgqa.server.options import ServeOptions
from kgqa.server.sessions import Sessions
from kgqa.server.views import path_page
from tests.server.conftest import QUESTION, TRIPLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.graph.neo4j_server import Neo4jServer

pytestmark = [pytest.mark.neo4j, pytest.mark.model]


def test_a_kg_in_neo4j_is_served(
    neo4j_server: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", neo4j_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    given: dict[str, Any] = {"home": tmp_path, "graph": neo4j_server.uri}
    file = tmp_path / "kg.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in TRIPLES))
    kgqa.ingest("triples", file, kg="served", progress=Silent(), **given).close()

    def home(kg: str | None, **shared: Any) -> Home:
        return Home(tmp_path, graph=neo4j_server.uri, kg=kg, **shared)

    sessions = Sessions(home, ServeOptions(), ["served"])
    sessions.start()

    async def run() -> None:
        form = PathsForm(entity="checkout-api", hops=1)
        page = await sessions.read(None, lambda kg: path_page(kg, form))
        assert page["total"] == 3
        assert "/browser?" in page["browser_url"]
        assert await sessions.read(None, lambda kg: kg.suggest("che")) == [
            {"id": "checkout-api", "name": "checkout-api", "edges": 3}
        ]
        found = await sessions.answer(await sessions.ask(QUESTION, method="rank"))
        assert found["answers"][0]["name"] == "Ada Birch"
        assert neo4j_server.password not in found["browser_url"]

    try:
        asyncio.run(run())
    finally:
        sessions.stop()
