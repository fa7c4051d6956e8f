"""The text loader over replies written by hand: what becomes of them in the KG and the counts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, GeneralModelError, IngestError
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.loaders.text import FAILED, NO_FACT, Call, Reply, TextLoader, TextOptions
from kgqa.loaders.text_triplets import NO_TAIL
from kgqa.loading.pipeline import ingest
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kgqa.errors import KgqaError
    from kgqa.loading.pipeline import IngestResult

TEXT = """\
The Grey Heron was built in Varde.

Ida Moll sails the GREY HERON. She is from Tolm.

Nothing is said here.

The Grey Heron was built in Varde, so people say.
"""
REPLIES = [
    Reply("Grey Heron | built in | Varde | 1"),
    Reply(
        "Ida Moll | sails | GREY HERON | 1\nIda Moll | is  From | Tolm | 2\n"
        "Ida Moll | likes | Cake | 1"
    ),
    Reply("none"),
    Reply("Grey Heron | Built In | Varde | 1\nGrey Heron | built in | Va", cut=True),
]


def asking(
    replies: list[Reply | KgqaError], asked: list[str], *, backwards: bool = False
) -> TextLoader:
    def ask(calls: Iterable[Call]) -> Iterator[tuple[Call, Reply | KgqaError]]:
        made = list(calls)
        asked.extend(call.prompt for call in made)
        for call in reversed(made) if backwards else made:
            yield call, replies[call.number]

    return TextLoader(ask, TextOptions("m"))


def load(loader: TextLoader, folder: Path, text: str = TEXT) -> IngestResult:
    folder.mkdir(exist_ok=True)
    path = folder / "notes.txt"
    path.write_text(text)
    writer = SqliteWriter(folder / "graph.sqlite")
    return ingest(loader, [path], "notes", writer, folder, Silent())


def test_names_are_entities_and_an_edge_keeps_its_sentence(tmp_path: Path) -> None:
    asked: list[str] = []
    result = load(asking(REPLIES, asked), tmp_path)
    assert len(asked) == 4
    assert asked[1].endswith("1. Ida Moll sails the GREY HERON.\n2. She is from Tolm.")
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
    for folder, backwards in ((one, False), (other, True)):
        load(asking(REPLIES, [], backwards=backwards), folder)
    assert (one / "rejects.tsv").read_text() == (other / "rejects.tsv").read_text()
    with SqliteStore(one / "graph.sqlite") as a, SqliteStore(other / "graph.sqlite") as b:
        assert a.info.version == b.info.version


def test_a_failed_call_leaves_out_its_paragraph_and_says_which(tmp_path: Path) -> None:
    replies = [*REPLIES]
    replies[1] = GeneralModelError("The server was busy.", "Wait.")
    result = load(asking(replies, []), tmp_path)
    assert (result.edges, result.dropped[FAILED]) == (1, 1)
    rows = (tmp_path / "rejects.tsv").read_text().splitlines()[1:]
    assert rows[0] == f"notes.txt#2\t0\t{FAILED}\tThe server was busy. Wait."


def test_where_no_call_is_answered_the_calls_error_is_the_loads(tmp_path: Path) -> None:
    down = GeneralModelError("The server cannot be reached.")
    for text in (TEXT, "One. \n\n" * 1, "\n\n".join(f"Text {at}." for at in range(30))):
        with pytest.raises(GeneralModelError, match="cannot be reached"):
            load(asking([down] * 40, []), tmp_path, text)


def test_a_text_without_facts_is_no_kg(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="No text edge"):
        load(asking([Reply("none")] * 4, []), tmp_path)
    with pytest.raises(DumpMalformedError, match="no paragraph"):
        load(asking([], []), tmp_path, "\n \n")


def test_a_limit_asks_about_the_first_paragraphs_alone(tmp_path: Path) -> None:
    asked: list[str] = []
    loader = asking(REPLIES, asked)
    loader.options = TextOptions("m", limit=2)
    load(loader, tmp_path)
    assert len(asked) == 2
    assert loader.count([tmp_path / "notes.txt"]) == 2
