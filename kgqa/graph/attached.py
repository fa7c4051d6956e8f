"""The record of an attached database, ``<home>/<kg>/attached.json``: labels, properties."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from kgqa.errors import GraphError, KgqaError
from kgqa.graph.files import write_whole
from kgqa.graph.model import Direction, KGInfo  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from pathlib import Path

RECORD_NAME = "attached.json"


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a user says of a database: where its entities, their ids and names are.

    ``mediators``: a pattern that ids of mediators match from their start; ``mediator_label``: a
    label that they bear; at most one of the two. ``value_label``: the label of literal values.
    """

    label: str
    id_property: str
    name_property: str
    alias_property: str | None = None
    mediator_label: str | None = None
    mediators: str | None = None
    value_label: str | None = None
    direction: Direction = "both"


@dataclass(frozen=True, slots=True)
class AttachedRecord:
    """A KG that is a Neo4j database as it is."""

    info: KGInfo
    url: str  # without credentials
    database: str
    attachment: Attachment
    by_reference: bool  # nodes are looked up by element id: no index on the id property
    text_index: str | None  # the server's full-text index of names
    # the name of the survey's file, in the record's folder
    cache: Annotated[str, Field(pattern=r"^attached-[0-9a-f]+\.sqlite$")]
    attached: str  # when, ISO 8601
    schema: Literal[1] = 1

    def write(self, folder: Path) -> None:
        """Put the record in place in one step. Raises OSError."""
        content = TypeAdapter(AttachedRecord).dump_json(self, indent=2)
        write_whole(folder / RECORD_NAME, content + b"\n")


def read_record(folder: Path) -> AttachedRecord:
    """Return the record in a KG's folder, named after it. Raises GraphError."""
    path = folder / RECORD_NAME
    again = f"Attach it again: `kgqa attach {folder.name} …`."
    try:
        record = TypeAdapter(AttachedRecord).validate_json(path.read_bytes())
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.", again) from None
    except ValidationError:
        raise GraphError(f"{path} is damaged, or of another version of kgqa.", again) from None
    return dataclasses.replace(record, info=dataclasses.replace(record.info, name=folder.name))


def is_attached(home: Path, kg: str) -> bool:
    """Return whether a KG of that name is attached in a home."""
    return (home / kg / RECORD_NAME).is_file()


def attached_kgs(home: Path, faults: list[KgqaError] | None = None) -> list[KGInfo]:
    """Return the KGs attached in a home, by name; ``faults`` gets the errors of unreadable ones."""
    found: list[KGInfo] = []
    for path in sorted(home.glob(f"*/{RECORD_NAME}"), key=lambda path: path.parent.name):
        try:
            found.append(read_record(path.parent).info)
        except GraphError as error:
            if faults is not None:
                faults.append(error)
    return found
