"""The tiny model, loaded again for each training, a small KG and a domain that it can learn."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.training.runs import PRACTICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

PEOPLE = 20


@pytest.fixture
def load_tiny(tiny_folder: Path, tmp_path: Path) -> Callable[[], KgLLM]:
    """Loads the tiny model again: training changes it."""
    from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
    from kgqa.progress import Silent

    def load() -> KgLLM:
        llm = load_kg_llm(
            str(tiny_folder), NO_ADAPTER, device="cpu", cache=tmp_path, progress=Silent()
        )
        return replace(llm, plans=tmp_path / "decoding.json")

    return load


@pytest.fixture(scope="session")
def town_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a KG of people, where they were born, their children, and a mayor's office."""
    from kgqa.graph.model import Kind
    from kgqa.graph.sqlite_write import SqliteWriter
    from kgqa.progress import Silent
    from tests.graph.store_conformance import entity, tables_of

    nodes = [entity(f"p{at}", f"Person {at}") for at in range(PEOPLE)]
    nodes += [entity(f"c{at}", f"City {at}") for at in range(PEOPLE)]
    nodes += [entity(f"m{at}", kind=Kind.MEDIATOR) for at in range(PEOPLE)]
    edges = [(f"p{at}", "person.born_in", f"c{at}") for at in range(PEOPLE)]
    edges += [(f"p{at}", "person.child", f"p{at + 1}") for at in range(PEOPLE - 1)]
    edges += [(f"p{at}", "person.office", f"m{at}") for at in range(PEOPLE)]
    edges += [(f"m{at}", "office.place", f"c{(at + 3) % PEOPLE}") for at in range(PEOPLE)]
    path = tmp_path_factory.mktemp("town") / "graph.sqlite"
    SqliteWriter(path).write(tables_of(nodes, edges), Silent())
    return path


@pytest.fixture
def town(town_file: Path) -> Iterator[SqliteStore]:
    """The KG, open."""
    from kgqa.graph.sqlite import SqliteStore

    with SqliteStore(town_file) as store:
        yield store


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a domain to train on."""
    file = tmp_path_factory.mktemp("domains") / "practice.json"
    file.write_text(json.dumps(PRACTICE))
    return file
