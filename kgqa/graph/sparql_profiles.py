"""What is known of endpoints: names, languages, what is taken, and profiles of large graphs."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kgqa.graph.attached import Attachment, Mediators
from kgqa.graph.freebase import FILTERS, bundled
from kgqa.graph.literals import LONG_TEXT
from kgqa.graph.names import is_storable
from kgqa.graph.sparql_client import iri, literal
from kgqa.sparql import TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

RDF_TYPE = TYPE
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
COUNTED = 2_000_000  # triples up to which everything is counted; beyond, a sample
FREEBASE = "http://rdf.freebase.com/ns/"
WIKIDATA = "http://www.wikidata.org/"
LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
ALIASES = (
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://schema.org/alternateName",
    f"{FREEBASE}common.topic.alias",
)
_BEYOND_FREEBASE = ("http://www.w3.org/", "http://rdf.freebase.com/key/")
_WIKIBASE = (
    "http://wikiba.se/ontology#",
    "http://www.w3.org/",  # of statements: their rank as a class, where they come from
    "http://schema.org/",
    *(
        f"{WIKIDATA}prop/{part}/"
        for part in (
            "direct-normalized",
            "statement/value",
            "statement/value-normalized",
            "qualifier/value",
            "qualifier/value-normalized",
            "reference",
            "novalue",
        )
    ),
)
WIKIDATA_PROPERTY = re.compile(rf"{WIKIDATA}prop/(?:direct/|statement/|qualifier/)?(P\d+)")


def wanted_language(variable: str, language: str) -> str:
    """Return the filter on ``variable``: texts in a language, a region of it, ``mul`` or none."""
    tag = literal(language)
    return (
        f'(LANG({variable}) = "" || LANGMATCHES(LANG({variable}), {tag}) || '
        f'LANG({variable}) = "mul")'
    )


def settings_of(record: Attachment) -> str:
    """Return, as text, the fields of a record that a survey depends on."""
    held = asdict(record)
    names = ("url", "database", "labels", "language", "only", "skip", "keep", "classes")
    return repr([held[name] for name in (*names, "subclasses", "mediators")])


def takes(record: Attachment, predicate: str) -> bool:
    """Return whether edges of a predicate are included by the record.

    ``only``, ``skip`` and ``keep`` hold predicates and prefixes of predicates that end at ``/``,
    ``#`` or ``.``.
    """
    short = predicate.removeprefix(record.prefix)
    return (not record.only or fits(short, record.only)) and not is_skipped(record, short)


def is_skipped(record: Attachment, short: str) -> bool:
    """Return whether the longest entry that matches a name is in ``skip``, not in ``keep``."""
    skipped, kept = (
        max((len(name) for name in names if fits(short, (name,))), default=0)
        for names in (record.skip, record.keep)
    )
    return skipped > kept


def fits(short: str, names: Sequence[str]) -> bool:
    """Return whether a name, without the record's prefix, equals or extends one of ``names``."""
    return any(
        short == name or short.startswith(name if name[-1:] in ("/", "#") else f"{name}.")
        for name in names
    )


def profiled(record: Attachment, predicates: dict[str, int]) -> Attachment:
    """Return the record completed by the profile of Freebase or Wikidata, or by usual labels.

    A record that has a prefix or classes is unchanged. ``predicates``: their counts.
    """
    if record.prefix or record.classes:  # it has been, and may have been edited
        return record
    if f"{FREEBASE}type.object.name" in predicates:
        return replace(
            record,
            labels=record.labels or (f"{FREEBASE}type.object.name", *LABELS[:1]),
            prefix=FREEBASE,
            skip=record.skip or (*_freebase_entries("-"), *_BEYOND_FREEBASE),
            keep=record.keep if record.skip else _freebase_entries("+"),
            mediators=Mediators(pattern=r"[mg]\..*"),
            direction="out",
        )
    if any(name.startswith(f"{WIKIDATA}prop/") for name in predicates):
        return replace(
            record,
            labels=record.labels or LABELS[:1],
            skip=record.skip or _WIKIBASE,
            mediators=Mediators(pattern=rf"{re.escape(WIKIDATA)}entity/statement/.*"),
        )
    there = tuple(one for one in LABELS if one in predicates)
    return replace(record, labels=record.labels or there or LABELS[:1])


