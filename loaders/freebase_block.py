"""One block of a Freebase dump, by columns: which of its facts are kept, and why others are not.

A line in the dump's own form (four fields between tabs, terms in brackets or quotes, a dot) is
taken in by kernels over the whole block. Any other line is matched by itself: it is written anew
in the dump's form if it is a triple, and a reject if it is none. What it does not do: decide which
entities are kept, which only the whole dump can tell.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.mids import NO_MID, encode_mids
from kgqa.graph.model import ALIAS
from kgqa.loaders.blocks import Block
from kgqa.loaders.fields import Fields, as_text, cut
from kgqa.loaders.freebase_values import Values, read_values
from kgqa.loaders.ntriples import TRIPLE, is_blank, unescape, why_not

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.filters import Filters

NAMESPACES = ("http://rdf.freebase.com/ns/", "http://rdf.basekb.com/ns/")
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
_START = f"<{NAMESPACES[0]}".encode()
_IRI = re.compile(rb'<[^<>"\s]+>')
_LT, _GT, _QUOTE, _AT, _DOT = b'<>"@.'
_LONGEST_TAG = 12
_EMPTY = pa.scalar("", pa.string())
_LONGEST_RUN = len(_START) + 15  # bytes of a subject that its last 16 and its length tell apart


class _Use(IntEnum):
    """What a predicate's lines are for."""

    NAME = 0
    LABEL = 1
    ALIAS = 2
    TYPE = 3
    MEDIATOR = 4
    INVERSE = 5
    EDGE = 6
    NOTHING = 7
    NO_IRI = 8


_USES = {
    "type.object.name": _Use.NAME,
    _RDFS_LABEL: _Use.LABEL,
    "common.topic.alias": _Use.ALIAS,
    "type.object.type": _Use.TYPE,
    _RDF_TYPE: _Use.TYPE,
    "freebase.type_hints.mediator": _Use.MEDIATOR,
    "type.property.reverse_property": _Use.INVERSE,
    _INVERSE: _Use.INVERSE,
}
_RANKS = np.array([0, 1, ALIAS], dtype=np.int64)  # of NAME, LABEL, ALIAS


@dataclass(slots=True)
class Part:
    """What a block holds. Edges' relations and types' names are dictionary arrays."""

    source: str
    triples: int = 0
    names: list[pa.RecordBatch] = field(default_factory=list)  # id, text, rank
    types: list[pa.RecordBatch] = field(default_factory=list)  # id, type
    edges: list[pa.RecordBatch] = field(default_factory=list)  # head, relation, tail
    values: list[pa.RecordBatch] = field(default_factory=list)  # id, name
    value_edges: list[pa.RecordBatch] = field(default_factory=list)  # head, relation, tail (text)
    mediator_types: set[str] = field(default_factory=set)
    inverses: set[tuple[str, str]] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)  # line, reason, text


