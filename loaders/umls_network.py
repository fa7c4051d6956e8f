"""The Semantic Network (NET) of a UMLS release: its types and relations, and what is what.

What it does not do: relations of the network other than ``isa``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections import Counter

    from kgqa.loaders.rrf import Release

_ISA = "isa"
_KINDS = {"STY": "Semantic Type", "RL": "Semantic Relation"}

TypeRow: TypeAlias = tuple[str, str, str | None]  # name, what it is, definition


def read_network(
    release: Release, dropped: Counter[str]
) -> tuple[dict[str, TypeRow], list[tuple[str, str]]]:
    """Return the Semantic Network's types and relations by id, and the pairs (id, isa id)."""
    types: dict[str, TypeRow] = {}
    ids: dict[str, str] = {}
    for kind, ident, name, text in release.rows("SRDEF", "RT UI STY_RL DEF"):
        types[ident] = (name, _KINDS.get(kind, kind), text or None)
        ids[name] = ident
    hierarchy: list[tuple[str, str]] = []
    for narrow, relation, broad in release.rows("SRSTR", "STY_RL1 RL STY_RL2"):
        if relation != _ISA:
            dropped["semantic network: other than isa"] += 1
        elif not broad:
            dropped["semantic network: the top of a hierarchy"] += 1
        elif narrow not in ids or broad not in ids:
            dropped["semantic network: a name without a definition"] += 1
        else:
            hierarchy.append((ids[narrow], ids[broad]))
    return types, hierarchy


def definition(text: str, source: str) -> str:
    """Return a definition and where it is from, as the JSON of an entity's properties."""
    return json.dumps({"definition": text, "definition_source": source}, ensure_ascii=False)
