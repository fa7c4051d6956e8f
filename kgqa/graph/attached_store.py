"""A Neo4j database as it is, read-only and live: a ``GraphStore`` over its present content.

Edges, names and properties come from the server (:mod:`kgqa.graph.attached_reader`); only look-ups
by name use the survey, and what they find is read again.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from kgqa import cypher
from kgqa.closing import Closing
from kgqa.cypher.attached import attached
from kgqa.errors import GraphError, KgqaError
from kgqa.files import stamp_of
from kgqa.graph.attached import (
    FILE_NAME,
    RECORD_NAME,
    Attachment,
    Called,
    Naming,
    Survey,
    SurveyFile,
    read_attachment,
)
from kgqa.graph.attached_find import NameFinder
from kgqa.graph.attached_reader import (
    FACTS,
    KEPT,
    VALUES,
    AttachedReader,
    NodeReader,
    kind_of,
    values_of,
    walked,
)
from kgqa.graph.attached_survey import settings_of, spoken_names, survey_database, version_of
from kgqa.graph.literals import cast_values
from kgqa.graph.model import Adjacency, EntityDetails, Kind, keys_array
from kgqa.graph.neo4j_store import CHUNK, list_literal
from kgqa.graph.schema import Facts, GraphSchema, Property, Value
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import BoolArray, Direction, IntArray
    from kgqa.graph.neo4j import Neo4jConnection

_SHORT = 0.5  # seconds that a survey may take for each question to wait for a new one
_LONG = 5.0  # the same for one now and then
_PAUSE = 10.0  # times its duration that are between two of those


class AttachedStore(Closing, AttachedReader):
    """An attached KG, for one thread. Raises StoreUnavailableError, GraphError."""

    def __init__(self, connection: Neo4jConnection, folder: Path) -> None:
        super().__init__(connection, folder)
        self._names: SurveyFile | None = None
        self._record_stamp: object = None
        self._remarks: list[str] = []
        self._read_record()
        self.refresh()
        connection.acquire()
        self._closed = False

    # ── states ──────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Read the database's present state; drop caches of an earlier state."""
        self._read_record()
        state = self._current_state()
        stamp = stamp_of(self.folder / FILE_NAME)
        fresh = self._names is not None and self._names.stamp == stamp
        if fresh and state == self._state and not self.moved:
            self.forget_values()
            return
        if not fresh or self._names is None:
            self._open_survey()
        if self._names is not None and self._names.survey.settings != settings_of(self.record):
            self._try_survey()  # the record was edited
        self._take_state(state)

    def _read_record(self) -> None:
        """Read the attachment record again if its file changed. Raises GraphError if moved."""
        stamp = stamp_of(self.folder / RECORD_NAME)
        if stamp == self._record_stamp and stamp is not None:
            return
        record: Attachment = read_attachment(self.folder)
        if record.url != self.connection.url:
            raise GraphError(
                f"{self.folder.name} is attached to {record.url} now, and not to "
                f"{self.connection.url}.",
                "Run the command again.",
            )
        self.record, self._record_stamp, self._state = record, stamp, ""

    def _open_survey(self) -> None:
        """Open the survey file; survey the database if the file cannot be used."""
        if self._names is not None:
            self._names.close()
            self._names = None
        try:
            self._names = SurveyFile(self.folder)
        except KgqaError:  # lost or of another version: the database has all that is in it
            survey_database(self.connection, self.record, self.folder, Silent())
            self._names = SurveyFile(self.folder)

    def _take_state(self, state: str) -> None:
        """Adopt a state of the database: survey again if due, and reset caches and relations."""
        assert self._names is not None
        survey = self._names.survey
        self._remarks = []
        if survey.state != state and is_due(survey, time.time()) and self._try_survey():
            survey = self._names.survey
        tokens, self._state = self.connection.read_marked(attached("tokens"), {})
        prefixes, _ = self.connection.read_marked(attached("prefixes"), {})
        self.moved = False
        self.survey: Survey = survey
        self.nodes = NodeReader(self.connection, self.record, survey, self._state)
        self._note_new_names(tokens[0])
        new = {*tokens[0]["types"], *tokens[0]["properties"]} if survey.state != self._state else ()
        names = [*survey.relations, *sorted(set(new).difference(survey.relations))]
        before = [(prefixes[0][name] or "").rpartition(":")[0] for name in ("node", "relationship")]
        self.start(names, spoken_names(names), before)
        self.finder = NameFinder(self._names, self)
        counts = {"entities": tokens[0]["nodes"], "edges": tokens[0]["relationships"]}
        if self.record.only or self.record.skip:
            counts = {}
        self.info = replace(
            survey.info,
            name=self.folder.name,
            version=version_of(self._state, self.record),
            direction=self.record.direction,
            relations=len(names),
            given_relations=len(names),
            given_keys=max(survey.info.given_keys, survey.info.entities),
            **counts,
        )

    def _try_survey(self) -> bool:
        """Survey the database again; return whether that succeeded."""
        try:
            with FileLock(self.folder / ".attach.lock", timeout=0):
                survey_database(self.connection, self.record, self.folder, Silent())
        except (KgqaError, sqlite3.Error, OSError) as error:  # a timeout, too: another is at it
            logging.getLogger(__name__).debug("survey: %s", error)
            return False
        self._open_survey()
        return True

    def _note_new_names(self, tokens: Any) -> None:
        """Add remarks on labels and types new since the survey; ``tokens``: the present names."""
        survey = self.survey
        if survey.state == self._state:
            return
        self._remarks.append(
            f"The database has changed since the survey of its names {_ago(survey.read)}: new "
            "names are found as they are written; `kgqa attach` brings the survey up to date."
        )
        known = {type_.name for type_ in survey.schema.types} | set(self.record.skip)
        types = {each.relationship_type for each in survey.schema.relations}
        types |= set(self.record.skip)
        for what, new in (
            ("label", sorted(set(tokens["labels"]) - known)),
            ("relationship type", sorted(set(tokens["types"]) - types)),
        ):
            if new and not self.record.only and len(new) < 20:
                self._remarks.append(f"New in the database, {what}: {', '.join(new)}.")

    def remarks(self) -> list[str]:
        """Return the notes that an answer from this state should carry."""
        return list(self._remarks)

    @property
    def schema_version(self) -> str:
        """A digest of labels, properties and relations, and of their keys."""
        held = [
            (type_.name, *(each.name for each in type_.properties))
            for type_ in self.survey.schema.types
        ]
        content = repr((sorted(held), self._relations.ids, self._record_stamp))
        return hashlib.sha256(content.encode()).hexdigest()

    # ── nodes ───────────────────────────────────────────────────────────────────────────────

    def keys_of(self, ids: Sequence[str]) -> IntArray:
        """Return the key of each id, -1 if there is none."""
        keys = self.finder.keys_of(ids)
        return keys_array([keys.get(id_, -1) for id_ in ids])

    def details(self, key: int) -> EntityDetails:
        """Return the labels and properties of an entity. Raises EntityNotFoundError."""
        key = int(key)
        if key >= FACTS:
            entity = self.entities(keys_array([key]))
            held = self.facts_of([key])[key][3] if key < VALUES else {}
            return EntityDetails(
                entity.ids[0], entity.names[0], kind_of(key), [], [], self.shown(held)
            )
        self._name_nodes([key])
        node = self.node(key)
        rows = self.ask("details", ids=self.refs([key]))
        if not rows:
            raise self._unknown_key(key)
        held = self.taken_properties(rows[0]["labels"], rows[0]["properties"])
        types = [label for label in node.types if label not in self.taken["hidden"]]
        return EntityDetails(
            node.id, node.name, node.kind, list(node.others), types, self.shown(held)
        )

    # ── edges ───────────────────────────────────────────────────────────────────────────────

    def neighbours(self, keys: IntArray, direction: Direction) -> Adjacency:
        """Return the edges of ``keys``; a deleted node has none."""
        keys = keys_array(keys)
        columns: list[tuple[int, int, int, int]] = []
        listed = keys.tolist()
        nodes = [row for row, key in enumerate(listed) if key < FACTS]
        for start in range(0, len(nodes), CHUNK):
            rows = nodes[start : start + CHUNK]
            for name, side in (("out", 0), ("in", 1)):
                if direction in ("both", name):
                    columns += self._edges_of_nodes(rows, [listed[row] for row in rows], name, side)
        facts = self.facts_of([key for key in listed if FACTS <= key < VALUES])
        for row, key in enumerate(listed):
            if key in facts:
                columns += self._edges_of_fact(row, facts[key], direction)
            elif key >= VALUES and direction != "out":
                columns += self.finder.having(row, self._value(key)[0])
        table = np.array(sorted(columns), dtype=np.int64).reshape(-1, 4)
        table = table[np.append(True, (np.diff(table, axis=0) != 0).any(axis=1))[: len(table)]]
        return Adjacency(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.uint8))

    def _edges_of_nodes(
        self, rows: Sequence[int], keys: Sequence[int], name: str, side: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield (row, directed relation, neighbour, its kind) of the edges of ``keys``.

        ``name`` and ``side``: "out" and 0 for edges from the keys as heads, "in" and 1 as tails.
        """
        if len(self._facts) > KEPT:
            self._facts.clear()
        answer = self.ask(
            f"neighbours_{name}",
            ids=self.refs(keys),
            reified=sorted(self._reified),
            kinds=self.kinds,
            walking=side == 0,
            unwalked=self.unwalked,
            mediator=self.nodes.mediator,
            value=self.record.values,
            **self.taken,
            **self.taken_types,
        )
        for record in answer:
            row, key = rows[record["row"]], keys[record["row"]]
            if side == 0:
                held = self.walked_properties(record["labels"], dict(record["properties"]))
                for property_, value in held:
                    step = self.step(property_)
                    yield from (
                        (row, step, self.intern(*member), Kind.VALUE) for member in walked(value)
                    )
            for type_, said, number, other, kind, held in record["edges"]:
                relation = self.relation_of(type_, said)
                step = self.step(relation) + side
                if type_ in self._reified:
                    fact = FACTS + number
                    ends = (key, other) if side == 0 else (other, key)
                    qualifiers = self.qualifiers(relation, held or {})
                    self._facts[fact] = (ends[0], relation, ends[1], qualifiers)
                    yield row, step, fact, Kind.MEDIATOR
                else:
                    yield row, step, other, (Kind.ENTITY, Kind.MEDIATOR, Kind.VALUE)[kind]

    def _edges_of_fact(
        self, row: int, fact: tuple[int, str, int, dict[str, Any]], direction: Direction
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield (row, directed relation, neighbour, its kind) of the edges of a fact's mediator."""
        head, type_, tail, held = fact
        step = self.step(type_)
        if direction != "in":
            yield row, step, tail, Kind.ENTITY
            for name, value in self.walked_qualifiers(type_, held):
                yield from (
                    (row, self.step(name), self.intern(*member), Kind.VALUE)
                    for member in walked(value)
                )
        if direction != "out":
            yield row, step + 1, head, Kind.ENTITY

    def has_edges(self, heads: IntArray, relations: IntArray, tails: IntArray) -> BoolArray:
        """Return whether each triple is in the database now, by looking it up there."""
        columns = [keys_array(column).tolist() for column in (heads, relations, tails)]
        there = np.zeros(len(columns[0]), dtype=np.bool_)
        names = self._relations.ids
        plain: list[tuple[int, int, str, int]] = []
        held: list[tuple[int, int, str, int]] = []
        facts: list[tuple[int, int, str, int]] = []
        for place, (head, relation, tail) in enumerate(zip(*columns, strict=True)):
            if not 0 <= relation < len(names) or min(head, tail) < 0 or head >= VALUES:
                continue
            asked = place, head, names[relation], tail
            if max(head, tail) < FACTS:
                if not self.is_reified(names[relation]):
                    plain.append(asked)
            elif head >= FACTS or tail < VALUES:
                facts.append(asked)
            else:
                held.append(asked)
        for start in range(0, len(plain), CHUNK):
            some = plain[start : start + CHUNK]
            stored = [self.stored(item[2]) for item in some]
            (answer,) = self.ask(
                "has_edges",
                heads=self.refs([item[1] for item in some]),
                tails=self.refs([item[3] for item in some]),
                wanted=[each[0] for each in stored],
                properties=[each[1] for each in stored],
                kinds=[each[2] for each in stored],
                known=[each[3] for each in stored],
                **self.taken,
            )
            taken = [some[row] for row in answer["rows"] if self._is_taken(stored[row][0])]
            there[[item[0] for item in taken]] = True
        self._check_facts(facts, there)
        self._check_values(held, there)
        return there

    def _is_taken(self, type_: str) -> bool:
        """Return whether a relationship type is included in this KG."""
        types, untaken = self.taken_types.values()
        return (not types or type_ in types) and type_ not in untaken

    def _check_facts(self, asked: Sequence[tuple[int, int, str, int]], there: BoolArray) -> None:
        """Set ``there[place]`` for triples with a fact's mediator: place, head, relation, tail."""
        wanted = [key for _, head, _, tail in asked for key in (head, tail) if key >= FACTS]
        facts = self.facts_of([key for key in wanted if key < VALUES], again=True)
        for place, head, relation, tail in asked:
            if head >= FACTS:
                if (fact := facts.get(head)) is not None:
                    ends = {fact[2]} if fact[1] == relation else set()
                    if tail >= VALUES:
                        values = dict(self.walked_qualifiers(fact[1], fact[3])).get(relation)
                        ends = {self.intern(*member) for member in walked(values)}
                    there[place] = tail in ends
            else:
                fact = facts.get(tail)
                there[place] = fact is not None and fact[:2] == (head, relation)

    def _check_values(self, asked: Sequence[tuple[int, int, str, int]], there: BoolArray) -> None:
        """Set ``there[place]`` for triples that end at a value: place, head, relation, tail."""
        heads = list(dict.fromkeys(item[1] for item in asked))
        names = sorted({item[2] for item in asked})
        numbers: dict[tuple[int, str], set[int]] = {}
        for start in range(0, len(heads), CHUNK):
            some = heads[start : start + CHUNK]
            for row in self.ask("values", ids=self.refs(some), names=names, **self.taken):
                held = dict(zip(names, row["values"], strict=True))
                for name, value in self.walked_properties(row["labels"], held):
                    numbers[some[row["row"]], name] = {
                        self.intern(*member) for member in walked(value)
                    }
        for place, head, name, tail in asked:
            there[place] = tail in numbers.get((head, name), ())

    def degrees(self, keys: IntArray) -> IntArray:
        """Return the number of edges of each key; a fact node counts as 2 and a value as 1."""
        listed = keys_array(keys).tolist()
        degrees = np.asarray([0 if key < FACTS else 2 if key < VALUES else 1 for key in listed])
        nodes = [row for row, key in enumerate(listed) if key < FACTS]
        for start in range(0, len(nodes), CHUNK):
            rows = np.asarray(nodes[start : start + CHUNK])
            (answer,) = self.ask(
                "degrees",
                ids=self.refs([listed[row] for row in rows]),
                unwalked=self.unwalked,
                **self.taken,
            )
            degrees[rows[keys_array(answer["rows"])]] = answer["degrees"]
        return keys_array(degrees)

    # ── the property graph ──────────────────────────────────────────────────────────────────

    def schema(self) -> GraphSchema:
        """Return the surveyed schema with the record's other names and descriptions."""
        graph_schema, record = self.survey.schema, self.record

        def called(properties: Iterable[Property], naming: Naming | Called | None) -> Any:
            """Return properties with their other names and descriptions of the record."""
            words = naming.properties if naming is not None else {}
            return tuple(
                replace(each, also=words[each.name].also, description=words[each.name].description)
                if each.name in words
                else each
                for each in properties
            )

        types = []
        for type_ in graph_schema.types:
            naming = record.types.get(type_.name)
            given: Any = {"also": naming.also, "description": naming.description} if naming else {}
            types.append(replace(type_, properties=called(type_.properties, naming), **given))
        relations = []
        for pattern in graph_schema.relations:
            words = record.relations.get(pattern.relation)
            given = {"also": words.also, "description": words.description} if words else {}
            relations.append(
                replace(pattern, properties=called(pattern.properties, words), **given)
            )
        return GraphSchema(tuple(types), tuple(relations), graph_schema.sampled)

    def instances(self, type_: str) -> IntArray:
        """Return the keys of the entities of a type, ascending; "" is every entity."""
        if type_:
            types = [row["key"] for row in self.ask("instances", type_, **self.taken)]
        else:
            rows = self.ask("nodes", names=[], limit=(1 << 62), **self.taken)
            types = [key for row in rows for key in row["keys"]]
        return np.unique(keys_array(types))

    def property_values(self, keys: IntArray, name: str) -> tuple[IntArray, list[Value]]:
        """Return (row, value) of the property ``name`` of entities or fact nodes, by row.

        Nulls, excluded properties, and texts that are not numbers in a numeric property are
        skipped.
        """
        listed = keys_array(keys).tolist()
        nodes = list(dict.fromkeys(key for key in listed if key < FACTS))
        held: dict[int, list[Value]] = {}
        for start in range(0, len(nodes), CHUNK):
            some = nodes[start : start + CHUNK]
            for each in self.ask("values", ids=self.refs(some), names=[name], **self.taken):
                properties = self.taken_properties(each["labels"], {name: each["values"][0]})
                read = self.number_forms(each["labels"]).get(name)
                held[some[each["row"]]] = cast_values(values_of(properties.get(name)), read)
        for key, (_, type_, _, properties) in self.facts_of(
            [key for key in listed if FACTS <= key < VALUES]
        ).items():
            if not self.record.hides(self.stored(type_)[0], name):
                read = self.number_forms([type_]).get(name)
                held[key] = cast_values(values_of(properties.get(name)), read)
        rows: list[int] = []
        values: list[Value] = []
        for row, key in enumerate(listed):
            for value in held.get(key, ()):
                rows.append(row)
                values.append(value)
        return keys_array(rows), values

    def facts(self, keys: IntArray, relations: Sequence[int], *, inverse: bool) -> Facts:
        """Return the facts of ``relations`` whose head (``inverse``: tail) is in ``keys``."""
        listed = keys_array(keys).tolist()
        names = self.relations().ids
        place = {names[relation]: relation for relation in relations}
        distinct = list(dict.fromkeys(key for key in listed if key < FACTS))
        at: dict[int, list[int]] = {}
        for row, key in enumerate(listed):
            at.setdefault(key, []).append(row)
        edges: list[tuple[int, int, int, int]] = []
        for start in range(0, len(distinct), CHUNK):
            some = distinct[start : start + CHUNK]
            rows = self.ask(
                "neighbours_in" if inverse else "neighbours_out",
                ids=self.refs(some),
                reified=[],
                kinds=self.kinds,
                walking=False,
                unwalked=[],
                mediator=self.nodes.mediator,
                value=self.record.values,
                **self.taken,
                types=sorted({self.stored(name)[0] for name in place}),
                untaken=self.taken_types["untaken"],
            )
            for near in rows:
                for type_, said, number, other, _, _ in near["edges"]:
                    relation = place.get(self.relation_of(type_, said))
                    if relation is None:  # another of the same type
                        continue
                    fact = FACTS + number if type_ in self._reified else -1
                    edges += [(each, relation, other, fact) for each in at[some[near["row"]]]]
        table = np.array(sorted(edges), dtype=np.int64).reshape(-1, 4)
        return Facts(*(table[:, column] for column in range(4)))

    # ── look-ups ────────────────────────────────────────────────────────────────────────────

    def find_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return (position in ``names``, key) of exact matches, sorted; new names are queried."""
        pairs = self.finder.find(names)
        return keys_array([pair[0] for pair in pairs]), keys_array([pair[1] for pair in pairs])

    def suggest(self, text: str, limit: int = 5, *, prefix: bool = False) -> IntArray:
        """Return up to ``limit`` keys of entities with names like ``text``, of the survey first."""
        return keys_array(self.finder.suggest(text, limit, prefix=prefix))

    def topic_keys(self, after: int = -1, limit: int = 10_000) -> IntArray:
        """Return up to ``limit`` keys above ``after`` of surveyed entities that have an edge."""
        return keys_array(self.finder.topic_keys(after, limit))

    def drawing(self, edges: Sequence[tuple[str, str, str]]) -> str:
        """Return Cypher that draws edges, given as (head id, relation, tail id); to nodes only.

        Raises EntityNotFoundError.
        """
        ids = sorted({id_ for edge in edges for id_ in (edge[0], edge[2])})
        keys = dict(zip(ids, self.keys_of(ids).tolist(), strict=True))
        facts = self.facts_of([key for key in keys.values() if FACTS <= key < VALUES])
        drawn: dict[tuple[int, str, int], None] = {}
        for head, relation, tail in edges:
            fact = facts.get(keys[head]) or facts.get(keys[tail])
            if fact is not None:
                drawn[fact[:3]] = None
            elif min(keys[head], keys[tail]) >= 0 and max(keys[head], keys[tail]) < FACTS:
                drawn[keys[head], relation, keys[tail]] = None
        rows = [
            [
                cypher.literal(part)
                for part in (*self.refs([head]), type_, *self.refs([tail]), property_, said)
            ]
            for head, relation, tail in drawn
            for type_, property_, said, _ in (self.stored(relation),)
        ]
        return attached("draw_edges").replace("$edges", list_literal(rows), 1)

    def close(self) -> None:
        """Close the survey file and release the connection. Closing twice does nothing."""
        if self._names is not None:
            self._names.close()
            self._names = None
        if not self._closed:
            self._closed = True
            self.connection.release()


def is_due(survey: Survey, now: float) -> bool:
    """Return whether a survey older than the database's state is to be repeated.

    Not if it took long, or is recent for the time it took. ``now``: Unix time. A survey dated in
    the future precedes a clock change: it is due.
    """
    pause = 0.0 if survey.seconds <= _SHORT else _PAUSE * survey.seconds
    return survey.seconds <= _LONG and not 0 <= now - survey.read < pause


def _ago(moment: float) -> str:
    """Format the time since ``moment`` (Unix time) as "5 minutes ago"."""
    seconds = max(time.time() - moment, 0)
    if seconds < 90:
        return f"{seconds:.0f} seconds ago"
    return (
        f"{seconds / 60:.0f} minutes ago" if seconds < 5400 else f"{seconds / 3600:.0f} hours ago"
    )
