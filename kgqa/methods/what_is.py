"""Questions about an entity's type ("What is X?"), and the types shown beside answers.

The edges that say so, which no path passes through, answer "What is X?".
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.answers.answer import Findings, RankedAnswer, ScoredPath, SearchUse, Timings
from kgqa.display import NOT_HERE, said_name
from kgqa.graph.literals import is_walked
from kgqa.graph.model import keys_array
from kgqa.graph.names import normalise
from kgqa.graph.schema import ROW, GraphSchema, PropertyGraph
from kgqa.graph.store import foresee
from kgqa.lexicon.lemmas import stem
from kgqa.linking.neighbourhood_features import stems_of
from kgqa.paths.ground import ground
from kgqa.paths.walk import FIRST, TAIL, WalkRules, walk
from kgqa.paths.words import relation_phrase
from kgqa.planning.question_words import blanked, does, names_class
from kgqa.queries.check import NUMBERS
from kgqa.understanding.asked import as_of, asked_of_one
from kgqa.understanding.direction import agent_is_head
from kgqa.weights import weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.answers.answer import Answer, TopicEntity
    from kgqa.graph.model import EntityDetails
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import PathEdge

WEIGHTS = weights("methods")
_ASKING = frozenset({"what", "who", "whats", "whos", "which"})
_KINDS = frozenset({"kind", "type", "sort", "class"})
_FILLER = frozenset(
    {"what", "who", "whats", "whos", "s", "which", "is", "are", "was", "were", "a", "an", "the"}
    | {"of", "thing", "things", "exactly", "this", "it"}
    | _KINDS
)
_WHETHER = frozenset({"is", "are", "was", "were"})
_MOST_TYPES = 5  # most types of an entity that answer "what is"
DESCRIBED = 10  # answers described with types and properties


def kind_findings(
    store: GraphStore,
    question: str,
    topics: Sequence[TopicEntity],
    form: PathFormat,
    *,
    whether: bool,
) -> Findings | None:
    """Answer "What is X?" or "Is X a town?" by X's types; None for other questions.

    ``whether``: it is a yes-or-no question about two topic entities. None also if X has no types.
    """
    by_edges = _by_edges(store, question, topics, form, whether=whether)
    return by_edges or (None if whether else _by_types(store, question, topics))


def _by_types(store: GraphStore, question: str, topics: Sequence[TopicEntity]) -> Findings | None:
    """Return the answer from an entity's own types, such as labels and tables.

    None if it has none or too many, or the question asks otherwise. A note, without an answer, if
    it is of another type than the question asks.
    """
    words, left = _asked(question, topics)
    whether = bool(left)
    if not words or words[0] not in (_WHETHER if whether else _ASKING):
        return None
    called = normalise(topics[0].mention)
    if not whether and "are" in words and called not in ("", normalise(topics[0].name)):
        return None  # "who are the tenors?" asks for the members of a class
    of = store.details(topics[0].key)
    names = of.types
    if not whether and _is_relation(store, _KINDS.intersection(words), topics[0].key):
        return None
    if whether:
        schema = store.schema() if isinstance(store, PropertyGraph) else GraphSchema((), ())
        asked = stems_of(" ".join(left))
        named = {
            type_.name
            for type_ in schema.types
            if asked in [stems_of(relation_phrase(name)) for name in (type_.name, *type_.also)]
        }
        if named and of.types and not named.intersection(of.types):
            kinds = ", ".join(map(relation_phrase, of.types))
            note = f"{NOT_HERE}: {said_name(topics[0].name)} is of another kind: {kinds}."
            sure = WEIGHTS["type_edge"]
            return Findings(notes=(note,), search=SearchUse("types"), confidence=sure)
        names = sorted(named)[:1]
    if not 0 < len(names) <= _MOST_TYPES:
        return None
    names = ["yes"] if whether else [relation_phrase(name) for name in names]
    share = 1 / len(names)
    return Findings(
        answers=tuple(RankedAnswer(None, name, share, True, **_described(of)) for name in names),
        search=SearchUse("types"),
        confidence=WEIGHTS["type_edge"],
    )


def _described(of: EntityDetails) -> dict[str, Any]:
    """Return the types and short properties that an answer shows of an entity."""
    shown = {name: value for name, value in of.properties.items() if is_walked(value)}
    return {"types": tuple(of.types), "properties": shown}


def _is_relation(store: GraphStore, kinds: frozenset[str], key: int) -> bool:
    """Return whether an entity has a relation out with one of the words ``kinds`` in its name."""
    names = store.relations().names
    steps = store.neighbours(keys_array([key]), "out").step if kinds else ()
    called = {names[int(step) // 2] for step in steps}
    return any(kinds & {*relation_phrase(one).split()} for one in called)


def _by_edges(
    store: GraphStore,
    question: str,
    topics: Sequence[TopicEntity],
    form: PathFormat,
    *,
    whether: bool,
) -> Findings | None:
    """Return the answer from an entity's type edges, which walks do not follow; None without one.

    ``whether``: whether one topic entity is of the type that the other one is.
    """
    words, left = _asked(question, topics)
    what = not left and words[:1] and words[0] in _ASKING
    if not store.info.type_relations or not (whether or what):
        return None
    began = time.perf_counter()
    ids = store.relations().ids
    known = [2 * ids.index(relation) for relation in store.info.type_relations if relation in ids]
    table, _ = walk(
        store,
        np.unique(keys_array([topic.key for topic in topics])),
        WalkRules(1, "out", types=True),
    )
    kept = np.isin(table.hops[:, 0, FIRST], known)
    if whether:
        kept &= np.isin(table.hops[:, 0, TAIL], [topic.key for topic in topics])
    paths = [one for one in ground(store, table.take(np.flatnonzero(kept)), form) if one]
    if not paths:
        return None
    tails = {path.tail.id: path.tail.name for path in paths}
    named = {None: "yes"} if whether else tails
    share = 1 / len(named)
    return Findings(
        answers=tuple(RankedAnswer(id_, name, share, True) for id_, name in named.items()),
        paths=tuple(
            ScoredPath(path.text, 0.0, "yes" if whether else path.tail.name, (path,))
            for path in paths
        ),
        timings=replace(Timings(), ground=time.perf_counter() - began),
        search=SearchUse("types"),
        confidence=WEIGHTS["type_edge"],
    )


def asked_class(question: str, schema: GraphSchema) -> str | None:
    """Return the class that a question's first noun names: "Which customers …" → Customer.

    For "who" it is the class of agents that the verb names: "Who drives …" → Driver. None if it
    names none; of several names the longest counts.
    """
    named = (
        type_.name
        for type_ in schema.types
        if any(
            names_class(question, name) or does(question, name)
            for name in (type_.name, *type_.also)
        )
    )
    return max(named, key=len, default=None)  # "ship city", not "ship"


def asks_number(question: str, schema: GraphSchema) -> bool:
    """Return whether the requested noun is the name of a numeric property: "How many units …"."""
    held = [type_.properties for type_ in schema.types] + [
        relation.properties for relation in schema.relations
    ]
    names = {
        property_.name
        for properties in held
        for property_ in properties
        if property_.type in NUMBERS
    }
    return any(names_class(question, relation_phrase(name).partition(" ")[0]) for name in names)


def only_of_class(store: GraphStore, found: Findings, class_: str, least: float) -> Findings | None:
    """Return the findings with only entities of a class; None if none is of it.

    Those with at least ``least`` times the best one's score are the answers. Confidence falls with
    its share of the first answer's score.
    """
    every = [answer for answer in (*found.answers, *found.others) if answer.id is not None]
    keys = store.keys_of([str(one.id) for one in every])
    foresee(store, keys[keys >= 0], "out")
    kept = [
        one
        for one, key in zip(every, keys.tolist(), strict=True)
        if key >= 0 and class_ in store.details(key).types
    ]
    if not kept:
        return None
    if kept[: len(found.answers)] == list(found.answers):
        return found
    kept.sort(key=lambda one: -one.score)
    best = kept[0].score
    share = best / found.answers[0].score if found.answers[0].score > 0 else 1.0
    answers = tuple(one for one in kept if one.score >= least * best)
    ids = {answer.id for answer in answers}
    paths = [path for path in found.paths if any(each.tail.id in ids for each in path.groundings)]
    return replace(
        found,
        answers=answers,
        others=tuple(kept[len(answers) :]),
        paths=tuple(paths),
        confidence=None if found.confidence is None else found.confidence * min(1.0, share),
    )


def without_rows(
    store: GraphStore, found: Findings, question: str, topics: Sequence[TopicEntity]
) -> Findings:
    """Return no answer if only rows without a name are found for a noun of one named entity.

    "What is Bo's email?" is answered by none of Bo's loans. Other findings are unchanged.
    """
    text = as_of(question)
    starts = [(text.find(one.mention), len(one.mention)) for one in topics if one.mention]
    spans = [(start, start + size) for start, size in starts if start >= 0]
    noun = asked_of_one(blanked(text, spans), spans) if len(spans) == 1 else ""
    ids = [one.id for one in found.answers if one.id is not None]
    if not noun or not ids or len(ids) < len(found.answers) or not isinstance(store, PropertyGraph):
        return found
    nameless = {one.name for one in store.schema().types if one.named_by and not one.names}
    keys = store.keys_of(ids).tolist()
    types = {name for key in keys if key >= 0 for name in store.details(key).types}
    if not types or not types <= nameless or {stem(noun.split()[-1])} & stems_of(" ".join(types)):
        return found
    note = f"{NOT_HERE}: {said_name(topics[0].name)} has no {noun}."
    return replace(
        found,
        answers=(),
        others=(*found.answers, *found.others),
        notes=(note, *found.notes),
        confidence=1.0 - (found.confidence or 0.0) / 2,
    )


def only_agents(store: GraphStore, found: Findings, noun: str) -> Findings | None:
    """Return the findings with only those answers that a noun such as "actor" names, if any is.

    Those have the relation that the noun says: actors acted in something. None if no relation says
    it, or all or none of the answers have it.
    """
    relations = store.relations()
    sides = {at: side for at, name in enumerate(relations.names)
             if (side := agent_is_head(noun, name)) is not None}  # fmt: skip
    keys = store.keys_of([str(one.id) for one in found.answers if one.id is not None])
    if not sides or len(keys) < max(2, len(found.answers)) or keys.min() < 0:
        return None
    agents = set[int]()
    for way, is_head in (("out", True), ("in", False)):
        near = store.neighbours(keys, way)  # type: ignore[arg-type]
        agents |= {row for row, step in zip(near.row.tolist(), near.step.tolist(), strict=True)
                   if sides.get(step // 2) is is_head}  # fmt: skip
    if not 0 < len(agents) < len(keys):
        return None
    kept = tuple(one for row, one in enumerate(found.answers) if row in agents)
    ids = {one.id for one in kept}
    paths = [path for path in found.paths if any(each.tail.id in ids for each in path.groundings)]
    note = (
        f"Of {len(keys)} answers, {len(agents)} are kept: "
        f"those that a fact of the graph shows to be {noun}."
    )
    return replace(found, answers=kept, paths=tuple(paths), notes=(*found.notes, note))


def described(store: GraphStore, answer: Answer) -> Answer:
    """Return an answer with the types and short properties of its first ``DESCRIBED`` entities.

    In a KG of tables, also with the rows that the best paths' facts come from.
    """
    ids = [one.id for one in answer.answers[:DESCRIBED] if one.id is not None]
    if not ids:
        return answer
    known: dict[str | None, dict[str, Any]] = {}
    keys = store.keys_of(ids)
    foresee(store, keys[keys >= 0], "out")
    for id_, key in zip(ids, keys.tolist(), strict=True):
        if key >= 0:
            known[id_] = _described(store.details(key))
    answers = tuple(replace(one, **known.get(one.id, {})) for one in answer.answers)
    answer = replace(answer, answers=answers)
    return _with_rows(store, answer) if store.info.loader == "tables" else answer


def _with_rows(store: GraphStore, answer: Answer) -> Answer:
    """Return an answer whose best paths' facts state the table and row that they come from.

    A fact that is a row itself states its own; others those of their head's row.
    """
    best = {id(one.paths[0]): one.paths[0] for one in answer.answers[:DESCRIBED] if one.paths}
    edges = [edge for path in best.values() for edge in path.edges]
    heads = {fact.head for edge in edges for fact in edge.facts if not edge.meant}
    rows = {}
    for id_, key in zip(heads, store.keys_of(list(heads)).tolist(), strict=True):
        held = store.details(key).properties if key >= 0 else {}
        rows[id_] = {name: held[name] for name in ROW if name in held}

    def sourced(edge: PathEdge) -> PathEdge:
        """Return a hop with the source rows of its facts; unchanged if they are rows themselves."""
        facts = [replace(one, properties=rows.get(one.head) or None) for one in edge.facts]
        return edge if edge.meant else replace(edge, facts=tuple(facts))

    paths = []
    for path in answer.paths:
        if id(path) in best:
            first = replace(path.groundings[0], edges=tuple(map(sourced, path.edges)))
            path = replace(path, groundings=(first, *path.groundings[1:]))
        paths.append(path)
    return replace(answer, paths=tuple(paths))


def _asked(question: str, topics: Sequence[TopicEntity]) -> tuple[list[str], set[str]]:
    """Return a question's words, and its content words without the topic entity's name.

    Both are empty if the question has not exactly one topic entity.
    """
    words = normalise(question).split()
    if len({topic.key for topic in topics}) != 1:
        return [], set()
    called = map(normalise, (topics[0].name, topics[0].mention, topics[0].id))
    own = {word for one in called if one in " ".join(words) for word in one.split()}
    return words if own.intersection(words) or "it" in words else [], set(words) - own - _FILLER
