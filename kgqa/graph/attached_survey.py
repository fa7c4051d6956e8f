"""Surveys of a Neo4j database as it is: schema, counts, names. Read-only, and bounded.

Counts come from Neo4j's own; properties from a sample of each label and type, which is all of it in
a small database; names up to a bound. No privilege but reading is needed, and no APOC.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from kgqa.cypher.attached import attached
from kgqa.errors import GraphError
from kgqa.graph.amounts import READ, NumberForm, NumberTexts
from kgqa.graph.attached import Attachment, Called, Naming, Survey, TextIndex, new_survey, source_of
from kgqa.graph.attached_reader import NULLS, NodeReader, selection_of, values_of
from kgqa.graph.literals import cast_values, common_type, is_walked, value_type
from kgqa.graph.model import KGInfo
from kgqa.graph.moments import needs_reading
from kgqa.graph.names import KEY_WORDS
from kgqa.graph.neo4j_native import plain
from kgqa.graph.schema import EntityType, GraphSchema, Property, RelationPattern, ValueType
from kgqa.lexicon.english import bearer_of_name, parts_of_name, says_relation
from kgqa.lexicon.joined import split_joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kgqa.graph.neo4j import Neo4jConnection
    from kgqa.progress import Progress, Task

    Pair = tuple[str, str]  # labels of head and tail
    Triple = tuple[str, str, str]  # a relation and the labels of its head and tail

_EXAMPLES = 3
_NAMES = {"name": 100, "title": 90, "full name": 85, "display name": 85, "pref label": 80,
          "label": 80, "caption": 75, "heading": 75, "subject": 70, "username": 60,
          "screen name": 60, "login": 60, "symbol": 55}  # fmt: skip
_TEXTS = frozenset(
    ("description", "summary", "comment", "comments", "note", "notes", "remark", "remarks",
     "definition", "text", "content", "abstract", "details", "fact")
)  # fmt: skip
_ALIASES = frozenset(
    ("alias", "aliases", "aka", "also known as", "synonym", "synonyms", "nickname", "nicknames",
     "full name", "display name", "short name", "other name", "other names", "alternative name",
     "alternative names", "alt name", "alt names", "alt label", "alt labels")
)  # fmt: skip
_IDS = frozenset({"id", "isbn", "uid", "uuid", "guid", "key", "code", "iri", "uri", "number", "no"})
_PREFIX = re.compile(r"^[a-z][a-z0-9]*__(?=\w)")  # of a namespace, as neosemantics writes it
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|\W")
_MOST = 100  # characters that a name has on average, at most
_NAMED_BY_END = 50.0  # rank of "vendorName", "jobTitle": a first and a last name say more
_SAID = 0.95  # part of a type's relationships that must say their relation
_MOST_SAID = 500  # relations that a property may say
_WORDED = 0.9  # part of an id's values that must be words, to be names too
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[-'’.][^\W\d_]+)*(?: [^\W_]+(?:[-'’.][^\W\d_]+)*)*")
_SINGLE = 0.2  # share of names with a blank, below which they are first names beside a surname
_LETTERS = 0.5  # part of an unnamed property's characters that must be letters, to be a name


@dataclass(slots=True)
class Column:
    """Statistics of one property in a sample of nodes or relationships."""

    name: str
    rows: int = 0
    long: int = 0
    many: int = 0
    nulls: int = 0  # texts that stand for no value
    characters: int = 0
    letters: int = 0
    worded: int = 0  # texts that are words, as codes and numbers are not
    types: Counter[ValueType] = field(default_factory=Counter)  # as they are kept
    read: Counter[ValueType] = field(default_factory=Counter)  # of texts, as what they say
    distinct: Counter[Any] = field(default_factory=Counter)
    texts: NumberTexts = field(default_factory=NumberTexts)
    instants: bool = False

    def add(self, value: Any) -> None:
        """Add a value, or a list's members, to the statistics; nulls and long texts only count."""
        value_plain = plain(value)
        self.rows += 1
        self.many += isinstance(value_plain, list)
        self.long += (
            value_plain is not None and bool(values_of(value)) and not is_walked(value_plain)
        )
        self.nulls += isinstance(value, str) and value in NULLS
        parts = value if isinstance(value, list) else [value]
        is_text = any(isinstance(part, str) for part in parts)
        for member in values_of(value) if is_walked(value_plain) else ():
            self.types["text" if is_text else value_type(member)] += 1
            self.distinct[member] += 1
            if is_text and isinstance(member, str):
                self.read[value_type(member)] += 1
                self.texts.add(member)
            if isinstance(member, str):
                self.instants |= needs_reading(member)
                self.characters += len(member)
                self.letters += sum(map(str.isalpha, member))
                self.worded += _WORDS.fullmatch(member) is not None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the property's name, lowercase."""
        return words_of(self.name)

    @property
    def unique(self) -> bool:
        """Whether all sampled values differ."""
        return bool(self.distinct) and self.distinct.total() == len(self.distinct) == self.rows

    @property
    def spaced(self) -> float:
        """The fraction of distinct values that contain a space."""
        return sum(" " in str(value).strip() for value in self.distinct) / max(
            len(self.distinct), 1
        )

    @property
    def average(self) -> float:
        """The average length of a value in characters."""
        return self.characters / max(self.distinct.total(), 1)

    def as_property(self, count: int, walked: bool, *, is_name: bool) -> Property:
        """Return the schema's entry of this property, which ``count`` nodes have.

        ``walked``: whether it may be edges; ``is_name``: it is an id or name, so its texts stay
        texts.
        """
        type_ = common_type(list(self.types)) if self.types else "text"
        texts, said = self.types["text"], Counter(self.read)
        unread = said.pop("text", 0)
        others = set(self.types) - {"text"}
        form: NumberForm | None = None
        read: ValueType = "text"
        if texts and not is_name and not others - {"integer", "float"}:
            form = self.texts.form(self.name, others)
        if form is not None:
            read, unread = form.type, self.texts.unread(form)
        elif said and not is_name and unread <= (1 - READ) * texts:
            read = common_type([*said, *others])
        as_text = read != "text"
        # what is usual, not what comes first
        examples = [value for value, _ in self.distinct.most_common(_EXAMPLES)]
        mostly_short = self.long <= 0.1 * self.rows
        return Property(
            self.name,
            read if as_text else type_,
            self.many > 0.5 * self.rows,
            count,
            tuple(cast_values(examples, form)),
            walked and mostly_short,
            as_text=as_text,
            unread=unread if as_text else 0,
            nulls=self.nulls + (self.texts.missing if form else 0),
            instants=self.instants,
            form=form,
            unordered=not as_text and type_ == "text" and not is_name and self.texts.unordered,
        )


