"""Attaching a Neo4j database: a survey, its record, and what was taken, in lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgqa.errors import GraphError, UsageError
from kgqa.graph.attached import (
    RECORD_NAME,
    Attached,
    Attachment,
    Mediators,
    Naming,
    Survey,
    free_name,
    source_of,
    surveying,
)
from kgqa.graph.attached_survey import survey_database
from kgqa.graph.backend import is_kg_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.model import Direction
    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.graph.schema import GraphSchema
    from kgqa.progress import Progress

_MAX_DESCRIBED = 8  # labels, and relations, that are described


@dataclass(frozen=True, slots=True)
class Taken:
    """What a user configures before a survey; None keeps the value of the existing record."""

    name: Mapping[str, str] = field(default_factory=dict)  # label: its property
    only: Sequence[str] | None = None
    skip: Sequence[str] | None = None
    direction: Direction | None = None
    mediators: Mediators | None = None
    values: str | None = None


def attach(
    connection: Neo4jConnection, home: Path, kg: str | None, taken: Taken, progress: Progress
) -> Attached:
    """Survey a database and record it in ``home`` as the KG ``kg``, by default named after it.

    ``taken``: the user's settings; an existing record of this database keeps what was edited in it.
    Raises UsageError if the name is used by another KG or something named is not in the database,
    StoreUnavailableError, GraphError.
    """
    import time

    began = time.monotonic()
    database = connection.database
    if not kg:
        base = database if is_kg_name(database) else "neo4j"
        kg = free_name(home, base, connection.url, database, damaged=True)  # and replaces that one
    folder = home / kg
    with surveying(folder, connection.url, database) as record:
        survey, record = survey_database(
            connection, _with_user_settings(record, taken), folder, progress, adopt=True
        )
        _check(taken, record, survey)
        record.write(folder)
    return Attached(kg, record, survey, time.monotonic() - began)


def _with_user_settings(record: Attachment, taken: Taken) -> Attachment:
    """Return the record with the settings that the user gave in ``taken``."""
    given: dict[str, Any] = {
        name: value
        for name in ("only", "skip", "direction", "mediators", "values")
        if (value := getattr(taken, name)) is not None
    }
    for name in ("only", "skip"):
        if name in given:
            given[name] = tuple(given[name])
    types = dict(record.types)
    for label, property_ in taken.name.items():
        type_ = types.get(label, Naming())
        others = [name for name in type_.name if name != property_]
        types[label] = replace(type_, name=(property_, *others))
    return replace(record, types=types, **given)


def _check(taken: Taken, record: Attachment, survey: Survey) -> None:
    """Raise UsageError if the user named a label, type or property that the database lacks.

    ``taken``: the user's settings. Raises GraphError if no label is included.
    """
    labels = {type_.name: {each.name for each in type_.properties} for type_ in survey.schema.types}
    types = {relation.relationship_type for relation in survey.schema.relations}
    known = [*labels, *sorted(types)]
    for label, property_ in taken.name.items():
        if label not in labels:
            raise _unknown(label, known)
        if property_ not in labels[label]:
            raise _unknown(
                f"{label}.{property_}", [f"{label}.{known_name}" for known_name in labels[label]]
            )
    for name in record.only:
        if name not in labels and name not in types:
            raise _unknown(name, known)
    if not labels:
        raise GraphError(
            f"{record.url} (database {record.database}) has no node that is taken.",
            "Load some, or name another database with NEO4J_DATABASE.",
        )


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    """Return the error of a name that is not in the database; it lists known names."""
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return UsageError(f"{name} is not in the database.", f"There are: {shown}.")


def described(attached: Attached) -> list[str]:
    """Summarise an attached database in about ten lines of text."""
    schema, record = attached.survey.schema, attached.record
    info = attached.survey.info
    about = "about " if schema.sampled else ""
    lines = [
        f"{attached.kg}: {info.entities:,} nodes and {info.edges:,} relationships of {record.url}, "
        f"database {record.database}, in {attached.seconds:.1f} s."
    ]
    if record.is_endpoint:
        return _described_endpoint(attached)
    for type_ in schema.types[:_MAX_DESCRIBED]:
        naming = record.types.get(type_.name, Naming())
        name = naming.name[0] if naming.name else " and ".join(naming.parts)
        name = name or f"{type_.name} and its {naming.id or 'number'}"
        others = f" (also {', '.join(naming.name[1:])})" if naming.name[1:] else ""
        id_ = naming.id or "the element id"
        lines.append(f"  {type_.name} {type_.count:,}: called by {name}{others}; id {id_}")
    lines += _omitted_line(len(schema.types), "labels")
    relations: dict[str, list[Any]] = {}
    for pattern in schema.relations:
        relations.setdefault(pattern.relation, []).append(pattern)
    shown = []
    for relation, patterns in list(relations.items())[: 2 * _MAX_DESCRIBED]:
        held = dict.fromkeys(
            each.name for relation_pattern in patterns for each in relation_pattern.properties
        )
        shown.append(f"{relation}{{{', '.join(held)}}}" if held else relation)
    if shown:
        rest = len(relations) - len(shown)
        lines.append(f"  relations: {', '.join(shown)}" + (f" and {rest} more" if rest else ""))
    kinds = {(each.relationship_type, each.kind) for each in schema.relations if each.kind}
    lines += [
        f"  {type_}: what its property {kind} says is the relation "
        f'(relation = "" in {RECORD_NAME} leaves it a property)'
        for type_, kind in sorted(kinds)
    ]
    lines += _text_properties_described(schema)
    if schema.sampled:
        lines.append(f"  The database is large: properties are {about}those of a sample.")
    if attached.survey.named < info.entities and not record.only and not record.skip:
        lines.append(
            f"  Names of {attached.survey.named:,} nodes are kept here; others are looked up there."
        )
    lines.append(
        f"  To change names or leave something out, edit {RECORD_NAME} in the KG's folder."
    )
    return lines


def _described_endpoint(attached: Attached) -> list[str]:
    """Summarise an attached SPARQL endpoint in lines of text."""
    survey, record = attached.survey, attached.record
    named = ", ".join(record.labels)
    types = ", ".join(
        f"{type_.name} {type_.count:,}" for type_ in survey.schema.types[:_MAX_DESCRIBED]
    )
    lines = [
        f"{attached.kg}: {survey.info.edges:,} triples and {len(survey.relations):,} predicates of "
        f"{source_of(record)}, in {attached.seconds:.1f} s.",
        f"  names by {named}, in the language {record.language}; {survey.named:,} are kept here.",
        f"  classes: {types or 'none'}",
        *_omitted_line(len(survey.schema.types), "classes"),
        "  An endpoint has no version: what it holds is read when a question is asked, and only a "
        "changed number of triples is noticed. Blank nodes cannot be asked for, and are left out.",
    ]
    if survey.schema.sampled:
        lines.append("  The endpoint is large: classes and datatypes are those of a sample.")
    if not survey.all_relations:
        lines.append("  It has more predicates: edges of those that are not read are left out.")
    lines.append(f"  To change this, edit {RECORD_NAME} in the KG's folder, and attach again.")
    return lines


def _text_properties_described(schema: GraphSchema) -> list[str]:
    """List the text properties that are read as numbers, dates or missing values."""
    read: dict[str, str] = {}
    nulls: dict[str, str] = {}
    owned = [(type_.name, type_.properties) for type_ in schema.types]
    owned += [(relation.relation, relation.properties) for relation in schema.relations]
    for owner, properties in owned:
        for each in properties:
            if each.as_text:
                failed = f", {each.unread:,} not" if each.unread else ""
                read[f"{owner}.{each.name}"] = f" ({each.type}{failed})"
            if each.nulls:
                nulls[f"{owner}.{each.name}"] = f" ({each.nulls:,})"
    return [
        f"  {what}: {', '.join(name + how for name, how in list(names.items())[:_MAX_DESCRIBED])}"
        + (f" and {len(names) - _MAX_DESCRIBED:,} more" if len(names) > _MAX_DESCRIBED else "")
        for what, names in (
            ("kept as text, read as what it says", read),
            ("text such as NULL, read as no value", nulls),
        )
        if names
    ]


def _omitted_line(count: int, what: str) -> list[str]:
    """Return the line that counts what a list of ``_MAX_DESCRIBED`` items leaves out, if any."""
    return [f"  and {count - _MAX_DESCRIBED:,} more {what}"] if count > _MAX_DESCRIBED else []
