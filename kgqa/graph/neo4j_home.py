"""A Neo4j server as its administrator sees it: its folder, its importer, stop, start, switch."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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
        return _is_here(parts.hostname or "") and (parts.port or 7687) == self._port()

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


def open_home(folder: Path, password: str | None = None) -> Neo4jHome:
    """Return the server's home in ``folder``. Raises UsageError if there is none."""
    folder = folder.expanduser().absolute()
    if (folder / "bin" / "neo4j-admin").is_file():
        return LocalHome(folder)
    if any((folder / name).is_file() for name in ("docker-compose.yml", "compose.yaml")):
        return ComposeHome(folder, password)
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
    """The service ``neo4j`` of a Compose file; its ``.env`` names the database."""

    def __init__(self, folder: Path, password: str | None) -> None:
        super().__init__(folder)
        self._password = password

    def databases(self) -> set[str]:
        """Return the databases that there are folders of in the container."""
        listed = self._inside("ls", "-1", "/data/databases", what="Listing the databases")
        return {name for name in listed.split() if name not in ("system", "store_lock")}

    def seen(self, path: Path) -> str:
        """Return the path below /import."""
        return "/import/" + path.relative_to(self.work_folder).as_posix()

    def import_full(self, database: str, options: Sequence[str], log: Path, keep: int) -> None:
        """Run the importer in the container, beside the server."""
        words = ["neo4j-admin", "database", "import", "full", *options, database]
        self._inside(*words, what="The import", log=log, keep=keep)

    def switch(self, database: str) -> None:
        """Name the database in ``.env`` and replace the container; its volumes stay."""
        path = self.folder / ".env"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        lines = [line for line in lines if not line.startswith(f"{COMPOSE_SETTING}=")]
        write_whole(path, "\n".join([*lines, f"{COMPOSE_SETTING}={database}", ""]).encode())
        self.start()

    def start(self) -> None:
        """Start the service; the container is replaced if a setting changed."""
        self._compose("up", "-d", "--wait", "neo4j", what="Starting the server")

    def remove(self, database: str) -> None:
        """Delete the folders of a database and of its transaction logs in the container."""
        paths = [f"/data/databases/{database}", f"/data/transactions/{database}"]
        self._inside("rm", "-rf", *paths, what=f"Deleting {database}")

    def _port(self) -> int:
        return int(os.environ.get("KGQA_NEO4J_BOLT_PORT") or 7687)

    def _inside(self, *words: str, what: str, log: Path | None = None, keep: int = -1) -> str:
        # as the server's own user: files of root could not be opened by it
        return self._compose(
            *("exec", "-T", "--user", "neo4j", "neo4j", *words), what=what, log=log, keep=keep
        )

    def _compose(self, *words: str, what: str, log: Path | None = None, keep: int = -1) -> str:
        # Compose wants the password to be set for every command of this file
        env = dict(os.environ) | ({"NEO4J_PASSWORD": self._password} if self._password else {})
        env.pop(COMPOSE_SETTING, None)  # it would go before .env
        return _run(["docker", "compose", *words], env, self.folder, what, log=log, keep=keep)


def _run(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    what: str,
    *,
    log: Path | None = None,
    keep: int = -1,
    seconds: float | None = None,
) -> str:
    """Run a command; return its output, or raise GraphError with the line that says why not."""
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
    return output


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"error|exception|caused by|cannot", line, re.I)]
    found = (causes or lines[-1:] or ["it said nothing"])[0]
    return found[:400].rstrip(".") + "."


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
