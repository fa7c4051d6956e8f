from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kgqa.errors import DumpMalformedError
from kgqa.loaders import make_loader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]


def assertion(relation: str, head: str, tail: str, **about: object) -> str:
    known = {"weight": 1.0, "license": "cc:by/4.0", "dataset": "/d/x"} | about
    return f"/a/[{relation}/,{head}/,{tail}/]\t{relation}\t{head}\t{tail}\t{json.dumps(known)}"


def test_terms_fold_and_the_heavier_of_equal_edges_stays(load: Load, write: Write) -> None:
    loaded = load(
        "conceptnet",
        write(
            "assertions.csv",
            assertion("/r/IsA", "/c/en/guide_dog/n", "/c/en/dog/n/wn/animal", weight=1.5),
            assertion("/r/IsA", "/c/en/guide_dog", "/c/en/dog", weight=2, surfaceText="[[x]]"),
            assertion("/r/IsA", "/c/en/guide_dog", "/c/en/dog/n", weight=0.5),
            assertion("/r/dbpedia/genre", "/c/en/dog", "/c/en/guide_dog"),
            assertion("/r/Synonym", "/c/en/dog/n", "/c/en/dog/v"),
            assertion("/r/Synonym", "/c/en/dog", "/c/de/hund"),
            assertion("/r/Synonym", "/c/english/dog", "/c/en/dog"),
            assertion("/r/ExternalURL", "/c/en/dog", "http://dbpedia.org/resource/Dog"),
        ),
    )
    assert loaded.names() == {"/c/en/guide_dog": "guide dog", "/c/en/dog": "dog"}
    assert loaded.relations == {"/r/IsA": "IsA", "/r/dbpedia/genre": "dbpedia/genre"}
    assert loaded.edges == {
        ("/c/en/guide_dog", "/r/IsA", "/c/en/dog"),
        ("/c/en/dog", "/r/dbpedia/genre", "/c/en/guide_dog"),
    }
    assert loaded.properties("/c/en/guide_dog", "/r/IsA", "/c/en/dog") == {
        "weight": 2,
        "surfaceText": "[[x]]",
        "license": "cc:by/4.0",
    }
    assert dict(loaded.report.dropped) == {
        "same edge again, the heavier kept": 2,
        "edge from a term to itself": 1,
        "other language": 2,
        "link to another site": 1,
    }
    assert make_loader("conceptnet").direction == "both"


def test_another_language(load: Load, write: Write) -> None:
    dump = write(
        "a.csv",
        assertion("/r/IsA", "/c/de/hund", "/c/de/tier"),
        assertion("/r/IsA", "/c/en/dog", "/c/en/animal"),
    )
    assert set(load("conceptnet", dump, language="de").entities) == {"/c/de/hund", "/c/de/tier"}


def test_what_is_no_assertion_is_rejected(load: Load, write: Write) -> None:
    good = assertion("/r/IsA", "/c/en/dog", "/c/en/animal")
    columns = good.split("\t")
    loaded = load(
        "conceptnet",
        write(
            "a.csv",
            good,
            "\t".join(columns[:4]),
            "\t".join([*columns[:4], "{broken"]),
            "\t".join([*columns[:4], "[1]"]),
            "\t".join([*columns[:4], '{"weight": "much"}']),
            "\t".join([columns[0], "IsA", *columns[2:]]),
            "\t".join([*columns[:3], "animal", columns[4]]),
            "\t".join(["x", *columns[1:]]),
        ),
    )
    assert len(loaded.edges) == 1
    assert [(row[1], row[2]) for row in loaded.rejects] == [
        ("2", "4 columns in place of 5"),
        ("3", "last column is no JSON"),
        ("4", "last column is no JSON object"),
        ("5", "weight is no number"),
        ("6", "second column is no relation (/r/…)"),
        ("7", "an end is no concept (/c/language/term)"),
        ("8", "first column is no assertion (/a/…)"),
    ]


def test_a_file_of_another_form_is_one_clear_error(load: Load, write: Write) -> None:
    with pytest.raises(DumpMalformedError, match="3 columns in place of 5"):
        load("conceptnet", write("kb.tsv", "a\tb\tc"))


def test_the_real_sample_agrees_with_a_count_of_its_lines(load: Load, shared: Path) -> None:
    path = shared / "conceptnet" / "conceptnet5_assertions_sample.csv"
    loaded = load("conceptnet", path)
    edges = set()
    for row in path.read_text().splitlines():
        _, relation, *ends, _ = row.split("\t")
        if all(end.startswith("/c/en/") for end in ends):
            head, tail = ("/".join(end.split("/")[:4]) for end in ends)
            if head != tail:
                edges.add((head, relation, tail))
    assert loaded.edges == edges
    assert set(loaded.entities) == {end for head, _, tail in edges for end in (head, tail)}
    assert (loaded.report.lines, loaded.report.rejected) == (764, 0)
    assert loaded.names()["/c/en/hard_questions"] == "hard questions"
    assert len(loaded.edge_rows) + loaded.report.dropped.total() == 764
