"""Attaching a SPARQL endpoint: what is asked of it once, in bounds, and kept in the KG's folder.

Counts by class and by predicate, datatypes with an example each, and names up to a bound. The
record is ``attached.toml``, as a Neo4j database's is, with the language of names and the properties
that are names; the survey is the same file, too (:mod:`kgqa.graph.attached`).
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgqa.errors import GraphError, UsageError
from kgqa.graph.attached import (
    Attached,
    Attachment,
    Survey,
    TextIndex,
    free_name,
    new_survey,
    surveying,
)
from kgqa.graph.backend import is_kg_name
from kgqa.graph.freebase import MEDIATOR_TYPES, bundled
from kgqa.graph.kept import KEPT
from kgqa.graph.model import KGInfo, Kind
from kgqa.graph.names import iri_names, is_storable, normalise
from kgqa.graph.schema import GraphSchema
from kgqa.graph.sparql_around import NeighbourCache, counted_degrees
from kgqa.graph.sparql_client import SparqlClient, id_of, iri, is_term, literal
from kgqa.graph.sparql_keys import KeyFile, key_of
from kgqa.graph.sparql_pages import all_rows, count_of, number, pages, short
from kgqa.graph.sparql_profiles import (
    ALIASES,
    COUNTED,
    FREEBASE,
    WIKIDATA,
    WIKIDATA_PROPERTY,
    chosen_name,
    class_path,
    classed,
    profiled,
    rank_of,
    settings_of,
    shown_filter,
    takes,
    wanted_language,
)
from kgqa.graph.sparql_schema import MOST_RELATIONS, bounded, schema_of
from kgqa.sparql import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set
    from pathlib import Path

    from kgqa.graph.attached import Node
    from kgqa.graph.model import Direction
    from kgqa.progress import Progress

_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
NAMED = 200_000  # names that are kept here
BATCH = 500  # terms of one query
_MOST_CLASSES = 500  # of an endpoint that is sampled
_TIMEOUT = 300.0  # seconds for one request of a survey
_MOST_GRAPHS = 1_000
_OF_VIRTUOSO = ("http://www.openlinksw.com/", "http://localuriqaserver/", "http://www.w3.org/")


@dataclass(frozen=True, slots=True)
class SparqlTaken:
    """What a user configures before an endpoint is surveyed; None keeps the record's value."""

    label_property: Sequence[str] | None = None
    default_language: str | None = None
    only: Sequence[str] | None = None
    skip: Sequence[str] | None = None
    direction: Direction | None = None


def attach_endpoint(
    client: SparqlClient, home: Path, kg: str | None, taken: SparqlTaken, progress: Progress
) -> Attached:
    """Survey an endpoint and record it in ``home`` as the KG ``kg``, by default its host's name.

    ``taken``: the user's settings. Raises UsageError if the name is used by another KG or a
    language is not a tag, StoreUnavailableError, GraphError.
    """
    began = time.monotonic()
    if taken.default_language and not _TAG.fullmatch(taken.default_language):
        raise UsageError(
            f"{taken.default_language!r} is not a tag of a language.", "Write it like en or pt-BR."
        )
    _choose_graph(client, progress)
    name = kg or _free_name(home, client)
    folder = home / name
    with surveying(folder, client.url, client.graph, language="en") as record:
        record = _with_user_settings(record, taken)
        survey, record = survey_endpoint(client, record, folder, progress)
        if taken.direction is not None:
            record = replace(record, direction=taken.direction)
        record.write(folder)
    return Attached(name, record, survey, time.monotonic() - began)


def _choose_graph(client: SparqlClient, progress: Progress) -> None:
    """On Virtuoso, set the client to the only named graph that is not Virtuoso's own."""
    if client.graph:
        return
    client.select("SELECT * WHERE { ?s ?p ?o } LIMIT 1")  # who answers
    if not is_virtuoso(client):
        return
    own = [graph for graph in _named_graphs(client) if not graph.startswith(_OF_VIRTUOSO)]
    if len(own) == 1:
        client.graph = own[0]
        progress.note(f"The graph that is asked is {own[0]}, the only one.")
    elif own:
        progress.note(
            f"All {len(own):,} graphs are asked together ({_shown(own)}): `--named-graph` asks one."
        )


def _named_graphs(client: SparqlClient) -> list[str]:
    """Return the IRIs of the endpoint's named graphs, sorted, up to a bound."""
    rows = client.select(f"{query('graphs')}\nLIMIT {_MOST_GRAPHS}")
    return sorted(row["g"]["value"] for row in rows if "g" in row)


