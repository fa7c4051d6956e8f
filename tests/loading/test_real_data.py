"""Real data from file to store: as many entities and edges as a count that knows no loader.

The data lie in the folder that KGQA_SHARED names; without it these tests are skipped.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.graph.model import Kind
from kgqa.graph.open import open_store, open_writer
from kgqa.graph.sqlite_file import FILE_NAME
from kgqa.loaders import make_loader
from kgqa.loading.pipeline import load as load_kg
from kgqa.progress import Silent
from tests.loaders.conftest import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from tests.graph.neo4j_server import Neo4jServer

Facts = set[tuple[str, str, str]]


def separated(
    *files: str, order: str = "hrt", by: str = "\t", skip: int = 0
) -> Callable[[], Facts]:
    """Return what reads the distinct triples of files of three columns, with ``split`` alone."""

    def read() -> Facts:
        facts = set()
        for file in files:
            for row in (SHARED / file).read_text(encoding="utf-8").split("\n")[skip:]:
                if row:
                    cells = dict(zip(order, row.split(by), strict=False))
                    facts.add((cells["h"].strip(), cells["r"].strip(), cells["t"].strip()))
        return facts

    return read


@dataclass(frozen=True)
class Set:
    """A real data set: how it is loaded, and how its facts are read without a loader."""

    loader: str
    files: tuple[str, ...]
    facts: Callable[[], Facts]
    size: tuple[int, int]  # nodes and edges, as published or as counted by hand
    options: dict[str, Any] = field(default_factory=dict)


FB15K = tuple(f"fb15k237/{part}.txt" for part in ("train", "valid", "test"))
SETS = {
    "fb15k237": Set("triples", FB15K, separated(*FB15K), (14_541, 310_116)),
    "metaqa": Set("triples", ("metaqa/kb.txt",), separated("metaqa/kb.txt", by="|"),
                  (43_234, 133_582)),
    "fb13": Set("triples", ("fb13/triples_named.tsv",), separated("fb13/triples_named.tsv"),
                (75_043, 345_873)),
    "cn100k": Set("triples", ("conceptnet/cn100k_train.txt",),
                  separated("conceptnet/cn100k_train.txt", order="rht"), (78_088, 99_997),
                  {"columns": "relation,head,tail"}),
    "freebase_subgraph": Set("triples", ("freebase_subgraph/triples.tsv",),
                             separated("freebase_subgraph/triples.tsv", skip=1), (57_791, 103_495),
                             {"mediators": r"^[mg]\.", "direction": "out"}),
}  # fmt: skip


@dataclass
class Home:
    """A store for one test: SQLite in a folder, or a server."""

    folder: Path
    url: str | None = None
    secrets: dict[str, Any] = field(default_factory=dict)

    def load(self, kg: str, loader: str, sources: list[Path], **options: Any) -> Any:
        with open_writer(self.url or self.folder, kg, home=self.folder, **self.secrets) as writer:
            made = make_loader(loader, **options)
            result = load_kg(made, sources, kg, writer, self.folder / kg, Silent())
        if self.url is None:
            with closing(sqlite3.connect(self.folder / kg / FILE_NAME)) as db:
                assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return result

    def open(self, kg: str) -> GraphStore:
        return open_store(self.url or self.folder, kg, home=self.folder, **self.secrets)


@pytest.fixture(
    params=["sqlite", pytest.param("neo4j", marks=[pytest.mark.neo4j, pytest.mark.long])]
)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    if not SHARED.is_dir():
        pytest.skip(f"no data at {SHARED} (KGQA_SHARED)")
    if request.param == "sqlite":
        yield Home(tmp_path)
        return
    server: Neo4jServer = request.getfixturevalue("neo4j_server")
    secrets = {"username": server.username, "password": server.password}
    yield Home(tmp_path, server.uri, secrets)
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_write import Neo4jWriter

    with Neo4jConnection(server.uri, server.username, server.password) as connection:
        for info in connection.list_kgs():
            if info.name.startswith("real-"):
                Neo4jWriter(connection).drop(info.name, Silent())


def facts_in(store: GraphStore) -> tuple[list[str], Facts]:
    """Return all ids and all facts of a store."""
    info = store.info
    count = info.entities + info.mediators + info.values
    ids: list[str] = []
    facts: Facts = set()
    relations = store.relations().ids
    for start in range(0, count, 20_000):
        ids += store.entities(np.arange(start, min(start + 20_000, count))).ids
    rows = 0
    for start in range(0, count, 20_000):
        edges = store.neighbours(np.arange(start, min(start + 20_000, count)), "out")
        rows += len(edges)
        columns = ((edges.row + start).tolist(), edges.step.tolist(), edges.target.tolist())
        facts |= {(ids[h], relations[r // 2], ids[t]) for h, r, t in zip(*columns, strict=True)}
    assert rows == len(facts) == info.edges
    assert ids == sorted(set(ids))
    return ids, facts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if each.size[1] > 300_000 else [])
        for name, each in SETS.items()
    ],
)
def test_a_real_set_is_in_the_store_just_as_its_lines_say(home: Home, name: str) -> None:
    each = SETS[name]
    facts = each.facts()
    nodes = {end for head, _, tail in facts for end in (head, tail)}
    result = home.load(
        f"real-{name}", each.loader, [SHARED / f for f in each.files], **each.options
    )
    assert (len(nodes), len(facts)) == each.size
    assert (result.entities + result.mediators, result.edges) == each.size
    assert result.rejected == 0
    assert result.lines >= len(facts)
    with home.open(f"real-{name}") as store:
        ids, found = facts_in(store)
        assert set(ids) == nodes
        assert found == facts
        nameless = {ident for ident in ids if ident.startswith(("m.", "g."))}
        expected = len(nameless) if "mediators" in each.options else 0
        assert store.info.mediators == result.mediators == expected
        kinds = store.entities(np.arange(len(ids))).kinds
        assert int((kinds == Kind.MEDIATOR).sum()) == expected


def test_real_lines_of_the_freebase_dump(home: Home) -> None:
    """Lines of the dump itself, counted by splitting them."""
    path = SHARED / "freebase_rdf" / "gsoc__test.nt"
    named: set[str] = set()
    edges: Facts = set()
    triples = [row.split(" ", 2) for row in path.read_text().splitlines()]
    for subject, predicate, rest in triples:
        text = rest.removesuffix(" .")
        if predicate.endswith(("/type.object.name>", "#label>")) and text.endswith(("@en", '"')):
            named.add(subject.rpartition("/")[2][:-1])
    for subject, predicate, rest in triples:
        head, tail = (part.rpartition("/")[2][:-1] for part in (subject, rest.removesuffix(" .")))
        if head in named and tail in named and "/ns/music." in predicate:
            edges.add((head, predicate.rpartition("/")[2][:-1], tail))
    result = home.load("real-freebase", "freebase", [path])
    assert result.lines == len(triples)
    with home.open("real-freebase") as store:
        ids, facts = facts_in(store)
        kinds = store.entities(np.arange(len(ids))).kinds
    entities = {ident for ident, kind in zip(ids, kinds, strict=True) if kind == Kind.ENTITY}
    assert entities == {mid for mid in named if mid[:2] in ("m.", "g.")}
    found = {f for f in facts if f[1].startswith("music.") and {f[0], f[2]} <= entities}
    assert found == edges
    assert edges
