"""Finds texts of a question that are values stored in the graph, and their properties."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.graph.kept import kept_of_endpoint
from kgqa.graph.names import normalise
from kgqa.graph.store import foresee
from kgqa.lexicon.english import english
from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem
from kgqa.lexicon.vocabulary import FUNCTION
from kgqa.linking.neighbourhood_features import name_stems, stems_of
from kgqa.planning.bounds import bound_before
from kgqa.planning.question_words import FREQUENT, stems
from kgqa.planning.schema_parts import ENTITY, FoundValue, Owned, SchemaParts
from kgqa.queries.check import NUMBERS, fits
from kgqa.queries.implicit_classes import PlainGraph
from kgqa.queries.language import Owned as Owner
from kgqa.queries.language import PlanLiterals
from kgqa.queries.values import DATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kgqa.graph.model import EntityDetails
    from kgqa.graph.schema import GraphSchema, Value
    from kgqa.queries.join import QueryStore
    from kgqa.understanding.literals import Stated, Stating

    _Fields = Mapping[Owned, tuple[str, ...]]

_MADE_BY = ("planning/value_index.py", "graph/names.py", "graph/sparql_store.py")
_LONGEST = 8  # most words of an indexed value
_MOST_VALUES = 300_000  # values indexed
_MOST_ENTITIES = 100_000  # of a type whose values are indexed
_MOST_EDGES = 20_000  # most edges of an entity whose relations are read
_MOST_NAMED = 60  # most entities found for one question
_SEX = re.compile(r"(?<![a-z])(?:sex|gender)(?![a-z])", re.IGNORECASE)
_WOMEN, _MEN = ("woman", "women", "girl", "girls"), ("man", "men", "boy", "boys")
_SEXES = {"f": ("female", *_WOMEN), "female": _WOMEN, "m": ("male", *_MEN), "male": _MEN}
_MOST_SEXES = 20  # most members of a class of sexes
_COMMON = english_words("no_value")
_NAME_BEFORE = re.compile(r"\s(?:[A-Z]\.|[A-Z][a-z]+(?:-[A-Z][a-z]+)?) $")


class _Run:
    """Words of a question that follow one another, ``words[first:end]``."""

    def __init__(self, question: str, words: Sequence[re.Match[str]], first: int, end: int) -> None:
        self.start, self.end = words[first].start(), words[end - 1].end()
        self.text = question[self.start : self.end]
        self.bare = re.sub(r"['’]s$", "", self.text).strip("'\".")
        self.key = _key(self.text)
        self.is_one, self.is_first = end - first == 1, first == 0
        self.before = stem(words[first - 1][0].lower()) if first else ""
        self.after = words[end : end + 2]

    def is_meant(self, fields: _Fields) -> bool:
        """Return whether the words may mean the stored values ``fields``, which are equal to them.

        Everyday words do not; one in lower case must be longer than two letters and no function
        word, and the values of one word each.
        """
        if self.key in _COMMON or len(self.key) < 2:
            return False
        small = self.text.islower()
        if not self.is_one or not (small or self.is_first):
            return True
        stored = [values[0] for values in fields.values()]
        if small and self.text in FUNCTION and self.text not in stored:  # "per", of a code PER
            return False
        return len(self.text) > 2 and all(len(one.split()) == 1 for one in stored)


class ValueIndex:
    """An index of short text values by their lower-case words, with entity names from the store.

    Properties of types with very many entities are left out.
    """

    def __init__(self, store: QueryStore, schema: GraphSchema) -> None:
        """Read the values; an endpoint's are cached with its survey. Raises GraphError."""
        self._store = store
        self._fields: dict[str, dict[Owned, tuple[str, ...]]] = {}
        self._whole: dict[Owned, bool] = {}  # whether all values of a property are kept
        self._types = {type_.name: type_ for type_ in schema.types}
        self._named = {type_.name for type_ in schema.types if type_.names}
        self._classes = name_stems(type_.name for type_ in schema.types)
        self._called = {tuple(stems(type_.name)) for type_ in schema.types}
        self._plain = isinstance(store, PlainGraph)
        self._untyped = (
            any("" in (relation.head, relation.tail) for relation in schema.relations)
            or not schema.types
        )
        kept = kept_of_endpoint(store)
        if (found := kept.read("values", _MADE_BY)) is not None:
            self._take(found[1])
            return
        self._read(store, schema)
        kept.write("values", _MADE_BY, {}, self._given())

    def _given(self) -> list[Any]:
        """Return the index as lists for JSON."""
        fields = [(words, list(held.items())) for words, held in self._fields.items()]
        return [fields, list(self._whole.items())]

    def _take(self, given: list[Any]) -> None:
        """Load an index that :meth:`_given` wrote."""
        fields, whole = given
        self._fields = {
            words: {tuple(owned): tuple(values) for owned, values in held} for words, held in fields
        }
        self._whole = {tuple(owned): is_whole for owned, is_whole in whole}

    def _read(self, store: QueryStore, schema: GraphSchema) -> None:
        """Read the text values of properties from the store.

        Those of very large types are skipped.
        """
        for type_ in schema.types:
            if _SEX.search(type_.name) and type_.count <= _MOST_SEXES:
                self._add_sexes(type_.name)
            texts = [
                property_
                for property_ in type_.properties
                if property_.type == "text" and (property_.walked or property_.name in type_.names)
            ]
            if texts and type_.count <= _MOST_ENTITIES:
                keys = store.instances(type_.name)
                for one in texts:
                    owned = ("class", type_.name, one.name)
                    self._add(owned, store.property_values(keys, one.name)[1])
        ids = store.relations().ids
        for pattern in schema.relations:
            texts = [
                property_
                for property_ in pattern.properties
                if property_.type == "text" and property_.walked
            ]
            if texts and pattern.relation in ids and pattern.count <= _MOST_ENTITIES:
                keys = store.instances(pattern.head)
                facts = store.facts(keys, [ids.index(pattern.relation)], inverse=False).fact
                facts = facts[facts >= 0]
                for one in texts:
                    owned = ("relation", pattern.relation, one.name)
                    self._add(owned, store.property_values(facts, one.name)[1])

    def _add(self, owned: Owned, values: Sequence[object]) -> None:
        """Index the text ``values`` of a property ``owned`` by a class or relation.

        Long texts, and all beyond a limit, are dropped; the property then counts as incomplete.
        """
        for value in dict.fromkeys(map(str, values)):
            said = _SEXES.get(value.lower(), ()) if _SEX.search(owned[2]) else ()
            for words in (_key(value), *said):
                kept = words.count(" ") < _LONGEST and len(self._fields) < _MOST_VALUES
                self._whole[owned] = kept and self._whole.get(owned, True)
                if words and kept:
                    self._fields.setdefault(words, {}).setdefault(owned, (value,))

    def _add_sexes(self, class_: str) -> None:
        """Add everyday words for the entities of a class of sexes: women are female."""
        some = self._store.entities(self._store.instances(class_))
        for id_, name in zip(some.ids, some.names, strict=True):
            for said in _SEXES.get((name or "").lower(), ()):
                self._fields.setdefault(said, {})[ENTITY, class_, "name"] = (id_,)

    def lacking(self, text: str) -> set[Owned]:
        """Return the completely indexed properties of which no value contains ``text``."""
        asked = _key(text)
        holding = {
            field for key, fields in self._fields.items() if asked in key for field in fields
        }
        return {owned for owned, whole in self._whole.items() if whole} - holding

    def _entities(
        self, texts: Sequence[str]
    ) -> tuple[dict[str, dict[Owned, tuple[str, ...]]], dict[str, dict[str, tuple[str, ...]]]]:
        """Return by text the entities with that name: ids by name property, "" for any class.

        The second result has, by text and class, the ids of entities whose name is a property.
        Texts without an entity are left out.
        """
        rows, keys = (column[:_MOST_NAMED] for column in self._store.find_names(texts))
        foresee(self._store, np.unique(keys), "both")
        found: dict[str, dict[Owned, list[str]]] = {}
        things: dict[str, dict[str, tuple[str, ...]]] = {}
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            details = self._store.details(key)
            types = [name for name in details.types if name not in self._named]
            for name in {*details.types} & self._named:
                of_class = things.setdefault(texts[row], {})
                of_class[name] = tuple(dict.fromkeys((*of_class.get(name, ()), details.id)))
            is_class = not details.types and stems_of(normalise(texts[row])) in self._classes
            for name in [*types, *([""] if self._untyped and not is_class else [])]:
                of = found.setdefault(texts[row], {}).setdefault((ENTITY, name, "name"), [])
                of += [details.id] if details.id not in of else []
        by_name = {
            text: {owned: tuple(ids) for owned, ids in fields.items()}
            for text, fields in found.items()
        }
        return by_name, things

    def find(self, question: str, literals: Sequence[Stating]) -> list[FoundValue]:
        """Return the stored values in ``question``, in order, the longest of overlapping ones.

        ``literals``: of the question; those that are dates or quotations are not searched again.
        Everyday words are skipped. Raises GraphError.
        """
        found = self._quoted(literals)
        taken = [(one.start, one.end) for one in literals if one.kind in ("text", "date")]
        taken += [one.span() for one in FREQUENT.finditer(question) if one[0].islower()]
        words = list(re.finditer(r"[^\s?!,;]+", question))
        runs = [
            _Run(question, words, at, at + size)
            for size in range(_LONGEST, 0, -1)
            for at in range(len(words) - size + 1)
        ]
        texts = [text for run in runs for text in (run.bare, *_singulars(run.bare))]
        entities, things = self._entities(
            [text for text in dict.fromkeys(texts) if _key(text) not in _COMMON]
        )
        for run in runs:
            if any(first < run.end and run.start < last for first, last in taken):
                continue
            is_class = tuple(map(stem, run.text.lower().split())) in self._called
            fields = self._fields_of(run, entities, is_class=is_class)
            if fields and run.is_meant(fields):
                found.append(
                    FoundValue(run.start, run.end, fields, things=things.get(run.bare, {}))
                )
            elif fields or not is_class or run.is_one:
                continue
            taken.append((run.start, run.end))  # "phone calls" are not of the kind "call"
        found = [
            replace(one, holds=self._held(one, same=bool(said["same"])))
            if (said := bound_before(question, one.start))
            else one
            for one in self._with_steps(found)
        ]
        return sorted(found, key=lambda one: one.start)

    def _quoted(self, literals: Sequence[Stating]) -> list[FoundValue]:
        """Return the quotations that are stored values."""
        quoted = [one for one in literals if one.kind == "text" and one.operator in ("=", "<>")]
        entities, things = self._entities([str(one.value) for one in quoted])
        found = []
        for one in quoted:
            text = str(one.value)
            if fields := {**entities.get(text, {}), **self._fields.get(_key(text), {})}:
                of_class = things.get(text, {})
                found.append(FoundValue(one.start, one.end, fields, quoted=True, things=of_class))
        return found

    def _fields_of(
        self, run: _Run, entities: Mapping[str, _Fields], *, is_class: bool
    ) -> dict[Owned, tuple[str, ...]]:
        """Return the properties that hold words of a question, also in another number; {} for none.

        ``entities``: names by text; ``is_class``: whether the words are a class's name, which only
        means the very value: a novel may be a book's genre.
        """
        held = self._fields.get(run.key) or self._fields.get(_key(run.bare), {})
        fields = {**entities.get(run.bare, {}), **held}
        if not fields and is_class and not run.is_one:
            return {}
        if not fields and (self._plain or not is_class):
            singulars = _singulars(run.bare)
            if self._plain or run.text[:1].islower():
                for single in singulars:
                    fields |= {**entities.get(single, {}), **self._fields.get(_key(single), {})}
            else:  # "Toyotas"; "Adams" is not an Adam
                fields = self._unnamed(singulars)
        if not fields and run.text.islower() and self._is_class(run.after):
            fields = self._unnamed([f"{run.bare}s"])  # "drug crimes", of the kind "Drugs"
        if run.key.isdigit() and not run.key.startswith("0"):  # a number, but for "zip 50667"
            fields = {of: some for of, some in fields.items() if run.before in stems(of[2])}
        return fields

    def with_partly_named(
        self,
        question: str,
        mentions: Mapping[str, int],
        found: Sequence[FoundValue],
        parts: SchemaParts,
    ) -> list[FoundValue]:
        """Add to ``found`` the entities that the question mentions by a part of their name.

        ``mentions``: these parts, with the entities' keys. A part replaces a shorter value at its
        place: "San" of "San Francisco". A lower-case part may be a common noun: it counts only if
        the whole question is in lower case and the schema's ``parts`` lack the word. After another
        first name or initial it means another person: "A. Peterson", where "K. Peterson" is stored.
        """
        kept, partly = list(found), list[FoundValue]()
        small = question[1:] == question[1:].lower()
        for mention, key in mentions.items():
            start = question.find(mention)
            end = start + len(mention)
            said = {stem(word) for word in mention.lower().split()}
            if start < 0 or not (mention[:1].isupper() or (small and not said & parts.stems)):
                continue
            beside = [one for one in (*kept, *partly) if one.start < end and start < one.end]
            longer = any(
                one.start < start or end < one.end or (one.start, one.end) == (start, end)
                for one in beside
            )
            details = self._store.details(key)
            if (
                longer
                or _NAME_BEFORE.search(question[:start])
                or normalise(details.name or "") == normalise(mention)  # of those `find` decided
            ):
                continue
            kept = [one for one in kept if one not in beside]
            partly.append(self._named_by(details, start, end))
        return sorted([*kept, *self._with_steps(partly)], key=lambda one: one.start)

    def _named_by(self, details: EntityDetails, start: int, end: int) -> FoundValue:
        """Return the value that names an entity, with ``details``, from ``start`` to ``end``."""
        things = {name: (details.id,) for name in details.types if name in self._named}
        fields: dict[Owned, tuple[str, ...]] = {
            (ENTITY, name, "name"): (details.id,)
            for name in (*details.types, *([""] if self._untyped else []))
            if name not in things
        }
        for name in things:
            for of in self._types[name].names:
                if (value := details.properties.get(of)) is not None:
                    fields["class", name, of] = (str(value),)
        return FoundValue(start, end, fields, things=things)

    def _unnamed(self, texts: Iterable[str]) -> dict[Owned, tuple[str, ...]]:
        """Return the properties that hold one of ``texts``, with stored forms.

        Properties that are names are left out.
        """
        return {
            owned: values
            for text in texts
            for owned, values in self._fields.get(_key(text), {}).items()
            if owned[0] != "class" or owned[2] not in self._types[owned[1]].names
        }

    def _is_class(self, words: Sequence[re.Match[str]]) -> bool:
        """Return whether words begin with a class's name of one or two words."""
        stems_ = [stem(word[0].lower()) for word in words]
        return any(tuple(stems_[:size]) in self._called for size in (1, 2)[: len(stems_)])

    def _held(self, value: FoundValue, *, same: bool) -> dict[tuple[str, str], Value]:
        """Return by class and property the single values of the entity that a text names.

        Nothing for classes of which it names several entities. ``same``: whether the question asks
        for the same value, which alone may be a text; else one text is read if there is nothing
        else, because a bound is a thing with values.
        """
        held: dict[tuple[str, str], Value] = {}
        named = {class_: ids for (kind, class_, _), ids in value.fields.items() if kind == ENTITY}
        for class_, ids in {**named, **value.things}.items():
            if len(ids) != 1 or class_ not in self._types:
                continue
            keys = self._store.keys_of(list(ids))
            single = [one for one in self._types[class_].properties if not one.many]
            measures = [one for one in single if one.type in (*NUMBERS, *DATES)]
            for property_ in (*measures, *(one for one in single if one.type == "text")):
                if property_.type == "text" and held and not same:
                    break
                _, values = self._store.property_values(keys, property_.name)
                if values:
                    held[class_, property_.name] = values[0]
        return held

    def _with_steps(self, found: Sequence[FoundValue]) -> list[FoundValue]:
        """Return values with the relations of the entities that they name.

        Those of entities with very many edges are missing.
        """
        steps = self._steps([id_ for one in found for id_ in _ids(one)])
        return [
            replace(one, steps={id_: steps[id_] for id_ in _ids(one) if id_ in steps})
            for one in found
        ]

    def _steps(self, ids: Sequence[str]) -> dict[str, frozenset[tuple[str, bool]]]:
        """Return each entity's relations by id, with whether the entity is the tail.

        Unknown entities and those with very many edges are left out.
        """
        keys = np.unique(self._store.keys_of(list(ids)))
        keys = keys[keys >= 0]
        keys = keys[self._store.degrees(keys) <= _MOST_EDGES]
        edges = self._store.neighbours(keys, "both")
        relations = self._store.relations().ids
        found: dict[int, set[tuple[str, bool]]] = {at: set() for at in range(len(keys))}
        for row, step in np.unique(np.stack([edges.row, edges.step]), axis=1).T.tolist():
            found[row].add((relations[step // 2], bool(step % 2)))
        names = self._store.entities(keys).ids
        return {id_: frozenset(found[at]) for at, id_ in enumerate(names)}


def _ids(value: FoundValue) -> list[str]:
    """Return the ids of all entities that a value names."""
    ids = [ids for (kind, *_), ids in value.fields.items() if kind == ENTITY]
    return [id_ for some in (*ids, *value.things.values()) for id_ in some]


def _singulars(text: str) -> list[str]:
    """Return the possible singular forms of a text, [] if it is not a plural.

    >>> _singulars("smart TVs"), _singulars("comedies"), _singulars("glass"), _singulars("women")
    (['smart TV'], ['comedie', 'comedy'], [], ['woman'])
    """
    if (single := english()["plurals"].get(text)) is not None:
        return [single]
    if not text.endswith("s") or text.endswith("ss"):
        return []
    others = {"ies": ("y",), "ves": ("f", "fe")}.get(text[-3:], ())
    return [text[:-1], *(text[:-3] + other for other in others)]


def _key(text: str) -> str:
    """Return a text as lower-case words without punctuation."""
    return " ".join(re.findall(r"[\w&'+#.-]+", text.lower().replace("’", "'"))).strip(".'\"")


def plan_literals(read: Stated, texts: Mapping[Owner, Iterable[str]] | None = None) -> PlanLiterals:
    """Return the literals that plans may contain.

    ``texts``: stored values in the question, see :func:`found_texts`.
    """
    numbers = [literal.value for literal in read.literals if isinstance(literal.value, int | float)]
    dates = [str(literal.value) for literal in read.literals if literal.kind != "text"]
    return PlanLiterals(
        numbers=tuple(dict.fromkeys([*numbers, *([read.limit] if read.limit else [])])),
        dates=tuple(date for date in dict.fromkeys(dates) if fits(date, "date")),
        texts={owned: tuple(dict.fromkeys(some)) for owned, some in (texts or {}).items()},
        words=tuple(str(literal.value) for literal in read.literals if literal.kind == "text"),
    )


def found_texts(values: Iterable[FoundValue]) -> dict[Owner, list[str]]:
    """Return the stored values in a question by (class or relation, property).

    The property is "" for ids of entities.
    """
    texts: dict[Owner, list[str]] = {}
    for found in values:
        for (kind, owner, name), some in found.fields.items():
            texts.setdefault((owner, "" if kind == ENTITY else name), []).extend(some)
    return texts
