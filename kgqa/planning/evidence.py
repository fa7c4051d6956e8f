"""The evidence of a question for each part of a schema: model scores, and where it is mentioned."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from kgqa.lexicon.english import english
from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import relation_phrase
from kgqa.planning.class_names import nameless
from kgqa.planning.question_words import (
    AVERAGE,
    AVERAGED,
    EXTREME,
    NO,
    REVENUE,
    Mentions,
    asked_noun,
    asks_one,
    blanked,
    is_dated,
    is_year,
    measured,
    names_class,
    says,
    stems,
)
from kgqa.planning.schema_parts import ENTITY, FoundValue, Owned, SchemaParts
from kgqa.queries.check import NUMBERS
from kgqa.queries.plan import Hop, HopRef, NodeRef, PropertyRef
from kgqa.queries.values import DATES
from kgqa.understanding.asked import (
    as_what,
    asks_best,
    asks_calculated,
    asks_how,
    same_or_different,
)
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kgqa.graph.schema import Property
    from kgqa.models.plan_scorer import PlanScores
    from kgqa.understanding.literals import Stated

WEIGHTS = weights("planning")
MOST_ODDS = 7
UNUSED = {
    "quoted": WEIGHTS["unused_quoted"],
    "name": WEIGHTS["unused_name"],
    "value": WEIGHTS["unused_value"],
    "entity": WEIGHTS["unused_entity"],
    "number": WEIGHTS["unused_number"],
    "date": WEIGHTS["unused_date"],
}
# what the scorer's log-odds of each role of a part count, as kgqa.models.plan_scorer.ROLES
_CLASS = (WEIGHTS["class_used"], WEIGHTS["class_answer"], WEIGHTS["class_counted"])
_CLASS_OF_TRIPLES = (
    WEIGHTS["class_of_triples_used"],
    WEIGHTS["class_of_triples_answer"],
    WEIGHTS["class_of_triples_counted"],
)
_HOP = (WEIGHTS["hop_used"], WEIGHTS["hop_tail"], WEIGHTS["hop_without"])
_PROPERTY = (
    WEIGHTS["property_compared"],
    WEIGHTS["property_ordered"],
    WEIGHTS["property_given"],
    WEIGHTS["property_aggregated"],
)
_WHOLE = {
    "aggregate": WEIGHTS["aggregate"],
    "direction": WEIGHTS["direction"],
    "limit": WEIGHTS["limit"],
    "without": WEIGHTS["without"],
    "having": WEIGHTS["having"],
    "hops": WEIGHTS["hops"],
}
_VERBS = english_words("verbs")
_OTHERS = english_words("others")
_ARTICLES = frozenset(["the", "a", "an"])
_DIRECTIONS: dict[str, str] = english()["directions"]
_CHOICE = re.compile(r"[,:;] [^,:;?]+(?:, [^,:;?]+)*,? or [^?]+\W*$", re.IGNORECASE)
_OTHER = re.compile(r"(?:an)?other")
_MOST_BEFORE = 3  # most words of a superlative before the first noun
_OF_ROWS = 1  # least log-odds of a table's rows, if no name is the requested noun


@dataclass(frozen=True, slots=True)
class Pattern:
    """A tree of classes and hops; the first class is requested.

    ``away``: the number of hops from each class to the first one.
    """

    nodes: tuple[str, ...]
    hops: tuple[Hop, ...]
    score: float
    away: tuple[int, ...] = (0,)

    def key(self) -> tuple[object, ...]:
        """Return the key that equal patterns share."""
        return self.nodes, frozenset(
            (hop.source, hop.relation, hop.inverse, self.nodes[hop.target]) for hop in self.hops
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A property of a certain node or hop of a pattern."""

    ref: PropertyRef
    property: Property
    owned: Owned

    @builtins.property
    def of_answer(self) -> bool:
        """Whether it is a property of the requested class."""
        owner = self.ref.owner
        return isinstance(owner, NodeRef) and owner.node == 0

    @builtins.property
    def is_number(self) -> bool:
        """Whether its values can be summed."""
        return self.property.type in NUMBERS


