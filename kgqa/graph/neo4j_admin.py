"""Writing a whole KG by Neo4j's own importer, into a database of a new name.

The importer works while the old database serves; the server is restarted once with the new one as
its default, and the KG published in one step. If that fails the old one is made the default again;
an import that was stopped is continued by the next run. Other KGs of the old database are out of
reach afterwards, which is refused unless it is requested.
"""

from __future__ import annotations

import dataclasses
import re
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

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
from kgqa.graph.neo4j_home import LocalHome
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
_STATE = "kgqa-import.json"
_BUFFER = 4 << 20  # bytes, the importer's own default


def beside(connection: Neo4jConnection, kg: str) -> tuple[list[str], int]:
    """Return the other KGs of the database, and how many nodes are not kgqa's."""
    others = [info.name for info in connection.list_kgs() if info.name != kg]
    return others, Neo4jWriter(connection).run("count_foreign")[0]["count"]


def is_enterprise(connection: Neo4jConnection) -> bool:
    """Return whether the server is of the edition that has several databases at a time."""
    return bool(Neo4jWriter(connection).run("edition")[0]["edition"] == "enterprise")


@dataclass(frozen=True, slots=True)
class _State:
    kg: str
    version: str
    old: str  # the database that serves until the switch
    new: str
    imported: bool  # whether ``new`` is whole, apart from indexes
    files: dict[str, Any]  # label, load, patches, counts


