"""What a person sees: names as they are, nothing cut, shares that can be read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import (
    Answer,
    GeneralLlmUse,
    KgLlmUse,
    RankedAnswer,
    ScoredPath,
    Timings,
    TopicEntity,
)
from kgqa.cli.terminal import (
    TerminalProgress,
    path_line,
    percent,
    say,
    show_answer,
    show_details,
    show_rows,
)
from kgqa.paths.ground import Fact, GroundedPath, Node, PathEdge
from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Kgqa

NASTY = r"[bold]A[/bold] [x] :car: \[y] " + "\\"


def an_answer(answers: tuple[RankedAnswer, ...], name: str = "Paris") -> Answer:
    head, tail = Node("a", "[red]France"), Node("b", name)
    edge = PathEdge(head, "capital [of]", tail, False, (Fact("a", "r", "b"),))
    path = GroundedPath((edge,), "text")
    return Answer(
        question="What is [it]?",
        method="gcr",
        topic_entities=(TopicEntity(0, "a", head.name, 1.0),),
        answers=answers,
        paths=(ScoredPath("text", -1.5, name, (path,)),),
        constraints=(),
        kg_llm=KgLlmUse("model", None, 1, 2, 3),
        general_llm=None,
        timings=Timings(),
        forward_passes=1,
    )


def test_names_are_never_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    answer = an_answer((RankedAnswer("b", NASTY, 1.0, True),), NASTY)
    show_answer(answer)
    assert capsys.readouterr().out.splitlines()[0] == NASTY
    show_details(answer, [])
    out = capsys.readouterr().out
    assert f"[red]France -> capital [of] -> {NASTY}\n" in out
    assert f"answers: {NASTY} (b)\n" in out


def test_a_path_line_has_every_part_in_order() -> None:
    path = an_answer(()).paths[0].groundings[0]
    assert path_line(path).plain == "[red]France -> capital [of] -> Paris"


HIDDEN = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\ufeff\U000e0041\x7f\r\n"
SEEN = "\\x1b]0;title\\x07\\x1b[2J\\x9b31m\\u202eevil\\u2066\\u200b\\ufeff\\U000e0041\\x7f\\r\\n"


def test_nothing_in_a_name_is_obeyed_by_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    answer = an_answer((RankedAnswer(HIDDEN, HIDDEN, 1.0, True),), HIDDEN)
    answer = dataclasses.replace(
        answer, question=HIDDEN, topic_entities=(TopicEntity(0, HIDDEN, HIDDEN, 1.0),)
    )
    show_answer(answer, "http://localhost/" + HIDDEN)
    show_details(answer, [])
    TerminalProgress().note(HIDDEN)
    say(HIDDEN)
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert SEEN.strip() in text
        assert not set(text) & set(HIDDEN) - set("\ntile[];0123JmvA")


def test_marks_of_paths_inside_names_are_told_from_the_path_s_own() -> None:
    head, tail = Node("a", "A -> b -> C"), Node("b", "^B->")
    against = PathEdge(head, "^r", tail, True, (Fact("b", "r", "a"),))
    along = PathEdge(head, "^r", tail, False, (Fact("a", "^r", "b"),))
    mixed = PathEdge(head, "^r..^s", tail, False, (Fact("m", "r", "a"), Fact("m", "^s", "b")))
    lines = [path_line(GroundedPath((one,), "")).plain for one in (against, along, mixed)]
    assert lines == [
        r'"A -\u003e b -\u003e C" -> ^r -> "^B-\u003e"',
        r'"A -\u003e b -\u003e C" -> "^r" -> "^B-\u003e"',
        r'"A -\u003e b -\u003e C" -> ^r.."^s" -> "^B-\u003e"',
    ]


def test_a_long_row_is_neither_cut_nor_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    long = "/c/en/" + "x" * 300
    show_rows("", ["name", "id"], [["東京", long], [long, "b"]])
    assert capsys.readouterr().out.splitlines()[1:] == [f"東京{' ' * 42}{long}", f"{long}  b"]


def test_only_the_first_answers_are_shown_and_the_rest_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = [RankedAnswer("a0", "answer 0", 0.9, True)]
    rest = [RankedAnswer(f"a{i}", f"answer {i}", 0.1 / 14, True) for i in range(1, 15)]
    show_answer(an_answer((*first, *rest)), None)
    out = capsys.readouterr().out
    assert "answer 9 " in out
    assert "answer 10 " not in out
    assert "and 5 more; --json gives all" in out


def test_answers_of_a_general_llm_have_an_order_and_no_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = dataclasses.replace(
        an_answer((RankedAnswer(None, "Lyon", 1.0, False),)),
        general_llm=GeneralLlmUse("other", 1, 2, 3),
    )
    show_answer(answer, None)
    out = capsys.readouterr().out
    assert "Lyon (in no path)" in out
    assert "%" not in out


@given(st.floats(0, 1), st.floats(0, 1))
def test_shares_are_short_honest_and_in_order(one: float, other: float) -> None:
    def value(shown: str) -> float:
        return 0.0 if shown.startswith("<") else float(shown.removesuffix(" %"))

    low, high = sorted((one, other))
    assert value(percent(low)) <= value(percent(high))
    assert abs(value(percent(one)) - 100 * one) <= 0.1 + 1e-9
    assert (percent(one) == "100 %") == (one == 1)
    assert len(percent(one)) <= 6


def test_names_of_a_dump_come_out_as_they_went_in(kgqa: Kgqa, tmp_path: Path) -> None:
    names = ["[bold]A[/bold]", "likes [x] :car:", r"B\[/] 東京 Ünïcode"]
    dump = tmp_path / "odd.txt"
    dump.write_text("\t".join(names) + "\n", encoding="utf-8")
    assert kgqa("ingest", "triples", dump, "--home", tmp_path).code == 0
    shown = kgqa("paths", names[0], "--home", tmp_path)
    assert shown.out.splitlines()[0] == " -> ".join(names)
    assert "\x1b" not in shown.out, "no colours but on a terminal"
    linked = kgqa("link", "B 東京 Ünïcode", "--home", tmp_path)
    assert names[2] in linked.out


def test_ask_shows_answers_and_their_paths(kgqa: Kgqa, home: Path) -> None:
    shown = kgqa("ask", QUESTION, "--method", "gcr", "--k", "2", "--home", home)
    assert shown.code == 0
    assert shown.err == "", "an index that fits is nothing to talk about"
    lines = shown.out.splitlines()
    assert "Honolulu" in lines[0]
    assert next(line for line in lines if " -> " in line).startswith("  because Barack Obama -> ")
    assert "m.02mjmr" not in shown.out
    assert len(lines) <= 4
    shown = kgqa("ask", QUESTION, "--method", "gcr", "--k", "2", "--home", home, "-v")
    assert "topic entities: Barack Obama (m.02mjmr)" in shown.out
    assert "trie from the index" in shown.out.splitlines()[-1]


def test_an_ambiguous_name_is_told_with_the_others(kgqa: Kgqa, tmp_path: Path) -> None:
    dump, names = tmp_path / "twins.txt", tmp_path / "names.txt"
    dump.write_text("p1\tin\tfr\np1\tnear\tly\np2\tin\tus\n", encoding="utf-8")
    names.write_text("p1\tParis\np2\tParis\nfr\tFrance\nus\tTexas\nly\tLyon\n", encoding="utf-8")
    assert kgqa("ingest", "triples", dump, "--names", names, "--home", tmp_path).code == 0
    shown = kgqa("paths", "Paris", "--json", "--home", tmp_path)
    assert shown.json["entity"]["id"] == "p1"
    assert '"Paris" (p2)' in shown.err
