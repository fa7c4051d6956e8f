"""What kgqa took from an attached Neo4j database, and what a survey counted in it.

``<home>/<kg>/attached.toml``, to be edited, says where the database is, what its nodes are called,
what people call things, and what is left out. Beside it, in SQLite, lie schema, degrees, and names
up to a bound, for look-ups that the database itself cannot do: inexact ones, and exact ones in any
case and punctuation. Everything else is read from the server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import sqlite3
from dataclasses import asdict, field, replace
from itertools import count
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, KgqaError, StoreUnavailableError, UsageError, without_secrets
from kgqa.files import own_partial, read_settings, stamp_of, toml_key, toml_value, write_whole
from kgqa.graph.model import Direction, KGInfo, Kind, Relations
from kgqa.graph.names import name_form
from kgqa.graph.schema import GraphSchema  # noqa: TC001 - pydantic reads it
from kgqa.graph.sqlite_file import FILE_NAME as LOADED
from kgqa.graph.sqlite_file import SqliteReader, prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


RECORD_NAME = "attached.toml"
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, config=_STRICT)
class Words:
    """Other names of a property, and its description."""

    also: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True, config=_STRICT)
class Naming:
    """Which properties are the id and the names of the nodes of a label.

    ``name``: properties, the name first, then other names. ``parts``: properties that form the name
    together, as a first and a last name.

    ``id``: a property whose value is unique, or "" for the server's own element id; None lets the
    survey choose.
    """

    name: tuple[str, ...] = ()
    id: str | None = None
    also: tuple[str, ...] = ()
    description: str = ""
    properties: dict[str, Words] = field(default_factory=dict)
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, config=_STRICT)
class Called:
    """Other names of a relation, and its description.

    ``relation``: the property of a relationship type that says which relation each relationship
    is, "" for none; None lets the survey choose.
    """

    relation: str | None = None
    also: tuple[str, ...] = ()
    description: str = ""
    properties: dict[str, Words] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Mediators:
    """The rule for nodes that stand for an n-ary fact: their label, or a property's pattern."""

    label: str = ""
    property: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True, config=_STRICT)
class Attachment:
    """The editable record of an attached database: its address, filters and names.

    ``only`` and ``skip``: labels, relationship types, ``Label.property``. ``values``: the label of
    nodes that are literals, where walks end. Of a SPARQL endpoint alone: ``database`` is the named
    graph, ``labels`` are the properties that are names, ``language`` is the wanted one, ``prefix``
    stands before short ids, and a mediator is what has no name and an id that the pattern matches;
    ``classes`` are the predicates that say the class, ``subclasses`` the one that leads from a
    class to a wider one; ``keep`` excepts from ``skip``: the longest entry decides.
    """

    url: str  # without credentials
    database: str
    attached: str  # when, ISO 8601
    direction: Direction = "both"
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    mediators: Mediators = field(default_factory=Mediators)
    values: str = ""
    types: dict[str, Naming] = field(default_factory=dict)
    relations: dict[str, Called] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    language: str = ""
    prefix: str = ""
    classes: tuple[str, ...] = ()
    subclasses: str = ""
    keep: tuple[str, ...] = ()

    @property
    def is_endpoint(self) -> bool:
        """Whether it is a SPARQL endpoint, not a Neo4j database."""
        return self.url.startswith(("http://", "https://"))

    def hides(self, owner: str, name: str) -> bool:
        """Return whether the record excludes property ``name`` of the label or type ``owner``."""
        return f"{owner}.{name}" in self.skip

    def write(self, folder: Path) -> None:
        """Write the record to ``folder`` atomically. Raises OSError."""
        write_whole(folder / RECORD_NAME, as_toml(self).encode())


def read_attachment(folder: Path) -> Attachment:
    """Read the attachment record from a KG's folder. Raises GraphError if it is malformed."""
    path = folder / RECORD_NAME
    try:
        return TypeAdapter(Attachment).validate_python(read_settings(path))
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{where}: {first['msg']}"
    except ValueError as error:
        what = str(error)
    raise GraphError(
        f"{path} is malformed: {without_secrets(what)}.",
        "Correct it, or delete it and run `kgqa attach` again.",
    )


def is_attached(home: Path, kg: str) -> bool:
    """Return whether the home folder has an attached KG of that name."""
    return (home / kg / RECORD_NAME).is_file()


def free_name(home: Path, base: str, url: str, database: str, *, damaged: bool) -> str:
    """Return ``base`` as the name of a KG for a database, numbered if another KG has that name.

    ``damaged``: whether a KG whose record cannot be read is of this database, else of another one.
    """

    def is_taken(folder: Path) -> bool:
        """Return whether a folder is that of a loaded KG or of another database."""
        if (folder / LOADED).exists():
            return True
        if not is_attached(home, folder.name):
            return False
        try:
            record = read_attachment(folder)
        except GraphError:
            return not damaged
        return (record.url, record.database) != (url, database)

    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in names if not is_taken(home / name))


