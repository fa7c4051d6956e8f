"""Writing a whole KG by Neo4j's own importer, into a database of a new name.

The importer works while the old database serves; the server is restarted once with the new one as
its default, and the KG published in one step. If that fails the old one is made the default again;
an import that was stopped is continued by the next run. Other KGs of the old database are out of
reach afterwards, which is refused unless it is requested.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, KgqaError, StoreUnavailableError, UsageError
from kgqa.graph.files import write_whole
from kgqa.graph.neo4j_files import (
    ARRAY_DELIMITER,
    ImportFiles,
    finished_files,
    write_import_files,
)
from kgqa.graph.neo4j_native import edge_properties
from kgqa.graph.neo4j_write import (
    NODE_BATCH,
    Neo4jWriter,
    check_entities,
    check_relations,
    check_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.neo4j_home import Neo4jHome
    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress

START_SECONDS = 300.0  # that a restarted server may take until it answers
_PREFIX = "kgqa-"  # of the databases that are ours to delete
COMPOSE_SETTING = "KGQA_NEO4J_DEFAULT_DATABASE"  # of docker-compose.yml
_STATE = "kgqa-import.json"
_BUFFER = 4 << 20  # bytes, the importer's own default


def other_content(connection: Neo4jConnection, kg: str) -> tuple[list[str], int]:
    """Return the other KGs of the database, and how many nodes are not kgqa's."""
    others = [info.name for info in connection.list_kgs() if info.name != kg]
    return others, Neo4jWriter(connection).run("count_foreign")[0]["count"]


def is_enterprise(connection: Neo4jConnection) -> bool:
    """Return whether the server is of the edition that has several databases at a time."""
    return bool(Neo4jWriter(connection).run("edition")[0]["edition"] == "enterprise")


@dataclass(frozen=True, slots=True)
class _State:
    old: str  # the database that serves until the switch
    new: str
    imported: bool  # whether ``new`` is whole, apart from indexes


