"""What kind of answer a question asks for."""

from __future__ import annotations

import pytest

from kgqa.linking.asked import asks_whether


@pytest.mark.parametrize(
    ("question", "whether"),
    [
        ("Is Ankara the capital of Turkey?", True),
        ("did Imke restore the clock", True),
        ("Wasn't Bo the owner of the mill?", True),
        ("so, does the night train call at Altenried?", True),
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