def as_toml(record: Attachment) -> str:
    """Format the record as TOML, with comments on the fields that can be edited."""
    lines = [
        "# What kgqa took from this database. Edit it: it is read when the KG is opened.",
        '# also = ["client"] is what people call a label, a type or a property.',
        "",
    ]
    plain: tuple[str, ...] = ("url", "database", "attached", "direction", "only", "skip", "values")
    if record.is_endpoint:
        plain += ("keep", "labels", "language", "prefix", "classes", "subclasses")
    lines += [f"{name} = {toml_value(getattr(record, name))}" for name in plain]
    lines.append(f"mediators = {toml_value(asdict(record.mediators))}")
    for label, type_ in record.types.items():
        lines += [
            "",
            f"[types.{toml_key(label)}]",
            f"name = {toml_value(type_.name)}",
            f"id = {toml_value(type_.id or '')}",
            *([f"parts = {toml_value(type_.parts)}"] if type_.parts else []),
        ]
        lines += _naming_lines(type_)
    for name, called in record.relations.items():
        lines += ["", f"[relations.{toml_key(name)}]"]
        if called.relation is not None:
            lines.append(f"relation = {toml_value(called.relation)}")
        lines += _naming_lines(called)
    return "\n".join(lines) + "\n"


def _naming_lines(names: Naming | Called) -> list[str]:
    """Format the other names and descriptions of a label or relation as lines of TOML."""
    lines = [f"also = {toml_value(names.also)}"]
    if names.description:
        lines.append(f"description = {toml_value(names.description)}")
    for name, words in names.properties.items():
        lines.append(f"properties.{toml_key(name)} = {toml_value(asdict(words))}")
    return lines


FILE_NAME = "survey.sqlite"
APPLICATION_ID = 0x6B674174  # "kgAt"
USER_VERSION = 4
TABLES = """
CREATE TABLE survey (content TEXT NOT NULL);
CREATE TABLE node (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT,
    kind INTEGER NOT NULL,
    degree INTEGER NOT NULL
);
CREATE TABLE name_norm (norm TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (norm, key))
    WITHOUT ROWID;
CREATE VIRTUAL TABLE node_text USING fts5 (
    name, aliases, content='', tokenize="unicode61 remove_diacritics 2"
);
"""


@dataclasses.dataclass(frozen=True, slots=True)
class TextIndex:
    """A full-text index of the server, with its labels and properties."""

    name: str
    labels: tuple[str, ...]
    properties: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Survey:
    """What a survey of a database found; ``state``: the database's when it was read.

    ``relations``: relationship types and walked properties, the relations of walks, by key.
    ``named``: how many nodes it holds the names of; ``seconds``: how long it took. Of an endpoint
    alone: ``called`` is what relations are called by their labels, ``all_relations`` whether these
    are all predicates, ``text_indexes`` has one if the server finds names by words, and a node
    without a name is a mediator only if it is of one of ``mediator_types``, where there are some.
    """

    info: KGInfo
    schema: GraphSchema
    types: dict[str, Naming]
    relations: tuple[str, ...]
    indexed: frozenset[tuple[str, str]]
    text_indexes: tuple[TextIndex, ...]
    state: str
    settings: str  # of the record that it was read with
    read: float  # Unix time
    seconds: float
    named: int
    called: dict[str, str] = field(default_factory=dict)
    all_relations: bool = True
    mediator_types: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    """What was attached."""

    kg: str
    record: Attachment
    survey: Survey
    seconds: float


# key, id, name, kind, degree, other names
Node = tuple[int, str, str | None, Kind, int, list[str]]
_SURVEY = TypeAdapter(Survey)


class SurveyFile(SqliteReader):
    """The survey in a KG's folder, for one thread. Raises StoreUnavailableError if damaged."""

    def __init__(self, folder: Path) -> None:
        """Open the survey file of ``folder`` and check its layout."""
        super().__init__(folder / FILE_NAME, "node", f"The survey of {folder.name}")
        self.stamp = stamp_of(self.path)  # before it is opened: never newer than what is read
        if self.stamp is None:
            raise self._damaged("it is missing")
        with self._opening() as layout:
            if layout != (APPLICATION_ID, USER_VERSION):
                raise self._damaged("it has another layout")
            self._check_tables(TABLES)
            try:
                ((content,),) = self.query("SELECT content FROM survey")
                self.survey = _SURVEY.validate_json(content)
            except ValueError:
                raise self._damaged("its record does not read") from None
        self.info = self.survey.info

    def _read_relations(self) -> Relations:
        """Raise NotImplementedError: the relations are in the survey record."""
        raise NotImplementedError  # relations are those of the survey

    def _damaged(self, what: str) -> StoreUnavailableError:
        """Return the error of an unusable survey file; ``what`` is wrong with it."""
        return StoreUnavailableError(
            f"{self.path} cannot be used: {what}.", "Delete it: it is made again from the database."
        )


