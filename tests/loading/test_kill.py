"""A load into Neo4j that is killed is not seen, and the next one ends as if it had not been.

The moments are drawn by seed. A load into a file is killed in ``tests.cli.test_struck``, and one
into Neo4j at each of its steps in ``tests.graph.test_neo4j``.
"""

from __future__ import annotations

import hashlib
import random
import runpy
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kgqa.errors import KGNotFoundError
from kgqa.graph.neo4j_write import Neo4jWriter
from kgqa.graph.open import open_store
from kgqa.progress import Silent
from tests.cli.test_struck import Faults
from tests.graph.neo4j_server import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.graph.neo4j_server import Neo4jServer

pytestmark = [pytest.mark.neo4j, pytest.mark.long]

KG = "killtest"
MOMENTS = 30


class Loads:
    """Loads of one dump, or of an older one, into Neo4j."""

    def __init__(self, server: Neo4jServer, folder: Path, cache: Path) -> None:
        self.server, self.folder = server, folder
        self.account: dict[str, Any] = {"username": server.username, "password": server.password}
        env = {f"NEO4J_{name.upper()}": value for name, value in self.account.items()}
        self.faults = Faults(folder, cache, NEO4J_URI=server.uri, **env)
        write_dump = runpy.run_path(str(CHECKOUT / "scripts" / "synthetic_dump.py"))["write_dump"]
        for name, lines, seed in (("dump", 20_000, 4), ("older", 5_000, 5)):
            write_dump(folder / f"{name}.gz", lines, seed=seed)
        home = folder / "undisturbed"
        self.moments = self.run("dump", home)
        self.content = self.seen(home)
        self.forget()

    def run(self, dump: str, home: Path, **fault: Any) -> int:
        """Load; return the number of moments, or -1 if the load was killed."""
        args = ["ingest", "freebase", str(self.folder / f"{dump}.gz"), "--kg", KG]
        started = self.faults.start([*args, "--home", str(home)], home, little=True, **fault)
        done, moments = self.faults.end(started)
        assert done.code in (0, -signal.SIGKILL), done.err
        assert done.code == 0 or fault
        return moments if done.code == 0 else -1

    def seen(self, home: Path) -> str | None:
        """Return a hash over all that the server holds of the KG, which is whole; or None."""
        try:
            store = open_store(self.server.uri, KG, home=home, **self.account)
        except KGNotFoundError:
            return None
        digest = hashlib.sha256()
        with store:
            info = store.info
            nodes = info.entities + info.mediators + info.values
            for start in range(0, nodes, 5000):
                keys = np.arange(start, min(start + 5000, nodes))
                found, edges = store.entities(keys), store.neighbours(keys, "both")
                digest.update(repr((found.ids, found.names, found.kinds.tolist())).encode())
                for column in (edges.row, edges.step, edges.target, store.degrees(keys)):
                    digest.update(np.ascontiguousarray(column).data)
            assert len(store.neighbours(np.arange(nodes), "out")) == info.edges
            digest.update(repr((store.relations().ids, store.relations().names)).encode())
        return digest.hexdigest()

    def forget(self) -> None:
        """Take the KG out of a server that other tests use too."""
        with self.server.connect() as connection:
            Neo4jWriter(connection).drop(KG, Silent())


@pytest.fixture(scope="module")
def loads(
    neo4j_server: Neo4jServer, model_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loads]:
    found = Loads(neo4j_server, tmp_path_factory.mktemp("loads"), model_cache)
    yield found
    found.faults.close()


@pytest.mark.parametrize("number", range(MOMENTS))
def test_a_load_that_is_killed_is_not_seen_and_the_next_one_is_as_if_it_had_not_been(
    loads: Loads, tmp_path: Path, number: int
) -> None:
    dice = random.Random(number)
    # one after the other, and every other time some while later
    moment = int((number + dice.random()) / MOMENTS * loads.moments)
    delay = dice.uniform(0, 0.08) if number % 2 else 0.0
    home, before = tmp_path / "home", None
    try:
        if number % 3 == 1:
            loads.run("older", home)
            before = loads.seen(home)
            assert before not in (None, loads.content)
        loads.run("dump", home, fault="kill", moment=moment, delay=delay)
        assert loads.seen(home) in (before, loads.content)
        loads.run("dump", home)
        assert loads.seen(home) == loads.content
        assert not (home / KG / "ingest").exists()
        assert not [path for path in (home / KG).iterdir() if "part" in path.name]
    finally:
        loads.forget()
