from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DumpMalformedError, DumpNotFoundError, UsageError
from kgqa.loaders import make_loader
from kgqa.loaders.blocks import Block
from kgqa.loaders.conceptnet import Rules, read_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.loaders.conftest import Loaded

    Load = Callable[..., Loaded]
    Write = Callable[..., Path]

REPEATED = "repeated edge"
SYMMETRIC = {
    "/r/RelatedTo",
    "/r/Synonym",
    "/r/Antonym",
    "/r/DistinctFrom",
    "/r/LocatedNear",
    "/r/SimilarTo",
    "/r/EtymologicallyRelatedTo",
}


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
        REPEATED: 2,
        "edge from a term to itself": 1,
        "other language": 2,
        "link to another site": 1,
    }
    assert make_loader("conceptnet").direction == "both"


def test_an_edge_and_its_mirror_image_are_one_where_the_relation_is_symmetric(
    load: Load, write: Write
) -> None:
    dog, cat = "/c/en/dog", "/c/en/cat"
    lines = [
        assertion(relation, *ends, weight=weight)
        for relation in ("/r/Antonym", "/r/IsA")
        for ends, weight in (((dog, cat), 3.0), ((cat, dog), 1.0))
    ]
    loaded = load("conceptnet", write("a.csv", *lines))
    assert loaded.edges == {
        (cat, "/r/Antonym", dog),
        (cat, "/r/IsA", dog),
        (dog, "/r/IsA", cat),
    }
    assert loaded.properties(cat, "/r/Antonym", dog)["weight"] == 3.0
    assert loaded.report.dropped == {REPEATED: 1}


def test_senses_can_be_kept(load: Load, write: Write) -> None:
    dump = write(
        "a.csv",
        assertion("/r/IsA", "/c/en/guide_dog/n/wn/animal", "/c/en/dog/n"),
        assertion("/r/IsA", "/c/en/guide_dog", "/c/en/dog/n"),
        assertion("/r/Synonym", "/c/en/dog/v", "/c/en/dog/n"),
        assertion("/r/IsA", "/c/en/dog/n", "/c/en/dog/n"),
    )
    loaded = load("conceptnet", dump, senses="keep")
    assert loaded.names() == {
        "/c/en/guide_dog/n/wn/animal": "guide dog (n, wn, animal)",
        "/c/en/guide_dog": "guide dog",
        "/c/en/dog/n": "dog (n)",
        "/c/en/dog/v": "dog (v)",
    }
    assert ("/c/en/dog/n", "/r/Synonym", "/c/en/dog/v") in loaded.edges
    assert loaded.report.dropped == {"edge from a term to itself": 1}
    with pytest.raises(UsageError, match="`senses` of the loader conceptnet cannot be 'both'"):
        make_loader("conceptnet", senses="both")


def test_light_assertions_can_be_left_out(load: Load, write: Write) -> None:
    weights = (0.5, 1, 1.0, 2.5)
    lines = [
        assertion("/r/IsA", f"/c/en/a{place}", "/c/en/b", weight=weight)
        for place, weight in enumerate(weights)
    ]
    without = assertion("/r/IsA", "/c/en/z", "/c/en/b").replace('"weight": 1.0, ', "")
    loaded = load("conceptnet", write("a.csv", *lines, without), min_weight=1.0)
    heads = {head for head, _, _ in loaded.edges}
    assert heads == {"/c/en/a1", "/c/en/a2", "/c/en/a3", "/c/en/z"}
    assert loaded.report.dropped == {"weight below the least": 1}
    with pytest.raises(UsageError, match="`min_weight` of the loader conceptnet cannot be nan"):
        make_loader("conceptnet", min_weight=math.nan)


def test_other_languages(load: Load, write: Write) -> None:
    dump = write(
        "a.csv",
        assertion("/r/IsA", "/c/de/hund", "/c/de/tier"),
        assertion("/r/IsA", "/c/en/dog", "/c/en/animal"),
        assertion("/r/Synonym", "/c/en/dog", "/c/de/hund"),
        assertion("/r/Synonym", "/c/en/dog", "/c/zh_tw/狗"),
    )
    assert set(load("conceptnet", dump, language="de").entities) == {"/c/de/hund", "/c/de/tier"}
    both = load("conceptnet", dump, language="en, de")
    assert len(both.edges) == 3
    assert both.report.dropped == {"other language": 1}
    longest = load("conceptnet", dump, language="en,zh_tw")
    assert longest.names()["/c/zh_tw/狗"] == "狗"
    for language in ("", "en,", "/c/en", "English"):
        with pytest.raises(UsageError, match="is not a language"):
            make_loader("conceptnet", language=language)


