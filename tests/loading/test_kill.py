"""A load that is killed at any moment is not seen, and the next one ends as if it had not been.

A process of its own loads a made-up dump and is killed by SIGKILL, at an event of a stage or a
while after it. The moments are drawn by seed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pytest

from kgqa.errors import KGNotFoundError
from kgqa.graph.open import open_store, open_writer
from kgqa.graph.sqlite_file import FILE_NAME
from kgqa.loaders import make_loader
from kgqa.loading.pipeline import load as load_kg
from kgqa.loading.stages import NAMES
from kgqa.progress import Silent
from tests import kill
from tests.graph.neo4j_server import CHECKOUT
from tests.loading.killed import STAGES

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.graph.neo4j_server import Neo4jServer

LINES = 40_000  # a stage holds so little at once that these are many batches
KG = "killtest"
MOMENTS = 30
DEFAULT = 6  # of them are run without --full: one in each stage and two later than an event


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Where(Protocol):
    """A store that loads end in."""

    graph: str | None  # its URL, or None for SQLite in the home
    secrets: dict[str, Any]

    def content(self, home: Path) -> str:
        """Return a hash over all that the store holds of the KG."""


@dataclass
class InSqlite:
    graph: str | None = None
    secrets: dict[str, Any] = field(default_factory=dict)

    def content(self, home: Path) -> str:
        digest = hashlib.sha256()
        with closing(sqlite3.connect(home / KG / FILE_NAME)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            tables = db.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql NOT LIKE '%VIRTUAL%' ORDER BY name"
            ).fetchall()
            assert len(tables) > 7
            for name, sql in tables:
                digest.update(f"{name} {sql}\n".encode())
                if sql.startswith("CREATE TABLE"):
                    for row in db.execute(f'SELECT * FROM "{name}"'):
                        digest.update(repr(row).encode())
        return digest.hexdigest()


@dataclass
class InNeo4j:
    graph: str | None
    secrets: dict[str, Any]

    def content(self, home: Path) -> str:
        digest = hashlib.sha256()
        with open_store(self.graph or "", KG, home=home, **self.secrets) as store:
            info = store.info
            nodes = info.entities + info.mediators + info.values
            for start in range(0, nodes, 5000):
                keys = np.arange(start, min(start + 5000, nodes))
                found, edges = store.entities(keys), store.neighbours(keys, "both")
                digest.update(repr((found.ids, found.names, found.kinds.tolist())).encode())
                for column in (edges.row, edges.step, edges.target, store.degrees(keys)):
                    digest.update(np.ascontiguousarray(column).data)
            digest.update(repr((store.relations().ids, store.relations().names)).encode())
        return digest.hexdigest()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def where(request: pytest.FixtureRequest) -> Where:
    if request.param == "sqlite":
        return InSqlite()
    server: Neo4jServer = request.getfixturevalue("neo4j_server")
    return InNeo4j(server.uri, {"username": server.username, "password": server.password})


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dumps") / "dump.gz"
    _module("synthetic_dump").write_dump(path, LINES, seed=4)
    return path


@pytest.fixture(scope="module")
def older_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dumps") / "older.gz"
    _module("synthetic_dump").write_dump(path, 5000, seed=5)
    return path


def run(where: Where, dump: Path, home: Path, **moment: Any) -> subprocess.CompletedProcess[str]:
    spec = {"dump": str(dump), "home": str(home), "kg": KG, "graph": where.graph, **moment}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("KGQA_", "NEO4J_"))}
    secrets = {f"KILLED_{name.upper()}": value for name, value in where.secrets.items()}
    return kill.run("tests.loading.killed", spec, inherited | secrets)


def load(where: Where, dump: Path, home: Path) -> list[str]:
    """Load in this process, with what is usually held at once; return what was noted."""
    progress = Silent()
    with open_writer(where.graph or home, KG, home=home, **where.secrets) as writer:
        load_kg(make_loader("freebase"), [dump], KG, writer, home / KG, progress)
    return progress.notes


def version(where: Where, home: Path) -> str | None:
    """Return the version of the KG that is served, which must be whole; None without one."""
    try:
        store = open_store(where.graph or home, KG, home=home, **where.secrets)
    except KGNotFoundError:
        return None
    with store:
        info = store.info
        nodes = info.entities + info.mediators + info.values
        assert len(store.entities(np.arange(nodes))) == nodes
        assert len(store.neighbours(np.arange(nodes), "out")) == info.edges
        return info.version


def forget(where: Where) -> None:
    """Take the KG out of a server that other tests use too."""
    if where.graph is None:
        return
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_write import Neo4jWriter

    with Neo4jConnection(where.graph, *where.secrets.values()) as connection:
        Neo4jWriter(connection).drop(KG, Silent())


@dataclass
class Undisturbed:
    events: dict[str, int]
    version: str | None
    content: str


@pytest.fixture(scope="module")
def undisturbed(where: Where, dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    home = tmp_path_factory.mktemp("undisturbed") / "home"
    done = run(where, dump, home)
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout)
    assert set(events) == set(STAGES)
    assert min(events.values()) >= 5
    found = Undisturbed(events, version(where, home), where.content(home))
    assert found.version is not None
    forget(where)
    return found


@dataclass(frozen=True)
class Moment:
    """When a load is killed: at which share of a stage's events, and how long after that."""

    number: int
    stage: str
    share: float
    delay: float
    replaces: bool  # whether an older KG is there

    def __str__(self) -> str:
        later = f"-and-{self.delay * 1000:.0f}ms" if self.delay else ""
        return f"{self.number}-{self.stage}-{self.share:.2f}{later}"


