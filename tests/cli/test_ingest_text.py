"""`kgqa ingest text` with a real server, whose small model writes few lines that are triplets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.loaders.text import TextOptions, prompt
from kgqa.models.general import FILE_NAME, CallCache, Completion, call_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa
    from tests.conftest import OpenAIServer

NOTES = """\
# Boats

The Grey Heron was built in Varde.

The Marsh Lark was built in Aven. It was designed by Ona Reed.
"""
NOWHERE = "http://127.0.0.1:9/v1"
KEYS = {"kg", "lines", "entities", "edges", "mediators", "rejected", "rejects_file", "seconds"}
HERON = ("Boats", ["The Grey Heron was built in Varde."])
LARK = ("Boats", ["The Marsh Lark was built in Aven.", "It was designed by Ona Reed."])


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    return path


def known(folder: Path, paragraph: tuple[str, list[str]], reply: str) -> None:
    """Keep a reply as that of an earlier call."""
    messages = [{"role": "user", "content": prompt(*paragraph)}]
    wanted = {"temperature": 0.0, "max_tokens": TextOptions().reply_tokens}
    with CallCache(folder / FILE_NAME) as cache:
        cache.put(call_key(NOWHERE, "m", messages, wanted), "m", Completion(reply, 90, 20))


@pytest.mark.model
def test_a_small_model_is_asked_once_and_what_it_writes_is_counted(
    kgqa: Kgqa, openai_server: OpenAIServer, notes: Path, tmp_path: Path
) -> None:
    env = {"OPENAI_BASE_URL": openai_server.base_url, "KGQA_CACHE": str(tmp_path / "cache")}
    flags = ("--home", tmp_path, "--general-model", openai_server.model, "--reply-tokens", "16")
    for _ in range(2):  # the second time no call is made
        done = kgqa("ingest", "text", notes, *flags, **env)
        # the model retells the text: whatever it writes, no line of it is a triplet
        assert "No text edge was found in notes.md" in done.error
        rows = (tmp_path / "notes" / "rejects.tsv").read_text().splitlines()[1:]
        assert {row.split("\t")[0] for row in rows} == {"notes.md#1", "notes.md#2"}
        assert f"({len(rows)} lines; rejected: " in done.error
        with CallCache(tmp_path / "cache" / FILE_NAME) as cache:
            assert len(cache) == 2


def test_a_kg_of_replies_and_the_paragraph_whose_call_failed(
    kgqa: Kgqa, notes: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    env = {"OPENAI_BASE_URL": NOWHERE, "KGQA_CACHE": str(cache)}
    flags = ("--home", tmp_path / "home", "--general-model", "m")
    lark = "Marsh Lark | built in | Aven | 1\nMarsh Lark | designed by | Ona Reed | 2\nSo there."
    known(cache, LARK, lark)
    done = kgqa("ingest", "text", notes, "--json", *flags, **env)
    assert done.code == 2, "loaded, and not whole"
    first = json.loads(done.out)
    assert set(first) >= KEYS
    assert (first["kg"], first["paragraphs"], first["failed"]) == ("notes", 2, 1)
    assert (first["calls"], first["cached"]) == (1, 1)
    assert first["tokens"] == {"prompt": 0, "completion": 0}
    assert (first["lines"], first["entities"], first["edges"], first["rejected"]) == (3, 3, 2, 2)
    assert "1 of 2 paragraphs have no reply from m" in done.err
    rejected = (tmp_path / "home" / "notes" / "rejects.tsv").read_text().splitlines()[1:]
    assert rejected[0].startswith("notes.md#1\t0\tparagraph whose call failed\tThe general model")
    assert rejected[1] == "notes.md#2\t3\tnot head | relation | tail | sentence\tSo there."
    # the call that failed is made again, the other is known
    known(cache, HERON, "Grey Heron | built in | Varde | 1")
    done = kgqa("ingest", "text", notes, "--json", *flags, **env)
    assert (done.json["failed"], done.json["calls"], done.json["cached"]) == (0, 0, 2)
    assert (done.json["edges"], done.json["entities"]) == (3, 5)
    walked = kgqa("paths", "Ona Reed", "--home", tmp_path / "home", "--json").json["paths"]
    assert [path["text"] for path in walked] == [
        "Ona Reed -> ^designed by -> Marsh Lark",
        "Ona Reed -> ^designed by -> Marsh Lark -> built in -> Aven",
    ]
    shown = kgqa("ingest", "text", notes, *flags, **env)
    assert "5 entities, 3 edges from 2 paragraphs" in shown.out


def test_a_limit_takes_the_first_paragraphs(kgqa: Kgqa, notes: Path, tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": NOWHERE, "KGQA_CACHE": str(tmp_path)}
    known(tmp_path, HERON, "Grey Heron | built in | Varde | 1")
    flags = ("--home", tmp_path, "--general-model", "m", "--limit", "1", "--json")
    done = kgqa("ingest", "text", notes, "--kg", "few", *flags, **env).json
    assert (done["kg"], done["paragraphs"], done["edges"]) == ("few", 1, 1)


def test_no_general_model_is_one_line(kgqa: Kgqa, notes: Path, tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": NOWHERE, "OPENAI_API_KEY": "sk-x"}
    error = kgqa("ingest", "text", notes, "--home", tmp_path, **env).error
    assert "none is named" in error
    assert "--general-model (or KGQA_GENERAL_MODEL)" in error
    assert not (tmp_path / "notes").exists()


def test_a_server_that_is_not_there_is_the_error(kgqa: Kgqa, notes: Path, tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": NOWHERE, "KGQA_CACHE": str(tmp_path / "cache")}
    flags = ("--home", tmp_path, "--general-model", "m")
    error = kgqa("ingest", "text", notes, *flags, **env).error
    assert "http://127.0.0.1:9/v1 cannot be reached" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("text", "--general-model", "m"), "needs a SOURCE"),
        (("text", "none.md", "--general-model", "m"), "none.md does not exist"),
        (("text", "-", "--general-model", "m", "--kg", "x"), "not read from standard input"),
        (
            ("text", "a.md", "--general-model", "m", "--columns", "a,b"),
            "--columns does not belong to the loader text",
        ),
        (("freebase", "--limit", "3"), "--limit does not belong to the loader freebase"),
        (
            ("freebase", "--set", "cache_calls=false"),
            "cache_calls=… does not belong to the loader freebase",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    kgqa: Kgqa, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    env = {"OPENAI_BASE_URL": NOWHERE}
    assert said in kgqa("ingest", *arguments, "--home", tmp_path, **env).error
