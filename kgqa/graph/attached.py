"""What kgqa took from an attached Neo4j database, ``<home>/<kg>/attached.toml``, to be edited.

The file says where the database is, what its nodes are called, what people call things, and what
is left out. What a survey counted lies beside it (:mod:`kgqa.graph.attached_cache`).
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, field
from typing import TYPE_CHECKING

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, without_secrets
from kgqa.graph.files import toml_key, toml_value, write_whole
from kgqa.graph.model import Direction  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from pathlib import Path

RECORD_NAME = "attached.toml"
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, config=_STRICT)
class Words:
    """What people call a property, and what it means."""

    also: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True, config=_STRICT)
class Naming:
    """How nodes of a label are known; ``name``: properties, the name first, then other names.

    ``id``: a property whose value is unique, or "" for the server's own element id; None if the
    survey is to choose.
    """

    name: tuple[str, ...] = ()
    id: str | None = None
    also: tuple[str, ...] = ()
    description: str = ""
    properties: dict[str, Words] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Called:
    """What people call a relation, and what it means."""

    also: tuple[str, ...] = ()
    description: str = ""
    properties: dict[str, Words] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, config=_STRICT)
class Mediators:
    """Which nodes stand for an n-ary fact: those with ``label``, or whose property matches."""

    label: str = ""
    property: str = ""
    pattern: str = ""


@dataclass(frozen=True, slots=True, config=_STRICT)
class Attachment:
    """An attached database: where it is, what of it is taken, and what things are called.

    ``only`` and ``skip``: labels, relationship types, ``Label.property``. ``values``: the label of
    nodes that are literals, where walks end.
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

    def hides(self, owner: str, name: str) -> bool:
        """Return whether a property of a label or of a relationship type is left out."""
        return f"{owner}.{name}" in self.skip

    def write(self, folder: Path) -> None:
        """Put the record in place in one step. Raises OSError."""
        write_whole(folder / RECORD_NAME, as_toml(self).encode())


def read_attachment(folder: Path) -> Attachment:
    """Return the record in a KG's folder. Raises GraphError that says what is wrong."""
    path = folder / RECORD_NAME
    try:
        content = tomllib.loads(path.read_bytes().decode())
        return TypeAdapter(Attachment).validate_python(content)
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
    """Return whether a KG of that name is attached in a home."""
    return (home / kg / RECORD_NAME).is_file()


def as_toml(record: Attachment) -> str:
    """Return the record as TOML with a comment on what can be edited."""
    lines = [
        "# What kgqa took from this database. Edit it: it is read when the KG is opened.",
        '# also = ["client"] is what people call a label, a type or a property.',
        "",
    ]
    plain = ("url", "database", "attached", "direction", "only", "skip", "values")
    lines += [f"{name} = {toml_value(getattr(record, name))}" for name in plain]
    lines.append(f"mediators = {toml_value(asdict(record.mediators))}")
    for label, type_ in record.types.items():
        lines += [
            "",
            f"[types.{toml_key(label)}]",
            f"name = {toml_value(type_.name)}",
            f"id = {toml_value(type_.id or '')}",
        ]
        lines += _called(type_)
    for name, called in record.relations.items():
        lines += ["", f"[relations.{toml_key(name)}]", *_called(called)]
    return "\n".join(lines) + "\n"


def _called(names: Naming | Called) -> list[str]:
    lines = [f"also = {toml_value(names.also)}"]
    if names.description:
        lines.append(f"description = {toml_value(names.description)}")
    for name, words in names.properties.items():
        lines.append(f"properties.{toml_key(name)} = {toml_value(asdict(words))}")
    return lines
