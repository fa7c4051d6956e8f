"""The published formats of question files, by small invented files and by the real ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import DataError, UsageError
from kgqa.questions import read_questions
from kgqa.registry import QUESTION_FORMATS

if TYPE_CHECKING:
    from pathlib import Path

PARSE = {
    "TopicEntityMid": "m.1",
    "TopicEntityName": "Anna",
    "InferentialChain": ["a.b", "a.b"],
    "Answers": [
        {"AnswerArgument": "m.2", "EntityName": "Oslo"},
        {"AnswerArgument": "1984", "EntityName": None},
    ],
}
WEBQSP = {"QuestionId": "W-1", "RawQuestion": "where?", "Parses": [PARSE]}
ROG = {
    "id": "r1",
    "question": "where?",
    "q_entity": ["Anna"],
    "a_entity": ["Oslo"],
    "graph": [["Anna", "born_in", "Oslo"]],
}
CSQA = {
    "id": "c1",
    "answerKey": "B",
    "question": {
        "stem": "Where?",
        "question_concept": "dog",
        "choices": [{"label": "A", "text": "sky"}, {"label": "B", "text": "kennel"}],
    },
}
MEDQA = {
    "realidx": 7,
    "question": "What?",
    "options": {"A": "rest", "B": "tea"},
    "answer_idx": "A",
    "meta_info": "step1",
}


def lines(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    )
    return path


def test_webqsp_joins_the_parses_of_a_question(tmp_path: Path) -> None:
    other = {**PARSE, "TopicEntityMid": "m.9", "InferentialChain": None, "Answers": []}
    path = lines(tmp_path / "w.jsonl", {**WEBQSP, "Parses": [PARSE, other]})
    (question,) = read_questions(path, "webqsp").questions
    assert (question.id, question.question) == ("W-1", "where?")
    assert question.topic_entities == ["m.1", "m.9"]
    assert question.answers == ["m.2", "1984"]
    assert question.relation_paths == [("a.b", "a.b")]
    assert question.names == {"m.1": "Anna", "m.9": "Anna", "m.2": "Oslo"}


def test_webqsp_as_one_object_is_read_and_its_faults_named_by_question(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"Version": "1", "Questions": [WEBQSP, {"QuestionId": "W-2"}, 3]}))
    read = read_questions(path, "webqsp")
    assert [question.id for question in read.questions] == ["W-1"]
    assert read.total == 3
    assert "w.json, question 2" in read.complaint()


def test_graph_questions_have_ids_with_names_and_gold_chains(tmp_path: Path) -> None:
    row = {
        **ROG,
        "q_mid": ["m.1"],
        "a_entity": ["Oslo", ""],
        "a_mid": ["m.2", "g.3"],
        "gold_chains": [["p.q"], None, ["p.q"]],
        "type": "composition",
        "sparql": "SELECT ?x WHERE { ns:m.1 ns:a.b.c ?x . ?x ns:d.e.f ?y . ns:m.2 ns:a.b.c ?y }",
    }
    for form in ("webqsp-graph", "cwq-graph"):
        (question,) = read_questions(lines(tmp_path / "g.jsonl", row), form).questions
        assert question.topic_entities == ["m.1"]
        assert question.answers == ["m.2", "g.3"]  # the nameless answer is not lost
        assert question.names == {"m.1": "Anna", "m.2": "Oslo"}
        assert question.relation_paths == [("p.q",)]
        assert question.type == "composition"
        assert question.predicates == ["a.b.c", "d.e.f"]
        assert question.graph is None


def test_rog_questions_bring_their_graphs_from_lines_and_parquet(tmp_path: Path) -> None:
    second = {**ROG, "id": "r2", "graph": [["Anna", "likes", "Ole -> x"], ["x", "y", "z"]]}
    text = lines(tmp_path / "r.jsonl", ROG, second)
    parquet = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist([ROG, second]), parquet, row_group_size=1)
    for path in (text, parquet):
        read = read_questions(path, "rog")
        assert [question.id for question in read.questions] == ["r1", "r2"]
        assert [question.answers for question in read.questions] == [["Oslo"]] * 2
        first, other = (question.graph for question in read.questions)
        assert first is not None
        assert first.triples() == [("Anna", "born_in", "Oslo")]
        assert other is not None
        assert other.triples() == [("Anna", "likes", "Ole -> x"), ("x", "y", "z")]


def test_a_graph_that_has_gone_is_an_error_with_a_name(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", ROG)
    graph = read_questions(path, "rog").questions[0].graph
    path.write_text("{}\n")
    assert graph is not None
    with pytest.raises(DataError, match=r"r\.jsonl"):
        graph.triples()


def test_a_damaged_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(path, "rog")


def test_metaqa_has_types_hops_and_gold_relation_paths(tmp_path: Path) -> None:
    folder = tmp_path / "2-hop"
    folder.mkdir()
    path = lines(folder / "qa_dev.txt", "who acted with [[Rec] Star]\tA|B", "no topic\tA")
    lines(folder / "qa_dev_qtype.txt", "actor_to_movie_to_actor", "x")
    read = read_questions(path, "metaqa")
    (question,) = read.questions
    assert question.question == "who acted with [Rec] Star"
    assert question.topic_entities == ["[Rec] Star"]
    assert question.answers == ["A", "B"]
    assert (question.hops, question.type) == (2, "actor_to_movie_to_actor")
    assert question.relation_paths == [("^starred_actors", "starred_actors")]
    assert read.bad_entries[0].number == 2


def test_metaqa_without_types_knows_its_hops_by_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "3-hop"
    folder.mkdir()
    (question,) = read_questions(lines(folder / "qa.txt", "of [X]\tA"), "metaqa").questions
    assert (question.hops, question.type, question.relation_paths) == (3, "", [])


def test_pathquestion_has_its_gold_path(tmp_path: Path) -> None:
    line = "who is x 's y ?\tb(a/b/)\tx#spouse#c#child#b#<end>#b"
    (question,) = read_questions(lines(tmp_path / "p.txt", line), "pathquestion").questions
    assert question.topic_entities == ["x"]
    assert question.answers == ["a", "b"]
    assert question.relation_paths == [("spouse", "child")]
    assert question.hops == 2


def test_multiple_choice_answers_are_the_texts_of_choices(tmp_path: Path) -> None:
    (one,) = read_questions(lines(tmp_path / "c.jsonl", CSQA), "commonsenseqa").questions
    assert (one.topic_entities, one.answers) == (["dog"], ["kennel"])
    assert one.choices == ["sky", "kennel"]
    (other,) = read_questions(lines(tmp_path / "m.jsonl", MEDQA), "medqa").questions
    assert (other.id, other.answers, other.type) == ("7", ["rest"], "step1")
    assert other.choices == ["rest", "tea"]


@pytest.mark.parametrize(
    ("form", "good", "bad", "reason"),
    [
        ("webqsp", WEBQSP, {**WEBQSP, "Parses": "none"}, "Parses"),
        ("webqsp", WEBQSP, {**WEBQSP, "RawQuestion": ""}, "Question"),
        ("webqsp-graph", ROG, {**ROG, "a_entity": 3}, "a_entity"),
        ("webqsp-graph", ROG, {**ROG, "gold_chains": 5}, "gold_chains"),
        ("cwq-graph", ROG, {"question": "where?", "q_entity": []}, "a_entity"),
        ("rog", ROG, {**ROG, "graph": [["Anna", "born_in"]]}, "item 1"),
        ("rog", ROG, {**ROG, "graph": None}, "graph"),
        ("rog", ROG, "{", "JSON"),
        ("metaqa", "of [X]\tA", "of [X]", "tab"),
        ("metaqa", "of [X]\tA", "of [X]\tA||B", "empty answer"),
        ("pathquestion", "q\tb(b/)\tx#r#b#<end>#b", "q\tb(b/)\tx#r#<end>#b", "path"),
        ("pathquestion", "q\tb(b/)\tx#r#b#<end>#b", "q\tb(b/)", "2 fields"),
        ("commonsenseqa", CSQA, {**CSQA, "answerKey": "F"}, '"F"'),
        ("commonsenseqa", CSQA, {**CSQA, "question": {"stem": "x"}}, "choices"),
        ("medqa", MEDQA, {**MEDQA, "options": ["a"]}, "options"),
    ],
)
def test_a_bad_line_is_named_and_counted(
    tmp_path: Path, form: str, good: object, bad: object, reason: str
) -> None:
    read = read_questions(lines(tmp_path / "questions", bad, good), form)
    assert len(read.questions) == 1
    (bad_entry,) = read.bad_entries
    assert bad_entry.number == 1
    assert reason in bad_entry.reason
    assert read.total == 2
    assert "questions" in read.complaint()


@pytest.mark.parametrize("form", QUESTION_FORMATS.names())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from([*WEBQSP, *PARSE, *ROG, *CSQA, *CSQA["question"], *MEDQA]),
                        inner,
                        max_size=5,
                    )
                ),
                max_leaves=12,
            ).map(lambda row: json.dumps(row).encode() + b"\n"),
            max_size=4,
        ).map(b"".join),
    )
)
def test_nothing_in_a_file_is_lost_or_ends_in_another_error(
    tmp_path: Path, form: str, content: bytes
) -> None:
    path = tmp_path / "questions"
    path.write_bytes(content)
    try:
        read = read_questions(path, form)
    except DataError:
        return
    if form != "webqsp":
        assert read.total == sum(bool(line.strip()) for line in content.split(b"\n"))


def test_a_limit_counts_bad_lines_too(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", ROG, "{", {**ROG, "id": "r2"}, {**ROG, "id": "r3"})
    read = read_questions(path, "cwq-graph", 3)
    assert ([question.id for question in read.questions], read.total) == (["r1", "r2"], 3)


def test_an_unknown_format_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pathquestion"):
        read_questions(tmp_path, "xml")


@pytest.mark.parametrize("form", QUESTION_FORMATS.names())
def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, form: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "none", form)


@pytest.mark.parametrize(
    ("form", "file", "count"),
    [
        ("webqsp", "webqsp/WebQSP.dev-half.jsonl", 783),
        ("webqsp-graph", "freebase_subgraph/webqsp.dev-half.jsonl", 773),
        ("cwq-graph", "freebase_subgraph/cwq.dev-half.jsonl", 1784),
        ("rog", "freebase_subgraph/webqsp.dev-half.jsonl", 773),
        ("metaqa", "metaqa/1-hop/qa_dev.txt", 9992),
        ("metaqa", "metaqa/2-hop/qa_dev.txt", 14872),
        ("metaqa", "metaqa/3-hop/qa_dev.txt", 14274),
        ("pathquestion", "pathquestion/PQ-2H.dev.txt", 1515),
        ("pathquestion", "pathquestion/PQ-3H.dev.txt", 4242),
        ("commonsenseqa", "commonsenseqa/train_rand_split.jsonl", 9741),
        ("medqa", "medqa/dev-half.jsonl", 667),
    ],
)
def test_real_files_are_read_whole(shared: Path, form: str, file: str, count: int) -> None:
    if not (shared / file).is_file():
        pytest.skip(f"there is no file {shared / file}")
    read = read_questions(shared / file, form)
    assert not read.bad_entries
    assert len(read.questions) == count
    if form in ("metaqa", "pathquestion"):
        assert all(len(question.relation_paths[0]) == question.hops for question in read.questions)
    if form in ("commonsenseqa", "medqa"):
        assert all(set(question.answers) <= set(question.choices) for question in read.questions)