def words_of(name: str) -> tuple[str, ...]:
    """Split a name in camel case or with underscores into lowercase words.

    >>> words_of("companyName"), words_of("ACTED_IN"), words_of("rdfs__label")
    (('company', 'name'), ('acted', 'in'), ('label',))
    """
    parts = [part.lower() for part in _CAMEL.split(_PREFIX.sub("", name)) if part]
    return tuple(word for part in parts for word in split_joined(part))


def spoken_names(names: Sequence[str]) -> list[str]:
    """Return relation names in words; names that would coincide stay as they are.

    >>> spoken_names(["ACTED_IN", "companyName", "company_name"])
    ['acted in', 'companyName', 'company_name']
    """
    spoken = [" ".join(words_of(name)) or name for name in names]
    times = Counter(spoken)
    return [form if times[form] == 1 else name for form, name in zip(spoken, names, strict=True)]


def columns_of(rows: Iterable[dict[str, Any]]) -> dict[str, Column]:
    """Collect the statistics of each property in sampled rows, by property name."""
    columns: dict[str, Column] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, Column(name)).add(value)
    return columns


def chosen_naming(
    label: str,
    columns: dict[str, Column],
    rows: int,
    constraints: set[str],
    is_unique: Callable[[str], bool],
) -> Naming:
    """Choose which properties are the id and the names of a label's nodes; either may be empty.

    ``rows``: the number of sampled nodes. ``constraints``: properties that the database keeps
    unique; ``is_unique``: counts in the database whether all values of a property differ.
    """
    own = words_of(label)
    ids = [
        (_id_rank(columns[name].words, own), name)
        for name in columns
        if name in constraints or _id_rank(columns[name].words, own) < 9
    ]
    id_ = ""
    for _, name in sorted(ids, key=lambda ranked_id: (ranked_id[1] not in constraints, *ranked_id)):
        column = columns[name]
        scalar = column.types.keys() <= {"text", "integer"} and not column.many
        covers = column.rows == rows and column.unique
        if scalar and covers and (name in constraints or is_unique(name)):
            id_ = name
            break
    ranked = sorted(
        (-rank, columns[name].average, name)
        for name in columns
        if (rank := _name_rank(columns[name], own, columns, rows, name in constraints)) > 0
    )
    parts = _first_and_last_name(columns, rows)
    bearer = bearer_of_name(columns[parts[1]].words, "last_name") if parts else []
    full = (
        ranked
        and (-ranked[0][0] > _NAMED_BY_END or not {*bearer} <= {*own})
        and columns[ranked[0][2]].words[-1:] == ("name",)
        and ranked[0][2] not in parts
    )
    if parts and not full:  # a title beside them is the person's, as a job title is
        return Naming((), id_, parts=parts)
    if not ranked and id_ and columns[id_].worded >= _WORDED * rows:
        return Naming((id_,), id_)
    names = [name for _, _, name in ranked[:1]]
    if not names and not id_:
        names = _unique_text_property(columns, own, rows, is_unique)
    names += sorted(
        name
        for name, column in columns.items()
        if names and name not in names and " ".join(column.words) in _ALIASES
    )
    return Naming(tuple(names), id_)