class BlockReader:
    """Reads blocks of a dump; several threads may use one at a time."""

    def __init__(self, language: str, filters: Filters) -> None:
        self.language = language
        self._tag = f'"@{language}'.encode()
        self._filters = filters
        self._known: dict[bytes, tuple[_Use, str, str]] = {}
        self._types: dict[bytes, str] = {}

    def read(self, block: Block) -> Part:
        """Return what a block holds."""
        part = Part(block.source)
        fields = Fields(block, b"\t", 4)
        good = self._in_form(fields)
        anew, numbers = self._by_hand(fields, good, part)
        _Reading(self, fields, part, None).take(good)
        if numbers:
            again = Fields(Block(block.source, 0, len(numbers), b"".join(anew)), b"\t", 4)
            _Reading(self, again, part, numbers).take(np.ones(len(again), dtype=np.bool_))
            part.rejects.sort(key=lambda reject: reject[0])
        return part

    def _in_form(self, fields: Fields) -> BoolArray:
        """Return which lines have terms, a dot and nothing else, as far as their ends tell."""
        data = fields.bytes
        first, second, third = (fields.end(place) for place in range(3))
        last = len(data) - 1
        good: BoolArray = (data[fields.starts] == _LT) & (data[first - 1] == _GT)
        good &= (data[first + 1] == _LT) & (data[second - 1] == _GT)
        good &= (data[np.minimum(third + 1, last)] == _DOT) & (fields.ends == third + 2)
        opening = data[second + 1]
        good &= (opening == _QUOTE) & (third > second + 2) | (opening == _LT) & (
            data[third - 1] == _GT
        )
        return good

    def _by_hand(
        self, fields: Fields, good: BoolArray, part: Part
    ) -> tuple[list[bytes], list[int]]:
        """Return the triples among the other lines in the dump's form, and their numbers."""
        lines = fields.other_lines()
        if not good.all():
            for row in np.flatnonzero(~good).tolist():
                start, end = int(fields.starts[row]), int(fields.ends[row])
                lines.append((fields.line_number(row), bytes(fields.block.data[start:end])))
            lines.sort()
        anew: list[bytes] = []
        numbers: list[int] = []
        for number, raw in lines:
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                shown = raw.decode(errors="backslashreplace")
                part.rejects.append((number, f"not UTF-8 ({error.reason})", shown))
                continue
            match = TRIPLE.fullmatch(text.rstrip("\r"))
            if match is None:
                if is_blank(text.rstrip("\r")):
                    part.dropped["blank line or comment"] += 1
                else:
                    part.rejects.append((number, why_not(text.rstrip("\r")), text))
                continue
            subject, predicate, iri, literal, tag, datatype = match.groups()
            if iri is None:
                suffix = f"@{tag}" if tag else f"^^<{datatype}>" if datatype else ""
                # a tab may stand in a literal, but not in the dump's form
                tail = '"' + literal.replace("\t", "\\t") + '"' + suffix
            else:
                tail = f"<{iri}>"
            anew.append(f"<{subject}>\t<{predicate}>\t{tail}\t.\n".encode())
            numbers.append(number)
        return anew, numbers

    def use_of(self, term: bytes) -> tuple[_Use, str, str]:
        """Return a predicate's use, its relation, and why it is left out if it is."""
        known = self._known.get(term)
        if known is None:
            known = self._known[term] = self._understand(term)
        return known

    def name_of(self, kind: bytes) -> str:
        """Return the name of a type (a term and its tab)."""
        name = self._types.get(kind)
        if name is None:
            name = self._types[kind] = local(kind[1:-2].decode(errors="replace"))
        return name

    def _understand(self, term: bytes) -> tuple[_Use, str, str]:
        try:
            iri = term[1:-1].decode()
        except UnicodeDecodeError:
            return _Use.NO_IRI, "", ""
        if not _IRI.fullmatch(term):
            return _Use.NO_IRI, "", ""
        predicate = local(iri)
        if (use := _USES.get(predicate)) is not None:
            return use, "", ""
        if predicate is iri:
            return _Use.NOTHING, "", "predicate outside Freebase's namespace"
        if not self._filters.keeps(predicate):
            return _Use.NOTHING, "", "administrative predicate"
        return _Use.EDGE, predicate, ""


