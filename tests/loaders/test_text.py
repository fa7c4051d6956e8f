"""The text loader over replies written by hand: what becomes of them in the KG and the counts."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, GeneralModelError, IngestError, KgqaError, UsageError
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.loaders.text import FAILED, NO_FACT, NO_TAIL, TextLoader, TextOptions
from kgqa.loading.pipeline import load
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kgqa.loading.pipeline import IngestResult

TEXT = """\
The Grey Heron was built in Varde.

Ida Moll sails the GREY HERON. She is from Tolm.

Nothing is said here.

The Grey Heron was built in Varde, so people say.
"""


@dataclass(frozen=True)
class ExtractionReply:
    text: str
    completion_tokens: int = 9


REPLIES = [
    ExtractionReply("Grey Heron | built in | Varde | 1"),
    ExtractionReply(
        "Ida Moll | sails | GREY HERON | 1\nIda Moll | is  From | Tolm | 2\n"
        "Ida Moll | likes | Cake | 1"
    ),
    ExtractionReply("none"),
    ExtractionReply("Grey Heron | Built In | Varde | 1\nGrey Heron | built in | Va", 100),
]


class Model:
    """Answers about the paragraphs of ``TEXT``; ``asked`` keeps the prompts."""

    def __init__(self, replies: list[ExtractionReply | KgqaError] | None = None) -> None:
        self.replies = replies or [*REPLIES]
        self.asked: list[str] = []

    def complete(self, prompt: str, *, max_tokens: int) -> ExtractionReply:
        assert max_tokens == 100
        self.asked.append(prompt)
        place = [number for number, text in enumerate(TEXT.split("\n\n")) if _first(text) in prompt]
        reply = self.replies[place[-1] if place else 0]
        if isinstance(reply, KgqaError):
            raise reply
        return reply

    def load(
        self,
        folder: Path,
        text: str = TEXT,
        complete: Callable[..., ExtractionReply] | None = None,
        **options: int,
    ) -> IngestResult:
        folder.mkdir(exist_ok=True)
        path = folder / "notes.txt"
        path.write_text(text)
        loader = TextLoader(TextOptions(reply_tokens=100, **options), complete or self.complete)
        writer = SqliteWriter(folder / "graph.sqlite")
        return load(loader, [path], "notes", writer, folder, Silent())


def _first(text: str) -> str:
    """Return a paragraph's first sentence as the prompt has it."""
    return f"\n1. {text.strip().partition('. ')[0]}".rstrip(".") + "."


def test_names_are_entities_and_an_edge_keeps_its_sentence(tmp_path: Path) -> None:
    model = Model()
    result = model.load(tmp_path)
    assert len(model.asked) == 4
    assert any(
        asked.endswith("1. Ida Moll sails the GREY HERON.\n2. She is from Tolm.")
        for asked in model.asked
    )
    assert (result.entities, result.edges, result.lines) == (4, 3, 7)
    assert result.rejected == 2
    assert result.dropped == {NO_FACT: 1, "repeated edge": 1}
    rejected = (tmp_path / "rejects.tsv").read_text().splitlines()[1:]
    assert rejected[0].split("\t") == ["notes.txt#2", "3", NO_TAIL, "Ida Moll | likes | Cake | 1"]
    assert rejected[1].startswith("notes.txt#4\t2\t")
    with SqliteStore(tmp_path / "graph.sqlite") as store:
        assert store.info.direction == "both"
        heron = store.details(int(store.keys_of(["grey heron"])[0]))
        assert (heron.name, heron.aliases) == ("Grey Heron", ["GREY HERON"])
        relations = store.relations()
        assert relations.ids == ["built_in", "is_from", "sails"]
        assert relations.names == ["built in", "is from", "sails"]
    with closing(sqlite3.connect(tmp_path / "graph.sqlite")) as file:
        rows = file.execute("SELECT properties FROM edge_properties").fetchall()
    kept = [json.loads(one) for (one,) in rows]
    assert {"sentence": "She is from Tolm.", "paragraph": "notes.txt#2"} in kept
    assert len(kept) == 3


def test_the_kg_is_the_same_in_whatever_order_replies_come(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    Model().load(one, concurrency=1)
    model, last = Model(), threading.Event()

    def late(prompt: str, *, max_tokens: int) -> ExtractionReply:
        """Let the first paragraph's reply come after the last one's."""
        if _first(TEXT) in prompt and "so people say" not in prompt:
            assert last.wait(timeout=60)
        if "so people say" in prompt:
            last.set()
        return model.complete(prompt, max_tokens=max_tokens)

    model.load(other, complete=late, concurrency=2)
    assert (one / "rejects.tsv").read_text() == (other / "rejects.tsv").read_text()
    with SqliteStore(one / "graph.sqlite") as a, SqliteStore(other / "graph.sqlite") as b:
        assert a.info.version == b.info.version


def test_a_failed_call_leaves_out_its_paragraph_and_says_which(tmp_path: Path) -> None:
    replies: list[ExtractionReply | KgqaError] = [*REPLIES]
    replies[1] = GeneralModelError("The server was busy.", "Wait.")
    result = Model(replies).load(tmp_path)
    assert (result.edges, result.dropped[FAILED]) == (1, 1)
    rows = (tmp_path / "rejects.tsv").read_text().splitlines()[1:]
    assert rows[0] == f"notes.txt#2\t0\t{FAILED}\tThe server was busy. Wait."


def test_if_no_call_is_answered_the_calls_error_is_the_loads(tmp_path: Path) -> None:
    down = Model([GeneralModelError("The server cannot be reached.")] * 4)
    for text in (TEXT, "One.\n", "\n\n".join(f"Text {at}." for at in range(99))):
        down.asked.clear()
        with pytest.raises(GeneralModelError, match="cannot be reached"):
            down.load(tmp_path, text)
        assert len(down.asked) < 30


def test_an_error_that_is_not_the_models_ends_the_load(tmp_path: Path) -> None:
    def broken(prompt: str, *, max_tokens: int) -> ExtractionReply:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Model().load(tmp_path, complete=broken)


def test_a_text_without_facts_is_no_kg(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="No text edge"):
        Model([ExtractionReply("none")] * 4).load(tmp_path)
    with pytest.raises(DumpMalformedError, match="No paragraph"):
        Model().load(tmp_path, "\n \n")
    with pytest.raises(UsageError, match="none is named"):
        list(TextLoader().read([tmp_path], None, None, None))  # type: ignore[arg-type]


def test_a_limit_asks_about_the_first_paragraphs_alone(tmp_path: Path) -> None:
    model = Model()
    model.load(tmp_path, limit=2)
    assert len(model.asked) == 2
    loader = TextLoader(TextOptions(limit=2))
    assert loader.count([tmp_path / "notes.txt"]) == 2
