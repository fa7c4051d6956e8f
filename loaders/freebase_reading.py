"""The lines of a block that are in the dump's form, taken in by columns.

What it does not do: tell which lines those are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa.graph.mids import NO_MID, encode_mids
from kgqa.graph.model import ALIAS
from kgqa.loaders.fields import as_text, cut
from kgqa.loaders.freebase_terms import NAMESPACES, Use, local
from kgqa.loaders.freebase_values import read_values
from kgqa.loaders.ntriples import TRIPLE, unescape, why_not

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray, IntArray
    from kgqa.loaders.fields import Fields
    from kgqa.loaders.freebase_terms import Terms

_START = f"<{NAMESPACES[0]}".encode()
_LT, _QUOTE = b'<"'
_LONGEST_TAG = 12
_TWO = np.uint64(0xFFFF)
_TAG = np.uint64(int.from_bytes(b'"@', "little"))
_LOWER, _A, _Z = 32, ord("a"), ord("z")
_BLANK, _BEYOND_ASCII = 32, 128
_LONGEST_RUN = 27 + 16  # bytes of a subject that its first 27, last 16 and length tell apart
_RANKS = np.array([0, 1, ALIAS], dtype=np.int64)  # of names, labels, aliases


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
    anew: list[tuple[int, bytes]] = field(default_factory=list)  # line, in the dump's form

    def add(self, other: Part) -> None:
        """Take in what another part holds."""
        self.triples += other.triples
        for name in ("names", "types", "edges", "values", "value_edges", "rejects"):
            getattr(self, name).extend(getattr(other, name))
        self.mediator_types |= other.mediator_types
        self.inverses |= other.inverses
        self.dropped.update(other.dropped)
        self.rejects.sort()


class Reading:
    """The lines of one block that are in form, on their way into a part."""

    def __init__(self, terms: Terms, fields: Fields, part: Part, numbers: list[int] | None) -> None:
        self.terms = terms
        self.fields = fields
        self.part = part
        self._numbers = numbers  # of lines that were written anew
        self._codes: IntArray = np.full(len(fields), NO_MID, dtype=np.int64)  # of the subjects

    def take(self, good: BoolArray) -> None:
        """Take in the lines that are in form."""
        rows = None if good.all() else np.flatnonzero(good)
        terms = self.fields.take(1, rows).dictionary_encode()
        told = [self.terms.use_of(term[:-1]) for term in terms.dictionary.to_pylist()]
        if not told:
            return
        which = terms.indices.to_numpy()
        self.part.triples += len(which)
        table = np.array([use for use, _, _ in told], dtype=np.uint8)
        uses = table.take(which)
        dropped = np.bincount(which, minlength=len(told))
        for place in np.flatnonzero(table == Use.NOTHING).tolist():
            self.part.dropped[told[place][2]] += int(dropped[place])
        # the lines of each use, in their order
        order = np.argsort(uses, kind="stable")
        borders = np.searchsorted(uses[order], np.arange(len(Use) + 1)).tolist()

        def of(first: Use, last: Use) -> IntArray:
            return order[borders[first] : borders[last + 1]]

        def lines(places: IntArray) -> IntArray:
            return places if rows is None else rows[places]

        for row in lines(of(Use.NO_IRI, Use.NO_IRI)).tolist():
            self._reject(row, "predicate is no IRI in angle brackets")
        self._schema(lines(of(Use.MEDIATOR, Use.MEDIATOR)), lines(of(Use.INVERSE, Use.INVERSE)))
        names, typed, edges = (
            lines(of(first, last))
            for first, last in (
                (Use.NAME, Use.ALIAS),
                (Use.TYPE, Use.TYPE),
                (Use.EDGE, Use.EDGE),
            )
        )
        ours, odd = self._in_language(names)
        typed = self._with_iri(typed)
        self._read_subjects(np.concatenate([names[ours | odd], typed, edges]))
        used = uses[of(Use.NAME, Use.ALIAS)]
        self._names(names[ours], used[ours])
        self._odd_names(names[odd], used[odd])
        self._types(typed)
        relations = pa.array([relation for _, relation, _ in told], type=pa.string())
        self._edges(edges, which[of(Use.EDGE, Use.EDGE)], relations)

    def _reject(self, row: int, reason: str) -> None:
        number = self.fields.line_number(row)
        if self._numbers is not None:
            number = self._numbers[number]
        self.part.rejects.append((number, reason, self.fields.line_text(row)))

    def _in_language(self, rows: IntArray) -> tuple[BoolArray, BoolArray]:
        """Return which names end with the tag of our language, and which with no tag of any."""
        word, tag = self.fields.words_at, self.terms.tag
        starts, ends = self.fields.end(1, rows) + 1, self.fields.end(2, rows)
        quoted = self.fields.bytes[starts] == _QUOTE
        for row in rows[~quoted].tolist():
            self._reject(row, "name is no text")
        ours = quoted & (ends - starts > len(tag))
        for end in range(len(tag), 0, -8):  # from its end: behind it the block may end
            piece = tag[max(end - 8, 0) : end]
            shift = np.uint64(8 * (8 - len(piece)))
            wanted = np.uint64(int.from_bytes(piece, "little"))
            ours &= word(ends - len(tag) + end - 8) >> shift == wanted
        # what ends with "@xx is in another language; what is no such thing is looked at by itself
        odd = quoted & ~ours
        left = np.flatnonzero(odd & (self.fields.bytes[ends - 1] != _QUOTE))
        foreign = 0
        for length in range(2, _LONGEST_TAG):
            if not len(left):
                break
            before = word(ends[left] - length - 2) & _TWO
            found = (before == _TAG) & (ends[left] - starts[left] > length + 2)
            found[found] = self._are_tags(ends[left[found]] - length, length)
            odd[left[found]] = False
            foreign += int(found.sum())
            left = left[~found]
        self.part.dropped["other language"] += foreign
        return ours, odd

    def _are_tags(self, starts: IntArray, length: int) -> BoolArray:
        """Return which of the bytes from some places on are the tag of a language."""
        if length > 2:
            data, known = self.fields.block.data, self.terms.is_tag
            tags = [known(bytes(data[start : start + length])) for start in starts.tolist()]
            return np.array(tags, dtype=np.bool_)
        letters = [self.fields.bytes.take(starts + place) | _LOWER for place in range(2)]
        good: BoolArray = np.logical_and.reduce([(each >= _A) & (each <= _Z) for each in letters])
        return good

    def _names(self, rows: IntArray, uses: IntArray) -> None:
        """Take names that end with the tag of our language."""
        has_mid = self._codes[rows] != NO_MID
        rows, uses = rows[has_mid], uses[has_mid]
        texts, good = as_text(cut(self.fields.take(2, rows), 1, len(self.terms.tag) + 1))
        odd = pc.or_(pc.match_substring(texts, '"'), pc.match_substring(texts, "\\"))
        clean = good & ~odd.to_numpy(zero_copy_only=False)
        # only what has a blank at its ends, or a character that may be one, must be trimmed
        trimmed = np.zeros(len(rows), dtype=np.bool_)
        begin = self.fields.end(1, rows) + 2
        end = self.fields.end(2, rows) - len(self.terms.tag) - 1
        clean &= end >= begin
        for place in (begin, end):
            byte = self.fields.bytes[place]
            clean &= byte > _BLANK
            trimmed |= byte >= _BEYOND_ASCII
        if trimmed.any():
            mask = pa.array(trimmed)
            short = pc.utf8_trim_whitespace(texts.filter(mask))
            clean[trimmed] &= pc.greater(pc.binary_length(short), 0).to_numpy(zero_copy_only=False)
            texts = pc.replace_with_mask(texts, mask, short)
        if clean.all():
            self._name_batch(rows, uses, texts)
        else:
            self._name_batch(rows[clean], uses[clean], texts.filter(pa.array(clean)))
            self._odd_names(rows[~clean], uses[~clean])

    def _odd_names(self, rows: IntArray, uses: IntArray) -> None:
        """Take names that are not simply text and tag, one by one."""
        found: list[int] = []
        written: list[str] = []
        for place, row in enumerate(rows.tolist()):
            if self._codes[row] == NO_MID:
                continue
            text = self._name_by_hand(row)
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
        if tag is not None and tag != self.terms.language:
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
        columns = [pa.array(self._codes[rows]), texts, pa.array(_RANKS[uses])]
        self.part.names.append(pa.RecordBatch.from_arrays(columns, names=["id", "text", "rank"]))

    def _with_iri(self, rows: IntArray) -> IntArray:
        """Return those of the lines with a type whose type is one; the others are rejected."""
        iris = self.fields.bytes.take(self.fields.end(1, rows) + 1) == _LT
        for row in rows[~iris].tolist():
            self._reject(row, "type is no IRI")
        typed: IntArray = rows[iris]
        return typed

    def _types(self, rows: IntArray) -> None:
        codes = self._codes[rows]
        kept = codes != NO_MID
        kinds = self.fields.take(2, rows[kept]).dictionary_encode()
        names = [self.terms.name_of(kind) for kind in kinds.dictionary.to_pylist()]
        types = pa.DictionaryArray.from_arrays(kinds.indices, pa.array(names, type=pa.string()))
        columns = [pa.array(codes[kept]), types]
        self.part.types.append(pa.RecordBatch.from_arrays(columns, names=["id", "type"]))

    def _schema(self, mediators: IntArray, inverses: IntArray) -> None:
        for row in mediators.tolist():
            subject, _, mark, _ = self.fields.line_text(row).split("\t")
            if mark.startswith('"true"'):
                self.part.mediator_types.add(local(subject[1:-1]))
        for row in inverses.tolist():
            subject, _, other, _ = self.fields.line_text(row).split("\t")
            self.part.inverses.add((local(subject[1:-1]), local(other[1:-1])))

    def _edges(self, rows: IntArray, which: IntArray, relations: pa.Array) -> None:
        has_mid = self._codes[rows] != NO_MID
        rows, which = rows[has_mid], which[has_mid]
        iris = self.fields.bytes.take(self.fields.end(1, rows) + 1) == _LT
        codes, outside = self._mids(self.fields.take(2, rows[iris]))
        count = int(outside.sum())
        self.part.dropped["web address"] += count
        ended = codes != NO_MID
        self.part.dropped["object is of the schema"] += len(ended) - int(ended.sum()) - count
        kept = np.flatnonzero(iris)[ended]
        tails = pa.array(codes[ended])
        self.part.edges.append(self._edge_batch(rows[kept], which[kept], relations, tails))
        rows, which = rows[~iris], which[~iris]
        if not len(rows):
            return
        values = read_values(cut(self.fields.take(2, rows), 0, 1), self.terms.language)
        for place, reason in values.rejects:
            self._reject(int(rows[place]), reason)
        self.part.dropped.update(values.dropped)
        kept = values.rows
        batch = self._edge_batch(rows[kept], which[kept], relations, values.ids)
        self.part.value_edges.append(batch)
        columns = [values.ids, values.names]
        self.part.values.append(pa.RecordBatch.from_arrays(columns, names=["id", "name"]))

    def _edge_batch(
        self, rows: IntArray, which: IntArray, relations: pa.Array, tails: pa.Array
    ) -> pa.RecordBatch:
        used = pa.DictionaryArray.from_arrays(pa.array(which), relations)
        columns = [pa.array(self._codes[rows]), used, tails]
        return pa.RecordBatch.from_arrays(columns, names=["head", "relation", "tail"])

    def _read_subjects(self, rows: IntArray) -> None:
        """Find the mids of lines' subjects; those without one are counted."""
        rows = np.sort(rows)
        if not len(rows):
            return
        # A dump has the lines of an entity in a row, so most subjects are that of the line before.
        starts, ends = self.fields.starts.take(rows), self.fields.end(0, rows)
        lengths = ends - starts
        new = np.empty(len(rows), dtype=np.bool_)
        new[0] = True
        new[1:] = (lengths[1:] != lengths[:-1]) | (lengths[1:] > _LONGEST_RUN)
        # the last 16 bytes are those of a mid; those before them are the namespace
        for places in (ends - 8, ends - 16, starts, starts + 8, starts + 16, starts + 19):
            words = self.fields.words_at(places)
            new[1:] |= words[1:] != words[:-1]
        codes, _ = self._mids(self.fields.take(0, rows[new]))
        codes = codes[np.cumsum(new) - 1]
        self._codes[rows] = codes
        lost = int((codes == NO_MID).sum())
        self.part.dropped["about the schema, not about an entity"] += lost

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
