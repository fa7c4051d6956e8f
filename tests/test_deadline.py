"""Work for one question ends when nobody waits for it, wherever it is; other questions go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kgqa
from kgqa.api import Asked
from kgqa.deadline import check_deadline, deadline
from kgqa.errors import TimeLimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUESTIONS = ["Who leads Payments?", "Who leads Catalogue?"]
TRIPLES = [
    ("checkout-api", "owned by", "Payments"),
    ("price-feed", "owned by", "Catalogue"),
    ("Payments", "led by", "Cem Aydin"),
    ("Catalogue", "led by", "Dora Nagy"),
]


def raising(error: Exception) -> Callable[[], None]:
    def check() -> None:
        raise error

    return check


def test_every_limit_around_a_block_holds() -> None:
    check_deadline()  # nothing limits
    limit = raising(UsageError("over"))
    with deadline(limit), deadline(None), pytest.raises(UsageError, match="over"):
        check_deadline()
    with deadline(None), deadline(limit), pytest.raises(UsageError, match="over"):
        check_deadline()
    check_deadline()


@pytest.mark.model
@pytest.mark.parametrize("method", ["auto", "rank", "kg-cot", "gcr", "query"])
@pytest.mark.usefixtures("minilm", "smollm_folder")
def test_a_stopped_question_ends_and_the_next_is_answered(tmp_path: Path, method: str) -> None:
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:  # the first time work goes on
            raise TimeLimitError("Nobody waits.")

    with kgqa.ingest("triples", TRIPLES, kg="teams", home=tmp_path) as kg, kg.qa(method) as qa:
        stopped, free = (Asked(QUESTIONS[0], stop=stop), Asked(QUESTIONS[1]))
        found = dict(qa.as_completed([stopped, free]))
    assert isinstance(found[0], TimeLimitError)
    assert 1 < asked < 5
    assert isinstance(found[1], kgqa.Answer)
    assert found[1].answers
