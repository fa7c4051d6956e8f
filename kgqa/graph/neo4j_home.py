"""A Neo4j server as its administrator sees it: its folder, its importer, stop, start, switch."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kgqa.config import is_loopback
from kgqa.errors import GraphError, UsageError
from kgqa.graph.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETTING = "initial.dbms.default_database"
COMPOSE_SETTING = "KGQA_NEO4J_DEFAULT_DATABASE"
_STOP_SECONDS = 600  # a large server may have much to write to disk


class Neo4jHome(ABC):
    """What an offline import needs of the server's machine. ``folder``: where the server is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work_folder = folder / "import"  # import files lie here if nothing else is said

    def serves(self, url: str) -> bool:
        """Return whether the server at ``url`` is, by its address, the one of this home."""
        parts = urlsplit(url)
        return is_loopback(parts.hostname or "") and (parts.port or 7687) == self._port()

    @abstractmethod
    def _port(self) -> int: ...

    @abstractmethod
    def databases(self) -> set[str]:
        """Return the databases that there are files of, ``system`` left out."""

    @abstractmethod
    def seen(self, path: Path) -> str:
        """Return the path of an import file as the importer sees it."""

    @abstractmethod
    def import_full(self, database: str, options: Sequence[str], log: Path, keep: int) -> None:
        """Import, logged to ``log``, a file descriptor ``keep`` held open. Raises GraphError."""

    @abstractmethod
    def switch(self, database: str) -> None:
        """Make the server serve ``database``, by one restart. Raises GraphError."""

    @abstractmethod
    def start(self) -> None:
        """Start the server if it does not run. Raises GraphError."""

    @abstractmethod
    def remove(self, database: str) -> None:
        """Delete the files of a database that does not serve. Raises OSError, GraphError."""


def open_home(folder: Path) -> Neo4jHome:
    """Return the server's home in ``folder``. Raises UsageError if there is none."""
    folder = folder.expanduser().absolute()
    if (folder / "bin" / "neo4j-admin").is_file():
        return LocalHome(folder)
    if any((folder / name).is_file() for name in ("docker-compose.yml", "compose.yaml")):
        return ComposeHome(folder)
    raise UsageError(
        f"{folder} is not the home of a Neo4j server: it has neither bin/neo4j-admin nor a "
        "docker-compose.yml.",
        "Name the folder of an installation, the folder that `scripts/neo4j start` says, or a "
        "checkout whose Compose file runs the server.",
    )


class LocalHome(Neo4jHome):
    """A local installation, or the folder of ``scripts/neo4j``, run by ``bin/neo4j``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.conf = Path(os.environ.get("NEO4J_CONF") or folder / "conf") / "neo4j.conf"

    def databases(self) -> set[str]:
        """Return the databases that there are folders of."""
        root = self._data() / "databases"
        found = {path.name for path in root.iterdir() if path.is_dir()} if root.is_dir() else set()
        return found - {"system"}

    def seen(self, path: Path) -> str:
        """Return the path itself."""
        return str(path)

    def import_full(self, database: str, options: Sequence[str], log: Path, keep: int) -> None:
        """Run ``bin/neo4j-admin database import full``."""
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
        # NEO4J_CONF is given only to an installation whose configuration lies elsewhere
        env = dict(os.environ) | {"NEO4J_HOME": str(self.folder)}
        command = [str(self.folder / "bin" / program), *words]
        _run(command, env, self.folder, what, log=log, keep=keep, seconds=seconds)

    def _port(self) -> int:
        listens = self._settings().get("server.bolt.listen_address", ":7687")
        return int(listens.rpartition(":")[2] or 7687)

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


class ComposeHome(Neo4jHome):
    """The service ``neo4j`` of a Compose file, whose commands the user runs.

    Containers are the user's to start and stop: what an import needs is written as a script beside
    its files, and the load goes on once the server serves the new database.
    """

    def databases(self) -> set[str]:
        """Return nothing: a container's files are not looked at."""
        return set()

    def seen(self, path: Path) -> str:
        """Return the path below /import."""
        return "/import/" + path.relative_to(self.work_folder).as_posix()

    def import_full(self, database: str, options: Sequence[str], log: Path, keep: int) -> None:
        """Write the script, and raise GraphError that names it."""
        words = ["neo4j-admin", "database", "import", "full", *options, database]
        lines = [
            "#!/bin/sh",
            f"# Imports into {database} while the old database serves, then restarts the server.",
            "set -e",
            f"cd {shlex.quote(str(self.folder))}",
            # as the server's own user: files of root could not be opened by it
            f"docker compose exec -T --user neo4j neo4j {shlex.join(words)}",
            *self._serve_commands(database),
            "",
        ]
        script = log.with_name("import.sh")
        write_whole(script, "\n".join(lines).encode())
        raise GraphError(
            f"The import files are ready; the server of {self.folder} runs in Docker, whose "
            "commands are yours to run.",
            f"Run `sh {shlex.quote(str(script))}`, then the same load again: it goes on from "
            "there. `method` bolt needs no commands.",
        )

    def switch(self, database: str) -> None:
        """Raise GraphError with the commands that make the server serve ``database``."""
        raise GraphError(
            f"The server of {self.folder} does not serve {database}.",
            f"Run there: {' && '.join(self._serve_commands(database))}",
        )

    def start(self) -> None:
        """Raise GraphError with the command that starts the service."""
        raise GraphError(
            f"The server of {self.folder} does not run.", "Run there: docker compose up -d --wait"
        )

    def remove(self, database: str) -> None:
        """Do nothing: a container's files are not touched."""

    def _port(self) -> int:
        return int(os.environ.get("KGQA_NEO4J_BOLT_PORT") or 7687)

    def _serve_commands(self, database: str) -> list[str]:
        return [f"echo {COMPOSE_SETTING}={database} >> .env", "docker compose up -d --wait neo4j"]


def _run(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    what: str,
    *,
    log: Path | None = None,
    keep: int = -1,
    seconds: float | None = None,
) -> None:
    """Run a command. Raises GraphError with the line that says why it failed."""
    # A file and no pipe: a server that a command starts holds its output open for good.
    with log.open("w+b") if log else tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                command,
                env=env,
                cwd=folder,
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
                f"Look at the logs of the server in {folder}.",
            ) from None
        except OSError as error:
            raise GraphError(
                f"{what} failed: {command[0]} does not run ({error.strerror}).",
                "See that it is installed and that you may run it.",
            ) from None
        out.seek(0)
        output = out.read().decode(errors="replace")
    if done.returncode:
        where = f"See {log}." if log else f"Look at the logs of the server in {folder}."
        raise GraphError(f"{what} failed (exit code {done.returncode}): {_reason(output)}", where)


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"error|exception|caused by|cannot", line, re.I)]
    found = (causes or lines[-1:] or ["it said nothing"])[0]
    return found[:400].rstrip(".") + "."
