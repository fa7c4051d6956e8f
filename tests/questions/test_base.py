from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.errors import DataError, UsageError
from kgqa.questions import Question, QuestionFormat, read_questions
from kgqa.registry import Options, option

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"id": "q1", "question": "who?", "topic_entities": ["m.1"], "answers": ["m.2"]}


def write(folder: Path, *lines: object) -> Path:
    path = folder / "questions.jsonl"
    whole = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()
        for line in lines
    )
    path.write_bytes(whole)
    return path


def test_a_whole_line_is_read(tmp_path: Path) -> None:
    paths = [["a", "a"], "b", [], ["a", "a"]]
    more = {"choices": ["m.2", "m.3"], "hops": 2, "type": "easy", "relation_paths": paths}
    (question,) = read_questions(write(tmp_path, {**GOOD, **more})).questions
    choices, gold = ["m.2", "m.3"], [("a", "a"), ("b",)]
    assert question == Question("q1", "who?", ["m.1"], ["m.2"], choices, 2, "easy", gold)


def test_what_may_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, b"", {"question": "  who? ", "answers": "m.2"}, b"  \r")
    read = read_questions(path)
    assert read.questions == [Question("2", "who?", [], ["m.2"])]
    assert (read.total, read.complaint()) == (1, "")
    only_paths = {"question": "who?", "relation_paths": [["a"]]}
    assert read_questions(write(tmp_path, only_paths)).questions[0].answers == []


def test_bom_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert len(read_questions(path).questions) == 1


def test_line_separators_inside_text_end_no_line(tmp_path: Path) -> None:
    path = write(tmp_path, {**GOOD, "question": "who\u2028is\x85it?"})
    assert read_questions(path).questions[0].question == "who\u2028is\x85it?"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not JSON"),
        ({**GOOD, "question": " "}, "question"),
        ({**GOOD, "question": 3}, "question"),
        ({"id": "q2", "question": "who?"}, "answers"),
        ({**GOOD, "answers": [1]}, "answers"),
        ({**GOOD, "answers": [""]}, "answers"),
        ({**GOOD, "topic_entities": {"m.1": 1}}, "topic_entities"),
        ({**GOOD, "choices": 4}, "choices"),
        ({**GOOD, "hops": -1}, "hops"),
        ({**GOOD, "hops": True}, "hops"),
        ({**GOOD, "id": ["q"]}, "id"),
        ({**GOOD, "relation_paths": 1}, "relation_paths"),
        (GOOD, "line 1"),  # the id came already
    ],
)
def test_a_bad_line_is_named_and_counted(tmp_path: Path, line: object, reason: str) -> None:
    read = read_questions(write(tmp_path, GOOD, line, {**GOOD, "id": "q3"}))
    assert [question.id for question in read.questions] == ["q1", "q3"]
    (bad,) = read.bad_entries
    assert (bad.file, bad.number) == ("questions.jsonl", 2)
    assert reason in bad.reason
    assert read.total == 3
    assert "questions.jsonl, line 2" in read.complaint()
    assert "unanswered" in read.complaint()


def test_many_bad_lines_are_counted_and_some_named(tmp_path: Path) -> None:
    read = read_questions(write(tmp_path, GOOD, *[b"{"] * 9))
    assert read.total == 10
    assert "9 lines" in read.complaint()
    assert "line 2:" in read.complaint()
    assert "4 more" in read.complaint()


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{", b"\x00" * 10])
def test_a_file_without_a_question_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="holds no question") as caught:
        read_questions(path)
    assert '"question"' in caught.value.hint


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b" "))))
def test_every_line_is_accounted_for(tmp_path: Path, lines: list[bytes]) -> None:
    read = read_questions(write(tmp_path, GOOD, *lines))
    assert read.total == 1 + sum(bool(line.strip()) for line in lines)


class ColonFormat(QuestionFormat):
    """A format of another package: ``question: answer`` lines, or with another separator."""

    class Options(Options):
        separator: str = option(":", "What stands between question and answer.")

    def read(self, path: Path):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            question, found, answer = line.partition(self.options.separator)
            yield number, Question("", question, [], [answer]) if found else "no answer"


def test_a_format_of_another_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("colon", f"{__name__}:ColonFormat", "kgqa.question_formats")
    monkeypatch.setattr("kgqa.registry._entry_points", lambda group: [point])
    path = tmp_path / "q.txt"
    path.write_text("who=me\nno\nwhen=now\n")
    read = read_questions(path, "colon", separator="=")
    assert (read.questions[0].question, read.questions[0].answers) == ("who", ["me"])
    assert [question.id for question in read.questions] == ["1", "3"]
    assert str(read.bad_entries[0]) == "q.txt, line 2: no answer"
    with pytest.raises(UsageError, match="`sep`"):
        read_questions(path, "colon", sep="=")
