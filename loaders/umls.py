"""A UMLS release (RRF): concepts with names, types and definitions, and the relations of MRREL.

Direction: a row ``CUI1|REL|CUI2|RELA`` says what the *second* concept is to the *first*, so it is
the edge CUI2 → CUI1. Each pair of inverse rows is one edge. Semantic types are entities too (T047),
joined to their concepts and, where NET is given, to each other by ``isa``. Names go by in blocks;
kept in memory are a byte for each possible concept and ten for each row of MRREL. What it does not
do: attributes (MRSAT), mappings, history, or the Semantic Network's other relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpNotFoundError
from kgqa.graph.model import EdgeBatch, EntityBatch, NameBatch, TypeBatch, TypeRules
from kgqa.loaders.batches import edge_batch, entity_batch, relation_batch
from kgqa.loaders.rrf import Release
from kgqa.loaders.rrf_relations import NOT_RELATED, REL_NAMES, Inverses, MirroredRows
from kgqa.loaders.sources import nothing_read
from kgqa.loaders.umls_ids import Cuis, CuiSet, hashes
from kgqa.loaders.umls_network import TypeRow, definition, read_network
from kgqa.loaders.umls_relations import RelationRows
from kgqa.loaders.umls_sources import check_sources, read_sources

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, BoolArray, Direction, IntArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.progress import Progress

SEMANTIC_TYPE_OF = "has_semantic_type"
_ISA = "isa"
_SUPPRESSED = ("O", "E", "Y")


@dataclass(frozen=True, slots=True)
class UmlsOptions:
    """How a release is read.

    ``language``: of names, as in MRCONSO's LAT. ``sources``: the vocabularies (SAB, with commas
    between them) whose names, definitions and relations are kept; all where it is None. Semantic
    types belong to concepts, whatever their sources.
    """

    language: str = "ENG"
    sources: str | None = None


class UmlsLoader:
    """Reads UMLS releases; see the module."""

    name = "umls"
    direction: Direction = "both"
    licence = "UMLS Metathesaurus License (sources keep their own terms)"
    where = "https://www.nlm.nih.gov/research/umls/licensedcontent/umlsknowledgesources.html"

    def __init__(self, options: UmlsOptions | None = None) -> None:
        """Take options. Raises UsageError where one has no sense."""
        self.options = options or UmlsOptions()
        given = self.options.sources
        self._sources = None if given is None else read_sources(given)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield names, types and definitions, then edges, and relations at the end.

        A source is a folder, an archive or a file of a release. Raises DumpNotFoundError,
        DumpMalformedError, and UsageError for a vocabulary that the release does not have.
        """
        release = Release(sources, report, rejects, progress)
        if not release.has("MRCONSO"):
            names = ", ".join(str(source) for source in sources) or "nothing"
            raise DumpNotFoundError(
                f"There is no MRCONSO.RRF in {names}.",
                "Give the META folder of a UMLS release, or the folder that holds META and NET.",
            )
        release.learn_columns()
        if self._sources is not None:
            check_sources(self._sources, release)
        reading = _Reading(release, self.options.language, self._sources, report.dropped)
        yield TypeRules(frozenset(), shown=_every_type)
        yield from reading.names()
        if not reading.concepts:
            raise nothing_read("a UMLS concept (MRCONSO.RRF) with a name", sources, report)
        types, hierarchy = read_network(release, report.dropped)
        used = {_ISA} if hierarchy else set()
        for batch in reading.types(types):
            if isinstance(batch, EdgeBatch):
                used.add(SEMANTIC_TYPE_OF)
            yield batch
        yield entity_batch(
            list(types),
            name=[name for name, _, _ in types.values()],
            types=[[kind] for _, kind, _ in types.values()],
            properties=[definition(text, "NET") if text else None for *_, text in types.values()],
        )
        yield edge_batch([pair[0] for pair in hierarchy], _ISA, [pair[1] for pair in hierarchy])
        yield from reading.definitions()
        yield from reading.relations(used)
        yield relation_batch({name: REL_NAMES.get(name, name) for name in sorted(used)})