def _shown(graphs: Sequence[str]) -> str:
    """Join the first five graph IRIs into text."""
    return ", ".join(graphs[:5]) + (", …" if len(graphs) > 5 else "")


def _no_triples(client: SparqlClient) -> GraphError:
    """Return the error of an endpoint or named graph without triples."""
    if client.graph:
        return GraphError(
            f"The graph {client.graph} of the endpoint {client.url} holds no triples.",
            "Check its name.",
        )
    graphs = _named_graphs(client)
    if not graphs:
        return GraphError(
            f"The endpoint {client.url} holds no triples.",
            "Load some into it, and attach it again.",
        )
    return GraphError(
        f"The default graph of the endpoint {client.url} holds no triples; it has {len(graphs):,} "
        f"named graphs ({_shown(graphs)}).",
        "`named_graph` asks one.",
    )


def _free_name(home: Path, client: SparqlClient) -> str:
    """Return a KG name after the endpoint's host, numbered if another KG has it."""
    from urllib.parse import urlsplit

    host = (urlsplit(client.url).hostname or "").split(".")
    base = host[-2] if len(host) > 1 and not host[-1].isdecimal() else host[0]
    base = base if is_kg_name(base) and not base.isdecimal() else "endpoint"
    return free_name(home, base, client.url, client.graph, damaged=False)


def _with_user_settings(record: Attachment, taken: SparqlTaken) -> Attachment:
    """Return the record with the settings that the user gave in ``taken``."""
    given: dict[str, Any] = {
        "labels": taken.label_property,
        "language": taken.default_language,
        "only": taken.only,
        "skip": taken.skip,
    }
    given = {name: value for name, value in given.items() if value is not None}
    given = {n: tuple(v) if not isinstance(v, str) else v for n, v in given.items()}
    return replace(record, **given)


def survey_endpoint(
    client: SparqlClient, record: Attachment, folder: Path, progress: Progress
) -> tuple[Survey, Attachment]:
    """Survey an endpoint by queries, and write the survey; return it and the completed record.

    1. Count triples and predicates; complete the record by the profile of a known endpoint.
    2. Read names of predicates and of nodes, up to a bound.
    3. Read classes and datatypes as the schema, and what tells mediators.
    4. Write the survey file, and the keys of the nodes read.
    """
    began, timeout = time.monotonic(), client.timeout
    client.timeout = max(timeout, _TIMEOUT)
    try:
        with progress.task("counting the endpoint's triples"):
            total = count_triples(client)
            if not total:
                raise _no_triples(client)
            predicates, all_counted = _predicates(client, total, progress)
            record = classed(profiled(record, predicates), predicates, total)
        names = {*record.labels, *ALIASES}
        relations = tuple(
            sorted(
                p.removeprefix(record.prefix)
                for p in predicates
                if takes(record, p) and p not in names
            )
        )
        with progress.task("reading names"):
            called = _predicate_names(client, record, relations)
            nodes = _names(client, record, total)
            if total <= COUNTED and not record.prefix and len(nodes) < NAMED:
                nodes += _unlabelled(client, record, {node[1] for node in nodes})
        with progress.task("reading classes and datatypes"):
            schema = _schema(client, record, total, progress)
            mediators = _mediator_types(client, record, schema, predicates)
            left_out = _nameless(client, record, mediators, predicates) if total <= COUNTED else []
        entities = len(nodes)
        if total <= COUNTED:
            entities = number(client.select(query("subjects"))[0])
        searches = _searches_words(client, record, nodes)
    finally:
        client.timeout = timeout
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
        (TextIndex("bif:contains", (), ()),) if searches else (),
        str(total),
        settings_of(record),
        time.time(),
        time.monotonic() - began,
        len(nodes),
        called,
        all_relations=all_counted,
        mediator_types=mediators,
    )
    lost = _edges_of(client, record, left_out)
    nodes = [(*node[:4], node[4] - lost[node[1]], node[5]) for node in nodes]
    nodes += [(key_of(id_), id_, None, Kind.MEDIATOR, 0, []) for id_ in left_out]
    shutil.rmtree(folder / KEPT, ignore_errors=True)  # it was computed from the last survey
    with new_survey(folder) as writer:
        writer.add(nodes)
        writer.finish(survey)
    with KeyFile(folder) as keys:
        keys.keep([node[1] for node in nodes])
    return survey, record


def is_virtuoso(client: SparqlClient) -> bool:
    """Return whether the endpoint's server identified itself as Virtuoso."""
    return "virtuoso" in client.server.lower()