class _Reading:
    """The lines of one block that are in form, on their way into a part."""

    def __init__(
        self, reader: BlockReader, fields: Fields, part: Part, numbers: list[int] | None
    ) -> None:
        self.reader = reader
        self.fields = fields
        self.part = part
        self._numbers = numbers  # of lines that were written anew

    def take(self, good: BoolArray) -> None:
        rows = np.flatnonzero(good)
        self.part.triples += len(rows)
        terms = self.fields.take(1, rows).dictionary_encode()
        told = [self.reader.use_of(term[:-1]) for term in terms.dictionary.to_pylist()]
        if not told:
            return
        which = terms.indices.to_numpy()
        uses = np.array([use for use, _, _ in told], dtype=np.uint8)[which]
        counts = np.bincount(which, minlength=len(told))
        for (use, _, reason), count in zip(told, counts.tolist(), strict=True):
            if use is _Use.NOTHING:
                self.part.dropped[reason] += count
        for row in rows[uses == _Use.NO_IRI].tolist():
            self._reject(row, "predicate is no IRI in angle brackets")
        self._names(rows[uses <= _Use.ALIAS], uses[uses <= _Use.ALIAS])
        self._types(rows[uses == _Use.TYPE])
        self._schema(rows[uses == _Use.MEDIATOR], rows[uses == _Use.INVERSE])
        kept = uses == _Use.EDGE
        relations = pa.array([relation for _, relation, _ in told], type=pa.string())
        self._edges(rows[kept], which[kept], relations)

    def _reject(self, row: int, reason: str) -> None:
        number = self.fields.line_number(row)
        if self._numbers is not None:
            number = self._numbers[number]
        self.part.rejects.append((number, reason, self.fields.line_text(row)))

    def _names(self, rows: IntArray, uses: IntArray) -> None:
        data, tag = self.fields.bytes, self.reader._tag
        ends = self.fields.end(2)[rows]
        starts = self.fields.start(2)[rows]
        quoted = data[starts] == _QUOTE
        for row in rows[~quoted].tolist():
            self._reject(row, "name is no text")
        ours = quoted & (ends - starts > len(tag))
        for back, byte in enumerate(reversed(tag), 1):
            ours &= data[ends - back] == byte
        others = quoted & ~ours
        # what ends with "@xx is in another language; what is no such thing is looked at by itself
        foreign = np.zeros(len(rows), dtype=np.bool_)
        for length in range(2, _LONGEST_TAG):
            left = np.flatnonzero(others & ~foreign & (ends - starts > length + 2))
            if not len(left):
                break
            before = ends[left] - length
            foreign[left[(data[before - 1] == _AT) & (data[before - 2] == _QUOTE)]] = True
        self.part.dropped["other language"] += int(foreign.sum())
        by_hand = others & ~foreign
        texts, good = as_text(cut(self.fields.take(2, rows[ours]), 1, len(tag) + 1))
        odd = pc.match_substring_regex(texts, r'["\\]').to_numpy(zero_copy_only=False)
        texts = pc.utf8_trim_whitespace(texts)
        blank = pc.equal(texts, _EMPTY).to_numpy(zero_copy_only=False)
        clean = good & ~odd & ~blank
        self._name_batch(rows[ours][clean], uses[ours][clean], texts.filter(pa.array(clean)))
        slow = np.concatenate([np.flatnonzero(ours)[~clean], np.flatnonzero(by_hand)])
        slow.sort()
        found: list[int] = []
        written: list[str] = []
        for place in slow.tolist():
            text = self._name_by_hand(int(rows[place]))
            if text is not None:
                found.append(place)
                written.append(text)
        if found:
            self._name_batch(rows[found], uses[found], pa.array(written, type=pa.string()))

    def _name_by_hand(self, row: int) -> str | None:
        start, end = int(self.fields.starts[row]), int(self.fields.ends[row])
        try:
            line = bytes(self.fields.block.data[start:end]).decode()
        except UnicodeDecodeError as error:
            self._reject(row, f"not UTF-8 ({error.reason})")
            return None
        match = TRIPLE.fullmatch(line)
        if match is None:
            self._reject(row, why_not(line))
            return None
        _, _, _, text, tag, _ = match.groups()
        if tag is not None and tag != self.reader.language:
            self.part.dropped["other language"] += 1
            return None
        try:
            name = unescape(text).strip()
        except ValueError as error:
            self._reject(row, str(error))
            return None
        if not name:
            self._reject(row, "name is empty")
            return None
        return name

    def _name_batch(self, rows: IntArray, uses: IntArray, texts: pa.Array) -> None:
        codes, kept = self._subjects(rows)
        texts = texts.filter(pa.array(kept))
        ranks = _RANKS[uses[kept]]
        columns = [pa.array(codes[kept]), texts, pa.array(ranks)]
        self.part.names.append(pa.RecordBatch.from_arrays(columns, names=["id", "text", "rank"]))

    def _types(self, rows: IntArray) -> None:
        iris = self.fields.bytes[self.fields.start(2)[rows]] == _LT
        for row in rows[~iris].tolist():
            self._reject(row, "type is no IRI")
        codes, kept = self._subjects(rows[iris])
        kinds = self.fields.take(2, rows[iris][kept]).dictionary_encode()
        names = [self.reader.name_of(kind) for kind in kinds.dictionary.to_pylist()]
        types = pa.DictionaryArray.from_arrays(kinds.indices, pa.array(names, type=pa.string()))
        self.part.types.append(
            pa.RecordBatch.from_arrays([pa.array(codes[kept]), types], names=["id", "type"])
        )

    def _schema(self, mediators: IntArray, inverses: IntArray) -> None:
        for row in mediators.tolist():
            subject, _, mark, _ = self.fields.line_text(row).split("\t")
            if mark.startswith('"true"'):
                self.part.mediator_types.add(local(subject[1:-1]))
        for row in inverses.tolist():
            subject, _, other, _ = self.fields.line_text(row).split("\t")
            self.part.inverses.add((local(subject[1:-1]), local(other[1:-1])))

    def _edges(self, rows: IntArray, which: IntArray, relations: pa.Array) -> None:
        iris = self.fields.bytes[self.fields.start(2)[rows]] == _LT
        codes, outside = self._mids(self.fields.take(2, rows[iris]))
        count = int(outside.sum())
        self.part.dropped["web address"] += count
        self.part.dropped["object is of the schema"] += int((codes == NO_MID).sum()) - count
        ended = codes != NO_MID
        self._edge_batch(
            rows[iris][ended], which[iris][ended], relations, pa.array(codes[ended]), False
        )
        rows, which = rows[~iris], which[~iris]
        if not len(rows):
            return
        values: Values = read_values(cut(self.fields.take(2, rows), 0, 1), self.reader.language)
        for place, reason in values.rejects:
            self._reject(int(rows[place]), reason)
        self.part.dropped.update(values.dropped)
        self._edge_batch(rows[values.rows], which[values.rows], relations, values.ids, True)
        columns = [values.ids, values.names]
        self.part.values.append(pa.RecordBatch.from_arrays(columns, names=["id", "name"]))

    def _edge_batch(
        self, rows: IntArray, which: IntArray, relations: pa.Array, tails: pa.Array, text: bool
    ) -> None:
        heads, kept = self._subjects(rows)
        columns = [
            pa.array(heads[kept]),
            pa.DictionaryArray.from_arrays(pa.array(which[kept]), relations),
            tails.filter(pa.array(kept)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=["head", "relation", "tail"])
        (self.part.value_edges if text else self.part.edges).append(batch)

    def _subjects(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the mids of lines, and which of them have one; the others are counted."""
        if not len(rows):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        # A dump has the lines of an entity in a row, so most subjects are that of the line before.
        ends = self.fields.end(0)[rows]
        lengths = ends - self.fields.starts[rows]
        late, early = self.fields.words[ends - 8], self.fields.words[np.maximum(ends - 16, 0)]
        new = np.ones(len(rows), dtype=np.bool_)
        new[1:] = (late[1:] != late[:-1]) | (early[1:] != early[:-1])
        new[1:] |= (lengths[1:] != lengths[:-1]) | (lengths[1:] > _LONGEST_RUN)
        codes, _ = self._mids(self.fields.take(0, rows[new]))
        codes = codes[np.cumsum(new) - 1]
        kept = codes != NO_MID
        self.part.dropped["about the schema, not about an entity"] += len(kept) - int(kept.sum())
        return codes, kept

    def _mids(self, terms: pa.Array) -> tuple[IntArray, BoolArray]:
        """Return the mid of each term, ``NO_MID`` without one, and which are web addresses."""
        encoded = terms.dictionary_encode()
        unique = encoded.dictionary
        codes = encode_mids(unique, len(_START), 2)
        # what does not begin as the dump's own terms do is no mid, or is one in another namespace
        begins = pc.starts_with(unique, _START).to_numpy(zero_copy_only=False)
        codes[~begins] = NO_MID
        outside = np.zeros(len(unique), dtype=np.bool_)
        for place in np.flatnonzero(~begins).tolist():
            name = local(unique[place].as_py()[1:-2].decode(errors="replace"))
            outside[place] = name.startswith(("http:", "https:"))
            if not outside[place]:
                codes[place] = encode_mids(pa.array([name]))[0]
        indices = encoded.indices.to_numpy()
        return codes[indices], outside[indices]


def local(iri: str) -> str:
    """Return an IRI without Freebase's namespace, or the same object where it is in none."""
    for namespace in NAMESPACES:
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri
