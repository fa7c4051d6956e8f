"""A Freebase dump read line by line: the rules that reading it by columns must agree with.

``take_line`` is the whole of them, for one line. What it shares with the loader is only what is
tested by itself: what a triple of N-Triples is, filters, and how values are named.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kgqa.graph.literals import value_id, value_name
from kgqa.graph.model import ALIAS
from kgqa.loaders.freebase import Filters
from kgqa.loaders.ntriples import TRIPLE, is_blank, unescape, why_not

NS = "http://rdf.freebase.com/ns/"
BASEKB = "http://rdf.basekb.com/ns/"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
XSD = "http://www.w3.org/2001/XMLSchema#"
FILTERS = ["- user", "- type", "+ type.kept"]

_IN_FORM = re.compile(
    rb'(<[^\t]*>)\t(<[^\t]*>)\t(<[^\t]*>|"[^\t]+)\t(\.)', re.DOTALL
)  # ends of terms alone: most lines need no more
_NAMES = {"type.object.name": 0, LABEL: 1, "common.topic.alias": ALIAS}
_TYPES = {"type.object.type", RDF_TYPE}
_MID = re.compile(r"[gm]\.[0-9a-z_]{1,11}")
_TAGGED = re.compile(rb'".*"@([A-Za-z]+(?:-[A-Za-z0-9]+)*)', re.DOTALL)
_CONTROL = re.compile(rb"[\0-\x08]")


@dataclass
class Read:
    """What a dump holds, and what became of every line of it."""

    kept: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    mediators: set[str] = field(default_factory=set)
    inverses: set[tuple[str, str]] = field(default_factory=set)
    schema: int = 0

    @property
    def lines(self) -> int:
        """Every line is here once: kept, left out by reason, rejected, or of the schema."""
        counted = self.kept.total() + self.dropped.total() + len(self.rejects)
        return counted + self.schema


def in_form(raw: bytes) -> re.Match[bytes] | None:
    """Return the terms of a line that has the dump's own form, as far as their ends tell."""
    return None if _CONTROL.search(raw) else _IN_FORM.fullmatch(raw)


def local(iri: str) -> str:
    for namespace in (NS, BASEKB):
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri


def mid_of(term: bytes) -> str | None:
    name = local(term[1:-1].decode(errors="replace"))
    return name if _MID.fullmatch(name) else None


def take_line(read: Read, number: int, raw: bytes, language: str) -> None:
    """Add one line (without its line feed) to what was read."""
    found = in_form(raw)
    if found is None:
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            read.rejects.append((number, f"not UTF-8 ({error.reason})"))
            return
        match = TRIPLE.fullmatch(text.rstrip("\r"))
        if match is None:
            if is_blank(text.rstrip("\r")):
                read.dropped["blank line or comment"] += 1
            else:
                read.rejects.append((number, why_not(text.rstrip("\r"))))
            return
        one, two, iri, literal, tag, datatype = match.groups()
        suffix = f"@{tag}" if tag else f"^^<{datatype}>" if datatype else ""
        if re.search("[\x01-\x08]", "".join((one, two, iri or suffix))):
            read.rejects.append((number, "control character in an IRI"))
            return
        # the same text, in the dump's form
        written = re.sub("[\x01-\t]", lambda mark: f"\\u{ord(mark[0]):04X}", literal or "")
        third = f"<{iri}>" if iri is not None else f'"{written}"{suffix}'
        terms = (f"<{one}>".encode(), f"<{two}>".encode(), third.encode())
    else:
        terms = (found[1], found[2], found[3])
    try:
        take_terms(read, *terms, language)
    except ValueError as error:
        read.rejects.append((number, str(error)))


def take_terms(read: Read, one: bytes, two: bytes, three: bytes, language: str) -> None:
    """Add a line of three terms. Raises ValueError with the reason where it is rejected."""
    try:
        iri = two[1:-1].decode()
    except UnicodeDecodeError:
        iri = ""
    if not re.fullmatch(rb'<[^<>"\s]+>', two) or not iri:
        raise ValueError("predicate is not an IRI in angle brackets")
    predicate, mid = local(iri), mid_of(one)
    if predicate == "freebase.type_hints.mediator":
        read.schema += 1
        if three.startswith(b'"true"'):
            read.mediators.add(local(one[1:-1].decode(errors="replace")))
    elif predicate in ("type.property.reverse_property", INVERSE):
        if three[:1] != b"<":
            raise ValueError("inverse is not an IRI")
        read.schema += 1
        subject, other = (local(term[1:-1].decode(errors="replace")) for term in (one, three))
        read.inverses.add((subject, other))
    elif predicate in _NAMES:
        if three[:1] != b'"':
            raise ValueError("name is not text")
        if is_foreign(three, language):
            read.dropped["other language"] += 1
        elif mid is None:
            read.dropped["about the schema, not about an entity"] += 1
        else:
            name = unescape(literal_of(three)[4]).strip()
            if not name:
                raise ValueError("name is empty")
            read.kept["name", mid, name, _NAMES[predicate]] += 1
    elif predicate in _TYPES:
        if three[:1] != b"<":
            raise ValueError("type is not an IRI")
        if mid is None:
            read.dropped["about the schema, not about an entity"] += 1
        else:
            read.kept["type", mid, local(three[1:-1].decode(errors="replace"))] += 1
    elif predicate == iri:
        read.dropped["predicate outside Freebase's namespace"] += 1
    elif not Filters(FILTERS).keeps(predicate):
        read.dropped["administrative predicate"] += 1
    elif mid is None:
        read.dropped["about the schema, not about an entity"] += 1
    elif three[:1] == b"<":
        if tail := mid_of(three):
            read.kept["edge", mid, predicate, tail] += 1
        elif local(three[1:-1].decode(errors="replace")).startswith(("http:", "https:")):
            read.dropped["web address"] += 1
        else:
            read.dropped["object is of the schema"] += 1
    else:
        take_value(read, mid, predicate, three, language)


def is_foreign(three: bytes, language: str) -> bool:
    """Return whether a literal is in another language, which is all that is read of it."""
    match = _TAGGED.fullmatch(three)
    return match is not None and match[1].decode() != language


def literal_of(three: bytes) -> re.Match[str]:
    try:
        line = b"\t".join((b"<s>", b"<p>", three, b".")).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    match = TRIPLE.fullmatch(line)
    if match is None:
        raise ValueError(why_not(line))
    return match


def take_value(read: Read, mid: str, predicate: str, three: bytes, language: str) -> None:
    if is_foreign(three, language):
        read.dropped["other language"] += 1
        return
    match = literal_of(three)
    text = unescape(match[4])
    if not text.strip() or len(text) >= 200 or text.startswith(("http://", "https://")):
        read.dropped["long text, empty text or web address"] += 1
        return
    ident = value_id(text, match[5], match[6])
    read.kept["value", mid, predicate, ident, value_name(text, match[6])] += 1


def by_lines(data: bytes, language: str) -> Read:
    """Return what a dump holds."""
    read = Read()
    for number, raw in enumerate(data.split(b"\n")[:-1], 1):
        take_line(read, number, raw.rstrip(b"\r"), language)
    return read
