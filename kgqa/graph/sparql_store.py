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
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kgqa.closing import Closing
from kgqa.display import LIVE
from kgqa.errors import EntityNotFoundError, GraphError
from kgqa.graph.attached import Attachment, SurveyFile, read_attachment
from kgqa.graph.kept import KEPT
from kgqa.graph.literals import XSD, cast_values, is_ill_typed, read_value, value_name
from kgqa.graph.model import Adjacency, Entities, EntityDetails, Kind, Relations, keys_array
from kgqa.graph.names import iri_names, is_storable, name_form
from kgqa.graph.schema import Facts, GraphSchema, Value
from kgqa.graph.sparql_around import BATCH, FEW, NeighbourCache, counted_degrees
from kgqa.graph.sparql_client import SparqlClient, id_of, iri, is_term, literal, term_of
from kgqa.graph.sparql_keys import KeyFile, key_of
from kgqa.graph.sparql_pages import PAGE, all_rows, number, pages, together
from kgqa.graph.sparql_profiles import (
    ALIASES,
    COUNTED,
    chosen_name,
    class_path,
    is_skipped,
    rank_of,
    settings_of,
    wanted_language,
)
from kgqa.graph.sparql_survey import (
    NAMED,
    by_words,
    count_triples,
    is_virtuoso,
    survey_endpoint,
    words_query,
)
from kgqa.lexicon.tokens import last_part
from kgqa.progress import Silent
from kgqa.sparql import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import BoolArray, Direction, IntArray

_LOOK = 60.0  # seconds between two looks at the number of triples, or more where a look is long
_MARKS = 10  # characters that a name may have beside those of its normalised form
_KEPT = 200_000  # names that are remembered
_VARIANTS = (str, str.title, str.upper, str.capitalize)


Triple: TypeAlias = "tuple[str, str, str]"  # id of the head, of the relation, of the tail
_Named = tuple[str | None, int, list[str]]  # name, kind, other names


