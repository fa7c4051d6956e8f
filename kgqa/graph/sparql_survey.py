"""Attaching a SPARQL endpoint: what is asked of it once, in bounds, and kept in the KG's folder.

Counts by class and by predicate, datatypes with an example each, and names up to a bound. The
record is ``attached.toml``, as a Neo4j database's is, with the language of names and the properties
that are names; the survey is the same file, too (:mod:`kgqa.graph.attached`).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from kgqa.errors import GraphError, StoreUnavailableError, UsageError
from kgqa.graph.attached import (
    RECORD_NAME,
    Attachment,
    Mediators,
    Survey,
    is_attached,
    new_survey,
    read_attachment,
)
from kgqa.graph.attached_attach import Attached
from kgqa.graph.backend import is_kg_name
from kgqa.graph.literals import (
    LONG_TEXT,
    READ,
    XSD,
    cast_values,
    common_type,
    read_value,
    value_id,
)
from kgqa.graph.model import KGInfo, Kind
from kgqa.graph.names import is_storable
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.graph.sparql_client import SparqlClient, iri, literal
from kgqa.graph.sparql_keys import KeyFile, key_of
from kgqa.graph.sqlite_file import FILE_NAME as LOADED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.attached import Node
    from kgqa.graph.model import Direction
    from kgqa.graph.schema import Value, ValueType
    from kgqa.progress import Progress

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
FREEBASE = "http://rdf.freebase.com/ns/"
WIKIDATA = "http://www.wikidata.org/"
LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
ALIASES = (
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://schema.org/alternateName",
    f"{FREEBASE}common.topic.alias",
)
NAMED = 200_000  # names that are kept here
PAGE = 5_000  # rows of one reply: fewer than any public server's bound
_COUNTED = 2_000_000  # triples up to which everything is counted; beyond, a sample
_SAMPLE = 100_000
_MOST_RELATIONS = 20_000
_MOST_CLASSES = 500
_NUMBER = r"^[+-]?([1-9][0-9]*|0)?\.?[0-9]*([eE][+-]?[0-9]+)?$"  # texts that read as numbers
_WHOLE = "^[+-]?([1-9][0-9]*|0)$"
_SITE = (
    "type",
    "common",
    "freebase",
    "kg",
    "dataworld",
    "user",
    "base",
    "topic_server",
    "imdb",
    "http://www.w3.org/",
    "http://rdf.freebase.com/key/",
)


@dataclass(frozen=True, slots=True)
class SparqlTaken:
    """What a user says of an endpoint before it is surveyed; None keeps what the record says."""

    label_property: Sequence[str] | None = None
    default_language: str | None = None
    only: Sequence[str] | None = None
    skip: Sequence[str] | None = None
    direction: Direction | None = None


def number(row: dict[str, Any], name: str = "n") -> int:
    """Return a count in a row. Raises GraphError if it is none."""
    text = row.get(name, {}).get("value", "")
    if not text.isdecimal():
        raise GraphError(f"The endpoint gave {text[:40]!r} as a count.")
    return int(text)


def count_all(client: SparqlClient) -> int:
    """Return the number of triples."""
    rows = client.select("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }")
    if len(rows) != 1:
        raise GraphError(f"The endpoint {client.url} does not count its triples.")
    return number(rows[0])


def wanted_language(variable: str, language: str) -> str:
    """Return the filter of texts in the wanted language, its regions, ``mul``, or none."""
    tag = literal(language)
    return (
        f'(LANG({variable}) = "" || LANGMATCHES(LANG({variable}), {tag}) || '
        f'LANG({variable}) = "mul")'
    )


def attach_endpoint(
    client: SparqlClient, home: Path, kg: str | None, taken: SparqlTaken, progress: Progress
) -> Attached:
    """Survey an endpoint and record it in ``home`` as the KG ``kg``, by default its host's name.

    Raises UsageError if the name is taken, StoreUnavailableError, GraphError.
    """
    began = time.monotonic()
    name = kg or _free_name(home, client)
    folder = home / name
    if (folder / LOADED).exists():
        raise UsageError(f"{name} is a KG that was loaded into {folder}.", "Choose another name.")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".attach.lock", timeout=0):
            record = Attachment(client.url, client.graph, _now(), language="en")
            if (folder / RECORD_NAME).is_file():
                before = read_attachment(folder)
                if (before.url, before.database) == (record.url, record.database):
                    record = replace(before, attached=record.attached)
            record = _with(record, taken)
            survey, record = survey_endpoint(client, record, folder, progress)
            record.write(folder)
    except Timeout:
        raise StoreUnavailableError(f"{name} is being attached by another command.") from None
    return Attached(name, record, survey, time.monotonic() - began)


def _now() -> str:
    import datetime

    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _free_name(home: Path, client: SparqlClient) -> str:
    from urllib.parse import urlsplit

    host = (urlsplit(client.url).hostname or "").split(".")
    base = host[-2] if len(host) > 1 and not host[-1].isdecimal() else host[0]
    base = base if is_kg_name(base) and not base.isdecimal() else "endpoint"
    name, count = base, 1
    while (home / name / LOADED).exists() or (
        is_attached(home, name) and not _is(home / name, client)
    ):
        count += 1
        name = f"{base}-{count}"
    return name


def _is(folder: Path, client: SparqlClient) -> bool:
    try:
        record = read_attachment(folder)
    except GraphError:
        return False
    return (record.url, record.database) == (client.url, client.graph)


def _with(record: Attachment, taken: SparqlTaken) -> Attachment:
    given: dict[str, Any] = {
        "labels": taken.label_property,
        "language": taken.default_language,
        "only": taken.only,
        "skip": taken.skip,
    }
    given = {name: value for name, value in given.items() if value is not None}
    given = {n: tuple(v) if not isinstance(v, str) else v for n, v in given.items()}
    if taken.direction is not None:
        given["direction"] = taken.direction
    return replace(record, **given)


def survey_endpoint(
    client: SparqlClient, record: Attachment, folder: Path, progress: Progress
) -> tuple[Survey, Attachment]:
    """Ask the endpoint what it holds; write the survey. Returns it, and the record completed."""
    began = time.monotonic()
    with progress.task("counting the endpoint's triples"):
        total = count_all(client)
        counts = client.select(
            "SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p ORDER BY DESC(?n) ?p "
            f"LIMIT {_MOST_RELATIONS}"
        )
        predicates = {row["p"]["value"]: number(row) for row in counts}
        record = classed(profiled(record, predicates), predicates, total)
        classes = client.select(
            f"SELECT ?c (COUNT(DISTINCT ?s) AS ?n) WHERE {{ ?s {class_path(record)} ?c "
            f"FILTER(isIRI(?s) && isIRI(?c)) }} GROUP BY ?c ORDER BY DESC(?n) ?c "
            f"LIMIT {_MOST_CLASSES}"
        )
    names = {*record.labels, *ALIASES}
    relations = tuple(
        sorted(
            p.removeprefix(record.prefix) for p in predicates if takes(record, p) and p not in names
        )
    )
    with progress.task("reading classes and datatypes"):
        of = {
            name: number(row)
            for row in classes
            if not _fits((name := row["c"]["value"]).removeprefix(record.prefix), record.skip)
        }
        schema = _schema(client, record, of, total)
    with progress.task("reading names"):
        nodes = _names(client, record)
    entities = len(nodes)
    if total <= _COUNTED:
        rows = client.select("SELECT (COUNT(DISTINCT ?s) AS ?n) WHERE { ?s ?p ?o }")
        entities = number(rows[0]) if rows else entities
    info = KGInfo(
        folder.name,
        source=record.url,
        version=f"{total:x}",
        direction=record.direction,
        entities=entities,
        mediators=0,
        values=0,
        relations=len(relations),
        edges=total,
        loader="attach",
        type_relations=tuple(
            name for p in record.classes if (name := p.removeprefix(record.prefix)) in relations
        ),
    )
    survey = Survey(
        info,
        schema,
        {},
        relations,
        frozenset(),
        (),
        str(total),
        settings_of(record),
        time.time(),
        time.monotonic() - began,
        len(nodes),
    )
    with new_survey(folder) as writer:
        writer.add(nodes)
        writer.finish(survey)
    with KeyFile(folder) as keys:
        keys.keep([node[1] for node in nodes])
    return survey, record


def settings_of(record: Attachment) -> str:
    """Return what of a record a survey depends on."""
    held = asdict(record)
    names = ("url", "database", "labels", "language", "only", "skip", "classes", "subclasses")
    return repr([held[n] for n in names])


def takes(record: Attachment, predicate: str) -> bool:
    """Return whether edges of a predicate are taken.

    ``only`` and ``skip`` name predicates, and the beginnings of such, up to ``/``, ``#`` or ``.``.
    """
    short = predicate.removeprefix(record.prefix)
    return (not record.only or _fits(short, record.only)) and not _fits(short, record.skip)


def _fits(short: str, names: Sequence[str]) -> bool:
    return any(
        short == name or short.startswith(name if name[-1:] in ("/", "#") else f"{name}.")
        for name in names
    )


def profiled(record: Attachment, predicates: dict[str, int]) -> Attachment:
    """Return the record with what is known of Freebase's and Wikidata's endpoints."""
    if record.labels:
        return record
    if f"{FREEBASE}type.object.name" in predicates:
        return replace(
            record,
            labels=(f"{FREEBASE}type.object.name", *LABELS[:1]),
            prefix=FREEBASE,
            skip=record.skip or _SITE,
            mediators=Mediators(pattern=r"[mg]\..*"),
            direction="out",
        )
    if any(name.startswith(f"{WIKIDATA}prop/") for name in predicates):
        meta = (
            "http://www.w3.org/2002/07/owl#",
            "http://wikiba.se/ontology#",
            "http://schema.org/",
        )
        other = tuple(f"{WIKIDATA}prop/{part}/" for part in ("statement/value", "qualifier/value"))
        return replace(
            record,
            labels=LABELS[:1],
            skip=record.skip or (*meta, *other, f"{WIKIDATA}prop/novalue/"),
            mediators=Mediators(pattern=rf"{WIKIDATA}entity/statement/.*"),
        )
    return replace(record, labels=tuple(one for one in LABELS if one in predicates) or LABELS[:1])


def classed(record: Attachment, predicates: dict[str, int], total: int) -> Attachment:
    """Return the record with the predicates that say classes, unless it has some.

    A chain of subclasses is followed where all triples are counted: elsewhere it takes too long.
    """
    if record.classes:
        return record
    known = (f"{FREEBASE}type.object.type", f"{WIKIDATA}prop/direct/P31", RDF_TYPE)
    classes = tuple(one for one in known if one in predicates) or (RDF_TYPE,)
    wikidata = classes[0] == known[1]
    wider = f"{WIKIDATA}prop/direct/P279" if wikidata else SUBCLASS
    followed = wider in predicates and total <= _COUNTED
    return replace(
        record, classes=classes[:1] if wikidata else classes, subclasses=wider if followed else ""
    )


def class_path(record: Attachment) -> str:
    """Return the property path from an entity to its classes."""
    classes = "|".join(map(iri, record.classes or (RDF_TYPE,)))
    classes = f"({classes})" if len(record.classes) > 1 else classes
    return f"{classes}/{iri(record.subclasses)}*" if record.subclasses else classes


def _schema(
    client: SparqlClient, record: Attachment, classes: dict[str, int], total: int
) -> GraphSchema:
    sampled = total > _COUNTED
    triples = (
        f"{{ SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }} LIMIT {_SAMPLE} }}" if sampled else "?s ?p ?o"
    )
    names = {*record.labels, *ALIASES}
    left_out = ", ".join(map(iri, sorted({*names, *record.classes, record.subclasses} - {""})))
    literals = (
        f"{triples} FILTER(isIRI(?s) && isLiteral(?o) && ?p NOT IN ({left_out}) && "
        f"{wanted_language('?o', record.language)}) {_of_class(record, '?s', '?c')}"
    )
    values = client.select(
        "SELECT ?c ?p ?t (COUNT(*) AS ?n) (SAMPLE(?o) AS ?e) "
        f"(SUM(IF(REGEX(STR(?o), {literal(_NUMBER)}), 1, 0)) AS ?r) "
        f"(SUM(IF(REGEX(STR(?o), {literal(_WHOLE)}), 1, 0)) AS ?w) WHERE "
        f"{{ {literals} BIND(DATATYPE(?o) AS ?t) }} "
        f"GROUP BY ?c ?p ?t ORDER BY ?c ?p DESC(?n) LIMIT {_MOST_RELATIONS}"
    )
    owners = {
        (_class_in(row, "c"), row["p"]["value"]): number(row)
        for row in client.select(
            f"SELECT ?c ?p (COUNT(DISTINCT ?s) AS ?n) WHERE {{ {literals} }} GROUP BY ?c ?p "
            f"ORDER BY ?c ?p LIMIT {_MOST_RELATIONS}"
        )
    }
    edges = client.select(
        f"SELECT ?c ?p ?d (COUNT(*) AS ?n) WHERE {{ {triples} FILTER(isIRI(?s) && isIRI(?o) && "
        f"?p NOT IN ({left_out})) {_of_class(record, '?s', '?c')} "
        f"{_of_class(record, '?o', '?d')} }} "
        f"GROUP BY ?c ?p ?d ORDER BY DESC(?n) LIMIT {_MOST_RELATIONS}"
    )
    numbers = _number_types(values)
    short = {name: name.removeprefix(record.prefix) for name in classes} | {"": ""}
    properties: dict[str, list[Property]] = {}
    for (class_, predicate), group in groupby(
        values, key=lambda row: (_class_in(row, "c"), row["p"]["value"])
    ):
        if takes(record, predicate) and class_ in short:
            name = predicate.removeprefix(record.prefix)
            property_ = _property(
                name, list(group), owners.get((class_, predicate), 0), numbers.get(predicate)
            )
            properties.setdefault(class_, []).append(property_)
    types = [
        EntityType(short[name], count, tuple(properties.get(name, ())))
        for name, count in classes.items()
    ]
    if "" in properties or not types:
        types.append(EntityType("", 0, tuple(properties.get("", ()))))
    patterns = tuple(
        RelationPattern(
            row["p"]["value"].removeprefix(record.prefix),
            short[_class_in(row, "c")],
            short[_class_in(row, "d")],
            number(row),
        )
        for row in edges
        if {_class_in(row, "c"), _class_in(row, "d")} <= short.keys()
        and takes(record, row["p"]["value"])
    )
    return GraphSchema(tuple(types), patterns, sampled)


def _of_class(record: Attachment, entity: str, class_: str) -> str:
    """Return the pattern that binds each class of an entity, or leaves it open if it has none."""
    found = f"{entity} {class_path(record)} {class_} FILTER(isIRI({class_}))"
    if record.subclasses or len(record.classes) > 1:  # a path may lead to a class in several ways
        found = f"{{ SELECT DISTINCT {entity} {class_} WHERE {{ {found} }} }}"
    return f"OPTIONAL {{ {found} }}"


def _class_in(row: dict[str, Any], variable: str) -> str:
    return str(row[variable]["value"]) if variable in row else ""


def _number_types(rows: list[dict[str, Any]]) -> dict[str, ValueType]:
    """Return the type of the numbers that the texts of a predicate are, if nearly all are."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        kind = _read(row)[1]
        held = counts.setdefault(row["p"]["value"], Counter())
        held[kind] += number(row)
        if kind == "text" or row.get("t", {}).get("value") in (None, f"{XSD}string"):
            held["read"] += number(row, "r")
            held["whole"] += number(row, "w")
    found: dict[str, ValueType] = {}
    for predicate, held in counts.items():
        texts = held["text"]
        others = held.total() - held["read"] - held["whole"] - texts
        if texts and others == held["integer"] + held["float"] and held["read"] >= READ * texts:
            whole = held["whole"] == held["read"] and not held["float"]
            found[predicate] = "integer" if whole else "float"
    return found


