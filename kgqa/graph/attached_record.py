"""The record of an attachment: which database, label and properties a KG of the home stands for.

It lies in ``<home>/<kg>/attached.json``, without credentials, beside the survey's cache. What it
does not do: connect to anything, or say whether the database is still as it was.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.errors import GraphError, KgqaError
from kgqa.graph.model import DIRECTIONS, KGInfo

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import Direction

RECORD_NAME = "attached.json"
SCHEMA = 1


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
    cache: str  # the name of the survey's file, in the record's folder
    attached: str  # when, ISO 8601

    def write(self, folder: Path) -> None:
        """Put the record in place in one step. Raises OSError."""
        part = folder / f".{RECORD_NAME}.partial"
        content = {"schema": SCHEMA, **dataclasses.asdict(self)}
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / RECORD_NAME)


def read_record(folder: Path) -> AttachedRecord:
    """Return the record in a KG's folder; the KG is named after the folder.

    Raises GraphError where there is none that can be used.
    """
    path = folder / RECORD_NAME
    again = f"Attach it again: `kgqa attach {folder.name} …`."
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.", again) from None
    except ValueError:
        raise GraphError(f"{path} is damaged: it is no JSON.", again) from None
    try:
        if content.pop("schema") != SCHEMA:
            raise GraphError(f"{path} was written by another version of kgqa.", again)
        content["info"] = KGInfo(**{**content["info"], "name": folder.name})
        content["attachment"] = Attachment(**content["attachment"])
        record = AttachedRecord(**content)
        texts = (record.url, record.database, record.cache, record.info.version)
        well_formed = all(isinstance(text, str) for text in texts)
    except (AttributeError, KeyError, TypeError):
        well_formed = False
    if (
        not well_formed
        or record.attachment.direction not in DIRECTIONS
        or record.cache != os.path.basename(record.cache)  # noqa: PTH119 - a name, not a path
    ):
        raise GraphError(f"{path} is damaged: a field is missing or wrong.", again)
    return record


def attached_names(home: Path) -> list[str]:
    """Return the names of the KGs that are attached in a home, sorted."""
    return sorted(path.parent.name for path in home.glob(f"*/{RECORD_NAME}"))


def is_attached(home: Path, kg: str) -> bool:
    """Return whether a KG of that name is attached in a home."""
    return (home / kg / RECORD_NAME).is_file()


def attached_kgs(home: Path, faults: list[KgqaError] | None = None) -> list[KGInfo]:
    """Return the KGs that are attached in a home, by name; no server is asked.

    One whose record cannot be read is left out, and its error appended to ``faults``.
    """
    found: list[KGInfo] = []
    for name in attached_names(home):
        try:
            found.append(read_record(home / name).info)
        except GraphError as error:
            if faults is not None:
                faults.append(error)
    return found
