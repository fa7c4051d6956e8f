"""One change of a KG in a process of its own that kills itself, with SIGKILL, at a given moment.

    python -m tests.graph.killed_change URL KG FOLDER EVENT

FOLDER holds ``added.nt`` and ``removed.nt``. Without an event (-1) nobody is killed, and the number
of events is printed. Events are the steps of a change: statements, packed edges, syncs, the copy.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from kgqa.graph import neo4j_change, sqlite_write
from kgqa.graph.open import open_changer, open_store
from kgqa.loading.update import update
from kgqa.progress import Silent
from tests.graph.change_conformance import triples_loader

_SEEN = [0]


def _watch(owner: Any, name: str, last: int) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def watched(*given: Any, **named: Any) -> Any:
        for before in (True, False):
            if _SEEN[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            _SEEN[0] += 1
            if before:
                result = plain(*given, **named)
        return result

    setattr(owner, name, watched)


def main() -> None:
    """Do what the arguments say."""
    url, kg, folder, event = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    for owner, name in (
        (shutil, "copyfile"),
        (sqlite_write, "_apply_edges"),
        (sqlite_write, "_read_edges"),
        (sqlite_write, "sync"),
        (sqlite_write, "_remove"),
        (neo4j_change._Transaction, "_run_on_nodes"),
        (neo4j_change._Transaction, "_run_on_load"),
        (neo4j_change._Transaction, "run"),
    ):
        _watch(owner, name, event)
    names = ("username", "password")
    account = {name: os.environ.get(f"KILLED_{name.upper()}") for name in names}
    with open_store(url, kg, **account) as store:
        files = [[folder / "added.nt"], [folder / "removed.nt"]]
        changer = open_changer(url, store, **account)
        loaders = triples_loader(), triples_loader()
        update(store, changer, *loaders, *files, folder, Silent())
    print(_SEEN[0])


if __name__ == "__main__":
    main()
