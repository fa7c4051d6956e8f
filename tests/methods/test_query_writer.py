"""A KG-LLM writes plans: whatever it knows, what it writes is a plan over the graph's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.answers.general import ask_which, read_numbers
from kgqa.linking.literals import stated
from kgqa.methods.query import NONE_MEANT, NOT_CHOSEN
from kgqa.methods.query_writer import described, nearest, plan_literals
from kgqa.models.general import GeneralLLM
from kgqa.queries.check import check
from tests.queries.shop import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "Which supplier has the most products over 20?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "products.csv").write_text(
        "id,name,unit_price,supplier\n1,Chai,18.0,1\n2,Chang,19.0,1\n3,Ikura,31.0,2\n"
    )
    (folder / "suppliers.csv").write_text("id,name\n1,Exotic Liquids\n2,Tokyo Traders\n")
    home: Path = tmp_path_factory.mktemp("home")
    kgqa.ingest("tables", folder, kg="shop", home=home).close()
    return home


@pytest.fixture(scope="module")
def shop(home: Path) -> Iterator[kgqa.KG]:
    with kgqa.open("shop", home=home) as kg:
        yield kg


def near(wanted: str) -> Any:
    return lambda texts: [float(wanted in text) for text in texts]


def test_of_a_schema_what_is_near_and_what_is_named_is_shown() -> None:
    kept = {("Product", "unitPrice")}
    shown = nearest(SCHEMA, near("supplies"), kept)
    lines = described(shown, {("Product", "productName"): ("Chai",)})
    assert "Supplier SUPPLIES> Product" in lines
    assert any(line.startswith("Product: ") and "unitPrice" in line for line in lines)
    assert lines[-1] == 'Product.productName = "Chai"'


def test_what_a_question_states_may_stand_in_a_plan() -> None:
    read = plan_literals(stated("the 3 orders since 1997 over 20 with 'tea'"))
    assert read.numbers == (1997, 20, 3)
    assert read.dates == ("1997",)
    assert read.words == ("tea",)


@pytest.mark.model
def test_a_kg_llm_writes_plans_that_fit(shop: kgqa.KG) -> None:
    options = {"adapter": "none", "search": "exact", "written": 2}
    answer = shop.ask(QUESTION, method="query", chooser="kg-llm", **options)  # type: ignore[arg-type]
    assert answer.kg_llm.model == "SmolLM2-135M-Instruct"
    assert answer.forward_passes > 1
    if answer.plan is not None:  # all of them may give nothing
        check(answer.plan, shop.schema())


@pytest.mark.model
@pytest.mark.parametrize("question", [QUESTION, "Which tweets have more than 3 hashtags?"])
def test_what_the_bundled_adapter_writes_is_a_plan_over_this_schema(
    shop: kgqa.KG, question: str
) -> None:
    answer = shop.ask(question, method="query", chooser="kg-llm", refuse_below=0)
    assert answer.kg_llm.adapter == "query"
    assert answer.plan is not None or question != QUESTION
    if answer.plan is not None:
        check(answer.plan, shop.schema())


@pytest.mark.model
def test_without_the_constraint_what_is_no_plan_is_refused(shop: kgqa.KG) -> None:
    options = {"method": "query", "adapter": "none", "constrained": False}
    answer = shop.ask(QUESTION, **options)  # type: ignore[arg-type]
    assert not answer.answers
    assert answer.notes == ("The question cannot be said as one query over this graph's schema.",)


@pytest.mark.model
def test_a_general_llm_chooses_by_number(
    home: Path, openai_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    monkeypatch.setenv("KGQA_CACHE", str(tmp_path))
    options = {"general_model": openai_server.model, "answer_tokens": 16}
    with kgqa.open("shop", home=home) as shop:
        answer = shop.ask(QUESTION, method="query", **options)
    assert answer.general_llm is not None
    assert answer.general_llm.calls == 1
    chosen = NOT_CHOSEN not in answer.notes and NONE_MEANT not in answer.notes
    assert (answer.confidence is None) == chosen
    assert bool(answer.answers) == (NONE_MEANT not in answer.notes)


@pytest.mark.model
def test_names_stay_here(openai_server: Any) -> None:
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as real:
        sent: list[str] = []
        complete = real.complete

        def noted(prompt: str, **options: Any) -> Any:
            sent.append(prompt)
            return complete(prompt, **options)

        real.complete = noted  # type: ignore[method-assign]
        numbers, use = ask_which(
            real, "Who made Chai?", ["the supplier of Chai", "all suppliers"], ["Chai"], 8
        )
    assert "Chai" not in sent[0]
    assert "1. the supplier of E1\n2. all suppliers" in sent[0]
    assert "Question: Who made E1?" in sent[0]
    assert use.calls == 1
    assert numbers is None or set(numbers) <= {1, 2}
    assert read_numbers('{"answers": [1, 2]}', 2, single=True) is None
