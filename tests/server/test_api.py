"""The HTTP API of a running server: the contract of the command line, errors, limits, ends."""

from __future__ import annotations

import json
import resource
import signal
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.server.forms import Answered, AskForm, Checked, Described, Linked, PathPage, Rows
from tests.server.conftest import QUESTION, QUOTED, SCRIPT, TRIPLES, Served, ready, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model


def test_an_answer_is_that_of_the_library(served: Served) -> None:
    found = served.post("/api/ask", {"question": QUESTION, "method": "rank", "k": 3}).json
    with kgqa.open("services", home=served.home) as kg:
        mine = kg.ask(QUESTION, method="rank", k=3).to_dict()
        with pytest.raises(kgqa.KgqaError, match="more than 1 paths"):
            kg.paths("checkout-api", hops=2, most=1)
    for name in set(mine) - {"timings"}:  # sums of other threads differ in their last digit
        texts = [json.dumps(one[name]) for one in (found, mine)]
        theirs, ours = (
            json.loads(text, parse_float=lambda x: round(float(x), 6)) for text in texts
        )
        assert theirs == ours, name
    assert found["answers"][0]["name"] == "Ada Birch"
    Answered.model_validate(found)


def test_a_question_may_leave_out_what_the_ones_before_said(served: Served) -> None:
    first = served.post("/api/ask", {"question": QUESTION, "method": "rank"}).json
    turn = {
        "question": first["question"],
        "topic_entities": [entity["id"] for entity in first["topic_entities"]],
        "answers": [*(answer["id"] for answer in first["answers"]), "not an id"],
    }
    asked = {"question": "Who owns it?", "method": "rank"}
    then = served.post("/api/ask", {**asked, "after": [turn]}).json
    assert then["question"] == "Who owns checkout-api?"
    assert then["answers"][0]["name"] == "Payments"
    assert then["notes"][0] == '"it" was taken as "checkout-api".'
    assert served.post("/api/ask", asked).status == 422
    assert served.post("/api/ask", {**asked, "after": [{"answers": []}]}).status == 400


def test_a_stream_tells_each_stage_and_ends_with_the_answer(served: Served) -> None:
    asked = {"question": QUESTION, "k": 9}  # as no other test asks, for an answer that is cached
    reply = served.post("/api/ask", asked, accept="text/event-stream")
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in reply.text.split("\n\n") if block.startswith("event")]
    names = [lines[0].removeprefix("event: ") for lines in events]
    data = [json.loads(lines[1].removeprefix("data: ")) for lines in events]
    stages = [name for name in names if name != "loading"]
    assert stages == ["queued", "linked", "searching", "paths", "answer"]
    assert data[names.index("linked")]["topic_entities"][0]["name"] == "checkout-api"
    shown = data[names.index("paths")]["paths"]
    assert [path["text"] for path in data[-1]["paths"]] == [path["text"] for path in shown]


def test_what_needs_no_model(served: Served) -> None:
    linked = served.get("/api/link", {"question": QUESTION})
    assert Linked.model_validate(linked.json).candidates[0].name == "checkout-api"
    assert served.post("/api/link", {"question": QUESTION}).json == linked.json
    both = {"entity": SCRIPT, "hops": 1, "direction": "both"}
    page = PathPage.model_validate(served.get("/api/paths", {**both, "limit": 1}).json)
    assert (page.total, page.next_offset, len(page.paths)) == (2, 1, 1)
    rest = PathPage.model_validate(served.get("/api/paths", {**both, "offset": 1}).json)
    assert rest.next_offset is None
    tails = {path.edges[-1].tail.name for path in (*page.paths, *rest.paths)}
    assert tails == {"Payments", QUOTED}
    for statement in (" -> ".join(TRIPLES[0]), list(TRIPLES[0]), [list(TRIPLES[0])]):
        checked = served.post("/api/check", {"statement": statement}).json
        assert Checked.model_validate(checked).found
    wrong = served.get("/api/check", {"statement": "Payments -> ownedBy -> checkout-api"}).json
    assert wrong["found"] is False
    assert served.get("/api/entities", {"prefix": "che"}).json["entities"][0] == {
        "id": "checkout-api",
        "name": "checkout-api",
        "edges": 3,
    }
    described = Described.model_validate(served.get("/api/schema").json)
    assert (described.kg, described.edges) == ("services", len(TRIPLES))
    found = Rows.model_validate(
        served.post("/api/query", {"plan": "* ownedBy> * | give count ownedBy"}).json
    )
    assert found.rows[0]["values"] == [4]
    assert served.post("/api/query", {"plan": "Nothing at all"}).status == 400
    kgs = served.get("/api/kgs").json
    assert [kg["name"] for kg in kgs["kgs"]] == ["services"]
    assert "rank" in {method["name"] for method in kgs["methods"]}
    assert served.get("/health").json["status"] == "ok"
    status = served.get("/api/status").json
    assert status["kgs"][0]["edges"] == len(TRIPLES)