@dataclass
class QuestionReading:
    """A question with the log-odds of a schema's parts and their mentions.

    ``scores``: of the parts ``refs``.
    """

    question: str
    parts: SchemaParts
    refs: Sequence[object]
    scores: PlanScores
    stated: Stated
    values: Sequence[FoundValue]
    lacking: Mapping[str, AbstractSet[Owned]] = field(default_factory=dict)  # a text, by text
    classes: dict[str, Sequence[float]] = field(default_factory=dict)
    hops: dict[tuple[str, str, str], Sequence[float]] = field(default_factory=dict)
    properties: dict[Owned, Sequence[float]] = field(default_factory=dict)
    whole: dict[str, dict[str, float]] = field(default_factory=dict)
    said: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    phrases: dict[tuple[str, str, str], str] = field(default_factory=dict)  # of relations
    today: str = ""  # YYYY-MM-DD
    beside: frozenset[str] = frozenset()  # classes that share entities with another one
    plain: bool = False  # whether classes are inferred from plain triples
    columns: set[str] = field(default_factory=set)  # classes that only hold values of a table
    mentions: Mentions = field(init=False)
    _words: dict[Owned, list[int]] = field(init=False, default_factory=dict)
    _measures: dict[Owned, bool] = field(init=False, default_factory=dict)
    _asked: dict[Owned, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.plain = bool(self.parts.called.nouns)
        for ref, odds in zip(self.refs, self.scores.parts, strict=True):
            row = [max(-MOST_ODDS, min(MOST_ODDS, float(score))) for score in odds]
            if isinstance(ref, str):
                self.classes[ref] = _weighted(_CLASS_OF_TRIPLES if self.plain else _CLASS, row)
            elif ref in self.parts.hops:
                self.hops[ref] = _weighted(_HOP, row)
            else:
                self.properties[ref] = _weighted(_PROPERTY, row)  # type: ignore[index]
        self.whole = {
            name: {value: _WHOLE[name] * odds for value, odds in values.items()}
            for name, values in self.scores.whole.items()
        }
        self.mentions = Mentions(self.question)
        if self.averaged:
            kinds = self.whole["aggregate"]
            most = max(kinds["none"], kinds["avg"])
            self.whole = {**self.whole, "aggregate": {**kinds, "none": most, "avg": -MOST_ODDS}}
        if not self.plain:
            self._weigh_classes()
        if self.of_rows and self.of_rows in self.classes:
            self.classes[self.of_rows] = [max(one, _OF_ROWS) for one in self.classes[self.of_rows]]
        self.columns |= self.parts.value_nodes.keys()
        self._weigh_parallel()

    def _weigh_classes(self) -> None:
        """Drop unmentioned subclasses.

        Raise the log-odds of classes with a value in the question.
        """
        subclasses = set() if self.parts.is_large else self.parts.subclasses
        for name in subclasses & self.classes.keys():
            if not self.class_words(name) and name.lower() not in self.question.lower():
                del self.classes[name]
        known = self.parts.index.types  # a survey omits the class of all entities
        held = {
            owner
            for value in self.values
            for kind, owner, _ in value.fields
            if kind == ENTITY and (not owner or owner in known)
        }
        self.columns = {one for one in held if one and not self.parts.index.properties(one)}

        def weigh(used: float, words: Iterable[int], *, has_value: bool) -> float:
            """Return the log-odds of a class or hop; ``words``: the positions of its mentions."""
            odds, said = WEIGHTS["value_class_odds"], {*words}
            used = max(used, odds) if has_value else used
            # "the bank country" is not a country
            return min(used, odds) if said and said <= self.of_compared else used

        for name, (used, *others) in self.classes.items():
            used = weigh(used, self.class_words(name), has_value=name in held)
            self.classes[name] = [used, *others]
        for hop, (used, *others) in self.hops.items():
            used = weigh(used, self.mentions.of(hop[1]), has_value=not held.isdisjoint(hop[::2]))
            self.hops[hop] = [used, *others]

    @cached_property
    def item_words(self) -> set[int]:
        """The positions of words for whatever plain triples are about: "objects", "things"."""
        known = self.parts.stems
        return {
            at for at, word in enumerate(self.mentions.words)
            if self.plain and word in english_words("items") and word not in known
        }  # fmt: skip

    @cached_property
    def main_class(self) -> str:
        """The class that most facts are about, if the question speaks of items; else ""."""
        facts = Counter[str]()
        for relation in self.parts.index.schema.relations if self.item_words else ():
            facts[relation.head] += relation.count
        for name, type_ in self.parts.index.types.items() if self.item_words else ():
            facts[name] += sum(one.count for one in type_.properties)
        return max(filter(None, self.classes), key=facts.__getitem__) if facts else ""

    @cached_property
    def asks_items(self) -> bool:
        """Whether the question asks for items: its first noun is a word for them.

        A superlative may stand before it: "the most valuable thing".
        """
        start = len(self.question) - len(asked_noun(self.question) or self.question)
        first = self.mentions.at(start)
        best = {at for at in self.mentions.of_best if at <= first + _MOST_BEFORE}
        return bool(self.item_words & ({first} | best))

    @cached_property
    def held_by(self) -> set[str]:
        """The classes with the requested noun as a stored value: "documentaries" are titles."""
        start = len(self.question) - len(asked_noun(self.question))
        at_noun = [value.fields for value in self.values if value.start == start]
        return {owner for fields in at_noun for kind, owner, _ in fields if kind == "class"}

    def _weigh_parallel(self) -> None:
        """Among relations between the same two classes, prefer those that the question mentions.

        Which relation is likelier in itself, the scorer has learnt only from other graphs.
        """
        words = re.findall(r"[a-z]+", self.question.lower())
        pairs: dict[frozenset[str], list[tuple[str, str, str]]] = {}
        for hop in self.hops:
            pairs.setdefault(frozenset((hop[0], hop[2])), []).append(hop)
        self.phrases = {hop: self._phrase(hop) for hop in self.hops}
        self.said = {hop: says(words, phrase) for hop, phrase in self.phrases.items()}
        if self.plain or self.parts.is_large:  # class names are less informative there
            first = re.findall(r"[a-z]+", asked_noun(self.question).lower())[:2]
            for hop, (used, *others) in self.hops.items():
                more = WEIGHTS["relation_said"] * self.said[hop] + WEIGHTS["relation_asked"] * says(
                    first, self.phrases[hop]
                )
                self.hops[hop] = [used + more, *others]
        self._leave_classes_out(pairs.values())
        for hops in pairs.values():
            said = any(self.said[hop] for hop in hops)
            for hop in hops if len({one[1] for one in hops}) > 1 and said else ():
                used, *others = self.hops[hop]
                self.hops[hop] = [
                    used
                    + (WEIGHTS["parallel_said"] if self.said[hop] else WEIGHTS["parallel_unsaid"]),
                    *others,
                ]
        mentioned = {
            hop[1]: {*relation_phrase(hop[1]).split()} for hop in self.hops if self.said[hop]
        }
        for hop in self.hops:
            own = mentioned.get(hop[1], set())
            beyond = [own - other for other in mentioned.values() if other < own]
            if any(not says(words, " ".join(rest)) for rest in beyond):
                used, *others = self.hops[hop]  # "formerly owned by", of "owned by"
                self.hops[hop] = [used + WEIGHTS["relation_says_more"], *others]

    def _leave_classes_out(self, alike: Collection[Sequence[tuple[str, str, str]]]) -> None:
        """Let no class mention a relation between two classes that have one mentioned otherwise.

        Parcels are things, and not what was parcelled, where the sender is mentioned, too; so is
        the sender of a compared "sender country", where the receiver is.
        ``alike``: the relations between each two classes.
        """
        named = {at for some in self.class_mentions.values() for at in some}
        for names in (named, named | self.of_compared):
            bare = [word for at, word in enumerate(self.mentions.words) if at not in names]
            for hops in alike:
                otherwise = {hop: says(bare, self.phrases[hop]) for hop in hops}
                if any(otherwise.values()):
                    self.said.update(otherwise)

    def _phrase(self, hop: tuple[str, str, str]) -> str:
        """Return a relation's words without those of its head class: of "bridge type", "type"."""
        own = {*stems(self.noun(hop[0]))}
        words = relation_phrase(hop[1]).split()
        rest = [word for word in words if stem(word) not in own]
        return " ".join(rest if any(len(one) > 3 for one in rest) else words)

    @cached_property
    def nameless(self) -> set[str]:
        """The classes without an everyday name."""
        return nameless(self.parts.index.schema, self.parts.called.nouns)

    def noun(self, name: str) -> str:
        """Return the everyday name of a class, otherwise its name."""
        return self.parts.called.nouns.get(name, name)

    def called_class(self, name: str) -> list[str]:
        """Return all names of a class: its name, its noun, and its synonyms."""
        return [name, self.noun(name), *self._also(name)]

    def _also(self, name: str) -> tuple[str, ...]:
        """Return the synonyms of a class that the schema states; () for plain triples."""
        type_ = self.parts.index.types.get(name)
        return type_.also if type_ is not None and not self.plain else ()

    @cached_property
    def bare(self) -> str:
        """The question without quotations, stored values, and the "non" of ``non_citizens``."""
        spans = [
            (literal.start, literal.end)
            for literal in self.stated.literals
            if literal.kind == "text"
        ]
        for phrase in {relation_phrase(name) for _, _, name in self.properties}:
            for no, noun in pairwise(phrase.split()) if NO.search(phrase) else ():
                if NO.fullmatch(no):
                    said = re.finditer(rf"\b{no}(?=[ -]?{noun[:4]})", self.question, re.IGNORECASE)
                    spans += [one.span() for one in said]
        return blanked(
            self.question, [*spans, *((value.start, value.end) for value in self.values)]
        )

    @cached_property
    def denials(self) -> list[int]:
        """The positions of the words that deny something, of "haven't" its last part."""
        return [self.mentions.at(one.end() - 1) for one in NO.finditer(self.bare)]

    def denied(self, most: int) -> set[int]:
        """Return the positions of words up to ``most`` after a "no"; empty if there is none."""
        return {at + far for at in self.denials for far in range(1, most + 1)}

    @cached_property
    def choice(self) -> set[str]:
        """The entities, by id or name, from which the question asks to choose the best.

        Empty unless it names several.
        """
        said = _CHOICE.search(self.question)
        if said is None or not asks_best(self.question):
            return set()
        within = [value for value in self.values if value.start >= said.start()]
        named = (
            {text for (kind, *_), texts in one.fields.items() if kind == ENTITY for text in texts}
            for one in within
        )
        return set().union(*named) if len(within) > 1 else set()

    @cached_property
    def averaged(self) -> re.Match[str] | None:
        """The phrase that compares with an average, None if there is none."""
        return AVERAGED.search(self.question)

    @cached_property
    def asks_average(self) -> bool:
        """Whether an average is requested, not just compared with, nor part of a name."""
        bare = AVERAGED.sub(lambda said: " " * len(said[0]), self.question)
        found = (self.mentions.at(one.start()) for one in AVERAGE.finditer(bare))
        return any(at not in self.of_whole for at in found)

    @cached_property
    def revenue(self) -> bool:
        """Whether the question asks for revenue, and no part of the schema has such a name."""
        said = REVENUE.search(self.bare)
        return bool(said) and not any(map(REVENUE.search, self.parts.words))

    @cached_property
    def of_each(self) -> set[int]:
        """The positions of a group's words ("per branch").

        Empty unless the question asks for a number of each group.
        """
        bare = AVERAGED.sub(" ", self.question)
        calculated = asks_calculated(bare) or self.revenue or EXTREME.search(self.question)
        return self.each_words if calculated and not asks_best(self.question) else set()

    @cached_property
    def each_words(self) -> set[int]:
        """The positions of words after "each", "per" or "by", unless they name an entity."""
        named = {self.mentions.at(value.start) for value in self.values}
        return self.mentions.of_each - named - {at + 1 for at in named}

    @cached_property
    def each(self) -> set[str]:
        """The classes for each of whose members a number is requested."""
        near = self.of_each
        return {name for name in self.classes if name and near & {*self.class_words(name)}}

    @cached_property
    def named_before(self) -> list[set[str]]:
        """For each date or number that the whole name of a property stands right before, the names.

        "Admitted in February" is about no other date, whatever has it.
        """
        found = []
        for literal in () if self.plain else self.stated.literals:
            before = self.mentions.last_before(
                self.mentions.at(literal.said if literal.said >= 0 else literal.start)
            )
            if before < 0 or asks_best(self.mentions.words[before]):
                continue
            dated = literal.kind == "date" or is_year(literal.value)
            names = {
                name
                for owned, (one, _) in self.parts.properties.items()
                if owned in self.properties
                if (is_dated(one) if dated else one.type in NUMBERS)
                for name in [owned[2]]
                if self.mentions.share(name) == 1 and before in self.mentions.of(name)
            }
            found += [names] if names else []
        return found

    def measures(self, place: Place) -> bool:
        """Return whether an adjective or verb of the question fits the property's dimension."""
        if place.owned not in self._measures:
            fits = place.is_number and measured(self.question, self.called(place))
            self._measures[place.owned] = fits
        return self._measures[place.owned]

    @cached_property
    def is_measured(self) -> bool:
        """Whether an adjective or verb of the question fits some property's dimension."""
        names = [name for _, _, name in self.properties]
        names += [relation_phrase(relation) for relation in self.parts.value_nodes.values()]
        return any(measured(self.question, one) for one in names)

    def asks_for(self, place: Place) -> bool:
        """Return whether the question's first noun is the name of a property; result remembered.

        "What plane models" asks for the models of planes; "the longest air time" for a time.
        """
        asked = self._asked.get(place.owned)
        if asked is None:
            asked = self._asked[place.owned] = self._is_asked(place)
        return asked

    def _is_asked(self, place: Place) -> bool:
        """Return whether the question's first noun is the name of a property; not remembered."""
        words = [one for one in relation_phrase(place.property.name).split() if not one.isdigit()]
        if self._is_of_things(place):
            return False
        aged = self._how == "old" and words[-1:] == ["age"]
        if self._how and (aged or measured(self._how, place.property.name)):
            return place.is_number
        asked = [self.question]
        if place.is_number:
            asked += [self._without_best, as_what(self.question)]
        if any(names_class(question, " ".join(words)) for question in asked):
            return True
        whole = self.mentions.share(place.property.name, place.owned[1]) == 1
        if place.is_number and whole and words[1:] and names_class(self.question, words[-1]):
            return True  # "how many hours are estimated"
        if place.owned[0] != "class":
            return False
        if place.property.type in DATES and words[-1:] == self.mentions.words[-1:]:
            return False  # "which staff left?" asks for people
        words = [*relation_phrase(place.owned[1]).split(), *words]
        after = asked_noun(self.question).split()[len(words) :][:1]  # not "which outing starts"
        return {*after} <= _VERBS and names_class(self.question, " ".join(words))

    def _is_of_things(self, place: Place) -> bool:
        """Return whether a property's word stands for things: "which furnished flats".

        So it does as a number's noun ("which 3 room flats"), and where a named class is called
        like its text.
        """
        if place.property.type == "boolean" and self._is_adjective(place):
            return True
        if self.numbered_words & {*self.words_of(place)}:
            return True
        type_ = self.parts.index.types.get(place.owned[1])
        same = place.property.type == "text" and stems(place.property.name) == stems(place.owned[1])
        return same and type_ is not None and bool(type_.names or type_.named_by)

    @cached_property
    def numbered_words(self) -> set[int]:
        """The positions of the words right after a number that is a value, not a limit."""
        numbers = (one for one in self.stated.literals if one.kind == "number")
        return {self.mentions.at(one.end - 1) + 1 for one in numbers if one.operator == "="}

    def _is_adjective(self, place: Place) -> bool:
        """Return whether a class stands right after a flag's name: "which furnished flats"."""
        after = {at + 1 for at in self.words_of(place)}
        return any(after & words for words in self.class_mentions.values())

    @cached_property
    def _how(self) -> str:
        """The adjective of "how big is the biggest boat?", "" for other questions."""
        single = asks_best(self.question) and asks_one(self.question)
        return asks_how(self.question) if single else ""

    @cached_property
    def _without_best(self) -> str:
        """The question without the superlative before its first noun."""
        noun = asked_noun(self.question)
        best, _, rest = noun.partition(" ")
        return f"What {rest}" if rest and asks_best(best) else ""

    def unused(self, value: FoundValue) -> float:
        """Penalty for leaving a stored value unused, higher for a mentioned entity."""
        named = value.start > 0 and self.question[value.start].isupper()
        entity = bool(value.things) or any(kind == ENTITY for kind, *_ in value.fields)
        if entity and not value.quoted:
            return UNUSED["name" if named else "value" if self.plain else "entity"]
        return UNUSED["quoted" if value.quoted else "value"]

    def words_of(self, place: Place) -> list[int]:
        """Return the positions of the words that mention a property."""
        found = self._words.get(place.owned)
        if found is None:
            owner = "" if place.owned[1] in self.parts.value_nodes else place.owned[1]
            found = self.mentions.of(self.called(place), owner)
            found = self._words[place.owned] = [at for at in found if at not in self._of_counts]
        return found

    def called(self, place: Place) -> str:
        """Return a property's name; on a value node, preceded by the relation that leads to it."""
        relation = self.parts.value_nodes.get(place.owned[1])
        name = place.property.name
        return f"{relation_phrase(relation)} {relation_phrase(name)}" if relation else name

    def class_words(self, name: str) -> list[int]:
        """Return the positions of the words that mention a class by noun, name or synonym."""
        if not name:
            return []
        own = self.mentions.of(self.noun(name)) or self.mentions.of(name)
        own = own or [at for also in self._also(name) for at in self.mentions.of(also)]
        return own or sorted(self.item_words if name == self.main_class else ())

    @cached_property
    def class_mentions(self) -> dict[str, set[int]]:
        """The word positions of each class whose whole name is mentioned; others are left out.

        {} for plain triples or many classes. Words of stored values do not count.
        """
        if self.plain or self.parts.is_large:
            return {}
        taken = {
            at
            for value in self.values
            for at in range(self.mentions.at(value.start), self.mentions.at(value.end - 1) + 1)
        }
        taken |= self.of_compared
        pairs = re.findall(r"(\w+)(?= (\w+[^\Ws]s)\b)", self.question.lower())
        known = {stem(word) for text in self.parts.words for word in text.split()}
        joined = {one for one, noun in pairs if stem(noun) not in known}  # "car manufacturers"
        return {
            name: words
            for name in self.classes
            if name
            and self.mentions.share(name) == 1
            and relation_phrase(name).rpartition(" ")[2] not in joined
            if (words := {*self.class_words(name)} - taken)
        }

    @cached_property
    def _of_counts(self) -> set[int]:
        """The positions of "number" where it is one of things: "the number of orders"."""
        words, things = self.mentions.words, set().union(*self.class_mentions.values())
        return {
            at
            for at, word in enumerate(words[:-2])
            if word == "number" and words[at + 1] == "of" and things & {at + 2, at + 3}
        }

    @cached_property
    def _said_whole(self) -> list[set[int]]:
        """The word positions of each property whose name, of several words, is said whole.

        Left out are those that end in a word of their owner's name, which may be the owner.
        """
        owned = [(owner, relation_phrase(name)) for _, owner, name in self.properties]
        found = [self.mentions.whole(phrase) for owner, phrase in owned
                 if " " in phrase and stem(phrase.split()[-1]) not in stems(owner)]  # fmt: skip
        return [one for one in found if one]

    @cached_property
    def of_whole(self) -> set[int]:
        """The word positions of properties that are said whole."""
        return set().union(*self._said_whole)

    @cached_property
    def of_compared(self) -> set[int]:
        """The word positions of properties that are said whole and compared.

        "The bank country is Malta" is about one property of a filing, and no Country. A value or
        a comparison follows their names, or they are the same or different.
        """
        if self.plain:
            return set()
        starts = [value.start for value in self.values]
        starts += [one.said if one.said >= 0 else one.start for one in self.stated.literals]
        before = {self.mentions.last_before(self.mentions.at(start)) for start in starts}
        alike = bool(same_or_different(self.question))
        return set().union(*(one for one in self._said_whole if alike or max(one) in before))

    def direction_before(self, start: int) -> set[str]:
        """Return the prepositions that say how a value at ``start`` is reached, "to" or "from".

        The one right before it; else that of the last verb of coming or going before it.
        """
        before = self.mentions.words[: self.mentions.at(start)]
        last = next((one for one in reversed(before) if one not in _ARTICLES), "")
        if last in _DIRECTIONS:
            return {last}
        verbs = (name for one in reversed(before) for name, said in _DIRECTIONS.items()
                 if one in said.split())  # fmt: skip
        return {*islice(verbs, 1)}

    @cached_property
    def others_said(self) -> set[int]:
        """The positions of words for another one: "someone", "others"."""
        return {at for at, word in enumerate(self.mentions.words) if word in _OTHERS}

    @cached_property
    def others(self) -> set[str]:
        """The classes named right after "other" in the question, as in "other users"."""
        near = self.mentions.after(_OTHER, 1)
        return {
            name for name, words in self.class_mentions.items() if near & words and len(words) > 1
        }

    @cached_property
    def schema_mentions(self) -> list[set[int]]:
        """The word positions of each mentioned class, or relation within one class.

        Of plain triples, whose classes have no names, of each relation that is mentioned whole.
        """
        own = {relation for head, relation, tail in self.hops if self.plain or head == tail}
        said = [{*self.mentions.of(one)} for one in own if self._says_whole(one)]
        return [*self.class_mentions.values(), *filter(None, said)]

    def _says_whole(self, relation: str) -> bool:
        """Return whether the question has all words of a relation; of plain triples, all long."""
        if not self.plain:
            return self.mentions.share(relation) == 1
        words = [word for word in relation_phrase(relation).split() if len(word) > 3]
        return bool(words) and all(map(self.mentions.of, words))

    @cached_property
    def of_rows(self) -> str:
        """The class of a table's rows, if the schema has no name like the question's noun; else "".

        All other classes are values of the table's columns: passengers are the rows of ``titanic``.
        """
        index = self.parts.index
        known = [*index.types, *index.relations, *(name for *_, name in self.properties)]
        said = any(names_class(self.question, one) for one in known)
        return "" if self.plain or said else self.parts.rows

    @cached_property
    def mentioned(self) -> set[str]:
        """The classes that the question mentions by name or by a value.

        Empty for a large schema.
        """
        if self.plain or self.parts.is_large:
            return set()
        held = {
            owner for value in self.values for kind, owner, _ in value.fields if kind != "relation"
        }
        return {*self.class_mentions, *held & self.classes.keys()}

    def node_words(self, pattern: Pattern, place: Place) -> list[int]:
        """Return the word positions of a property's owner: its class, or relations to it."""
        owner = place.ref.owner
        if isinstance(owner, HopRef):
            return self.mentions.of(pattern.hops[owner.hop].relation)
        found = self.class_words(pattern.nodes[owner.node])
        for hop in pattern.hops:
            if hop.target == owner.node:
                found = [*found, *self.mentions.of(hop.relation)]
        return found

    def is_name(self, place: Place) -> bool:
        """Return whether a property is its owner's name."""
        kind, owner, name = place.owned
        if kind != "class" or owner not in self.parts.index.types:
            return False
        type_ = self.parts.index.types[owner]
        return name in (type_.names or ("name", "title", type_.named_by))

    def places(self, pattern: Pattern) -> Iterator[Place]:
        """Yield the properties of a pattern's nodes and hops.

        Those without a score are left out.
        """
        for node, name in enumerate(pattern.nodes):
            for one in self.parts.index.properties(name).values():
                owner = name or self.parts.owner_of.get(one.name, "")
                if (owned := ("class", owner, one.name)) in self.properties:
                    yield Place(PropertyRef(NodeRef(node), one.name), one, owned)
        for number, hop in enumerate(pattern.hops):
            for one in self.parts.index.hop_properties(hop, pattern.nodes).values():
                if (owned := ("relation", hop.relation, one.name)) in self.properties:
                    yield Place(PropertyRef(HopRef(number), one.name), one, owned)


def _weighted(weights: Sequence[float], odds: Sequence[float]) -> list[float]:
    """Return the log-odds of each role by its weight."""
    return [weight * one for weight, one in zip(weights, odds, strict=True)]


def is_id(place: Place) -> bool:
    """Return whether a property is a key or a code: a number that is never compared."""
    return stems(place.property.name)[-1:] in (["id"], ["code"])
