"""Resolves an entity that the user gave by id or name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgqa.display import said_entity, said_name
from kgqa.errors import EntityNotFoundError
from kgqa.graph.names import name_form
from kgqa.graph.schema import PropertyGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.graph.store import GraphStore

_NAME_OVER_ALIAS = 4  # a name weighs as much as an alias of an entity with four times its edges
_MOST_ROWS = 100  # of one name that are all meant
_LOOKED_AT = 200  # characters of an unknown name that like ones are looked for by
_MID = re.compile(r"^(?:<?http://rdf\.freebase\.com/ns/|ns:|fb:|/)?([mg])[./](\w+)>?$")


@dataclass(frozen=True, slots=True)
class Other:
    """Another entity of the same name as the resolved one."""

    id: str
    name: str
    degree: int


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved entity; ``others`` share its name, those with most edges first.

    ``by``: whether the text was an ``id``, a ``name`` or an ``alias``.
    """

    key: int
    id: str
    name: str
    by: str
    others: list[Other] = field(default_factory=list)


def resolve_entity(store: GraphStore, text: str) -> Resolution:
    """Return the entity whose id, name or alias is ``text``.

    An id takes precedence over a name (Freebase ids in any usual spelling: ``m.0abc``, ``/m/0abc``,
    ``ns:m.0abc``). Of several entities with the name, the one with most edges is chosen, names
    before aliases; the rest are in ``others``. Raises EntityNotFoundError with the nearest names.
    """
    asked = text.strip()
    if not asked:
        raise EntityNotFoundError("The entity is empty.", "Give an id or a name, such as Paris.")
    for spelling in _spellings(asked):
        if (by_id := store.keys_of([spelling]))[0] >= 0:
            entity = store.entities(by_id)
            return Resolution(int(by_id[0]), entity.ids[0], entity.label(0), "id")
    form = name_form(asked)
    keys = store.find_names([form])[1] if form else store.keys_of([])
    if len(keys) == 0:
        raise _unknown(store, asked)
    entities = store.entities(keys)
    degrees = store.degrees(keys).tolist()
    named = [name_form(name or "") == form for name in entities.names]
    order = sorted(
        range(len(entities)),
        key=lambda row: (
            -(1 + degrees[row]) * (_NAME_OVER_ALIAS if named[row] else 1),
            entities.names[row] != asked,
            entities.ids[row],
        ),
    )
    best = order[0]
    others = [Other(entities.ids[row], entities.label(row), degrees[row]) for row in order[1:]]
    by = "name" if named[best] else "alias"
    return Resolution(int(keys[best]), entities.ids[best], entities.label(best), by, others)


def rows_of_name(store: GraphStore, key: int, name: str) -> list[int]:
    """Return the keys of the rows of a table that have a row's name, its own ``key`` first.

    "Which films did Tom Hanks win for?" means each of his rows. Only ``key`` for entities that are
    not called by a column of their table, and for a name that very many rows have.
    """
    if not isinstance(store, PropertyGraph):
        return [key]
    called = {type_.name for type_ in store.schema().types if type_.named_by}
    called &= {*store.details(key).types} if called else set()  # no request of a database
    keys = store.find_names([name])[1].tolist() if called else []
    rows = [key, *(one for one in keys if one != key and called & {*store.details(one).types})]
    return rows if len(rows) <= _MOST_ROWS else [key]


def resolve_entities(store: GraphStore, texts: Sequence[str]) -> list[Resolution]:
    """Return the distinct entities of ``texts``, in their order; two texts may name the same one.

    Raises EntityNotFoundError for the first text without an entity.
    """
    resolutions: dict[int, Resolution] = {}
    for text in texts:
        resolution = resolve_entity(store, text)
        resolutions.setdefault(resolution.key, resolution)
    return list(resolutions.values())


def _spellings(text: str) -> list[str]:
    """Return the ids that ``text`` may be: itself, and usual spellings of a Freebase id."""
    match = _MID.match(text)
    if match is None:
        return [text]
    letter, rest = match.groups()
    return list(dict.fromkeys([text, f"{letter}.{rest}", f"/{letter}/{rest}"]))


def _unknown(store: GraphStore, asked: str) -> EntityNotFoundError:
    """Return the error that names the nearest entities and how to look for more."""
    near = store.entities(store.suggest(asked[:_LOOKED_AT], 5))
    listed = ", ".join(
        said_entity(name, id_) if name and name != id_ else said_name(id_)
        for id_, name in zip(near.ids, near.names, strict=True)
    )
    nearest = f"The nearest names are {listed}." if listed else "No similar names."
    return EntityNotFoundError(
        f'No entity of the KG "{store.info.name}" has the id or name {said_name(asked)}.',
        f'{nearest} Look for it with: kgqa link "a question or a name".',
    )