class SparqlStore(Closing):
    """An attached endpoint, for one thread. Raises StoreUnavailableError, GraphError."""

    def __init__(self, client: SparqlClient, folder: Path) -> None:
        self.client, self.folder, self.url = client, folder, client.url
        self.kept_in = folder / KEPT
        self._named: dict[int, _Named] = {}
        self._ids: dict[int, str] = {}
        self._there: set[str] = set()  # ids that were seen since the last look
        self._degrees: dict[str, int] = {}
        self._instances: dict[str, IntArray] = {}
        self._unsurveyed: set[str] = set()  # predicates that were met and are left out
        self._left_out: set[int] = set()  # nodes that are neither named nor mediators
        self._verified: dict[Triple, bool] = {}  # since ``refresh``
        self._likely: dict[Triple, None] = {}  # that are expected to be asked for
        self._rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}  # of queries, foreseen
        self._looked = 0.0
        self._pause = _LOOK
        self._total = 0
        self._keys = KeyFile(folder)
        self._names: SurveyFile | None = None
        self._record_read: Attachment | None = None
        self.refresh()

    # ── states ──────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Read the attachment record again; if due, count the triples and empty the caches."""
        self._verified.clear()
        self._likely.clear()
        self._rows.clear()
        record = read_attachment(self.folder)
        if record != self._record_read:
            self._open(record)
        self._around.forget_expected()
        if time.monotonic() - self._looked > self._pause or not self._looked:
            began = time.monotonic()
            self._total = count_triples(self.client)
            for kept in (self._there, self._around, self._degrees, self._instances):
                kept.clear()
            self._looked = time.monotonic()
            self._pause = max(_LOOK, 50 * (self._looked - began))
            self.info = replace(
                self._survey.info,
                name=self.folder.name,
                version=_version(self._total, self.record),
                edges=self._total,
                direction=self.record.direction,
            )

    def _open(self, record: Attachment) -> None:
        """Open the survey of a record, made again if outdated, and clear the caches."""
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
        called = [self._survey.called.get(name) or last_part(name) for name in names]
        self._relations = Relations(names, called, [None] * len(names))
        self._numbers_as_text = {
            property_.name: property_.type
            for type_ in self._survey.schema.types
            for property_ in type_.properties
            if property_.as_text
        }
        self._steps = {name: 2 * key for key, name in enumerate(names)}
        self._mediators = frozenset(self._survey.mediator_types)
        self._pattern = re.compile(record.mediators.pattern) if record.mediators.pattern else None
        self._around = NeighbourCache(self.client, record)
        for kept in (self._named, self._unsurveyed, self._left_out):
            kept.clear()
        self._looked = 0.0

    def has_moved(self) -> bool:
        """Return False: an endpoint does not report changes."""
        return False

    def remarks(self) -> list[str]:
        """Return the notes that an answer must carry.

        That an endpoint has no version, that its number of triples changed since the survey, and
        which predicates were left out.
        """
        said = [f"{LIVE} {self.client.url}: an endpoint has no version."]
        if str(self._total) != self._survey.state:
            said.append(
                f"The endpoint has {self._total:,} triples now, and had "
                f"{int(self._survey.state):,} when it was surveyed: `kgqa attach` brings the "
                "survey up to date."
            )
        if self._unsurveyed:
            some = ", ".join(sorted(self._unsurveyed)[:3])
            more = ", …" if len(self._unsurveyed) > 3 else ""
            said.append(
                f"Edges of {len(self._unsurveyed):,} predicates that the survey does not know were "
                f"left out ({some}{more}): `kgqa attach` surveys again."
            )
        return said

    @property
    def schema_version(self) -> str:
        """A digest of the surveyed schema."""
        held = repr((self._survey.schema, self._relations.ids, settings_of(self.record)))
        return hashlib.sha256(held.encode()).hexdigest()

    # ── ids, names and kinds ────────────────────────────────────────────────────────────────

    def _id_of(self, term: dict[str, Any]) -> str:
        """Return the id of a term of a reply."""
        return id_of(term, self.record.prefix)

    def _term(self, id_: str) -> str:
        """Return the SPARQL term of an id."""
        return term_of(id_, self.record.prefix)

    def _intern(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the key of each id, and store the ids under their keys in the key file."""
        keys = {id_: key_of(id_) for id_ in dict.fromkeys(ids)}
        new = [id_ for id_, key in keys.items() if self._ids.get(key) != id_]
        if new:
            self._keys.keep(new)
            if len(self._ids) > _KEPT:
                self._ids.clear()
            self._ids |= {keys[id_]: id_ for id_ in new}
        return keys

    def _ids_of(self, keys: Sequence[int]) -> list[str]:
        """Return the id of each key. Raises EntityNotFoundError."""
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
        if is_virtuoso(self.client):  # it holds no ill-typed literal, and refuses a query with one
            wanted = [id_ for id_ in wanted if not is_ill_typed(id_)]
        if self._has_all_names:  # what the survey names is in a triple
            kept = self._file.keys_of(wanted).tolist()
            self._there.update(
                id_ for id_, key in zip(wanted, kept, strict=True) if key == key_of(id_)
            )
        there = [id_ for id_ in wanted if id_ in self._there or self._around.has(id_)]
        wanted = [id_ for id_ in wanted if id_ not in there]
        for start in range(0, len(wanted), BATCH):
            nodes = " ".join(map(self._term, wanted[start : start + BATCH]))
            rows = all_rows(self.client, query("there", nodes=nodes))
            there += [self._id_of(row["x"]) for row in rows]
        self._there.update(there)
        keys = self._intern(there)
        return keys_array([keys.get(id_, -1) for id_ in ids])

    def entities(self, keys: IntArray) -> Entities:
        """Return ids, names and kinds of ``keys``, in order. Raises EntityNotFoundError."""
        listed = keys_array(keys).tolist()
        ids = self._ids_of(listed)
        named = self._name_keys(dict(zip(listed, ids, strict=True)))
        rows = [named[key] for key in listed]
        kinds = np.asarray([row[1] for row in rows], dtype=np.uint8)
        return Entities(keys_array(listed), ids, [row[0] for row in rows], kinds)

    def _name_keys(self, ids: dict[int, str]) -> dict[int, _Named]:
        """Return (name, kind, other names) by key; unknown ones are queried in batches."""
        if len(self._named) > _KEPT:
            self._named.clear()
        wanted = [key for key in ids if key not in self._named and ids[key][:1] != '"']
        for row, id_, name, kind in self._file.by_keys(
            "t.id, t.name, t.kind", "node", keys_array(wanted)
        ):
            if id_ == ids[wanted[row]]:
                self._named[wanted[row]] = (name, int(kind), [])
                if name is None:
                    self._left_out.add(wanted[row])
        wanted = [key for key in wanted if key not in self._named]
        unread = wanted
        if self._has_all_names:  # the survey kept every name: what it does not name has none
            for key in wanted:
                self._named[key] = self._named_node(key, ids[key], None, [])
            wanted = []
        for key in wanted:
            if (about := self._around.about.get(ids[key])) is not None:
                self._named[key] = self._named_node(
                    key, ids[key], *chosen_name(about.names), about.types
                )
        wanted = [key for key in wanted if key not in self._named]
        properties = [*self.record.labels, *ALIASES]
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            names: dict[str, list[tuple[int, str]]] = {}
            types: dict[str, list[str]] = {}
            for row in all_rows(self.client, self._names_query([ids[key] for key in some])):
                id_ = self._id_of(row["s"])
                if "p" not in row:
                    types.setdefault(id_, []).append(self._id_of(row["l"]))
                    continue
                rank = rank_of(row, properties, self.record.language)
                names.setdefault(id_, []).append((rank, row["l"]["value"].strip()))
            for key in some:
                named = chosen_name(names.get(ids[key], ()))
                self._named[key] = self._named_node(key, ids[key], *named, types.get(ids[key], ()))
        self._call_by_iris({key: ids[key] for key in unread})
        return {key: self._named.get(key) or _value_name(id_) for key, id_ in ids.items()}

    def _names_query(self, ids: Sequence[str]) -> str:
        """Return the query for names and, if types identify mediators, types of nameless nodes."""
        wanted = wanted_language("?l", self.record.language)
        names = " ".join(map(iri, (*self.record.labels, *ALIASES)))
        nodes = " ".join(map(self._term, ids))
        named = query("names_of", nodes=nodes, names=names, wanted_language=wanted)
        if not self._mediators:
            return named
        types = query(
            "kinds_of",
            nodes=nodes,
            type=class_path(self.record),
            labels="|".join(map(iri, self.record.labels)),
            wanted_language=wanted_language("?n", self.record.language),
        )
        return f"SELECT ?s ?p ?l\nWHERE {{ {{ {named} }} UNION {{ {types} }} }}"

    def _named_node(
        self,
        key: int,
        id_: str,
        name: str | None,
        others: list[str],
        types: Sequence[str] | None = None,
    ) -> _Named:
        """Return (name, kind, other names) of a node; a nameless one may be a mediator.

        ``types``: its types, None if the survey knows the mediators. A nameless node of other types
        is noted, to be left out of edges.
        """
        if name is None and self._pattern and self._pattern.fullmatch(id_):
            if types is not None and self._mediators and self._mediators.isdisjoint(types):
                self._left_out.add(key)
            return None, Kind.MEDIATOR, others
        return name or id_, Kind.ENTITY, others

    def _call_by_iris(self, ids: dict[int, str]) -> None:
        """Name nameless entities by the last part of their IRIs, as a load does."""
        bare = {key: i for key, i in ids.items() if self._named[key][:2] == (i, Kind.ENTITY)}
        if not bare or self.record.prefix:
            return
        words = iri_names(pa.array(list(bare.values()), pa.string()))[0].to_pylist()
        for (key, id_), word in zip(bare.items(), words, strict=True):
            self._named[key] = (word or id_, Kind.ENTITY, self._named[key][2])

    @property
    def _has_all_names(self) -> bool:
        """Whether the survey kept every name, judged by the number of triples."""
        return self._survey.named < NAMED and str(self._total) == self._survey.state

    def details(self, key: int) -> EntityDetails:
        """Return the types and literals of an entity. Raises EntityNotFoundError."""
        entity = self.entities(keys_array([key]))
        id_, kind = entity.ids[0], Kind(int(entity.kinds[0]))
        about = self._around.about.get(id_)
        if about is None and self._around.load([id_], "out"):
            about = self._around.about[id_]
        assert about is not None
        names = [text for _, text in sorted(about.names) if is_storable(text)]
        others = [name for name in dict.fromkeys(names) if name != entity.names[0]]
        held: dict[str, dict[Value, None]] = {}
        for relation, value in about.literals:
            held.setdefault(relation, {})[read_value(value)[0]] = None
        listed = {name: list(values) for name, values in held.items()}
        properties = {name: v[0] if len(v) == 1 else v for name, v in listed.items()}
        types = sorted({type_ for type_ in about.types if not is_skipped(self.record, type_)})
        return EntityDetails(id_, entity.names[0], kind, others, types, properties)

    def relations(self) -> Relations:
        """Return the predicates that the survey found."""
        return self._relations

    def by_id(self, keys: IntArray) -> IntArray:
        """Return distinct keys in the order of their ids. Raises EntityNotFoundError."""
        listed = keys_array(keys).tolist()
        pairs = sorted(zip(self._ids_of(listed), listed, strict=True))
        return keys_array([key for _, key in pairs])

    def foresee(self, keys: IntArray, direction: Direction) -> None:
        """Schedule the edges of some entities to be read together with the next request.

        Hubs are skipped, and nothing is scheduled for many entities. Of a few, classes and names
        are read, too.
        """
        listed = keys_array(keys).tolist()
        ids = self._ids_of(listed)
        self._count_named(listed, ids)
        if direction != "out":  # all edges into a hub nobody asks for
            ids.sort(key=lambda id_: self._degrees.get(id_, 0))
            rows = accumulate(self._degrees.get(id_, 0) for id_ in ids)
            ids = [id_ for id_, total in zip(ids, rows, strict=True) if total <= PAGE]
        if len(ids) <= (FEW if direction == "out" else BATCH):
            self._around.expect(ids, direction)

    # ── queries ─────────────────────────────────────────────────────────────────────────────

    def called(self, texts: Sequence[str]) -> list[str]:
        """Return the ids of entities whose name or id is one of ``texts``."""
        keys = np.concatenate([self.keys_of(texts), self.find_names(texts)[1]])
        found = self.entities(np.unique(keys[keys >= 0]))
        pairs = zip(found.ids, found.names, strict=True)
        return [id_ for id_, name in pairs if id_ in texts or name in texts]

    def rows_of(self, query: str, variables: Sequence[str]) -> list[dict[str, Any]]:
        """Return all rows of a SELECT without prefixes, cached by :meth:`foresee_rows` or read."""
        if (rows := self._rows.get((query, *variables))) is not None:
            return rows
        return all_rows(self.client, _select_query(query, variables))

    def foresee_rows(self, queries: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Run several SELECTs, each with its variables, in one request, and cache their rows.

        A single one is not run; rows that did not arrive are not cached.
        """
        asked = dict.fromkeys((query, *variables) for query, variables in queries)
        if len(asked) > 1:
            found = together(self.client, [_select_query(one[0], one[1:]) for one in asked])
            self._rows |= {
                one: rows for one, rows in zip(asked, found, strict=True) if rows is not None
            }

    def keys_of_terms(self, terms: Iterable[dict[str, Any]]) -> list[int]:
        """Return the key of each term of result rows, and note that the endpoint has it."""
        ids = [self._id_of(term) for term in terms]
        keys = self._intern(ids)
        self._there.update(keys)
        return [keys[id_] for id_ in ids]

    # ── edges ───────────────────────────────────────────────────────────────────────────────

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``, from the cache or by one counted query for each batch.

        Predicates that the survey lacks, and nameless nodes that are not mediators, are left out.
        """
        ids = self._ids_of(keys_array(keys).tolist())
        edges: list[tuple[int, int, str]] = []
        for side, around in enumerate(self._around.edges(ids, direction)):
            if direction in ("both", ("out", "in")[side]):
                edges += [
                    (row, step + side, other)
                    for row, id_ in enumerate(ids)
                    for relation, other in around[id_]
                    if (step := self._step(relation)) >= 0
                ]
        numbers = self._intern([other for _, _, other in edges])
        self._there.update(numbers)
        named = self._name_keys({key: id_ for id_, key in numbers.items()})
        table = sorted(
            {
                (row, step, key, named[key][1])
                for row, step, other in edges
                if (key := numbers[other]) not in self._left_out
            }
        )
        columns = np.array(table, dtype=np.int64).reshape(-1, 4)
        return Adjacency(
            columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3].astype(np.uint8)
        )

    def _step(self, relation: str) -> int:
        """Return the directed relation 2 * key of a relation; -1, and note it, if not surveyed."""
        step = self._steps.get(relation, -1)
        if step < 0:
            self._unsurveyed.add(relation)
        return step

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return which triples the endpoint has; a triple is queried once and then cached."""
        triples = self._triples(heads, relations, tails)
        new = [one for one in dict.fromkeys(triples) if one and one not in self._verified]
        new += self._likely_triples(new)
        for start in range(0, len(new), BATCH):
            self._verify(new[start : start + BATCH])
        return np.array([one is not None and self._verified[one] for one in triples], np.bool_)

    def foresee_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> None:
        """Schedule triples to be verified together with the next ones, if there is room."""
        self._likely |= dict.fromkeys(filter(None, self._triples(heads, relations, tails)))

    def _triples(
        self, heads: IntArray, relations: IntArray, tails: IntArray
    ) -> list[Triple | None]:
        """Return the ids of triples, None where a key or a relation is unknown."""
        columns = [keys_array(column).tolist() for column in (heads, relations, tails)]
        known = self._keys.ids_of(list({*columns[0], *columns[2]}))
        names = self._relations.ids
        return [
            (known[head], names[relation], known[tail])
            if head in known and tail in known and 0 <= relation < len(names)
            else None
            for head, relation, tail in zip(*columns, strict=True)
        ]

    def _likely_triples(self, triples: Sequence[Triple]) -> list[Triple]:
        """Return triples to verify in the same request because a question may need them next.

        Scheduled triples come first, then cached edges around the ends of ``triples``, of their
        mediators and of their neighbours, as far as the request has room.
        """
        room = BATCH - len(triples)
        if not 0 < room < BATCH:
            return []
        ends = Counter(id_ for head, _, tail in triples for id_ in (head, tail))
        queue = dict.fromkeys(id_ for id_, _ in ends.most_common())
        asked, prefix = {*triples, *self._verified}, self.record.prefix
        found = dict.fromkeys(one for one in self._likely if one not in asked)
        self._likely.clear()
        near: dict[str, None] = {}
        met = {*queue}
        while (queue or near) and len(found) < room:
            nodes = queue or near
            id_ = next(iter(nodes))
            del nodes[id_]
            edges = [(id_, relation, other) for relation, other in self._around.out.get(id_, ())]
            edges += [(other, relation, id_) for relation, other in self._around.into.get(id_, ())]
            for one in edges:
                if one[1] not in self._steps or not is_term(one[0], prefix):
                    continue
                if one not in asked:
                    found[one] = None
                other = one[2] if one[0] == id_ else one[0]
                if other not in met:
                    met.add(other)
                    named = self._named.get(key_of(other))
                    is_mediator = named is not None and named[1] == Kind.MEDIATOR
                    (queue if is_mediator else near)[other] = None
        return list(found)[:room]

    def _verify(self, triples: Sequence[Triple]) -> None:
        """Query a batch of triples, in one request with scheduled reads; cache which exist.

        A triple with a literal as head never does.
        """
        sides: dict[str, list[str]] = {}
        for place, (head, relation, tail) in enumerate(triples):
            if head[:1] == '"':
                continue
            name, text = "has_edges", " ".join(map(self._term, (head, relation, tail)))
            if tag := re.search(r'(?<=")@[\w-]+$', tail):
                name, text = "has_tagged", f"{text.removesuffix(tag[0])} {literal(tag[0][1:])}"
            sides.setdefault(name, []).append(f"({place} {text})")
        self._verified |= dict.fromkeys(triples, False)
        if not sides:
            return
        united = " UNION ".join(
            f"{{ {query(name, triples=' '.join(some))} }}" for name, some in sides.items()
        )
        asked = f"SELECT DISTINCT ?i\nWHERE {{ {united} }}"
        (rows,) = self._around.read_expected(also=[asked])
        if rows is None:
            rows = all_rows(self.client, asked)
        self._verified |= {triples[number(row, "i")]: True for row in rows}

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges that touch each key, counted on the endpoint if uncached."""
        listed = keys_array(keys).tolist()
        ids = self._ids_of(listed)
        self._count_named(listed, ids)
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._degrees]
        out, into = self._around.out, self._around.into
        unread = [id_ for id_ in wanted if id_ not in out or id_ not in into]
        if len(unread) > FEW or not self._around.load(unread, "both", PAGE):
            self._degrees |= counted_degrees(self.client, self.record, unread)
        for id_ in wanted:
            if id_ not in self._degrees:
                edges = [*{*out[id_]}, *(edge for edge in {*into[id_]} if edge[1] != id_)]
                self._degrees[id_] = sum(self._step(relation) >= 0 for relation, _ in edges)
        return keys_array([self._degrees[id_] for id_ in ids])

    def _count_named(self, keys: Sequence[int], ids: Sequence[str]) -> None:
        """Cache the degrees that the survey counted, if the number of triples is unchanged."""
        if self._has_all_names and self._total <= COUNTED:
            named = self._file.by_keys("t.id, t.degree", "node", keys_array(keys))
            self._degrees |= {id_: degree for row, id_, degree in named if id_ == ids[row]}

    # ── the property graph ──────────────────────────────────────────────────────────────────

    def schema(self) -> GraphSchema:
        """Return the schema that the survey found."""
        return self._survey.schema

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity.

        For every entity of an endpoint too large to be counted, those whose names the survey kept.
        """
        if not type_ and self._survey.schema.sampled:
            return self.topic_keys(-1, 1 << 40)
        if type_ not in self._instances:
            self._keep_instances(type_, all_rows(self.client, self._instances_query(type_)))
        return self._instances[type_]

    def foresee_instances(self, types: Sequence[str]) -> None:
        """Read and cache the entities of several types in one request."""
        wanted = [type_ for type_ in dict.fromkeys(types) if type_ and type_ not in self._instances]
        if len(wanted) > 1:
            found = together(self.client, [self._instances_query(type_) for type_ in wanted])
            for type_, rows in zip(wanted, found, strict=True):
                if rows is not None:
                    self._keep_instances(type_, rows)

    def _instances_query(self, type_: str) -> str:
        """Return the query for the entities of a type, "" for all entities."""
        if type_:
            path = class_path(self.record)
            return query("instances", type=path, **{"class": self._term(type_)})
        ends = (*self.record.labels, *ALIASES, *self.record.classes)
        return query("entities", ends=", ".join(map(iri, ends)))

    def _keep_instances(self, type_: str, rows: Sequence[dict[str, Any]]) -> None:
        """Cache the entities of a type from the rows of its query."""
        keys = self._intern([self._id_of(row["s"]) for row in rows])
        self._instances[type_] = np.unique(keys_array(list(keys.values())))

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the literals of a predicate, by row, the values sorted.

        Texts that are not numbers in a numeric property are dropped.
        """
        found: dict[str, dict[Value, None]] = {}
        ids = self._ids_of(keys_array(keys).tolist())
        for id_, _, value in self._edges_along(ids, [name], "values"):
            found.setdefault(id_, {})[read_value(value)[0]] = None
        kind = self._numbers_as_text.get(name)
        held = {  # RDF knows no order of several
            id_: sorted(cast_values(list(values), kind), key=lambda one: (str(type(one)), one))
            for id_, values in found.items()
        }
        pairs = [(row, value) for row, id_ in enumerate(ids) for value in held.get(id_, ())]
        return keys_array([row for row, _ in pairs]), [value for _, value in pairs]

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the edges of ``relations`` whose head (``inverse``: tail) is in ``keys``."""
        ids = self._ids_of(keys_array(keys).tolist())
        names = self._relations.ids
        place = {names[relation]: relation for relation in relations}
        at: dict[str, list[int]] = {}
        for row, id_ in enumerate(ids):
            at.setdefault(id_, []).append(row)
        ends = list(self._edges_along(ids, list(place), "facts_in" if inverse else "facts_out"))
        numbers = self._intern([end for _, _, end in ends])
        edges = sorted(
            {
                (row, place[relation], numbers[other], -1)
                for id_, relation, other in ends
                for row in at[id_]
            }
        )
        table = np.array(edges, dtype=np.int64).reshape(-1, 4)
        return Facts(*(table[:, column] for column in range(4)))

    def _edges_along(
        self, ids: Sequence[str], names: Sequence[str], asked: str
    ) -> Iterator[tuple[str, str, str]]:
        """Yield (id, relation, other id) of the edges of ``ids`` by the relations ``names``.

        ``asked``: "facts_out", "facts_in" or "values" (literals only); of a few nodes all edges are
        read at once and cached.
        """
        distinct = [id_ for id_ in dict.fromkeys(ids) if id_[:1] != '"' or asked == "facts_in"]
        side: Direction = "in" if asked == "facts_in" else "out"
        if len(distinct) <= FEW and self._around.load(distinct, side, PAGE):
            wanted = set(names)
            known = self._around.into if side == "in" else self._around.out
            for id_ in distinct:
                edges = self._around.about[id_].literals if asked == "values" else known[id_]
                for relation, other in edges:
                    if relation in wanted and (other[:1] == '"') == (asked == "values"):
                        yield id_, relation, other
            return
        predicates = " ".join(map(self._term, names))
        more = {"wanted_language": wanted_language("?o", self.record.language)}
        for start in range(0, len(distinct), BATCH) if names else ():
            nodes = " ".join(map(self._term, distinct[start : start + BATCH]))
            text = query(
                asked, nodes=nodes, predicates=predicates, **(more if asked == "values" else {})
            )
            for row in all_rows(self.client, text):
                relation = row["p"]["value"].removeprefix(self.record.prefix)
                yield self._id_of(row["s"]), relation, self._id_of(row["o"])

    # ── look-ups ────────────────────────────────────────────────────────────────────────────

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of exact matches, sorted.

        Names that the survey lacks are queried.
        """
        positions, keys = self._file.find_names(names)
        pairs = set(zip(positions.tolist(), keys.tolist(), strict=True))
        missing = set(range(len(names))) - {position for position, _ in pairs}
        if missing and not self._has_all_names:
            pairs |= self._find_on_endpoint({place: names[place] for place in missing})
        ordered = sorted(pairs)
        return keys_array([pair[0] for pair in ordered]), keys_array([pair[1] for pair in ordered])

    def _find_on_endpoint(self, names: dict[int, str]) -> set[tuple[int, int]]:
        """Query the endpoint for nodes with some names (by position); return (position, key)."""
        at: dict[str, list[int]] = {}
        for place, name in names.items():
            if form := name_form(name):
                at.setdefault(form, []).append(place)
        found: set[tuple[int, int]] = set()
        for text in self._name_queries(at, names):
            for page in pages(self.client, text):
                for row in page:
                    if forms := at.get(name_form(row["l"]["value"])):
                        id_ = self._id_of(row["s"])
                        found |= {(place, self._intern([id_])[id_]) for place in forms}
        return found

    def _name_queries(self, at: dict[str, list[int]], names: dict[int, str]) -> Iterator[str]:
        """Yield queries for nodes with some names: by full text if the server has it, else exact.

        ``at``: the positions of each normalised name; ``names``: the names by position.
        """
        if self._survey.text_indexes:
            for form in at:
                if words := words_query(form):
                    yield by_words(self.record, words, len(form) + _MARKS)
            return
        texts = sorted({change(names[p[0]]) for p in at.values() for change in _VARIANTS})
        tags = ["", self.record.language]
        for start in range(0, len(texts), BATCH):
            yield query(
                "by_name",
                texts=" ".join(literal(t, g) for t in texts[start : start + BATCH] for g in tags),
                names=" ".join(map(iri, (*self.record.labels, *ALIASES))),
            )

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return up to ``limit`` keys of entities with surveyed names like ``text``, best first."""
        return self._file.suggest(text, limit, prefix=prefix)

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of surveyed entities that have an edge."""
        return self._file.topic_keys(after, min(limit, 1 << 40))

    def close(self) -> None:
        """Close the client and the files. Closing twice does nothing."""
        if self._names is not None:
            self._names.close()
            self._names = None
        self._keys.close()
        self.client.close()


def _select_query(query: str, variables: Sequence[str]) -> str:
    """Wrap a query to select some of its variables."""
    return f"SELECT {' '.join(variables)}\nWHERE {{ {{ {query} }} }}"


def _value_name(id_: str) -> _Named:
    """Return (name, kind, other names) of a value's id."""
    match = re.fullmatch(r'"(.*)"(?:@[\w-]+|\^\^(?:xsd:(\w+)|<(.*)>))?', id_, re.DOTALL)
    if match is None:
        return id_, Kind.VALUE, []
    text, short, datatype = match.groups()
    return value_name(text, XSD + short if short else datatype), Kind.VALUE, []


def _version(total: int, record: Attachment) -> str:
    """Return the version of an endpoint's KG: a digest of its triple count and its record."""
    return hashlib.sha256(repr((total, record.url, settings_of(record))).encode()).hexdigest()
