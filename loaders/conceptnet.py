"""The ConceptNet 5 assertions dump: five tab-separated columns, the last one JSON.

A concept with a part of speech or a sense folds to its term (``/c/en/test/n`` → ``/c/en/test``)
unless senses are kept. An edge of a symmetric relation goes from the end that comes first, so that
it and its mirror image are one. Edges that come again are left to the caller.

Blocks are read by columns. A line is looked at only as far as it takes to know what becomes of it:
the JSON of a line in another language may be anything. The last column of the lines that are kept
is read by Arrow, and one by one where Arrow and JSON differ.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kgqa.errors import UsageError
from kgqa.graph.model import EDGE_SCHEMA, EdgeBatch, EntityBatch
from kgqa.loaders.base import BLANK, BlockReport, entity_batch, relation_batch
from kgqa.loaders.blocks import find_sources, nothing_read, read_blocks
from kgqa.loaders.delimited import Fields, as_text, why_undecodable
from kgqa.loaders.options import ConceptnetOptions
from kgqa.loaders.strings import json_strings, mask_of, offsets_of
from kgqa.loaders.triples_rows import is_writable
from kgqa.parallel import mapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kgqa.graph.model import Batch, BoolArray, Direction, IntArray
    from kgqa.loaders.base import Rejects, Report
    from kgqa.loaders.blocks import Block
    from kgqa.progress import Progress

_LANGUAGE = re.compile(r"[a-z][a-z_-]*")
_BEFORE_TERM = r"^/c/[^/]+/"
COLUMNS = 5
SYMMETRIC = frozenset(
    f"/r/{name}"
    for name in (
        "RelatedTo",
        "Synonym",
        "Antonym",
        "DistinctFrom",
        "LocatedNear",
        "SimilarTo",
        "EtymologicallyRelatedTo",
    )
)
"""ConceptNet 5.7's symmetric relations: an edge and its mirror image mean the same."""

OTHER_SITE = "link to another site"
OTHER_LANGUAGE = "other language"
TO_ITSELF = "edge from a term to itself"
TOO_LIGHT = "weight below the least"
_ELSEWHERE = b"/r/ExternalURL"
_ONE_BY_ONE = 8  # lines around a bad one that are read by themselves
_CONCEPT = r"\A/c/[^/]+/[^/]+"
_FOLDED = r"(?s)^(/c/[^/]+/[^/]+)/.*$"
_ABOUT = pa.schema(
    [("weight", pa.float64()), ("surfaceText", pa.string()), ("license", pa.string())]
)


NO_EDGES = pa.RecordBatch.from_pylist([], schema=EDGE_SCHEMA)


class ConceptnetLoader:
    """Reads ConceptNet assertions; see the module."""

    Options = ConceptnetOptions
    name = "conceptnet"
    direction: Direction = "both"
    licence = "CC BY-SA 4.0 (ConceptNet 5)"
    where = "https://github.com/commonsense/conceptnet5/wiki/Downloads (conceptnet-assertions)"

    def __init__(self, options: ConceptnetOptions | None = None) -> None:
        """Take options. Raises UsageError if a language is not one of ConceptNet's."""
        self.options = options or ConceptnetOptions()
        languages = read_languages(self.options.language)
        fold = self.options.senses == "fold"
        self._rules = Rules(languages, fold, self.options.min_weight)

    def read(
        self, sources: Sequence[Path], report: Report, rejects: Rejects, progress: Progress
    ) -> Iterator[Batch]:
        """Yield entities and edges of each block, relations at the end.

        A source may be ``-``, standard input. Raises DumpNotFoundError, DumpMalformedError.
        """
        found = find_sources(sources, "ConceptNet assertions")
        relations: dict[str, None] = {}
        assertions = 0
        blocks = read_blocks(found, report, rejects, progress)
        for read in mapped(partial(read_block, rules=self._rules), blocks):
            assertions += read.assertions
            read.record(report, rejects)
            if len(read.edges):
                relations |= dict.fromkeys(pc.unique(read.edges["relation"]).to_pylist())
                yield _entities(read.edges)
                yield EdgeBatch(read.edges)
        if not assertions:
            raise nothing_read("a ConceptNet assertion (five tab-separated columns)", found, report)
        yield relation_batch({uri: uri.removeprefix("/r/") for uri in relations})


def read_languages(text: str) -> tuple[str, ...]:
    """Return the languages of a list with commas. Raises UsageError if one is malformed.

    >>> read_languages("en, de")
    ('en', 'de')
    """
    languages = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise UsageError(
                f"{language!r} is not a language of ConceptNet.",
                "Give its code, or several separated by commas: en or en,de.",
            )
    return languages


