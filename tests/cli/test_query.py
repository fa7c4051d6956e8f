"""``kgqa query``: plans from the command line."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv as pa_csv

from kgqa import open as open_kg

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

TRIPLES = "head\trelation\ttail\nalice\tmanages\tapi\nalice\tmanages\tweb\nbob\tmanages\tdb\n"
MOST = "* manages> * | desc count manages | limit 1 | give *, count manages"


@pytest.fixture(scope="module")
def home(kgqa: Kgqa, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("query")
    (folder / "staff.tsv").write_text(TRIPLES)
    assert kgqa("ingest", "triples", folder / "staff.tsv", "--home", folder).code == 0
    return folder


def test_rows_come_with_their_facts(kgqa: Kgqa, home: Path) -> None:
    done = kgqa("query", MOST, "--json", "--home", home).json
    assert done["columns"] == ["*", "count manages"]
    assert done["rows"][0]["values"] == [{"id": "alice", "name": "alice"}, 2]
    assert {fact["tail"] for fact in done["rows"][0]["facts"]} == {"api", "web"}
    assert done["runners_up"] == [[{"id": "bob", "name": "bob"}, 1]]
    shown = kgqa("query", MOST, "--home", home).out
    assert "alice  manages  api" in shown
    assert "next: bob, 1" in shown


def test_no_cell_of_csv_is_a_formula_and_json_and_arrow_are_exact(
    kgqa: Kgqa, tmp_path: Path
) -> None:
    names = ["=1+1", "+cmd", "-x", "@sum(a1)", "\uff1d1", "-40", "plain", "a=b", "'=quoted"]
    table = pa.table({"name": names, "code": [f"={name}" for name in names], "size": [4] * 9})
    pa_csv.write_csv(table, tmp_path / "thing.csv")
    home = ("--home", tmp_path / "home")
    assert kgqa("ingest", "tables", tmp_path / "thing.csv", *home).code == 0
    plan = "Thing | asc Thing.name | give Thing, Thing.code"
    done = kgqa("query", plan, "--csv", *home)
    rows = list(csv.reader(io.StringIO(done.out)))[1:]
    assert len(rows) == len(names)
    for cell in (cell for row in rows for cell in row):
        assert cell[0] not in "=+@\uff1d", cell
        assert cell[0] != "-" or cell == "-40"
    assert "apostrophe" in done.err
    exact = {(name, f"={name}") for name in names}
    assert {(name, code) for name, code in library_rows(tmp_path / "home", plan)} == exact
    said = kgqa("query", plan, "--json", *home).json["rows"]
    assert {(row["values"][0]["name"], row["values"][1]) for row in said} == exact


def library_rows(home: Path, plan: str) -> list[tuple[str, str]]:
    with open_kg(home=home) as kg:
        table = kg.query(plan).to_arrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_plan_is_printed_as_cypher_or_csv(kgqa: Kgqa, home: Path) -> None:
    shown = kgqa("query", MOST, "--cypher", "--home", home).out
    assert shown.startswith("MATCH (node1)-[manages3:manages]->(node2)\n")
    assert shown.endswith("LIMIT 1\n")
    rows = list(csv.reader(io.StringIO(kgqa("query", MOST, "--csv", "--home", home).out)))
    assert rows == [["*", "count manages"], ["alice", "2"]]


def test_without_a_plan_it_says_what_there_is(kgqa: Kgqa, home: Path) -> None:
    listed = kgqa("query", "--home", home).out
    assert "manager manages> [what they manages] (3)" in listed
    counted = "manager manages> [what they manages] | give count [what they manages]"
    assert kgqa("query", counted, "--json", "--home", home).json["rows"][0]["values"] == [3]


def test_an_answer_of_a_plan_has_its_values_and_facts(kgqa: Kgqa, tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text(
        "id,title,price\n1,Emma,9\n2,Ulysses,14.5\n3,Dubliners,7\n", "utf-8"
    )
    home = ("--home", tmp_path)
    assert kgqa("ingest", "tables", tmp_path / "book.csv", *home).code == 0
    lines = kgqa("ask", "Which book is the most expensive?", *home).out.splitlines()
    assert lines[:4] == [
        "Ulysses  price: 14.5",
        "  because Ulysses -> price -> 14.5",
        "  next: Emma, 9; Dubliners, 7",
        "  read as: Book, the price; the first by the price, most first.",
    ]
    nothing = kgqa("ask", "Which books cost more than 15?", *home).out
    assert nothing.startswith("Not in this graph")
    assert "Book.price > 15" in nothing
    assert "'movies'" in kgqa("ask", "Which movies are there?", *home).out


def test_readings_are_numbered_and_one_is_chosen_by_its_number(kgqa: Kgqa, tmp_path: Path) -> None:
    (tmp_path / "book.csv").write_text("id,title,price\n1,Emma,9\n2,Ulysses,14.5\n", "utf-8")
    home = ("--home", tmp_path)
    assert kgqa("ingest", "tables", tmp_path / "book.csv", *home).code == 0
    asked = ("ask", "Which book is the most expensive?", *home)
    unsure = ("--method", "query", "--set", "sure_from=1")
    offered = kgqa(*asked, *unsure, "--json").json["readings"]
    lines = kgqa(*asked, *unsure).out.splitlines()
    at = lines.index("  It may mean, to choose with --reading:")
    assert lines[at + 1 : at + 3] == [f"    {n}. {offered[n - 1]['text']}" for n in (1, 2)]
    chosen = kgqa(*asked, *unsure, "--reading", "2", "--json").json
    assert chosen["query"]["plan"] == offered[1]["plan"]
    refused = kgqa(*asked, "--reading", "2")
    assert refused.code == 1
    assert "Reading 2 of this question does not exist" in refused.err


def test_what_does_not_fit_is_one_line(kgqa: Kgqa, home: Path) -> None:
    said = kgqa("query", "* manage> *", "--home", home).error
    assert said == "Error: The graph has no relation manage. Did you mean manages?"
