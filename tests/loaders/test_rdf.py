"""RDF in the forms that it comes in: what each gives, and what is left out and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, UsageError
from kgqa.graph.model import Kind
from kgqa.loaders.rdf import guessed
from kgqa.loaders.rdf_rows import preference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]

pyoxigraph = pytest.importorskip("pyoxigraph", reason="pyoxigraph is not installed")
X = "http://x.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PREFIXES = f"""@prefix : <{X}> . @prefix xsd: <{XSD}> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
"""
PEOPLE = (
    PREFIXES
    + """:ann a :Person ; rdfs:label "Ann"@en ; :knows :bob ; :born "1968-01-01"^^xsd:date .
:bob rdfs:label "Bob \\"B\\""@en ; :height 1.80 .
"""
)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def short(loaded: Loaded) -> set[tuple[str, ...]]:
    """Edges with ids without their namespaces."""
    return {tuple(part.replace(X, ":") for part in edge) for edge in loaded.edges}


FORMS = {
    "people.ttl": "TURTLE",
    "people.trig": "TRIG",
    "people.nt": "N_TRIPLES",
    "people.nq": "N_QUADS",
    "people.n3": "N3",
    "people.rdf": "RDF_XML",
    "people.owl": "RDF_XML",
    "people.jsonld": "JSON_LD",
    "people": "TURTLE",
    "people.dat": "RDF_XML",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_what_ntriples_give(load: Load, tmp_path: Path, name: str) -> None:
    triples = [q.triple for q in pyoxigraph.parse(PEOPLE.encode(), pyoxigraph.RdfFormat.TURTLE)]
    (tmp_path / "forms").mkdir()
    path = tmp_path / "forms" / name
    pyoxigraph.serialize(triples, path, format=getattr(pyoxigraph.RdfFormat, FORMS[name]))
    plain = tmp_path / "plain.nt"
    pyoxigraph.serialize(triples, plain, format=pyoxigraph.RdfFormat.N_TRIPLES)
    loaded, expected = load("rdf", path), load("triples", plain)
    assert loaded.edge_rows == expected.edge_rows
    assert loaded.entities == expected.entities
    assert loaded.relations == expected.relations
    assert loaded.report.rejected == 0
    assert loaded.entities[f"{X}bob"]["name"] == 'Bob "B"'
    assert loaded.entities['"1968-01-01"^^xsd:date']["kind"] == Kind.VALUE


@pytest.mark.parametrize(
    ("labels", "name", "aliases"),
    [
        (['"x"@de', '"y"@en', '"z"'], "y", ["z"]),
        (['"x"@de', '"y"@en-GB', '"z"'], "y", ["z"]),
        (['"x"@de', '"y"@mul', '"z"'], "y", ["z"]),
        (['"x"@de', '"z"'], "z", []),
        (['"x"@de', '"w"@fr'], "x", ["a"]),  # as its IRI ends
        (['"y"@EN', '"w"@en-us'], "y", ["w"]),
    ],
)
def test_a_name_is_chosen_by_language(
    load: Load, tmp_path: Path, labels: list[str], name: str, aliases: list[str]
) -> None:
    text = f"{PREFIXES}:a rdfs:label {', '.join(labels)} ; :p :b ."
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    row = loaded.entities[f"{X}a"]
    assert (row["name"], row["aliases"] or []) == (name, aliases)
    others = sum("@de" in label or "@fr" in label for label in labels)
    kept = name in ("x",)
    assert loaded.report.dropped["other language"] == others - kept


def test_the_wanted_language_is_an_option() -> None:
    assert [preference(tag, "de") for tag in ("de-AT", "en", "mul")] == [1, 4, 2]


def test_subclasses_give_types_through_the_chain(load: Load, tmp_path: Path) -> None:
    text = PREFIXES + (
        ":rex a :Dog . :Dog rdfs:subClassOf :Animal . :Animal rdfs:subClassOf :Being, :Dog ;"
        ' rdfs:label "animal"@en .'
    )
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    assert loaded.entities[f"{X}rex"]["types"] == ["Being", "Dog", "animal"]
    assert (f"{X}rex", TYPE, f"{X}Animal") not in loaded.edges, "an edge is one of the file"


def test_named_graphs_are_a_property_of_the_edge(load: Load, tmp_path: Path) -> None:
    text = f"{PREFIXES}:g {{ :a :p :b, :c . }} :h {{ :a :p :b . }} :a :p :d ."
    loaded = load("rdf", write(tmp_path, "a.trig", text))
    assert loaded.properties(f"{X}a", f"{X}p", f"{X}b") == {"graph": [f"{X}g", f"{X}h"]}
    assert loaded.properties(f"{X}a", f"{X}p", f"{X}c") == {"graph": f"{X}g"}
    assert loaded.properties(f"{X}a", f"{X}p", f"{X}d") is None


def test_lists_and_restrictions_are_the_edges_that_they_mean(load: Load, tmp_path: Path) -> None:
    text = PREFIXES + (
        ':a :likes ( :b "tea" ( :c ) ) .\n'
        ":Heart rdfs:subClassOf :Organ, [ a owl:Restriction ; owl:onProperty :partOf ;"
        " owl:someValuesFrom :Body ] .\n"
        ":Cell owl:equivalentClass [ owl:intersectionOf ( :Thing [ owl:onProperty"
        " [ owl:inverseOf :has ] ; owl:someValuesFrom :Body ] ) ] .\n"
        ":X rdfs:subClassOf [ owl:onProperty :partOf ; owl:allValuesFrom :Body ] .\n"
    )
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    assert short(loaded) == {
        (":a", ":likes", ":b"),
        (":a", ":likes", '"tea"'),
        (":a", ":likes", ":c"),
        (":Heart", SUBCLASS, ":Organ"),
        (":Heart", ":partOf", ":Body"),
        (":Cell", SUBCLASS, ":Thing"),
        (":Body", ":has", ":Cell"),
    }
    assert loaded.report.dropped["class expression that no edge can say"] == 1


def test_a_list_without_an_end_ends(load: Load, tmp_path: Path) -> None:
    rdf = "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> ."
    text = f"{PREFIXES}{rdf} :a :p _:l . _:l rdf:first :b ; rdf:rest _:l ."
    assert short(load("rdf", write(tmp_path, "a.ttl", text))) == {(":a", ":p", ":b")}


def test_blank_nodes_are_mediators_with_ids_of_their_file(load: Load, tmp_path: Path) -> None:
    text = PREFIXES + ':a :job [ :at :acme ; :from 1999 ] . _:n rdfs:label "named" ; :p :a .'
    one = write(tmp_path, "a.ttl", text)
    two = write(tmp_path, "b.ttl", text + "\n# another\n")
    first, again, both = load("rdf", one), load("rdf", one), load("rdf", one, two)
    mediators = [id_ for id_, row in first.entities.items() if row["kind"] == Kind.MEDIATOR]
    assert len(mediators) == 1
    assert first.entities == again.entities
    assert both.kinds()["MEDIATOR"] == 2
    assert {row["name"] for id_, row in first.entities.items() if id_[0] == "_"} == {None, "named"}
    edges = {edge[1:] for edge in short(first) if edge[0] == mediators[0]}
    assert edges == {(":at", ":acme"), (":from", '"1999"^^xsd:integer')}


def test_labels_and_inverses_of_relations(load: Load, tmp_path: Path) -> None:
    text = PREFIXES + (
        ':owns rdfs:label "owns"@en ; owl:inverseOf :ownedBy .'
        " :a :owns :b . :b :ownedBy :a . :a :q :b . "
    )
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    assert loaded.relations[f"{X}owns"] == "owns"
    assert loaded.relations[f"{X}q"] == "q"


def test_a_fault_is_named_by_its_line_and_the_rest_is_read(load: Load, tmp_path: Path) -> None:
    text = PREFIXES + ":a :p :b .\n:c :p bad .\n:d :p :e .\n"
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    assert short(loaded) == {(":a", ":p", ":b"), (":d", ":p", ":e")}
    [reject] = loaded.rejects
    assert reject[:2] == ["a.ttl", "5"]
    assert "bad" in reject[2]


def test_what_cannot_be_read_on_says_so(load: Load, tmp_path: Path) -> None:
    rdf = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    text = f'<rdf:RDF {rdf} xmlns:x="{X}"><rdf:Description rdf:about="{X}a"><x:p>1</x:p>'
    text += "</rdf:Description><oops></rdf:RDF>"
    loaded = load("rdf", write(tmp_path, "a.rdf", text))
    assert len(loaded.edges) == 1
    assert "the rest of the file is not read" in loaded.rejects[0][2]


@pytest.mark.parametrize("text", ["", "A poem\nof two lines\n", '{"a": 1}', "<html></html>"])
def test_what_is_no_rdf_is_an_error(load: Load, tmp_path: Path, text: str) -> None:
    with pytest.raises(DumpMalformedError):
        load("rdf", write(tmp_path, "a.txt", text))


def test_a_base_that_is_no_iri(load: Load, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="base"):
        load("rdf", write(tmp_path, "a.ttl", PEOPLE), base="not one")


def test_relative_iris_are_of_the_file(load: Load, tmp_path: Path) -> None:
    loaded = load("rdf", write(tmp_path, "a.ttl", "<#x> <#p> <#y> ."))
    assert loaded.edges == {("file:///a.ttl#x", "file:///a.ttl#p", "file:///a.ttl#y")}


@pytest.mark.parametrize(
    ("opening", "form"),
    [
        (b'<?xml version="1.0"?>', "rdfxml"),
        (b'\n{"@context": {}}', "jsonld"),
        (b"<a:b> <a:c> <a:d> .", "nquads"),
        (b"# said\n@prefix a: <b:> .", "trig"),
    ],
)
def test_a_form_is_known_by_the_first_bytes(opening: bytes, form: str) -> None:
    assert guessed(opening) == form


def test_a_damaged_file(load: Load, tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "a.ttl.gz"
    path.write_bytes(gzip.compress(PEOPLE.encode() * 50)[:-20])
    with pytest.raises(DumpMalformedError, match="cut short"):
        load("rdf", path)


def test_what_has_no_label_is_called_by_the_last_part_of_its_iri(
    load: Load, tmp_path: Path
) -> None:
    text = PREFIXES + (
        ":SimbaTheLion a :WildCat ; :keeper :Mary_Ann ; :seeAlso <http://y.org/a.html>, "
        '<http://y.org/?q=1>, :DOID_14 ; :friend :C%C3%A9lia . :Nala rdfs:label "Nala, a cub"@en .'
    )
    loaded = load("rdf", write(tmp_path, "a.ttl", text))
    assert loaded.names() == {
        f"{X}SimbaTheLion": "Simba The Lion",
        f"{X}WildCat": "Wild Cat",
        f"{X}Mary_Ann": "Mary Ann",
        "http://y.org/a.html": "http://y.org/a.html",
        "http://y.org/?q=1": "http://y.org/?q=1",
        f"{X}DOID_14": "DOID_14",
        f"{X}C%C3%A9lia": "Célia",
        f"{X}Nala": "Nala, a cub",
    }
    assert loaded.entities[f"{X}SimbaTheLion"]["types"] == ["Wild Cat"]
    assert loaded.entities[f"{X}SimbaTheLion"]["aliases"] == ["SimbaTheLion"]
    assert not loaded.entities[f"{X}Nala"]["aliases"]