class _ImportWriter(ABC):
    """What every import into a database of a new name does, whoever runs the importer."""

    def __init__(
        self, connection: Neo4jConnection, server: Path, work: Path, replace_database: bool
    ) -> None:
        self.url = connection.url
        self._connection = connection
        self._bolt = Neo4jWriter(connection)
        self._server = server
        self._work = work
        self._replace = replace_database

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG, unless that content is there; the old database serves until the restart.

        Raises UsageError if something else would be out of reach; GraphError if the importer or the
        server fails, or the KG cannot be held; IngestError if import files cannot be written.
        """
        self._connection.acquire()
        try:
            self._write(source, progress)
        except OSError as error:
            if isinstance(error, KgqaError):
                raise
            raise GraphError(
                f"{error.filename or self._server} cannot be read or written: "
                f"{error.strerror or error}.",
                "The import must run as a user who may administer that server.",
            ) from None
        finally:
            self._connection.release()

    @abstractmethod
    def _write(self, source: GraphSource, progress: Progress) -> None: ...

    def _check(self, source: GraphSource) -> None:
        if not self._connection.is_default:
            raise UsageError(
                f"NEO4J_DATABASE names {self._connection.database}, but an import makes another "
                "database the one that serves.",
                "Unset NEO4J_DATABASE: then the one that serves is meant.",
            )
        check_version(self._connection.server_version(), self.url)
        if is_enterprise(self._connection):
            raise UsageError(
                f"Neo4j at {self.url} is an Enterprise server, whose databases are made and "
                "switched by its administrator.",
                "Set `method` to bolt.",
            )
        check_relations(source, 0, self.url)  # the database will hold this KG alone
        check_entities(source)

    def _there(self, source: GraphSource, progress: Progress) -> bool:
        """Return whether the KG is there already. Raises UsageError if others would be lost."""
        kg = source.info.name
        others, foreign = other_content(self._connection, kg)
        if (others or foreign) and not self._replace:
            there = [f"the KG {name}" for name in others]
            there += [f"{foreign:,} nodes that are not kgqa's"] if foreign else []
            raise UsageError(
                f"The database that {self.url} serves holds {' and '.join(there)}; after an import "
                "it is no longer served.",
                "Load beside them with `method` bolt, or give them up with `replace_database`.",
            )
        same = self._bolt.same_content(source)
        if same:
            progress.note(f"{kg} is in {self.url} already, with that content.")
        return same

    def _folder(self, source: GraphSource) -> Path:
        """Return where the import files lie; with the load's id its name is a database's."""
        # a KG's name in ASCII letters, digits and dashes, as Neo4j wants it of databases
        stem = re.sub(r"[^a-z0-9]+", "-", source.info.name.lower()).strip("-")[:40].strip("-")
        return self._work / f"{_PREFIX}{stem or 'kg'}"

    def _serving(self) -> str:
        for row in self._bolt.run("databases"):
            if row["default"] and row["currentStatus"] == "online":
                return str(row["name"])
        raise StoreUnavailableError(
            f"Neo4j at {self.url} serves no database.", "Look at the server's logs."
        )

    def _publish(self, source: GraphSource, files: ImportFiles, progress: Progress) -> None:
        kg = files.kg
        with progress.task("Indexes of Neo4j"):
            self._bolt.prepare()
            self._bolt.run("load_abandon", kg=kg)
            for row in self._bolt.run(
                "dropping"
            ):  # of a run that was stopped here: it is this load
                self._bolt.run("delete_dropping", load=row["load"])
            self._bolt.begin(kg, files.label, files.load)
            for start in range(0, len(files.patches), NODE_BATCH):
                rows = files.patches[start : start + NODE_BATCH]
                self._bolt.run("patch_nodes", of=files.label, rows=rows)
            for start in range(0, len(files.edge_patches), NODE_BATCH):
                edges = [
                    {**edge, "properties": edge_properties(edge["properties"])}
                    for edge in files.edge_patches[start : start + NODE_BATCH]
                ]
                self._bolt.run("patch_edges", of=files.label, rows=edges)
            for what, of in (("names", "KGName"), ("relations", "KGRelation")):
                count = self._bolt.run("count_nodes", of=of)[0]["count"]
                if count != files.counts[what]:
                    raise GraphError(
                        f"Neo4j at {self.url} holds {count:,} {what} of {kg}; imported were "
                        f"{files.counts[what]:,}. The load is not published.",
                        "Load it again.",
                    )
            if not self._bolt.finish(source, files.label, files.load):
                raise GraphError(
                    f"Another load of {kg} into {self.url} took the place of this one.",
                    "Let that one finish.",
                )


class ComposeWriter(_ImportWriter):
    """Writes a KG into the service ``neo4j`` of a Compose file, by commands that the user runs.

    Containers are the user's to start and stop. The new database has a name that no other import
    has, so the next run of the same load sees over Bolt that the commands were run, and goes on.
    """

    def __init__(
        self, connection: Neo4jConnection, server: Path, *, replace_database: bool = False
    ) -> None:
        super().__init__(connection, server, server / "import", replace_database)

    def _write(self, source: GraphSource, progress: Progress) -> None:
        """Raise GraphError with the commands, or publish what they imported."""
        self._check(source)
        folder = self._folder(source)
        files = finished_files(source, folder)
        if files is None or files.database != self._serving():
            if self._there(source, progress):
                return
            files = write_import_files(source, folder, progress)
            seen = f"/import/{folder.name}"  # as the container mounts it
            lines = map(json.dumps, import_options(files, seen))
            write_whole(folder / "import.args", "\n".join(lines).encode())
            raise GraphError(
                f"The import files are ready; the server of {self._server} runs in Docker, whose "
                "commands are yours to run.",
                f"Run `cd {shlex.quote(str(self._server))} && "
                # as the server's own user: files of root could not be opened by it
                "docker compose exec -T --user neo4j neo4j neo4j-admin database import full "
                f"@{seen}/import.args {files.database} && "
                f"echo {COMPOSE_SETTING}={files.database} >> .env && "
                "docker compose up -d --wait neo4j`, then the same load again: it goes on from "
                "there. `method` bolt needs no commands.",
            )
        try:
            self._publish(source, files, progress)
        finally:  # a load that failed begins again with new files
            files.remove()


class Neo4jAdminWriter(_ImportWriter):
    """Writes a KG by the server's importer, from ``work_folder`` or the home's ``import``."""

    def __init__(
        self,
        connection: Neo4jConnection,
        home: Neo4jHome,
        *,
        replace_database: bool = False,
        work_folder: Path | None = None,
    ) -> None:
        work = work_folder or home.folder / "import"
        super().__init__(connection, home.folder, work, replace_database)
        self._home = home
        self._control = home.folder / "run"

    def _write(self, source: GraphSource, progress: Progress) -> None:
        with self._alone(progress):
            self._revive(progress)
            self._check(source)
            state, serving = self._state(), self._serving()
            unpublished = (
                state is not None and state.new == serving and not self._connection.list_kgs()
            )
            if not unpublished and self._there(source, progress):
                self._tidy(serving, progress)
                return
            old = state.old if state is not None and unpublished else serving
            files = finished_files(source, self._folder(source))
            if (
                files is not None
                and state is not None
                and state.new == files.database
                and (unpublished or (state.imported and state.new in self._home.databases()))
            ):
                progress.note(f"Going on with the database {state.new}, imported before.")
            else:
                files = self._import(source, old, progress)
            self._serve(source, files, old, progress)

    def _revive(self, progress: Progress) -> None:
        if self._state() is None:
            return
        try:
            self._connection.server_version()
        except StoreUnavailableError:
            with progress.task("Starting Neo4j, stopped by an earlier import"):
                self._home.start()
                self._await()

    # -- the steps ---------------------------------------------------------------------------

    def _import(self, source: GraphSource, old: str, progress: Progress) -> ImportFiles:
        self._tidy(old, progress, note=False)
        files = write_import_files(source, self._folder(source), progress)
        self._record(_State(old, files.database, imported=False))
        with progress.task(f"Import into Neo4j ({files.database})"):
            options = import_options(files, str(files.folder))
            log = files.folder / "import.log"
            self._home.import_full(files.database, options, log, self._lock)
        self._record(_State(old, files.database, imported=True))
        return files

    def _serve(self, source: GraphSource, files: ImportFiles, old: str, progress: Progress) -> None:
        try:
            if self._serving() != files.database:
                with progress.task(f"Restarting Neo4j with {files.database}"):
                    self._switch(files.database)
            self._publish(source, files, progress)
        except Exception:  # a stop by the user is continued by the next run
            self._back(old, progress)
            raise
        (self._control / _STATE).unlink(missing_ok=True)
        files.remove()
        self._tidy(files.database, progress, kept=old)

    def _back(self, old: str, progress: Progress) -> None:
        try:
            (self._control / _STATE).unlink(missing_ok=True)
            self._switch(old)
            progress.note(f"The database {old} serves again.")
        except KgqaError as error:
            progress.note(f"The database {old} could not be made to serve again: {error}")

    def _switch(self, database: str) -> None:
        self._connection.close()
        self._home.switch(database)
        if self._await() != database:
            raise GraphError(
                f"Neo4j at {self.url} was restarted and does not serve {database}.",
                "See which configuration that server reads, and its logs.",
            )

    def _await(self) -> str:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._serving()
            except StoreUnavailableError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def _state(self) -> _State | None:
        try:
            return TypeAdapter(_State).validate_json((self._control / _STATE).read_bytes())
        except (OSError, ValidationError):
            return None

    def _record(self, state: _State) -> None:
        write_whole(self._control / _STATE, TypeAdapter(_State).dump_json(state))

    def _tidy(
        self, serving: str, progress: Progress, *, kept: str | None = None, note: bool = True
    ) -> None:
        """Delete our databases that do not serve; note ``kept`` if it is not ours."""
        now = self._serving()
        for name in sorted(self._home.databases() - {serving, now}):
            if name.startswith(_PREFIX):
                try:
                    self._home.remove(name)
                except (OSError, GraphError) as error:
                    progress.note(f"The database {name} is no longer used; its files stay: {error}")
            elif note and name == kept:
                progress.note(
                    f"The database {name} is no longer served; its files stay in "
                    f"{self._home.folder}."
                )

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        """Let one import into this server run at a time; that of a killed run is waited for."""
        import fcntl  # POSIX alone, as the programs of bin/ are

        try:
            self._control.mkdir(parents=True, exist_ok=True)
            file = (self._control / "kgqa-import.lock").open("a")
        except OSError as error:
            raise UsageError(
                f"The folder {self._control} cannot be written: {error.strerror}.",
                "Run the import as a user who may administer that server, or set `method` to bolt.",
            ) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                with progress.task("Waiting for another import into this server to end"):
                    fcntl.flock(file, fcntl.LOCK_EX)
            # the importer inherits it, and so holds the lock if this process is killed
            self._lock = file.fileno()
            yield


def import_options(files: ImportFiles, seen: str) -> list[str]:
    """Return every option of the importer, which sees the files in the folder ``seen``.

    All are given, because its defaults drift. Raises UsageError.
    """
    if "," in seen:
        raise UsageError(
            f"The importer cannot read files in {seen}: a comma is in the path.",
            "Name another folder for the import files.",
        )

    def group(names: list[str]) -> str:
        return ",".join(f"{seen}/{name}" for name in names)

    multiline = group(files.multiline)
    return [
        *(f"--nodes={group(files.files[what])}" for what in ("nodes", "names", "relations")),
        f"--relationships={group(files.files['edges'])}",
        "--format=aligned",
        "--input-type=csv",
        "--id-type=integer",
        "--delimiter=,",
        '--quote="',
        f"--array-delimiter=U+{ord(ARRAY_DELIMITER):04X}",
        f"--multiline-fields-format={'v2' if multiline else 'v1'}",
        f"--multiline-fields={multiline or 'false'}",
        f"--read-buffer-size={max(_BUFFER, 4 * files.longest)}",
        "--input-encoding=UTF-8",
        "--legacy-style-quoting=false",
        "--trim-strings=false",
        "--ignore-empty-strings=false",
        "--ignore-extra-columns=false",
        "--auto-skip-subsequent-headers=false",
        "--normalize-types=true",
        "--strict=true",
        "--skip-bad-relationships=false",
        "--skip-duplicate-nodes=false",
        "--skip-bad-entries-logging=false",
        "--bad-tolerance=0",
        "--max-off-heap-memory=70%",
        "--high-parallel-io=auto",
        "--overwrite-destination=true",  # a name that nobody has: what is there is a stopped import
        f"--report-file={seen}/import.report",
    ]