def test_what_is_not_an_assertion_is_rejected(load: Load, write: Write) -> None:
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
            "\t".join([*columns[:4], '{"weight": null}']),
            "\t".join([*columns[:4], '{"weight": true}']),
            "\t".join([*columns[:4], '{"weight": NaN}']),
            "\t".join([*columns[:4], '{"weight": 1' + 400 * "0" + "}"]),
            "\t".join([*columns[:4], r'{"surfaceText": "\ud800"}']),
            "\t".join([*columns[:4], "[" * 100_000]),
            good.encode().replace(b"cc:by", b"cc:\xff"),
            "",
            "\t\t\t\t",
        ),
    )
    assert len(loaded.edges) == 1
    assert [(row[1], row[2]) for row in loaded.rejects] == [
        ("2", "4 columns in place of 5"),
        ("3", "last column is not JSON"),
        ("4", "last column is not a JSON object"),
        ("5", "weight is not a number"),
        ("6", "second column is not a relation (/r/…)"),
        ("7", "an end is not a concept (/c/language/term)"),
        ("8", "first column is not an assertion (/a/…)"),
        ("9", "weight is not a number"),
        ("10", "weight is not a number"),
        ("11", "weight is not a number"),
        ("12", "weight is not a number"),
        ("13", "last column holds half of a character (a lone surrogate)"),
        ("14", "last column is not JSON"),
        ("15", "not UTF-8 (invalid start byte)"),
    ]
    assert loaded.report.dropped == {"blank line or comment": 2}


@pytest.mark.parametrize(
    "odd", ['{"weight": 1, "x": Inf}', '{"weight": NaN}', '{"weight": null}', "{}{}"]
)
def test_json_that_only_some_readers_take_is_rejected(load: Load, write: Write, odd: str) -> None:
    good = assertion("/r/IsA", "/c/en/dog", "/c/en/animal", surfaceText="Infant of NaN")
    line = "\t".join([*assertion("/r/IsA", "/c/en/cat", "/c/en/animal").split("\t")[:4], odd])
    loaded = load("conceptnet", write("a.csv", good, line))
    assert {head for head, _, _ in loaded.edges} == {"/c/en/dog"}
    assert loaded.rejects[0][1] == "2"


def test_a_file_of_another_form_is_one_clear_error(load: Load, write: Write) -> None:
    with pytest.raises(DumpMalformedError, match="3 columns in place of 5"):
        load("conceptnet", write("kb.tsv", "a\tb\tc"))
    with pytest.raises(DumpMalformedError, match="is empty"):
        load("conceptnet", write("kb.tsv"))
    with pytest.raises(DumpNotFoundError, match="The ConceptNet assertions file"):
        load("conceptnet", Path("nowhere.csv"))
    with pytest.raises(DumpNotFoundError, match="No ConceptNet"):
        load("conceptnet")


TEXTS = st.sampled_from(
    ["dog", "hot_dog", "狗", "a b", "", "n", "wn/animal", 'say_"x"', "\\n", "\r"]
)
CONCEPTS = st.one_of(
    st.tuples(
        st.sampled_from(["/c/en/", "/c/de/", "/c/zh_tw/", "/c/eng/", "/c/e/", "/c//", "/x/en/"]),
        TEXTS,
        st.sampled_from(["", "/", "/n", "/n/wn/animal", "/v//"]),
    ).map("".join),
    st.sampled_from(["/c/en", "", "http://x.org/y", "/c/en/dog", "/c/en/cat"]),
)
VALUES = st.one_of(
    st.floats(),
    st.integers(-5, 5),
    st.sampled_from(
        [10**400, True, None, "1.0", "[[dog]] is", 'a "b" \\ \x01', "狗", [1], {"a": 1}]
    ),
)
ABOUT = st.one_of(
    st.fixed_dictionaries(
        {"weight": st.sampled_from([1.0, 2, 0.5, 2.8284271247461903])},
        optional={
            "surfaceText": st.text(st.characters(codec="utf-8"), max_size=5),
            "license": st.sampled_from(["cc:by/4.0", None]),
            "sources": st.just([{"weight": 3, "x": "Inf"}]),
        },
    ).map(json.dumps),
    st.dictionaries(st.sampled_from(["weight", "surfaceText", "license", "x"]), VALUES).map(
        json.dumps
    ),
    st.sampled_from(
        [
            "",
            "{",
            "{}",
            "{}{}",
            '{"weight": 1}{"weight": 2}',
            '{"weight": 1, "weight": 2}',
            '{"weight": 1} ',
            ' {"weight": 1}',
            '{"x": Inf}',
            '{"weight": NaN}',
            '{"weight": 1e999}',
            r'{"license": "\ud800"}',
            r'{"weight": 1, "surfaceText": "\u0000\u0041"}',
            "[{}]",
            '{"x": {"weight": 2}}',
        ]
    ),
)
LINES = st.one_of(
    st.tuples(
        st.sampled_from(["/a/[x]", "/a/[x]", "/a/[x]", "/a", ""]),
        st.sampled_from(
            ["/r/IsA", "/r/Synonym", "/r/ExternalURL", "/r/ExternalURLs", "IsA", "/r/"]
        ),
        CONCEPTS,
        CONCEPTS,
        ABOUT,
    ).map(lambda fields: "\t".join(fields).encode()),
    st.sampled_from(
        [b"", b"   ", b"\t\t\t\t", b"a\tb", b"\x00", b"/a/\t/r/IsA\t/c/en/\xff\t/c/en/a\t{}"]
    ),
    st.tuples(CONCEPTS, CONCEPTS, ABOUT).map(
        lambda row: f"/a/\t/r/IsA\t{row[0]}\t{row[1]}\t{row[2]}".encode().replace(b"o", b"\xff")
    ),
)


