#!/usr/bin/env bash
# pronto 2.7.4: an ontology saved as OBO Graphs has no synonyms, and its obsolete terms are in use.
#
# pronto reads and writes OBO 1.4 and OBO Graphs (JSON), so `dump(file, format="json")` looks like the
# way from an .obo file to nodes and edges. The writer (fastobo 0.14.2, `dump_graph`) keeps labels,
# definitions, xrefs and edges, and writes the rest of each term as empty: no synonym, comment,
# subset or property value, no logical definition, no equivalence, and "deprecated": false for a
# term with `is_obsolete: true`. An empty list and a false are statements in this format, and pronto
# raises and warns of nothing. In a graph built from such a file, retired terms come up as answers,
# and whoever asks by a synonym finds nothing. The reader has no part in it: of the JSON of others,
# pronto reads synonyms, comments, subsets and "deprecated". The form "obo" keeps all of this, but not
# the sources of single statements (modifiers such as {source="PMID:1"}), which pronto does not read.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check pronto==2.7.4 fastobo==0.14.2
"$temp/venv/bin/python" - <<'PYTHON'
import io
import json
import warnings

import pronto

warnings.simplefilter("error")
TERMS = """format-version: 1.4
ontology: x

[Term]
id: X:1
name: heart
def: "A pump." [PMID:1]
comment: Of animals.
synonym: "cardiac organ" EXACT [PMID:2]
synonym: "ticker" RELATED []

[Term]
id: X:2
name: ventricle
is_a: X:1 {source="PMID:3"} ! heart
intersection_of: X:1 ! heart
intersection_of: part_of X:1 ! heart
property_value: seen "1900" xsd:integer

[Term]
id: X:3
name: old heart
is_obsolete: true
replaced_by: X:1
equivalent_to: X:1

[Typedef]
id: part_of
name: part of
"""
WHAT = "name definition comment synonyms obsolete annotations intersection_of equivalent_to"


def said(ontology):
    read = {}
    for term in ontology.terms():
        for what in WHAT.split():
            value = getattr(term, what)
            several = not isinstance(value, str | bool | None)
            read[f"{term.id} {what}"] = sorted(map(str, value)) if several else value
    return read


ontology = pronto.Ontology(io.BytesIO(TERMS.encode()))
given = said(ontology)
changed = {}
for form in ("obo", "json"):
    file = io.BytesIO()
    ontology.dump(file, format=form)
    file.seek(0)
    again = said(pronto.Ontology(file))
    changed[form] = {key for key in given if given[key] != again[key]}
    print(f"{form}, written and read again: {len(changed[form])} of {len(given)} changed")
    for key in sorted(changed[form]):
        print(f"  {key}: {given[key]} -> {again[key]}")
assert not changed["obo"]
assert {"X:1 synonyms", "X:2 intersection_of", "X:3 obsolete"} < changed["json"]
assert len(changed["json"]) == 7, len(changed["json"])

metas = {node["lbl"]: node["meta"] for node in json.loads(file.getvalue())["graphs"][0]["nodes"]}
print("as written:", metas["old heart"]["deprecated"], metas["heart"]["synonyms"])
assert metas["old heart"]["deprecated"] is False and not metas["heart"]["synonyms"]
PYTHON
echo "pronto 2.7.4: OBO Graphs are written without synonyms, and obsolete terms as in use"
