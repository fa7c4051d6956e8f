"""A UMLS release (RRF): concepts with names, types and definitions, and the relations of MRREL.

Direction: a row ``CUI1|REL|CUI2|RELA`` says what the *second* concept is to the *first*, so it is
the edge CUI2 → CUI1. Each pair of inverse rows is one edge. Semantic types are entities too (T047),
joined to their concepts and, where NET is given, to each other by ``isa``. What it does not do:
attributes (MRSAT), mappings, history, or the Semantic Network's other relations.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgqa.errors import DumpNotFoundError
from kgqa.graph.model import Kind
from kgqa.loaders.batches import edge_batches, entity_batches, relation_batches
from kgqa.loaders.lines import nothing_read
from kgqa.loaders.rrf import Release
from kgqa.loaders.rrf_relations import NOT_RELATED, REL_NAMES, Inverses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, Direction
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

SEMANTIC_TYPE_OF = "has_semantic_type"
_ISA = "isa"
_SUPPRESSED = frozenset("OEY")


@dataclass(frozen=True, slots=True)
class UmlsOptions:
    """How a release is read. ``language``: of names, as in MRCONSO's LAT."""

    language: str = "ENG"


@dataclass(slots=True)
class _Concept:
    """What MRCONSO, MRSTY and MRDEF say of one concept."""

    name: str
    rank: tuple[int, bool, bool, bool]
    strings: dict[str, None] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # TUI → name
    definition: tuple[str, str] | None = None  # text, source


class UmlsLoader:
    """Reads UMLS releases; see the module."""

    name = "umls"
    direction: Direction = "both"
    licence = "UMLS Metathesaurus License (sources keep their own terms)"
    where = "https://www.nlm.nih.gov/research/umls/licensedcontent/umlsknowledgesources.html"

    def __init__(self, options: UmlsOptions | None = None) -> None:
        self.options = options or UmlsOptions()

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield relations, entities, then edges. Raises DumpNotFoundError, DumpMalformedError."""
        release = Release(sources)
        if not release.has("MRCONSO"):
            names = ", ".join(str(source) for source in sources) or "nothing"
            raise DumpNotFoundError(
                f"There is no MRCONSO.RRF in {names}.",
                "Give the META folder of a UMLS release, or the folder that holds META and NET.",
            )
        release.learn_columns(report, rejects, progress)

        def rows(name: str, columns: str) -> Iterator[list[str]]:
            return release.rows(name, columns, report, rejects, progress)

        concepts = _concepts(rows, self.options.language, report)
        if not concepts:
            raise nothing_read("a UMLS concept (MRCONSO.RRF) with a name", sources, report)
        _describe(rows, concepts, report)
        types, hierarchy = _network(rows, report)
        for concept in concepts.values():
            for tui, name in concept.types.items():
                types.setdefault(tui, (name, "Semantic Type", None))
        edges = _relations(rows, concepts, report)
        yield from _batches(concepts, types, hierarchy, edges)


def _concepts(
    rows: Callable[[str, str], Iterator[list[str]]], language: str, report: Report
) -> dict[str, _Concept]:
    ranks: dict[tuple[str, str], int] = {}
    for rank, *atom in rows("MRRANK", "RANK SAB TTY"):
        if rank.isdecimal():  # an atom type stands twice where some of its strings are suppressed
            key = (atom[0], atom[1])
            ranks[key] = max(int(rank), ranks.get(key, -1))
    concepts: dict[str, _Concept] = {}
    dropped: Counter[str] = Counter()
    columns = "CUI LAT TS STT ISPREF SAB TTY STR SUPPRESS"
    for cui, lat, ts, stt, ispref, sab, tty, string, suppress in rows("MRCONSO", columns):
        if lat != language:
            dropped["other language"] += 1
        elif suppress in _SUPPRESSED:
            dropped["suppressed name"] += 1
        elif not string.strip():
            dropped["empty name"] += 1
        else:
            # The best source's term type wins; among its strings the preferred form does.
            quality = (ranks.get((sab, tty), -1), ts == "P", stt == "PF", ispref == "Y")
            concept = concepts.get(cui)
            if concept is None:
                concept = concepts[cui] = _Concept(string, quality)
            elif (quality, concept.name) > (concept.rank, string):  # a tie goes to the earlier text
                concept.name, concept.rank = string, quality
            concept.strings[string] = None
    report.dropped.update(dropped)
    return concepts


def _describe(
    rows: Callable[[str, str], Iterator[list[str]]], concepts: dict[str, _Concept], report: Report
) -> None:
    for cui, tui, name in rows("MRSTY", "CUI TUI STY"):
        if cui in concepts:
            concepts[cui].types[tui] = name
        else:
            report.dropped["semantic type of a concept without a name"] += 1
    for cui, sab, text, suppress in rows("MRDEF", "CUI SAB DEF SUPPRESS"):
        if suppress in _SUPPRESSED:
            report.dropped["suppressed definition"] += 1
        elif cui not in concepts:
            report.dropped["definition of a concept without a name"] += 1
        elif concepts[cui].definition is not None:
            report.dropped["further definition"] += 1
        else:
            concepts[cui].definition = (text, sab)


_TypeRow = tuple[str, str, str | None]  # name, what it is, definition


def _network(
    rows: Callable[[str, str], Iterator[list[str]]], report: Report
) -> tuple[dict[str, _TypeRow], list[tuple[str, str]]]:
    """Return the Semantic Network's types and relations by id, and the pairs (id, isa id)."""
    kinds = {"STY": "Semantic Type", "RL": "Semantic Relation"}
    types: dict[str, _TypeRow] = {}
    ids: dict[str, str] = {}
    for kind, ident, name, definition in rows("SRDEF", "RT UI STY_RL DEF"):
        types[ident] = (name, kinds.get(kind, kind), definition or None)
        ids[name] = ident
    hierarchy: list[tuple[str, str]] = []
    for narrow, relation, broad in rows("SRSTR", "STY_RL1 RL STY_RL2"):
        if relation != _ISA:
            report.dropped["semantic network: other than isa"] += 1
        elif not broad:
            report.dropped["semantic network: the top of a hierarchy"] += 1
        elif narrow not in ids or broad not in ids:
            report.dropped["semantic network: a name without a definition"] += 1
        else:
            hierarchy.append((ids[narrow], ids[broad]))
    return types, hierarchy


