"""A UMLS release (RRF): concepts with names, types and definitions, and the relations of MRREL.

Direction: a row ``CUI1|REL|CUI2|RELA`` says what the *second* concept is to the *first*, so it is
the edge CUI2 → CUI1. Each pair of inverse rows is one edge. Semantic types are entities too (T047),
joined to their concepts and, if NET is given, to each other by ``isa``. Names are streamed in
blocks; kept in memory are a byte for each possible concept and ten for each row of MRREL. Not
loaded: attributes (MRSAT), mappings, history, and the Semantic Network's other relations.

A release is a folder, unpacked; its files may be compressed. A row is a line of ``|``-separated
fields, closed by a ``|``. MRFILES.RRF says which columns a file has; a release without it has those
of the UMLS reference manual.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.graph.model import EdgeBatch, EntityBatch, NameBatch, TypeBatch, TypeRules
from kgqa.loaders.base import (
    DumpFiles,
    Rejects,
    Report,
    edge_batch,
    entity_batch,
    lose,
    relation_batch,
)
from kgqa.loaders.blocks import Block, nothing_read, read_blocks
from kgqa.loaders.strings import (
    BlockReport,
    as_text,
    mask_of,
    split_block,
    whole_lines,
    why_undecodable,
)
from kgqa.loaders.umls_relations import NOT_RELATED, REL_NAMES, Cuis, CuiSet, Inverses, RelationRows
from kgqa.parallel import mapped
from kgqa.registry import Options, flag

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kgqa.graph.model import Batch, BoolArray, Direction, IntArray
    from kgqa.progress import Progress

    TypeRow: TypeAlias = tuple[str, str, str | None]  # name, what it is, definition

_DOCUMENTED = {
    "MRFILES": "FIL,DES,FMT,CLS,RWS,BTS",
    "MRCOLS": "COL,DES,REF,MIN,AV,MAX,FIL,DTY",
    "MRCONSO": "CUI,LAT,TS,LUI,STT,SUI,ISPREF,AUI,SAUI,SCUI,SDUI,SAB,TTY,CODE,STR,SRL,SUPPRESS,CVF",
    "MRREL": "CUI1,AUI1,STYPE1,REL,CUI2,AUI2,STYPE2,RELA,RUI,SRUI,SAB,SL,RG,DIR,SUPPRESS,CVF",
    "MRSTY": "CUI,TUI,STN,STY,ATUI,CVF",
    "MRDEF": "CUI,AUI,ATUI,SATUI,SAB,DEF,SUPPRESS,CVF",
    "MRRANK": "RANK,SAB,TTY,SUPPRESS",
    "MRDOC": "DOCKEY,VALUE,TYPE,EXPL",
    "MRSAB": "VCUI,RCUI,VSAB,RSAB,SON,SF,SVER,VSTART,VEND,IMETA,RMETA,SLC,SCC,SRL,TFR,CFR,CXTY,"
    "TTYL,ATNL,LAT,CENC,CURVER,SABIN,SSN,SCIT",
    # The Semantic Network is a release of its own, in which no file describes the others.
    "SRDEF": "RT,UI,STY_RL,STN_RTN,DEF,EX,UN,NH,ABR,RIN",
    "SRSTR": "STY_RL1,RL,STY_RL2,LS",
}
# The network's files have had the last field or not over the years.
_OPEN_ENDED = ("SRDEF", "SRSTR", "MRFILES", "MRCOLS")
_NAMED = re.compile(r"([A-Z0-9]+(?=\.RRF)|SRDEF|SRSTR)(?:\.RRF)?(?:\.gz|\.bz2|\.zst)?")
_ARCHIVES = (".zip", ".nlm")
_DEEPEST = 3  # of a file below the folder that was named: 2024AA/META/MRCONSO.RRF


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of a row: ``places`` are the indices of the wanted fields among ``count``.

    ``exact``: whether a row with more fields is malformed.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    count: int
    exact: bool = True


class Release:
    """The RRF files of a release, in some folders and files."""

    def __init__(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> None:
        """Find the files in ``sources``: folders of a release, or files of one.

        All methods count lines in ``report`` and write malformed ones to ``rejects``. Raises
        DumpNotFoundError if a source is missing, DumpMalformedError if it is an archive.
        """
        self._files = release_files(sources)
        self._columns: dict[str, list[str]] = {}
        self._report = report
        self._rejects = rejects
        self._progress = progress

    def has(self, name: str) -> bool:
        """Return whether the release holds the file ``name`` (without its ending)."""
        return name in self._files

    def learn_columns(self) -> None:
        """Read the columns of the files from MRFILES and MRCOLS.

        Raises DumpMalformedError if the two contradict each other.
        """
        known: dict[str, set[str]] = {}
        for column, file in self.rows("MRCOLS", "COL FIL"):
            known.setdefault(file.removesuffix(".RRF"), set()).add(column)
        for file, order in self.rows("MRFILES", "FIL FMT"):
            self._columns[file.removesuffix(".RRF")] = order.split(",")
        for name, columns in self._columns.items():
            if name in self._files and name in known and set(columns) != known[name]:
                odd = ", ".join(sorted(set(columns) ^ known[name]))
                raise DumpMalformedError(
                    f"MRFILES.RRF and MRCOLS.RRF name different columns for {name}: {odd}.",
                    "The files are not of one release; take them all from the same one.",
                )

    def batches(self, name: str, columns: str) -> Iterator[pa.RecordBatch]:
        """Yield the fields ``columns`` (space-separated names) of the rows of file ``name``.

        Nothing if the release lacks the file; columns are strings, rows in the file's order. A row
        with another number of fields is rejected. Raises DumpMalformedError if the file lacks such
        a column, or is damaged.
        """
        path = self._files.get(name)
        if path is None:
            return
        order = self._columns.get(name) or _DOCUMENTED[name].split(",")
        wanted = columns.split()
        if missing := [column for column in wanted if column not in order]:
            raise DumpMalformedError(
                f"{path} has no column {', '.join(missing)}, says MRFILES.RRF.",
                "Take a release in Rich Release Format.",
            )
        places = tuple(order.index(column) for column in wanted)
        exact = name not in _OPEN_ENDED
        form = RowForm(tuple(wanted), places, len(order) if exact else max(places) + 1, exact)
        blocks = read_blocks([path], self._report, self._rejects, self._progress)
        for batch, seen in mapped(partial(read_rows, form=form), blocks):
            seen.record(self._report, self._rejects)
            if len(batch):
                yield batch

    def rows(self, name: str, columns: str) -> Iterator[tuple[str, ...]]:
        """Yield the rows of :meth:`batches` one by one, for small files."""
        for batch in self.batches(name, columns):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def read_rows(block: Block, form: RowForm) -> tuple[pa.RecordBatch, BlockReport]:
    """Parse the rows of ``block``; return the wanted fields, and the outcome of other lines."""
    seen = BlockReport(block.source)
    if form.exact:  # nothing may follow the last separator
        wanted = (*form.places, form.count)
        *columns, rest = split_block(block, "|", form.count + 1, wanted).columns
        texts, decoded = zip(*map(as_text, columns), strict=True)
        if len(rest) == block.lines and pc.all(pc.equal(rest, b"")).as_py() and np.all(decoded):
            return pa.RecordBatch.from_arrays([*texts], names=[*form.names]), seen
    raw = whole_lines(block)
    lines = pc.ascii_rtrim(raw.view(pa.string()), "\n")
    fields = pc.split_pattern(lines, "|")
    counts = pc.list_value_length(fields).to_numpy() - mask_of(pc.ends_with(lines, "|"))
    good = counts == form.count if form.exact else counts >= form.count
    good &= mask_of(pc.match_substring_regex(raw, r"\S"))
    chosen = fields.filter(pa.array(good))
    columns = [pc.list_element(chosen, place).cast(pa.binary()) for place in form.places]
    texts, decoded = zip(*map(as_text, columns), strict=True)
    sound = np.logical_and.reduce(decoded)
    for row in np.flatnonzero(~good).tolist():
        reason = f"{counts[row]} fields in place of {form.count}"
        seen.reject(block.first + row, reason, raw[row].as_py())
    for row in np.flatnonzero(good)[~sound].tolist():
        seen.reject(block.first + row, why_undecodable(raw[row].as_py()), raw[row].as_py())
    return pa.RecordBatch.from_arrays([*texts], names=[*form.names]).filter(pa.array(sound)), seen


def release_files(sources: Sequence[Path]) -> dict[str, Path]:
    """Return the files of a release by name (``MRCONSO``); of equal names the nearest file.

    If a META folder is named, the NET folder beside it belongs to the release. Raises
    DumpNotFoundError if a source is missing, DumpMalformedError if it is an archive.
    """
    files: dict[str, Path] = {}
    for source in sources:
        if not source.exists():
            raise DumpNotFoundError(
                f"{source} is not a UMLS release.",
                "Give the META folder, or the folder that holds META and NET.",
            )
        if source.suffix in _ARCHIVES:
            raise DumpMalformedError(
                f"{source} is an archive.", "Unpack it and give the folder that holds META and NET."
            )
        if source.is_file():
            match = _NAMED.fullmatch(source.name)
            files.setdefault(match[1] if match else source.stem, source)
            continue
        folders = [source]
        if source.resolve().name == "META":
            folders.append(source.resolve().parent / "NET")
        for folder in folders:
            for depth in range(1, _DEEPEST + 1):
                for path in sorted(folder.glob("/".join("*" * depth))):
                    if (match := _NAMED.fullmatch(path.name)) and path.is_file():
                        files.setdefault(match[1], path)
    return files


SEMANTIC_TYPE_OF = "has_semantic_type"
_ISA = "isa"
_SUPPRESSED = ("O", "E", "Y")
_KINDS = {"STY": "Semantic Type", "RL": "Semantic Relation"}
_MAX_LISTED = 5


class UmlsOptions(Options):
    """How a UMLS release is read."""

    heading: ClassVar[str] = "umls"

    language: str = flag("ENG", "Language of names, as in MRCONSO's LAT.")
    sources: str | None = flag(
        None,
        "Vocabularies to keep (SAB, separated by commas; by default all); semantic types are kept.",
    )


class UmlsLoader:
    """Reads UMLS releases; see the module."""

    name = "umls"
    direction: Direction = "both"
    licence = "UMLS Metathesaurus License (sources keep their own terms)"
    where = "https://www.nlm.nih.gov/research/umls/licensedcontent/umlsknowledgesources.html"
    dump = DumpFiles(("META", "*/META", "*/*/META", "."), inside="MRCONSO.RRF*")
    sample = "data/umls/META"
    lone_entities = True
    Options = UmlsOptions

    def __init__(self, options: UmlsOptions | None = None) -> None:
        """Set the options. Raises UsageError if ``sources`` is empty."""
        self.options = options or UmlsOptions()
        given = self.options.sources
        self._sources = None
        if given is not None:
            self._sources = frozenset(part.strip() for part in given.split(",")) - {""}
            if not self._sources:
                raise UsageError(
                    "The list of UMLS sources is empty.",
                    "Name vocabularies as MRSAB does: NCI,MSH.",
                )

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield names, types and definitions, then edges, and relations at the end.

        A source is a folder or a file of a release. Raises DumpNotFoundError, DumpMalformedError,
        and UsageError for a vocabulary that the release does not have.
        """
        release = Release(sources, report, rejects, progress)
        if not release.has("MRCONSO"):
            names = ", ".join(str(source) for source in sources) or "nothing"
            raise DumpNotFoundError(
                f"MRCONSO.RRF is missing in {names}.",
                "Give the META folder of an unpacked release; join parts (MRCONSO.RRF.aa.gz, "
                ".ab.gz) by cat.",
            )
        release.learn_columns()
        if self._sources is not None:
            _check_sources(self._sources, release)
        reading = _ReleaseReader(release, self.options.language, self._sources, report.dropped)
        yield TypeRules(frozenset(), shown=lambda name: True)
        yield from reading.names()
        if not reading.concepts:
            raise nothing_read("a UMLS concept (MRCONSO.RRF) with a name", sources, report)
        yield from reading.types()
        yield from reading.definitions()
        yield from reading.relations()
        yield relation_batch({name: REL_NAMES.get(name, name) for name in sorted(reading.used)})