def read_info(folder: Path, record: Attachment) -> KGInfo:
    """Return the meta record of an attached KG; all counts are 0 if its survey cannot be read."""
    try:
        with SurveyFile(folder) as file:
            return replace(file.info, name=folder.name, direction=record.direction)
    except KgqaError:  # the survey is made again when the KG is opened
        source = source_of(record)
        return KGInfo(folder.name, source, "", record.direction, 0, 0, 0, 0, 0, loader="attach")


def left_out(folder: Path) -> str:
    """Return a sentence on predicates that the survey left out; "" if none, or without a survey."""
    try:
        with SurveyFile(folder) as file:
            survey = file.survey
    except KgqaError:  # it is made again when the KG is opened
        return ""
    if survey.all_relations:
        return ""
    return (
        f"The survey of {folder.name} read {len(survey.relations):,} predicates and not all: edges "
        "of others are left out, and an answer that meets some says so. Name what you need: "
        "`kgqa attach --only`."
    )


def attached_kgs(home: Path, faults: list[KgqaError] | None = None) -> list[KGInfo]:
    """List the KGs attached in a home, by name, with the counts of their last surveys.

    A KG whose record cannot be read is skipped; its error is appended to ``faults``, if given.
    """
    infos: list[KGInfo] = []
    for folder in sorted(path.parent for path in home.glob(f"*/{RECORD_NAME}")):
        try:
            infos.append(read_info(folder, read_attachment(folder)))
        except GraphError as error:
            if faults is not None:
                faults.append(error)
    return infos


def source_of(record: Attachment) -> str:
    """Return the database's address, as shown as the source of its KG."""
    what = "graph" if record.is_endpoint else "database"
    return f"{record.url} ({what} {record.database})" if record.database else record.url


@contextlib.contextmanager
def new_survey(folder: Path) -> Iterator[SurveyWriter]:
    """Open a writer of a new survey, which replaces that of ``folder`` when the block ends."""
    path = own_partial(folder / FILE_NAME)
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            prepare(db, APPLICATION_ID, USER_VERSION, TABLES)
            db.execute("BEGIN")
            yield SurveyWriter(db)
            db.execute("COMMIT")
        path.replace(folder / FILE_NAME)
    finally:
        path.unlink(missing_ok=True)


class SurveyWriter:
    """Writes a survey file: nodes' names, then the survey. Raises sqlite3.Error, OSError."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, nodes: Iterable[Node]) -> int:
        """Write nodes, and the names of those that are entities; return the number of nodes."""
        rows = list(nodes)
        self._db.executemany(
            "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?)", [row[:5] for row in rows]
        )
        norms: set[tuple[str, int]] = set()
        texts: list[tuple[int, str, str]] = []
        for key, _, name, kind, _, others in rows:
            if kind != Kind.ENTITY:
                continue
            forms = [name_form(text) for text in (name or "", *others)]
            norms.update((form, key) for form in forms if form)
            # normalised, so that a query's words are split as these are
            texts.append((key, forms[0], " ".join(forms[1:])))
        self._db.executemany("INSERT OR IGNORE INTO name_norm VALUES (?, ?)", sorted(norms))
        self._db.executemany("INSERT INTO node_text (rowid, name, aliases) VALUES (?, ?, ?)", texts)
        return len(rows)

    def finish(self, survey: Survey) -> None:
        """Write the survey record."""
        self._db.execute("INSERT INTO survey VALUES (?)", [_SURVEY.dump_json(survey).decode()])


@contextlib.contextmanager
def surveying(folder: Path, url: str, database: str, language: str = "") -> Iterator[Attachment]:
    """Lock a KG's folder for the survey of a database; give the record to survey it by.

    An existing record of this database keeps what was edited in it. Raises UsageError if the folder
    is that of a loaded KG, GraphError, StoreUnavailableError.
    """
    if (folder / LOADED).exists():
        raise UsageError(
            f"{folder.name} is a KG that was loaded into {folder}.", "Choose another name."
        )
    with _alone(folder):
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = Attachment(url, database, now, language=language)
        if is_attached(folder.parent, folder.name):
            before = read_attachment(folder)
            if (before.url, before.database) == (url, database):
                record = replace(before, attached=now)
        yield record


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a KG's folder, which is created, for one survey; on failure delete a new folder.

    Raises GraphError if another process surveys, StoreUnavailableError if it cannot be written.
    """
    made = not folder.exists()
    lock = FileLock(folder / ".attach.lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock:
            yield
        made = False
    except Timeout:
        raise GraphError(
            f"Another process is surveying the database of {folder.name}.", "Try again soon."
        ) from None
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, GraphError):  # a StoreUnavailableError is an OSError too
            raise
        raise StoreUnavailableError(
            f"The survey cannot be written to {folder}: {error}.",
            "See that the disk has room and that you may write there, or choose another `home`.",
        ) from None
    finally:
        if made and folder.is_dir():  # a failure leaves nothing behind
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
