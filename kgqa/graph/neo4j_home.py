"""A Neo4j server as its administrator sees it: its folder, its importer, stop, start, switch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.errors import GraphError, UsageError
from kgqa.graph.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTING = "initial.dbms.default_database"
_STOP_SECONDS = 600  # a large server may have much to write to disk


class Neo4jHome:
    """A local installation, or the folder of ``scripts/neo4j``, run by ``bin/neo4j``.

    Raises UsageError if ``folder`` is not one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        if not (self.folder / "bin" / "neo4j-admin").is_file():
            raise UsageError(
                f"{self.folder} is not the home of a Neo4j server: it has neither bin/neo4j-admin "
                "nor a docker-compose.yml.",
                "Name the folder of an installation, the folder that `scripts/neo4j start` says, "
                "or a checkout whose Compose file runs the server.",
            )
        self.conf = Path(os.environ.get("NEO4J_CONF") or self.folder / "conf") / "neo4j.conf"

    def port(self) -> int:
        """Return the port of Bolt. Raises UsageError."""
        listens = self._settings().get("server.bolt.listen_address", ":7687")
        return int(listens.rpartition(":")[2] or 7687)

    def databases(self) -> set[str]:
        """Return the databases that there are folders of."""
        root = self._data() / "databases"
        folders = (
            {path.name for path in root.iterdir() if path.is_dir()} if root.is_dir() else set()
        )
        return folders - {"system"}

    def import_full(self, database: str, options: Sequence[str], log: Path, keep: int) -> None:
        """Run ``bin/neo4j-admin database import full``, logged to ``log``, ``keep`` held open."""
        words = ("neo4j-admin", "database", "import", "full", *options, database)
        self._run(*words, what="The import", log=log, keep=keep)

    def switch(self, database: str) -> None:
        """Stop the server, name the database in ``neo4j.conf``, start the server."""
        self._run("neo4j", "stop", what="Stopping the server", seconds=_STOP_SECONDS)
        try:
            lines = self.conf.read_text(encoding="utf-8").splitlines()
            pattern = re.compile(rf"^\s*{re.escape(SETTING)}\s*=")
            rest = [line for line in lines if not pattern.match(line)]
            write_whole(self.conf, "\n".join([*rest, f"{SETTING}={database}", ""]).encode())
        finally:  # whatever happens, the server is not left stopped
            self.start()

    def start(self) -> None:
        """Start the server by ``bin/neo4j``."""
        self._run("neo4j", "start", what="Starting the server", seconds=_STOP_SECONDS)

    def remove(self, database: str) -> None:
        """Delete the folders of a database and of its transaction logs."""
        for root in ("databases", "transactions"):
            path = self._data() / root / database
            if path.is_dir():
                shutil.rmtree(path)

    def _run(
        self,
        program: str,
        *words: str,
        what: str,
        log: Path | None = None,
        keep: int = -1,
        seconds: float | None = None,
    ) -> None:
        """Run a program of the server. Raises GraphError with the line that says why it failed."""
        # NEO4J_CONF is given only to an installation whose configuration lies elsewhere
        env = dict(os.environ) | {"NEO4J_HOME": str(self.folder)}
        command = [str(self.folder / "bin" / program), *words]
        # A file and no pipe: a server that a command starts holds its output open for good.
        with log.open("w+b") if log else tempfile.TemporaryFile() as out:
            try:
                done = subprocess.run(
                    command,
                    env=env,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    pass_fds=() if keep < 0 else (keep,),
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise GraphError(
                    f"{what} took longer than {seconds:.0f} s ({command[0]}).",
                    f"Look at the logs of the server in {self.folder}.",
                ) from None
            except OSError as error:
                raise GraphError(
                    f"{what} failed: {command[0]} does not run ({error.strerror}).",
                    "See that it is installed and that you may run it.",
                ) from None
            out.seek(0)
            output = out.read().decode(errors="replace")
        if done.returncode:
            where = f"See {log}." if log else f"Look at the logs of the server in {self.folder}."
            raise GraphError(
                f"{what} failed (exit code {done.returncode}): {_reason(output)}", where
            )

    def _data(self) -> Path:
        named = self._settings().get("server.directories.data", "data")
        return self.folder / named  # an absolute path stands for itself

    def _settings(self) -> dict[str, str]:
        try:
            text = self.conf.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{self.conf} cannot be read: {error.strerror}.",
                "Name the folder of the server's installation, and its conf by NEO4J_CONF.",
            ) from None
        return dict(re.findall(r"^\s*([\w.]+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"error|exception|caused by|cannot", line, re.I)]
    reason = (causes or lines[-1:] or ["it said nothing"])[0]
    return reason[:400].rstrip(".") + "."
