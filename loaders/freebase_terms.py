"""What the terms of a Freebase dump mean: predicates, types. Each is understood once."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgqa.loaders.filters import Filters

NAMESPACES = ("http://rdf.freebase.com/ns/", "http://rdf.basekb.com/ns/")
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
_IRI = re.compile(rb'<[^<>"\s]+>')


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
    """The terms of a dump. Several threads may ask at a time."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._known: dict[bytes, tuple[Use, str]] = {}

    def use_of(self, term: bytes) -> tuple[Use, str]:
        """Return a predicate's use, and its relation, or why its lines are left out."""
        known = self._known.get(term)
        if known is None:
            known = self._known[term] = self._understand(term)
        return known

    def _understand(self, term: bytes) -> tuple[Use, str]:
        try:
            iri = term[1:-1].decode()
        except UnicodeDecodeError:
            return Use.NO_IRI, ""
        if not _IRI.fullmatch(term):
            return Use.NO_IRI, ""
        predicate = local(iri)
        if (use := _USES.get(predicate)) is not None:
            return use, ""
        if predicate is iri:
            return Use.NOTHING, "predicate outside Freebase's namespace"
        if not self._filters.keeps(predicate):
            return Use.NOTHING, "administrative predicate"
        return Use.EDGE, predicate


def local(iri: str) -> str:
    """Return an IRI without Freebase's namespace, or the same object if it is in neither."""
    for namespace in NAMESPACES:
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri


@lru_cache(1 << 16)
def local_name(term: bytes) -> str:
    """Return the IRI of a term in angle brackets without Freebase's namespace."""
    return local(term[1:-1].decode(errors="replace"))