def by_hand(line: bytes, languages: list[str], fold: bool, least: float | None) -> Any:
    """Return an edge, or the word that says why there is none."""
    if not line.strip():
        return "blank"
    fields = line.split(b"\t")
    if len(fields) != 5 or fields[0][:3] != b"/a/" or fields[1][:3] != b"/r/":
        return "rejected"
    if fields[1] == b"/r/ExternalURL":
        return "left out"
    ends = [field.split(b"/") for field in fields[2:4]]
    if not all(len(end) > 3 and end[:2] == [b"", b"c"] and end[2] and end[3] for end in ends):
        return "rejected"
    if not all(end[2].decode(errors="replace") in languages for end in ends):
        return "left out"
    try:
        relation = fields[1].decode()
        head, tail = (b"/".join(end[:4] if fold else end).decode() for end in ends)
        b"".join(fields[2:4]).decode()
    except UnicodeDecodeError:
        return "rejected"
    if head == tail:
        return "left out"
    try:
        known = json.loads(fields[4].decode())
        weight = known.get("weight", 1.0)
        assert type(weight) in (int, float)
        known["weight"] = float(weight)
        assert math.isfinite(weight)
        kept = {
            k: known[k] for k in ("weight", "surfaceText", "license") if known.get(k) is not None
        }
        json.dumps(kept, ensure_ascii=False).encode()
    except (ValueError, AttributeError, AssertionError, OverflowError):
        return "rejected"
    if least is not None and weight < least:
        return "left out"
    if relation in SYMMETRIC and head > tail:
        head, tail = tail, head
    return head, relation, tail, json.dumps(kept, ensure_ascii=False)


@given(
    st.lists(LINES, max_size=12),
    st.sampled_from([["en"], ["de", "en"], ["zh_tw", "en"]]),
    st.booleans(),
    st.sampled_from([None, 1.0]),
)
def test_a_block_says_what_its_lines_say(
    lines: list[bytes], languages: list[str], fold: bool, least: float | None
) -> None:
    rules = Rules(tuple(languages), fold, least)
    block = Block("x", 7, len(lines), b"".join(line + b"\n" for line in lines))
    read = read_block(block, rules)
    read.edges.validate(full=True)
    single = [by_hand(line, languages, fold, least) for line in lines]
    edges = Counter(said for said in single if isinstance(said, tuple))
    assert Counter(tuple(row.values()) for row in read.edges.to_pylist()) == edges
    rejected = [7 + place for place, said in enumerate(single) if said == "rejected"]
    assert [number for number, _, _ in sorted(read.rejects)] == rejected
    words = Counter(said for said in single if isinstance(said, str))
    assert read.dropped.total() == words["left out"] + words["blank"]
    assert read.dropped["blank line or comment"] == words["blank"]
    assert read.assertions == edges.total() + words["left out"]


def test_the_real_sample_agrees_with_a_count_of_its_lines(load: Load, shared: Path) -> None:
    path = shared / "conceptnet" / "conceptnet5_assertions_sample.csv"
    loaded = load("conceptnet", path)
    edges = set()
    for row in path.read_text().splitlines():
        _, relation, *ends, _ = row.split("\t")
        if all(end.startswith("/c/en/") for end in ends):
            head, tail = ("/".join(end.split("/")[:4]) for end in ends)
            if relation in SYMMETRIC:
                head, tail = sorted((head, tail))
            if head != tail:
                edges.add((head, relation, tail))
    assert loaded.edges == edges
    assert set(loaded.entities) == {end for head, _, tail in edges for end in (head, tail)}
    assert (loaded.report.lines, loaded.report.rejected) == (764, 0)
    assert loaded.names()["/c/en/hard_questions"] == "hard questions"
    assert len(loaded.edge_rows) + loaded.report.dropped.total() == 764
