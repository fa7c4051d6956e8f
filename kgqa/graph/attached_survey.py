"""Attaching a Neo4j database as it is: a survey in read-only sessions, and its record."""

from __future__ import annotations

import contextlib
import datetime
import re
import secrets
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from kgqa.cypher.attached import attached, constraint_statement, text_index_statement
from kgqa.errors import GraphError, StoreUnavailableError, UsageError
from kgqa.graph.attached import RECORD_NAME, AttachedRecord
from kgqa.graph.attached_cache import CacheBuilder, value_of
from kgqa.graph.model import KGInfo, Kind
from kgqa.graph.sqlite_file import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from kgqa.graph.attached import Attachment
    from kgqa.graph.attached_cache import Node
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.progress import Progress

NO_ID = "nodes without an id"
OUTSIDE = "edges whose other end lies outside the label"
IDLESS_END = "edges of nodes without an id"
PARALLEL = "edges that repeat another of the same type between the same nodes"
_BATCH = 5_000  # nodes that are taken at a time
_HEADS = 2_000  # nodes whose edges one statement reads
_SHOWN = 12  # labels or properties that an error lists
_OLDEST = (5, 0)  # element ids came with it


@dataclass(frozen=True, slots=True)
class Attached:
    """What a survey found. ``advice``: statements that would make indexes that are missing."""

    record: AttachedRecord
    left_out: dict[str, int]
    advice: list[str]
    seconds: float