def _first_and_last_name(columns: dict[str, Column], rows: int) -> tuple[str, ...]:
    """Return the properties that hold first and last names, () unless both exist.

    ``rows``: the number of sampled nodes, of which half must have them.
    """
    texts = [
        column
        for _, column in sorted(columns.items())
        if column.types.keys() == {"text"} and column.rows >= rows / 2
    ]
    places = parts_of_name([c.words for c in texts], lambda at: texts[at].spaced < _SINGLE)
    return tuple(texts[at].name for at in places or ())


def _unique_text_property(
    columns: dict[str, Column], own: tuple[str, ...], rows: int, is_unique: Callable[[str], bool]
) -> list[str]:
    """Return a short unique text property for nodes without id or name, in a list of 0 or 1.

    An ``email_address`` names an ``Email``, a unique ``description`` an ``Object``: a property
    named after the label, whose words are ``own``, is preferred.
    """
    texts = [
        column
        for column in columns.values()
        if column.types.keys() == {"text"}
        and not column.many
        and column.unique
        and column.rows == rows
        and column.average <= _MOST
    ]
    texts.sort(
        key=lambda c: (
            not {*own} & {*c.words},
            bool(_TEXTS.intersection(c.words[-1:])),
            c.average,
            c.name,
        )
    )
    return [c.name for c in texts if is_unique(c.name)][:1]


def _id_rank(words: tuple[str, ...], own: tuple[str, ...]) -> int:
    """Rank a property's words as an id: 0 best (the label's words ``own``, "id"), 9 not an id."""
    if words == (*own, "id"):
        return 0
    if len(words) == 1 and words[0] in _IDS:
        return 1
    return 2 if words and words[-1] in _IDS else 9  # a name may have no word


