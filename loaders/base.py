"""What every loader shares: interface, report, file of rejected lines, batches, bundled lists."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.files import read_list
from kgqa.graph.model import (
    EDGE_SCHEMA,
    ENTITY_SCHEMA,
    RELATION_SCHEMA,
    Batch,
    Direction,
    EdgeBatch,
    EntityBatch,
    Kind,
    RelationBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.progress import Progress

    Column: TypeAlias = "pa.Array | Sequence[object]"

_EXAMPLE = 60  # characters of one that is shown at the end of a load
_MAX_KEPT_CHARACTERS = 500  # characters of a rejected line that are kept


class Losses(Counter[str]):
    """Counts of what a load left out, by reason; ``examples`` holds one of each."""

    examples: dict[str, str]


def lose(dropped: Counter[str], reason: str, count: int, example: str = "") -> None:
    """Count left-out items under a reason; keep ``example`` if the reason has none yet."""
    if count > 0:
        dropped[reason] += count
        keep_example(dropped, reason, example)


def keep_example(dropped: Counter[str], reason: str, example: str) -> None:
    """Keep an example of a reason that has none yet, if ``dropped`` holds examples."""
    if example and isinstance(dropped, Losses):
        dropped.examples.setdefault(reason, " ".join(example.split())[:_EXAMPLE])


@dataclass(slots=True)
class Report:
    """The statistics of a load.

    ``dropped`` counts, by reason, what is well-formed and left out on purpose; a rejected line
    violates the dump's form, and is in the rejects file. ``examples``: one by reason. ``taken``: by
    type, the key and name columns that the loader chose.
    """

    lines: int = 0
    rejected: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dropped = Losses(self.dropped)
        self.dropped.examples = self.examples


class Rejects:
    """The file of rejected lines: source, line number, reason and the line, tab-separated.

    It is created at the first reject.
    """

    def __init__(self, path: Path, report: Report) -> None:
        self.path = path
        self._report = report
        self._file: IO[str] | None = None

    def add(self, source: str, line: int, reason: str, text: str) -> None:
        """Count a rejected line and write it to the rejects file, which the first one creates.

        ``line``: its number in ``source``, from 1; ``text``: the line, cut if it is long.
        """
        self._report.rejected += 1
        self._report.reasons[reason] += 1
        if reason not in self._report.examples:
            shown = " ".join(text.split())[:_EXAMPLE]
            self._report.examples[reason] = f"{source}, line {line}: {shown}"
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8", errors="backslashreplace")
            self._file.write("source\tline\treason\ttext\n")
        shown = text.rstrip("\r\n")[:_MAX_KEPT_CHARACTERS].encode("unicode_escape").decode("ascii")
        where, why = (" ".join(said.split()) for said in (source, reason))
        self._file.write(f"{where}\t{line}\t{why}\t{shown}\n")

    def close(self) -> None:
        """Close the rejects file, if a line was rejected."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """How to recognise a public dump in a folder.

    ``names``: patterns of its usual file names, the likeliest first; ``.`` is the folder itself.
    ``inside``: a pattern of the file that makes a folder a dump, if one can be.
    """

    names: tuple[str, ...]
    inside: str = ""


class Loader(Protocol):
    """Reads one kind of dump: the interface of the classes in ``kgqa.registry.LOADERS``.

    A package adds a loader by an entry point in the group ``kgqa.loaders``: its name is the
    loader's, its value a class with the attributes below, an attribute ``Options`` (a model derived
    from :class:`kgqa.registry.Options`, every field made by ``option``), an ``__init__`` that takes
    an object of that model, and :meth:`read`. ``kgqa.ingest(name, source, field=value)`` and the
    command line then work for it as for the built-in ones.

    It may have more attributes: ``dump``, the :class:`DumpFiles` of a public dump; ``sample``, the
    path in this package of a sample that is loaded if nothing is named; and ``lone_entities``,
    whether its sources say what is an entity, with an edge or without.
    """

    name: str  # as in the registry
    direction: Direction  # the direction in which paths take this KG's edges by default
    licence: str  # the dump's licence, in a few words
    where: str  # where users who have no dump find one

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield the dump's batches. May read the sources more than once.

        Counts into ``report``; writes lines that do not have the dump's form to ``rejects``.
        Raises DumpNotFoundError, DumpMalformedError.
        """


def entity_batch(ids: Column, **columns: Column) -> EntityBatch:
    """Build an entity batch from columns of ``ENTITY_SCHEMA``; missing columns are null.

    The kind is ``ENTITY`` if no ``kind`` is given.
    """
    kinds = np.full(len(ids), Kind.ENTITY, dtype=np.uint8)
    return EntityBatch(_batch(ENTITY_SCHEMA, {"id": ids, "kind": pa.array(kinds), **columns}))


def edge_batch(
    heads: Column, relations: str | Column, tails: Column, properties: Column | None = None
) -> EdgeBatch:
    """Build an edge batch; ``relations`` is a column, or one relation for all edges."""
    if isinstance(relations, str):
        relations = pa.repeat(pa.scalar(relations), len(heads))
    columns = {"head": heads, "relation": relations, "tail": tails}
    if properties is not None:
        columns["properties"] = properties
    return EdgeBatch(_batch(EDGE_SCHEMA, columns))


def relation_batch(names: Mapping[str, str]) -> RelationBatch:
    """Build a relation batch from names by id, without inverses."""
    return RelationBatch(_batch(RELATION_SCHEMA, {"id": list(names), "name": list(names.values())}))


def _batch(schema: pa.Schema, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """Build a record batch of a schema from columns; missing columns are null."""
    count = len(columns[schema.names[0]])
    arrays = []
    for each in schema:
        column = columns.get(each.name)
        if column is None:
            column = pa.nulls(count, each.type)
        elif not isinstance(column, pa.Array):
            column = pa.array(column, type=each.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def data_lines(name: str | Path) -> list[str]:
    """Read the lines of a bundled list (``name`` a str) or of a file.

    Comments and blank lines are left out. Raises DumpNotFoundError if the file cannot be read,
    DumpMalformedError if it is not UTF-8.
    """
    try:
        if isinstance(name, str):
            text = files("kgqa.loaders").joinpath(name).read_text(encoding="utf-8")
        else:
            text = read_list(name)
    except UnicodeDecodeError:
        raise DumpMalformedError(f"{name} is not UTF-8 text.", "Give a text file.") from None
    except OSError as error:
        raise DumpNotFoundError(f"{name} cannot be read: {error.strerror}.") from None
    lines = (line.strip() for line in text.split("\n"))  # names may hold other separators
    return [line for line in lines if line and line[0] != "#"]