def _every_type(name: str) -> bool:
    return True


class _Reading:
    """One reading of a release's files. ``concepts``: those that have a name."""

    def __init__(
        self,
        release: Release,
        language: str,
        sources: frozenset[str] | None,
        dropped: Counter[str],
    ) -> None:
        self.concepts = CuiSet()
        self._release = release
        self._language = language
        self._sources = sources
        self._dropped = dropped
        self._cuis = Cuis()

    def names(self) -> Iterator[EntityBatch | NameBatch]:
        """Yield each concept once, and the names of concepts, the best ranked the lowest."""
        ranks = self._ranks()
        columns = "CUI LAT TS STT ISPREF SAB TTY STR SUPPRESS"
        for rows in self._release.batches("MRCONSO", columns):
            rows = self._left(rows, "other language", pc.not_equal(rows["LAT"], self._language))
            rows = self._left(rows, "suppressed name", _suppressed(rows))
            rows = self._of_sources(rows)
            blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(rows["STR"])), 0)
            rows = self._left(rows, "empty name", blank)
            rows = self._left(rows, "name without a concept", pc.equal(rows["CUI"], ""))
            if not len(rows):
                continue
            new = self.concepts.new(self._cuis.encode(rows["CUI"]))
            yield entity_batch(rows["CUI"].filter(pa.array(new)))
            rank = pa.array(self._rank(rows, ranks))
            named = {"id": rows["CUI"], "text": rows["STR"], "rank": rank}
            yield NameBatch(pa.RecordBatch.from_pydict(named))

    def types(self, known: dict[str, TypeRow]) -> Iterator[TypeBatch | EdgeBatch]:
        """Yield the semantic types of concepts; one that is not ``known`` yet is put there."""
        for rows in self._release.batches("MRSTY", "CUI TUI STY"):
            rows = self._left(
                rows,
                "semantic type of a concept without a name",
                pa.array(~self.concepts.has(self._cuis.encode(rows["CUI"]))),
            )
            if not len(rows):
                continue
            pairs = pa.table([rows["TUI"], rows["STY"]], names=["TUI", "STY"])
            for pair in pairs.group_by(["TUI", "STY"], use_threads=False).aggregate([]).to_pylist():
                known.setdefault(pair["TUI"], (pair["STY"], "Semantic Type", None))
            yield TypeBatch(pa.record_batch({"id": rows["CUI"], "type": rows["STY"]}))
            yield edge_batch(rows["CUI"], SEMANTIC_TYPE_OF, rows["TUI"])

    def definitions(self) -> Iterator[Batch]:
        """Yield the first definition of each concept."""
        defined = CuiSet()
        for rows in self._release.batches("MRDEF", "CUI SAB DEF SUPPRESS"):
            rows = self._left(rows, "suppressed definition", _suppressed(rows))
            rows = self._of_sources(rows)
            codes = self._cuis.encode(rows["CUI"])
            named = self.concepts.has(codes)
            rows = self._left(rows, "definition of a concept without a name", pa.array(~named))
            first = defined.new(codes[named])
            rows = self._left(rows, "further definition", pa.array(~first))
            told = map(definition, rows["DEF"].to_pylist(), rows["SAB"].to_pylist())
            yield entity_batch(rows["CUI"], properties=list(told))

    def relations(self, used: set[str]) -> Iterator[EdgeBatch]:
        """Yield the edges between concepts; their relations are put into ``used``."""
        inverses = Inverses()
        inverses.learn_documented(
            (value, inverse)
            for _, value, kind, inverse in self._release.rows("MRDOC", "DOCKEY VALUE TYPE EXPL")
            if kind in ("rel_inverse", "rela_inverse")
        )
        kept = RelationRows(self._cuis)
        mirrored = MirroredRows()
        columns = "CUI1 AUI1 REL CUI2 AUI2 RELA SAB SUPPRESS"
        for rows in self._release.batches("MRREL", columns):
            rows = self._left(rows, "suppressed relation", _suppressed(rows))
            rows = self._left(rows, "stated not to be related", _one_of(rows["REL"], NOT_RELATED))
            rows = self._of_sources(rows)
            if not len(rows):
                continue
            relation = _or(rows["RELA"], rows["REL"])
            # Rows about one concept, or one without a name, show inverses too.
            _learn(mirrored, rows, relation, inverses)
            first, second = (self._cuis.encode(rows[name]) for name in ("CUI1", "CUI2"))
            same = first == second
            named = self.concepts.has(first) & self.concepts.has(second)
            self._count("relation of a concept to itself", same)
            self._count("relation with a concept without a name", ~same & ~named)
            stay = np.flatnonzero(~same & named)
            chosen = pa.array(stay)
            kept.add(second[stay], relation.take(chosen), first[stay], rows["SAB"].take(chosen))
        inverses.learn_from_rows(mirrored)
        yield from kept.edges(inverses, used, self._dropped)

    def _ranks(self) -> dict[tuple[str, str], int]:
        """Return for each source and term type its place among all, the best 0."""
        given: dict[tuple[str, str], int] = {}
        for rank, *atom in self._release.rows("MRRANK", "RANK SAB TTY"):
            if rank.isdecimal():  # stands twice where some of its strings are suppressed
                key = (atom[0], atom[1])
                given[key] = max(int(rank), given.get(key, -1))
        places = {rank: place for place, rank in enumerate(sorted(set(given.values()))[::-1])}
        return {key: places[rank] for key, rank in given.items()}

    def _rank(self, rows: pa.RecordBatch, ranks: dict[tuple[str, str], int]) -> IntArray:
        """Return the rank of names: the best source's term type, then the preferred form."""
        sab, tty = (rows[name].dictionary_encode() for name in ("SAB", "TTY"))
        places = np.array(
            [
                [ranks.get((source, kind), len(ranks)) for kind in tty.dictionary.to_pylist()]
                for source in sab.dictionary.to_pylist()
            ],
            dtype=np.int64,
        )
        rank: IntArray = places[sab.indices.to_numpy(), tty.indices.to_numpy()]
        for column, preferred in (("TS", "P"), ("STT", "PF"), ("ISPREF", "Y")):
            rank = rank * 2 + _mask(pc.not_equal(rows[column], preferred))
        return rank

    def _of_sources(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._sources is None:
            return rows
        return self._left(rows, "other source", pc.invert(_one_of(rows["SAB"], self._sources)))

    def _left(self, rows: pa.RecordBatch, reason: str, out: pa.Array) -> pa.RecordBatch:
        """Return ``rows`` without those that are ``out``, which are counted."""
        if not self._count(reason, _mask(out)):
            return rows
        return rows.filter(pc.invert(out))

    def _count(self, reason: str, out: BoolArray) -> int:
        count = int(np.count_nonzero(out))
        if count:
            self._dropped[reason] += count
        return count


def _learn(
    mirrored: MirroredRows, rows: pa.RecordBatch, relation: pa.Array, inverses: Inverses
) -> None:
    """Show rows to ``mirrored`` whose relation has no inverse in any document."""
    unknown = [name for name in pc.unique(relation).to_pylist() if inverses.of(name) is None]
    if not unknown:
        return
    chosen = _one_of(relation, unknown)
    rows, relation = rows.filter(chosen), relation.filter(chosen)
    first, second = (hashes(_or(rows[f"AUI{end}"], rows[f"CUI{end}"])) for end in (1, 2))
    mirrored.add(hashes(rows["SAB"]), first, second, relation)


def _suppressed(rows: pa.RecordBatch) -> pa.Array:
    return _one_of(rows["SUPPRESS"], _SUPPRESSED)


def _one_of(values: pa.Array, wanted: Iterable[str]) -> pa.Array:
    return pc.is_in(values, pa.array(sorted(wanted), type=pa.string()))


def _or(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return ``first``, and ``second`` where that is empty."""
    return pc.if_else(pc.equal(first, ""), second, first)


def _mask(values: pa.Array) -> BoolArray:
    mask: BoolArray = values.to_numpy(zero_copy_only=False)
    return mask
