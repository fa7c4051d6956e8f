"""Questions about a whole graph: the bundled scorer on tables, rows with what they rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
import kgqa.data
from kgqa.errors import LinkingError, UsageError
from kgqa.evaluation.query_run import same_rows
from kgqa.methods.query import is_idle
from kgqa.queries.plan import Aggregate
from kgqa.queries.sentence import sentence
from kgqa.understanding.literals import stated
from tests.fixtures import ingested

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCTS = "id,name,unit_price,supplier\n1,Chai,18.0,1\n2,Chang,19.0,1\n3,Ikura,31.0,2\n"
SUPPLIERS = "id,name,city\n1,Exotic Liquids,London\n2,Tokyo Traders,Tokyo\n3,Lyngbysild,Lyngby\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    tables = {"products": PRODUCTS, "suppliers": SUPPLIERS}
    with ingested(tmp_path_factory.mktemp("shop"), "shop", tables) as kg:
        yield kg


def test_where_no_plan_is_sure_two_are_offered_and_one_can_be_chosen(shop: kgqa.KG) -> None:
    asked = {"method": "query", "sure_from": 1.0}
    answer = shop.ask("Which supplier has the most products?", **asked)  # type: ignore[arg-type]
    first, second = answer.readings
    assert first.plan == answer.plan
    assert [reading.text for reading in answer.readings] == [
        sentence(reading.plan) for reading in answer.readings
    ]
    chosen = shop.ask(answer.question, reading=2, **asked)  # type: ignore[arg-type]
    assert chosen.plan == second.plan
    assert chosen.confidence is None
    given = [row[0] for row in shop.query(second.plan).plain_rows()]
    assert [ranked.name for ranked in chosen.answers] == given
    assert [ranked.id for ranked in chosen.answers] != [ranked.id for ranked in answer.answers]
    with pytest.raises(
        UsageError, match="Reading 3 of this question does not exist: 2 are offered"
    ):
        shop.ask(answer.question, reading=3, **asked)  # type: ignore[arg-type]


def test_a_sure_plan_offers_no_other(shop: kgqa.KG) -> None:
    question = "Which supplier has the most products?"
    assert shop.ask(question).readings == ()
    with pytest.raises(
        UsageError, match="Reading 1 of this question does not exist: it is read in one way"
    ):
        shop.ask(question, reading=1)


@pytest.mark.parametrize("method", ["query", "auto"])
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How many products are there?", {"3"}),
        ("Which supplier has the most products?", {"Exotic Liquids"}),
        ("Which suppliers have no products?", {"Lyngbysild"}),
        ("Which suppliers are in London?", {"Exotic Liquids"}),
    ],
)
def test_a_question_without_a_topic_is_answered_by_a_plan(
    shop: kgqa.KG, method: str, question: str, names: set[str]
) -> None:
    answer = shop.ask(question, method=method)
    assert {ranked.name for ranked in answer.answers} == names
    assert answer.plan is not None
    assert answer.to_dict()["query"]["plan"] == str(answer.plan)
    assert answer.to_arrow().num_rows == len(answer.result.rows)  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["query", "auto"])
@pytest.mark.parametrize("asked", ["Which {} are there?", "How many {} are there?", "List all {}"])
def test_a_class_that_is_not_there_is_not_answered_with_another(
    shop: kgqa.KG, method: str, asked: str
) -> None:
    for noun in ("movies", "songs"):
        try:
            answer = shop.ask(asked.format(noun), method=method)
        except LinkingError:
            continue
        assert not answer.answers
        assert answer.value is None
        assert any(f"called like {noun!r}" in note for note in answer.notes)
    answer = shop.ask("Which teachers have no pupil?", method="query")
    assert not answer.answers
    assert any("called like 'teachers'" in note for note in answer.notes), answer.notes
    in_other_words = {"vendors": "supplier", "towns": "city"}
    for noun, class_ in in_other_words.items():
        plan = shop.ask(asked.format(noun), method="query").plan
        assert plan is not None
        assert plan.nodes == (class_.title(),)


def test_a_number_comes_with_what_it_counts(shop: kgqa.KG) -> None:
    answer = shop.ask("How many products are there?", method="query")
    assert answer.value == 3
    (counted,) = answer.to_dict()["query"]["rows"][0]["counted"]
    assert {member["name"] for member in counted["members"]} == {"Chai", "Chang", "Ikura"}


def test_a_name_that_nothing_has_is_not_guessed_at(shop: kgqa.KG) -> None:
    with pytest.raises(LinkingError):
        shop.ask("Where does Zaphod Qwxyz live?")


def test_what_is_in_here_is_answered_from_the_schema(shop: kgqa.KG) -> None:
    names = {ranked.name for ranked in shop.ask("What is in here?").answers}
    assert {"Product (3)", "Supplier (3)"} <= names


@pytest.mark.parametrize(
    ("question", "limit", "literals"),
    [
        ("the top 3 films over 1.5 million", 3, [(1_500_000, ">")]),
        ("orders between 5 and 10", None, [(5, ">="), (10, "<=")]),
        ("people born in the 1960s", None, [("1960", ">="), ("1970", "<")]),
        ("films with a tagline containing 'real'", None, [("real", "contains")]),
        ("customers with at least two orders", None, [(2, ">=")]),
    ],
)
def test_what_a_question_states(question: str, limit: int | None, literals: list[Any]) -> None:
    found = stated(question)
    assert found.limit == limit
    assert [(literal.value, literal.operator) for literal in found.literals] == literals


def test_rows_are_right_whatever_a_limit_left_open() -> None:
    gold = {"rows": [["a"], ["b"]], "limit": 2, "sure": [["a"]], "pool": [["b"], ["c"]]}
    assert same_rows([["a"], ["c"]], gold)
    assert not same_rows([["b"], ["c"]], gold)
    assert not same_rows([["a"]], gold)
    assert same_rows([[2.0004]], {"rows": [[2]], "limit": None})


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What product unit prices does Exotic Liquids have?", ["18", "19"]),
        ("What is the highest unit price of a product from London?", ["19"]),
        ("What was the lowest unit price?", ["18"]),
        ("Which product has the highest unit price?", ["Ikura"]),
    ],
)
def test_what_a_question_asks_for_is_given_not_what_has_it(
    shop: kgqa.KG, question: str, answers: list[str]
) -> None:
    assert [ranked.name for ranked in shop.ask(question, method="query").answers] == answers


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("How many products does Exotic supply?", 2),
        ("What is the average unit price of the products of Exotic?", 18.5),
        ("what is the average unit price of the products of lyngby?", None),
    ],
)
def test_a_part_of_a_name_is_a_condition_of_a_plan(
    shop: kgqa.KG, question: str, value: float | None
) -> None:
    answer = shop.ask(question)
    assert answer.value == value
    assert value is None or answer.plan is not None
    assert value is None or "Exotic Liquids" in answer.notes[0]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Flights have no names: they join airlines and towns."""
    tables = {
        "airlines": "code,name\nDL,Delta Air Lines\nAK,Alaska Airlines\n",
        "towns": "town,name\nDEN,Denver\nSEA,Seattle\nTUC,Tucson\n",
        "flights": "airline,destination,distance\n"
        + "".join(f"DL,DEN,{100 + n}\nAK,SEA,{200 + n}\nDL,TUC,{150 + n}\n" for n in range(9)),
    }
    with ingested(tmp_path_factory.mktemp("flights"), "flights", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Does Delta fly to Denver?", ["yes"]),
        ("Did Alaska Airlines fly to Seattle?", ["yes"]),
        ("Does Alaska Airlines fly to Denver?", []),
        ("Does Delta hate Denver?", []),
    ],
)
def test_rows_without_names_say_whether_two_things_have_to_do_with_each_other(
    flights: kgqa.KG, question: str, answers: list[str]
) -> None:
    assert [ranked.name for ranked in flights.ask(question).answers] == answers