class Neo4jAdminWriter:
    """Writes a KG by the server's importer, from ``work_folder`` or the home's ``import``."""

    def __init__(
        self,
        connection: Neo4jConnection,
        home: Neo4jHome,
        *,
        replace_database: bool = False,
        work_folder: Path | None = None,
    ) -> None:
        self.url = connection.url
        self._connection = connection
        self._bolt = Neo4jWriter(connection)
        self._home = home
        self._replace = replace_database
        local = isinstance(home, LocalHome)
        self._work = work_folder if work_folder and local else home.work_folder
        self._control = home.folder / "run" if local else home.work_folder

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write the KG, unless that content is there; the old database serves until the restart.

        Raises UsageError if something else would be out of reach; GraphError if the importer or the
        server fails, or the KG cannot be held; IngestError if import files cannot be written.
        """
        self._connection.acquire()
        try:
            with self._alone(progress):
                self._revive(progress)
                self._write(source, progress)
        except OSError as error:
            if isinstance(error, KgqaError):
                raise
            raise GraphError(
                f"{error.filename or self._home.folder} cannot be read or written: "
                f"{error.strerror or error}.",
                "The import must run as a user who may administer that server.",
            ) from None
        finally:
            self._connection.release()

    def _write(self, source: GraphSource, progress: Progress) -> None:
        self._check(source)
        info = source.info
        serving = self._serving()
        state = self._state()
        if state is not None and state.new == serving:
            meta = self._connection.meta(state.kg)
            if meta is not None and meta["load"] == state.files["load"]:
                state = None  # only the tidying up was left
        if state is None or state.new != serving:
            self._refuse_others(info.name)
            if self._bolt.same_content(source):
                progress.note(f"{info.name} is in {self.url} already, with that content.")
                self._tidy(serving, progress)
                return
        old = state.old if state is not None and state.new == serving else serving
        if (
            state is not None
            and (state.kg, state.version) == (info.name, info.version)
            and (
                state.new == serving  # by the commands that the user was given
                or (state.imported and state.new in self._home.databases())
            )
        ):
            progress.note(f"Going on with the database {state.new}, imported before.")
        else:
            state = self._import(source, old, progress)
        self._serve(source, state, progress)

    def _revive(self, progress: Progress) -> None:
        if self._state() is None:
            return
        try:
            self._connection.server_version()
        except StoreUnavailableError:
            with progress.task("Starting Neo4j, stopped by an earlier import"):
                self._home.start()
                self._await()

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

    def _refuse_others(self, kg: str) -> None:
        others, foreign = beside(self._connection, kg)
        if (others or foreign) and not self._replace:
            there = [f"the KG {name}" for name in others]
            there += [f"{foreign:,} nodes that are not kgqa's"] if foreign else []
            raise UsageError(
                f"The database that {self.url} serves holds {' and '.join(there)}; after an import "
                "it is no longer served.",
                "Load beside them with `method` bolt, or give them up with `replace_database`.",
            )

    def _folder(self, kg: str) -> Path:
        """Return where the import files lie; with a number added its name is a database's."""
        # a KG's name in ASCII letters, digits and dashes, as Neo4j wants it of databases
        stem = re.sub(r"[^a-z0-9]+", "-", kg.lower()).strip("-")[:40].strip("-") or "kg"
        return self._work / f"{_PREFIX}{stem}"

    # -- the steps ---------------------------------------------------------------------------

    def _import(self, source: GraphSource, old: str, progress: Progress) -> _State:
        self._tidy(old, progress, note=False)
        kg = source.info.name
        folder = self._folder(kg)
        taken = self._home.databases() | {row["name"] for row in self._bolt.run("databases")}
        names = (f"{folder.name}-{number}" for number in count(1))
        new = next(name for name in names if name not in taken)
        files = write_import_files(source, folder, progress)
        kept = {name: getattr(files, name) for name in ("label", "load", "patches", "counts")}
        state = _State(kg, source.info.version, old, new, imported=False, files=kept)
        write_whole(self._control / _STATE, TypeAdapter(_State).dump_json(state))
        with progress.task(f"Import into Neo4j ({new})"):
            log = folder / "import.log"
            self._home.import_full(new, import_options(files, self._home), log, self._lock)
        state = dataclasses.replace(state, imported=True)
        write_whole(self._control / _STATE, TypeAdapter(_State).dump_json(state))
        return state

    def _serve(self, source: GraphSource, state: _State, progress: Progress) -> None:
        try:
            if self._serving() != state.new:
                with progress.task(f"Restarting Neo4j with {state.new}"):
                    self._switch(state.new)
            with progress.task("Indexes of Neo4j"):
                self._publish(source, state)
        except Exception:  # a stop by the user is continued by the next run
            self._back(state, progress)
            raise
        (self._control / _STATE).unlink(missing_ok=True)
        files = finished_files(source, self._folder(state.kg))
        if files is not None:
            files.remove()
        self._tidy(state.new, progress, kept=state.old)

    def _publish(self, source: GraphSource, state: _State) -> None:
        label, load = state.files["label"], state.files["load"]
        self._bolt.prepare()
        self._bolt.run("load_abandon", kg=state.kg)
        for row in self._bolt.run("dropping"):  # of a run that was stopped here: it is this load
            self._bolt.run("delete_dropping", load=row["load"])
        self._bolt.begin(state.kg, label, load)
        patches = state.files["patches"]
        for start in range(0, len(patches), NODE_BATCH):
            self._bolt.run("patch_nodes", of=label, rows=patches[start : start + NODE_BATCH])
        for what, of in (("names", "KGName"), ("relations", "KGRelation")):
            found = self._bolt.run("count_nodes", of=of)[0]["count"]
            if found != state.files["counts"][what]:
                raise GraphError(
                    f"Neo4j at {self.url} holds {found:,} {what} of {state.kg}; imported were "
                    f"{state.files['counts'][what]:,}. The load is not published.",
                    "Load it again.",
                )
        if not self._bolt.finish(source, label, load):
            raise GraphError(
                f"Another load of {state.kg} into {self.url} took the place of this one.",
                "Let that one finish.",
            )

    def _back(self, state: _State, progress: Progress) -> None:
        try:
            (self._control / _STATE).unlink(missing_ok=True)
            self._switch(state.old)
            progress.note(f"The database {state.old} serves again.")
        except KgqaError as error:
            progress.note(f"The database {state.old} could not be made to serve again: {error}")

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

    def _serving(self) -> str:
        for row in self._bolt.run("databases"):
            if row["default"] and row["currentStatus"] == "online":
                return str(row["name"])
        raise StoreUnavailableError(
            f"Neo4j at {self.url} serves no database.", "Look at the server's logs."
        )

    def _state(self) -> _State | None:
        try:
            return TypeAdapter(_State).validate_json((self._control / _STATE).read_bytes())
        except (OSError, ValidationError):
            return None

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


def import_options(files: ImportFiles, home: Neo4jHome) -> list[str]:
    """Return every option of the importer: its defaults drift. Raises UsageError."""
    if "," in str(files.folder):
        raise UsageError(
            f"The importer cannot read files in {files.folder}: a comma is in the path.",
            "Name another folder for the import files.",
        )

    def group(paths: list[Path]) -> str:
        return ",".join(home.seen(path) for path in paths)

    multiline = group([files.folder / name for name in files.multiline])
    return [
        *(f"--nodes={group(files.paths(what))}" for what in ("nodes", "names", "relations")),
        f"--relationships={group(files.paths('edges'))}",
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
        f"--report-file={home.seen(files.folder / 'import.report')}",
    ]