def _name_rank(
    column: Column, own: tuple[str, ...], columns: dict[str, Column], rows: int, constraint: bool
) -> float:
    """Score how well a property names a label's nodes; 0 if it does not.

    ``own``: the label's words; ``rows``: the number of sampled nodes; ``constraint``: the database
    keeps the property unique.
    """
    if column.types.keys() != {"text"} or column.rows < rows / 2 or column.average > _MOST:
        return 0
    words, text = column.words, " ".join(column.words)
    if text in _NAMES:
        return _NAMES[text] + (5 if constraint else 0)
    if words in ((*own, "name"), (*own, "title")):
        return 95
    distinct = len(column.distinct) >= 0.9 * column.distinct.total()
    # "contactName" beside "contactTitle" names the contact, not what has it
    part = any(
        other.words[:1] == words[:1] and other.name != column.name and len(other.words) > 1
        for other in columns.values()
        if words[:1] != own[:1]
    )
    if words[-1:] in (("name",), ("title",)) and distinct and not part:
        return _NAMED_BY_END
    if words and words[-1] in _TEXTS:
        return 0
    texts = column.letters >= _LETTERS * column.characters
    if column.unique and column.rows == rows and texts and (constraint or column.spaced >= 0.5):
        return 20 - column.average / _MOST
    return 0


MOST_NAMED = 200_000  # nodes whose names are kept here
_ALL_NODES = 500_000  # a larger database is sampled
_ALL_RELATIONSHIPS = 2_000_000
_SAMPLE = 1_000  # nodes of a label, relationships of a type, whose values are looked at
_COUNTED = 100_000  # of them in a large database, where what they have is counted
_TIMEOUT = 30.0  # seconds of one statement
_BATCH = 5_000
_OLDEST = (5, 0)  # element ids came with it


def survey_database(
    connection: Neo4jConnection,
    record: Attachment,
    folder: Path,
    progress: Progress,
    *,
    adopt: bool = False,
) -> tuple[Survey, Attachment]:
    """Survey a database into ``folder``; return the survey, and the record with new labels.

    ``adopt``: save that record. Raises StoreUnavailableError, GraphError;
    sqlite3.Error and OSError of the folder.
    """
    began = time.monotonic()
    reading = _Reading(connection, record, progress)
    with (
        progress.task("reading the schema", len(reading.labels) + len(reading.types)) as task,
        new_survey(folder) as writer,
    ):
        survey, types, relations = reading.schema(folder.name, task)
        merged = replace(record, types=types, relations=relations)
        nodes = NodeReader(connection, merged, survey, reading.state)
        task.tell("names")
        named = 0
        batch = []
        for row in nodes.stream(MOST_NAMED):
            batch.append(row)
            if len(batch) == _BATCH:
                named += writer.add(batch)
                batch.clear()
        named += writer.add(batch)
        if named < MOST_NAMED and (record.only or record.skip):
            edges = sum(
                {
                    (relation.relation, relation.head, relation.tail): relation.count
                    for relation in survey.schema.relations
                }.values()
            )
            survey = replace(survey, info=replace(survey.info, entities=named, edges=edges))
        survey = replace(
            survey,
            named=named,
            seconds=time.monotonic() - began,
            settings=settings_of(merged if adopt else record),
        )
        writer.finish(survey)
    return survey, merged


