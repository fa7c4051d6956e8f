"""A SPARQL endpoint as it is, read-only and live: a ``GraphStore`` over what it answers now.

A frontier is a ``VALUES`` of a query, in batches; what a pattern matches is counted first, and read
until that count is reached, since a server may cut its replies without a word. A key is a hash of
the id (:mod:`kgqa.graph.sparql_keys`). An endpoint has no version: its number of triples is looked
at now and then, and a changed one is said. Blank nodes cannot be asked for, and are left out.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kgqa.errors import EntityNotFoundError, GraphError
from kgqa.graph.attached import Attachment, SurveyFile, read_attachment
from kgqa.graph.literals import LONG_TEXT, XSD, cast_values, read_value, value_id, value_name
from kgqa.graph.model import Adjacency, Entities, EntityDetails, Kind, Relations, keys_array
from kgqa.graph.names import is_storable, last_part, normalise
from kgqa.graph.schema import Facts, GraphSchema, Value
from kgqa.graph.sparql_client import SparqlClient, iri, is_term, literal, term_of
from kgqa.graph.sparql_keys import KeyFile, key_of
from kgqa.graph.sparql_survey import (
    ALIASES,
    NAMED,
    PAGE,
    RDF_TYPE,
    chosen_name,
    class_path,
    count_all,
    number,
    rank_of,
    settings_of,
    survey_endpoint,
    takes,
    wanted_language,
)
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import BoolArray, Direction, IntArray

BATCH = 500  # terms of one query
MOST_ROWS = 1_000_000  # that one question about a frontier may have
_LOOK = 60.0  # seconds between two looks at the number of triples
_KEPT = 200_000  # names that are remembered
_VARIANTS = (str, str.title, str.upper, str.capitalize)

_Named = tuple[str | None, int, list[str]]  # name, kind, other names


class SparqlStore:
    """An attached endpoint, for one thread. Raises StoreUnavailableError, GraphError."""

    def __init__(self, client: SparqlClient, folder: Path) -> None:
        self.client, self.folder, self.url = client, folder, client.url
        self._named: dict[int, _Named] = {}
        self._ids: dict[int, str] = {}
        self._there: set[str] = set()  # ids that were seen since the last look
        self._details: dict[int, EntityDetails] = {}
        self._degrees: dict[str, int] = {}
        self._looked = 0.0
        self._total = 0
        self._keys = KeyFile(folder)
        self._names: SurveyFile | None = None
        self._record_read: Attachment | None = None
        self.refresh()

    # ── states ──────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Read the record again, and count the triples if that was some time ago."""
        record = read_attachment(self.folder)
        if record != self._record_read:
            self._open(record)
        if time.monotonic() - self._looked > _LOOK or not self._looked:
            self._total = count_all(self.client)
            for kept in (self._there, self._details, self._degrees):
                kept.clear()
            self._looked = time.monotonic()
            self.info = replace(
                self._survey.info,
                name=self.folder.name,
                version=_version(self._total, self.record),
                edges=self._total,
                direction=self.record.direction,
            )

    def _open(self, record: Attachment) -> None:
        if (record.url, record.database) != (self.url, self.client.graph):
            raise GraphError(
                f"{self.folder.name} is attached to another endpoint now.", "Run the command again."
            )
        if self._names is not None:
            self._names.close()
        try:
            self._names = SurveyFile(self.folder)
        except GraphError:
            self._names = None
        if self._names is None or self._names.survey.settings != settings_of(record):
            survey_endpoint(self.client, record, self.folder, Silent())
            self._names = SurveyFile(self.folder)
        self.record = self._record_read = record
        self._survey = self._names.survey
        self._file = self._names
        names = list(self._survey.relations)
        self._relations = Relations(names, list(map(last_part, names)), [None] * len(names))
        self._numbers_as_text = {
            one.name: one.type
            for type_ in self._survey.schema.types
            for one in type_.properties
            if one.as_text
        }
        self._steps = {name: 2 * key for key, name in enumerate(names)}
        self._pattern = re.compile(record.mediators.pattern) if record.mediators.pattern else None
        self._named.clear()
        self._looked = 0.0

    def has_moved(self) -> bool:
        """Return False: an endpoint does not say when it changes."""
        return False

    def remarks(self) -> list[str]:
        """Return what an answer should say: that the endpoint has another number of triples."""
        if str(self._total) == self._survey.state:
            return []
        return [
            f"The endpoint has {self._total:,} triples now, and had {int(self._survey.state):,} "
            "when it was surveyed: `kgqa attach` brings the survey up to date."
        ]

    @property
    def schema_version(self) -> str:
        """What tells schemas apart."""
        held = repr((self._survey.schema, self._relations.ids, settings_of(self.record)))
        return hashlib.sha256(held.encode()).hexdigest()

    # ── ids, names and kinds ────────────────────────────────────────────────────────────────

    def _id_of(self, term: dict[str, Any]) -> str:
        if term.get("type") == "uri":
            return str(term["value"]).removeprefix(self.record.prefix)
        datatype = term.get("datatype")
        plain = datatype in (None, f"{XSD}string")
        return value_id(term["value"], term.get("xml:lang"), None if plain else datatype)

    def _term(self, id_: str) -> str:
        return term_of(id_, self.record.prefix)

    def _intern(self, ids: Sequence[str]) -> dict[str, int]:
        keys = {id_: key_of(id_) for id_ in dict.fromkeys(ids)}
        new = [id_ for id_, key in keys.items() if self._ids.get(key) != id_]
        if new:
            self._keys.keep(new)
            if len(self._ids) > _KEPT:
                self._ids.clear()
            self._ids |= {keys[id_]: id_ for id_ in new}
        return keys

    def _known(self, keys: Sequence[int]) -> list[str]:
        missing = [key for key in dict.fromkeys(keys) if key not in self._ids]
        found = self._keys.ids_of(missing)
        self._ids |= found
        if lost := [key for key in missing if key not in found]:
            raise EntityNotFoundError(
                f"{self.info.name} has no entity with the key {lost[0]}.",
                "The index may be of another KG.",
            )
        return [self._ids[key] for key in keys]

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if the endpoint has no triple with it."""
        wanted = [
            i for i in dict.fromkeys(ids) if is_storable(i) and is_term(i, self.record.prefix)
        ]
        there = [id_ for id_ in wanted if id_ in self._there]
        wanted = [id_ for id_ in wanted if id_ not in self._there]
        for start in range(0, len(wanted), BATCH):
            terms = {self._term(id_): id_ for id_ in wanted[start : start + BATCH]}
            values = " ".join(terms)
            rows = self.client.select(
                f"SELECT ?x WHERE {{ VALUES ?x {{ {values} }} "
                "FILTER(EXISTS { ?x ?p ?o } || EXISTS { ?s ?q ?x }) }"
            )
            there += [self._id_of(row["x"]) for row in rows]
        self._there.update(there)
        keys = self._intern(there)
        return keys_array([keys.get(id_, -1) for id_ in ids])

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in order. Raises EntityNotFoundError."""
        listed = keys_array(keys).tolist()
        ids = self._known(listed)
        named = self._name(dict(zip(listed, ids, strict=True)))
        rows = [named[key] for key in listed]
        kinds = np.asarray([row[1] for row in rows], dtype=np.uint8)
        return Entities(keys_array(listed), ids, [row[0] for row in rows], kinds)

    def _name(self, ids: dict[int, str]) -> dict[int, _Named]:
        """Return name and kind of each key; one query a batch for those that are not known."""
        if len(self._named) > _KEPT:
            self._named.clear()
        wanted = [key for key in ids if key not in self._named and ids[key][:1] != '"']
        for row, id_, name, kind in self._file.by_keys(
            "t.id, t.name, t.kind", "node", keys_array(wanted)
        ):
            if id_ == ids[wanted[row]]:
                self._named[wanted[row]] = (name, int(kind), [])
        wanted = [key for key in wanted if key not in self._named]
        if self._whole:  # the survey kept every name: what it does not name has none
            for key in wanted:
                self._named[key] = self._called(ids[key], None, [])
            wanted = []
        properties = [*self.record.labels, *ALIASES]
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            terms = " ".join(self._term(ids[key]) for key in some)
            predicates = " ".join(map(iri, properties))
            rows = self._all(
                f"VALUES ?s {{ {terms} }} VALUES ?p {{ {predicates} }} ?s ?p ?l "
                f"FILTER(isLiteral(?l) && {wanted_language('?l', self.record.language)})",
                "?s ?p ?l",
                counted=False,
            )
            names: dict[str, list[tuple[int, str]]] = {}
            for row in rows:
                rank = rank_of(row, properties, self.record.language)
                names.setdefault(self._id_of(row["s"]), []).append(
                    (rank, row["l"]["value"].strip())
                )
            for key in some:
                self._named[key] = self._called(ids[key], *chosen_name(names.get(ids[key], ())))
        return {key: self._named.get(key) or _value(id_) for key, id_ in ids.items()}

    def _called(self, id_: str, name: str | None, others: list[str]) -> _Named:
        if name is None and self._pattern and self._pattern.fullmatch(id_):
            return None, Kind.MEDIATOR, others
        return name or id_, Kind.ENTITY, others

    @property
    def _whole(self) -> bool:
        """Whether the survey kept every name, as far as the number of triples says."""
        return self._survey.named < NAMED and str(self._total) == self._survey.state

    def details(self, key: int) -> EntityDetails:
        """Return the types and literals of an entity. Raises EntityNotFoundError."""
        if int(key) not in self._details:
            self._details[int(key)] = self._read_details(int(key))
        return self._details[int(key)]

    def _read_details(self, key: int) -> EntityDetails:
        entity = self.entities(keys_array([key]))
        id_, kind = entity.ids[0], Kind(int(entity.kinds[0]))
        if kind == Kind.VALUE:
            return EntityDetails(id_, entity.names[0], kind, [], [], {})
        classes = f"{self._term(id_)} {class_path(self.record)} ?o BIND({iri(RDF_TYPE)} AS ?p)"
        rows = self._all(
            f"{{ {self._term(id_)} ?p ?o FILTER(isLiteral(?o) && "
            f"{wanted_language('?o', self.record.language)}) }} UNION "
            f"{{ {classes} FILTER(isIRI(?o)) }}",
            "?p ?o",
        )
        types, held = [], dict[str, list[Any]]()
        names = {*self.record.labels, *ALIASES}
        for row in rows:
            predicate = row["p"]["value"]
            if predicate == RDF_TYPE:
                types.append(self._id_of(row["o"]))
            elif takes(self.record, predicate) and predicate not in names:
                value = read_value(self._id_of(row["o"]))[0]
                held.setdefault(predicate.removeprefix(self.record.prefix), []).append(value)
        properties = {name: v[0] if len(v) == 1 else v for name, v in held.items()}
        others = self._named.get(key, (None, 0, []))[2]
        return EntityDetails(id_, entity.names[0], kind, others, sorted(set(types)), properties)

    def relations(self) -> Relations:
        """Return the predicates that the survey found."""
        return self._relations

    # ── queries ─────────────────────────────────────────────────────────────────────────────

    def called(self, texts: Sequence[str]) -> list[str]:
        """Return the ids of entities that have one of some texts as name or id."""
        keys = np.concatenate([self.keys_of(texts), self.find_names(texts)[1]])
        found = self.entities(np.unique(keys[keys >= 0]))
        pairs = zip(found.ids, found.names, strict=True)
        return [id_ for id_, name in pairs if id_ in texts or name in texts]

    def rows_of(self, query: str, variables: Sequence[str]) -> list[dict[str, Any]]:
        """Return all rows of a SELECT without prefixes, however many its replies hold."""
        return self._all(f"{{ {query} }}", " ".join(variables))

    def keys_of_terms(self, terms: Iterable[dict[str, Any]]) -> list[int]:
        """Return the key of each entity of a row."""
        ids = [self._id_of(term) for term in terms]
        keys = self._intern(ids)
        self._there.update(keys)
        return [keys[id_] for id_ in ids]

    # ── edges ───────────────────────────────────────────────────────────────────────────────

    def _all(self, pattern: str, variables: str, *, counted: bool = True) -> list[dict[str, Any]]:
        """Return all rows of a pattern. Raises GraphError if there are fewer than were counted.

        ``counted``: whether the count is asked for even if one page holds all.
        """
        query = f"SELECT {variables} WHERE {{ {pattern} }}"
        counting = f"SELECT (COUNT(*) AS ?n) WHERE {{ {pattern} }}"
        total = None
        if counted:  # in one request with the first page; a cut reply may lack the count
            rows = self.client.select(
                f"SELECT ?n {variables} WHERE {{ {{ {counting} }} UNION "
                f"{{ {query} LIMIT {PAGE} }} }}"
            )
            counts = [row for row in rows if "n" in row] or self.client.select(counting)
            total = number(counts[0]) if counts else 0
            rows = [row for row in rows if "n" not in row]
            if total > MOST_ROWS:
                raise GraphError(
                    f"The endpoint {self.url} has {total:,} edges there, more than kgqa reads.",
                    "Ask with fewer hops, or in the direction `out`.",
                )
            if len(rows) == total:
                return rows
        else:
            rows = self.client.select(f"{query} LIMIT {PAGE}")
            if len(rows) < PAGE // 2:
                return rows
        rows = []
        while total is None or len(rows) < total:
            page = self.client.select(
                f"{query} ORDER BY {variables} LIMIT {PAGE} OFFSET {len(rows)}"
            )
            rows += page
            if not page:
                break
        if total is not None and len(rows) != total:
            raise GraphError(
                f"The endpoint {self.url} gave {len(rows):,} of {total:,} rows: it cuts its "
                "results, or changed meanwhile.",
                "Ask again; if it stays so, its limit of rows must be raised.",
            )
        return rows

    def _literals(self) -> str:
        names = ", ".join(iri(name) for name in (*self.record.labels, *ALIASES))
        return (
            f"FILTER(?p NOT IN ({names}) && (isIRI(?o) || (isLiteral(?o) && "
            f"STRLEN(STR(?o)) <= {LONG_TEXT} && {wanted_language('?o', self.record.language)})))"
        )

    def _near(
        self, ids: Sequence[str], direction: Direction
    ) -> Iterator[tuple[str, str, int, str]]:
        """Yield (id, predicate, 0 along it or 1 against it, id of the other end)."""
        sides = []
        every = " ".join(map(self._term, ids))
        iris = " ".join(self._term(id_) for id_ in ids if id_[:1] != '"')
        if direction != "in" and iris:
            sides.append(f"{{ VALUES ?s {{ {iris} }} ?s ?p ?o {self._literals()} BIND(0 AS ?d) }}")
        if direction != "out":
            names = ", ".join(iri(name) for name in (*self.record.labels, *ALIASES))
            sides.append(
                f"{{ VALUES ?s {{ {every} }} ?o ?p ?s FILTER(isIRI(?o) && ?p NOT IN ({names})) "
                "BIND(1 AS ?d) }"
            )
        for row in self._all(" UNION ".join(sides), "?s ?p ?o ?d") if sides else ():
            predicate = row["p"]["value"]
            other = self._id_of(row["o"])
            if takes(self.record, predicate) and is_storable(other):
                short = predicate.removeprefix(self.record.prefix)
                yield self._id_of(row["s"]), short, int(row["d"]["value"]), other

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``: a count, its pages and the ends' names for each batch."""
        listed = keys_array(keys).tolist()
        ids = self._known(listed)
        rows = {id_: row for row, id_ in enumerate(ids)}
        edges: list[tuple[int, int, str]] = []
        for start in range(0, len(ids), BATCH):
            for id_, predicate, side, other in self._near(ids[start : start + BATCH], direction):
                if predicate in self._steps and id_ in rows:
                    edges.append((rows[id_], self._steps[predicate] + side, other))
        numbers = self._intern([other for _, _, other in edges])
        self._there.update(numbers)
        named = self._name({key: id_ for id_, key in numbers.items()})
        table = sorted({(r, step, numbers[o], named[numbers[o]][1]) for r, step, o in edges})
        columns = np.array(table, dtype=np.int64).reshape(-1, 4)
        return Adjacency(
            columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3].astype(np.uint8)
        )

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return which triples the endpoint has now; each is asked for."""
        columns = [keys_array(column).tolist() for column in (heads, relations, tails)]
        there = np.zeros(len(columns[0]), dtype=np.bool_)
        known = self._keys.ids_of(list({*columns[0], *columns[2]}))
        names = self._relations.ids
        asked: list[tuple[int, str]] = []
        for place, (head, relation, tail) in enumerate(zip(*columns, strict=True)):
            if head in known and tail in known and 0 <= relation < len(names):
                if known[head][:1] == '"':
                    continue
                parts = (known[head], names[relation], known[tail])
                asked.append((place, " ".join(map(self._term, parts))))
        for start in range(0, len(asked), BATCH):
            some = " ".join(f"({place} {triple})" for place, triple in asked[start : start + BATCH])
            rows = self.client.select(
                f"SELECT DISTINCT ?i WHERE {{ VALUES (?i ?s ?p ?o) {{ {some} }} ?s ?p ?o }}"
            )
            there[[number(row, "i") for row in rows]] = True
        return there

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key."""
        listed = keys_array(keys).tolist()
        ids = self._known(listed)
        counts = self._degrees
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ not in counts]
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            counts.update(dict.fromkeys(some, 0))
            every = " ".join(map(self._term, some))
            iris = " ".join(self._term(id_) for id_ in some if id_[:1] != '"')
            rows = self.client.select(
                f"SELECT ?s (COUNT(*) AS ?n) WHERE {{ {{ VALUES ?s {{ {iris} }} ?s ?p ?o "
                f"{self._literals()} }} UNION {{ VALUES ?s {{ {every} }} ?o ?p ?s "
                "FILTER(isIRI(?o) && ?o != ?s) } } GROUP BY ?s"
            )
            counts.update({self._id_of(row["s"]): number(row) for row in rows if "s" in row})
        return keys_array([counts[id_] for id_ in ids])

    # ── the property graph ──────────────────────────────────────────────────────────────────

    def schema(self) -> GraphSchema:
        """Return the schema that the survey found."""
        return self._survey.schema

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity.

        Of an endpoint that is too large to be counted, every one whose name the survey kept.
        """
        if not type_ and self._survey.schema.sampled:
            return self.topic_keys(-1, 1 << 40)
        ends = ", ".join(map(iri, (*self.record.labels, *ALIASES, *self.record.classes)))
        pattern = (
            f"?s {class_path(self.record)} {self._term(type_)}"
            if type_
            else f"{{ ?s ?p ?o }} UNION {{ ?o ?p ?s FILTER(?p NOT IN ({ends})) }}"
        )
        rows = self._all(f"{{ SELECT DISTINCT ?s WHERE {{ {pattern} FILTER(isIRI(?s)) }} }}", "?s")
        keys = self._intern([self._id_of(row["s"]) for row in rows])
        return np.unique(keys_array(list(keys.values())))

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the literals of a predicate, by row."""
        held: dict[str, list[Value]] = {}
        ids = self._known(keys_array(keys).tolist())
        wanted = f"isLiteral(?o) && {wanted_language('?o', self.record.language)}"
        for row in self._of(ids, [name], "?s ?p ?o", wanted):
            held.setdefault(self._id_of(row["s"]), []).append(read_value(self._id_of(row["o"]))[0])
        kind = self._numbers_as_text.get(name)
        held = {  # RDF knows no order of several
            id_: sorted(cast_values(values, kind), key=lambda one: (str(type(one)), one))
            for id_, values in held.items()
        }
        pairs = [(row, value) for row, id_ in enumerate(ids) for value in held.get(id_, ())]
        return keys_array([row for row, _ in pairs]), [value for _, value in pairs]

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the edges of ``relations`` whose head (``inverse``: tail) is in ``keys``."""
        ids = self._known(keys_array(keys).tolist())
        names = self._relations.ids
        place = {names[relation]: relation for relation in relations}
        at: dict[str, list[int]] = {}
        for row, id_ in enumerate(ids):
            at.setdefault(id_, []).append(row)
        triple = "?o ?p ?s" if inverse else "?s ?p ?o"
        rows = self._of(ids, list(place), triple, "isIRI(?o)")
        ends = [(self._id_of(r["s"]), r["p"]["value"], self._id_of(r["o"])) for r in rows]
        numbers = self._intern([end for _, _, end in ends])
        prefix = self.record.prefix
        edges = sorted(
            (row, place[predicate.removeprefix(prefix)], numbers[other], -1)
            for id_, predicate, other in ends
            for row in at[id_]
        )
        table = np.array(edges, dtype=np.int64).reshape(-1, 4)
        return Facts(*(table[:, column] for column in range(4)))

    def _of(
        self, ids: Sequence[str], names: Sequence[str], triple: str, condition: str
    ) -> Iterator[dict[str, Any]]:
        distinct = [id_ for id_ in dict.fromkeys(ids) if id_[:1] != '"' or triple[1] == "o"]
        predicates = " ".join(map(self._term, names))
        for start in range(0, len(distinct), BATCH) if names else ():
            terms = " ".join(map(self._term, distinct[start : start + BATCH]))
            yield from self._all(
                f"VALUES ?s {{ {terms} }} VALUES ?p {{ {predicates} }} {triple} "
                f"FILTER({condition})",
                "?s ?p ?o",
            )

    # ── look-ups ────────────────────────────────────────────────────────────────────────────

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position, key) of exact matches, sorted; names not kept are as written."""
        positions, keys = self._file.find_names(names)
        pairs = set(zip(positions.tolist(), keys.tolist(), strict=True))
        missing = set(range(len(names))) - {position for position, _ in pairs}
        if missing and not self._whole:
            pairs |= self._found({place: names[place] for place in missing})
        ordered = sorted(pairs)
        return keys_array([pair[0] for pair in ordered]), keys_array([pair[1] for pair in ordered])

    def _found(self, names: dict[int, str]) -> set[tuple[int, int]]:
        at: dict[str, list[int]] = {}
        for place, name in names.items():
            if form := normalise(name):
                at.setdefault(form, []).append(place)
        texts = sorted({change(names[p[0]]) for p in at.values() for change in _VARIANTS})
        tags = ["", self.record.language]
        found: set[tuple[int, int]] = set()
        predicates = " ".join(map(iri, (*self.record.labels, *ALIASES)))
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            values = " ".join(literal(text, tag) for text in some for tag in tags)
            for row in self.client.select(
                f"SELECT DISTINCT ?s ?l WHERE {{ VALUES ?l {{ {values} }} VALUES ?p "
                f"{{ {predicates} }} ?s ?p ?l FILTER(isIRI(?s)) }} LIMIT {PAGE}"
            ):
                id_ = self._id_of(row["s"])
                key = self._intern([id_])[id_]
                found |= {(place, key) for place in at.get(normalise(row["l"]["value"]), ())}
        return found

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return keys of entities with names like ``text``, of those that the survey kept."""
        return self._file.suggest(text, limit, prefix=prefix)

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return keys above ``after`` of entities whose names the survey kept."""
        return self._file.topic_keys(after, min(limit, 1 << 40))

    def close(self) -> None:
        """Give back what the store holds open. Calling it again does nothing."""
        if self._names is not None:
            self._names.close()
            self._names = None
        self._keys.close()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _value(id_: str) -> _Named:
    match = re.fullmatch(r'"(.*)"(?:@[\w-]+|\^\^(?:xsd:(\w+)|<(.*)>))?', id_, re.DOTALL)
    if match is None:
        return id_, Kind.VALUE, []
    text, short, datatype = match.groups()
    return value_name(text, XSD + short if short else datatype), Kind.VALUE, []


def _version(total: int, record: Attachment) -> str:
    return hashlib.sha256(repr((total, record.url, settings_of(record))).encode()).hexdigest()
