"""Graph files of the field, by each of their forms: the same nodes, types, facts, properties."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from kgqa.errors import DumpMalformedError
from kgqa.loaders.triples_rows import HALF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]

GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="node" attr.name="kind" attr.type="string"/>
<key id="n" for="node" attr.name="name" attr.type="string"/>
<key id="y" for="node" attr.name="founded" attr.type="int"><default>1900</default></key>
<key id="r" for="edge" attr.name="relation" attr.type="string"/>
<key id="s" for="edge" attr.name="since" attr.type="int"/>
<graph edgedefault="directed">
<node id="a"><data key="n">Ann</data><data key="k">Person</data></node>
<node id="f"><data key="n">Acme</data><data key="k">Firm</data><data key="y">1950</data></node>
<edge source="a" target="f"><data key="r">works for</data><data key="s">2004</data></edge>
</graph></graphml>"""
GEXF = """<gexf xmlns="http://gexf.net/1.3"><graph defaultedgetype="directed">
<attributes class="node"><attribute id="0" title="kind" type="string"/>
<attribute id="1" title="founded" type="integer"/></attributes>
<attributes class="edge"><attribute id="0" title="since" type="integer"/></attributes>
<nodes><node id="a" label="Ann"><attvalues><attvalue for="0" value="Person"/></attvalues></node>
<node id="f" label="Acme"><attvalues><attvalue for="0" value="Firm"/>
<attvalue for="1" value="1950"/></attvalues></node></nodes>
<edges><edge id="0" source="a" target="f" label="works for"><attvalues>
<attvalue for="0" value="2004"/></attvalues></edge></edges></graph></gexf>"""
ANN = {"id": "a", "name": "Ann", "kind": "Person"}
ACME = {"id": "f", "name": "Acme", "kind": "Firm", "founded": 1950}
NODE_LINK = json.dumps(
    {
        "directed": True,
        "nodes": [ANN, ACME],
        "links": [{"source": "a", "target": "f", "relation": "works for", "since": 2004}],
    }
)
APOC_JSON = "\n".join(
    json.dumps(record)
    for record in (
        {"type": "node", "id": "a", "labels": ["Person"], "properties": {"name": "Ann"}},
        {
            "type": "node",
            "id": "f",
            "labels": ["Firm"],
            "properties": {"name": "Acme", "founded": 1950},
        },
        {
            "type": "relationship",
            "id": "0",
            "label": "works for",
            "properties": {"since": 2004},
            "start": {"id": "a"},
            "end": {"id": "f"},
        },
    )
)
APOC_CSV = """_id,_labels,name,founded,_start,_end,_type,since
a,:Person,Ann,,,,,
f,:Firm,Acme,1950,,,,
,,,,a,f,works for,2004"""
KGX = json.dumps(
    {
        "nodes": [
            {"id": "a", "name": "Ann", "category": ["biolink:Person"]},
            {"id": "f", "name": "Acme", "category": ["biolink:Firm"], "founded": 1950},
        ],
        "edges": [{"subject": "a", "predicate": "works for", "object": "f", "since": 2004}],
    }
)
WORKS = {"source": "a", "target": "f", "interaction": "works for", "since": 2004}
CYTOSCAPE = json.dumps(
    {
        "data": {"shared_name": "team"},
        "elements": {
            "nodes": [{"data": {**each, "SUID": 6}, "position": {"x": 1}} for each in (ANN, ACME)],
            "edges": [{"data": {**WORKS, "shared_interaction": "works for"}}],
        },
    }
)
CYTOSCAPE_JS = json.dumps({"elements": [{"data": ANN}, {"data": ACME}, {"data": WORKS}]})
FORMS = {
    "kgx.json": KGX,
    "g.cyjs": CYTOSCAPE,
    "js.json": CYTOSCAPE_JS,
    "g.graphml": GRAPHML,
    "g.gexf": GEXF,
    "g.json": NODE_LINK,
    "g.jsonl": APOC_JSON,
    "g.csv": APOC_CSV,
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("loader", ["graph", "tables", "triples"])
def test_the_same_graph_in_every_form(load: Any, write: Any, name: str, loader: str) -> None:
    loaded = load(loader, write(name, *FORMS[name].splitlines()))
    assert ("a", "works for", "f") in loaded.facts
    assert loaded.facts["a", "works for", "f"] == {"since": 2004}
    assert loaded.entities["a"]["name"] == "Ann"
    assert loaded.entities["a"]["types"] == ["Person"]
    assert loaded.entities["f"]["types"] == ["Firm"]
    assert json.loads(loaded.entities["f"]["properties"])["founded"] == 1950
    assert not loaded.rejects


def test_the_simple_format_of_cytoscape(load: Any, write: Any) -> None:
    loaded = load("triples", write("g.sif", "Ann knows Bob Cid", "Dee", "Bob knows"))
    assert loaded.facts.keys() == {("Ann", "knows", "Bob"), ("Ann", "knows", "Cid")}
    assert "Dee" in loaded.entities
    assert [row[2] for row in loaded.rejects] == ["a relation that leads to no node"]


def test_what_a_drawing_of_yed_says_is_read(load: Any, write: Any) -> None:
    text = """<graphml xmlns:y="http://www.yworks.com/xml/graphml">
<key for="node" id="d6" yfiles.type="nodegraphics"/>
<key for="edge" id="d9" yfiles.type="edgegraphics"/><graph>
<node id="a"><data key="d6"><y:ShapeNode><y:NodeLabel>Ann</y:NodeLabel></y:ShapeNode></data></node>
<node id="f"><data key="d6"><y:ShapeNode><y:NodeLabel>Acme</y:NodeLabel></y:ShapeNode></data></node>
<edge source="a" target="f"><data key="d9"><y:PolyLineEdge><y:EdgeLabel> works for </y:EdgeLabel>
</y:PolyLineEdge></data></edge></graph></graphml>"""
    loaded = load("graph", write("g.graphml", *text.splitlines()))
    assert loaded.facts.keys() == {("a", "works for", "f")}
    assert {row["name"] for row in loaded.entities.values()} == {"Ann", "Acme"}


def test_a_text_that_only_looks_like_a_number_stays_one(load: Any, write: Any) -> None:
    texts = {"a": "nan", "b": "007", "c": "1.50", "d": "+5", "e": "9" * 400}
    rows = [f"{id_},:Code,{text},,," for id_, text in texts.items()]
    loaded = load("graph", write("codes.csv", "_id,_labels,code,_start,_end,_type", *rows))
    held = {id_: json.loads(loaded.entities[id_]["properties"])["code"] for id_ in texts}
    assert held == texts


def write_node_link(graph: Any, path: Path) -> None:
    path.write_text(json.dumps(nx.node_link_data(graph)))


NETWORKX: dict[str, Any] = {
    "graphml": nx.write_graphml,
    "gexf": nx.write_gexf,
    "json": write_node_link,
}


@pytest.mark.parametrize("form", NETWORKX)
def test_the_keys_of_a_multigraph_are_its_relations(load: Any, tmp_path: Path, form: str) -> None:
    graph = nx.MultiDiGraph()
    facts = {
        ("ada", "born in", "london"),
        ("ada", "died in", "london"),
        ("bo", "born in", "paris"),
        ("cy", "died in", "paris"),
    }
    for head, relation, tail in sorted(facts):
        graph.add_edge(head, tail, key=relation, since=1815)
    NETWORKX[form](graph, tmp_path / f"graph.{form}")
    loaded = load("graph", tmp_path / f"graph.{form}")
    assert loaded.facts.keys() == facts
    assert loaded.facts["ada", "died in", "london"] == {"since": 1815}


@pytest.mark.parametrize("form", NETWORKX)
def test_keys_that_only_count_are_no_relations(load: Any, tmp_path: Path, form: str) -> None:
    graph = nx.MultiDiGraph()
    for tail, met in (("bo", 1990), ("bo", 1991), ("cy", 1992)):
        graph.add_edge("ada", tail, met=met)
    NETWORKX[form](graph, tmp_path / f"graph.{form}")
    loaded = load("graph", tmp_path / f"graph.{form}")
    assert {relation for _, relation, _ in loaded.facts} == {"related to"}
    assert loaded.facts["ada", "related to", "cy"] == {"met": 1992}


OBO = """format-version: 1.2

[Term]
id: FI:1
name: fish

[Term]
id: FI:2
name: salmon ! a comment
synonym: "lax" EXACT []
alt_id: FI:22
created_by: Ann
is_a: FI:1 ! fish
relationship: eats FI:3 {source="x"} ! krill
intersection_of: FI:1
intersection_of: eats FI:4 ! plankton
disjoint_from: FI:3
union_of: FI:3

[Term]
id: FI:3
name: krill

[Term]
id: FI:9
name: old
is_obsolete: true

[Typedef]
id: eats
name: feeds on"""


def test_obo(load: Any, write: Any) -> None:
    loaded = load("graph", write("fish.obo", *OBO.splitlines()))
    assert loaded.edges == {
        ("FI:2", "is a", "FI:1"),
        ("FI:2", "feeds on", "FI:3"),
        ("FI:2", "feeds on", "FI:4"),
        ("FI:2", "disjoint from", "FI:3"),
        ("FI:2", "created_by", '"Ann"'),
    }
    assert loaded.entities["FI:2"]["name"] == "salmon"
    assert loaded.entities["FI:2"]["aliases"] == ["FI:22", "lax"]
    assert "FI:9" not in loaded.entities
    assert loaded.report.dropped["obsolete term"] == 1
    assert loaded.report.dropped == {"obsolete term": 1, "union_of of OBO": 1}


def test_property_values_of_obo_are_texts_and_edges(load: Any, write: Any) -> None:
    stated = (
        'property_value: origin "by hand \\"x\\"" xsd:string {source="y"}',
        'property_value: note "one" xsd:string',
        'property_value: cry "Up ! and away" xsd:string',
        'property_value: note "two" xsd:string',
        "property_value: skos:exactMatch FI:3",
        "property_value: seen",
    )
    lines = [*OBO.splitlines(), "[Term]", "id: FI:7", "name: trout", *stated]
    loaded = load("graph", write("fish.obo", *lines))
    of_trout = {edge[1:] for edge in loaded.edges if edge[0] == "FI:7"}
    assert {("origin", '"by hand "x""'), ("skos:exactMatch", "FI:3")} <= of_trout
    assert ("cry", '"Up ! and away"') in of_trout
    assert json.loads(loaded.entities["FI:7"]["properties"])["note"] == ["one", "two"]
    assert [row[3] for row in loaded.rejects] == ["seen"]


def test_lines_of_obo_that_say_nothing_are_rejected(load: Any, write: Any) -> None:
    lines = [*OBO.splitlines(), "[Term]", "id: FI:7", "relationship: eats", "no tag", "[Term"]
    loaded = load("graph", write("fish.obo", *lines))
    assert ("FI:2", "feeds on", "FI:3") in loaded.edges
    assert [row[3] for row in loaded.rejects] == ["no tag", "[Term", "eats"]


def test_obo_graphs(load: Any, write: Any) -> None:
    nodes = [{"id": "x:1", "lbl": "limb"}, {"id": "x:2", "lbl": "hand"}]
    nodes.append({"id": "x:p", "lbl": "part of", "type": "PROPERTY"})
    edges = [{"sub": "x:2", "pred": "x:p", "obj": "x:1"}]
    text = json.dumps({"graphs": [{"nodes": nodes, "edges": edges}]}, indent=1)
    loaded = load("graph", write("limbs.json", *text.splitlines()))
    assert loaded.edges == {("x:2", "part of", "x:1")}
    assert loaded.entities["x:2"]["name"] == "hand"


def test_a_relation_that_a_property_names(load: Any, write: Any) -> None:
    lines = [
        {"type": "node", "id": "a", "labels": ["P"], "properties": {"name": "Ann"}},
        {"type": "node", "id": "b", "labels": ["P"], "properties": {"name": "Bo"}},
        {
            "type": "relationship",
            "label": "RELATES_TO",
            "properties": {"name": "founded", "valid_at": "2020-01-01"},
            "start": {"id": "a"},
            "end": {"id": "b"},
        },
    ]
    loaded = load("graph", write("g.jsonl", *map(json.dumps, lines)))
    assert loaded.facts.keys() == {("a", "founded", "b")}
    assert loaded.facts["a", "founded", "b"] == {"valid_at": "2020-01-01"}


def test_what_is_malformed_is_rejected_and_the_rest_kept(load: Any, write: Any) -> None:
    lines = [*APOC_JSON.splitlines(), "{", '{"type": "relationship", "label": "x"}']
    loaded = load("graph", write("g.jsonl", *lines))
    assert ("a", "works for", "f") in loaded.facts
    assert [row[2] for row in loaded.rejects] == ["neither a node nor a relationship"] * 2
    with pytest.raises(DumpMalformedError, match="with a fault"):
        load("graph", write("cut.graphml", *GRAPHML.splitlines()[:-3]))


def test_a_document_type_is_refused_before_it_is_read(load: Any, write: Any) -> None:
    kind = '<!DOCTYPE g [<!ENTITY x "y">]>'
    for before, encoding in (("", "utf-8"), ("", "utf-16"), (f"<!--{'é' * 3_500}-->", "utf-8")):
        text = GRAPHML.replace('<?xml version="1.0"?>', before + kind)
        file = write("g.graphml", text.encode(encoding))
        with pytest.raises(DumpMalformedError, match="document type"):
            load("graph", file)


@pytest.mark.parametrize("encoding", ["utf-99", "utf-7", "idna"])
def test_an_encoding_that_is_none_is_an_error_with_the_file(
    load: Any, write: Any, encoding: str
) -> None:
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    text = GRAPHML.replace('<?xml version="1.0"?>', head)
    with pytest.raises(DumpMalformedError, match=r"g\.graphml cannot be decoded"):
        load("graph", write("g.graphml", *text.splitlines()))


def test_half_of_a_surrogate_pair_is_rejected_and_the_rest_kept(load: Any, write: Any) -> None:
    lines = [
        *APOC_JSON.splitlines(),
        r'{"type": "node", "id": "h", "labels": ["\ud800"], "properties": {}}',
    ]
    loaded = load("graph", write("g.jsonl", *lines))
    assert ("a", "works for", "f") in loaded.facts
    assert [row[2] for row in loaded.rejects] == [HALF]
    text = (
        r'{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "\ud800"}], "links": ['
        r'{"source": "a", "target": "b", "relation": "r"},'
        r'{"source": "a", "target": "b", "relation": "\udfff"}]}'
    )
    loaded = load("graph", write("h.json", text))
    assert loaded.edges == {("a", "r", "b")}
    assert [row[2] for row in loaded.rejects] == [HALF] * 2


def test_a_table_is_sent_to_the_loader_of_tables(load: Any, write: Any) -> None:
    with pytest.raises(DumpMalformedError) as caught:
        load("graph", write("people.csv", "id,name", "1,Ann"))
    assert "kgqa ingest tables" in caught.value.hint


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (
            ["entity_id,entity_name,entity_type", "n0,Ann,person", "n1,Acme,firm"],
            ["head_id,relation,tail_id", "n0,works for,n1"],
        ),
        (
            ["id\tcategory\tname", "X:0\tbio:person\tAnn", "X:1\tbio:firm\tAcme"],
            ["id\tsubject\tpredicate\tobject", "e0\tX:0\tbio:works for\tX:1"],
        ),
        (
            ["Id,Label,Kind", "0,Ann,person", "1,Acme,firm"],
            ["Source,Target,Type,relation", "0,1,Directed,works for"],
        ),
        (
            ["node,label,class", "p/0,Ann,person", "p/1,Acme,firm"],
            ["left,right,interaction", "p/0,p/1,works for"],
        ),
    ],
)
def test_a_table_of_nodes_and_one_of_edges(
    load: Any, write: Any, nodes: list[str], edges: list[str]
) -> None:
    ending = "tsv" if "\t" in nodes[0] else "csv"
    folder = write(f"nodes.{ending}", *nodes).parent
    write(f"edges.{ending}", *edges)
    loaded = load("tables", folder)
    names = {id_: row["name"] for id_, row in loaded.entities.items()}
    facts = {(names[head], relation, names[tail]) for head, relation, tail in loaded.facts}
    assert ("Ann", "works for", "Acme") in facts
    types = {names[id_]: row["types"] for id_, row in loaded.entities.items()}
    assert types["Ann"] == ["person"]
    assert types["Acme"] == ["firm"]


