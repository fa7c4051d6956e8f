"""One line of a ConceptNet dump at a time: an edge, something left out, or no assertion.

This is what a line means. Whole blocks are read by columns (``conceptnet_block``), which gives the
same for every line it takes and leaves the others to this module.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kgqa.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = 5
ASSERTION, RELATION, CONCEPT = b"/a/", b"/r/", b"/c/"
LEFT_OUT = b"/r/ExternalURL"
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
"""ConceptNet 5.7's symmetric relations: of an edge and its mirror image one is meant."""

BLANK = "blank line or comment"
OTHER_SITE = "link to another site"
OTHER_LANGUAGE = "other language"
TO_ITSELF = "edge from a term to itself"
TOO_LIGHT = "weight below the least"
_CONCEPT = re.compile(rb"/c/[^/]+/[^/]+")
_LANGUAGE = re.compile(r"[a-z][a-z_-]*")
_KEPT = ("weight", "surfaceText", "license")

Edge: TypeAlias = tuple[str, str, str, str]  # head, relation, tail, properties as JSON


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A well-formed line that is left out on purpose."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no assertion."""

    reason: str


class Rules:
    """What is kept of a dump.

    ``starts``: how the URI of a concept in a wanted language begins. ``fold``: whether a concept
    with a part of speech or a sense becomes its term. ``least``: the smallest weight.
    """

    def __init__(self, languages: Iterable[str], fold: bool, least: float | None) -> None:
        self.starts = tuple(f"/c/{language}/".encode() for language in languages)
        self.fold = fold
        self.least = least


def read_languages(text: str) -> list[str]:
    """Return the languages of a list with commas. Raises UsageError where one is none.

    >>> read_languages("en, de")
    ['en', 'de']
    """
    languages = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise UsageError(
                f"{language!r} is no language of ConceptNet.",
                "Give its code, or several with commas between them: en or en,de.",
            )
    return languages


def read_line(line: bytes, rules: Rules) -> Edge | LeftOut | Rejected:
    """Return what ``line`` (without its line end) says.

    Only what is kept is looked at closely: the JSON of a line in another language may be anything.
    """
    if not line.strip():
        return LeftOut(BLANK)
    fields = line.split(b"\t")
    if len(fields) != COLUMNS:
        return Rejected(f"{len(fields)} columns in place of {COLUMNS}")
    assertion, uri, first, second, about = fields
    if not assertion.startswith(ASSERTION):
        return Rejected("first column is no assertion (/a/…)")
    if not uri.startswith(RELATION):
        return Rejected("second column is no relation (/r/…)")
    if uri == LEFT_OUT:  # its ends are URLs; everything else joins concepts
        return LeftOut(OTHER_SITE)
    if not (_CONCEPT.match(first) and _CONCEPT.match(second)):
        return Rejected("an end is no concept (/c/language/term)")
    if not (first.startswith(rules.starts) and second.startswith(rules.starts)):
        return LeftOut(OTHER_LANGUAGE)
    try:
        head, relation, tail = (field.decode() for field in (first, uri, second))
    except UnicodeDecodeError as error:
        return Rejected(f"not UTF-8 ({error.reason})")
    if rules.fold:
        head, tail = fold(head), fold(tail)
    if head == tail:
        return LeftOut(TO_ITSELF)
    known = _about(about)
    if isinstance(known, Rejected):
        return known
    weight, properties = known
    if rules.least is not None and weight < rules.least:
        return LeftOut(TOO_LIGHT)
    if relation in SYMMETRIC and tail < head:
        head, tail = tail, head
    return head, relation, tail, properties


def _about(text: bytes) -> tuple[float, str] | Rejected:
    """Return the weight and the properties that the last column states."""
    try:
        about: Any = json.loads(text.decode())
    except UnicodeDecodeError as error:
        return Rejected(f"not UTF-8 ({error.reason})")
    except (ValueError, RecursionError):
        return Rejected("last column is no JSON")
    if not isinstance(about, dict):
        return Rejected("last column is no JSON object")
    weight = about.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        return Rejected("weight is no number")
    try:
        about["weight"] = float(weight)
    except OverflowError:
        return Rejected("weight is no number")
    if not math.isfinite(about["weight"]):
        return Rejected("weight is no number")
    kept = {name: about[name] for name in _KEPT if about.get(name) is not None}
    properties = json.dumps(kept, ensure_ascii=False)
    try:
        properties.encode()
    except UnicodeEncodeError:
        return Rejected("last column holds half of a character (a lone surrogate)")
    return about["weight"], properties


def fold(uri: str) -> str:
    """Return the term of a concept.

    >>> fold("/c/en/test/n/wikt/en_1")
    '/c/en/test'
    """
    return "/".join(uri.split("/", 4)[:4])
