"""What a question's answers, choices and topic entities are in a KG: texts of a file → entity ids.

A known id stands for itself; else the file's name for it, or the text as a name or literal.
Entities that share a name are one answer. What the KG does not know stays, and is missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kgqa.graph.store import GraphStore
    from kgqa.questions.base import Question

_TYPES = ("date", "dateTime", "gYear", "gYearMonth", "integer", "int", "float", "double", "decimal")


@dataclass(frozen=True, slots=True)
class Meanings:
    """The entities that texts mean in a KG: distinct ``ids`` and their ``names``.

    ``same``: the index in ``ids`` of each id with that meaning, such as another entity of the same
    name.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    same: Mapping[str, str]
    unknown: frozenset[str]  # the entries of ids that the KG does not know

    def canonical(self, ids: Sequence[str]) -> list[str]:
        """Map ``ids`` to their representatives in ``self.ids``, without repetition.

        Other ids stay as they are.
        """
        return list(dict.fromkeys(self.same.get(id_, id_) for id_ in ids))


def meanings_of(store: GraphStore, texts: Sequence[str], names: Mapping[str, str]) -> Meanings:
    """Resolve ``texts`` to entities of ``store``; ``names``: the file's names by id.

    Texts that mean the same entities are one; a text that the KG lacks stands for itself.
    """
    groups = _entities_by_text(store, texts, names)
    same: dict[str, str] = {}
    ids: list[str] = []
    shown: list[str] = []
    unknown = set()
    for text in texts:
        group = groups.get(text) or [(text, names.get(text, text))]
        if any(id_ in same for id_, _ in group):  # another text means it too
            for id_, _ in group:
                same.setdefault(id_, same[next(o for o, _ in group if o in same)])
            continue
        first, name = group[0]
        ids.append(first)
        shown.append(name)
        same.update((id_, first) for id_, _ in group)
        if text not in groups:
            unknown.add(first)
    return Meanings(tuple(ids), tuple(shown), same, frozenset(unknown))


def known_topics(store: GraphStore, question: Question) -> list[str]:
    """Return the topic entities that the KG has, by id or name; all if it has none of them."""
    names = question.names
    groups = _entities_by_text(store, question.topic_entities, names)
    nodes = [
        # by id if the id is known; a name is left to be resolved to the best connected of it
        text if groups[text][0][0] == text else names.get(text, text)
        for text in question.topic_entities
        if text in groups
    ]
    return nodes or list(question.topic_entities)


def _entities_by_text(
    store: GraphStore, texts: Sequence[str], names: Mapping[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """Return (id, name) of the entities that each text may mean: by id, name or literal.

    The first of these that finds any decides; texts that the KG lacks are missing.
    """
    groups: dict[str, list[tuple[str, str]]] = {}

    def add_known_ids(spellings: Mapping[str, Sequence[str]]) -> None:
        """Add the entities whose ids are among a text's spellings."""
        asked = [(text, spelling) for text, many in spellings.items() for spelling in many]
        keys = store.keys_of([spelling for _, spelling in asked])
        batch = store.entities(keys[keys >= 0])
        rows = iter(range(len(batch)))
        for (text, _), key in zip(asked, keys.tolist(), strict=True):
            if key >= 0:
                row = next(rows)
                groups.setdefault(text, []).append((batch.ids[row], batch.label(row)))

    add_known_ids({text: [text] for text in texts})
    left = [text for text in dict.fromkeys(texts) if text not in groups]
    if not left:
        return groups
    # in a KG whose ids are its names, the file's name is the id
    add_known_ids({text: [names[text]] for text in left if text in names})
    left = [text for text in left if text not in groups]
    forms = [normalise(names.get(text, text)) for text in left]
    named = [place for place, form in enumerate(forms) if form]
    rows, keys = store.find_names([forms[place] for place in named])
    batch = store.entities(keys)
    for number, row in enumerate(rows.tolist()):
        text = left[named[row]]
        groups.setdefault(text, []).append((batch.ids[number], batch.label(number)))
    for text in left:
        # a name as it is written comes before one that is only like it, or an alias
        exact = [entity for entity in groups.get(text, []) if entity[1] == names.get(text, text)]
        if exact:
            groups[text] = exact
    add_known_ids(
        {
            text: [f'"{text}"', f'"{text}"@en', *(f'"{text}"^^xsd:{kind}' for kind in _TYPES)]
            for text in left
            if text not in groups
        }
    )
    return groups
