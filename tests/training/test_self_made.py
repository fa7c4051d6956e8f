"""A KG without questions gives questions about all of its relations, each a real path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import GeneralModelError
from kgqa.graph.model import keys_array
from kgqa.models.general import GeneralLLM
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, walk
from kgqa.progress import Silent
from kgqa.training.data import Example
from kgqa.training.options import ExampleOptions
from kgqa.training.phrasing import Phrases, checked, phrased, words_of_relation
from kgqa.training.self_made import self_made
from kgqa.trie.lexicon import names_of

if TYPE_CHECKING:
    from tests.conftest import OpenAIServer

FORM = PathFormat()
OPTIONS = ExampleOptions(self=True)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_relation_is_asked_about_by_real_paths_of_every_length(town, hops) -> None:
    rules = WalkRules(hops)
    made = self_made(town, rules, FORM, {}, OPTIONS, Silent())
    assert made.relations == made.of_relations == 4
    assert {len(one.hops) for one in made.examples} == set(range(1, hops + 1))
    names = town.relations().names
    real = set()
    table, _ = walk(town, town.topic_keys(), rules)
    for topic, length, steps in zip(table.topic, table.length, table.hops, strict=True):
        tails = names_of(town, keys_array(steps[:length, 3].tolist()))
        relations = [FORM.relation(int(one[0]), int(one[2]), names) for one in steps[:length]]
        head = names_of(town, keys_array([int(topic)]))[0]
        real.add((head, tuple(zip(relations, tails, strict=True))))
    for one in made.examples:
        assert (one.head, one.hops) in real
        assert one.head.lower() in one.question.lower()
        assert town.keys_of(one.topic_ids)[0] >= 0


def test_the_same_seed_gives_the_same_questions(town) -> None:
    def made(seed: int) -> list[Example]:
        options = ExampleOptions(self=True, per_relation=3, seed=seed)
        return self_made(town, WalkRules(), FORM, {}, options, Silent()).examples

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_no_relation_has_more_than_its_share_and_the_lengths_have_equal_ones(town) -> None:
    options = ExampleOptions(self=True, per_relation=2, per_pair=1)
    examples = self_made(town, WalkRules(), FORM, {}, options, Silent(), most=8).examples
    assert len(examples) <= 8
    one_hop = [one.relations for one in examples if len(one.hops) == 1]
    assert len(one_hop) == 4
    assert {relations for relations in one_hop if one_hop.count(relations) > 2} == set()
    longer = [one.relations for one in examples if len(one.hops) == 2]
    assert len(longer) == len(set(longer)) > 1


def test_phrases_are_used_where_a_file_has_them(town) -> None:
    phrases = {"person.born_in": Phrases(("the birthplace of {x}",), ("Where was {x} born?",))}
    made = self_made(town, WalkRules(1), FORM, phrases, OPTIONS, Silent())
    asked = [one.question for one in made.examples if one.relations == ("person.born_in",)]
    assert asked
    assert all(one.lower().startswith("where was person ") for one in asked)


def test_a_relation_walked_backwards_asks_for_what_has_the_entity_there() -> None:
    assert "What has {x} as directed by?" in words_of_relation("^directed_by").questions
    assert words_of_relation("/r/AtLocation").nouns == ("the at location of {x}",)
    assert words_of_relation("a.b.actor..c.d.film").nouns == ("the film of {x}",)


CHILD = Example("q", "Who is the child of Ann Lee?", ("Ann Lee",), "Ann Lee", (("child", "Bob"),))


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("Who is Ann Lee's child?", "Who is Ann Lee's child?"),
        ('"Which child does Ann Lee have?"\n', "Which child does Ann Lee have?"),
        ("Question: who is the kid of ann lee", "who is the kid of ann lee"),
        ("Who is Ann's child?", None),  # another name
        ("Is Bob the child of Ann Lee?", None),  # tells the answer
        ("Sure!\nWho is the child of Ann Lee?", None),
        ("", None),
        ("Who is the child of Ann Lee " + "and so on " * 30, None),
    ],
)
def test_what_a_general_llm_wrote_is_checked(answer: str, question: str | None) -> None:
    assert checked(answer, CHILD) == question


@pytest.mark.model
def test_a_real_server_phrases_and_every_answer_is_counted(openai_server: OpenAIServer) -> None:
    examples = [CHILD] * 3
    with GeneralLLM(openai_server.model, base_url=openai_server.base_url) as general:
        made, report = phrased(examples, general, 2, Silent())
        assert len(made) == 3
        assert report.phrased + report.malformed == report.calls == 2
        assert made[2] == CHILD
        assert {one.hops for one in made} == {CHILD.hops}
        for one in made[:2]:
            assert "ann lee" in one.question.lower()


def test_a_server_that_is_not_there_is_an_error() -> None:
    with (
        GeneralLLM("x", base_url="http://127.0.0.1:9/v1", retries=0) as general,
        pytest.raises(GeneralModelError, match="cannot be reached"),
    ):
        phrased([CHILD], general, 1, Silent())