def _read(row: dict[str, Any]) -> tuple[Value, ValueType]:
    return read_value(_value_of(row["e"])) if "e" in row else ("", "text")


def _property(
    name: str, rows: list[dict[str, Any]], owners: int, as_number: ValueType | None
) -> Property:
    """Return the property of a class that rows of datatypes with counts and an example make.

    ``owners``: how many of the class have it. ``as_text``: numbers that SPARQL does not calculate
    with, as those of ``xsd:gYear``, or that are texts, which are read ``as_number``. ``unread``:
    how many values are of another type.
    """
    read = [_read(row) for row in rows]
    kind = as_number or common_type([type_ for _, type_ in read])
    numeric = kind in ("integer", "float")
    plain = [value for value, _ in read]
    examples = cast_values(plain[:1], as_number) if as_number else plain[:1]
    short = not any(isinstance(one, str) and len(one) > LONG_TEXT for one in examples)
    years = any(row.get("t", {}).get("value") == f"{XSD}gYear" for row in rows)
    others = (
        0
        if as_number
        else sum(
            number(row)
            for (_, type_), row in zip(read, rows, strict=True)
            if type_ != kind and not (numeric and type_ == "integer")
        )
    )
    return Property(
        name,
        kind,
        many=sum(map(number, rows)) > owners,
        count=owners,
        examples=tuple(examples) if short else (),
        walked=short,
        as_text=as_number is not None or (numeric and years),
        unread=others,
    )


