"""Writing a whole KG by Neo4j's own importer, into a database of a new name.

The importer works while the old database serves; then the server is restarted with the new one as
its default. Both are the user's to run: a load writes the import files and names the commands, and
the next run of the same load sees over Bolt that they were run, and publishes the KG in one step.
Other KGs of the old database are out of reach afterwards, which is refused unless it is requested.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from kgqa.errors import GraphError, KgqaError, StoreUnavailableError, UsageError
from kgqa.files import write_whole
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
    from pathlib import Path

    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.store import GraphSource
    from kgqa.progress import Progress

SETTING = "initial.dbms.default_database"
COMPOSE_SETTING = "KGQA_NEO4J_DEFAULT_DATABASE"  # of docker-compose.yml
_BUFFER = 4 << 20  # bytes, the importer's own default


def other_content(connection: Neo4jConnection, kg: str) -> tuple[list[str], int]:
    """Return the other KGs of the database, and how many nodes were not written by kgqa."""
    others = [info.name for info in connection.list_kgs() if info.name != kg]
    return others, Neo4jWriter(connection).run("count_foreign")[0]["count"]


class ImportWriter:
    """A ``GraphWriter`` that uses Neo4j's importer, on an installed or a Compose server.

    ``server``: its folder. ``work``: the folder for an installation's import files; a container
    sees only the folder ``import`` beside its Compose file. Raises UsageError if ``server`` is
    neither.
    """

    def __init__(
        self,
        connection: Neo4jConnection,
        server: Path,
        work: Path | None = None,
        *,
        replace_database: bool = False,
    ) -> None:
        self.url = connection.url
        self._connection = connection
        self._bolt = Neo4jWriter(connection)
        self._server = server.expanduser().absolute()
        self._replace = replace_database
        self._local = (self._server / "bin" / "neo4j-admin").is_file()
        compose = (self._server / name for name in ("docker-compose.yml", "compose.yaml"))
        if not self._local and not any(path.is_file() for path in compose):
            raise UsageError(
                f"{self._server} is not the folder of a Neo4j server: it has neither "
                "bin/neo4j-admin nor a docker-compose.yml.",
                "Name the folder of an installation, the folder that `scripts/neo4j start` says, "
                "or a checkout whose Compose file runs the server.",
            )
        self._work = work if work and self._local else self._server / "import"

    def write(self, source: GraphSource, progress: Progress) -> None:
        """Write import files and raise GraphError with the import commands, or publish the import.

        Does nothing if the KG exists with that content. Raises UsageError if other content would
        become inaccessible; GraphError if the KG cannot be held; IngestError if files cannot be
        written.
        """
        self._connection.acquire()
        try:
            self._check(source)
            folder = self._folder(source)
            files = finished_files(source, folder)
            if files is not None and files.database == self._default_database():
                try:
                    self._publish(source, files, progress)
                finally:  # a load that failed begins again with new files
                    files.remove()
            elif not self._exists_already(source, progress):
                raise self._commands(write_import_files(source, folder, progress))
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

    def _commands(self, files: ImportFiles) -> GraphError:
        """Return the error whose hint is the commands that import the files on the server."""
        name = files.database
        seen = str(files.folder) if self._local else f"/import/{files.folder.name}"
        lines = map(json.dumps, import_options(files, seen))
        write_whole(files.folder / "import.args", "\n".join(lines).encode())
        command = f"neo4j-admin database import full {shlex.quote(f'@{seen}/import.args')} {name}"
        if self._local:
            steps = [
                f"bin/{command}",
                f"sed -i.bak '/^ *{SETTING}/d' conf/neo4j.conf",
                f"echo {SETTING}={name} >> conf/neo4j.conf",
                "bin/neo4j stop",
                "bin/neo4j start",
            ]
        else:
            # as the server's own user: files of root could not be opened by it
            steps = [
                f"docker compose exec -T --user neo4j neo4j {command}",
                f"echo {COMPOSE_SETTING}={name} >> .env",
                "docker compose up -d --wait neo4j",
            ]
        steps.insert(0, f"cd {shlex.quote(str(self._server))}")
        return GraphError(
            f"The import files of {files.kg} are ready; importing them, and the restart of the "
            f"server in {self._server}, are yours to run.",
            f"Run `{' && '.join(steps)}`, then the same load again: it goes on from there. "
            "`method` bolt needs no commands.",
        )

    def _check(self, source: GraphSource) -> None:
        """Raise UsageError or GraphError if this server cannot import the KG."""
        if not self._connection.is_default:
            raise UsageError(
                f"NEO4J_DATABASE names {self._connection.database}, but an import makes another "
                "database the one that serves.",
                "Unset NEO4J_DATABASE: then the one that serves is meant.",
            )
        check_version(self._connection.server_version(), self.url)
        if self._bolt.run("edition")[0]["edition"] == "enterprise":
            raise UsageError(
                f"Neo4j at {self.url} is an Enterprise server, whose databases are made and "
                "switched by its administrator.",
                "Set `method` to bolt.",
            )
        check_relations(source, 0, self.url)  # the database will hold this KG alone
        check_entities(source)

    def _exists_already(self, source: GraphSource, progress: Progress) -> bool:
        """Return whether the KG exists. Raises UsageError if an import would hide other content."""
        kg = source.info.name
        others, foreign = other_content(self._connection, kg)
        if (others or foreign) and not self._replace:
            there = [f"the KG {name}" for name in others]
            there += [f"{foreign:,} nodes that are not kgqa's"] if foreign else []
            raise UsageError(
                f"The database that {self.url} serves holds {' and '.join(there)}; after an import "
                "all of it is gone.",
                "Load beside them with `method` bolt, or give them up with `replace_database`.",
            )
        same = self._bolt.same_content(source)
        if same:
            progress.note(f"{kg} is in {self.url} already, with that content.")
        return same

    def _folder(self, source: GraphSource) -> Path:
        """Return the folder of the import files."""
        # a KG's name in ASCII letters, digits and dashes, as Neo4j wants it of databases
        stem = re.sub(r"[^a-z0-9]+", "-", source.info.name.lower()).strip("-")[:40].strip("-")
        return self._work / f"kgqa-{stem or 'kg'}"

    def _default_database(self) -> str:
        """Return the name of the online default database. Raises StoreUnavailableError."""
        for row in self._bolt.run("databases"):
            if row["default"] and row["currentStatus"] == "online":
                return str(row["name"])
        raise StoreUnavailableError(
            f"Neo4j at {self.url} serves no database.", "Look at the server's logs."
        )

    def _publish(self, source: GraphSource, files: ImportFiles, progress: Progress) -> None:
        """Patch and index the imported database, and make its KG visible."""
        kg = files.kg
        with progress.task("Indexes of Neo4j"):
            self._bolt.prepare()
            self._bolt.run("load_abandon", kg=kg)
            for row in self._bolt.run("dropping"):  # of a run that was stopped here: this load
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


def import_options(files: ImportFiles, seen: str) -> list[str]:
    """Return all options of the importer, to which the files appear in the folder ``seen``.

    All are given because its defaults change. Raises UsageError.
    """
    if "," in seen:
        raise UsageError(
            f"The importer cannot read files in {seen}: a comma is in the path.",
            "Name another folder for the import files.",
        )

    def file_list(names: list[str]) -> str:
        """Return the files' paths as the importer sees them, joined by commas."""
        return ",".join(f"{seen}/{name}" for name in names)

    multiline = file_list(files.multiline)
    return [
        *(f"--nodes={file_list(files.files[what])}" for what in ("nodes", "names", "relations")),
        f"--relationships={file_list(files.files['edges'])}",
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
        "--overwrite-destination=true",  # nobody has this name: it is of a stopped import
        f"--report-file={seen}/import.report",
    ]
