"""What the terms of a Freebase dump mean: predicates, types, languages. Each is understood once.

What it does not do: read lines.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgqa.loaders.filters import Filters

NAMESPACES = ("http://rdf.freebase.com/ns/", "http://rdf.basekb.com/ns/")
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
_IRI = re.compile(rb'<[^<>"\s]+>')
_LANGUAGE = re.compile(rb"[A-Za-z]+(?:-[A-Za-z0-9]+)*")


class Use(IntEnum):
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
    "type.object.name": Use.NAME,
    _RDFS_LABEL: Use.LABEL,
    "common.topic.alias": Use.ALIAS,
    "type.object.type": Use.TYPE,
    _RDF_TYPE: Use.TYPE,
    "freebase.type_hints.mediator": Use.MEDIATOR,
    "type.property.reverse_property": Use.INVERSE,
    _INVERSE: Use.INVERSE,
}


class Terms:
    """The terms of a dump, for one language of names. Several threads may ask at a time."""

    def __init__(self, language: str, filters: Filters) -> None:
        self.language = language
        self.tag = f'"@{language}'.encode()  # what a name in the language ends with
        self._filters = filters
        self._known: dict[bytes, tuple[Use, str, str]] = {}
        self._types: dict[bytes, str] = {}
        self._tags: dict[bytes, bool] = {}

    def use_of(self, term: bytes) -> tuple[Use, str, str]:
        """Return a predicate's use, its relation, and why it is left out if it is."""
        known = self._known.get(term)
        if known is None:
            known = self._known[term] = self._understand(term)
        return known

    def is_tag(self, tag: bytes) -> bool:
        """Return whether some bytes are the tag of a language."""
        known = self._tags.get(tag)
        if known is None:
            known = self._tags[tag] = _LANGUAGE.fullmatch(tag) is not None
        return known

    def name_of(self, kind: bytes) -> str:
        """Return the name of a type (a term and its tab)."""
        name = self._types.get(kind)
        if name is None:
            name = self._types[kind] = local(kind[1:-2].decode(errors="replace"))
        return name

    def _understand(self, term: bytes) -> tuple[Use, str, str]:
        try:
            iri = term[1:-1].decode()
        except UnicodeDecodeError:
            return Use.NO_IRI, "", ""
        if not _IRI.fullmatch(term):
            return Use.NO_IRI, "", ""
        predicate = local(iri)
        if (use := _USES.get(predicate)) is not None:
            return use, "", ""
        if predicate is iri:
            return Use.NOTHING, "", "predicate outside Freebase's namespace"
        if not self._filters.keeps(predicate):
            return Use.NOTHING, "", "administrative predicate"
        return Use.EDGE, predicate, ""


def local(iri: str) -> str:
    """Return an IRI without Freebase's namespace, or the same object where it is in none."""
    for namespace in NAMESPACES:
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri
