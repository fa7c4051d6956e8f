"""Runs of the real command in processes of their own that a fault strikes at a given moment.

    python -m tests.cli.struck

reads a JSON object a line and forks for each, so that nothing is imported twice. ``args`` are the
command's, ``out`` is the file for what it prints, ``watch`` the folders that it writes into. A
*moment* is what it does to a file there: each one is counted before it is done and, by its number
plus a half, right after. The fault strikes at ``moment``, and ``delay`` seconds later:

- ``kill``: SIGKILL;
- ``full``: from then on nothing is made or opened to be written, because the disk is full;
- ``hold``: it waits there until the file that is named is gone;
- ``clock``: from then on it is a day earlier.

``only``: the event of Python's that is a moment, such as ``os.rename``, and nothing else is.
``room``: how many bytes a file may have at most. ``as_user``: without root's powers. ``little``:
so little is held at once that there are many batches, each of which is a moment. The answer is the
process's id, and that to a line with ``wait`` by its exit status. The last line of ``out`` +
``.err`` is the number of moments.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect")
_EVERY = (  # what commands import while they run; torch imports torch._dynamo to optimise
    *("numpy.ma", "pyarrow.dataset", "pyarrow.feather", "pyarrow.parquet", "rich.progress"),
    *("rich.table", "safetensors.numpy", "tokenizers", "torch._dynamo", "transformers"),
    *(f"kgqa.cli.{name}" for name in ("app", "eval", "ingest", "learn", "precompute_tries")),
    *(f"kgqa.cli.{name}" for name in ("terminal", "train", "update")),
    *("kgqa.api.index", "kgqa.api.training", "kgqa.api.update", "kgqa.evaluation.query_run"),
    *("kgqa.evaluation.run", "kgqa.graph.open", "kgqa.loading.update", "kgqa.methods.rank"),
    *(f"kgqa.loaders.{name}" for name in ("freebase", "tabular", "text", "triples", "umls")),
    *(f"kgqa.training.{name}" for name in ("adapters", "rankers", "reasoners")),
    *("kgqa.questions.jsonl", "kgqa.trie.precompute"),
)
_MAKES = ("open", "os.mkdir", "os.rename")


class Fault:
    """Counts the moments of this process, and strikes at one of them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.moment: float = spec.get("moment", -1)
        self.count = 0
        self.struck = False
        self.watch = tuple(spec["watch"])
        self.only: str | None = spec.get("only")

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        """Count an event of Python's if it changes a file."""
        if event != (self.only or event) or (event != "open" and event not in _CHANGES):
            return
        path = given[0]
        if event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        place = os.fsdecode(path)
        # what is removed with a whole folder is named relative to that
        if place.startswith("/") and not place.startswith(self.watch):
            return
        self.happen()
        if event in _MAKES and self.struck and self.spec["fault"] == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)

    def happen(self) -> None:
        """Count a moment."""
        number, self.count = self.count, self.count + 1
        if number == self.moment:
            self.strike()
        elif number == self.moment - 0.5:
            sys.setprofile(self._after)

    def watch_calls(self, owner: Any, name: str) -> None:
        """Count a moment before and after each call."""
        plain = getattr(owner, name)
        if self.only:
            return

        @functools.wraps(plain)
        def watched(*given: Any, **named: Any) -> Any:
            self.happen()
            result = plain(*given, **named)
            self.happen()
            return result

        setattr(owner, name, watched)

    def _after(self, frame: Any, event: str, what: Any) -> None:
        if event in ("c_return", "c_exception"):
            sys.setprofile(None)
            self.strike()

    def strike(self) -> None:
        """Do what the fault is."""
        self.struck, fault = True, self.spec["fault"]
        if fault == "kill":
            if not (delay := self.spec.get("delay", 0)):
                os.kill(os.getpid(), signal.SIGKILL)
            timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
        elif fault == "hold":
            hold = Path(self.spec["hold"])
            hold.touch()
            while hold.exists():
                time.sleep(0.01)
        elif fault == "clock":
            now, now_ns, back = time.time, time.time_ns, 86_400
            time.time = lambda: now() - back
            time.time_ns = lambda: now_ns() - back * 10**9


def hold_little(fault: Fault) -> None:
    """Let a load go through many batches and spill, and an index have many shards."""
    from kgqa.graph import neo4j_write, sqlite_write
    from kgqa.loaders import blocks
    from kgqa.loading import edges, files, nodes
    from kgqa.loading.columns import Buckets, ColumnWriter
    from kgqa.loading.pipeline import Stages
    from kgqa.trie.precompute import precompute

    blocks.BLOCK_BYTES = 1 << 19
    nodes._SPAN = files._SPAN = 1 << 11
    edges._ROWS = files._EDGES_AT_ONCE = files._NAMES_AT_ONCE = 1 << 13
    Buckets.__init__.__defaults__ = (1 << 18,)
    assert precompute.__kwdefaults__ is not None
    precompute.__kwdefaults__["unit"] = 4
    for owner, names in (
        (ColumnWriter, ("append", "close")),
        (Buckets, ("add", "take")),
        (Stages, ("finish",)),
        (sqlite_write, ("sync", "_remove")),
        (neo4j_write.Neo4jWriter, ("begin", "finish", "run")),
        (neo4j_write._Load, ("_write",)),
    ):
        for name in names:
            fault.watch_calls(owner, name)


def without_powers() -> None:
    """Give up what root may do beyond others, for good."""
    library = ctypes.CDLL(None, use_errno=True)
    version_3, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if os.geteuid() == 0 and library.capset(version_3, nothing):
        raise OSError(ctypes.get_errno(), "root's powers cannot be given up")


def run(spec: dict[str, Any]) -> None:
    """Be the process of a command. Does not return."""
    from kgqa.cli import main

    os.setsid()
    out = os.open(spec["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    err = os.open(spec["out"] + ".err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number, handle in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
        os.dup2(handle, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
    fault = Fault(spec)
    if spec.get("as_user"):
        without_powers()
    if room := spec.get("room"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    if spec.get("little"):
        hold_little(fault)
    sys.addaudithook(fault)
    sys.argv = ["kgqa", *spec["args"]]
    code = 0
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(2, f"\n{fault.count}".encode())
    os._exit(code)


def main() -> None:
    """Serve."""
    for name in _EVERY:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    gc.freeze()  # or each process would copy what it looks through for garbage
    for line in sys.stdin:
        spec = json.loads(line)
        if "wait" in spec:
            status = os.waitpid(spec["wait"], 0)[1]
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        if not (child := os.fork()):
            run(spec)
        print(child, flush=True)


if __name__ == "__main__":
    main()