def moments() -> list[Moment]:
    dice = random.Random(2024)
    found = []
    for number in range(MOMENTS):
        stage = STAGES[number % len(STAGES)]
        delay = dice.uniform(0, 0.08) if number % 8 >= 4 else 0.0
        found.append(Moment(number, stage, dice.random(), delay, number % 3 == 1))
    return found


def left_by(home: Path) -> str:
    """Return the stage that was being done, by the record that the stages keep."""
    try:
        record = json.loads((home / KG / "ingest" / "stages.json").read_text())
    except FileNotFoundError:
        return STAGES[0]
    done = [name for name in NAMES if name in record["done"]]
    return STAGES[STAGES.index(done[-1]) + 1]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(each, marks=[pytest.mark.long] if each.number >= DEFAULT else [])
        for each in moments()
    ],
    ids=str,
)
def test_a_load_that_is_killed_is_not_seen_and_the_next_one_is_as_if_it_had_not_been(
    where: Where,
    dump: Path,
    older_dump: Path,
    undisturbed: Undisturbed,
    tmp_path: Path,
    moment: Moment,
) -> None:
    home = tmp_path / "home"
    before = None
    try:
        if moment.replaces:
            load(where, older_dump, home)
            before = version(where, home)
            assert before not in (None, undisturbed.version)
        event = int(moment.share * undisturbed.events[moment.stage])
        when = {"stage": moment.stage, "event": event, "delay": moment.delay}
        done = run(where, dump, home, **when)
        if moment.delay:  # it may have ended before
            assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        else:
            assert done.returncode == -signal.SIGKILL, done.stderr
        killed = done.returncode != 0
        seen = version(where, home)
        stage = left_by(home)
        if killed and not moment.delay:
            # a stage's last events come after its end, a load's last after it is in place
            after = STAGES[min(STAGES.index(moment.stage) + 1, len(STAGES) - 1)]
            assert stage in (moment.stage, after)
            assert seen == before or (moment.stage == "load" and seen == undisturbed.version)
        else:
            assert seen in (before, undisturbed.version)
        notes = load(where, dump, home)
        if killed and stage != STAGES[0]:
            last = STAGES[STAGES.index(stage) - 1]
            assert any("stopped" in note and last in note for note in notes)
        assert version(where, home) == undisturbed.version
        assert where.content(home) == undisturbed.content
        assert not (home / KG / "ingest").exists()
        left = sorted(path.name for path in (home / KG).iterdir())
        assert [name for name in left if "partial" in name or "part" in name] == []
    finally:
        forget(where)


def test_a_load_that_was_stopped_is_not_gone_on_with_when_the_dump_has_changed(
    dump: Path, older_dump: Path, tmp_path: Path
) -> None:
    where, home = InSqlite(), tmp_path / "home"
    other = tmp_path / "dump.gz"
    other.write_bytes(older_dump.read_bytes())
    done = run(where, other, home, stage="edges", event=0)
    assert done.returncode == -signal.SIGKILL
    assert left_by(home) == "edges"
    other.write_bytes(dump.read_bytes())
    assert load(where, other, home) == []
    fresh = tmp_path / "fresh"
    load(where, other, fresh)
    assert version(where, home) == version(where, fresh)
