"""The ranker of whole plans: its folder, its odds, and what they do to the order of plans."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgqa
from kgqa.errors import ModelError, ModelNotFoundError
from kgqa.models.plan_ranker import PLAN_RANKERS, PlanRankerCard, load_plan_ranker
from kgqa.planning.aggregates import ScoredPlan
from kgqa.planning.whole_rank import by_ranker
from kgqa.queries.text import parse_plan

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, HIDDEN = 384, 4
PLANS = ("Film | give Film", "Film | give count Film", "Film <MADE Person | give Person")


def written(folder: Path, spoilt: str = "", **card: Any) -> Path:
    """Write a ranker whose head is drawn at random; ``spoilt``: a weight of another shape."""
    drawn = np.random.default_rng(1)
    shapes = {
        "head.0.weight": (HIDDEN, 2 * WIDTH),
        "head.0.bias": (HIDDEN,),
        "head.2.weight": (1, HIDDEN),
        "head.2.bias": (1,),
    }
    head = {name: drawn.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    if spoilt:
        head[spoilt] = np.zeros((3, 3), np.float32)
    PLAN_RANKERS.save(folder, PlanRankerCard(encoder="all-MiniLM-L6-v2", **card), head)
    return folder


def test_odds(tmp_path: Path) -> None:
    ranker = load_plan_ranker(str(written(tmp_path)))
    texts = ["film ; give film", "film ; give count of film", "film < made < person ; give person"]
    odds = ranker.log_odds("How many films are there?", texts)
    assert math.fsum(map(math.exp, odds)) == pytest.approx(1, abs=1e-5)
    assert len({round(odd, 6) for odd in odds}) == len(texts)
    turned = ranker.log_odds("How many films are there?", [*texts[::-1], texts[0]])
    assert turned[:3] == pytest.approx(odds[::-1], abs=1e-4)
    assert turned[3] == turned[2]  # one text, one number
    assert ranker.log_odds("who?", []) == []


def test_order_of_plans(tmp_path: Path) -> None:
    candidates = [ScoredPlan(parse_plan(plan), 3.0 - at) for at, plan in enumerate(PLANS)]
    orders = []
    for new in (0.0, 1000.0):
        ranker = load_plan_ranker(str(written(tmp_path / str(new), old=1.0, new=new)))
        ranked = by_ranker("Who made films?", candidates, ranker)
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
        orders.append([one.plan for one in ranked])
    assert orders[0] == [candidate.plan for candidate in candidates]
    odds = ranker.log_odds("Who made films?", [
        "film ; give film", "film ; give count of film", "film < made < person ; give person",
    ])  # fmt: skip
    best = candidates[int(np.argmax(odds))].plan
    assert orders[1][0] == best


@pytest.mark.parametrize("spoilt", ["head.0.weight", "head.2.weight", "head.0.bias"])
def test_damaged(tmp_path: Path, spoilt: str) -> None:
    with pytest.raises(ModelError, match="damaged"):
        load_plan_ranker(str(written(tmp_path, spoilt)))


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        load_plan_ranker(str(tmp_path / "none"))


def test_asked_for(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "films.csv").write_text("id,name,year\n1,Low Tide,1999\n2,Kestrel,2003\n")
    folder = str(written(tmp_path / "ranker", old=0.0, new=1000.0))
    with kgqa.ingest("tables", tables, kg="films", home=tmp_path / "home") as kg:
        question = "Which film is the newest?"
        plain = kg.ask(question, method="query")
        ranked = kg.ask(question, method="query", plan_ranker=folder)
        assert plain.plan != ranked.plan  # a head that was drawn at random knows nothing
        with pytest.raises(ModelNotFoundError):
            kg.ask(question, method="query", plan_ranker=str(tmp_path / "none"))
