"""2WikiMultihopQA, by small invented files of its form."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import DataError
from kgqa.questions import read_questions
from kgqa.questions.twowiki import chains_of, titles_in

if TYPE_CHECKING:
    from pathlib import Path

BRIDGE = {
    "_id": "a1",
    "type": "compositional",
    "question": "Where was the captain of the ship Grey Heron born?",
    "context": [
        ["Grey Heron (ship)", ["The Grey Heron is a ship.", " Its captain is Ida Moll."]],
        ["Ida Moll", ["Ida Moll was born in Varde."]],
        ["Captain", ["A captain leads a ship."]],
    ],
    "supporting_facts": [["Grey Heron (ship)", 1], ["Ida Moll", 0]],
    "evidences": [["Grey Heron", "captain", "Ida Moll"], ["Ida Moll", "place of birth", "Varde"]],
    "answer": "Varde",
}
COMPARISON = {
    "_id": "a2",
    "type": "bridge_comparison",
    "question": "Which film has the older director, Tin Moon or Tin Moon Rising?",
    "context": [["Tin Moon", ["A film."]], ["Tin Moon Rising", ["Another film."]]],
    "supporting_facts": [["Tin Moon", 0], ["Tin Moon Rising", 0], ["Bo Ek", 0], ["Liv Ek", 0]],
    "evidences": [
        ["Tin Moon", "director", "Bo Ek"],
        ["Tin Moon Rising", "director", "Liv Ek"],
        ["Bo Ek", "date of birth", "1901"],
        ["Liv Ek", "date of birth", "1931"],
    ],
    "answer": "Tin Moon",
}


def a_list(path: Path, *entries: Any) -> Path:
    path.write_text(json.dumps(list(entries), indent=1), "utf-8")
    return path


def test_a_chain_of_two_facts(tmp_path: Path) -> None:
    (question,) = read_questions(a_list(tmp_path / "q.json", BRIDGE), "2wiki").questions
    assert (question.id, question.type, question.hops) == ("a1", "compositional", 2)
    assert question.topic_entities == ["Grey Heron"]  # as the question writes the title
    assert question.answers == ["Varde"]
    assert question.relation_paths == [("captain", "place of birth")]
    assert question.gold_triplets == [tuple(evidence) for evidence in BRIDGE["evidences"]]


def test_a_comparison_has_two_topics_and_no_relation_path_to_its_answer(tmp_path: Path) -> None:
    (question,) = read_questions(a_list(tmp_path / "q.json", COMPARISON), "2wiki").questions
    assert question.topic_entities == ["Tin Moon", "Tin Moon Rising"]
    assert (question.hops, question.relation_paths) == (2, [])  # an answer is where it began
    assert len(question.gold_triplets) == 4


def test_ids_of_wikidata_stand_for_names_where_the_file_has_them(tmp_path: Path) -> None:
    with_ids = {
        **BRIDGE,
        "evidences_id": [["Q11", "captain", "Q12"], ["Q12", "place of birth", "Q13"]],
        "answer_id": "Q13",
    }
    (question,) = read_questions(a_list(tmp_path / "q.json", with_ids), "2wiki").questions
    assert (question.topic_entities, question.answers) == (["Q11"], ["Q13"])
    assert question.names == {"Q11": "Grey Heron", "Q13": "Varde"}


def test_the_test_part_has_no_answers_and_its_topics_are_titles_of_paragraphs(
    tmp_path: Path,
) -> None:
    unlabelled = {key: BRIDGE[key] for key in ("_id", "question", "context")}
    (question,) = read_questions(a_list(tmp_path / "q.json", unlabelled), "2wiki").questions
    # "captain" stands in the question too: nothing says which paragraph is meant
    assert question.topic_entities == ["Grey Heron", "Captain"]
    assert (question.answers, question.hops, question.gold_triplets) == ([], None, [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": " "}, '"question" is empty'),
        ({"evidences": [["a", "b"]]}, 'item 3 of item 1 of "evidences" is missing'),
        ({"context": [["t", "no list"]], "supporting_facts": []}, 'item 1 of "context"'),
        ({"answer": None}, '"evidences" without an "answer"'),
        ({"supporting_facts": ["t"]}, "supporting_facts"),
        ({"evidences_id": 3}, "evidences_id"),
        ({"evidences_id": [["Q1", "r", "Q2"], ["Q1"]]}, "evidences_id"),
        ({"_id": "a1"}, 'the id "a1" was used in entry 1'),
        (None, "JSON object"),
    ],
)
def test_a_bad_entry_is_named_by_its_number_and_counted(
    tmp_path: Path, change: dict[str, Any] | None, reason: str
) -> None:
    bad = 7 if change is None else {**BRIDGE, "_id": "b", **change}
    read = read_questions(a_list(tmp_path / "q.json", BRIDGE, bad), "2wiki")
    assert (len(read.questions), read.total) == (1, 2)
    (found,) = read.bad_entries
    assert found.place == "q.json, entry 2"
    assert reason in found.reason


def test_json_lines_are_read_as_the_list_is(tmp_path: Path) -> None:
    lines = tmp_path / "q.jsonl"
    text = json.dumps(BRIDGE, ensure_ascii=False) + "\n\n{oops\n" + json.dumps(COMPARISON) + "\n"
    lines.write_text("\ufeff" + text, "utf-8")
    read = read_questions(lines, "2wiki")
    whole = read_questions(a_list(tmp_path / "q.json", BRIDGE, COMPARISON), "2wiki")
    assert read.questions == whole.questions
    assert "entry 3: no JSON" in read.complaint()


@pytest.mark.parametrize("text", ["", "[", '[{"_id": "1"', "[{}, oops]", "[{}] [", "[{} {}]"])
def test_a_file_that_breaks_off_is_refused_and_not_read_in_part(tmp_path: Path, text: str) -> None:
    path = tmp_path / "q.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"q\.json"):
        read_questions(path, "2wiki")


NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(NAMES, st.just("r"), NAMES), max_size=6, unique=True))
def test_chains_are_walks_over_the_triplets_and_leave_none_of_a_tree_out(
    triples: list[tuple[str, str, str]],
) -> None:
    chains = chains_of(triples)
    assert bool(chains) == bool(triples)
    for chain in chains:
        assert len(set(chain)) == len(chain)
        assert set(chain) <= set(triples)
        assert all(one[2] == after[0] for one, after in pairwise(chain))
    objects = [tail for _, _, tail in triples]
    grows = all(head < tail for head, _, tail in triples)  # such triples have no cycle
    if grows and len(set(objects)) == len(objects):
        assert {one for chain in chains for one in chain} == set(triples)


def test_titles_stand_in_a_question_as_whole_words() -> None:
    assert titles_in("Is Annabel older than Ann?", ["Ann", "Anna"]) == ["Ann"]
    assert titles_in("Who wrote Oslo (film)?", ["Oslo (film)"]) == ["Oslo (film)"]
    assert titles_in("Who wrote oslo?", ["Oslo (film)"]) == ["Oslo"]
    assert titles_in("Who?", ["???", "(film)"]) == []