@pytest.mark.parametrize("question", ["How old is Chai?", "When was Chai?"])
def test_no_age_and_no_date_is_the_thing_itself(shop: kgqa.KG, question: str) -> None:
    answer = shop.ask(question, method="query")
    assert not answer.answers
    assert not shop.ask(question).answers


def test_answers_at_the_ends_of_paths_are_compared_with_the_rows_of_gold(
    tmp_path: Path,
) -> None:
    sold = "head\trelation\ttail\nAda\tsells\tbread\nAda\tsells\tcakes\nBo\tsells\tbread\n"
    (tmp_path / "sold.tsv").write_text(sold)
    asked = [
        ("How many things does Ada sell?", [[2]]),
        ("What does Ada sell?", [["bread"], ["cakes"]]),
        ("What does Bo sell?", [["cakes"]]),
    ]
    file = tmp_path / "asked.jsonl"
    gold = [{"question": asks, "cypher": "", "rows": rows, "limit": None} for asks, rows in asked]
    file.write_text("".join(json.dumps(row) + "\n" for row in gold))
    with kgqa.ingest("triples", tmp_path / "sold.tsv", kg="sold", home=tmp_path) as kg:
        found = kg.evaluate(file, "text2cypher", out=tmp_path / "out", method="rank")
    outcomes = [record["outcome"] for record in found.records]  # type: ignore[index]
    assert outcomes == ["right", "right", "wrong"]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Orders have no names of their own, so they are called "Order 1"; a city has two kinds."""
    tables = {
        "customers": "customerID,name,city\n1,Hanna Moos,London\n2,Frida Berg,Lyngby\n"
        "3,Nils Aas,London\n",
        "suppliers": "supplierID,name,city\n1,Tokyo Traders,London\n",
        "orders": "orderID,customerID,freight\n1,1,2.5\n2,1,3.5\n3,2,4.0\n",
    }
    with ingested(tmp_path_factory.mktemp("orders"), "orders", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which customers are in London?", {"Hanna Moos", "Nils Aas"}),
        ("Which suppliers are in London?", {"Tokyo Traders"}),
        ("Which customers have no orders?", {"Nils Aas"}),
        ("Which customer placed the most orders?", {"Hanna Moos"}),
    ],
)
def test_a_class_that_is_asked_for_is_what_answers_are_of(
    orders: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {ranked.name for ranked in orders.ask(question).answers} == names


@pytest.mark.parametrize("asked", ["which orders are there", "List all Orders", "Which Order?"])
def test_a_word_for_a_class_is_not_one_of_its_entities(orders: kgqa.KG, asked: str) -> None:
    with pytest.raises(LinkingError):
        orders.link(asked)
    assert [one.id for one in orders.link("Who placed order 2?")][:1] == ["Order/2"]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which people are still alive?", {"Bo Lind", "Di Falk"}),
        ("Who is dead?", {"Ada Winter", "Cy Holm"}),
        ("Which people from Norway are alive?", {"Di Falk"}),
    ],
)
def test_who_is_alive_has_no_day_of_death(tmp_path: Path, question: str, names: set[str]) -> None:
    (tmp_path / "people.csv").write_text(
        "person_id,name,born,died,country\n1,Ada Winter,1920,1990,Norway\n"
        "2,Bo Lind,1950,,Sweden\n3,Cy Holm,1930,2001,Norway\n4,Di Falk,1960,,Norway\n"
    )
    with kgqa.ingest("tables", tmp_path / "people.csv", home=tmp_path / "home") as kg:
        assert {one.name for one in kg.ask(question).answers} == names


@pytest.fixture(scope="module")
def banks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Banks file filings between banks; a filing has both banks' countries as properties, too."""
    countries = ["Singapore", "Norway", "Malta"]
    rows: list[dict[str, Any]] = [
        {"type": "node", "id": f"c{at}", "labels": ["Country"], "properties": {"name": name}}
        for at, name in enumerate(countries)
    ]
    steps = []
    for at, name in enumerate(["Aldgate Bank", "Marina Bank", "Nordea", "Kronos Bank"]):
        own: dict[str, Any] = {"name": name}
        rows.append({"type": "node", "id": f"b{at}", "labels": ["Entity"], "properties": own})
        steps.append(("COUNTRY", f"b{at}", f"c{at % 3}"))
    for at in range(30):
        first, second = at % 4, at * 7 % 3
        own = {"amount": 1000 + 37 * at, "originator_bank_country": countries[first % 3],
               "beneficiary_bank_country": countries[second]}  # fmt: skip
        rows.append({"type": "node", "id": f"f{at}", "labels": ["Filing"], "properties": own})
        steps += [("FILED", f"b{at % 5 % 3}", f"f{at}"), ("ORIGINATOR", f"f{at}", f"b{first}"),
                  ("BENEFITS", f"f{at}", f"b{second}")]  # fmt: skip
    rows += [
        {"type": "relationship", "id": f"r{at}", "label": label, "start": {"id": start},
         "end": {"id": end}}
        for at, (label, start, end) in enumerate(steps)
    ]  # fmt: skip
    home = tmp_path_factory.mktemp("banks")
    file = home / "banks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with kgqa.ingest("graph", file, home=home / "home") as kg:
        yield kg


