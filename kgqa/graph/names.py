"""Names in the form in which they are compared, one at a time or as a column."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

_NOT_WORD = re.compile(r"[\W_]+")
_SHORT = 64  # characters of a text whose form is remembered
ABBREVIATIONS = {  # in names of columns and properties
    "dob": "date of birth", "dod": "date of death", "qty": "quantity", "amt": "amount",
    "dept": "department", "addr": "address", "lat": "latitude", "lng": "longitude",
    "lon": "longitude", "fname": "first name", "lname": "last name", "yr": "year",
    "pop": "population", "nm": "name", "dt": "date", "cd": "code", "typ": "type", "num": "number",
    "nbr": "number", "ctry": "country", "eml": "email", "tel": "telephone", "cust": "customer",
    "prc": "price", "desc": "description", "tot": "total", "acct": "account", "sal": "salary",
    "alt": "altitude", "elev": "elevation", "wt": "weight", "ht": "height", "temp": "temperature",
    "dist": "distance", "vol": "volume", "emp": "employee", "mgr": "manager", "hrs": "hours",
    "mins": "minutes", "pct": "percent", "popu": "population", "arr": "arrival",
    "dep": "departure", "sched": "scheduled", "dest": "destination", "orig": "origin",
    "dur": "duration", "mfr": "manufacturer", "mfg": "manufacturer", "manuf": "manufacturer",
    "cnt": "count", "avg": "average", "prod": "product", "loc": "location", "lang": "language",
    "freq": "frequency", "len": "length", "cyl": "cylinders", "wgt": "weight", "hgt": "height",
    "amnt": "amount", "perc": "percent", "pcnt": "percent", "cntry": "country", "secs": "seconds",
    "txn": "transaction", "pmt": "payment", "msg": "message", "appt": "appointment",
    "mth": "month", "veh": "vehicle", "univ": "university", "govt": "government",
    "categ": "category", "sqft": "square feet", "pos": "position", "pts": "points",
    "msrp": "list price", "trq": "torque", "hwy": "highway", "bdy": "body", "pl": "place",
}  # fmt: skip

KEY_WORDS = frozenset(["id", "ids", "uid", "uuid", "guid", "key", "fk", "pk", "ref", "iri", "uri"])
"""Ends of the names of columns and properties that only join things: nobody asks for them."""


def normalise(name: str) -> str:
    """Return the form in which names are compared: NFKC, case folded, words joined by one space.

    Stores keep it beside names and aliases, so that a look-up means the same in each.

    >>> normalise("  Lewis & Clark's  Expédition ")
    'lewis clark s expédition'
    """
    return _short(name) if len(name) <= _SHORT else _normalised(name)


@lru_cache(maxsize=1 << 14)
def _short(name: str) -> str:
    """Return :func:`normalise` of a short text, of which a question has the same ones often."""
    return _normalised(name)


def _normalised(name: str) -> str:
    """Return :func:`normalise` of a text."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _NOT_WORD.sub(" ", folded).strip()


def is_storable(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_form(name: str) -> str:
    """Return the form under which a store finds a name: normalised, or case-folded if wordless.

    Names of symbols alone (``->``, ``--``) are found by exactly these; blanks alone give "".

    >>> name_form("C++"), name_form(" -> "), name_form(" ")
    ('c', '->', '')
    """
    if form := normalise(name):
        return form
    symbols = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return symbols if is_storable(symbols) else ""


def normalised_column(names: pa.Array) -> pa.Array:
    """Return :func:`normalise` of every name (strings without nulls); ASCII by Arrow's kernels."""
    lowered = pc.ascii_lower(names)
    done = pc.ascii_trim(pc.replace_substring_regex(lowered, "[^0-9a-z]+", " "), " ")
    return _each(normalise, names, pc.invert(pc.string_is_ascii(names)), done)


def name_form_column(names: pa.Array) -> pa.Array:
    """Return :func:`name_form` of every name (strings without nulls)."""
    done = normalised_column(names)
    return _each(name_form, names, pc.equal(done, ""), done)


def _each(
    form: Callable[[str], str], names: pa.Array, chosen: pa.BooleanArray, done: pa.Array
) -> pa.Array:
    """Return ``done`` with ``form`` applied to the names where the mask ``chosen`` is true."""
    if not chosen.true_count:
        return done
    forms = [form(name) for name in names.filter(chosen).to_pylist()]
    return pc.replace_with_mask(done, chosen, pa.array(forms, type=names.type))


_LOCAL = (  # of an IRI; one with a query, without a path or that ends in one, is a document's
    r"^(?:https?://[^/?#\s]+/(?:[^?#\s]*/)?|https?://[^?#\s]+#|urn:(?:[^:\s]+:)+)"
    r"(?P<local>[^/?#:\s]*\pL[^/?#:\s]*)$"
)
_CODE = r"^\p{L}+[_-]?\d+$|^[\p{Lu}\d_-]+$"
_DOCUMENT = r"\.[A-Za-z]{2,5}$"


def iri_names(iris: pa.Array, *, codes: bool = True) -> tuple[pa.Array, pa.Array]:
    """Return the last part of each IRI in words, and as written; null if it has none.

    This names entities without a label. The address of a document gives no name; a code is kept
    as it is, or gives none without ``codes``.

    >>> named = iri_names(pa.array(["http://x.org/zoo#BigCage", "http://x.org/a/Mary_Ann",
    ...                             "http://x.org/id/DOID_14", "http://x.org/a.html"]))
    >>> named[0].to_pylist()
    ['Big Cage', 'Mary Ann', 'DOID_14', None]
    """
    local = pc.struct_field(pc.extract_regex(iris, _LOCAL), "local")
    if pc.any(encoded := pc.fill_null(pc.match_substring(local, "%"), False)).as_py():
        decoded = [unquote(text) for text in local.filter(encoded).to_pylist()]
        local = pc.replace_with_mask(local, encoded, pa.array(decoded, local.type))
    local = pc.if_else(pc.match_substring_regex(local, _DOCUMENT), None, local)
    apart = pc.replace_substring_regex(local, r"([\p{Ll}\d])(\p{Lu})", r"\1 \2")
    apart = pc.replace_substring_regex(apart, r"(\p{Lu})(\p{Lu}\p{Ll})", r"\1 \2")
    words = pc.if_else(pc.match_substring(local, "_"), pc.replace_substring(local, "_", " "), apart)
    words = pc.if_else(pc.match_substring_regex(local, _CODE), local if codes else None, words)
    return pc.utf8_trim_whitespace(words), local