def test_the_description_has_every_route_and_option(served: Served) -> None:
    described = served.get("/openapi.json").json
    assert described["openapi"].startswith("3.1")
    text = json.dumps(described)
    for name in set(text.split('"#/components/schemas/')[1:]):
        assert name.split('"')[0] in described["components"]["schemas"]
    ask = described["components"]["schemas"]["AskForm"]
    assert {*AskForm.model_fields, "k", "hops", "refuse_above"} <= set(ask["properties"])
    for path, operations in described["paths"].items():
        reply = served.get(path) if "get" in operations else served.post(path, {})
        assert reply.status in (200, 400, 404), path


BAD = [
    ("/api/ask", b"{", 400, "not JSON"),
    ("/api/ask", b"[" * 100_000, 400, ""),
    ("/api/ask", b"[1]", 400, "no object"),
    ("/api/ask", b"\xff\xfe", 400, "not JSON"),
    ("/api/ask", {}, 400, "question"),
    ("/api/ask", {"question": ""}, 400, "question"),
    ("/api/ask", {"question": "   "}, 422, "empty"),
    ("/api/ask", {"question": 7}, 400, "question"),
    ("/api/ask", {"question": "x" * 2_001}, 400, "question"),
    ("/api/ask", {"question": "where is Zaphod Qwxyz"}, 422, "Zaphod"),
    ("/api/ask", {"question": QUESTION, "kg": "nothing"}, 404, "nothing"),
    ("/api/ask", {"question": QUESTION, "kg": "../services"}, 404, "services"),
    ("/api/ask", {"question": QUESTION, "method": "magic"}, 400, "magic"),
    ("/api/ask", {"question": QUESTION, "k": 0}, 400, "`k`"),
    ("/api/ask", {"question": QUESTION, "k": 101}, 400, "100"),
    ("/api/ask", {"question": QUESTION, "hops": "far"}, 400, "`hops`"),
    ("/api/ask", {"question": QUESTION, "hop": 2}, 400, "`hops`"),
    ("/api/ask", {"question": QUESTION, "ranker": "/etc"}, 400, "does not allow"),
    *(
        ("/api/ask", {"question": QUESTION, "method": method, name: "none"}, 400, "does not allow")
        for method, name in (
            ("kg-cot", "reasoner"),
            ("rank", "ranker"),
            ("rank", "encoder"),
            ("gcr", "model"),
            ("rank", "general_model"),
        )
    ),
    ("/api/ask", {"question": QUESTION, "method": "dog", "cap": 1_000_000}, 400, "300000"),
    ("/api/ask", {"question": QUESTION, "method": "gcr", "budget": 10**12}, 400, "4096"),
    ("/api/ask", b'{"question": "x", "method": "gcr", "length_penalty": NaN}', 400, ""),
    ("/api/ask", {"question": QUESTION, "method": "gcr", "length_penalty": 1e308}, 400, ""),
    ("/api/check", {"statement": {"edges": 5}}, 400, ""),
    ("/v1/chat/completions", {"model": "services", "messages": [], "stream_options": "x"}, 400, ""),
    ("/v1/chat/completions", {"model": "services", "messages": [], "tools": [{}]}, 400, "tools"),
    ("/api/ask", {"question": QUESTION, "entities": ["Nobody"]}, 404, "Nobody"),
    ("/api/ask", {"question": QUESTION, "entities": "Ada"}, 400, "`entities`"),
    ("/api/ask", {"question": "\ud800 \x00"}, 400, "question"),
    ("/api/ask", {"question": ""}, 400, "it should have at least 1 character"),
    ("/api/ask", {"question": "\x00 \u202e"}, 422, ""),
    ("/api/paths", {"entity": "Ada Birch", "hops": 9}, 400, "`hops`"),
    ("/api/check", {"statement": "nonsense"}, 400, "statement"),
    ("/api/check", {"statement": "a -> b -> " * 3_000 + "c"}, 400, "at most 20000"),
    ("/api/nothing", {}, 404, "/api/nothing"),
    ("/health", {}, 405, "not allowed"),
]