def test_a_question_that_ranks_is_not_answered_by_paths_that_do_not(banks: kgqa.KG) -> None:
    """From the country paths lead to all filings of its banks, which are no banks, and not one."""
    found = banks.ask(
        "Find the top 3 entities that have the most filings where the originator bank country is "
        "'Singapore'."
    )
    assert {one.id for one in found.answers} <= {"b0", "b1", "b2", "b3"}
    assert found.plan is not None
    assert found.plan.order


@pytest.mark.parametrize(
    "asked",
    [
        "How many filings are there per originator bank?",
        "the total received by all banks",
        "top 2?",
    ],
)
def test_a_noun_that_many_names_share_means_none_of_them(banks: kgqa.KG, asked: str) -> None:
    with pytest.raises(LinkingError):
        banks.link(asked)
    assert banks.link("What did Marina Bank file?")[0].id == "b1"


@pytest.mark.parametrize("side", ["originator", "beneficiary"])
def test_a_value_is_of_the_property_whose_whole_name_is_before_it(
    banks: kgqa.KG, side: str
) -> None:
    found = banks.ask(
        f"Identify the top 2 entities based on the total amount of their filings where the {side} "
        "bank's country is 'Malta'."
    )
    assert f'{side}_bank_country = "Malta"' in str(found.plan)


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("How many pages does Harbour Lights have?", "288"),
        ("How many books did Ada Winterbourne write?", "2"),
    ],
)
def test_a_number_that_is_there_is_not_counted(tmp_path: Path, question: str, best: str) -> None:
    folder = Path(kgqa.data.__path__[0]) / "tables" / "bookshop"
    with kgqa.ingest("tables", folder, home=tmp_path) as kg:
        found = kg.ask(question).best
    assert found is not None
    assert found.name == best


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    heights = {"Everest": (8848, "Nepal"), "Aconcagua": (6961, "Chile"), "Fuji": (3776, "Japan")}
    triples = []
    for name, (height, country) in heights.items():
        triples += [(name, "instance of", "mountain"), (country, "instance of", "country")]
        triples += [(name, "elevation", str(height)), (name, "country", country)]
    triples += [("Peru", "instance of", "country"), ("Peru", "language", "Spanish")]
    triples += [(name, "continent", "Asia") for name in ("Nepal", "Japan")]
    triples += [("Nepal", "language", "Nepali"), ("Nepal", "capital", "Kathmandu")]
    home = tmp_path_factory.mktemp("world")
    with kgqa.ingest("triples", triples, kg="world", home=home) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("What is the highest mountain?", ["Everest"]),
        ("What are the two highest mountains?", ["Everest", "Aconcagua"]),
        ("What is the second highest mountain?", ["Aconcagua"]),
        ("Which country has no mountain?", ["Peru"]),
        ("How many countries are in Asia?", ["2"]),  # it can only be a continent
        ("Which mountain is lower, Aconcagua or Fuji?", ["Fuji"]),
        ("Which mountains are in Japan or Chile?", ["Aconcagua", "Fuji"]),
        ("How many languages are spoken in Nepal?", ["1"]),
    ],
)
def test_what_is_called_like_a_class_is_the_class(
    world: kgqa.KG, question: str, answers: list[str]
) -> None:
    assert [ranked.name for ranked in world.ask(question).answers] == answers


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    tables = {
        "drivers": "driverId,number,forename,surname,dob\n1,44,Ada,Birch,1985-01-07\n"
        "2,4,Bo,Lindt,1999-11-13\n",
        "races": "raceId,year,name\n1,2022,Ulm Cup\n2,2023,Ulm Cup\n3,2023,Bonn Cup\n",
        "results": "resultId,raceId,driverId,points\n1,1,1,9\n2,1,2,8\n3,2,2,8\n4,3,1,2\n",
    }
    with ingested(tmp_path_factory.mktemp("league"), "league", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who is the youngest driver?", "Bo Lindt"),  # not the one with the lowest number
        ("Which driver scored the most points?", "Bo Lindt"),  # of all results together
        ("When was the Ulm Cup 2023?", "2023"),
    ],
)
def test_words_say_which_property_or_thing_is_meant(
    league: kgqa.KG, question: str, answer: str
) -> None:
    assert [ranked.name for ranked in league.ask(question).answers] == [answer]


