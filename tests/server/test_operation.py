"""What whoever runs a server needs: keys and limits, a log, metrics, probes, a description."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

import kgqa
from kgqa.errors import UsageError
from kgqa.server import forms
from kgqa.server.faults import advice
from kgqa.server.guard import Keys
from tests.server.conftest import QUESTION, Served, ready, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANN, BOB, ALL = "ann's key of 20 chars", "bob's key of 20 chars", "the key that opens all"
KEYS = f"""
[ann]
key = "{ANN}"
kgs = ["services"]
per_minute = 3
[bob]
key = "{BOB}"
kgs = ["other"]
"""


def bearer(key: str) -> Any:
    return {"authorization": f"Bearer {key}"}


def metrics(server: Served, **headers: Any) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(server.get("/metrics", **headers).text):
        for sample in family.samples:
            found[sample.name, *sample.labels.values()] = sample.value
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Served]:
    """A server of two KGs with a file of keys; its log is in ``log``."""
    folder: Path = tmp_path_factory.mktemp("shared")
    for name, triple in (("services", "checkout-api\tonCallEngineer\tAda"), ("other", "a\tr\tb")):
        (folder / "kg.tsv").write_text(f"{triple}\n")
        kgqa.ingest("triples", folder / "kg.tsv", kg=name, home=folder / "home").close()
    (folder / "keys.toml").write_text(KEYS)
    given = ("--keys", str(folder / "keys.toml"), "--access-log", "json", "--workers", "1")
    with (
        (folder / "log").open("w") as log,
        serving(folder / "home", model_cache, *given, stderr=log, KGQA_API_KEY=ALL) as server,
    ):
        ready(server)
        yield server


def test_a_key_opens_its_kgs_alone(shared: Served) -> None:
    def kgs(key: str) -> list[str]:
        return [kg["name"] for kg in shared.get("/api/kgs", **bearer(key)).json["kgs"]]

    assert kgs(ALL) == ["other", "services"]
    assert kgs(ANN) == ["services"]
    assert kgs(BOB) == ["other"]
    for key in ("", "nobody's key, of 25 chars"):
        assert shared.get("/api/kgs", **bearer(key)).status == 401
    asked = {"question": "a", "kg": "services"}
    for path in ("/api/ask", "/api/link"):
        assert shared.post(path, asked, **bearer(BOB)).status == 404
    chat = {"model": "services", "messages": [{"role": "user", "content": "a"}]}
    assert shared.post("/v1/chat/completions", chat, **bearer(BOB)).status == 404
    models = shared.get("/v1/models", **bearer(BOB)).json["data"]
    assert {model["id"].partition("/")[0] for model in models} == {"other"}
    names = [kg["name"] for kg in shared.get("/api/status", **bearer(BOB)).json["kgs"]]
    assert names == ["other"]
    call = {"name": "link", "arguments": {"question": "checkout-api", "kg": "services"}}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream"}
    said = {key: shared.post("/mcp", mcp, **bearer(key), **accept).text for key in (ANN, BOB)}
    assert "no KG named services" in said[BOB]
    assert "no KG named" not in said[ANN]


def test_a_client_has_its_own_limit(shared: Served) -> None:
    with ThreadPoolExecutor(5) as pool:  # within the minute, however busy the machine is
        asked = [{"question": QUESTION, "k": n} for n in range(1, 6)]
        found = pool.map(lambda one: shared.post("/api/ask", one, **bearer(ANN)), asked)
        replies = sorted(found, key=lambda one: one.status)
    assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
    assert "ann" in replies[-1].json["error"]["message"]
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 60
    other = shared.post("/api/ask", {"question": "what is r of a", "kg": "other"}, **bearer(BOB))
    assert other.status != 429


def test_requests_are_named_counted_and_logged(shared: Served) -> None:
    shared.get("/nothing/https://me:secret@host/x", **bearer(ALL))
    before = metrics(shared, **bearer(ALL))
    assert shared.get("/metrics").status == 401
    reply = shared.get("/api/kgs?secret=question", x_request_id="mine-1", **bearer(BOB))
    assert reply.headers["x-request-id"] == "mine-1"
    made = shared.get("/nothing/%0Aforged", x_request_id="no\tgood", **bearer(ALL))
    assert re.fullmatch("[0-9a-f]{32}", made.headers["x-request-id"])
    after = metrics(shared, **bearer(ALL))
    counted = "kgqa_requests_total"
    assert after[counted, "/api/kgs", "200"] == before.get((counted, "/api/kgs", "200"), 0) + 1
    assert after[counted, "other", "404"] == before.get((counted, "other", "404"), 0) + 1
    assert after["kgqa_ready",] == 1
    assert after["process_resident_memory_bytes",] > 0
    lines = [
        json.loads(line)
        for line in (shared.home.parent / "log").read_text().splitlines()
        if line.startswith("{")
    ]
    (mine,) = [line for line in lines if line["id"] == "mine-1"]
    assert (mine["client"], mine["status"], mine["path"]) == ("bob", 200, "/api/kgs")
    assert "secret" not in json.dumps(lines)
    assert any(line["path"] == "/nothing/%0Aforged" for line in lines)


def test_probes_need_no_key(shared: Served) -> None:
    assert shared.get("/health").json["status"] == "ok"
    assert shared.get("/ready").json["ready"]
    assert shared.get("/openapi.json").status == 401


def test_a_file_of_keys_is_refused_without_showing_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    for text in ("x", "", "a = 1", '[a]\nkey = "tooshort-secret"', f'[a]\nkey="{ANN}"\nb=1'):
        file.write_text(text)
        with pytest.raises(UsageError, match="keys") as error:
            Keys(None, file)
        assert "secret" not in str(error.value)
        assert ANN not in str(error.value)
    file.write_text(f'[a]\nkey="{ANN}"\n[b]\nkey="{ANN}"')
    with pytest.raises(UsageError, match="same key"):
        Keys(None, file)
    assert Keys().client("anything") is not None
    assert Keys(ALL).client("") is None


def test_every_operation_is_described_with_what_it_gives(served: Served) -> None:
    described = served.get("/openapi.json").json
    operations = [value for path in described["paths"].values() for value in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        (content,) = list(operation["responses"]["200"]["content"].values())[:1]
        assert content["schema"], operation["operationId"]
    replies: list[tuple[Any, Any]] = [
        (forms.Served, served.get("/api/kgs")),
        (forms.Status, served.get("/api/status")),
        (forms.Suggestions, served.get("/api/entities", {"prefix": "che"})),
        (forms.Examples, served.get("/api/examples")),
        (forms.Health, served.get("/health")),
        (forms.State, served.get("/ready")),
    ]
    for shape, reply in replies:
        TypeAdapter(shape).validate_json(reply.text, strict=True)


def test_advice_is_for_who_asks_over_http() -> None:
    assert advice('Look for it with: kgqa link "a question or a name".') == (
        "Look for it with: GET /api/link?question=…."
    )
    assert advice("Load one with `kgqa ingest freebase`.").startswith("For whoever runs")
    assert advice("Set `k`.") == "Set `k`."


def test_what_was_sent_is_not_repeated_whole(served: Served) -> None:
    for body in ({"question": "a", "method": "x" * 9_000}, {"question": "a", "y" * 9_000: 1}):
        reply = served.post("/api/ask", body)
        assert reply.status == 400
        assert len(reply.text) < 2_000


def test_the_end_of_a_server_is_logged(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kgqa", "serve", "--port", "0", "--json", "--home", str(home)]
    command += ["--end-seconds", "5"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
    assert "kgqa has stopped." in (tmp_path / "log").read_text().splitlines()[-1]


def test_more_than_a_client_may_ask_at_a_time_is_refused(
    home: Path, model_cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "keys.toml").write_text(f'[ann]\nkey = "{ANN}"\nquestions = 1')
    given = serving(home, model_cache, "--keys", str(tmp_path / "keys.toml"))
    with given as server, ThreadPoolExecutor(4) as pool:  # whose models are still loading
        asked = [{"question": QUESTION, "k": n} for n in range(1, 5)]
        found = pool.map(lambda one: server.post("/api/ask", one, **bearer(ANN)), asked)
        assert sorted(one.status for one in found) == [200, 429, 429, 429]
