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
    from collections.abc import Mapping, Sequence

    from kgqa.planning.schema_parts import FoundValue, SchemaParts
    from kgqa.queries.plan import Item, Plan

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
    question = _reworded(question, parts)
    items: list[str] = []
    if then := _THEN.fullmatch(question.strip()):
        question = then[1]
        items = [one for one in _AND.split(then[2]) if not re.search(r"\b(?:number|count)\b", one)]
    opened = _OPEN.match(question)
    rest = question[opened.end() :] if opened else ""
    for of in _OF.finditer(rest):
        listed, what = _AND.split(rest[: of.start()]), rest[of.end() :]
        kinds = list(map(_kind, listed))
        if any(len(words) > 4 for _, words in kinds):
            break
        if len(listed) > 1 and all(kind for kind, _ in kinds):
            noun = next((words for _, words in reversed(kinds) if words), [])
            full = [one if words else " ".join([one, *noun])
                    for one, (_, words) in zip(listed, kinds, strict=True)]  # fmt: skip
            return RequestedColumns(f"What is the {full[0]}{rest[of.start() :]}", tuple(full))
        if re.fullmatch(_NUMBER, listed[-1], re.I):
            return RequestedColumns(f"How many {what}", (*listed[:-1], *items))
        if _are_columns(kinds, what, things, parts):
            return RequestedColumns(_of_rows(what), (*listed, *items))
    return RequestedColumns(question, tuple(items))


def _reworded(question: str, parts: SchemaParts) -> str:
    """Return a question with the phrases that the schema has a name for replaced by it."""
    for name in sorted(parts.names):  # miles per gallon, of an MPG
        if 2 < len(name) < 6 and name.isalpha() and name.isupper():
            said = " ".join(rf"{letter}[a-z]+" for letter in name.lower())
            question = re.sub(rf"\b{said}\b(?: \({name}\))?", name, question)
    question = _EACH.sub("for each ", _BACK.sub(r"in order \1", question))

    def types(*words: str) -> set[str]:
        """Return the types of the properties whose name is these words."""
        asked, properties = [stem(word.lower()) for word in words], parts.properties.values()
        return {one.type for one, _ in properties if _stems(one.name) == asked}

    def named(kind: re.Match[str]) -> str:
        """Return the types of pets as pet types, if there is such a property."""
        return f"{kind[2]} {kind[1]}" if types(kind[2], kind[1]) else kind[0]

    def counted(amount: re.Match[str]) -> str:
        """Return the number of beds as beds, if that is a number."""
        return amount[1] if types(amount[1]) & {*NUMBERS} else amount[0]

    return _NUMBER_OF.sub(counted, _KIND_OF.sub(named, question))


def _are_columns(
    kinds: Sequence[tuple[AggregateKind | None, Sequence[str]]], what: str,
    things: Mapping[str, str], parts: SchemaParts,
) -> bool:  # fmt: skip
    """Return whether listed words are columns of the class, or of the thing, that ``what`` names.

    ``kinds``: the words, see :func:`_kind`; ``things``: the classes of named entities. A lone
    column of a thing is not a list.
    """
    named = [owner for name, owner in things.items() if what.startswith(name) and len(kinds) > 1]
    class_ = _class_of(what, parts) or next(iter(named), "")
    return bool(class_) and all(not kind and _found(class_, words, parts) for kind, words in kinds)


def _of_rows(what: str) -> str:
    """Return the question for the rows whose columns are listed apart."""
    number = _AND_NUMBER.fullmatch(what)
    if number is None:
        return f"Which {what}"
    each = "" if EACH.search(number[2]) else f" for each {number[1]}"
    return f"How many {number[2]}{each}"


def giving(plan: Plan, items: Sequence[str], parts: SchemaParts) -> Plan:
    """Return ``plan`` with the requested columns ``items`` added.

    Columns that the schema lacks are ignored; unchanged if the new plan would be malformed.
    """
    if not items:
        return plan
    base, calculated = plan.give[0], [one for one in plan.give if isinstance(one, Aggregate)]
    asked = list(map(_kind, items))
    wider, rows = _with_rows(plan, base, [words for kind, words in asked if not kind], parts)
    numbers: list[Aggregate] = []
    owner = _owner(calculated[0].of) if calculated else None
    for kind, words in asked:
        if kind and owner is not None:
            hop, name = _found(plan.nodes[owner.node], words, parts) or (None, "")
            of = PropertyRef(owner, name) if name and not hop else calculated[0].of
            numbers.append(Aggregate(kind, of))
    new = (row for row in rows if row not in wider.group)
    nodes = [one.owner if isinstance(one, PropertyRef) else one for one in new]
    group = wider.group and tuple(dict.fromkeys((*wider.group, *nodes)))
    give = tuple(dict.fromkeys((*rows, *numbers, *calculated)))
    with suppress(PlanError):
        wider = replace(wider, give=give, group=group)
        check(wider, parts.index)
        return wider
    return plan


def _with_rows(
    plan: Plan, base: Item, columns: Sequence[Sequence[str]], parts: SchemaParts
) -> tuple[Plan, list[NodeRef | PropertyRef]]:
    """Return a plan with the hops that columns need, and what it gives of each row.

    ``base``: what it gives first, which it also does if the schema has none of the ``columns``.
    """
    rows: list[NodeRef | PropertyRef] = []
    owner = _owner(base)
    for words in columns:
        if owner is not None and (found := _found(plan.nodes[owner.node], words, parts)):
            hop, name = found
            plan, node = with_hop(plan, owner.node, *hop) if hop else (plan, owner)
            rows.append(PropertyRef(node, name) if name else node)
    if not rows and isinstance(base, NodeRef | PropertyRef):
        rows = [base]
    return plan, rows


def _owner(item: object) -> NodeRef | None:
    """Return the node that a plan's item is, or is a property of; None for others."""
    owner = item.owner if isinstance(item, PropertyRef) else item
    return owner if isinstance(owner, NodeRef) else None


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
    asked, own = _stems(" ".join(words)), _stems(class_)
    bare = _less(asked, own)
    if (name := _property_called(class_, asked, parts)) is not None:
        return None, name
    if bare in (["name"], own):
        return None, ""
    for head, relation, tail in parts.hops:
        rest = [word for word in asked if word not in {*_stems(relation), *_stems(tail)}]
        if head == class_ and tail and len(rest) < len(asked):
            if rest in ([], ["name"]):
                return (relation, tail), ""
            if (name := _property_called(tail, rest, parts)) is not None:
                return (relation, tail), name
    for name in parts.index.properties(class_):  # the release year of a song
        called = _stems(name)
        if (len(bare) > 1 and {*bare} <= {*called}) or (bare == ["id"] == called[-1:]):
            return None, name
    return None


def _property_called(class_: str, asked: list[str], parts: SchemaParts) -> str | None:
    """Return the property of a class with a name of the stems ``asked``, None if there is none.

    The words of the class itself may be left out, or said besides.
    """
    own = _stems(class_)
    for said in (asked, _less(asked, own)):
        for name in parts.index.properties(class_):
            called = _stems(name)
            if said in (called, _less(called, own)):
                return name
    return None


def _less(words: list[str], others: Sequence[str]) -> list[str]:
    """Return words without ``others``; as they are if nothing else is left."""
    return [word for word in words if word not in others] or words


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
