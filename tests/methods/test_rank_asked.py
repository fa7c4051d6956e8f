"""What a question's words ask for: the kind of thing, which kin, and the step before the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.answers.unused import UNSURE
from kgqa.methods.rank import Rank
from kgqa.methods.rank_asked import asked_kind, meaning, other_value, two_steps
from tests.fixtures import ingested

if TYPE_CHECKING:
    from pathlib import Path

FACTS = [
    line.split("|")
    for line in """
Marlow v. Port Authority|heard in|Maritime Court of Hallam
Marlow v. Port Authority|defendant|Port Authority
Crown v. Dale|heard in|Crown Court of Eastwick
Crown v. Dale|defendant|Dale Brothers
Ann Reed|brother|Tom Reed
Ann Reed|mother|Ida Reed
Ann Reed|place of birth|Leeds
Eve Holt|husband|Karl Meyer
Eve Holt|place of birth|York
Karl Meyer|place of birth|Vienna
Apollo 13|director|Ron Howard
Apollo 13|actor|Tom Hanks
Splash|director|Ron Howard
Splash|actor|Daryl Hannah
Tom Hanks|place of birth|Concord
Porto|record low|3
Porto|country|Portugal
Vostok|record low|-26
Vostok|country|Russia
Vostok|opened|13 July 1957
Nice|opened|13 July 1990
Term 1|club|Vale FC
Term 1|manager|Ann Stone
Term 1|to|2009-12-31
Term 2|club|Vale FC
Term 2|manager|Cy Marsh
Term 2|to|2030-06-30
Zentrol|brand of|valproate
valproate|treats|epilepsy
valproate|is a|anticonvulsant
Board|audited|Bureau
Bureau|audited|Ward 3
Tom Reed|age|61
Porto|mayor|Rui Alves
Porto|deputy mayor|Ana Lopes
Ward 3|head nurse|Flo Gray
Moot Hall|receptionist|Gus Hill
""".strip().splitlines()
]


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> kgqa.KG:
    return kgqa.ingest("triples", FACTS, kg="facts", home=tmp_path_factory.mktemp("asked"))


@pytest.mark.parametrize(
    ("asked", "rest"),
    [
        ("Where was the director of x born?", "Where was x born?"),
        ("nationality of the founder of x", "nationality of x"),
        ("What is x's wife's job?", "What is x's job?"),
        ("Who is the director of x?", None),
        ("Where is x's office located?", None),
        ("What is the name of x?", None),
        ("I am x's mum, which rooms does she use?", None),
    ],
)
def test_questions_in_two_steps(asked: str, rest: str | None) -> None:
    steps = two_steps(asked)
    assert (steps and steps.rest) == rest


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("Which maritime court took x?", "court"),
        ("How many crew does x carry?", "crew"),
        ("wards in x", "ward"),
        ("Who runs x?", None),
        ("Where is x?", None),
    ],
)
def test_the_noun_that_is_asked_for(asked: str, kind: str | None) -> None:
    assert asked_kind(asked) == ({kind} if kind else set())


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which court took Marlow v. Port Authority?", ["Maritime Court of Hallam"]),
        ("Where was the husband of Eve Holt born?", ["Vienna"]),
        ("Is the record low of Vostok -26?", ["yes"]),
        ("How many brothers does Ann Reed have?", ["Tom Reed"]),
        ("What is the record low of Vostok?", ["-26"]),
        ("Who was the manager of Vale FC?", ["Ann Stone", "Cy Marsh"]),
        ("what is zentrol used to treat", ["epilepsy"]),
    ],
)
def test_what_is_asked_for_is_answered(kg: kgqa.KG, question: str, names: list[str]) -> None:
    assert [ranked.name for ranked in kg.ask(question, method="rank").answers] == names


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Who is the sister of Ann Reed?", '"Ann Reed" has no fact'),
        ("Where was the husband of Ann Reed born?", '"Ann Reed" has no husband'),
        (
            "Where was the director of Apollo 13 born?",
            '"Ron Howard" is the director of "Apollo 13"',
        ),
        ("Is the record low of Vostok 26?", 'No: it is "-26", not "26"'),
    ],
)
def test_what_is_missing_is_said(kg: kgqa.KG, question: str, said: str) -> None:
    answer = kg.ask(question, method="rank")
    assert not answer.answers
    assert said in answer.notes[-1]


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    ("question", "wrong", "right"),
    [
        ("who audited Board", "Bureau", "who audited Bureau"),  # nobody did
        ("nurses at Moot Hall", "Gus Hill", "receptionist at Moot Hall"),
        ("how tall is Tom Reed?", "61", "how old is Tom Reed?"),
        ("who steps in for the mayor of Porto", "Rui Alves", "who is the mayor of Porto"),
    ],
)
def test_an_answer_that_says_a_part_of_a_question_is_not_sure(
    kg: kgqa.KG, question: str, wrong: str, right: str
) -> None:
    answer = kg.ask(question, method="rank")
    assert not answer.answers or answer.best.name != wrong or answer.confidence <= UNSURE
    assert kg.ask(right, method="rank").confidence > 0.9


def test_a_word_that_says_the_kind_names_none_of_them(tmp_path: Path) -> None:
    wards = {"Alder Ward": "epilepsy", "Beech Ward": "asthma", "Cedar Ward": "bipolar disorder"}
    facts = [(ward, "specialises in", illness) for ward, illness in wards.items()]
    kg = kgqa.ingest("triples", facts, kg="wards", home=tmp_path)
    assert kg.link("who runs the ward for bipolar")[0].name == "bipolar disorder"
    assert kg.link("who runs the ward")[0].mention == "ward"


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    ("question", "names"),
    [("How many litters has Ann Reed had?", []), ("How many films did Ron Howard direct?", ["2"])],
)
def test_only_what_is_asked_for_is_counted(kg: kgqa.KG, question: str, names: list[str]) -> None:
    assert [ranked.name for ranked in kg.ask(question).answers] == names


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_day_without_a_year_is_each_of_them(kg: kgqa.KG) -> None:
    topics = kg.ask("What opened on 13 July?", method="rank").topic_entities
    assert {topic.name for topic in topics} == {"13 July 1957", "13 July 1990"}


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_the_present_tense_means_what_holds_on_the_day_that_is_said(kg: kgqa.KG) -> None:
    question = "Who is the manager of Vale FC?"
    for today, names, note in (
        ("2020-01-01", ["Cy Marsh"], "Left out what ended before 2020-01-01."),
        ("2009-01-01", ["Ann Stone", "Cy Marsh"], None),
        ("2031-01-01", ["Ann Stone", "Cy Marsh"], "All of this ended before 2031-01-01."),
    ):
        answer = kg.ask(question, method="rank", today=today)
        assert [ranked.name for ranked in answer.answers] == names
        assert answer.notes == ((note,) if note else ())
        assert answer.confidence is not None
        assert (answer.confidence <= UNSURE) == (today == "2031-01-01")
    dated = kg.ask("Who was the manager of Vale FC last month?", method="rank", today="2020-01-31")
    assert dated.question == "Who was the manager of Vale FC last month?"
    assert 'Took "last month" for "in December 2019"' in " ".join(dated.notes)


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_kind_is_known_by_other_words_for_it(kg: kgqa.KG) -> None:
    with kg.qa(method="rank") as session:
        rank = session.method
        assert isinstance(rank, Rank)
        assert kg.store is not None
        words = rank._in(kg.store)
        found = meaning(words, rank.ranker, "tribunals", ["court", "port", "hallam"])
        assert found == {"tribunal", "court"}


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_salary_is_no_job_and_a_kind_of_thing_is_counted(tmp_path: Path) -> None:
    people = (
        "id,name,job_title,office\n1,Ann Reed,President,North\n"
        "2,Bo Holt,Clerk,South\n3,Cy Orr,Clerk,North\n"
    )
    lines = "product_line,about\nBoats,On water.\nBikes,On roads.\n"
    goods = (
        "code,name,product_line,stock\nA1,Skiff,Boats,70\nA2,Punt,Boats,80\nA3,Gravel 2,Bikes,90\n"
    )
    tables = {"employees": people, "product_lines": lines, "products": goods}
    with ingested(tmp_path, "shop", tables) as kg:
        none = kg.ask("What is the salary of Ann Reed?", method="rank")
        assert none.answers == ()
        with kg.qa(method="rank") as session:
            rank = session.method
            assert isinstance(rank, Rank)
            assert kg.store is not None
            words = rank._in(kg.store)
            job_title = (2 * words.phrases.index("job title"), -1)
            said = other_value(words, rank._vectors, "What is the salary of x?", job_title)
            assert said == "has no salary"
            assert not other_value(words, rank._vectors, "What is the job of x?", job_title)
        job = kg.ask("What is the job title of Ann Reed?", method="rank")
        assert [ranked.name for ranked in job.answers] == ["President"]
        counted = kg.ask("How many boats do we sell?")
        assert [ranked.name for ranked in counted.answers] == ["2"]


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_role_that_no_type_is_like_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "authors.csv").write_text(
        "author_id,name,country\n1,Ines Calderon,Spain\n2,Ann Reed,UK\n3,Eve Holt,UK\n"
    )
    with kgqa.ingest("tables", tmp_path / "authors.csv", kg="shop", home=tmp_path / "home") as kg:
        none = kg.ask("Who is the king of Spain?", entities=["Spain"], method="rank")
        assert none.answers == ()
        assert none.notes == ('Not in this graph: "Spain" has no king.',)
        there = kg.ask("Which author is from Spain?")
        assert [ranked.name for ranked in there.answers] == ["Ines Calderon"]


@pytest.mark.model
@pytest.mark.usefixtures("minilm")
def test_a_fact_with_properties_has_the_requested_direction(tmp_path: Path) -> None:
    (tmp_path / "firms.csv").write_text("firm_id,name\n1,Arn\n2,Bel\n3,Cor\n")
    (tmp_path / "owns.csv").write_text("owner_firm_id,owned_firm_id,share\n1,2,60\n2,3,70\n")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[firms]\ntype = "Firm"\nkey = ["firm_id"]\nname = ["name"]\n\n[owns]\n'
        'edge = { relation = "owns", head = "owner_firm_id", tail = "owned_firm_id" }\n\n'
        '[owns.columns]\nowner_firm_id = { to = "firms.firm_id" }\n'
        'owned_firm_id = { to = "firms.firm_id" }\nshare = { property = "share" }\n'
    )
    with kgqa.ingest("tables", tmp_path, kg="firms", home=tmp_path / "h", mapping=mapping) as kg:
        assert [each.name for each in kg.ask("Who owns Bel?", method="rank").answers] == ["Arn"]
        owned = kg.ask("What does Bel own?", method="rank").answers
        assert [each.name for each in owned] == ["Cor"]