class _Reading:
    """One survey of a database in progress; ``state``: the database's at the first statement."""

    def __init__(self, connection: Neo4jConnection, record: Attachment, progress: Progress) -> None:
        """Read labels, relationship types, counts, constraints and indexes of the database."""
        version = connection.server_version()
        if version < _OLDEST:
            raise GraphError(
                f"{connection.url} runs Neo4j {version[0]}.{version[1]}.",
                "kgqa can attach Neo4j 5 and later.",
            )
        self._connection = connection
        self._record = record
        self._progress = progress
        tokens, self.state = connection.read_marked(attached("tokens"), {}, timeout=_TIMEOUT)
        self._tokens = tokens[0]
        labels, types = set(tokens[0]["labels"]), set(tokens[0]["types"])
        taken = selection_of(record, labels, types)
        self._only, self._hidden = frozenset(taken["labels"]), frozenset(taken["hidden"])
        if self._only:
            labels = {
                row["label"]
                for label in sorted(self._only & labels)
                for row in self._rows("labels_beside", label, limit=_ALL_NODES)
            }
        self.labels = sorted(labels - self._hidden)
        self.sampled = (
            tokens[0]["nodes"] > _ALL_NODES or tokens[0]["relationships"] > _ALL_RELATIONSHIPS
        )
        only = set(taken["types"])
        if self._only and not only and not self.sampled:  # a statement for each other type is slow
            types = {
                row["type"]
                for label in sorted(self._only & labels)
                for row in self._rows("types_from", label)
            }
        self.types = sorted((only & types if only else types) - set(taken["untaken"]))
        self._limit = _COUNTED if self.sampled else max(_ALL_NODES, _ALL_RELATIONSHIPS)

    def schema(self, kg: str, task: Task) -> tuple[Survey, dict[str, Naming], dict[str, Called]]:
        """Sample each label and type; return the survey, and the naming of labels and of types.

        1. For each label sample nodes, and choose id and names, unless the record names them.
        2. For each relationship type find the labels that it connects, and its properties.
        3. Build entity types, relation patterns and the list of relations.

        ``task`` advances with each label and each relationship type. Names of nodes are read later.
        """
        record, read = self._record, time.time()
        constraints: dict[str, set[str]] = {}
        for row in self._rows_if_permitted("constraints"):
            constraints.setdefault(row["label"], set()).add(row["property"])
        counts = self._counts("count_nodes", self.labels)
        naming = dict(record.types)
        columns: dict[str, dict[str, Column]] = {}
        for label in self.labels:
            task.advance()
            if not counts[label]:
                continue
            sample = self._rows("sample_nodes", label, limit=_SAMPLE)
            rows = [row["properties"] for row in sample if self._is_taken(row, ("labels",))]
            columns[label] = columns_of(rows)
            given = naming.get(label, Naming())
            if given.id is None:
                chosen = chosen_naming(
                    label,
                    columns[label],
                    len(rows),
                    constraints.get(label, set()),
                    lambda name, label=label: self._is_unique(label, name, counts[label]),  # type: ignore[misc]
                )
                naming[label] = replace(
                    given,
                    id=chosen.id,
                    name=given.name or chosen.name,
                    parts=() if given.name else chosen.parts,
                )
        amounts = self._counts("count_relationships", self.types)
        present = [type_ for type_ in self.types if amounts[type_]]
        task.advance(len(self.types) - len(present))
        patterns = self._patterns(present, amounts, set(columns), naming, task)
        keys = _foreign_keys(naming, patterns)
        types = tuple(
            EntityType(
                label,
                counts[label],
                self._properties(
                    label,
                    columns[label],
                    self._property_counts(label, columns[label], counts[label]),
                    keys,
                    naming[label].name,
                    naming[label].id,
                    naming[label].parts,
                ),
                naming[label].id or None,
                naming[label].name,
                parts=naming[label].parts,
            )
            for label in sorted(columns, key=lambda label: (-counts[label], label))
        )
        schema = GraphSchema(types, tuple(patterns), self.sampled)
        walked = {
            each.name
            for held in (
                [entity_type.properties for entity_type in types],
                [pattern.properties for pattern in patterns],
            )
            for properties in held
            for each in properties
            if each.walked
        }
        relations = tuple(sorted({*present, *(each.relation for each in patterns), *walked}))
        info = KGInfo(
            name=kg,
            source=source_of(record),
            version=version_of(self.state, record),
            direction=record.direction,
            entities=self._tokens["nodes"],
            mediators=0,
            values=0,
            relations=len(relations),
            edges=self._tokens["relationships"],
            loader="attach",
        )
        indexed, texts = self._indexes()
        survey = Survey(
            info, schema, naming, relations, indexed, texts, self.state, "", read, 0.0, 0
        )
        called = {type_: record.relations.get(type_, Called()) for type_ in present}
        for each in patterns:
            called.setdefault(each.relation, record.relations.get(each.relation, Called()))
            if each.kind:
                type_ = each.relationship_type
                called[type_] = replace(called[type_], relation=each.kind)
        return survey, naming, {**record.relations, **called}

    def _patterns(
        self,
        types: Sequence[str],
        amounts: dict[str, int],
        known: set[str],
        naming: dict[str, Naming],
        task: Task,
    ) -> list[RelationPattern]:
        """Count which labels each relationship type connects, and sample the type's properties.

        ``amounts``: the number of relationships by type; ``known``: the included labels;
        ``naming``: the properties that name them.
        """
        patterns: list[RelationPattern] = []
        for type_ in types:
            task.advance()
            between: Counter[Triple] = Counter()
            having: dict[Triple, Counter[str]] = defaultdict(Counter)
            rows = self._rows("patterns", type_, limit=self._limit)
            seen = sum(row["count"] for row in rows)
            sample: list[Any] = []
            if any(row["names"] for row in rows):
                sample = self._rows("sample_relationships", type_, limit=_SAMPLE)
            kind, said = self._kind_property(type_, rows, sample)
            rows = said or rows
            for row in filter(self._is_taken, rows):
                for pair in _label_pairs(row, known):
                    at = (row["kind"] or type_ if kind else type_), *pair
                    between[at] += row["count"]
                    having[at].update({name: row["count"] for name in row["names"] if name != kind})
            samples: dict[Triple, list[dict[str, Any]]] = defaultdict(list)
            for row in filter(self._is_taken, sample):
                held = row["properties"]
                for pair in _label_pairs(row, known):
                    samples[held.get(kind) or type_ if kind else type_, *pair].append(held)
            scale = amounts[type_] / seen if seen else 1.0
            for at, count in between.items():
                keys = {(type_, naming[end].id or "") for end in at[1:] if end}
                properties = self._properties(type_, columns_of(samples[at]), having[at], keys, ())
                stored = type_ if at[0] != type_ else ""
                patterns.append(
                    RelationPattern(*at, round(count * scale), properties, stored=stored, kind=kind)
                )
        return sorted(
            patterns,
            key=lambda pattern: (-pattern.count, pattern.relation, pattern.head, pattern.tail),
        )

    def _kind_property(
        self, type_: str, rows: Sequence[Any], sample: Sequence[Any]
    ) -> tuple[str, list[Any]]:
        """Return the property that names each relationship's relation, and rows for its values.

        The rows are as in :meth:`_patterns`; ("", []) without such a property. ``sample``:
        relationships to judge by.
        """
        given = self._record.relations.get(type_, Called()).relation
        columns = columns_of(row["properties"] for row in sample)
        if given is None:
            names = [
                name
                for name, column in sorted(columns.items())
                if says_relation(column.words, words_of(type_))
                and column.types.keys() == {"text"}
                and not column.many
                and column.rows >= _SAID * len(sample)
                and len(column.distinct) <= max(20, len(sample) / 2)
            ]
        else:
            names = [given] if given in columns else []
        for name in names:
            if self._record.hides(type_, name):
                continue
            answer, _ = self._connection.read_marked(
                attached("kinds", type_, name), {"limit": self._limit}
            )
            said = {row["kind"] for row in answer} - {None}
            taken = said & {*self._tokens["types"]}
            if (
                len(said) <= _MOST_SAID
                and not taken
                and all(
                    isinstance(kind, str) and kind.strip() and kind not in NULLS for kind in said
                )
            ):
                return name, answer
            if given is not None:
                self._progress.note(
                    f"{type_}.{name} cannot say the relation: it says "
                    + (
                        f"{min(taken)}, a type of its own."
                        if taken
                        else "values that are not text, or too many."
                    )
                )
        return "", []

    def _is_taken(self, row: Any, names: Iterable[str] = ("heads", "tails")) -> bool:
        """Return whether a row's nodes are included, by the labels in its columns ``names``."""
        return all(
            (not self._only or self._only & set(row[end])) and not self._hidden & set(row[end])
            for end in names
        )

    def _properties(
        self,
        owner: str,
        columns: dict[str, Column],
        counts: Counter[str],
        unwalked: set[tuple[str, str]],
        names: tuple[str, ...],
        id_: str | None = None,
        parts: tuple[str, ...] = (),
    ) -> tuple[Property, ...]:
        """Return the schema entries of a label's or a type's properties, most frequent first.

        Excluded properties are skipped. ``unwalked``: (owner, property) pairs that are keys, not
        edges; ``names``, ``id_`` and ``parts``: the properties that name and identify the owner's
        nodes.
        """
        properties = []
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if not self._record.hides(owner, name):
                column = columns.get(name) or Column(name)  # a rare one is in no sample
                is_key = name == id_ or (owner, name) in unwalked
                # a code of its own that people ask for: a SKU, a symbol
                is_asked = (
                    bool(names or parts)
                    and column.types.keys() == {"text"}
                    and not KEY_WORDS & {*column.words[-1:]}
                    and (owner, name) not in unwalked
                )
                walked = name not in names[:1] and (is_asked or not is_key)
                is_name = is_key or name in names
                properties.append(column.as_property(count, walked, is_name=is_name))
        return tuple(properties)

    def _property_counts(self, label: str, columns: dict[str, Column], count: int) -> Counter[str]:
        """Count the nodes of a label that have each property."""
        if count <= _SAMPLE:
            return Counter({name: column.rows for name, column in columns.items()})
        counts: Counter[str] = Counter()
        for row in self._rows("count_properties", label, limit=self._limit):
            counts.update(dict.fromkeys(row["names"], row["count"]))
        return counts

    def _is_unique(self, label: str, name: str, count: int) -> bool:
        """Return whether all values of a label's property differ; False for a large database."""
        if self.sampled:  # counting all values of a large database takes too long
            return False
        rows = self._connection.read_marked(attached("count_values", label, name), {})[0]
        return bool(rows[0]["count"] == count)

    def _counts(self, statement: str, names: Sequence[str]) -> dict[str, int]:
        """Return the counts of a statement by name (of labels or types)."""
        return {name: self._rows(statement, name)[0]["count"] for name in names}

    def _rows(self, statement: str, name: str, **parameters: Any) -> list[Any]:
        """Run a named survey statement for one label or type; return its rows."""
        return self._connection.read_marked(attached(statement, name), parameters)[0]

    def _rows_if_permitted(self, statement: str) -> list[Any]:
        """Run a named statement; if it fails, note that in the progress and return no rows."""
        try:
            return self._connection.read_marked(attached(statement), {})[0]
        except GraphError as error:
            self._progress.note(f"The {statement} cannot be listed: {error.message}")
            return []

    def _indexes(self) -> tuple[frozenset[tuple[str, str]], tuple[TextIndex, ...]]:
        """Return the indexed (label, property) pairs and the full-text indexes."""
        indexed: set[tuple[str, str]] = set()
        texts: list[TextIndex] = []
        for row in self._rows_if_permitted("indexes"):
            labels, properties = row["labels"] or [], row["properties"] or []
            if row["type"] == "FULLTEXT":
                texts.append(TextIndex(row["name"], tuple(labels), tuple(properties)))
            else:
                indexed.update((label, properties[0]) for label in labels)
        return frozenset(indexed), tuple(texts)


def settings_of(record: Attachment) -> str:
    """Return a digest of the record; it changes when the record is edited."""
    return hashlib.sha256(repr(replace(record, attached="")).encode()).hexdigest()


def version_of(state: str, record: Attachment) -> str:
    """Return the version of an attached KG: a digest of the database's state and the record."""
    return hashlib.sha256(f"{state}\n{settings_of(record)}".encode()).hexdigest()


def _label_pairs(row: Any, known: set[str]) -> Iterable[Pair]:
    """Return all (head label, tail label) pairs of a row; "" for an end without a known label."""
    heads = [label for label in row["heads"] if label in known] or [""]
    tails = [label for label in row["tails"] if label in known] or [""]
    return product(heads, tails)


def _foreign_keys(
    naming: dict[str, Naming], patterns: Iterable[RelationPattern]
) -> set[tuple[str, str]]:
    """Return (label, id property) pairs: the label's nodes may repeat the id of a related node."""
    keys: set[tuple[str, str]] = set()
    for pattern in patterns:
        for label, other in ((pattern.head, pattern.tail), (pattern.tail, pattern.head)):
            if label and other and label != other and (id_ := naming[other].id) != naming[label].id:
                keys.add((label, id_ or ""))
    return keys
