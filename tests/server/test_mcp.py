"""MCP, asked by the SDK's own client over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.server.conftest import QUESTION, SCRIPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.server.conftest import Served

pytestmark = pytest.mark.model


@asynccontextmanager
async def over(transport: str, served: Served, cache: Path) -> AsyncIterator[Client]:
    if transport == "http":
        async with Client(f"{served.url}/mcp") as client:
            yield client
        return
    env = {name: value for name, value in os.environ.items() if not name.startswith("KGQA_")}
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kgqa", "serve", "--mcp", "--home", str(served.home)],
        env=env | {"KGQA_CACHE": str(cache), "KGQA_DEVICE": "cpu"},
    )
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - the server's log
        async with Client(stdio_client(parameters, errlog=nowhere)) as client:
            yield client


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_tools_answer(transport: str, served: Served, model_cache: Path) -> None:
    messages: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        messages.append(str(message))

    async def run() -> None:
        async with over(transport, served, model_cache) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {
                "ask", "paths", "neighbours", "link", "check", "kgs", "schema", "query"
            }  # fmt: skip
            for value in tools.values():
                assert value.annotations is not None
                assert value.annotations.read_only_hint
                assert value.annotations.open_world_hint is False
                assert value.output_schema is not None
                assert value.description

            async def call(name: str, **given: Any) -> tuple[Any, str]:
                result = await client.call_tool(name, given, progress_callback=progress)
                assert not result.is_error, result.content
                text: Any = result.content[0]
                return result.structured_content, text.text

            found, text = await call("ask", question=QUESTION, limit=1, full=True)
            assert [answer["name"] for answer in found["answers"]] == ["Ada Birch"]
            behind = found["paths"][found["answers"][0]["paths"][0]]
            assert behind["edges"][-1]["facts"]
            assert behind["text"] in text
            short, _ = await call("ask", question=QUESTION, limit=1)
            assert "facts" not in short["paths"][0]["edges"][-1]
            assert short["paths"][0]["edges"][-1]["tail"] == {
                "id": "Ada Birch",
                "name": "Ada Birch",
            }
            turn = {"question": QUESTION, "topic_entities": ["checkout-api"], "answers": []}
            then, _ = await call("ask", question="and who owns it?", after=[turn])
            assert then["answers"][0]["name"] == "Payments"
            page, text = await call("neighbours", entity="checkout-api", limit=2)
            assert (len(page["paths"]), page["total"], page["next_offset"]) == (2, 3, 2)
            assert "More with offset 2" in text
            rest, _ = await call("neighbours", entity="checkout-api", offset=2)
            texts = [path["text"] for path in (*page["paths"], *rest["paths"])]
            assert len(set(texts)) == 3
            paths, _ = await call("paths", entity=SCRIPT, hops=2)
            assert paths["total"] >= 3
            linked, _ = await call("link", question="who leads Payments")
            assert linked["candidates"][0]["id"] == "Payments"
            good, _ = await call("check", statement="Payments -> ledBy -> Cem Aydin")
            assert good["found"]
            bad, text = await call("check", statement="Payments -> ledBy -> Dora Nagy")
            assert not bad["found"]
            assert "not in the graph" in text

            served_kgs, _ = await call("kgs")
            assert [kg["name"] for kg in served_kgs["kgs"]] == ["services"]
            described, text = await call("schema")
            relations = {
                relation["relation"]: relation["count"] for relation in described["relations"]
            }
            assert relations["ownedBy"] == 4
            assert '"ownedBy"' in text
            rows, text = await call("query", plan="* ownedBy> * | give count ownedBy")
            assert rows["rows"][0]["values"] == [4]
            assert len(rows["rows"][0]["facts"]) == 3
            assert text.endswith('`"4"`')
            assert (await client.call_tool("query", {"plan": "Nothing"})).is_error

            wrong = await client.call_tool("ask", {"question": "where is Zaphod Qwxyz"})
            assert wrong.is_error
            said: Any = wrong.content[0]
            assert "Zaphod" in said.text
            assert (await client.call_tool("paths", {"entity": "x", "hops": 99})).is_error

    asyncio.run(asyncio.wait_for(run(), 400))
    assert {"linked", "searching", "paths"} <= set(messages)


def test_an_answer_never_floods(served: Served) -> None:
    from kgqa.server.forms import Answered
    from kgqa.server.mcp import capped

    found = served.post("/api/ask", {"question": QUESTION}).json
    one = found["answers"][0]
    many = found | {"answers": [one | {"name": f"{n}"} for n in range(500)]}
    short = capped(many, 5)
    Answered.model_validate(short)
    assert len(short["answers"]) == 5
    assert len(short["paths"]) <= 10
    assert "495 more" in short["notes"][-1]


def edge(head: str, tail: str) -> dict[str, Any]:
    fact = {"head": head, "predicate": "r" * 9_000, "tail": tail}
    ends = {side: {"id": name, "name": name} for side, name in (("head", head), ("tail", tail))}
    return {**ends, "relation": fact["predicate"], "inverse": False, "facts": [fact]}


@pytest.mark.parametrize("count", [2, 50])
def test_no_name_makes_an_answer_large(count: int) -> None:
    from kgqa.server.forms import Answered, PathPage
    from kgqa.server.mcp import bounded, capped

    rows = [f"{number} " + "long " * 2_000 for number in range(count)]
    paths = [{"text": row, "score": -1.0, "edges": [edge("x", row)] * 3} for row in rows]
    page = {
        "entity": {"id": "x", "name": "x"},
        "paths": paths,
        "total": 500,
        "next_offset": 100 + count,
        "notes": [],
    }
    short = bounded(page)
    PathPage.model_validate(short)
    assert len(json.dumps(short)) < 70_000
    assert short["next_offset"] == 100 + len(short["paths"]) > 100
    assert (len(short["paths"]) < count) == (count == 50)
    assert short["paths"][0]["edges"][0]["tail"]["id"].endswith("… (10,002 characters)")
    one = {"id": "x", "score": 1.0, "grounded": True, "types": rows, "properties": {"p": rows}}
    met = [{"asked": "a", "text": "t", "edges": [edge("x", rows[0])]}]
    answers = [
        {**one, "name": name, "paths": [at], "conditions": met} for at, name in enumerate(rows)
    ]
    whole = {
        "question": "q",
        "method": "rank",
        "topic_entities": [],
        "confidence": None,
        "notes": [],
        "answers": answers,
        "paths": paths,
    }
    shorter = bounded(capped(whole, 50))
    Answered.model_validate(shorter)
    assert len(json.dumps(shorter)) < 70_000
    assert all(at < len(shorter["paths"]) for each in shorter["answers"] for at in each["paths"])
    assert bounded(shorter) == shorter


def test_a_call_is_compact_unless_more_is_asked_for() -> None:
    from kgqa.server.mcp import _COMPACT, _compact, bounded

    def edge(number: int) -> dict[str, Any]:
        head, tail = ({"id": f"e{n}", "name": f"Entity {n}"} for n in (number, number + 1))
        fact = {"head": head["id"], "predicate": "next", "tail": tail["id"]}
        return {"head": head, "relation": "next", "tail": tail, "inverse": False, "facts": [fact]}

    paths = [{"text": f"path {n}", "edges": [edge(n), edge(n + 1)]} for n in range(50)]
    found = bounded(_compact({"paths": paths, "total": 50, "next_offset": None}), _COMPACT)
    assert len(json.dumps(found)) <= 4_000
    assert found["next_offset"] == len(found["paths"]) > 5
    assert "facts" not in found["paths"][0]["edges"][0]


def test_no_client_holds_a_connection_without_end(served: Served) -> None:
    """A GET would be a stream on which nothing comes: a few hundred made the server deaf."""
    reply = served.get("/mcp", accept="text/event-stream")
    assert reply.status == 405
    assert served.get("/health").status == 200
