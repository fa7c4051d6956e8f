from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.graph.names import normalise
from kgqa.linking.mentions import LONGEST_UNSPACED, ContentRun, Mention, QuestionWords

QUESTIONS = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab the who is Obama's “New York” 北京的首都 ½ʼ’'\"_-?"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


def mentions(question: str) -> list[Mention]:
    return QuestionWords(question).mentions()


def content_runs(question: str) -> list[ContentRun]:
    return QuestionWords(question).content_runs()


def forms(question: str) -> list[str]:
    return [mention.form for mention in mentions(question)]


def test_longest_first_then_in_reading_order() -> None:
    found = mentions("where did Hugo Chavez study")
    assert [m.words for m in found] == sorted((m.words for m in found), reverse=True)
    assert forms("Hugo Chavez studied")[:3] == [
        "hugo chavez studied",
        "hugo chavez",
        "chavez studied",
    ]


def test_function_words_alone_are_no_mention() -> None:
    assert mentions("who is it and what are they?") == []
    assert "is the" not in forms("who is the Joker")


@pytest.mark.parametrize("question", ["who wrote 'It'?", 'who wrote "It"?', "who wrote “It”"])
def test_quoted_function_words_are_a_mention(question: str) -> None:
    (it,) = [m for m in mentions(question) if m.form == "it"]
    assert it.quoted
    assert it.emphasised


def test_capitals_inside_a_sentence_raise_function_words() -> None:
    assert "the who" in forms("where are The Who from")
    assert "the who" not in forms("where are the who from")
    assert "me and you" in forms("who directed Me and You")
    assert "my one" not in forms("who directed My one and only")
    assert "who is" not in forms("WHO IS THE WHO")  # capitals everywhere say nothing


def test_possessive_is_no_word_of_its_own() -> None:
    found = forms("what is Obama's wife called?")
    assert "obama" in found
    assert "obama s wife" in found  # as the name "Obama's Wife" is compared
    assert "s wife" not in found
    assert "mcdonald s" in forms("who founded McDonald's?")


def test_apostrophe_and_punctuation_do_not_hide_a_name() -> None:
    assert "o neal" in forms("who is O’Neal?")
    assert "lewis clark" in forms("who were Lewis & Clark?")
    assert "st louis" in forms("where is St. Louis, anyway")


def test_names_are_found_where_words_are_not_separated() -> None:
    found = forms("北京的首都是什么")
    assert "北京" in found
    assert "首都" in found
    assert "北" not in found  # a character out of a run says nothing
    assert "서울" in forms("서울의 인구는?")
    assert "金" in forms("who is 金 ?")


def test_an_abbreviation_differs_from_the_pronoun() -> None:
    assert "us" in forms("who leads the us")
    assert "us" in forms("who leads US troops")
    assert "us" not in forms("who told us")


def test_common_says_that_all_words_are_everyday_ones() -> None:
    marked = {m.form: m.common for m in mentions("what is the name of the 2011 film Avatar")}
    assert marked["name"]
    assert marked["2011"]
    assert marked["2011 film"]
    assert not marked["avatar"]
    assert not marked["film avatar"]


def test_a_number_is_emphasised_only_beside_a_capital() -> None:
    marked = {m.form: m.emphasised for m in mentions("who directed 7 Women in 1966")}
    assert marked["7 women"]
    assert not marked["1966"]


def test_runs_are_what_the_question_is_about() -> None:
    question = "what did king Henry Tudor rule; and xyzzy"
    runs = content_runs(question)
    assert [question[run.start : run.end] for run in runs] == ["Henry Tudor", "xyzzy"]
    assert question[runs[0].left : runs[0].right] == "king Henry Tudor rule"
    assert runs[0].words == 2


def test_an_initial_does_not_end_a_run() -> None:
    question = "who was stephen r covey and what did billy d williams play"
    runs = [question[run.start : run.end] for run in content_runs(question)]
    assert runs == ["stephen r covey", "billy d williams"]
    assert [run.words for run in content_runs("I'd say Obama's name")] == [1]


def test_a_title_may_begin_the_question() -> None:
    marked = {m.form: m.emphasised for m in mentions("I'm Here is a film by whom")}
    assert marked["i m here"]


@given(QUESTIONS)
def test_every_mention_is_where_it_says(question: str) -> None:
    places = set()
    for mention in mentions(question):
        assert question[mention.start : mention.end] == mention.text
        assert mention.form == normalise(mention.text) != ""
        assert 1 <= mention.words <= LONGEST_UNSPACED
        assert 0 <= mention.content <= mention.words
        places.add((mention.start, mention.end))
    assert len(places) == len(mentions(question))


@given(QUESTIONS)
def test_words_are_in_order_and_apart(question: str) -> None:
    words = QuestionWords(question).words
    assert all(a.end <= b.start for a, b in itertools.pairwise(words))


@given(st.lists(st.sampled_from(["zorkmid", "quux", "xyzzy"]), min_size=1, max_size=6))
def test_a_name_in_a_question_is_one_of_its_mentions(name: list[str]) -> None:
    assert " ".join(name) in forms(f"who is the wife of {' '.join(name)}?")


@pytest.mark.parametrize(
    ("question", "everyday"),
    [("Who was it?", True), ('Who was "it"?', False), ("Who was Tolkien?", False), ("", True)],
)
def test_everyday_words_alone_surely_name_nothing(question: str, everyday: bool) -> None:
    assert QuestionWords(question).is_everyday is everyday
