"""Keys: each opens its KGs, and nothing that one client is given comes to another."""

from __future__ import annotations

import json
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.api import Home
from kgqa.errors import KgqaError, UsageError
from kgqa.progress import Silent
from kgqa.server.guard import ANYBODY, NOBODY, Client, Keys, asking
from kgqa.server.kgs import ServedKgs
from tests.server.conftest import Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL, OPEN, HIDDEN = "key-of-the-owner-1", "key-of-one-graph-1", "clé-d'un-autre-gräf"


@pytest.fixture(scope="module")
def two_kgs(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("rights")
    for name in ("public", "secretive"):
        file = folder / f"{name}.tsv"
        file.write_text(f"{name} head\tknows\t{name} tail\n")
        kgqa.ingest("triples", file, kg=name, home=folder / "home", progress=Silent()).close()
    keys = folder / "keys.toml"
    keys.write_text(
        f'[owner]\nkey = "{ALL}"\n[one]\nkey = "{OPEN}"\nkgs = ["public"]\n'
        f'[other]\nkey = "{HIDDEN}"\nkgs = ["secretive"]\n'
    )
    keys.chmod(0o600)
    with serving(folder / "home", model_cache, "--keys", str(keys), "--workers", "1") as server:
        yield server


def test_keys_are_replaced_and_taken_away_while_serving(two_kgs: Served) -> None:
    """The next request has the file as it is; one that cannot be used opens nothing."""
    file = two_kgs.home.parent / "keys.toml"
    before, after = file.read_text(), "key-of-one-graph-2"

    def opens(*keys: str) -> list[int]:
        return [two_kgs.get("/api/kgs", x_api_key=key).status for key in keys]

    try:
        assert opens(OPEN, after) == [200, 401]
        file.write_text(before.replace(OPEN, after))  # rotated
        assert opens(OPEN, after, ALL) == [401, 200, 200]
        file.write_text(before.partition("[one]")[0])  # revoked
        assert opens(OPEN, after, ALL) == [401, 401, 200]
        for broken in ("", "[owner", f'[owner]\nkey = "{ALL}"\n[two]\nkey = "{ALL}"\n'):
            file.write_text(broken)
            assert opens(ALL, "") == [401, 401]
        file.unlink()
        assert opens(ALL, "") == [401, 401]
    finally:
        file.write_text(before)
    assert opens(ALL, OPEN, after) == [200, 200, 401]


@pytest.mark.parametrize("path", ["/api/status", "/api/kgs", "/v1/models", "/ready", "/health"])
def test_a_key_of_one_kg_is_told_of_no_other(two_kgs: Served, path: str) -> None:
    whole = two_kgs.get(path, x_api_key=ALL)  # which fills whatever is cached
    assert whole.status in (200, 503)
    assert "secretive" not in two_kgs.get(path, x_api_key=OPEN).text
    assert "secretive" not in two_kgs.get(path).text  # without a key


def test_a_kg_that_cannot_be_read_is_nothing_to_a_key_of_another(tmp_path: Path) -> None:
    for name in ("public", "secretive"):
        kgqa.ingest("triples", [("a", "r", "b")], kg=name, home=tmp_path, progress=Silent()).close()
    (tmp_path / "secretive" / "graph.sqlite").write_bytes(b"x" * 5_000)
    served = ServedKgs(lambda kg, **shared: Home(tmp_path, kg=kg, **shared))

    def name_or_error(name: str | None, *opens: str) -> str:
        asking.set(Client(key="-" * 16, kgs=opens))
        try:
            return served.named(name)
        except KgqaError as error:
            return str(error)

    def every_case() -> None:
        assert name_or_error(None, "public") == name_or_error("public", "public") == "public"
        for name in ("secretive", "no such one"):
            assert name_or_error(name, "public").startswith(f"There is no KG named {name} here.")
        assert name_or_error("secretive", "secretive").startswith("secretive cannot be read now.")
        assert str(tmp_path) not in name_or_error("secretive", "secretive")
        assert "not an SQLite file" in name_or_error("secretive")  # whoever may see all

    copy_context().run(every_case)


def test_the_status_of_a_bound_key_has_no_folder_of_the_server(two_kgs: Served) -> None:
    assert two_kgs.get("/api/status", x_api_key=ALL).json["home"] == str(two_kgs.home)
    bound = two_kgs.get("/api/status", x_api_key=OPEN).json
    assert [kg["name"] for kg in bound["kgs"]] == ["public"]
    assert str(two_kgs.home) not in json.dumps(bound)


def test_a_key_beyond_ascii_opens_what_it_is_for(two_kgs: Served) -> None:
    for encoding in ("utf-8", "latin-1"):
        sent = HIDDEN.encode(encoding).decode("latin-1")  # as a header carries bytes
        kgs = two_kgs.get("/api/kgs", x_api_key=sent)
        assert [kg["name"] for kg in kgs.json["kgs"]] == ["secretive"], encoding


def test_no_client_of_the_file_counts_as_another(tmp_path: Path) -> None:
    file, own = tmp_path / "keys.toml", "key-of-the-server-1"
    file.write_text(f'[key]\nkey = "{ALL}"\n[anybody]\nkey = "{OPEN}"\n')
    keys = Keys(own, file)
    found = [keys.client(key) for key in (own, ALL, OPEN)]
    assert len({client.name for client in found if client} - {ANYBODY.name, NOBODY.name}) == 3
    for name in ("KGQA_API_KEY", '""'):
        file.write_text(f'[{name}]\nkey = "{ALL}"\n')
        with pytest.raises(UsageError, match="may be called"):
            Keys(own, file)
    file.write_text(f'[key]\nkey = "{own}"\nkgs = ["public"]\n')
    with pytest.raises(UsageError, match="has the key of KGQA_API_KEY") as error:
        Keys(own, file)
    assert own not in str(error.value)


def test_a_file_of_keys_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f'[one]\nkey = "{OPEN}"\n')
    for mode, said in ((0o600, False), (0o640, True), (0o644, True)):
        caplog.clear()
        file.chmod(mode)
        Keys(None, file)
        assert ("readable" in caplog.text) is said
        assert OPEN not in caplog.text


