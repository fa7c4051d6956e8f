from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError, DumpNotFoundError
from kgqa.graph.freebase import FILTERS, MEDIATOR_TYPES, bundled
from kgqa.graph.model import Kind
from kgqa.loaders import make_loader
from kgqa.loaders.freebase import NAMESPACES, Filters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]

NS = "http://rdf.freebase.com/ns/"


def line(subject: str, predicate: str, end: str, ns: str = NS) -> str:
    predicate = predicate if ":" in predicate else ns + predicate
    end = end if end[0] in '"<' else f"<{ns}{end}>"
    return f"<{ns}{subject}>\t<{predicate}>\t{end}\t."


def test_names_aliases_types_and_edges(load: Load, write: Write) -> None:
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "film.film.directed_by", "m.02"),
            line("m.01", "type.object.name", '"The \\"Film\\""@en'),
            line("m.01", "type.object.name", '"Der Film"@de'),
            line("m.01", "http://www.w3.org/2000/01/rdf-schema#label", '"The \\"Film\\""@en'),
            line("m.02", "type.object.name", '"Ana Garc\\u00eda"@en'),
            line("m.02", "common.topic.alias", '"A. G."@en'),
            line("m.02", "common.topic.alias", '"A. G."@en'),
            line("m.02", "type.object.type", "people.person"),
            line("m.02", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "people.person"),
            line("m.02", "type.object.type", "common.topic"),
            line("g.1q_x", "type.object.name", '"Alone"@en'),
        ),
    )
    assert loaded.names() == {"m.01": 'The "Film"', "m.02": "Ana García", "g.1q_x": "Alone"}
    assert loaded.entities["m.02"]["aliases"] == ["A. G."]
    assert loaded.entities["m.02"]["types"] == ["people.person"]
    assert loaded.edges == {("m.01", "film.film.directed_by", "m.02")}
    assert loaded.relations == {"film.film.directed_by": "film.film.directed_by"}
    assert dict(loaded.report.dropped) == {"other language": 1}


def test_another_language_is_an_option(load: Load, write: Write) -> None:
    dump = write(
        "dump.nt",
        line("m.01", "type.object.name", '"Vienna"@en'),
        line("m.01", "type.object.name", '"Wien"@de'),
        line("m.02", "type.object.name", '"Only English"@en'),
    )
    assert load("freebase", dump, language="de").names() == {"m.01": "Wien"}


def test_a_label_names_what_has_no_other_name(load: Load, write: Write) -> None:
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    loaded = load("freebase", write("dump.nt", line("m.01", label, '"Labelled"@en')))
    assert loaded.names() == {"m.01": "Labelled"}


@pytest.mark.parametrize("hinted", [False, True], ids=["by the bundled list", "by the dump's hint"])
def test_a_nameless_node_of_a_mediator_type_is_a_mediator(
    load: Load, write: Write, hinted: bool
) -> None:
    kind = "quidditch.match_performance" if hinted else "film.performance"
    hint = [line(kind, "freebase.type_hints.mediator", '"true"')] if hinted else []
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "type.object.name", '"Actor"@en'),
            line("m.01", "film.actor.film", "m.0cvt"),
            line("m.0cvt", "type.object.type", kind),
            line("m.0cvt", "film.performance.film", "m.02"),
            line("m.02", "type.object.name", '"Film"@en'),
            line("m.03", "type.object.name", '"Named all the same"@en'),
            line("m.03", "type.object.type", kind),
            *hint,
        ),
    )
    assert loaded.kinds() == {"ENTITY": 3, "MEDIATOR": 1}
    assert loaded.entities["m.0cvt"]["name"] is None
    assert loaded.entities["m.0cvt"]["kind"] == Kind.MEDIATOR
    assert len(loaded.edges) == 2


def test_nameless_nodes_are_left_out_with_their_edges_and_counted(load: Load, write: Write) -> None:
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "type.object.name", '"Named"@en'),
            line("m.01", "film.film.sequel", "m.02"),
            line("m.02", "film.film.sequel", "m.01"),
            line("m.02", "type.object.type", "film.film"),
            line("m.02", "film.film.runtime", '"90"'),
        ),
    )
    assert set(loaded.entities) == {"m.01"}
    assert dict(loaded.report.dropped) == {"nameless": 1, "edge to or from a nameless node": 3}


def test_literals_of_kept_predicates_are_values(load: Load, write: Write) -> None:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    born, tall, seen = "people.person.date_of_birth", "people.person.height_meters", "a.b.seen"
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "type.object.name", '"Mine"@en'),
            line("m.01", born, f'"1983-01-04"^^<{xsd}date>'),
            line("m.01", born, f'"1983"^^<{xsd}gYear>'),
            line("m.01", seen, f'"2010-05-01T10:00:00Z"^^<{xsd}dateTime>'),
            line("m.01", tall, f'"1.730"^^<{xsd}decimal>'),
            line("m.01", tall, '"1.73"'),
            line("m.01", "a.b.motto", '"Per aspera"@en'),
            line("m.01", "a.b.motto", '"Durch Mühsal"@de'),
            line("m.01", "a.b.story", f'"{"x" * 200}"@en'),
            line("m.01", "a.b.page", '"http://example.org/"'),
            line("m.01", "a.b.page", "<http://example.org/>"),
        ),
    )
    values = {i: row["name"] for i, row in loaded.entities.items() if row["kind"] == Kind.VALUE}
    assert values == {
        '"1983-01-04"^^xsd:date': "1983-01-04",
        '"1983"^^xsd:gYear': "1983",
        '"2010-05-01T10:00:00Z"^^xsd:dateTime': "2010-05-01 10:00",
        '"1.730"^^xsd:decimal': "1.73",
        '"1.73"': "1.73",
        '"Per aspera"@en': "Per aspera",
    }
    assert ("m.01", born, '"1983"^^xsd:gYear') in loaded.edges
    assert dict(loaded.report.dropped) == {
        "other language": 1,
        "long text, empty text or web address": 2,
        "web address": 1,
    }