def attach(
    connection: Neo4jConnection, attachment: Attachment, folder: Path, progress: Progress
) -> Attached:
    """Survey a database and record it in ``folder``; the KG is named after the folder.

    Raises UsageError if the name is taken or an option malformed, StoreUnavailableError if the
    server or the folder cannot be used, GraphError if there is no such graph or it changes
    meanwhile.
    """
    began = time.monotonic()
    survey = _Survey(connection, attachment, progress)
    if (folder / FILE_NAME).exists():
        raise UsageError(
            f"{folder.name} is a KG that was loaded into {folder}.", "Choose another name."
        )
    with _folder_alone(folder):
        if folder.name in {info.name for info in connection.list_kgs()}:
            raise UsageError(
                f"{folder.name} is a KG that was loaded into {connection.url}.",
                "It needs no attaching; choose another name for another part of the database.",
            )
        survey.check()
        path = folder / f"attached-{secrets.token_hex(4)}.sqlite"
        try:
            with CacheBuilder(path, with_text=survey.text_index is None) as builder:
                record = survey.run(builder, folder.name)
            record.write(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _tidy(folder, path.name)
    return Attached(record, dict(survey.left_out), survey.advice(), time.monotonic() - began)


@contextlib.contextmanager
def _folder_alone(folder: Path) -> Iterator[None]:
    made = not folder.exists()
    lock = FileLock(folder / ".attach.lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock:
            yield
    except Timeout:
        raise GraphError(
            f"Another process is attaching {folder.name}.", "Wait until it has ended."
        ) from None
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, GraphError):  # a StoreUnavailableError is an OSError too
            raise
        raise StoreUnavailableError(
            f"The survey cannot be written to {folder}: {error}.",
            "See that the disk has room and that you may write there, or choose another `home`.",
        ) from None
    finally:
        if made:  # a failure leaves no empty folder behind
            with contextlib.suppress(OSError):
                if {path.name for path in folder.iterdir()} <= {".attach.lock"}:
                    (folder / ".attach.lock").unlink(missing_ok=True)
                    folder.rmdir()


def _tidy(folder: Path, kept: str) -> None:
    for pattern in ("attached-*.sqlite*", f".{RECORD_NAME}.partial"):
        for path in folder.glob(pattern):
            if path.name != kept:
                with contextlib.suppress(OSError):
                    path.unlink()


class _Survey:
    """One reading of a database: ``check``, then ``run``; ``left_out`` counts by reason."""

    def __init__(
        self, connection: Neo4jConnection, attachment: Attachment, progress: Progress
    ) -> None:
        self.left_out: Counter[str] = Counter()
        self.text_index: str | None = None
        self._connection = connection
        self._given = attachment
        aliases = attachment.alias_property
        self._names = [attachment.name_property, *([aliases] if aliases else [])]
        self._is_mediator = _mediator_rule(attachment)
        self._progress = progress
        self._by_reference = True
        self._counts: tuple[int, int, int] = (0, 0, 0)

    @property
    def _where(self) -> str:
        return f"{self._connection.url} (database {self._connection.database})"

    def check(self) -> None:
        """Make sure that the database has what was named. Raises GraphError, UsageError."""
        given = self._given
        kinds = (given.mediator_label, given.value_label)
        properties = (given.id_property, given.name_property, given.alias_property)
        for name in (given.label, *kinds, *properties):
            if name is not None and (not name or "\0" in name):
                raise UsageError(
                    f"{name!r} cannot be a label or property.", "Name it as the database does."
                )
        version = self._connection.server_version()
        if version < _OLDEST:
            raise GraphError(
                f"{self._connection.url} runs Neo4j {version[0]}.{version[1]}.",
                "kgqa can attach Neo4j 5 and later.",
            )
        self._counts = self._count(given.label)
        for label in (given.label, *kinds):
            if label is not None and not self._count(label)[0]:
                raise GraphError(
                    f"No node in {self._where} has the label {label!r}.",
                    self._there("labels", "The database has no label at all."),
                )
        for name in properties:
            if name is not None and not self._rows("has_property", property=name):
                raise GraphError(
                    f"No node with the label {given.label!r} in {self._where} has the property "
                    f"{name!r}.",
                    self._there("properties", "These nodes have no property at all."),
                )
        self._find_indexes()

    def _there(self, what: str, nothing: str) -> str:
        there = sorted(self._rows(what)[0][what])
        listed = ", ".join(there[:_SHOWN]) + (", …" if len(there) > _SHOWN else "")
        return f"{what.capitalize()} there are: {listed}." if there else nothing

    def run(self, builder: CacheBuilder, kg: str) -> AttachedRecord:
        """Read the nodes and edges into ``builder``; return the record. Raises GraphError."""
        given = self._given
        with (
            self._progress.task("reading nodes", self._counts[0], "nodes") as task,
            contextlib.closing(self._nodes()) as nodes,
        ):
            while batch := list(islice(nodes, _BATCH)):
                builder.add(batch)
                task.advance(len(batch))
        with self._progress.task("sorting names", self._counts[0], "nodes") as task:
            count = builder.sort(given.id_property, task)
        if not count:
            raise GraphError(
                f"No node with the label {given.label!r} in {self._where} has an id.",
                "Name another property with `id_property`.",
            )
        with self._progress.task("reading edges", count, "nodes") as task:
            for start in range(0, count, _HEADS):
                self._edges(builder, start)
                task.advance(min(_HEADS, count - start))
        self._count_left_out(builder.edges)
        version, types = builder.finish()
        kinds = builder.kinds
        info = KGInfo(
            name=kg,
            source=f"label {given.label} in {self._where}",
            version=version,
            direction=given.direction,
            entities=kinds[Kind.ENTITY],
            mediators=kinds[Kind.MEDIATOR],
            values=kinds[Kind.VALUE],
            relations=len(types),
            edges=builder.edges,
            loader="attach",
        )
        return AttachedRecord(
            info=info,
            url=self._connection.url,
            database=self._connection.database,
            attachment=given,
            by_reference=self._by_reference,
            text_index=self.text_index,
            cache=builder.path.name,
            attached=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def advice(self) -> list[str]:
        """Return the statements that would make the indexes that are missing."""
        given = self._given
        found: list[str] = []
        if self._by_reference:
            found.append(constraint_statement(given.label, given.id_property))
        if self.text_index is None:
            found.append(text_index_statement(given.label, *self._names))
        return found

    def _nodes(self) -> Generator[Node]:
        given = self._given
        first: list[str] = []
        rows = self._connection.stream(
            attached("nodes", given.label, given.id_property),
            id=given.id_property,
            name=given.name_property,
            alias=given.alias_property,
            mediator=given.mediator_label,
            value=given.value_label,
        )
        with contextlib.closing(rows):
            for record in rows:
                ref, id_ = record["ref"], record["id"]
                if id_ is None or id_ == "":
                    self.left_out[NO_ID] += 1
                    if len(first) < 3:
                        first.append(ref)
                    continue
                yield self._node(*record)
        if first:
            self._progress.note(
                f"{self.left_out[NO_ID]:,} nodes have no {given.id_property!r} and are left out; "
                f"the first: {', '.join(first)}."
            )

    def _node(
        self, ref: str, id_: object, name: object, aliases: object, mediator: bool, value: bool
    ) -> Node:
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            raise GraphError(
                f"The id {id_!r} of the node {ref} in {self._where} is neither text nor a "
                "whole number.",
                "Name another property with `id_property`.",
            )
        text = str(id_)
        if mediator or self._is_mediator(text):
            kind = Kind.MEDIATOR
        else:
            kind = Kind.VALUE if value else Kind.ENTITY
        others = aliases if isinstance(aliases, list) else [aliases]
        names = [alias for other in others if (alias := _text(other))]
        reference = ref if self._by_reference else None
        return text, isinstance(id_, int), _text(name), kind, names, reference

    def _edges(self, builder: CacheBuilder, start: int) -> None:
        heads = builder.nodes(start, _HEADS)
        parameters: dict[str, Any] = {"ids": [value_of(id_, number) for id_, number, _ in heads]}
        if self._by_reference:
            parameters["ids_refs"] = [ref for *_, ref in heads]
        (answer,) = self._rows("neighbours_out", self._by_reference, **parameters)
        if len(set(answer["rows"])) != len(heads):
            raise self._changed()
        groups = [[other for other in group if other != ""] for group in answer["others"]]
        tails = builder.keys_of([other for group in groups for other in group])
        if (tails < 0).any():
            raise self._changed()
        ends = np.cumsum([len(group) for group in groups])
        places = zip(answer["rows"], answer["types"], ends.tolist(), groups, strict=True)
        for row, type_, end, group in sorted(places, key=lambda place: place[:2]):
            if group:
                builder.add_edges(start + row, type_, tails[end - len(group) : end])

    def _count_left_out(self, edges: int) -> None:
        _, leaving, entering = self._counts
        if self._count(self._given.label) != self._counts:
            raise self._changed()
        inner = self._rows("count_inner")[0]["edges"]
        idless = self._rows("count_idless")[0]["edges"] if self.left_out[NO_ID] else 0
        parallel = inner - idless - edges
        if parallel < 0:
            raise self._changed()
        outside = leaving + entering - 2 * inner
        found = {OUTSIDE: outside, IDLESS_END: idless, PARALLEL: parallel}
        self.left_out.update({reason: count for reason, count in found.items() if count})

    def _count(self, label: str) -> tuple[int, int, int]:
        (row,) = self._connection.read(attached("counts", label, self._given.id_property))
        return row["nodes"], row["leaving"], row["entering"]

    def _rows(self, name: str, by_reference: bool = False, **parameters: Any) -> list[Any]:
        given = self._given
        statement = attached(name, given.label, given.id_property, by_reference=by_reference)
        return list(self._connection.stream(statement, **parameters))

    def _find_indexes(self) -> None:
        given = self._given
        try:
            rows = self._rows("indexes")
        except GraphError as error:
            self._progress.note(f"The indexes cannot be listed, so none is used: {error.message}")
            return
        for row in rows:
            labels, properties = row["labels"] or [], row["properties"] or []
            if row["state"] != "ONLINE" or row["entityType"] != "NODE" or given.label not in labels:
                continue
            if row["type"] == "RANGE" and properties == [given.id_property]:
                self._by_reference = False
            elif row["type"] == "FULLTEXT" and set(self._names) <= set(properties):
                self.text_index = row["name"]

    def _changed(self) -> GraphError:
        return GraphError(
            f"The graph in {self._where} changed while it was read.",
            "Attach it when nothing writes to it.",
        )


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _mediator_rule(attachment: Attachment) -> Callable[[str], bool]:
    if attachment.mediators is None:
        return lambda _: False
    if attachment.mediator_label is not None:
        raise UsageError(
            "Mediators are known by a label or by a pattern of their ids, not by both.",
            "Leave out `mediator_label` or `mediators`.",
        )
    try:
        pattern = re.compile(attachment.mediators)
    except re.error as error:
        raise UsageError(
            f"{attachment.mediators!r} cannot be the pattern of mediators: {error}.",
            r"A pattern for Freebase's ids is [mg]\.",
        ) from None
    return lambda id_: pattern.match(id_) is not None
