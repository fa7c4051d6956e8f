"""Questions that list several output columns: the list is parsed apart and added to the plans.

"Show the name, country and age of all singers" asks which singers, and for three things of each;
"the average and maximum age" for two numbers of one set. What is left of the question is what the
plan scorer reads; the rest is added to what the plans give.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kgqa.errors import PlanError
from kgqa.lexicon.english import words as english_words
from kgqa.lexicon.lemmas import stem
from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import EACH, names_class, stems
from kgqa.planning.schema_parts import ENTITY
from kgqa.planning.two_step_plans import with_hop
from kgqa.queries.check import NUMBERS, check
from kgqa.queries.plan import Aggregate, AggregateKind, NodeRef, PropertyRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.planning.schema_parts import FoundValue, SchemaParts
    from kgqa.queries.plan import Plan

_NUMBER = r"(?:the )?(?:total )?(?:number|count)s?"
_NUMBER_OF = re.compile(r"(?:(?<=, )|(?<=\band ))(?:the )?number of (\w+)\b", re.I)
_OPEN = re.compile(
    r"\W*(?:(?:show|list|find|give|return|display|get|tell|report|count)(?: me| us| out)?"
    r"|(?:what|which)(?:'s| is| are| was| were))\s+(?:(?:all|the|distinct|different|unique)\s+)*",
    re.IGNORECASE,
)
_OF = re.compile(
    r"\s+(?:of|for)\s+(?:(?:all|each|every|any|the|of|those|these|different)\s+)*", re.I
)
_AND = re.compile(r"\s*,\s*(?:and\s+)?|\s+(?:and|along with|as well as|together with)\s+", re.I)
_AND_NUMBER = re.compile(rf"(.*?),? (?:and|along with|with) {_NUMBER} of (.+)", re.I)
_THEN = re.compile(
    r"(.+?[?.!])\s+(?:please )?(?:show|list|give|return|report|include)(?: me)?"
    r"\s+(?!(?:only )?(?:the )?(?:top|first|best|last|\d+)\b)(.+?)\W*",
    re.I,
)
_BACK = re.compile(r"(\bfrom (?:the )?\w+est) to (?:the )?\w+est\b", re.IGNORECASE)
_EACH = re.compile(r"\bfor (?:the )?different (?:numbers? of )?", re.IGNORECASE)
_KIND_OF = re.compile(r"\b(types?|kinds?) of (\w+)", re.IGNORECASE)
_SMALL = english_words("before_columns")
_KIND_WORDS: dict[AggregateKind, str] = {
    "average": "average mean avg",
    "sum": "total sum",
    "least": "minimum min lowest smallest least shortest",
    "most": "maximum max highest greatest largest longest",
}
_KINDS = {word: kind for kind, words in _KIND_WORDS.items() for word in words.split()}


class RequestedColumns(NamedTuple):
    """A question without its list of columns, and the listed columns and aggregates."""

    question: str
    items: tuple[str, ...] = ()


def asked_for(
    question: str, parts: SchemaParts, values: Sequence[FoundValue] = ()
) -> RequestedColumns:
    """Split a question from its list of output columns; it is then one that asks for the first.

    ``values``: stored values in the question. Without a list, the question is at most reworded, and
    the list is empty.
    """
    things = {  # whose names it says
        question[value.start : value.end]: owner
        for value in values for kind, owner, _ in value.fields if kind == ENTITY and owner
    }  # fmt: skip
    items: list[str] = []
    for name in sorted(parts.names):  # miles per gallon, of an MPG
        if 2 < len(name) < 6 and name.isalpha() and name.isupper():
            said = " ".join(rf"{letter}[a-z]+" for letter in name.lower())
            question = re.sub(rf"\b{said}\b(?: \({name}\))?", name, question)
    question = _EACH.sub("for each ", _BACK.sub(r"\1", question))
    if (kind := _KIND_OF.search(question)) and any(
        _stems(owned[2]) == [stem(kind[2].lower()), stem(kind[1].lower())]
        for owned in parts.properties
    ):  # the types of pets, of a pet type
        question = f"{question[: kind.start()]}{kind[2]} {kind[1]}{question[kind.end() :]}"
    for amount in reversed([*_NUMBER_OF.finditer(question)]):  # of beds, if there is a number
        if any(_stems(one.name) == [stem(amount[1].lower())] and one.type in NUMBERS
               for one, _ in parts.properties.values()):  # fmt: skip
            question = question[: amount.start()] + question[amount.start(1) :]
    if then := _THEN.fullmatch(question.strip()):
        question = then[1]
        items = [one for one in _AND.split(then[2]) if not re.search(r"\b(?:number|count)\b", one)]
    opened = _OPEN.match(question)
    rest = question[opened.end() :] if opened else ""
    for of in _OF.finditer(rest):
        listed, what = _AND.split(rest[: of.start()]), rest[of.end() :]
        kinds = [_kind(one) for one in listed]
        noun = next((words for _, words in reversed(kinds) if words), [])
        if any(len(words) > 4 for _, words in kinds):
            break
        if len(listed) > 1 and all(kind for kind, _ in kinds):
            full = [
                one if words else f"{one} {' '.join(noun)}"
                for one, (_, words) in zip(listed, kinds, strict=True)
            ]
            return RequestedColumns(f"What is the {full[0]}{rest[of.start() :]}", tuple(full))
        if re.fullmatch(_NUMBER, listed[-1], re.I):
            return RequestedColumns(f"How many {what}", (*listed[:-1], *items))
        of_thing = [owner for name, owner in things.items() if what.startswith(name)]
        class_ = _class_of(what, parts) or (of_thing[0] if of_thing and len(listed) > 1 else "")
        if class_ and all(not kind and _found(class_, words, parts) for kind, words in kinds):
            if number := _AND_NUMBER.fullmatch(what):
                each = "" if EACH.search(number[2]) else f" for each {number[1]}"
                return RequestedColumns(f"How many {number[2]}{each}", (*listed, *items))
            return RequestedColumns(f"Which {what}", (*listed, *items))
    return RequestedColumns(question, tuple(items))


def giving(plan: Plan, items: Sequence[str], parts: SchemaParts) -> Plan:
    """Return ``plan`` with the requested columns ``items`` added.

    Columns that the schema lacks are ignored; unchanged if the new plan would be malformed.
    """
    base, calculated = plan.give[0], [one for one in plan.give if isinstance(one, Aggregate)]
    rows: list[NodeRef | PropertyRef] = []
    numbers: list[Aggregate] = []
    wider = plan
    for kind, words in map(_kind, items):
        about = calculated[0].of if kind and calculated else base
        owner = about.owner if isinstance(about, PropertyRef) else about
        if not isinstance(owner, NodeRef) or (kind and not calculated):
            continue
        hop, name = _found(plan.nodes[owner.node], words, parts) or (None, None)
        if kind:
            of = PropertyRef(owner, name) if name and not hop else calculated[0].of
            numbers.append(Aggregate(kind, of))
        elif name is not None:
            if hop:
                wider, owner = with_hop(wider, owner.node, *hop)
            rows.append(PropertyRef(owner, name) if name else owner)
    if not rows and isinstance(base, NodeRef | PropertyRef):
        rows = [base]
    new = (row for row in rows if row not in wider.group)
    nodes = [one.owner if isinstance(one, PropertyRef) else one for one in new]
    group = wider.group and tuple(dict.fromkeys((*wider.group, *nodes)))
    give = tuple(dict.fromkeys((*rows, *numbers, *calculated)))
    with suppress(PlanError):
        wider = replace(wider, give=give, group=group) if items else plan
        check(wider, parts.index)
        return wider
    return plan


def _class_of(text: str, parts: SchemaParts) -> str:
    """Return the class whose name ``text`` begins with, "" if there is none."""
    nouns, asked = parts.called.nouns, f"Which {text}"
    named = [name for name in parts.index.types
             if names_class(asked, name) or names_class(asked, nouns.get(name, name))]  # fmt: skip
    return max(named, key=len, default="")


def _found(
    class_: str, words: Sequence[str], parts: SchemaParts
) -> tuple[tuple[str, str] | None, str] | None:
    """Return what ``words`` name: ((relation, tail) or None, property or ""); None for no match.

    ``(None, "")`` is the class's own name. ``class_``: the class that the relation or property
    belongs to.
    """
    asked = _stems(" ".join(words))
    own = _stems(class_)
    bare = [word for word in asked if word not in own] or asked
    known = {property_: _stems(property_) for property_ in parts.index.properties(class_)}
    for said in (asked, bare):
        for name, called in known.items():
            if said in (called, [word for word in called if word not in own]):
                return None, name
    if bare == ["name"] or bare == own:
        return None, ""
    for head, relation, tail in parts.hops:
        if head == class_ and tail:
            ends = {*_stems(relation), *_stems(tail)}
            rest = [word for word in asked if word not in ends]
            if len(rest) < len(asked) and (not rest or rest == ["name"]):
                return (relation, tail), ""
            for name in parts.index.properties(tail) if len(rest) < len(asked) else ():
                if rest == _stems(name):
                    return (relation, tail), name
    for name, called in known.items():  # the release year of a song
        if (len(bare) > 1 and {*bare} <= {*called}) or (bare == ["id"] == called[-1:]):
            return None, name
    return None


def _stems(name: str) -> list[str]:
    """Return the stemmed words of a name without function words."""
    said = relation_phrase(name).replace("gender", "sex")
    return [word for word in stems(said) if word not in _SMALL]


def _kind(item: str) -> tuple[AggregateKind | None, list[str]]:
    """Return the aggregate that a listed column asks for, None for none, and its other words."""
    words = [word for word in re.findall(r"\w+", item.lower()) if word not in _SMALL]
    if words and words[0] in _KINDS:
        return _KINDS[words[0]], words[1:]
    return None, words
