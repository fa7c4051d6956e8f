"""One block of a Freebase dump, by columns: which of its facts are kept, and why others are not.

A line in the dump's own form (four fields between tabs, terms in brackets or quotes, a dot) is
taken in by kernels over the whole block. Any other line is matched by itself: it is written anew
in the dump's form if it is a triple, and a reject if it is none. What it does not do: decide which
entities are kept, which only the whole dump can tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kgqa.loaders.blocks import Block, decoded
from kgqa.loaders.fields import Fields
from kgqa.loaders.freebase_reading import Part, Reading
from kgqa.loaders.freebase_terms import Terms
from kgqa.loaders.ntriples import TRIPLE, is_blank, why_not

if TYPE_CHECKING:
    from kgqa.graph.model import BoolArray
    from kgqa.loaders.filters import Filters

_CONTROL = re.compile("[\x01-\t]")
_LT = ord("<")
_THREE, _EIGHT, _FORTY = np.uint64(0xFFFFFF), np.uint64(8), np.uint64(40)
_BETWEEN, _BEFORE_TEXT, _IRI_END = (
    np.uint64(int.from_bytes(each, "little")) for each in (b">\t<", b'>\t"', b">\t.")
)


class BlockReader:
    """Reads blocks of a dump; several threads may use one at a time."""

    def __init__(self, language: str, filters: Filters) -> None:
        self._terms = Terms(language, filters)

    def read(self, block: Block) -> Part:
        """Return what a block holds."""
        part = self.begin(block)
        if part.anew:
            rest = self.read_anew(part.source, part.anew)
            part.anew = []
            part.add(rest)
        return part

    def begin(self, block: Block) -> Part:
        """Return what a block holds but for ``Part.anew``, which :meth:`read_anew` reads.

        Those lines are few in a dump that is in form, and are best read many at a time.
        """
        part = Part(block.source)
        fields = Fields(block, b"\t", 4)
        good = self._in_form(fields)
        part.anew = self._by_hand(fields, good, part)
        Reading(self._terms, fields, part, None).take(good)
        part.rejects.sort()
        return part

    def read_anew(self, source: str, anew: list[tuple[int, bytes]]) -> Part:
        """Return what lines hold that were written anew, with the numbers they had."""
        part = Part(source)
        block = Block(source, 0, len(anew), b"".join(line for _, line in anew))
        fields = Fields(block, b"\t", 4)
        Reading(self._terms, fields, part, [number for number, _ in anew]).take(
            np.ones(len(fields), dtype=np.bool_)
        )
        return part

    def _in_form(self, fields: Fields) -> BoolArray:
        """Return which lines have terms, a dot and nothing else, as far as their ends tell."""
        # Of eight bytes from a place on, the lowest is the byte at that place.
        word = fields.words_at
        first, second, third, end = (fields.marks[:, place] for place in range(4))
        good: BoolArray = (word(first - 1) & _THREE) == _BETWEEN
        before = word(second - 1) & _THREE
        good &= (fields.bytes[fields.starts] == _LT) & (end == third + 2)
        after = word(third - 6) >> _FORTY  # from the byte before the tab on
        iri = (before == _BETWEEN) & (after == _IRI_END)
        text = (
            (before == _BEFORE_TEXT)
            & (after >> _EIGHT == _IRI_END >> _EIGHT)
            & (third > second + 2)
        )
        good &= iri | text
        return good

    def _by_hand(self, fields: Fields, good: BoolArray, part: Part) -> list[tuple[int, bytes]]:
        """Return the triples among the other lines: their numbers, and each in the dump's form."""
        lines = fields.other_lines()
        if not good.all():
            for row in np.flatnonzero(~good).tolist():
                start, end = int(fields.starts[row]), int(fields.ends[row])
                lines.append((fields.line_number(row), bytes(fields.block.data[start:end])))
            lines.sort()
        anew: list[tuple[int, bytes]] = []
        for number, raw in lines:
            if (text := decoded(number, raw, part.rejects)) is None:
                continue
            match = TRIPLE.fullmatch(text)
            if match is None:
                if is_blank(text):
                    part.dropped["blank line or comment"] += 1
                else:
                    part.rejects.append((number, why_not(text), text))
                continue
            subject, predicate, iri, literal, tag, datatype = match.groups()
            if iri is None:
                suffix = f"@{tag}" if tag else f"^^<{datatype}>" if datatype else ""
                # a control character may stand in a literal, but not in the dump's form
                tail = '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", literal) + '"'
                tail += suffix
            else:
                tail = f"<{iri}>"
            if _CONTROL.search(f"{subject}{predicate}{iri or suffix}"):
                part.rejects.append((number, "control character in an IRI", text))
                continue
            anew.append((number, f"<{subject}>\t<{predicate}>\t{tail}\t.\n".encode()))
        return anew
