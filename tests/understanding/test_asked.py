"""What kind of answer a question asks for."""

from __future__ import annotations

import pytest

from kgqa.understanding.asked import asks_for_one, asks_whether


@pytest.mark.parametrize(
    ("question", "whether"),
    [
        ("Is Ankara the capital of Turkey?", True),
        ("did Imke restore the clock", True),
        ("Wasn't Bo the owner of the mill?", True),
        ("so, does the night train call at Altenried?", True),
        ("the night train, does it call at Altenried", True),
        ("Ada runs the mill, right?", True),
        ("ada owns the mill doesn’t she", True),
        ("Was it Ada who restored the clock?", True),
        ("is Bo the one who owns the mill", True),
        ("Did Ada run the mill when we had the flood?", True),
        ("Was it Ada or Bo who restored the clock?", False),
        ("who owns the mill, is it?", False),
        ("who is right?", False),
        ("the owner of the mill, is there one?", False),
        ("Could you tell me the day when the mill burnt?", False),
        ("Is there a café at Passo?", False),
        ("Is the mill in Bonn or in Kiel?", False),
        ("has the board ever ended in a recall? which one", False),
        ("Do you know who runs the mill?", False),
        ("Does anyone work for both Ada and Bo?", False),
        ("Which is the capital of Turkey?", False),
        ("Isabel's mill", False),
        ("", False),
    ],
)
def test_asks_whether(question: str, whether: bool) -> None:
    assert asks_whether(question) is whether


@pytest.mark.parametrize(
    ("question", "one"),
    [
        ("When is the last time that the Larks won the Tin Cup?", True),
        ("what year did the larks win the tin cup", True),
        ("Which form of tax does Ardland use?", True),
        ("Which cup was it?", True),
        ("What is the capital of Ardland?", True),
        ("Who's the voice of Pim?", True),
        ("which bus does Ada take", True),
        ("What are the colours of the Larks?", False),
        ("What official colours do the Larks have?", False),
        ("Which people did Ada meet?", False),
        ("What does Ada do?", False),
        ("Who plays Pim?", False),
        ("Who was Ada?", False),
        ("Where is the mill?", False),
        ("The Larks", False),
    ],
)
def test_asks_for_one(question: str, one: bool) -> None:
    assert asks_for_one(question) is one