def test_what_is_no_triple_is_rejected_with_its_line(load: Load, write: Write) -> None:
    good = line("m.01", "type.object.name", '"Good"@en')
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            b"\xef\xbb\xbf" + good.encode() + b"\r",
            "",
            "# comment",
            good.removesuffix("\t."),
            good.replace("\t", "    "),
            f"<{NS}m.02>\t<{NS}film.film.sequel>\tns/m.03\t.",
            f'<{NS}m.02>\t<{NS}type.object.name>\t"half \\uD800"@en\t.',
            b"<" + NS.encode() + b"m.03>\t\xff\t.",
        ),
    )
    assert loaded.names() == {"m.01": "Good"}
    assert [(row[1], row[2]) for row in loaded.rejects] == [
        ("4", "final dot is missing"),
        ("6", "object is neither an IRI nor a text in quotes"),
        ("7", "half of a surrogate pair in an escape"),
        ("8", "not UTF-8 (invalid start byte)"),
    ]
    assert loaded.report.lines == 8
    assert loaded.report.dropped["blank line or comment"] == 2


def test_administrative_predicates_are_left_out_by_the_list(load: Load, write: Write) -> None:
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "type.object.name", '"A"@en'),
            line("m.02", "type.object.name", '"B"@en'),
            line("m.01", "user.someone.default_domain.knows", "m.02"),
            line("m.01", "base.popstra.celebrity.friendship", "m.02"),
            line("m.01", "baseball.baseball_player.position_s", "m.02"),
            line("m.01", "common.topic.notable_types", "m.02"),
            line("m.01", "common.topic.image", "m.02"),
            line("m.01", "http://rdf.freebase.com/key/wikipedia.en", '"A"'),
            line("people.person", "type.type.instance", "m.01"),
            line("film.film.sequel", "type.object.name", '"Sequel"@en'),
        ),
    )
    assert set(loaded.relations) == {
        "base.popstra.celebrity.friendship",
        "baseball.baseball_player.position_s",
        "common.topic.notable_types",
    }
    assert dict(loaded.report.dropped) == {
        "administrative predicate": 3,
        "predicate outside Freebase's namespace": 1,
        "about the schema, not about an entity": 1,
    }


def test_a_list_of_ones_own_replaces_the_bundled_one(load: Load, write: Write) -> None:
    dump = write(
        "dump.nt",
        line("m.01", "type.object.name", '"A"@en'),
        line("m.01", "user.x.y", "m.01"),
        line("m.01", "film.x.y", "m.01"),
    )
    filters = write("filters.txt", "# mine", "- film")
    assert set(load("freebase", dump, filters=filters).relations) == {"user.x.y"}


def test_both_namespaces_name_the_same_node(load: Load, write: Write) -> None:
    other = NAMESPACES[1]
    loaded = load(
        "freebase",
        write(
            "dump.nt",
            line("m.01", "type.object.name", '"A"@en', ns=other),
            line("m.01", "film.film.sequel", "m.01", ns=NS),
            line("m.01", "film.film.sequel", "m.01", ns=other),
        ),
    )
    assert loaded.edges == {("m.01", "film.film.sequel", "m.01")}
    assert loaded.report.dropped["repeated edge"] == 1


def test_a_file_of_another_form_is_one_clear_error(load: Load, write: Write) -> None:
    with pytest.raises(DumpMalformedError, match=r"None of the 2 lines of my\.csv .*subject is no"):
        load("freebase", write("my.csv", "a,b,c", "d,e,f"))
    with pytest.raises(DumpMalformedError, match="is empty"):
        load("freebase", write("empty.nt"))
    with pytest.raises(DumpNotFoundError, match=r"nowhere\.nt"):
        load("freebase", write("empty.nt").with_name("nowhere.nt"))


def test_the_bundled_lists_are_sound() -> None:
    types = bundled(MEDIATOR_TYPES)
    filters = Filters(bundled(FILTERS))
    assert "film.performance" in types
    assert len(types) == len(set(types)) > 400
    assert all(filters.keeps(kind) for kind in types)
    kept = ["people.person.gender", "base.locations.continents.countries_within"]
    left = ["type.object.key", "user.x.default_domain.y", "base.wordnet.synset.gloss", "kg.a.b"]
    assert [filters.keeps(name) for name in kept + left] == [True] * 2 + [False] * 4
    assert make_loader("freebase").direction == "out"


@pytest.mark.parametrize(
    ("name", "rejected"),
    [
        ("emjayko__sample_artists_awards_tracks_data.txt", 7),
        ("emjayko__sample_basic_data.txt", 2),
        ("emjayko__sample_basic_objects.triples", 2),
        ("emjayko__sample_data_freebase_film.txt", 0),
        ("emjayko__sample_freebase-rdf-2014-09-21-00-0_input", 0),
        ("emjayko__sample_freebase_people_data.txt", 5),
        ("weekly_dump_2013_style_lines.nt", 1),
        ("anserini__freebase-rdf-head100.gz", 0),
    ],
)
def test_real_files_that_were_pasted_by_hand(
    load: Load, shared: Path, name: str, rejected: int
) -> None:
    loaded = load("freebase", shared / "freebase_rdf" / name)
    assert loaded.report.rejected == rejected
    assert loaded.report.lines > rejected
