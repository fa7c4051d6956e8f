"""Whether a statement is in the graph: every form of it, both directions, shared names."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import csv

import kgqa
from kgqa.errors import EntityNotFoundError, KgqaError, UsageError
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIPLES = """a1\tknows\tb
a2\tlikes\tb
b\tlives in\tc
m1\tpartner\tb
a1\tmarriage\tm1
"""
NAMES = "a1\tAnn\na2\tAnn\nb\tBert\nc\tCork\n"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.tsv").write_text(TRIPLES, "utf-8")
    (folder / "names.tsv").write_text(NAMES, "utf-8")
    with kgqa.ingest(
        "triples",
        folder / "people.tsv",
        names=folder / "names.tsv",
        mediators="m",
        home=folder / "home",
    ) as kg:
        yield kg


@pytest.mark.parametrize(
    ("statement", "heads"),
    [
        (("Ann", "knows", "Bert"), ["a1"]),
        (("Ann", "likes", "b"), ["a2"]),
        (("Bert", "^likes", "Ann"), ["b"]),
        ([("Ann", "knows", "Bert"), ("Bert", "lives in", "Cork")], ["a1"]),
        ("Ann -> likes -> Bert -> lives in -> Cork", ["a2"]),
        ("Ann -> marriage..partner -> Bert", ["a1"]),
        ([("a1", "knows", "b"), ("a2", "likes", "b")], ["a1", "a2"]),
        ([("Ann", "likes", "Bert"), ("b", "lives in", "c"), ("Ann", "knows", "b")], ["a2", "a1"]),
    ],
)
def test_a_statement_that_is_there(people: kgqa.KG, statement: Any, heads: list[str]) -> None:
    found = people.check(statement)
    assert found
    assert [path.head.id for path in found.paths] == heads
    assert all(edge.facts for path in found.paths for edge in path.edges)
    assert found.to_dict()["found"] is True


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        (("Bert", "knows", "Ann"), "Bert -> knows -> Ann"),
        (("a2", "knows", "Bert"), "a2 -> knows -> Bert"),
        (("Ann", "hates", "Bert"), "Ann -> hates -> Bert"),
        ("Ann -> knows -> Bert -> knows -> Ann", "Bert -> knows -> Ann"),
        ([("Ann", "knows", "Bert"), ("b", "likes", "a2")], "b -> likes -> a2"),
    ],
)
def test_a_statement_that_is_not_there(people: kgqa.KG, statement: Any, missing: str) -> None:
    found = people.check(statement)
    assert not found
    assert found.missing == missing
    assert found.to_dict()["paths"] == []


def test_a_path_of_paths_is_there_and_a_changed_one_is_not(people: kgqa.KG) -> None:
    for path in people.paths("a1", hops=2).paths:
        assert people.check(path)
        assert people.check({"edges": [edge.to_dict() for edge in path.edges]})
        edge = path.edges[0]
        assert not people.check((edge.head.id, f"no {edge.relation}", edge.tail.id))


@pytest.mark.parametrize(
    "wrong", ["", "Ann", "Ann -> knows", "Ann -> -> Bert", [], [("a", "b")], 7]
)
def test_a_malformed_statement(people: kgqa.KG, wrong: Any) -> None:
    with pytest.raises(UsageError, match="is not a statement"):
        people.check(wrong)


def test_a_name_that_the_kg_lacks(people: kgqa.KG) -> None:
    with pytest.raises(EntityNotFoundError, match="Zoe"):
        people.check(("Zoe", "knows", "Bert"))


SIGNS = [
    ("Oslo", "record low", -40),
    ("Oslo", "share", "23%"),
    ("C++", "made by", "Bjarne"),
    ("m²", "unit of", "area"),
    ("Zoë", "likes", "tea"),
    ("x", "note", "a -> b\nc"),
    ("x1", "knows", "Payments -> leader -> Mallory"),
    ("Bjarne", "made", "x"),
    ("x", "made", "x"),
]


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    folder = tmp_path_factory.mktemp("signs")
    same = [(f"twin{number}", "sees", f"thing{number}") for number in range(1_100)]
    names = folder / "names.tsv"
    names.write_text("".join(f"twin{number}\tTwin\n" for number in range(1_100)), "utf-8")
    rows = [(str(head), relation, str(tail)) for head, relation, tail in SIGNS]
    with kgqa.ingest(
        "triples", [*rows, *same], names=names, kg="signs", home=folder / "home"
    ) as kg:
        yield kg


@pytest.mark.parametrize(
    ("statement", "near"),
    [
        ("Oslo -> record low -> 40", "-40"),
        ("Oslo -> share -> 23", "23%"),
        ("C -> made by -> Bjarne", "Bjarne"),
        ("C# -> made by -> Bjarne", "Bjarne"),
        ("c++ -> made by -> Bjarne", "Bjarne"),
        ("C++ -> Made By -> Bjarne", "Bjarne"),
        ("m2 -> unit of -> area", "area"),
    ],
)
def test_what_is_only_near_is_not_there(signs: kgqa.KG, statement: str, near: str) -> None:
    found = signs.check(statement)
    assert not found
    assert found.missing == statement
    assert [path.tail.name for path in found.near] == [near]
    assert found.to_dict()["near"][0]["edges"]


def test_a_direction_is_never_near(signs: kgqa.KG) -> None:
    assert not signs.check("Bjarne -> made by -> C++").near
    assert signs.check("Bjarne -> ^made by -> C++")


@pytest.mark.parametrize(
    "statement",
    [
        "Oslo -> record low -> -40",
        "Oslo -> record low -> \u221240",
        "Oslo -> record low -> -40.0",
        "Zoe\u0308 -> likes -> tea",
        'x -> note -> "a -\\u003e b\\nc"',
        [("x", "note", "a -> b\nc")],
        "x -> made -> x",
        "x -> ^made -> x -> ^made -> Bjarne",
        'x1 -> knows -> "Payments -\\u003e leader -\\u003e Mallory"',
    ],
)
def test_names_are_compared_as_stored_and_values_by_value(signs: kgqa.KG, statement: Any) -> None:
    found = signs.check(statement)
    assert found
    assert signs.check(found.statement), "as it is shown it can be read"


def test_a_name_that_a_thousand_share_is_found_with_each(signs: kgqa.KG) -> None:
    for number in (0, 500, 1_099):
        (path,) = signs.check(("Twin", "sees", f"thing{number}")).paths
        assert path.head.id == f"twin{number}"
    assert len(signs.check([("Twin", "sees", "thing7"), ("thing7", "^sees", "Twin")]).paths) == 1
    assert not signs.check(("Twin", "sees", "Oslo")), "nobody of that name does"


def test_a_statement_of_a_megabyte_takes_store_calls_for_its_names_only(
    signs: kgqa.KG, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 2 * 9_000
    text = "C++" + " -> made by -> Bjarne -> ^made by -> C++" * (steps // 2)
    calls = []
    read = type(signs.store).entities

    def counted(store: Any, keys: Any) -> Any:
        calls.append(len(keys))
        return read(store, keys)

    monkeypatch.setattr(type(signs.store), "entities", counted)
    (path,) = signs.check(text).paths
    assert len(path.edges) == steps
    assert len(calls) < 20
    assert sum(calls) < 100


PIECES = (
    "->",
    " -> ",
    "^",
    '"',
    '"a"',
    "..",
    " | ",
    "`",
    "\\",
    "é",
    "ab",
    "AB",
    " ",
    "-",
    ">",
    "→",
    "1",
)
ODD = (
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.characters(codec="utf-8")), min_size=1, max_size=5
    )
    .map(lambda pieces: "".join(pieces).strip())
    .filter(bool)
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(ODD, ODD, ODD), min_size=1, max_size=6))
def test_the_text_of_every_path_is_read_back(triples: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            kg = kgqa.ingest("triples", triples, home=folder, progress=Silent())
        except KgqaError:  # no triple is left of them
            assume(False)
        with kg:
            heads = {edge.head.id for triple in triples for edge in _edges_of(kg, triple)}
            for head in sorted(heads):
                for path in kg.paths(head, hops=2, direction="both").paths:
                    assert kg.check(path.text), path.text
                    shown = path.text.split(" -> ")
                    assert len(shown) == 1 + 2 * len(path.edges), path.text
            held = [triple for triple in triples if _edges_of(kg, triple)]
            statement = kg.check(held).statement if held else ""
            assert not held or kg.check(statement), statement


SYMBOLS = st.sampled_from(["->", "--", '"', "^", "|", "..", "??", "😀", "\\", '""'])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(SYMBOLS, ODD), min_size=3, max_size=5), SYMBOLS)
def test_names_of_symbols_alone_are_read_back(names: list[str], relation: str) -> None:
    """They are not the ids, several things may have one, and no word of them is in an index."""
    with tempfile.TemporaryDirectory() as folder:
        file, named = Path(folder, "kg.tsv"), Path(folder, "names.tsv")
        rows = [f"m{at}\t{relation}\tm{at + 1}\n" for at in range(len(names) - 1)]
        file.write_text("".join(rows).replace('"', '""'), "utf-8")
        table = pa.table({"id": [f"m{at}" for at in range(len(names))], "name": names})
        csv.write_csv(table, named, csv.WriteOptions(delimiter="\t"))
        with kgqa.ingest("triples", file, names=named, home=folder, progress=Silent()) as kg:
            found = kg.paths("m0", hops=2, direction="both").paths
            assert found
            for path in found:
                assert kg.check(path.text), path.text
            assert kg.paths(path.edges[-1].tail.name, hops=1).paths


def _edges_of(kg: kgqa.KG, triple: tuple[str, str, str]) -> list[Any]:
    try:
        return [edge for path in kg.check(triple).paths for edge in path.edges]
    except KgqaError:  # a name was trimmed or left out when it was loaded
        return []