def test_a_word_that_no_plan_accounts_for_makes_it_less_sure(league: kgqa.KG) -> None:
    sure, unsure = (league.ask(f"Which drivers {one}?") for one in ("are there", "are suspended"))
    assert unsure.confidence is not None
    assert sure.confidence is not None
    assert unsure.confidence <= 0.9 < sure.confidence
    named = league.ask("How many drivers are in the results of the Bonn Cup?")  # accounted for
    assert named.best is not None
    assert (named.best.name, (named.confidence or 0.0) > 0.9) == ("1", True)


@pytest.mark.parametrize(("where", "idle"), [("", True), ("Result.points > 7 | ", False)])
def test_one_of_each_tells_nothing_apart_unless_a_condition_left_it(
    league: kgqa.KG, where: str, idle: bool
) -> None:
    text = f"Result driver> Driver | {where}desc count Driver | limit 1 | give Result, count Driver"
    assert is_idle(league.query(text), lambda _: None) == idle


def test_json_lists_all_that_a_number_counted(tmp_path: Path) -> None:
    rows = "".join(f"{n},Item {n},{n % 3}\n" for n in range(30))
    (tmp_path / "items.csv").write_text("id,name,price\n" + rows)
    with kgqa.ingest("tables", tmp_path / "items.csv", kg="items", home=tmp_path / "home") as kg:
        answer = kg.ask("How many items are there?")
        assert answer.value == 30
        for listed, count in ((None, 30), (20, 20)):
            (row,) = answer.to_dict(listed=listed)["query"]["rows"]
            (counted,) = row["counted"]
            assert (counted["size"], len(counted["members"])) == (30, count)


