"""A general LLM chooses among the plans that a question may mean, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.answers.general import ask_which, read_numbers
from kgqa.errors import UsageError
from kgqa.methods.query import NONE_MEANT, NOT_CHOSEN
from kgqa.models.general import GeneralLLM
from kgqa.registry import METHODS

if TYPE_CHECKING:
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


@pytest.mark.parametrize("name", ["chooser", "written", "constrained"])
def test_a_removed_option_says_what_to_do_instead(name: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}` of the method query was removed") as raised:
        METHODS.options("query", {name: "1"})
    assert "kg.plans" in str(raised.value.hint)
