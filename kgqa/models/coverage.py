"""How much of a KG a model knows: by its relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOSTLY = 0.5  # part of a KG's relations from which a model suits it


def known_part(known: Collection[str], relations: Sequence[str]) -> float:
    """Return the part of a KG's ``relations`` (ids, not edges) that a model knows; of none 1.

    ``known``: ids of relations, or what stands before their first dot ("people").
    """
    ids = frozenset(known)
    found = sum(one in ids or one.partition(".")[0] in ids for one in relations)
    return found / len(relations) if relations else 1.0


def suits(known: Collection[str], relations: Sequence[str]) -> bool:
    """Return whether a model knows most of a KG's ``relations``; one of no KG in particular does.

    What a model knows is as in :func:`known_part`.
    """
    return not known or known_part(known, relations) >= MOSTLY