def _entities(edges: pa.RecordBatch) -> EntityBatch:
    ends = pc.unique(pa.chunked_array([edges["head"], edges["tail"]]))
    terms = pc.replace_substring_regex(ends, _BEFORE_TERM, "")
    names = pc.replace_substring(terms, "_", " ")
    sensed = pc.match_substring(names, "/")
    if pc.any(sensed).as_py():  # "test/n/wikt/en 1" → "test (n, wikt, en 1)"
        bracketed = pc.replace_substring_regex(
            names.filter(sensed), r"(?s)^([^/]*)/(.*)$", r"\1 (\2)"
        )
        bracketed = pc.replace_substring(bracketed, "/", ", ")
        names = pc.replace_with_mask(names, sensed, bracketed)
    return entity_batch(ends, name=names)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is kept of a dump.

    ``languages``: of both ends of an edge. ``fold``: whether a concept with a part of speech or a
    sense becomes its term. ``least``: the smallest weight.
    """

    languages: tuple[str, ...]
    fold: bool
    least: float | None


@dataclass(slots=True)
class BlockEdges(BlockReport):
    """What a block says: rows of EDGE_SCHEMA, and the other lines by what became of them.

    ``assertions`` counts the lines that are of the dump's form.
    """

    edges: pa.RecordBatch = field(default_factory=lambda: NO_EDGES)
    assertions: int = 0


def read_block(block: Block, rules: Rules) -> BlockEdges:
    """Return what the lines of ``block`` say."""
    fields = Fields(block, b"\t", COLUMNS)
    found = BlockEdges(block.source)
    for position in fields.others.tolist():
        reason = f"{fields.found[position]} columns in place of {COLUMNS}"
        _reject(found, fields, [position], reason)
    rows = np.arange(len(fields))

    def kept(good: BoolArray, reason: str) -> IntArray:
        _reject(found, fields, fields.rows[rows[~good]].tolist(), reason)
        return rows[good]

    def counted(good: BoolArray, reason: str) -> IntArray:
        found.dropped[reason] += len(rows) - int(np.count_nonzero(good))
        return rows[good]

    rows = kept(_begins(fields, 0, rows, b"/a/"), "first column is not an assertion (/a/…)")
    rows = kept(_begins(fields, 1, rows, b"/r/"), "second column is not a relation (/r/…)")
    rows = counted(~mask_of(pc.equal(fields.column(1, rows), _ELSEWHERE)), OTHER_SITE)
    ends = [fields.column(place, rows) for place in (2, 3)]
    concepts = [mask_of(pc.match_substring_regex(end, _CONCEPT)) for end in ends]
    ours = np.logical_and.reduce([_starts_with(end, rules.languages) for end in ends])
    concept = concepts[0] & concepts[1]
    rows = kept(concept, "an end is not a concept (/c/language/term)")
    rows = counted(ours[concept], OTHER_LANGUAGE)
    wanted = pa.array(ours & concept)
    raw = [ends[0].filter(wanted), fields.column(1, rows), ends[1].filter(wanted)]
    (head, relation, tail), decoded = zip(*map(as_text, raw), strict=True)
    good = np.logical_and.reduce(decoded)
    for place in np.flatnonzero(~good).tolist():
        reasons = (why_undecodable(column[place].as_py()) for column in raw)
        _reject(found, fields, [int(fields.rows[rows[place]])], next(filter(None, reasons)))
    if rules.fold:
        head, tail = _fold(head), _fold(tail)
    different = mask_of(pc.not_equal(head, tail))
    found.dropped[TO_ITSELF] += int(np.count_nonzero(good & ~different))
    sure = np.flatnonzero(good & different)
    weight, properties, faults = _about(fields.column(4, rows[sure], after=-1))
    for place, reason in faults.items():
        _reject(found, fields, [int(fields.rows[rows[sure[place]]])], reason)
    fine = np.ones(len(sure), dtype=np.bool_)
    fine[list(faults)] = False
    if rules.least is not None:
        light = fine & (weight < rules.least)
        found.dropped[TOO_LIGHT] += int(np.count_nonzero(light))
        fine &= ~light
    chosen = pa.array(sure[fine])
    head, relation, tail = (column.take(chosen) for column in (head, relation, tail))
    turned = pc.and_(pc.is_in(relation, pa.array(sorted(SYMMETRIC))), pc.less(tail, head))
    columns = [
        pc.if_else(turned, tail, head),
        relation,
        pc.if_else(turned, head, tail),
        properties.filter(pa.array(fine)),
    ]
    found.edges = pa.RecordBatch.from_arrays(columns, schema=EDGE_SCHEMA)
    found.assertions = block.lines - len(found.rejects) - found.dropped[BLANK]
    return found


def _reject(found: BlockEdges, fields: Fields, positions: Sequence[int], reason: str) -> None:
    for number, raw in fields.lines_at(np.array(positions, dtype=np.int64)):
        found.reject(number, reason, raw)


def _begins(fields: Fields, place: int, rows: IntArray, text: bytes) -> BoolArray:
    starts, ends = fields.start(place, rows), fields.end(place, rows)
    found: BoolArray = ends - starts >= len(text)
    for offset, byte in enumerate(text):  # a field is followed by two bytes at least
        found &= fields.bytes.take(starts + offset, mode="clip") == byte
    return found


def _starts_with(ends: pa.Array, languages: Sequence[str]) -> BoolArray:
    found = np.zeros(len(ends), dtype=np.bool_)
    for language in languages:
        found |= mask_of(pc.starts_with(ends, f"/c/{language}/".encode()))
    return found


def _fold(uris: pa.Array) -> pa.Array:
    """Return the terms of concepts: ``/c/en/test/n`` → ``/c/en/test``."""
    longer = pc.greater(pc.count_substring(uris, "/"), 3)
    if not pc.any(longer).as_py():
        return uris
    folded = pc.replace_substring_regex(uris.filter(longer), _FOLDED, r"\1")
    return pc.replace_with_mask(uris, longer, folded)


def _about(column: pa.Array) -> tuple[NDArray[np.float64], pa.Array, dict[int, str]]:
    """Return weights, properties as JSON, and what is wrong with some of the last column.

    ``column``: the texts with their line feeds.
    """
    texts, plain = as_text(column)
    places, content = offsets_of(column)
    if len(column):  # one object a line: else a count of rows would not show two in one line
        plain &= content[places[:-1]] == ord("{")
        plain &= content[np.maximum(places[1:] - 2, 0)] == ord("}")
    for word in ("Inf", "NaN"):  # Arrow reads more as a number than JSON has
        plain &= ~mask_of(pc.match_substring(texts, word))
    table = _read_json(texts if plain.all() else texts.filter(pa.array(plain)))
    if not plain.all():
        table = table.take(pa.array(np.cumsum(plain) - 1, mask=~plain))
    weight, surface, licence = (table[name].combine_chunks() for name in _ABOUT.names)
    # a weight that is missing and one that is null look alike here
    weights = pc.fill_null(weight, np.nan).to_numpy(zero_copy_only=False).copy()
    faults: dict[int, str] = {}
    single: dict[int, str] = {}
    for place in np.flatnonzero(~np.isfinite(weights)).tolist():
        try:
            weights[place], single[place] = _about_one(column[place].as_py())
        except ValueError as error:
            weights[place], faults[place] = 0.0, str(error)
    coded = pa.array(weights).dictionary_encode()
    starts = [f'{{"weight": {number!r}' for number in coded.dictionary.to_pylist()]
    properties = pc.binary_join_element_wise(
        pa.array(starts, type=pa.string()).take(coded.indices),
        _member("surfaceText", surface),
        _member("license", licence),
        pa.scalar("}"),
        "",
    )
    if single:
        mask = np.zeros(len(weights), dtype=np.bool_)
        mask[list(single)] = True
        written = pa.array([single[place] for place in sorted(single)], type=pa.string())
        properties = pc.replace_with_mask(properties, pa.array(mask), written)
    return weights, properties, faults


def _read_json(texts: pa.Array) -> pa.Table:
    """Return rows of _ABOUT for texts that each hold one line; nulls for what is odd JSON."""
    if not len(texts):
        return _ABOUT.empty_table()
    places, content = offsets_of(texts)
    start, end = int(places[0]), int(places[-1])
    try:
        table = pj.read_json(
            pa.BufferReader(pa.py_buffer(content[start:end])),
            read_options=pj.ReadOptions(use_threads=False, block_size=end - start + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=_ABOUT, unexpected_field_behavior="ignore"
            ),
        )
        if len(table) == len(texts):
            return table
    except pa.ArrowInvalid:
        pass
    if len(texts) <= _ONE_BY_ONE:
        return pa.table([pa.nulls(len(texts), field.type) for field in _ABOUT], schema=_ABOUT)
    half = len(texts) // 2  # a line that is not JSON does not take its whole block with it
    return pa.concat_tables([_read_json(texts.slice(0, half)), _read_json(texts.slice(half))])


def _about_one(raw: bytes) -> tuple[float, str]:
    """Return the weight and the properties that a last column states. Raises ValueError."""
    if reason := why_undecodable(raw):
        raise ValueError(reason)
    try:
        about: Any = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("last column is not JSON") from None
    if not isinstance(about, dict):
        raise ValueError("last column is not a JSON object")
    weight = about.get("weight", 1.0)
    try:
        weight = math.nan if isinstance(weight, bool | str) else float(weight)
    except (TypeError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise ValueError("weight is not a number")
    about["weight"] = weight
    kept = {name: about[name] for name in _ABOUT.names if about.get(name) is not None}
    properties = json.dumps(kept, ensure_ascii=False)
    if not is_writable(properties):
        raise ValueError("last column holds half of a character (a lone surrogate)")
    return weight, properties


def _member(name: str, values: pa.Array) -> pa.Array:
    """Return `, "name": "value"` for each value, as JSON writes it, and nothing for a null."""
    empty = pc.fill_null(pc.equal(values, ""), False)
    texts = pc.if_else(empty, '""', json_strings(values))
    lead = pa.scalar(f', "{name}": ')
    return pc.fill_null(pc.binary_join_element_wise(lead, texts, "", null_handling="emit_null"), "")
