"""Dialogues over small graphs: later turns leave out what earlier ones said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
import kgqa.data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.model
DATA = Path(__file__).parents[1] / "data"
DIALOGUES = sorted((DATA / "dialogues").glob("*.jsonl"))
RIGHT = 0.85  # of the later turns


def load(name: str, home: Path) -> kgqa.KG:
    folder = DATA / "own" / name
    if not folder.is_dir():
        return kgqa.ingest("tables", Path(kgqa.data.__path__[0]) / "tables" / name, home=home)
    names = folder / "names.tsv"
    more = {"names": names} if names.exists() else {}
    return kgqa.ingest("triples", folder / "triples.tsv", home=home, **more)


def is_right(answer: kgqa.Answer, gold: list[str]) -> bool:
    return answer.answers[0].name in gold if answer.answers else not gold


def later_turns(qa: Any, file: Path) -> list[bool]:
    """Return which turns after the first of each dialogue are right."""
    found = []
    for line in file.read_text("utf-8").splitlines():
        before: list[kgqa.Answer] = []
        for place, turn in enumerate(json.loads(line)["turns"]):
            answer = qa.ask(turn["question"], after=before)
            before.append(answer)
            if place:
                found.append(is_right(answer, turn["answers"]))
    return found


def most_are_right(tmp_path: Path, files: list[Path]) -> None:
    found = []
    for file in files:
        with load(file.stem, tmp_path) as kg, kg.qa() as qa:
            found += later_turns(qa, file)
    assert sum(found) >= RIGHT * len(found), f"{sum(found)} of {len(found)}"


@pytest.fixture(scope="module")
def bookshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with load("bookshop", tmp_path_factory.mktemp("home")) as kg, kg.qa() as qa:
        yield qa


@pytest.mark.usefixtures("minilm")
def test_later_turns_of_some_dialogues(tmp_path: Path) -> None:
    most_are_right(tmp_path, DIALOGUES[1:2])


@pytest.mark.long
@pytest.mark.usefixtures("minilm")
def test_later_turns_of_all_dialogues(tmp_path: Path) -> None:
    most_are_right(tmp_path, DIALOGUES)


@pytest.mark.usefixtures("minilm")
def test_what_was_taken_over_is_said_and_can_be_left_out(tmp_path: Path) -> None:
    with load("film_festival", tmp_path) as kg, kg.qa() as qa:
        first = qa.ask("Who directed Kestrel?")
        then = qa.ask("When was she born?", after=first)
        assert then.question == "When was Agnieszka Potocka-Lind born?"
        assert then.notes[0] == '"she" was taken as "Agnieszka Potocka-Lind".'
        assert [ranked.name for ranked in then.answers] == ["1962"]
        assert [entity.id for entity in then.topic_entities] == ["Agnieszka Potocka-Lind"]
        with pytest.raises(kgqa.KgqaError):
            qa.ask("Who else?", after=())


@pytest.mark.usefixtures("minilm")
def test_which_of_them_is_one_of_them(tmp_path: Path) -> None:
    ask: Callable[..., kgqa.Answer]
    with load("railway", tmp_path) as kg, kg.qa() as qa:
        ask = qa.ask
        units = ask("Which units are stabled at Bw Altenried?")
        leased = ask("Which of them are owned by Alpina Rail Leasing?", after=units)
        assert {ranked.id for ranked in leased.answers} <= {ranked.id for ranked in units.answers}
        assert leased.answers
        assert {path.groundings[0].tail.id for path in leased.paths} <= {
            ranked.id for ranked in leased.answers
        }


@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    ("before", "question", "names"),
    [
        ("How many novels are there?", "And memoirs?", ["2"]),
        ("Which genre has the most books?", "And the fewest?", ["memoir", "poetry", "science"]),
        ("Which is the most expensive book?", "And the cheapest?", ["Slate"]),
        ("Which books cost less than 9?", "And under 7?", ["Slate", "Winter Letters"]),
        ("What is the average price of a book?", "And of a novel?", ["10.346"]),
        ("Which books are novels?", "Which of them is the shortest?", ["Orange Season"]),
        ("How many novels are there?", "How many of them are in print?", ["5"]),
        ("Which books cost less than 9?", "Which of those are out of print?", []),
        (
            "How many memoirs are there?",
            "Which books cost less than 7?",
            ["Slate", "Winter Letters"],
        ),
        (
            "Who wrote Slate?",
            "Which books are not in print and cost over 0 but under 10?",
            ["The Clockmaker's Debt"],
        ),
    ],
)
def test_questions_about_the_whole_graph_are_followed(
    bookshop: Any, before: str, question: str, names: list[str]
) -> None:
    answer = bookshop.ask(question, after=bookshop.ask(before))
    assert [ranked.name for ranked in answer.answers] == names


@pytest.mark.usefixtures("minilm")
def test_any_fact_between_two_things_says_that_one_has_the_other(bookshop: Any) -> None:
    for question, names in [
        ("Does Quayside have The Salt Garden?", ["yes"]),
        ("Does Quayside have Slate?", []),
    ]:
        assert [ranked.name for ranked in bookshop.ask(question).answers] == names


@pytest.mark.usefixtures("minilm")
def test_where_is_no_date(bookshop: Any) -> None:
    answer = bookshop.ask("Where was Ada Winterbourne born?")
    assert "1961-03-14" not in {ranked.name for ranked in answer.answers}
