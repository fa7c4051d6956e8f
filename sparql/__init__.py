"""Every fixed SPARQL query that is asked of an attached endpoint, one a file.

A file runs in an endpoint's own page as it stands. What differs from call to call is written there
as an IRI ``urn:kgqa:…``, or as a text that equals itself, which is true; :func:`query` puts in what
its caller has escaped (:mod:`kgqa.graph.sparql_client`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TRIPLE = "(0 <urn:kgqa:head> <urn:kgqa:relation> <urn:kgqa:tail>)"
_TAGGED = '(0 <urn:kgqa:head> <urn:kgqa:relation> "text" "tag")'
_PLACES = re.compile(
    rf"(?P<type><{re.escape(TYPE)}>)|(?P<triples>{re.escape(_TRIPLE)}|{re.escape(_TAGGED)})|<urn:kgqa:(?P<term>\w+)>|"
    r'"(?P<test>[\w ]+)" = "(?P=test)"'
)


@cache
def names() -> tuple[str, ...]:
    """Return the names of all queries, sorted."""
    found = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".rq") for name in found if name.endswith(".rq")))


@cache
def text(name: str) -> str:
    """Return a query as its file has it, without the comment. Raises FileNotFoundError."""
    lines = files(__name__).joinpath(f"{name}.rq").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#")).strip()


def query(name: str, **terms: str) -> str:
    """Return a query with what stands in its places.

    ``terms``: by the name of the place, a space as ``_``; ``type`` may be left out. Raises
    ValueError if another place has no term, or a term no place.

    >>> query("instances", **{"class": "<http://x.org/Film>"}).splitlines()[-1]
    '}'
    """
    used: set[str] = set()

    def put(place: re.Match[str]) -> str:
        found = place["term"] or place["test"] or place.lastgroup or ""
        key = found.replace(" ", "_")
        used.add(key)
        if key == "type":
            return terms.get(key, place[0])
        if key not in terms:
            raise ValueError(f"query {name}: the place {found!r} has no term")
        return terms[key]

    # One pass, so that nothing that is put in is taken for a place to put something in.
    filled = _PLACES.sub(put, text(name))
    if unused := terms.keys() - used:
        raise ValueError(f"query {name}: there is no place for {', '.join(sorted(unused))}")
    return filled