BAD = "\ud800"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/ask", {"question": f"who {BAD}"}),
        ("/api/ask", {"question": "who", "kg": BAD}),
        ("/api/ask", {"question": "who", "method": BAD}),
        ("/api/ask", {"question": "who", "choices": [BAD]}),
        ("/api/ask", {"question": "who", "entities": [BAD]}),
        ("/api/ask", {"question": "who", BAD: 1}),
        ("/api/check", {"statement": [BAD, "r", "t"]}),
        ("/api/query", {"plan": f"A | give {BAD}"}),
        ("/api/link", {"question": BAD}),
        ("/api/approved", {"question": BAD, "answers": []}),
        ("/v1/chat/completions", {"model": BAD, "messages": []}),
    ],
)
def test_half_a_surrogate_pair_is_a_fault_of_the_client(
    two_kgs: Served, path: str, body: dict[str, object]
) -> None:
    reply = two_kgs.post(path, body, x_api_key=ALL)
    assert reply.status == 400, reply.text
    assert "surrogate" in reply.json["error"]["message"]


def test_a_question_with_other_line_ends_harms_no_feedback(two_kgs: Served) -> None:
    for mark in "\u2028\u2029\x85\x0b\x1e":
        body = {"kg": "public", "question": f"one{mark}two", "answers": ["public tail"]}
        assert two_kgs.post("/api/approved", body, x_api_key=ALL).status == 200
    kept = two_kgs.get("/api/approved", {"kg": "public"}, x_api_key=ALL).text
    questions = [json.loads(line)["question"] for line in kept.splitlines()]
    assert questions == [f"one{mark}two" for mark in "\u2028\u2029\x85\x0b\x1e"]


def test_a_damaged_line_of_feedback_is_passed_over(two_kgs: Served) -> None:
    body = {"kg": "secretive", "question": "first", "answers": ["a"]}
    assert two_kgs.post("/api/approved", body, x_api_key=ALL).status == 200
    file = next(two_kgs.home.rglob("approved.jsonl"), None)
    files = [file for file in two_kgs.home.rglob("approved.jsonl") if "secretive" in str(file)]
    assert files, file
    with files[0].open("ab") as stream:
        for damaged in ('"topic_entities": null', '"answers": "a"', '"wrong": [1]'):
            stream.write(b'{"question": "second", ' + damaged.encode() + b"}\n")
        stream.write(b'{"question": "to')
    reply = two_kgs.post("/api/approved", {**body, "question": "third"}, x_api_key=ALL)
    assert reply.json["kept"] == 2
