"""Attaching a SPARQL endpoint: what is asked of it once, in bounds, and kept in the KG's folder.

Counts by class and by predicate, datatypes with an example each, and names up to a bound. The
record is ``attached.toml``, as a Neo4j database's is, with the language of names and the properties
that are names; the survey is the same file, too (:mod:`kgqa.graph.attached`).
"""

from __future__ import annotations

import time
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
from kgqa.graph.literals import LONG_TEXT, XSD, read_value, value_id
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
    from kgqa.progress import Progress

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
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
        record = profiled(record, predicates)
        classes = client.select(
            f"SELECT ?c (COUNT(?s) AS ?n) WHERE {{ ?s {iri(RDF_TYPE)} ?c FILTER(isIRI(?c)) }} "
            f"GROUP BY ?c ORDER BY DESC(?n) ?c LIMIT {_MOST_CLASSES}"
        )
    names = {*record.labels, *ALIASES}
    relations = tuple(
        sorted(
            p.removeprefix(record.prefix) for p in predicates if takes(record, p) and p not in names
        )
    )
    with progress.task("reading classes and datatypes"):
        of = {row["c"]["value"]: number(row) for row in classes}
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
        type_relations=(RDF_TYPE,) if RDF_TYPE in relations else (),
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
    return repr([held[n] for n in ("url", "database", "labels", "language", "only", "skip")])


def takes(record: Attachment, predicate: str) -> bool:
    """Return whether edges of a predicate are taken.

    ``only`` and ``skip`` name predicates, and the beginnings of such, up to ``/``, ``#`` or ``.``.
    """
    short = predicate.removeprefix(record.prefix)

    def fits(names: Sequence[str]) -> bool:
        return any(
            short == name or short.startswith(name if name[-1:] in ("/", "#") else f"{name}.")
            for name in names
        )

    return (not record.only or fits(record.only)) and not fits(record.skip)


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
    return replace(record, labels=LABELS)


def _schema(
    client: SparqlClient, record: Attachment, classes: dict[str, int], total: int
) -> GraphSchema:
    if not classes:
        return GraphSchema((), ())
    sampled = total > _COUNTED
    triples = (
        f"{{ SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }} LIMIT {_SAMPLE} }}" if sampled else "?s ?p ?o ."
    )
    type_ = iri(RDF_TYPE)
    edges = client.select(
        f"SELECT ?c ?p ?d (COUNT(*) AS ?n) WHERE {{ {triples} ?s {type_} ?c . ?o {type_} ?d }} "
        f"GROUP BY ?c ?p ?d ORDER BY DESC(?n) LIMIT {_MOST_RELATIONS}"
    )
    values = client.select(
        f"SELECT ?c ?p ?t (COUNT(*) AS ?n) (SAMPLE(?o) AS ?e) WHERE {{ {triples} ?s {type_} ?c "
        "FILTER(isLiteral(?o)) BIND(DATATYPE(?o) AS ?t) } "
        f"GROUP BY ?c ?p ?t ORDER BY ?c ?p DESC(?n) LIMIT {_MOST_RELATIONS}"
    )
    short = {name: name.removeprefix(record.prefix) for name in classes}
    names = {*record.labels, *ALIASES}
    properties: dict[str, list[Property]] = {}
    for (class_, predicate), group in groupby(
        values, key=lambda row: (row["c"]["value"], row["p"]["value"])
    ):
        rows = list(group)
        if predicate in names or not takes(record, predicate) or class_ not in classes:
            continue
        example, kind = read_value(_value_of(rows[0]["e"])) if "e" in rows[0] else ("", "text")
        walked = not (isinstance(example, str) and len(example) > LONG_TEXT)
        properties.setdefault(class_, []).append(
            Property(
                predicate.removeprefix(record.prefix),
                kind,
                count=sum(map(number, rows)),
                examples=(example,) if walked else (),
                walked=walked,
            )
        )
    types = tuple(
        EntityType(short[name], count, tuple(properties.get(name, ())))
        for name, count in classes.items()
    )
    patterns = tuple(
        RelationPattern(
            row["p"]["value"].removeprefix(record.prefix),
            short[row["c"]["value"]],
            short[row["d"]["value"]],
            number(row),
        )
        for row in edges
        if row["c"]["value"] in short
        and row["d"]["value"] in short
        and takes(record, row["p"]["value"])
        and row["p"]["value"] != RDF_TYPE
    )
    return GraphSchema(types, patterns, sampled)


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