def test_the_lists_of_json_lines_are_classes(load: Any, write: Any) -> None:
    ann = {"id": "X:0", "category": ["bio:person", "bio:thing"], "name": "Ann"}
    acme = {"id": "X:1", "category": ["bio:firm"], "name": "Acme"}
    folder = write("nodes.jsonl", json.dumps(ann), json.dumps(acme)).parent
    edge = {"subject": "X:0", "predicate": "bio:works for", "object": "X:1", "sources": ["x"]}
    write("edges.jsonl", json.dumps(edge))  # one record, which is still a line of many
    loaded = load("tables", folder)
    assert loaded.entities["X:0"]["types"] == ["person", "thing"]
    assert loaded.facts.keys() == {("X:0", "works for", "X:1")}


def test_edges_in_a_file_that_ends_in_sif(load: Any, write: Any) -> None:
    folder = write("nodes.tsv", "id\tname\tkind", "G::1\tABX\tGene", "D::1\tflu\tDisease").parent
    write("edges.sif", "source\tmetaedge\ttarget", "D::1\tDaG\tG::1")
    assert load("tables", folder).facts.keys() == {("D::1", "DaG", "G::1")}


def test_one_table_with_the_attributes_of_both_ends(load: Any, write: Any) -> None:
    rows = [
        "relation,x_index,x_type,x_name,y_index,y_type,y_name",
        "indication,0,drug,Corvin,1,disease,grey fever",
        "target,0,drug,Corvin,2,gene,KLF0",
    ]
    loaded = load("tables", write("kg.csv", *rows))
    names = {id_: row["name"] for id_, row in loaded.entities.items()}
    facts = {(names[head], relation, names[tail]) for head, relation, tail in loaded.facts}
    assert {("Corvin", "indication", "grey fever"), ("Corvin", "target", "KLF0")} <= facts


