"""Headers that say what columns mean: those of ``neo4j-admin import``, and APOC's CSV export."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgqa.loaders.tabular_mapping import ColumnMapping, EdgeMapping, TableMapping
from kgqa.loaders.tabular_words import type_name, type_words, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.schema import ValueType

_TYPES: dict[str, ValueType] = {
    **dict.fromkeys(("int", "long", "byte", "short", "integer"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("localtime", "time"), "time"),
    **dict.fromkeys(("localdatetime", "datetime"), "datetime"),
    "duration": "duration",
    "point": "point",
    **dict.fromkeys(("string", "char"), "text"),
}
_ROLES = ("ID", "LABEL", "START_ID", "END_ID", "TYPE", "IGNORE")
_FIELD = re.compile(
    rf"(?P<name>[^:]*):(?:(?P<role>{'|'.join(_ROLES)})|(?P<type>{'|'.join(_TYPES)}))"
    r"(?P<many>\[\])?(?:\((?P<space>[^)]*)\))?(?:\{[^}]*\})?",
    re.IGNORECASE,
)
_APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
_CALLED = ("name", "title", "label", "fullname", "full_name")
ARRAY = ";"  # what separates the members of an array, and labels


def from_header(table: str, header: Sequence[str]) -> TableMapping | None:
    """Return what a table means by its header alone, None if that does not say it."""
    roles: dict[str, tuple[str, str]] = {}  # role -> (column, id space)
    columns: dict[str, ColumnMapping] = {}
    for column in header:
        match = _FIELD.fullmatch(column)
        role = _APOC.get(column) or (match["role"] or "").upper() if match else _APOC.get(column)
        name = match["name"] if match else ""
        if role == "IGNORE":
            columns[column] = ColumnMapping(skip=True)
        elif role:
            roles[role] = (column, (match["space"] or "") if match else "")
            columns[column] = ColumnMapping(property=name, type="text" if name else None)
        elif match:
            split = ARRAY if match["many"] else ""
            kind = _TYPES[match["type"].lower()]
            columns[column] = ColumnMapping(property=name, type=kind, split=split)
        else:
            columns[column] = ColumnMapping(property=column, type="text")
    if not roles.keys() & {"ID", "START_ID"}:
        return None
    edge = None
    if "START_ID" in roles and "END_ID" in roles:
        (head, from_), (tail, to) = roles["START_ID"], roles["END_ID"]
        types = roles.get("TYPE", ("", ""))[0]
        edge = EdgeMapping(
            relation="" if types else " ".join(words(table)), head=head, tail=tail, types=types
        )
        columns[head] = ColumnMapping(to=f"({from_})")
        columns[tail] = ColumnMapping(to=f"({to})")
    if "ID" not in roles:
        return TableMapping(edge=edge, columns=columns)
    key, space = roles["ID"]
    labels = roles.get("LABEL", ("", ""))[0]
    by_name = {each.property.lower(): column for column, each in columns.items() if each.property}
    name = next((by_name[called] for called in _CALLED if called in by_name), "")
    return TableMapping(
        type="" if labels else type_name(type_words(table)),
        key=(key,),
        name=(name,) if name else (),
        types=(labels,) if labels else (),
        space=space,
        edge=edge,
        columns=columns,
    )