def _relations(
    rows: Callable[[str, str], Iterator[list[str]]], concepts: dict[str, _Concept], report: Report
) -> dict[tuple[str, str, str], set[str]]:
    """Return the edges (head, relation, tail), each with the sources that state it."""
    dropped: Counter[str] = Counter()
    inverses = Inverses()
    facts: dict[tuple[str, str, str], set[str]] = {}
    stated: list[tuple[str, str, str, str]] = []
    columns = "CUI1 AUI1 REL CUI2 AUI2 RELA SAB SUPPRESS"
    for cui1, aui1, rel, cui2, aui2, rela, sab, suppress in rows("MRREL", columns):
        if suppress in _SUPPRESSED:
            dropped["suppressed relation"] += 1
            continue
        if rel in NOT_RELATED:
            dropped["stated not to be related"] += 1
            continue
        relation = rela or rel
        # Rows about one concept, or one without a name, show inverses too.
        facts.setdefault((sab, aui1 or cui1, aui2 or cui2), set()).add(relation)
        if cui1 == cui2:
            dropped["relation of a concept to itself"] += 1
        elif cui1 not in concepts or cui2 not in concepts:
            dropped["relation with a concept without a name"] += 1
        else:
            stated.append((cui2, relation, cui1, sab))
    inverses.learn_documented(
        (value, inverse)
        for _, value, kind, inverse in rows("MRDOC", "DOCKEY VALUE TYPE EXPL")
        if kind in ("rel_inverse", "rela_inverse")
    )
    inverses.learn_from_rows(facts)
    edges: dict[tuple[str, str, str], set[str]] = {}
    for head, relation, tail, sab in stated:
        edge = inverses.canonical(head, relation, tail)
        if edge not in edges:
            edges[edge] = {sab}
        else:
            again = edge == (head, relation, tail)
            dropped["same relation again" if again else "inverse of a loaded row"] += 1
            edges[edge].add(sab)
    report.dropped.update(dropped)
    return edges


def _batches(
    concepts: dict[str, _Concept],
    types: dict[str, _TypeRow],
    hierarchy: list[tuple[str, str]],
    edges: dict[tuple[str, str, str], set[str]],
) -> Iterator[Batch]:
    names = dict.fromkeys([SEMANTIC_TYPE_OF, _ISA, *(relation for _, relation, _ in edges)])
    yield from relation_batches((name, REL_NAMES.get(name, name)) for name in names)
    yield from entity_batches(
        (
            cui,
            concept.name,
            [string for string in concept.strings if string != concept.name],
            Kind.ENTITY,
            list(concept.types.values()),
            _definition(*concept.definition) if concept.definition else None,
        )
        for cui, concept in concepts.items()
    )
    yield from entity_batches(
        (tui, name, None, Kind.ENTITY, [kind], _definition(text, "NET") if text else None)
        for tui, (name, kind, text) in types.items()
    )
    yield from edge_batches(
        (*edge, json.dumps({"sources": sorted(sources)})) for edge, sources in edges.items()
    )
    yield from edge_batches(
        (cui, SEMANTIC_TYPE_OF, tui, None) for cui in concepts for tui in concepts[cui].types
    )
    yield from edge_batches((narrow, _ISA, broad, None) for narrow, broad in hierarchy)


def _definition(text: str, source: str) -> str:
    return json.dumps({"definition": text, "definition_source": source}, ensure_ascii=False)