@pytest.mark.parametrize(("path", "body", "status", "said"), BAD)
def test_wrong_input_gets_a_sentence(
    served: Served, path: str, body: object, status: int, said: str
) -> None:
    reply = served.post(path, body)
    assert reply.status == status, reply.text
    error = reply.json["error"]
    assert said in f"{error['message']} {error['hint']}"
    assert error["code"] == status
    assert "Traceback" not in reply.text


def test_who_may_ask(served: Served) -> None:
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"origin": served.url}, 200),
    ):
        reply = served.post("/api/ask", {"question": QUESTION}, **headers)
        assert reply.status == status, (headers, reply.text)
    page = served.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]


def test_a_body_has_an_end_whether_it_says_so_or_not(served: Served) -> None:
    host, _, port = served.url.removeprefix("http://").partition(":")
    head = f"POST /api/ask HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}Content-Length: 1000001\r\n\r\n".encode())
        assert b" 413 " in connection.recv(100)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(20):
                connection.sendall(b"186a0\r\n" + b" " * 100_000 + b"\r\n")
        except OSError:
            pass  # it was refused before all was sent
        assert b" 413 " in connection.recv(100)


def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(served: Served) -> None:
    host, _, port = served.url.removeprefix("http://").partition(":")
    head = f"POST /api/ask HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}{both}".encode())
        received = b""
        while part := connection.recv(1_000):  # until the server ends it
            received += part
    assert b" 400 " in received


def test_a_key_guards_all_but_the_page(home: Path, model_cache: Path) -> None:
    named = ("--allowed-host", "kg.example")
    with serving(home, model_cache, *named, KGQA_API_KEY="secret") as server:
        for path in ("/", "/about", "/app.js", "/health", "/ready", "/favicon.ico"):
            assert server.get(path).status in (200, 503), path  # not ready yet, perhaps
        for path in ("/api/kgs", "/v1/models", "/mcp", "/openapi.json"):
            assert server.get(path).status == 401, path
        assert server.get("/api/kgs", authorization="Bearer wrong").status == 401
        assert server.get("/api/kgs", authorization="Bearer sécret").status == 401
        assert server.get("/api/kgs", authorization="Bearer secret").status == 200
        assert server.get("/api/kgs", x_api_key="secret").status == 200
        proxied = {"host": "kg.example", "origin": "https://kg.example", "x_api_key": "secret"}
        assert server.get("/api/kgs", **proxied).status == 200
        assert "jsonrpc" in server.post("/mcp", {}, accept="application/json", **proxied).text
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=120) == 0


@pytest.mark.parametrize(("flags", "files"), [(("--max-connections", "20"), 0), ((), 120)])
def test_silent_connections_and_half_requests_do_not_end_the_server(
    home: Path, model_cache: Path, flags: tuple[str, ...], files: int
) -> None:
    """``files``: that the server may open, which connections at one moment use up."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files or before[0], before[1]))
        try:
            server = held.enter_context(serving(home, model_cache, *flags))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        ready(server)
        host, _, port = server.url.removeprefix("http://").partition(":")
        opened = []
        server.process.send_signal(signal.SIGSTOP)
        try:
            for number in range(120):
                one = socket.create_connection((host, int(port)), timeout=60)
                opened.append(held.enter_context(one))
                if number % 2:
                    one.sendall(b"POST /api/ask HTTP/1.1\r\nHost: local")
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert server.get("/health").status == 200
        assert sum(map(is_closed, opened)) >= 100
        assert server.post("/api/ask", {"question": QUESTION}).status == 200


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
