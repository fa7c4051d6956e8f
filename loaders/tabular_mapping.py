"""What tables mean as a graph, as a value: ``mapping.toml``, which people can read and edit.

A table of things is a type: a row is an entity with a key, a name, properties and edges. A table of
edges has two columns that point to things; the others are properties of the edge. See
``docs/tables.md`` for an example.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kgqa.errors import UsageError
from kgqa.graph.schema import ValueType

if TYPE_CHECKING:
    from pathlib import Path

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# How tables were read as a graph. Edit it, and load again with: --mapping mapping.toml
# A table: type, key, name (columns), types (columns whose cells are further types), or
# edge = { relation, head, tail } for a table whose rows are edges.
# A column: property and type; relation and to ("table.column") or thing (a type: each value is a
# thing of its own); split: what separates the members of a list; skip = true leaves it out.
"""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def entries(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        return {name: value for name, value in self.model_dump().items() if value}


class ColumnMapping(_Part):
    """What a column says: a property of the row, or an edge of it."""

    property: str = ""
    type: ValueType | None = None
    relation: str = ""
    to: str = ""  # "table.column", or "(space)" of a neo4j-admin header
    thing: str = ""
    split: str = ""
    skip: bool = False


class EdgeMapping(_Part):
    """Which columns of a table of edges are its ends; ``types``: a column that names relations."""

    relation: str = ""
    head: str
    tail: str
    types: str = ""


class TableMapping(_Part):
    """What a table says: things of a type, edges, or both (rows with and without ends)."""

    type: str = ""
    key: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    space: str | None = None  # stands before keys in ids; the type by default
    edge: EdgeMapping | None = None
    columns: dict[str, ColumnMapping] = {}

    @property
    def prefix(self) -> str:
        """What stands before a key in an id."""
        space = self.type if self.space is None else self.space
        return f"{space}/" if space else ""


_TABLES = TypeAdapter(dict[str, TableMapping])


def read_mapping(path: Path) -> dict[str, TableMapping]:
    """Return the mapping of each table. Raises UsageError that says what does not fit."""
    try:
        return _TABLES.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"The mapping {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The mapping {path} is not TOML: {error}.", "Mend that line.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"The mapping {path} does not fit at {where}: {first['msg']}.",
            "The first lines of a mapping.toml that a load wrote say what may stand where.",
        ) from None


def written(tables: dict[str, TableMapping]) -> str:
    """Return a mapping as TOML, a line for each column."""
    lines = [_HEAD]
    for name, table in tables.items():
        lines.append(f"[{_key(name)}]")
        entries = table.entries() | ({"space": ""} if table.space == "" else {})
        lines += [f"{key} = {_value(value)}" for key, value in entries.items() if key != "columns"]
        lines += ["", f"[{_key(name)}.columns]"]
        lines += [f"{_key(key)} = {_value(each.entries())}" for key, each in table.columns.items()]
        lines.append("")
    return "\n".join(lines)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")  # JSON is TOML but here


def _value(value: Any) -> str:
    if isinstance(value, dict):
        filled = [f"{_key(key)} = {_value(each)}" for key, each in value.items() if each]
        return f"{{ {', '.join(filled)} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else _text(value)


def summary(name: str, source: str, rows: int, table: TableMapping) -> str:
    """Return a line that says what a table was taken for."""
    columns = table.columns.items()
    properties = sum(bool(each.property) for _, each in columns)
    counted = f"{properties} propert{'y' if properties == 1 else 'ies'}" if properties else ""
    if (edge := table.edge) and not table.type:
        pointing = [table.columns[end] for end in (edge.head, edge.tail)]
        ends = [each.thing or each.to.rpartition(".")[0] or each.to for each in pointing]
        said = f"edges from {ends[0]} to {ends[1]}: {edge.relation or edge.types}"
        return f"{source} ({rows:,} rows): " + ", ".join(filter(None, (said, counted)))
    called = f"called by {' '.join(table.name)}" if table.name else "called by type and key"
    key = f"key {', '.join(table.key)}" if table.key else "no key"
    edges = [
        f"{each.relation} → {each.thing or each.to.rpartition('.')[0] or each.to}"
        for _, each in columns
        if each.relation
    ]
    skipped = [column for column, each in columns if each.skip]
    left = f"left out: {', '.join(skipped)}" if skipped else ""
    said = "; ".join(filter(None, (", ".join(edges), counted, left)))
    return f"{source} ({rows:,} rows): {table.type or 'things'}, {key}, {called}; {said}"