def count_triples(client: SparqlClient) -> int:
    """Count the triples. Raises GraphError."""
    rows = client.select(query("count_triples"))
    if len(rows) != 1:
        raise GraphError(f"The endpoint {client.url} does not count its triples.")
    return number(rows[0])


def _predicates(
    client: SparqlClient, total: int, progress: Progress
) -> tuple[dict[str, int], bool]:
    """Return the count of each predicate (0: not counted), and whether these are all predicates."""
    for name in ("predicates", "predicates_there", "predicates_sampled"):
        found: dict[str, int] = {}
        try:
            for page in pages(client, query(name)):
                found |= {row["p"]["value"]: number(row) if "n" in row else 0 for row in page}
                counted = sum(found.values())
                if counted >= total or len(found) >= MOST_RELATIONS:
                    break
        except GraphError as error:
            if name == "predicates_sampled":
                raise
            progress.note(f"The predicates are read in another way: {error.message}")
            continue
        if name != "predicates":
            return found, name == "predicates_there" and len(found) < MOST_RELATIONS
        if counted < total <= COUNTED and len(found) < MOST_RELATIONS:
            raise short(client, counted, total)
        return found, counted >= total
    raise AssertionError


def _schema(
    client: SparqlClient, record: Attachment, total: int, progress: Progress
) -> GraphSchema:
    """Build the schema; an empty one, with a note, if a large endpoint cannot answer."""
    try:
        most = MOST_RELATIONS if total <= COUNTED else _MOST_CLASSES
        shown = shown_filter(record, "?c")
        text = query("classes", type=class_path(record), shown_class=shown)
        classes = {row["c"]["value"]: number(row) for row in bounded(client, text, most)}
        called = _labels_of(client, record, list(classes))
        return schema_of(client, record, classes, called, total)
    except GraphError as error:
        if total <= COUNTED:
            raise
        progress.note(f"Classes and datatypes are not known: {error.message}")
        return GraphSchema((), (), True)


def _mediator_types(
    client: SparqlClient, record: Attachment, schema: GraphSchema, predicates: Iterable[str]
) -> tuple[str, ...]:
    """Return the types of Freebase's mediators; () if the endpoint has no node of these types.

    A nameless node of none of these types is an entity without a name in the wanted language.
    """
    if record.prefix != FREEBASE:
        return ()
    hinted: list[dict[str, Any]] = []
    if f"{FREEBASE}freebase.type_hints.mediator" in predicates:
        hinted = all_rows(client, query("mediator_types"))
    types = {*bundled(MEDIATOR_TYPES)}
    types.update(row["s"]["value"].removeprefix(FREEBASE) for row in hinted)
    there = {type_.name for type_ in schema.types}
    return tuple(sorted(types)) if types & there else ()


def _nameless(
    client: SparqlClient, record: Attachment, mediators: Sequence[str], predicates: Iterable[str]
) -> list[str]:
    """Return the ids of nameless nodes whose types are not those of mediators."""
    labels = [label for label in record.labels if label in predicates]
    if not mediators or not labels:
        return []
    text = query(
        "nameless",
        type=class_path(record),
        labels="|".join(map(iri, labels)),
        classes=", ".join(iri(record.prefix + name) for name in mediators),
        wanted_language=wanted_language("?l", record.language),
    )
    ids = (id_of(row["s"], record.prefix) for row in all_rows(client, text))
    return [id_ for id_ in ids if re.fullmatch(record.mediators.pattern, id_)]


def _edges_of(client: SparqlClient, record: Attachment, ids: Sequence[str]) -> Counter[str]:
    """Count the edges between each node and one of ``ids``."""
    counted: Counter[str] = Counter()
    around = NeighbourCache(client, record)
    for start in range(0, len(ids), BATCH):
        for side in around.edges(ids[start : start + BATCH], "both"):
            counted.update(end for edges in side.values() for _, end in edges)
        around.clear()
    return counted


def _predicate_names(
    client: SparqlClient, record: Attachment, relations: Sequence[str]
) -> dict[str, str]:
    """Return the label of each relation's predicate; relations without a label are missing."""
    if record.prefix == FREEBASE:  # an id says more there than a label such as "Gender"
        return {}
    properties = {
        name: WIKIDATA_PROPERTY.sub(rf"{WIKIDATA}entity/\1", name)
        for name in relations
        if is_term(name)
    }
    called = _labels_of(client, record, sorted({*properties.values()}))
    return {name: called[iri_] for name, iri_ in properties.items() if iri_ in called}


