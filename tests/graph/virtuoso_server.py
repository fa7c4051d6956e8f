"""Virtuoso for tests: a database of its own on loopback ports, stopped by its process."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.graph.neo4j_server import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GRAPH = "http://x.org/graph"
INI = """[Database]
DatabaseFile = {home}/virtuoso.db
ErrorLogFile = {home}/virtuoso.log
LockFile = {home}/virtuoso.lck
TransactionFile = {home}/virtuoso.trx
xa_persistent_file = {home}/virtuoso.pxa
[TempDatabase]
DatabaseFile = {home}/temp.db
TransactionFile = {home}/temp.trx
[Parameters]
ServerPort = 127.0.0.1:{port}
NumberOfBuffers = 40000
MaxDirtyBuffers = 30000
DirsAllowed = {folder}
ThreadCleanupInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerRoot = {home}
ServerThreads = 4
[SPARQL]
ResultSetMaxRows = {most}
MaxQueryExecutionTime = 60
"""


@contextmanager
def serving_virtuoso(
    folder: Path, *files: Path, most_rows: int = 10_000, full_text: bool = False
) -> Iterator[str]:
    """Give the URL of an endpoint that holds files in the graph ``GRAPH``.

    ``most_rows``: where it cuts its replies, without a word; ``full_text``: whether it searches in
    texts. Skips where it is not installed.
    """
    program, isql = shutil.which("virtuoso-t"), shutil.which("isql-vt") or shutil.which("isql")
    if program is None or isql is None:
        pytest.skip("Virtuoso (virtuoso-t and its isql) is not installed")
    home = folder / "virtuoso"
    home.mkdir()
    port, http = free_ports(2)
    names = {"home": home, "folder": folder, "port": port, "http": http, "most": most_rows}
    (home / "virtuoso.ini").write_text(INI.format(**names))
    command = [program, "+foreground", "+configfile", str(home / "virtuoso.ini")]
    server = subprocess.Popen(
        command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        def run(statement: str) -> subprocess.CompletedProcess[str]:
            call = [isql, f"127.0.0.1:{port}", "dba", "dba", f"EXEC={statement}"]
            return subprocess.run(call, capture_output=True, text=True)

        for _ in range(300):
            if run("status();").returncode == 0:
                break
            if server.poll() is not None:
                pytest.fail((home / "virtuoso.log").read_text()[-2000:])
            time.sleep(0.2)
        else:
            pytest.fail("Virtuoso did not start")
        for file in files:
            # 512: Turtle, read on behind what is malformed
            done = run(f"DB.DBA.TTLP_MT(file_to_string_output('{file}'), '', '{GRAPH}', 255);")
            assert done.returncode == 0, done.stderr
        if full_text:
            run("DB.DBA.RDF_OBJ_FT_RULE_ADD(null, null, 'All');")
            run("DB.DBA.VT_INC_INDEX_DB_DBA_RDF_OBJ();")
        run("checkpoint;")
        yield f"http://127.0.0.1:{http}/sparql"
    finally:
        server.terminate()
        server.wait(timeout=60)