def _freebase_entries(sign: str) -> tuple[str, ...]:
    """Return the entries of the bundled Freebase filters with the sign ``+`` or ``-``."""
    return tuple(line[2:] for line in bundled(FILTERS) if line[0] == sign)


def classed(record: Attachment, predicates: dict[str, int], total: int) -> Attachment:
    """Return the record with the predicates that state classes, unless it has some.

    Subclass chains are followed only where all triples could be counted: elsewhere it takes too
    long.
    """
    if record.classes:
        return record
    known = (f"{FREEBASE}type.object.type", f"{WIKIDATA}prop/direct/P31", RDF_TYPE)
    classes = tuple(one for one in known if one in predicates) or (RDF_TYPE,)
    wikidata = classes[0] == known[1]
    wider = f"{WIKIDATA}prop/direct/P279" if wikidata else SUBCLASS
    followed = wider in predicates and total <= COUNTED
    return replace(
        record, classes=classes[:1] if wikidata else classes, subclasses=wider if followed else ""
    )


def class_path(record: Attachment) -> str:
    """Return the property path from an entity to its classes."""
    classes = "|".join(map(iri, record.classes or (RDF_TYPE,)))
    classes = f"({classes})" if len(record.classes) > 1 else classes
    return f"{classes}/{iri(record.subclasses)}*" if record.subclasses else classes


def taken_filter(record: Attachment) -> str:
    """Return the SPARQL condition on ``?p`` that :func:`takes` decides, without names."""
    names = ", ".join(map(iri, (*record.labels, *ALIASES)))
    parts = [f"?p NOT IN ({names})"]
    if record.only:
        parts.append(f"({_longest_in(record.prefix, '?p', record.only, ())})")
    if record.skip:
        parts.append(f"!({_longest_in(record.prefix, '?p', record.skip, record.keep)})")
    return " && ".join(parts)


def shown_filter(record: Attachment, variable: str) -> str:
    """Return the SPARQL condition on ``variable`` that a class is not skipped by the record."""
    if not record.skip:
        return "true"
    return f"!({_longest_in(record.prefix, variable, record.skip, record.keep)})"


def _longest_in(prefix: str, variable: str, names: Sequence[str], others: Sequence[str]) -> str:
    """Return the SPARQL condition that the longest match is in ``names``, not in ``others``."""
    outer = [name for name in names if not fits(name, others)]
    short = "|".join(map(_escaped, (name for name in outer if ":" not in name)))
    whole = [
        _escaped(name) + (r"(\.|$)" if name[-1:] not in ("/", "#") else "")
        for name in outer
        if ":" in name
    ]
    patterns = [rf"{_escaped(prefix)}({short})(\.|$)"] * bool(short) + whole
    test = f"REGEX(STR({variable}), {literal('^(' + '|'.join(patterns) + ')')})"
    if within := [other for other in others if fits(other, outer)]:
        deeper = [name for name in names if fits(name, within)]
        test = f"{test} && !({_longest_in(prefix, variable, within, deeper)})"
    return test


def _escaped(text: str) -> str:
    """Escape the special characters of regular expressions."""
    return re.sub(r"[.\\+*?()\[\]{}^$|]", r"\\\g<0>", text)


def walked_literal(record: Attachment) -> str:
    """Return the condition on ``?o`` for literals that walks see: short, in the wanted language."""
    return f"STRLEN(STR(?o)) <= {LONG_TEXT} && {wanted_language('?o', record.language)}"


def rank_of(row: dict[str, Any], properties: Sequence[str], language: str) -> int:
    """Return the rank of a name, 0 the best: by its language, then its property's place.

    Aliases rank after all names.
    """
    tag, wanted = row["l"].get("xml:lang", "").lower(), language.lower()
    order = 0 if tag == wanted else 2 if tag == "mul" else 3 if not tag else 1
    predicate = row["p"]["value"]
    is_alias = predicate in ALIASES
    return is_alias * 1_000 + order * 100 + properties.index(predicate)


def chosen_name(names: Sequence[tuple[int, str]]) -> tuple[str | None, list[str]]:
    """Return the name of the lowest rank (None if there are only aliases), and the other texts.

    ``names``: (rank, text) pairs; empty texts are skipped.
    """
    ordered = list(dict.fromkeys(text for _, text in sorted(names) if text and is_storable(text)))
    if not ordered or min(rank for rank, _ in names) >= 1_000:
        return None, ordered
    return ordered[0], ordered[1:]
