"""A reasoner's questions made from a KG are answered by all that their relation path leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.methods.kg_cot.hops import HopTable
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import FIRST, SECOND, WalkRules, walk
from kgqa.progress import Silent
from kgqa.training.data import Example
from kgqa.training.options import ExampleOptions
from kgqa.training.reasoner_questions import made_questions
from kgqa.training.self_made import self_made

if TYPE_CHECKING:
    from kgqa.graph.sqlite import SqliteStore

FORM = PathFormat()


@pytest.mark.parametrize("mediators", ["collapse", "keep"])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_answers_are_the_ends_of_all_walks_along_the_path(
    town: SqliteStore, hops: int, mediators: str
) -> None:
    rules = WalkRules(hops, "out", mediators)  # type: ignore[arg-type]
    examples = self_made(town, rules, FORM, {}, ExampleOptions(self=True), Silent()).examples
    made = made_questions(HopTable(town, rules), examples, FORM, Silent())
    assert len(made) == len(examples)
    assert len({one.id for one in made}) == len(made)
    table, _ = walk(town, town.topic_keys(), rules)
    pairs = table.hops[:, :, (FIRST, SECOND)]
    for one, example in zip(made, examples, strict=True):
        assert one.question == example.question
        assert one.hops == len(example.hops)
        (steps,) = one.paths
        same = (table.topic == one.topics[0]) & (table.length == len(steps))
        same &= (pairs[:, : len(steps)] == np.array(steps)).all(axis=(1, 2))
        assert one.answers.tolist() == np.unique(table.ends()[same]).tolist()


def test_what_leads_nowhere_gives_no_question(town: SqliteStore) -> None:
    def asked(*labels: str) -> Example:
        hops = tuple((label, "?") for label in labels)
        return Example("q", "Who?", ("Person 3",), "Person 3", hops, ("p3",))

    examples = [
        asked("person.child"),
        asked("no.such.relation"),
        asked("person.born_in", "person.child"),
        Example("q", "Who?", ("Nobody",), "Nobody", (("person.child", "?"),), ("none",)),
    ]
    made = made_questions(HopTable(town, WalkRules(2)), examples, FORM, Silent())
    assert [one.answers.tolist() for one in made] == [town.keys_of(["p4"]).tolist()]
