#!/usr/bin/env bash
# pyoxigraph 0.5.13: MAX, SUM, ORDER BY and < pass over integers beyond 64 bits, without an error.
#
# xsd:integer has no bound, and the store keeps a long integer as it was written: = finds it. But as
# a number it is no value. MAX of 2 and two integers of 20 digits is 2, a filter > finds neither of
# them, ORDER BY puts them before or between numbers by their text, and SUM is unbound. Nothing
# says so: a query for the largest value gives a wrong one. rdflib 7.6.0 calculates with them.
# Whoever runs aggregates on such an endpoint must find long integers first (a filter on STRLEN of
# STR) and refuse, or compare them outside.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check pyoxigraph==0.5.13 rdflib==7.6.0
"$temp/venv/bin/python" - <<'PYTHON'
import pyoxigraph
import rdflib

DATA = """
@prefix x: <http://example.org/> .
x:a x:v 18446744073709551617 . x:b x:v 18446744073709551618 . x:c x:v 2 .
"""
QUERIES = {
    "MAX": "SELECT (MAX(?v) AS ?x) { ?s <http://example.org/v> ?v }",
    "SUM": "SELECT (SUM(?v) AS ?x) { ?s <http://example.org/v> ?v }",
    "> 2": "SELECT (COUNT(*) AS ?x) { ?s <http://example.org/v> ?v FILTER(?v > 2) }",
    "=": "SELECT (COUNT(*) AS ?x) { ?s <http://example.org/v> ?v "
    "FILTER(?v = 18446744073709551617) }",
}
store = pyoxigraph.Store()
store.load(DATA.encode(), format=pyoxigraph.RdfFormat.TURTLE)
graph = rdflib.Graph().parse(data=DATA, format="turtle")


def by_pyoxigraph(query: str) -> str | None:
    value = next(iter(store.query(query)))["x"]
    return value and value.value


seen = {name: (by_pyoxigraph(q), str(next(iter(graph.query(q)))[0])) for name, q in QUERIES.items()}
for name, (ours, theirs) in seen.items():
    print(f"{name}: pyoxigraph {pyoxigraph.__version__} {ours}; rdflib {rdflib.__version__} {theirs}")
assert {name: pair[0] for name, pair in seen.items()} == {
    "MAX": "2",
    "SUM": None,
    "> 2": "0",
    "=": "1",
}, seen
assert seen["MAX"][1] == "18446744073709551618", seen
print("as described")
PYTHON
