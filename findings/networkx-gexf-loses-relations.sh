#!/usr/bin/env bash
# networkx 3.6.1: whether the relations of a graph survive GEXF depends on one pair of its nodes.
#
# A knowledge graph in networkx is a MultiDiGraph whose edge keys are the relations. `write_gexf`
# puts the key into an attribute "networkx_key"; `read_gexf` gives a MultiDiGraph with these keys
# only if some pair of nodes has two edges. Otherwise it gives a DiGraph, and the attribute is
# gone: of ("bo", "born in", "paris") no relation is left, without an error or a warning. GraphML
# keeps the key as the edge's id, so the ids of a file repeat (an id is meant to be unique
# in a document); read back, the same graph is a MultiDiGraph with relations, or a DiGraph with the
# relation in an attribute "id", again by whether any two nodes have two edges. A small excerpt of a
# graph thus loses what the whole keeps. A reader should take the relation from the file itself:
# "networkx_key" in GEXF, ids that repeat in GraphML.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check networkx==3.6.1
"$temp/venv/bin/python" - "$temp" <<'PYTHON'
import sys
from pathlib import Path

import networkx as nx

folder = Path(sys.argv[1])
few = [("bo", "born in", "paris"), ("cy", "died in", "paris"), ("di", "born in", "rome")]
one_more = [*few, ("bo", "died in", "paris")]
kept = {}
for name, facts in (("without two relations of one pair", few), ("with them", one_more)):
    graph = nx.MultiDiGraph()
    for head, relation, tail in facts:
        graph.add_edge(head, tail, key=relation)
    for form, write, read in (
        ("GEXF", nx.write_gexf, nx.read_gexf),
        ("GraphML", nx.write_graphml, nx.read_graphml),
    ):
        path = folder / "graph"
        write(graph, path)
        again = read(path)
        whole = {"keys": True} if again.is_multigraph() else {}
        edges = sorted(again.edges(data=True, **whole), key=str)
        kept[form, name] = [relation for _, relation, _ in facts if relation in str(edges)]
        print(f"{form}, {name}: {type(again).__name__}")
        for edge in edges:
            print(f"  {edge}")
        print(f"  relations still there: {len(kept[form, name])} of {len(facts)}")
assert not kept["GEXF", "without two relations of one pair"]
assert len(kept["GEXF", "with them"]) == 4
PYTHON
echo "networkx 3.6.1: GEXF keeps the relations only if two nodes have two edges"
