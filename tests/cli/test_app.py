"""What holds for every command: global options, one line for an error, exit codes, a quick help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

import kgqa as package

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Kgqa

COMMAND = [sys.executable, "-c", "from kgqa.cli import main; main()"]
HEAVY = ("torch", "transformers", "peft", "neo4j", "pyarrow", "numpy", "openai", "pydantic", "mcp",
         "rich", "kgqa.graph")  # fmt: skip


def in_own_process(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "code", ["import kgqa.errors, kgqa.progress", "import kgqa.cli", "--help", "ask --help"]
)
def test_importing_and_help_load_nothing_heavy(code: str) -> None:
    if not code.startswith("import"):
        code = f"import kgqa.cli; sys.argv = ['kgqa', *{code.split()}]; kgqa.cli.main()"
    at_end = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    code = f"{at_end}; {code}"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(shown.stderr.split())
    assert "kgqa" in loaded
    assert loaded & set(HEAVY) <= ({"pydantic"} if "ask" in code else set())


def test_help_names_every_command(kgqa: Kgqa) -> None:
    shown = kgqa("--help").out
    for command in ("ingest", "precompute-tries", "ask", "paths", "link", "status", "eval"):
        assert f"  {command} " in shown


def test_help_of_a_command_lists_the_options_of_every_command(kgqa: Kgqa) -> None:
    shown = kgqa("ask", "--help")
    assert shown.code == 0
    for option in ("--kg", "--graph", "--home", "--json", "--debug", "--entity", "--hops", "--k"):
        assert f"  {option} " in shown.out


def test_version(kgqa: Kgqa) -> None:
    assert kgqa("--version").out == f"kgqa {package.__version__}\n"


def test_kgqa_alone_shows_what_there_is(kgqa: Kgqa) -> None:
    shown = kgqa()
    assert shown.code == 0
    assert "precompute-tries" in shown.out


@pytest.mark.parametrize("before", [True, False])
def test_global_options_stand_before_or_after_the_command(
    kgqa: Kgqa, plain_home: Path, before: bool
) -> None:
    options = ("--home", plain_home, "--kg", "freebase", "--json")
    command = ("paths", "m.02mjmr", "--limit", "1")
    arguments = (*options, *command) if before else (*command, *options)
    assert kgqa(*arguments).json["entity"]["name"] == "Barack Obama"


def test_a_flag_goes_above_the_environment(kgqa: Kgqa, plain_home: Path) -> None:
    command = ("link", "Barack Obama", "--json")
    assert kgqa(*command, KGQA_HOME=plain_home, KGQA_KG="freebase").json["candidates"]
    assert "nothing" in kgqa(*command, KGQA_HOME=plain_home, KGQA_KG="nothing").error
    given = kgqa(*command, "--kg", "freebase", KGQA_HOME=plain_home, KGQA_KG="nothing")
    assert given.json["candidates"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nope",), "nope"),
        (("ask",), "question"),
        (("paths", "x", "--direction", "sideways"), "sideways"),
        (("paths", "x", "--hops", "0"), "--hops"),
        (("ask", "x", "--no-such-option"), "--no-such-option"),
        (("ask", "x", "--direction", "both"), "--set direction=VALUE"),
        (("eval", "--no-cache-calls"), "--set cache_calls=VALUE"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_the_help(
    kgqa: Kgqa, arguments: tuple[str, ...], said: str
) -> None:
    error = kgqa(*arguments).error
    assert said in error
    assert error.endswith("--help")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ask", "x", "--k", "0"), ("--k", "cannot be 0")),
        (("ask", "x", "--method", "guess"), ("guess", "kg-cot")),
        (("ask", "x", "--set", "method"), ("NAME=VALUE",)),
        (("ask", "x", "--set", "hop=3"), ("--set hop=…", "--hops")),
        (("ask", "x", "--set", "beams=2"), ("does not belong to the method auto", "dog")),
        (("ask", "x", "--settings", "none.toml"), ("none.toml", "cannot be read")),
        (("ask", "Who", "directed", "Apollo"), ("in quotes", 'kgqa ask "Who directed Apollo"')),
        (("ingest", "wikidata"), ("wikidata", "freebase")),
        (("options", "nothing"), ("nothing", "kgqa options")),
        (("check", "Apollo 13"), ("head -> relation -> tail",)),
        (("check", "a -> b -> c", "--kg", "x" * 50_000), ("cannot name a KG", "x…", "digits")),
        (("query", "x" * 50_000), ("The graph has no class", "x…")),
        (("ingest", "triples", ""), ("empty", "Name the file")),
    ],
)
def test_a_wrong_value_is_one_line_that_names_what_there_is(
    kgqa: Kgqa, plain_home: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    error = kgqa(*arguments, "--home", plain_home).error
    assert all(word in error for word in words), error
    assert len(error) < 2_000


def test_a_wrong_option_loads_no_model_and_no_framework(plain_home: Path) -> None:
    code = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules)); "
        f"sys.argv = ['kgqa', 'ask', 'x', '--set', 'beams=2', '--home', {str(plain_home)!r}]; "
        "from kgqa.cli import main; main()"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "does not belong to the method auto" in shown.stderr
    assert not set(shown.stdout.split()) & {"torch", "transformers", "neo4j", "pyarrow", "rich"}


def test_the_help_of_ask_fits_a_screen_and_groups_its_flags(kgqa: Kgqa) -> None:
    shown = kgqa("ask", "--help").out
    own = shown[: shown.index("For every command:")]
    flags = [line for line in own.splitlines() if line.startswith("  --")]
    assert 8 <= len(flags) <= 15
    assert len(shown.splitlines()) <= 60
    assert "--set NAME=VALUE" in shown


def test_a_settings_file_gives_what_flags_and_set_do_not(
    kgqa: Kgqa, plain_home: Path, tmp_path: Path
) -> None:
    toml, wrong = tmp_path / "s.toml", tmp_path / "s.json"
    toml.write_text('k = 3\nmethod = "nothing"\n', encoding="utf-8")
    wrong.write_text('{"k": 0}', encoding="utf-8")
    ask = ("ask", "x", "--home", plain_home, "--settings")
    assert "The method 'nothing' does not exist" in kgqa(*ask, toml).error
    assert "cannot be 0" in kgqa(*ask, wrong).error
    assert "cannot be '-1'" in kgqa(*ask, wrong, "--set", "k=-1").error
    assert "cannot be -2" in kgqa(*ask, wrong, "--set", "k=-1", "--k", "-2").error


def test_an_unknown_preset_is_told_before_anything_is_opened(kgqa: Kgqa, tmp_path: Path) -> None:
    error = kgqa("ask", "x", "--preset", "nope", "--home", tmp_path / "none").error
    assert "nope" in error
    assert "gcr" in error


def test_only_debug_shows_a_traceback(tmp_path: Path) -> None:
    plain = in_own_process("link", "x", "--home", tmp_path / "none")
    assert plain.returncode == 1
    assert plain.stderr.startswith("Error: There is no KG")
    debug = in_own_process("link", "x", "--home", tmp_path / "none", "--debug")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    assert "KGNotFoundError" in debug.stderr


def test_a_traceback_shows_no_secret(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none?password=S3cr3t"
    debug = in_own_process("link", "x", "--graph", url, "--kg", "own", "--debug")
    assert "Traceback" in debug.stderr
    assert "S3cr3t" not in debug.stderr


def test_a_reader_that_goes_away_is_no_error(plain_home: Path) -> None:
    ours = subprocess.Popen(
        [*COMMAND, "paths", "United States of America", "--limit", "100000"],
        env=os.environ | {"KGQA_HOME": str(plain_home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ours.stdout is not None
    assert ours.stderr is not None
    with ours.stdout, ours.stderr:
        assert ours.stdout.readline()
        ours.stdout.close()
        assert ours.stderr.read() == ""
    ours.wait(timeout=60)


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C reaches all its processes")
@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_error(plain_home: Path, closed: str) -> None:
    command = f'"{sys.executable}" -m kgqa paths "Barack Obama" --home "{plain_home}" {closed}'
    for form in ("", " --json"):
        done = subprocess.run(["sh", "-c", command + form], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_stops_a_load_and_leaves_nothing_half_loaded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ours = subprocess.Popen(
        [*COMMAND, "ingest", "triples", "-", "--kg", "slow", "--home", str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell starts its background jobs deaf to Ctrl-C, and their children with them
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert ours.stdin is not None
    ours.stdin.write("a\tlikes\tb\n")
    ours.stdin.flush()
    while not list(home.rglob(".ingest.lock")):  # until it loads
        assert ours.poll() is None
        time.sleep(0.05)
    ours.send_signal(signal.SIGINT)
    ours.wait(timeout=60)
    out, err = ours.communicate(timeout=60)
    assert ours.returncode == 130
    assert (out, err) == ("", "Stopped.\n")
    assert not list(home.rglob("graph.sqlite"))


def test_who_stops_a_command_before_it_is_imported_sees_no_traceback() -> None:
    code = (
        "import sys; sys.meta_path.insert(0, type('Stops', (), {'find_spec': staticmethod("
        "lambda name, *_: signal.raise_signal(signal.SIGINT) if name == 'kgqa.cli.app' else None)})"
        "()); import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from kgqa.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