class _ReleaseReader:
    """Converts a release's files to batches.

    ``concepts``: those with a name; ``used``: the relations of the edges read.
    """

    def __init__(
        self,
        release: Release,
        language: str,
        sources: frozenset[str] | None,
        dropped: Counter[str],
    ) -> None:
        self.concepts = CuiSet()
        self.used: set[str] = set()
        self._release = release
        self._language = language
        self._sources = sources
        self._dropped = dropped
        self._cuis = Cuis()

    def names(self) -> Iterator[EntityBatch | NameBatch]:
        """Yield each named concept once, and the ranked names of concepts (lowest rank best).

        Names that are suppressed, empty, or of another language or source are counted as dropped.
        """
        ranks = self._ranks()
        columns = "CUI LAT TS STT ISPREF SAB TTY STR SUPPRESS"
        for rows in self._release.batches("MRCONSO", columns):
            rows = self._drop(rows, "other language", pc.not_equal(rows["LAT"], self._language))
            rows = self._drop(rows, "suppressed name", _suppressed(rows))
            rows = self._keep_sources(rows)
            blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(rows["STR"])), 0)
            rows = self._drop(rows, "empty name", blank)
            rows = self._drop(rows, "name without a concept", pc.equal(rows["CUI"], ""))
            if not len(rows):
                continue
            new = self.concepts.new(self._cuis.encode(rows["CUI"]))
            yield entity_batch(rows["CUI"].filter(pa.array(new)))
            named = {"id": rows["CUI"], "text": rows["STR"], "rank": _rank(rows, ranks)}
            yield NameBatch(pa.RecordBatch.from_pydict(named))

    def types(self) -> Iterator[Batch]:
        """Yield the semantic types of concepts, and the Semantic Network."""
        types, hierarchy = self._network()
        for rows in self._release.batches("MRSTY", "CUI TUI STY"):
            unnamed = ~self.concepts.has(self._cuis.encode(rows["CUI"]))
            rows = self._drop(rows, "semantic type of a concept without a name", unnamed)
            if not len(rows):
                continue
            self.used.add(SEMANTIC_TYPE_OF)
            pairs = pa.Table.from_batches([rows]).group_by(["TUI", "STY"], use_threads=False)
            for pair in pairs.aggregate([]).to_pylist():
                types.setdefault(pair["TUI"], (pair["STY"], _KINDS["STY"], None))
            yield TypeBatch(pa.record_batch({"id": rows["CUI"], "type": rows["STY"]}))
            yield edge_batch(rows["CUI"], SEMANTIC_TYPE_OF, rows["TUI"])
        yield entity_batch(
            list(types),
            name=[name for name, _, _ in types.values()],
            types=[[kind] for _, kind, _ in types.values()],
            properties=[_definition(text, "NET") if text else None for *_, text in types.values()],
        )
        if hierarchy:
            self.used.add(_ISA)
        yield edge_batch([pair[0] for pair in hierarchy], _ISA, [pair[1] for pair in hierarchy])

    def definitions(self) -> Iterator[Batch]:
        """Yield the first definition of each named concept; others are counted as dropped."""
        defined = CuiSet()
        for rows in self._release.batches("MRDEF", "CUI SAB DEF SUPPRESS"):
            rows = self._drop(rows, "suppressed definition", _suppressed(rows))
            rows = self._keep_sources(rows)
            codes = self._cuis.encode(rows["CUI"])
            named = self.concepts.has(codes)
            rows = self._drop(rows, "definition of a concept without a name", ~named)
            rows = self._drop(rows, "further definition", ~defined.new(codes[named]))
            texts = map(_definition, rows["DEF"].to_pylist(), rows["SAB"].to_pylist())
            yield entity_batch(rows["CUI"], properties=list(texts))

    def relations(self) -> Iterator[EdgeBatch]:
        """Yield the edges of MRREL between different named concepts; others count as dropped."""
        inverses = Inverses()
        inverses.learn_documented(
            (value, inverse)
            for value, kind, inverse in self._release.rows("MRDOC", "VALUE TYPE EXPL")
            if kind in ("rel_inverse", "rela_inverse")
        )
        kept = RelationRows(self._cuis)
        columns = "CUI1 REL CUI2 RELA SAB SUPPRESS"
        for rows in self._release.batches("MRREL", columns):
            rows = self._drop(rows, "suppressed relation", _suppressed(rows))
            unrelated = _is_in(rows["REL"], NOT_RELATED)
            rows = self._drop(rows, "stated not to be related", unrelated)
            rows = self._keep_sources(rows)
            if not len(rows):
                continue
            relation = pc.if_else(pc.equal(rows["RELA"], ""), rows["REL"], rows["RELA"])
            first, second = (self._cuis.encode(rows[name]) for name in ("CUI1", "CUI2"))
            same = first == second
            named = self.concepts.has(first) & self.concepts.has(second)
            self._count_dropped("relation of a concept to itself", same, rows)
            self._count_dropped("relation with a concept without a name", ~same & ~named, rows)
            stay = np.flatnonzero(~same & named)
            kept.add(second[stay], relation.take(stay), first[stay], rows["SAB"].take(stay))
        yield from kept.edges(inverses, self.used, self._dropped)

    def _network(self) -> tuple[dict[str, TypeRow], list[tuple[str, str]]]:
        """Read the Semantic Network: types and relations by id, and (id, isa id) pairs."""
        types: dict[str, TypeRow] = {}
        ids: dict[str, str] = {}
        for kind, ident, name, text in self._release.rows("SRDEF", "RT UI STY_RL DEF"):
            types[ident] = (name, _KINDS.get(kind, kind), text or None)
            ids[name] = ident
        hierarchy: list[tuple[str, str]] = []
        for narrow, relation, broad in self._release.rows("SRSTR", "STY_RL1 RL STY_RL2"):
            if relation != _ISA:
                said = f"{narrow} {relation} {broad}"
                lose(self._dropped, "semantic network: other than isa", 1, said)
            elif not broad:
                lose(self._dropped, "semantic network: the top of a hierarchy", 1, narrow)
            elif narrow not in ids or broad not in ids:
                reason = "semantic network: a name without a definition"
                lose(self._dropped, reason, 1, f"{narrow} {broad}")
            else:
                hierarchy.append((ids[narrow], ids[broad]))
        return types, hierarchy

    def _ranks(self) -> dict[tuple[str, str], int]:
        """Return the rank of each (source, term type) that MRRANK lists, 0 the best."""
        given: dict[tuple[str, str], int] = {}
        for rank, *atom in self._release.rows("MRRANK", "RANK SAB TTY"):
            if rank.isdecimal():  # stands twice if some of its strings are suppressed
                key = (atom[0], atom[1])
                given[key] = max(int(rank), given.get(key, -1))
        places = {rank: place for place, rank in enumerate(sorted(set(given.values()))[::-1])}
        return {key: places[rank] for key, rank in given.items()}

    def _keep_sources(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the wanted sources, all if none are given; count others as dropped."""
        if self._sources is None:
            return rows
        return self._drop(rows, "other source", pc.invert(_is_in(rows["SAB"], self._sources)))

    def _drop(self, rows: pa.RecordBatch, reason: str, out: pa.Array | BoolArray) -> pa.RecordBatch:
        """Return ``rows`` without those of the mask ``out``, which are counted as dropped."""
        mask = np.asarray(out)
        return rows.filter(pa.array(~mask)) if self._count_dropped(reason, mask, rows) else rows

    def _count_dropped(self, reason: str, out: BoolArray, rows: pa.RecordBatch) -> int:
        """Count the ``rows`` under the mask ``out`` as dropped, one as example; return how many."""
        count = int(np.count_nonzero(out))
        if count:
            one = rows.slice(int(np.argmax(out)), 1).to_pylist()[0]
            lose(self._dropped, reason, count, " | ".join(filter(None, map(str, one.values()))))
        return count


def _check_sources(sources: frozenset[str], release: Release) -> None:
    """Raise UsageError if a source is not in the release; the hint lists similar ones."""
    known = {name for (name,) in release.rows("MRSAB", "RSAB")} - {""}
    unknown = sorted(sources - known)
    if not known or not unknown:
        return
    by_capitals = {name.upper(): name for name in sorted(known)}
    near = {
        by_capitals[match]
        for name in unknown
        for match in get_close_matches(name.upper(), by_capitals, n=_MAX_LISTED, cutoff=0.5)
    }
    shown = sorted(near) or sorted(known)[: 2 * _MAX_LISTED]
    raise UsageError(
        f"The release has no source {', '.join(unknown)}.",
        f"{'Near it' if near else 'Some that it has'}: {', '.join(shown)}."
        " All stand in MRSAB.RRF, column RSAB.",
    )


def _rank(rows: pa.RecordBatch, ranks: dict[tuple[str, str], int]) -> IntArray:
    """Return the rank of names: by source and term type, then the preferred form first.

    ``ranks``: of (source, term type) pairs; others come last.
    """
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
        rank = rank * 2 + np.asarray(pc.not_equal(rows[column], preferred))
    return rank


def _definition(text: str, source: str) -> str:
    """Return a definition and its source as the JSON of an entity's properties."""
    return json.dumps({"definition": text, "definition_source": source}, ensure_ascii=False)


def _suppressed(rows: pa.RecordBatch) -> pa.Array:
    """Return which rows are suppressed."""
    return _is_in(rows["SUPPRESS"], _SUPPRESSED)


def _is_in(values: pa.Array, wanted: Iterable[str]) -> pa.Array:
    """Return which values are among ``wanted``."""
    return pc.is_in(values, pa.array(sorted(wanted), type=pa.string()))