def _value_of(term: dict[str, Any]) -> str:
    datatype = term.get("datatype")
    plain = datatype in (None, f"{XSD}string")
    return value_id(term["value"], term.get("xml:lang"), None if plain else datatype)


def _names(client: SparqlClient, record: Attachment) -> list[Node]:
    properties = [*record.labels, *ALIASES]
    wanted = " ".join(map(iri, properties))
    held: dict[str, list[tuple[int, str]]] = {}
    offset = 0
    while len(held) < NAMED:
        rows = client.select(
            f"SELECT ?s ?p ?l WHERE {{ VALUES ?p {{ {wanted} }} ?s ?p ?l FILTER(isIRI(?s) && "
            f"isLiteral(?l) && {wanted_language('?l', record.language)}) }} "
            f"ORDER BY ?s ?p ?l LIMIT {PAGE} OFFSET {offset}"
        )
        for row in rows:
            names = held.setdefault(row["s"]["value"].removeprefix(record.prefix), [])
            names.append((rank_of(row, properties, record.language), row["l"]["value"].strip()))
        offset += len(rows)
        if not rows:
            break
    nodes: list[Node] = []
    for id_, names in held.items():
        name, others = chosen_name(names)
        if is_storable(id_) and name:
            nodes.append((key_of(id_), id_, name, Kind.ENTITY, 1, others))
    return nodes


def rank_of(row: dict[str, Any], properties: Sequence[str], language: str) -> int:
    """Return the rank of a name: by its language, then its property; aliases are never the name."""
    tag, wanted = row["l"].get("xml:lang", "").lower(), language.lower()
    order = 0 if tag == wanted else 2 if tag == "mul" else 3 if not tag else 1
    predicate = row["p"]["value"]
    is_alias = predicate in ALIASES
    return is_alias * 1_000 + order * 100 + properties.index(predicate)


def chosen_name(names: Sequence[tuple[int, str]]) -> tuple[str | None, list[str]]:
    """Return the name of the lowest rank, and the other names."""
    ordered = list(dict.fromkeys(text for _, text in sorted(names) if text and is_storable(text)))
    if not ordered or min(rank for rank, _ in names) >= 1_000:
        return None, ordered
    return ordered[0], ordered[1:]