def _labels_of(client: SparqlClient, record: Attachment, iris: Sequence[str]) -> dict[str, str]:
    """Return the best label of each IRI in the wanted language; IRIs without one are missing."""
    names: dict[str, list[tuple[int, str]]] = {}
    for start in range(0, len(iris), BATCH):
        rows = all_rows(
            client,
            query(
                "names_of",
                nodes=" ".join(map(iri, iris[start : start + BATCH])),
                names=" ".join(map(iri, record.labels)),
                wanted_language=wanted_language("?l", record.language),
            ),
        )
        for row in rows:
            rank = rank_of(row, record.labels, record.language)
            names.setdefault(row["s"]["value"], []).append((rank, row["l"]["value"].strip()))
    chosen = {iri_: chosen_name(texts)[0] for iri_, texts in names.items()}
    return {iri_: name for iri_, name in chosen.items() if name}


def _names(client: SparqlClient, record: Attachment, total: int) -> list[Node]:
    """Return named nodes up to a bound. Raises GraphError if fewer arrive than counted."""
    properties = [*record.labels, *ALIASES]
    held: dict[str, list[tuple[int, str]]] = {}
    text = query(
        "names",
        names=" ".join(map(iri, properties)),
        wanted_language=wanted_language("?l", record.language),
    )
    counted = count_of(client, text) if total <= COUNTED else None
    got = 0
    for page in pages(client, text, order="" if counted is None else "?s ?p ?l"):
        for row in page:
            names = held.setdefault(row["s"]["value"].removeprefix(record.prefix), [])
            names.append((rank_of(row, properties, record.language), row["l"]["value"].strip()))
        got += len(page)
        if got == counted or len(held) >= NAMED:
            break
    if counted is not None and got != counted and len(held) < NAMED:
        raise short(client, got, counted)
    chosen = {id_: chosen_name(texts) for id_, texts in held.items() if is_storable(id_)}
    named = {id_: (name, others) for id_, (name, others) in chosen.items() if name}
    degrees = dict.fromkeys(named, 1)  # of a part of the names it is asked for later
    if counted is not None and len(named) < NAMED:
        degrees = counted_degrees(client, record, list(named))
    return [
        (key_of(id_), id_, name, Kind.ENTITY, degrees[id_], others)
        for id_, (name, others) in named.items()
    ]


def _unlabelled(client: SparqlClient, record: Attachment, named: Set[str]) -> list[Node]:
    """Return nodes without a label, named by the last part of their IRIs, as a load does.

    ``named``: ids of nodes that have a name. Nodes without such a part are left out.
    """
    text = query(
        "unlabelled",
        labels="|".join(map(iri, record.labels)),
        wanted_language=wanted_language("?l", record.language),
    )
    ids = [row["s"]["value"] for row in all_rows(client, text)]
    mediator = re.compile(record.mediators.pattern or r"(?!)")
    ids = [
        id_
        for id_ in dict.fromkeys(ids)
        if id_ not in named and is_storable(id_) and not mediator.fullmatch(id_)
    ]
    ids = ids[: NAMED - len(named)]
    words, local = (names.to_pylist() for names in iri_names(pa.array(ids, pa.string())))
    called = {id_: (name, last) for id_, name, last in zip(ids, words, local, strict=True) if name}
    degrees = counted_degrees(client, record, list(called))
    return [
        (key_of(id_), id_, name, Kind.ENTITY, degrees[id_], [last] if last != name else [])
        for id_, (name, last) in called.items()
    ]


def _searches_words(client: SparqlClient, record: Attachment, nodes: Sequence[Node]) -> bool:
    """Return whether Virtuoso's full-text index finds a node by a word of its name."""
    if not is_virtuoso(client):
        return False
    for node in nodes[:50]:
        if words := words_query(node[2] or ""):
            try:
                rows = client.select(by_words(record, words, 100) + "\nLIMIT 1000")
            except GraphError:  # it has no such index
                return False
            return any(row["s"]["value"] == record.prefix + node[1] for row in rows)
    return False


def words_query(text: str) -> str:
    """Return the words of a text as a conjunctive ``bif:contains`` query, "" if it has none.

    >>> words_query("O'Neil, Bob")
    "'o' AND 'neil' AND 'bob'"
    """
    words = [word for word in normalise(text).split() if word.isalnum()]
    return " AND ".join(f"'{word}'" for word in words[:8])


def by_words(record: Attachment, words: str, most: int) -> str:
    """Return the query for nodes whose names have some words, and at most ``most`` characters."""
    return query(
        "by_words",
        names=" ".join(map(iri, (*record.labels, *ALIASES))),
        words=literal(words),
        short=f"STRLEN(STR(?l)) <= {most}",
        wanted_language=wanted_language("?l", record.language),
    )