def test_an_answer_asked_in_one_call_keeps_what_is_behind_it(
    shop: kgqa.KG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGQA_HOME", str(shop.folder.parent))
    answer = kgqa.ask("How many products are there?")
    (row,) = answer.to_dict()["query"]["rows"]
    assert len(row["counted"][0]["members"]) == answer.value == 3
    assert answer.result is not None
    assert len(answer.result.evidence(0, 2).counted[0].members) == 2


@pytest.fixture(scope="module")
def bookshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    tables = {
        "branches": "id,name,opened\n1,Quay,2010\n2,Abbey,2012\n",
        "books": "id,title,genre,price,pages\n1,Red Kite,crime,10,300\n2,Salt Road,crime,20,500\n"
        "3,Old Bridge,poetry,6,90\n",
        "stock": "book_id,branch_id,copies\n1,1,4\n2,1,5\n3,1,1\n1,2,7\n",
        "employees": "id,name,manager_id\n1,Ada Bell,\n2,Ben Hale,1\n3,Cleo Frost,2\n",
        "orders": "id,order_date,status\n1,2022-03-01,paid\n2,2022-05-02,cancelled\n"
        "3,2023-03-09,paid\n",
        "order_lines": "order_id,book_id,quantity,unit_price\n1,1,2,10\n1,2,1,20\n2,3,5,6\n"
        "3,1,1,9\n",
    }
    with ingested(tmp_path_factory.mktemp("bookshop"), "bookshop", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("How many copies are in stock in each branch?", {("Quay", 10), ("Abbey", 7)}),
        ("How many orders were placed each year?", {(2022, 2), (2023, 1)}),
        ("How many orders were placed per month?", {(3, 2), (5, 1)}),
        ("How many cancelled orders are there?", {(1,)}),
        ("What is the average price of crime books?", {(15,)}),
        ("What is the total revenue?", {(79,)}),
        ("Which books are not in stock at Abbey?", {("Salt Road",), ("Old Bridge",)}),
        ("What is the longest book?", {("Salt Road", 500)}),
        ("Who works under Ada Bell, directly or indirectly?", {("Ben Hale",), ("Cleo Frost",)}),
    ],
)
def test_what_a_question_says_beyond_names_is_in_its_plan(
    bookshop: kgqa.KG, question: str, rows: set[tuple[Any, ...]]
) -> None:
    result = bookshop.ask(question).result
    assert result is not None
    found = {tuple(getattr(cell, "name", cell) for cell in row) for row in result.rows}
    assert found == rows


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who trained Ben?", {"Ada"}),
        ("Who did Ben train?", {"Cleo", "Dan"}),
        ("Who was trained by Ben?", {"Cleo", "Dan"}),
        ("Who does Ben report to?", {"Edith"}),
        ("Who reports to Ben?", {"Fay"}),
    ],
)
def test_a_relation_between_equals_is_walked_as_asked(
    tmp_path: Path, question: str, names: set[str]
) -> None:
    facts = ["Ben\ttrained by\tAda", "Cleo\ttrained by\tBen", "Dan\ttrained by\tBen"]
    facts += ["Ben\treports to\tEdith", "Fay\treports to\tBen"]
    (tmp_path / "staff.tsv").write_text("\n".join(facts))
    with kgqa.ingest("triples", tmp_path / "staff.tsv", kg="staff", home=tmp_path / "home") as kg:
        assert {ranked.name for ranked in kg.ask(question).answers} == names


