"""Settings of this room's property tests, and a small KG with real paths to measure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kgqa.graph.model import Kind
from kgqa.graph.sqlite import SqliteStore
from kgqa.graph.sqlite_write import SqliteWriter
from kgqa.progress import Silent
from tests.graph.tables import entity, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ENTITIES = [
    entity("e.anna", "Anna"),
    entity("e.bert", "Bert", "Bertie"),
    entity("e.bert2", "Bert"),
    entity("e.oslo", "Oslo"),
    entity("e.norway", "Norway"),
    entity("e.sweden", "Sweden"),
    entity("e.alone", "Alone"),
    entity("m.job", kind=Kind.MEDIATOR),
    entity("e.clerk", "Clerk"),
    entity('"1984"^^xsd:gYear', "1984", kind=Kind.VALUE),
]
EDGES = [
    ("e.anna", "born_in", "e.oslo"),
    ("e.anna", "friend", "e.bert"),
    ("e.anna", "friend", "e.bert2"),
    ("e.oslo", "in", "e.norway"),
    ("e.anna", "visited", "e.norway"),
    ("e.anna", "visited", "e.sweden"),
    ("e.anna", "job", "m.job"),
    ("m.job", "title", "e.clerk"),
    ("e.anna", "born_when", '"1984"^^xsd:gYear'),
    ("e.clerk", "alone", "e.alone"),
]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """The KG above: Anna, two Berts, a mediator and a value."""
    path = tmp_path_factory.mktemp("small") / "graph.sqlite"
    SqliteWriter(path).write(tables_of(ENTITIES, EDGES, name="small"), Silent())
    with SqliteStore(path, name="small") as store:
        yield store


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data; a test that asks for it is skipped where there is none."""
    named = os.environ.get("KGQA_SHARED", Path(__file__).resolve().parents[3] / "shared")
    folder = Path(named) / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}; KGQA_SHARED names the one above it")
    return folder
