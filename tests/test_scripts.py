"""The scripts' own promises: clear refusals, steps that do not hide each other, no lost failure."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgqa.answers.answer import Answer, RankedAnswer
from scripts.benchmarks import sets
from scripts.benchmarks.common import with_between

CHECKOUT = Path(__file__).resolve().parent.parent
BASH = shutil.which("bash") or "bash"


def run(*command: str, cwd: Path = CHECKOUT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASH, *command], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )


def with_env(code: str) -> subprocess.CompletedProcess[str]:
    return run("-c", f"set -uo pipefail; source scripts/_env.sh; {code}")


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_help_says_what_a_script_does(script: str) -> None:
    done = run(script, "--help")
    assert done.returncode == 0
    assert f"{script} [--" in done.stdout
    assert "#" not in done.stdout


def test_the_demo_refuses_what_it_does_not_know() -> None:
    done = run("scripts/demo", "--neo")
    assert done.returncode == 2
    assert done.stderr == "usage: scripts/demo [--light | --neo4j]\n"


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_without_a_python_a_script_says_so_in_one_line(script: str, tmp_path: Path) -> None:
    checkout, tools = tmp_path / "checkout", tmp_path / "bin"
    shutil.copytree(CHECKOUT / "scripts", checkout / "scripts")
    tools.mkdir()
    for name in ("dirname", "basename", "mktemp", "rm", "sed"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")  # as a Python before 3.11 answers the question for it
    old.chmod(0o755)
    done = run(script, cwd=checkout, PATH=str(tools), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "Python 3.11 or later" in line
    assert "apt install" in line
    assert not (checkout / ".venv").exists()
    assert not list(tmp_path.glob("kgqa-test.*"))


def test_a_failing_step_does_not_stop_the_others_and_fails_the_summary() -> None:
    done = with_env("step one false; step two echo hello; summary; echo $? $(failed_steps)")
    lines = done.stdout.splitlines()
    assert "hello" in lines
    assert [line.split()[:2] for line in lines[-3:-1]] == [["one", "failed"], ["two", "ok"]]
    assert lines[-1] == "1 one"


def test_the_summary_of_steps_that_went_well_is_good() -> None:
    done = with_env("step one true; record neo4j none 3; summary; echo $? $(failed_steps)")
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[-3:-1]] == [["one", "ok", "0"], ["neo4j", "none", "3"]]
    assert lines[-1] == "0"


def test_the_environment_is_made_anew_where_a_lock_has_changed(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / ".venv").mkdir(parents=True)
    shutil.copytree(CHECKOUT / "scripts", checkout / "scripts")
    shutil.copy(CHECKOUT / "pyproject.toml", checkout)
    python = sys.executable
    assert python
    (checkout / ".venv" / "bin").mkdir()
    (checkout / ".venv" / "bin" / "python").symlink_to(python)
    lock = checkout / "requirements.lock"
    keys = []
    for text in ("a==1\n", "a==1\n", "a==2\n"):
        lock.write_text(text)
        done = run("-c", "source scripts/_env.sh; env_key", cwd=checkout)
        keys.append(done.stdout.strip())
    assert len(keys[0]) == 64
    assert keys[0] == keys[1] != keys[2]


def test_tests_marked_long_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    shutil.copy(CHECKOUT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.long\ndef test_long(): pass\n\ndef test_short(): pass\n"
    )
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)

    closing = []
    for full in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"],
            cwd=tmp_path,
            env={**os.environ, "KGQA_TEST_FULL": full, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
        )
        closing.append(done.stdout.splitlines()[-1].partition(" in ")[0])
    assert closing == ["1 passed, 1 skipped", "2 passed"]


def bench_decoding(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "scripts" / "bench_decoding"), *arguments],
        capture_output=True,
        text=True,
    )


def test_bench_decoding_says_what_it_measures_and_what_it_needs(tmp_path: Path) -> None:
    done = bench_decoding("--help")
    assert done.returncode == 0
    for said in ("--shared", "--quick", "--device", "--json", "met|missed"):
        assert said in done.stdout
    done = bench_decoding("--shared", str(tmp_path), "--cache", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert str(tmp_path / "data" / "gcr_question_graphs") in line


@pytest.mark.long
@pytest.mark.model
def test_bench_decoding_finds_the_same_lists_both_ways(tmp_path: Path, model_cache: Path) -> None:
    """The whole script, on two of the real question graphs."""
    shared = Path(os.environ.get("KGQA_SHARED", CHECKOUT.parent / "shared"))
    if not (shared / "data" / "gcr_question_graphs").is_dir():
        pytest.skip("no ../shared/data/gcr_question_graphs: real question graphs")
    figures = tmp_path / "figures.json"
    options = ["--shared", str(shared), "--cache", str(model_cache), "--json", str(figures)]
    done = bench_decoding(*options, "--quick")
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text())
    assert found["single"]["identical"] == found["batch"]["identical"] == 1
    assert 0 < found["ours_forwards"] < found["generate_forwards"]
    assert "goal fewer_forwards" in done.stdout


def test_every_step_of_a_reproduction_is_a_script_with_these_flags(tmp_path: Path) -> None:
    script = runpy.run_path(str(CHECKOUT / "scripts" / "reproduce"))
    shared = (CHECKOUT / "scripts" / "benchmarks" / "common.py").read_text("utf-8")
    names = [step.name for step in script["STEPS"]]
    assert len(names) == len(set(names))
    for step in script["STEPS"]:
        for full in (False, True):
            name, *arguments = step.arguments(tmp_path, tmp_path / "out", full=full)
            text = (CHECKOUT / "scripts" / name).read_text("utf-8") + shared
            for flag in arguments:
                assert not flag.startswith("--") or f'"{flag}"' in text, (step.name, flag)
    kept = tmp_path / "out" / "update" / "printed-small.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text(f"command: bench_update --shared {tmp_path} > {tmp_path / 'out'}\n", "utf-8")
    page = script["report"](tmp_path, tmp_path / "out")
    assert "command: bench_update --shared DIR > FOLDER\n" in page
    assert str(tmp_path) not in page


def test_every_bundled_model_has_commands_that_train_it(tmp_path: Path) -> None:
    """Read by the command line itself, which complains of the KG only where flags are right."""
    from typer.testing import CliRunner

    from kgqa.cli.app import app

    script = runpy.run_path(str(CHECKOUT / "scripts" / "train_bundled"))
    data = CHECKOUT / "kgqa" / "data"
    bundled = {file.parent.relative_to(data).as_posix() for file in data.rglob("*.safetensors")}
    assert {*script["MODELS"], *script["TRAINERS"]} == bundled
    for name in script["MODELS"]:
        for words in script["commands"](name, tmp_path, tmp_path / name):
            done = CliRunner().invoke(app, [*words, "--home", str(tmp_path)])
            assert "KGNotFoundError" in repr(done.exception), (name, done.output)
    for module, _, steps in script["TRAINERS"].values():
        assert callable(import_module(f"scripts.{module}").train)
        assert steps > 0


def test_only_what_stands_between_the_comments_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "doc.md"
    file.write_text("before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n", "utf-8")
    file.write_text(with_between(file, "x", "new"), "utf-8")
    said = "before\n<!-- x: begin -->\nnewer\n<!-- x: end -->\nafter\n"
    assert with_between(file, "x", "newer") == said
    with pytest.raises(SystemExit, match="no place"):
        with_between(file, "y", "new")


@pytest.mark.long
@pytest.mark.parametrize(
    "script",
    sorted(
        path.name
        for path in (CHECKOUT / "scripts").glob("*_*")
        if path.name.startswith(("bench_", "train_"))
    ),
)
def test_every_script_that_measures_or_trains_can_be_imported(script: str) -> None:
    command = [sys.executable, str(CHECKOUT / "scripts" / script), "--help"]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0


def golden(*given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKOUT / "scripts" / "golden"), *given]
    return subprocess.run(command, capture_output=True, text=True)


def test_two_golden_files_are_compared_question_by_question(tmp_path: Path) -> None:
    before, after = tmp_path / "before.tsv", tmp_path / "after.tsv"
    before.write_text("a\t1f\t0.90\t1\nb\t2f\t0.80\t0\nc\t3f\t0.70\t1\nd\t4f\t-\t0\n")
    after.write_text("a\t1e\t0.90\t0\nb\t2e\t0.80\t1\nc\t3f\t0.71\t1\nd\t4f\t-\t0\n")
    done = golden("compare", str(before), str(after))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "lost a 1f 0.90 -> 1e 0.90",
        "won b 2f 0.80 -> 2e 0.80",
        "confidence c 3f 0.70 -> 3f 0.71",
        "4 questions in both: 1 lost, 1 won, 0 other, 1 confidence",
    ]
    assert golden("compare", str(after), str(after)).returncode == 0


def test_an_answer_is_right_if_it_has_all_that_is_wanted_and_no_more() -> None:
    def answer(*names: str) -> Answer:
        given = tuple(RankedAnswer(None, name, 1.0, True) for name in names)
        return Answer(question="?", method="query", topic_entities=(), answers=given)

    row = {"answers": [["Halogens", "VIIA"], "1,200"]}
    assert sets.right(row, answer("1200.0", "halogens"))
    assert not sets.right(row, answer("1200"))
    assert not sets.right(row, answer("1200", "VIIA", "iron"))
    assert sets.right(row, answer("1200", "iron"), first=True)
    assert sets.right({"answers": []}, answer())


def test_forty_intents_have_eight_wordings_each() -> None:
    every = tomllib.loads((CHECKOUT / "scripts/benchmarks/wordings.toml").read_text("utf-8"))
    assert len(every["intent"]) == 40
    assert {len({*intent["wordings"]}) for intent in every["intent"]} == {8}
    assert len({intent["graph"] for intent in every["intent"]}) == 4


def test_figures_of_a_set_count_what_can_be_answered_and_what_is_sure() -> None:
    script = runpy.run_path(str(CHECKOUT / "scripts" / "bench_unseen"))
    one = {"answerable": True, "right": True, "in_ten": True, "answered": True, "confidence": 0.9}
    wrong = {**one, "right": False, "confidence": 0.95}
    unsure = {**wrong, "in_ten": None, "confidence": 0.89}
    none = {**wrong, "answerable": False, "answered": False}  # a refusal is sure of something else
    figures = script["figures_of"]([one, wrong, unsure, none])
    assert round(figures["right"]) == 33
    assert figures["in_ten"] == 100
    assert (figures["sure"], figures["sure_ok"], figures["wrong_and_sure"]) == (50, 50, 1)
    assert figures["refused"] == 100
    assert script["figures_of"]([])["right"] is None


def test_a_measurement_in_parts_keeps_what_was_measured_and_names_what_failed(
    tmp_path: Path,
) -> None:
    def bench(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, str(CHECKOUT / "scripts" / "bench_unseen"), *words]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    kept = tmp_path / "figures.json"
    one = {"questions": 4, "of": 8, "right": 75.0, "in_ten": 75.0, "sure": 50.0, "sure_ok": 50.0}
    one |= {"refused": None, "wrong_and_sure": 1, "answered_surely": 2, "seen_by": "nothing"}
    kept.write_text(json.dumps({"sets": {"own_third": one}}), "utf-8")
    there = ("--json", str(kept), "--add")
    again = bench(*there, "--sets", "own_third")
    assert again.returncode == 0
    (line,) = [each for each in again.stdout.splitlines() if each.startswith("own_third ")]
    assert line.split()[:4] == ["own_third", "nothing", "4/8", "75.0"]
    assert "goal sure_ok 50" in again.stdout
    failed = bench(*there, "--shared", str(tmp_path), "--sets", "movies")
    assert failed.returncode == 1
    assert "failed: SystemExit: There is no folder" in failed.stdout
    assert json.loads(kept.read_text("utf-8"))["failed"] == ["movies"]
    assert "own_third" in json.loads(kept.read_text("utf-8"))["sets"]
    assert "--add needs --json FILE" in bench("--add").stderr


def test_an_answer_of_real_data_is_scored_as_its_form_says() -> None:
    script = runpy.run_path(str(CHECKOUT / "scripts" / "bench_unseen"))

    def answer(*names: str, others: tuple[str, ...] = ()) -> SimpleNamespace:
        given, more = ([SimpleNamespace(id="", name=n) for n in some] for some in (names, others))
        return SimpleNamespace(answers=given, others=more, confidence=0.5, count=None)

    def right(row: dict[str, object], *names: str) -> bool:
        return bool(script["scored"](row, answer(*names), first=False)["right"])

    several = {"form": "set", "answers": [["Ada", "A"], "Bo"]}
    assert right(several, "a", "Bo")
    assert not right(several, "Ada")
    assert right({"form": "top1", "answers": [["Ada", "A"]]}, "A", "Bo")
    assert right({"form": "value", "answers": [5431]}, "5,431")
    assert right({"form": "yesno", "answers": ["yes"]}, "Yes")
    assert right({"form": "none", "answers": []})
    assert not right({"form": "none", "answers": []}, "Ada")
    held_back = script["scored"](several, answer(others=("Ada",)), first=True)
    assert not held_back["in_ten"]
    assert script["scored"](several, answer("C", others=("Ada",)), first=True)["in_ten"]
