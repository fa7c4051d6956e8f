"""Plans in words: one text for one meaning, whatever the plan was made from."""

import pytest

from kgqa.queries.text import parse_plan
from scripts.planner.plan_words import plan_words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Order ORDERS> Product | give Product", "Product <ORDERS Order | give Product"),
        (
            "User WROTE> Review OF> Film | Film.title = 'x' | give User",
            "Film <OF Review <WROTE User | Film.title = 'x' | give User",
        ),
        (
            "Review OF> Film & Review <WROTE User | give User",
            "User WROTE> Review OF> Film | give User",
        ),
    ],
)
def test_direction(one: str, other: str) -> None:
    one, other = (text.replace("'", '"') for text in (one, other))
    assert plan_words(parse_plan(one)) == plan_words(parse_plan(other))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            'Film | Film.openedAt >= 1990 | Film.genre <> "Drama" | asc Film.openedAt | limit 3',
            "film ; where film genre <> Drama ; where film opened at >= 1990 ; "
            "order ascending film opened at ; limit 3 ; give film",
        ),
        (
            "Person ACTED_IN> Film | count Film > 2 | give Person, count Film",
            "film < acted in < person ; having count film > 2 ; give person , count of film",
        ),
        (
            "Person | without Person DIRECTED> Film | give Person",
            "person ; without > directed > film ; give person",
        ),
        (
            "Employee REPORTS_TO> Employee#2 | give Employee#2",
            "employee 1 < reports to < employee 2 ; give employee 1",
        ),
        ("Film | give average Film.rating", "film ; give average of film rating"),
    ],
)
def test_parts(plan: str, words: str) -> None:
    assert plan_words(parse_plan(plan)) == words


def test_branches_and_steps() -> None:
    tree = parse_plan("A x> B & A y> C & A z> D | give D")
    text = plan_words(tree)
    assert text.count("> z >") == 1
    assert text.endswith("give d")
    both = plan_words(
        parse_plan("Film | desc Film.rating | limit 3 | then Film <ACTED_IN Person | give Person")
    )
    assert both.startswith("film ; order descending film rating ; limit 3 ; give film ; then ")
    assert both.endswith("give person")