def test_a_graph_file_beside_others_is_read_by_its_form(load: Load, tmp_path: Path) -> None:
    graph, triples, table = (tmp_path / name for name in ("g.json", "kg.tsv", "cities.csv"))
    graph.write_text('{"nodes": [{"id": "n1", "name": "Ann"}], "links": []}', encoding="utf-8")
    triples.write_text("Bob\tlives in\tLund\n", encoding="utf-8")
    table.write_text("id,name,country\n1,Lund,Sweden\n2,York,England\n", encoding="utf-8")
    assert {"Ann", "Bob", "Lund"} <= {*load("triples", graph, triples).names().values()}
    assert {"Ann", "Lund", "York"} <= {*load("tables", table, graph).names().values()}


@pytest.mark.parametrize("called", ["LINK", "RELATES_TO", "hasRelation"])
def test_a_general_type_leaves_the_relation_to_its_property(
    load: Any, write: Any, called: str
) -> None:
    text = (
        '<graphml><graph><node id="a"/><node id="b"/>'
        f'<edge source="a" target="b" label="{called}"><data key="type">founded</data></edge>'
        '<edge source="b" target="a" label="HAS_ADDRESS"><data key="type">home</data></edge>'
        "</graph></graphml>"
    )
    loaded = load("graph", write("g.graphml", text))
    assert loaded.facts.keys() == {("a", "founded", "b"), ("b", "HAS_ADDRESS", "a")}
    nodes = write("nodes.csv", ":ID,name,:LABEL", "a,Ann,P", "b,Bo,P")
    rows = [f"a,{called},founded,b", f"b,{called},supplies,a"]
    write("links.csv", ":START_ID,:TYPE,kind,:END_ID", *rows)
    assert load("tables", nodes.parent).edges >= {("a", "founded", "b"), ("b", "supplies", "a")}


def test_what_edges_say_is_walked_and_their_numbers_are_not(load: Any, write: Any) -> None:
    graph = {
        "nodes": [{"id": "a", "name": "Ann"}, {"id": "r", "name": "Monza"}],
        "links": [{"source": "a", "target": "r", "type": "raced in", "place": 3, "key": 0}],
    }
    loaded = load("graph", write("g.json", json.dumps(graph)))
    ((fact, about),) = loaded.facts.items()
    assert fact == ("a", "raced in", "r")
    assert about["place"] == 3
    assert {relation for head, relation, _ in loaded.edges if head.startswith("[")} == {
        "raced in",
        "place",
    }
