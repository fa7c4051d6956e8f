"""The schema of an endpoint: classes, their literals and relations, as a loaded graph has them."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kgqa.graph.amounts import READ
from kgqa.graph.literals import LONG_TEXT, XSD, cast_values, common_type, read_value
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern
from kgqa.graph.sparql_client import id_of, iri, literal
from kgqa.graph.sparql_pages import number, pages
from kgqa.graph.sparql_profiles import ALIASES, COUNTED, class_path, takes, wanted_language

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgqa.graph.attached import Attachment
    from kgqa.graph.schema import Value, ValueType
    from kgqa.graph.sparql_client import SparqlClient

MOST_RELATIONS = 20_000
_SAMPLE = 100_000
_NUMBER = r"^[+-]?([1-9][0-9]*|0)?\.?[0-9]*([eE][+-]?[0-9]+)?$"  # texts that read as numbers
_WHOLE = "^[+-]?([1-9][0-9]*|0)$"


def bounded(client: SparqlClient, query: str, most: int = MOST_RELATIONS) -> list[dict[str, Any]]:
    """Return the first ``most`` rows of a query, or all if it has fewer; the rest is not read."""
    rows: list[dict[str, Any]] = []
    for page in pages(client, query):
        rows += page
        if len(rows) >= most:
            break
    return rows[:most]


def schema_of(
    client: SparqlClient,
    record: Attachment,
    classes: dict[str, int],
    called: Mapping[str, str],
    total: int,
) -> GraphSchema:
    """Query the literals and relations of an endpoint for its schema; of large ones a sample.

    ``classes``: counts by class; ``called``: names by class; ``total``: the number of triples.
    """
    sampled = total > COUNTED
    triples = (
        f"{{ SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }} LIMIT {_SAMPLE} }}" if sampled else "?s ?p ?o"
    )
    names = {*record.labels, *ALIASES}
    left_out = ", ".join(map(iri, sorted({*names, *record.classes, record.subclasses} - {""})))
    literals = (
        f"{triples} FILTER(isIRI(?s) && isLiteral(?o) && ?p NOT IN ({left_out}) && "
        f"{wanted_language('?o', record.language)}) {_class_pattern(record, '?s', '?c')}"
    )
    values = bounded(
        client,
        "SELECT ?c ?p ?t (COUNT(*) AS ?n) (SAMPLE(?o) AS ?e) "
        f"(SUM(IF(REGEX(STR(?o), {literal(_NUMBER)}), 1, 0)) AS ?r) "
        f"(SUM(IF(REGEX(STR(?o), {literal(_WHOLE)}), 1, 0)) AS ?w) WHERE "
        f"{{ {literals} BIND(DATATYPE(?o) AS ?t) }} "
        f"GROUP BY ?c ?p ?t ORDER BY ?c ?p DESC(?n)",
    )
    owners = {
        (_class_of_row(row, "c"), row["p"]["value"]): number(row)
        for row in bounded(
            client,
            f"SELECT ?c ?p (COUNT(DISTINCT ?s) AS ?n) WHERE {{ {literals} }} GROUP BY ?c ?p "
            f"ORDER BY ?c ?p",
        )
    }
    edges = bounded(
        client,
        f"SELECT ?c ?p ?d (COUNT(*) AS ?n) WHERE {{ {triples} FILTER(isIRI(?s) && isIRI(?o) && "
        f"?p NOT IN ({left_out})) {_class_pattern(record, '?s', '?c')} "
        f"{_class_pattern(record, '?o', '?d')} }} "
        f"GROUP BY ?c ?p ?d ORDER BY DESC(?n)",
    )
    numbers = _number_types(values)
    short = {name: name.removeprefix(record.prefix) for name in classes} | {"": ""}
    properties: dict[str, list[Property]] = {}
    for (class_, predicate), group in groupby(
        values, key=lambda row: (_class_of_row(row, "c"), row["p"]["value"])
    ):
        if takes(record, predicate) and class_ in short:
            name = predicate.removeprefix(record.prefix)
            property_ = _property(
                name, list(group), owners.get((class_, predicate), 0), numbers.get(predicate)
            )
            properties.setdefault(class_, []).append(property_)
    types = [
        EntityType(
            short[name],
            count,
            tuple(properties.get(name, ())),
            also=(called[name],) if name in called else (),
        )
        for name, count in classes.items()
    ]
    if "" in properties or not types:
        types.append(EntityType("", 0, tuple(properties.get("", ()))))
    patterns = tuple(
        RelationPattern(
            row["p"]["value"].removeprefix(record.prefix),
            short[_class_of_row(row, "c")],
            short[_class_of_row(row, "d")],
            number(row),
        )
        for row in edges
        if {_class_of_row(row, "c"), _class_of_row(row, "d")} <= short.keys()
        and takes(record, row["p"]["value"])
    )
    return GraphSchema(tuple(types), patterns, sampled)


def _class_pattern(record: Attachment, entity: str, class_: str) -> str:
    """Return the pattern that binds each class of ``entity`` to ``class_``, if it has any."""
    found = f"{entity} {class_path(record)} {class_} FILTER(isIRI({class_}))"
    if record.subclasses or len(record.classes) > 1:  # a path may lead to a class in several ways
        found = f"{{ SELECT DISTINCT {entity} {class_} WHERE {{ {found} }} }}"
    return f"OPTIONAL {{ {found} }}"


def _class_of_row(row: dict[str, Any], variable: str) -> str:
    """Return the class bound in a row, "" if unbound."""
    return str(row[variable]["value"]) if variable in row else ""


def _number_types(rows: list[dict[str, Any]]) -> dict[str, ValueType]:
    """Return, by predicate, the numeric type of its texts if nearly all texts are numbers."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        kind = _example(row)[1]
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


def _example(row: dict[str, Any]) -> tuple[Value, ValueType]:
    """Return the example value of a row with its type."""
    return read_value(id_of(row["e"])) if "e" in row else ("", "text")


def _property(
    name: str, rows: list[dict[str, Any]], owners: int, as_number: ValueType | None
) -> Property:
    """Build a class's property from rows of (datatype, count, example).

    ``owners``: how many of the class have it. ``as_text``: numbers that SPARQL does not calculate
    with, such as those of ``xsd:gYear``, or texts that are read ``as_number``. ``unread``: how many
    values are of another type.
    """
    read = [_example(row) for row in rows]
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