PRICES = {"T-21": ("Anvil", 12.5, 900), "T-22": ("Mallet", 3.0, 400), "T-23": ("Tongs", 8.0, 650)}


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Tools, each with a nameless price, among many classes that say nothing."""
    vocabulary, type_ = "http://forge.example/terms/", "22-rdf-syntax-ns#type"
    lines = []

    def add(head: str, relation: str, tail: str) -> None:
        tail = tail if tail.startswith('"') else f"<http://forge.example/{tail}>"
        relation = relation if "://" in relation else vocabulary + relation
        lines.append(f"<http://forge.example/{head}> <{relation}> {tail} .")

    number = "^^<http://www.w3.org/2001/XMLSchema#double>"
    for at, (id_, (name, _, weight)) in enumerate(PRICES.items()):
        add(id_, f"http://www.w3.org/1999/02/{type_}", "terms/Tool")
        for narrow in range(150):  # each tool is of its own
            add(id_, f"http://www.w3.org/1999/02/{type_}", f"terms/Old{at}Ware{narrow}")
        add(id_, "http://www.w3.org/2000/01/rdf-schema#label", f'"{name}"')
        add(id_, "weight_g", f'"{weight}"{number}')
        add(id_, "hasMaker", f"maker-{at % 2}")
        add(f"maker-{at % 2}", f"http://www.w3.org/1999/02/{type_}", "terms/Maker")
        add(f"maker-{at % 2}", "http://www.w3.org/2000/01/rdf-schema#label", f'"Smith {at % 2}"')
    folder = tmp_path_factory.mktemp("forge")
    (folder / "many.nt").write_text("\n".join(lines))
    with kgqa.ingest("triples", folder / "many.nt", kg="many", home=folder / "home") as kg:
        assert len(kg.ask("What is in here?").answers) > 400
        yield kg


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the heaviest tool?", ["Anvil"]),
        ("Which tools weigh more than 0.6 kg?", ["Anvil", "Tongs"]),
        ("Is Anvil heavier than Tongs?", ["yes"]),
        ("Is Mallet heavier than Tongs?", ["no"]),
        ("Which maker has the most tools?", ["Smith 0"]),
    ],
)
def test_a_thousand_narrow_classes_hide_nothing(
    forge: kgqa.KG, question: str, names: list[str]
) -> None:
    assert sorted(ranked.name for ranked in forge.ask(question).answers) == names


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the cheapest tool?", ["Mallet"]),
        ("What is the average price of tools?", ["7.833333333"]),
        ("Which tools cost less than 10 EUR?", ["Mallet", "Tongs"]),
        ("What is the price of Tongs?", ["8"]),
    ],
)
def test_a_node_of_values_stands_for_what_it_holds(
    tmp_path: Path, question: str, names: list[str]
) -> None:
    triples = []
    for at, (id_, (name, amount, weight)) in enumerate(PRICES.items()):
        rows = [("type", "tool"), ("weight_g", weight), ("made by", f"Smith {at % 2}")]
        triples += [(name, relation, str(tail)) for relation, tail in rows]
        triples += [(name, "hasPrice", f"price-{id_}"), (f"price-{id_}", "type", "price")]
        triples += [(f"price-{id_}", "amount", str(amount)), (f"price-{id_}", "currency", "EUR")]
    with kgqa.ingest("triples", triples, kg="tools", home=tmp_path) as kg:
        assert sorted(ranked.name for ranked in kg.ask(question).answers) == names


@pytest.fixture(scope="module")
def regatta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Crews, boats and results, with columns called in short."""
    tables = {
        "Sailor": "SaiID,LName,Fname,Age,Sex\n1,Ek,Ann,31,F\n2,Dal,Bo,25,M\n3,Moe,Cy,44,M\n",
        "Boat": "BoatID,BoatType,length,name\n7,dinghy,4.2,Tern\n8,ketch,11.5,Skua\n"
        "9,dinghy,5.1,Auk\n",
        "Crew": "SaiID,BoatID\n1,7\n1,8\n2,8\n",
        "Race": "RaceID,name,year,day\n1,Skerry Cup,2021,2021-03-02\n2,Fjord Cup,2022,2022-05-01\n"
        "3,Bay Cup,2023,2023-03-09\n",
        "Result": "ResultID,RaceID,SaiID,position\n1,1,1,1\n2,1,2,2\n3,2,2,1\n4,2,3,2\n5,3,1,1\n",
    }
    with ingested(tmp_path_factory.mktemp("regatta"), "regatta", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("Show the first name, last name and age of all sailors, ordered by age from the oldest "
         "to the youngest.", [("Cy", "Moe", 44), ("Ann", "Ek", 31), ("Bo", "Dal", 25)]),
        ("Show the first name and age of all sailors sorted by age.",
         [("Bo", 25), ("Ann", 31), ("Cy", 44)]),
        ("What is the average, minimum and maximum length of all boats?", [(6.933333, 4.2, 11.5)]),
        ("Find the maximum length of each type of boat.", [("dinghy", 5.1), ("ketch", 11.5)]),
        ("Find the number of male sailors.", [(2,)]),
        ("Find the name of boats that are longer than the average length.", [("Skua",)]),
        ("Which sailors are younger than the average age?", [("Ann Ek",), ("Bo Dal",)]),
        ("Which boats never took part in a race?", [("Auk",)]),
        ("How many races were held in 2021 or 2023?", [(2,)]),
        ("Find the average age of sailors who do not have a boat.", [(44.0,)]),
        ("Find the first name of sailors who have more than one boat.", [("Ann",)]),
        ("Find the id of boats longer than 5.", [(8,), (9,)]),
        ("Which sailor won the Skerry Cup?", [("Ann Ek",)]),
        ("Which races were in March?", [("Bay Cup",), ("Skerry Cup",)]),
    ],
)  # fmt: skip
def test_several_things_are_given_as_they_are_asked_for(
    regatta: kgqa.KG, question: str, rows: list[tuple[Any, ...]]
) -> None:
    result = regatta.ask(question).result
    assert result is not None
    found = [
        tuple(
            round(cell, 6) if isinstance(cell, float) else getattr(cell, "name", cell)
            for cell in row[: len(rows[0])]
        )
        for row in result.rows
    ]
    assert found == rows if result.plan.order else sorted(found) == sorted(rows)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Clients and loans, which only tables that no question mentions join."""
    tables = {
        "client": "client_id,name,city\n1,Ann Ek,Oslo\n2,Bo Dal,Bergen\n"
        "3,Cy Moe,Bergen\n4,Di Foss,Oslo\n",
        "account": "account_id,frequency\n10,monthly\n11,weekly\n12,monthly\n",
        "disp": "disp_id,client_id,account_id\n1,1,10\n2,2,11\n3,3,12\n",
        "loan": "loan_id,account_id,amount,duration,payments,settled,APR\n"
        "5,10,500,12,42,2020-03-01,3.5\n"
        "6,11,900,36,25,,7.5\n7,12,700,12,58,2021-06-01,4.5\n8,12,600,24,25,2022-02-01,5.5\n",
        "card": "card_id,disp_id,type\n1,1,gold\n2,2,classic\n3,3,classic\n",
        "supplier": "supplier_id,name,city\n1,Ink & Co,Oslo\n2,Paper Ltd,Bergen\n",
        "delivery": "delivery_id,supplier_id,loan_id\n1,1,7\n2,2,5\n",
    }
    with ingested(tmp_path_factory.mktemp("bank"), "bank", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which client took the largest loan?", {"Bo Dal"}),
        ("Which client has the highest total amount of loans?", {"Cy Moe"}),
        ("Which clients have no card?", {"Di Foss"}),
        ("Which clients own a gold card?", {"Ann Ek"}),
        ("Which clients took loans more than once?", {"Cy Moe"}),
        ("How many loans were given for less than 24 months?", {"2"}),
        ("Which loans have not been settled?", {"Loan 6"}),
        ("What is the average annual percentage rate of the loans?", {"5.25"}),
        ("What is the total amount of loans taken by clients from Bergen?", {"2200"}),
    ],
)
def test_classes_that_a_question_mentions_are_joined_through_those_between(
    bank: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {ranked.name for ranked in bank.ask(question).answers} == names


MEMBERS = (
    ":ID,name,rating:long,wins:long,:LABEL\nm1,Ada,5,1,Member\nm2,Bo,7,8,Member\nm3,Cy,2,9,Member\n"
)
GUESTS = ":ID,name,:LABEL\ng1,Dee,Guest\ng2,Eli,Guest\n"
CLUBS = (
    ":ID,name,motto,:LABEL\nc1,Rooks,play on,Club\nc2,Knights,no rest,Club\nc3,Pawns,a step,Club\n"
)
HELPERS = (
    ":START_ID,:END_ID,:TYPE\nc1,m1,HAS_HELPER\nc1,g1,HAS_HELPER\nc1,g2,HAS_HELPER\n"
    "c2,m2,HAS_HELPER\nc2,m3,HAS_HELPER\n"
)
TOWNS = ":ID,name,:LABEL\nt1,Lund,Town\nt2,Bergen,Town\nt3,Vaasa,Town\n"
SEATS = ":START_ID,:END_ID,:TYPE\nc1,t1,PLAYS_IN\nc2,t2,PLAYS_IN\nc3,t2,PLAYS_IN\n"


@pytest.fixture(scope="module")
def clubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """A relation that leads to things of two classes, and a town that two clubs share."""
    tables = {"Member": MEMBERS, "Guest": GUESTS, "Club": CLUBS, "Town": TOWNS,
              "HAS_HELPER": HELPERS, "PLAYS_IN": SEATS}  # fmt: skip
    with ingested(tmp_path_factory.mktemp("clubs"), "clubs", tables) as kg:
        yield kg


def test_what_a_relation_leads_to_is_of_any_class_if_none_is_named(clubs: kgqa.KG) -> None:
    answer = clubs.ask("Which club has the most helpers?", method="query")
    assert [ranked.name for ranked in answer.answers] == ["Rooks"]  # three, two of them guests
    assert "HAS_HELPER> *" in str(answer.plan)
    members = clubs.ask("Which club has the most helpers who are members?", method="query")
    assert "HAS_HELPER> Member" in str(members.plan)


def test_a_number_holds_for_each_of_two_properties_before_it(clubs: kgqa.KG) -> None:
    answer = clubs.ask("Which members have a rating and wins over 4?", method="query")
    assert [ranked.name for ranked in answer.answers] == ["Bo"]


def test_the_top_few_are_not_ordered_by_what_something_else_has(clubs: kgqa.KG) -> None:
    answer = clubs.ask("What are the top 2 towns that clubs play in?", method="query")
    assert answer.plan is not None
    assert isinstance(answer.plan.order[0].by, Aggregate)


def test_what_is_asked_for_and_has_no_place_in_a_plan_is_not_answered(clubs: kgqa.KG) -> None:
    sure = clubs.ask("Which clubs play in Bergen?", method="query")
    assert len(sure.answers) == 2
    for question in (
        "Which clubs have the most elaborate historical uniforms?",
        "Which members share the same wins?",
        "Which clubs have the code 'step'?",
    ):
        answer = clubs.ask(question, method="query")
        assert (answer.confidence or 0.0) < 0.3, answer.plan


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    tables = {
        "boats": "bt_id,bt_nm,bt_kind,built_yr,dt_launched\n1,Heron,yawl,1988,2019-05-02\n"
        "2,Teal,cutter,1975,2021-04-01\n3,Gull,yawl,2001,2020-07-09\n4,Tern,ferry,1999,2018-01-04\n",
        "sailors": "slr_id,full_nm,dt_hired,home_port\n1,Ada Byng,2009-01-05,Lyme\n"
        "2,Ole Dahl,2001-03-01,Lyme\n3,Per Lie,2015-09-09,Cowes\n",
        "boat_sailors": "bt_id,slr_id,hrs\n1,1,50\n2,2,30\n3,2,30\n3,3,10\n",
    }
    with ingested(tmp_path_factory.mktemp("fleet"), "fleet", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which boat is the oldest?", {"Teal"}),  # the year is called yr
        ("Which yawls were launched before 2020?", {"Heron"}),  # boats, by a value
        ("How many boats are there of each kind?", {"yawl", "cutter", "ferry"}),
        ("Which boat was launched last?", {"Teal"}),
        ("Which sailor has sailed the most hours?", {"Ole Dahl"}),  # all of them together
    ],
)
def test_tables_with_short_names_are_asked_in_whole_words(
    fleet: kgqa.KG, question: str, names: set[str]
) -> None:
    assert {ranked.name for ranked in fleet.ask(question, method="query").answers} == names


@pytest.fixture(scope="module")
def outings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    """Values as people write them: durations, instants, weights in two units, sizes in none."""
    tables = {
        "outing": "name,duration,starts,load,size\n"
        "Quay Walk,PT50M,2024-01-01T08:00:00+00:00,900 g,3 m\n"
        "Ridge Walk,PT4H,2024-01-01T09:00:00+09:00,12 kg,9 kg\n"
        "Mill Walk,PT1H30M,2024-01-01T10:00:00+00:00,2.5 kg,40 cm\n",
    }
    with ingested(tmp_path_factory.mktemp("outings"), "outings", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which outing has the longest duration?", ["Ridge Walk"]),
        ("Which outing has the shortest duration?", ["Quay Walk"]),
        ("Which outings last longer than 2 hours?", ["Ridge Walk"]),
        ("Which outing starts first?", ["Ridge Walk"]),
        ("Which outing has the lowest load?", ["Quay Walk"]),
    ],
)
def test_values_are_compared_as_what_they_are(
    outings: kgqa.KG, question: str, names: list[str]
) -> None:
    answer = outings.ask(question, method="query")
    assert [ranked.name for ranked in answer.answers] == names


def test_no_thing_is_the_greatest_by_texts_that_do_not_compare(outings: kgqa.KG) -> None:
    answer = outings.ask("Which outing has the greatest size?")
    assert len(answer.answers) != 1 or (answer.confidence or 0) < 0.9


@pytest.fixture(scope="module")
def cinema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgqa.KG]:
    tables = {
        "film": "film_id,title,length,rent,kind_id\n1,Low Tide,95,2.5,1\n2,Kelp,184,3.5,2\n"
        "3,The Halls,61,4.5,1\n4,Ebb,120,1.5,2\n",
        "kind": "kind_id,name\n1,Drama\n2,Comedy\n",
        "hall": "hall_id,name,code,is_active\n1,Red,PER,1\n2,Blue,ALL,0\n3,Green,GRN,0\n",
        "show": "show_id,film_id,hall_id\n1,1,1\n2,2,1\n3,3,2\n",
    }
    with ingested(tmp_path_factory.mktemp("cinema"), "cinema", tables) as kg:
        yield kg


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("How many inactive halls are there?", ["2"]),
        ("How many shows per hall?", ["Red", "Blue"]),  # not of the hall with the code PER
        ("which movies run longer than 100 minutes", ["Ebb", "Kelp"]),
        ("list the halls", ["Blue", "Green", "Red"]),  # not the film that is called so
        ("what kind is Kelp", ["Comedy"]),  # not a film
        ("What is the box office revenue of Kelp?", []),
        ("What is the rental price of Kelp?", ["3.5"]),
    ],
)
def test_people_say_it_in_their_own_words(
    cinema: kgqa.KG, question: str, answers: list[str]
) -> None:
    found = cinema.ask(question)
    assert sorted(one.name for one in found.answers) == sorted(answers), found.notes
