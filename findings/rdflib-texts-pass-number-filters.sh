#!/usr/bin/env bash
# rdflib 7.6.0: FILTER(?v > 100) also gives texts, FILTER(?v < 100) also dates and booleans.
#
# SPARQL 1.1 (section 17.3) defines `<` and `>` for two numbers, two texts, two dates of one type and
# so on; any other pair is a type error, and the row is dropped. rdflib puts all literals into one
# order instead: a text is more than every number, a boolean, a date and a value of an unknown
# datatype less. So "70" and "unknown" are above 100, and a column with a few values written as text
# (what a conversion of CSV makes of "n/a") gives wrong rows and wrong counts, without a warning.
# Two values of xsd:gYear, whose order the standard leaves to implementations, give no rows at all
# (pyoxigraph orders them). Otherwise pyoxigraph 0.5.13 gives the rows of the standard for the same
# statements. To be right in both, a filter of numbers needs isNumeric(?v) beside it.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check rdflib==7.6.0 pyoxigraph==0.5.13
"$temp/venv/bin/python" - <<'PYTHON'
import pyoxigraph
import rdflib

TURTLE = """@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:five :size 5 . :thousand :size 1000 . :quoted :size "70" . :unknown :size "unknown" .
:date :size "2019-01-01"^^xsd:date . :true :size true . :length :size "12"^^:km .
:old :year "1890"^^xsd:gYear . :new :year "1990"^^xsd:gYear .
"""
slow = rdflib.Graph().parse(data=TURTLE, format="turtle")
fast = pyoxigraph.Store()
fast.load(TURTLE.encode(), format=pyoxigraph.RdfFormat.TURTLE)


def names(rows):
    return sorted(str(row[0]).strip("<>").rpartition("/")[2] for row in rows)


def both(pattern):
    query = f"PREFIX : <http://example.org/> SELECT ?x {{ {pattern} }}"
    found = names(slow.query(query)), names(fast.query(query))
    print(f"{pattern}\n  rdflib     {found[0]}\n  pyoxigraph {found[1]}")
    return found


above = both("?x :size ?v FILTER(?v > 100)")
assert above == (["quoted", "thousand", "unknown"], ["thousand"]), above
below = both("?x :size ?v FILTER(?v < 100)")
assert below == (["date", "five", "length", "true"], ["five"]), below
checked = both("?x :size ?v FILTER(isNumeric(?v) && ?v > 100)")
assert checked == (["thousand"], ["thousand"]), checked
years = both("?x :year ?v . ?y :year ?w FILTER(?v < ?w)")
assert years == ([], ["old"]), years
PYTHON
echo "rdflib 7.6.0: a text is more than any number, and a date, a boolean or an unknown type less"
