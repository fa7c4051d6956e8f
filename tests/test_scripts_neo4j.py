"""scripts/neo4j: what it says to wrong input and on machines that lack something."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.neo4j_server import free_ports

JAVA = "echo 'openjdk version \"17.0.1\"' >&2"
SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "neo4j"


def run(*arguments: str, home: Path, path: str | None = None, **env: str) -> tuple[int, str, str]:
    """Run the script with a PATH of its own; return exit code, stdout and stderr."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NEO4J_", "KGQA_")) and name != "JAVA_HOME"
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=inherited
        | ({} if path is None else {"PATH": path})
        | {"KGQA_NEO4J_HOME": str(home)}
        | env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH, with programs that the tests put there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def one_line(text: str) -> str:
    assert text.startswith("scripts/neo4j: ")
    assert text.count("\n") == 1
    return text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_it_can_be_run_as_it_stands() -> None:
    assert os.access(SCRIPT, os.X_OK)
    assert subprocess.run([SCRIPT, "--help"], capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize(
    ("prints", "java_home", "said"),
    [
        (None, None, "no Java on the PATH.*Java 17 or 21"),
        (None, "/no/such/java", "/no/such/java"),
        ('openjdk version "11.0.2"', None, "is Java 11;"),
        ('openjdk version "1.8.0_292"', None, "is Java 8;"),
        ("hello", None, "does not say which version"),
    ],
)
def test_a_java_that_does_not_serve_is_named(
    home: Path, tools: Path, prints: str | None, java_home: str | None, said: str
) -> None:
    if prints:
        program(tools, "java", f"echo '{prints}' >&2")
    env = {"JAVA_HOME": java_home} if java_home else {}
    code, out, err = run("start", home=home, path=str(tools), **env)
    assert (code, out) == (1, "")
    assert re.search(said, one_line(err))


def ports() -> list[str]:
    bolt, http = free_ports(2)
    return ["--bolt-port", str(bolt), "--http-port", str(http)]


def test_without_maven_it_says_what_to_install(home: Path, tools: Path) -> None:
    program(tools, "java", JAVA)
    code, _, err = run("start", *ports(), home=home, path=str(tools))
    assert code == 1
    assert "Maven (mvn) is not installed" in one_line(err)


def test_a_failed_download_leaves_no_jars_that_look_whole(home: Path, tools: Path) -> None:
    program(tools, "java", JAVA)
    program(tools, "mvn", "echo '[ERROR] no such host'; exit 1")
    code, _, err = run("start", *ports(), home=home, path=str(tools))
    assert code == 1
    assert "[ERROR] no such host" in err
    assert list((home / "jars").iterdir()) == []


@pytest.mark.parametrize("option", ["--bolt-port", "--http-port"])
def test_a_port_in_use_is_named_with_its_option(home: Path, tools: Path, option: str) -> None:
    program(tools, "java", JAVA)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = run("start", *ports(), option, port, home=home, path=str(tools))
    assert code == 1
    assert f"Port {port}" in one_line(err)
    assert option in err


@pytest.mark.parametrize(
    "wrong",
    [["--bolt-port", "x"], ["--bolt-port", "0"], ["--http-port", "70000"], ["--heap", "lots"],
     ["--no-such"], ["--password", "secret-of-mine"], ["extra"]],
)  # fmt: skip
def test_a_wrong_option_is_named(home: Path, wrong: list[str]) -> None:
    code, out, err = run("start", *wrong, home=home)
    assert (code, out) == (2, "")
    assert wrong[0] in err


def test_no_command_or_an_unknown_one_lists_the_commands(home: Path) -> None:
    for arguments in ([], ["launch"]):
        code, _, err = run(*arguments, home=home)
        assert code == 2
        assert "start" in err


def test_status_and_stop_where_nothing_runs(home: Path) -> None:
    code, out, err = run("status", home=home)
    assert (code, out) == (3, "")
    assert "scripts/neo4j start" in err
    assert run("stop", home=home)[:2] == (0, "")


@pytest.mark.parametrize("left", ["", "{", "[]", '{"pid": "x"}', "OURSELVES"])
def test_stop_never_ends_a_process_that_is_not_its_own(home: Path, left: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        if left == "OURSELVES":
            left = json.dumps({"pid": other.pid, "bolt_port": 1, "http_port": 2})
        (home / "run").mkdir(parents=True)
        (home / "run" / "server.json").write_text(left)
        code, _, err = run("stop", home=home)
        assert code == 0
        assert "No Neo4j" in err
        assert other.poll() is None
        other.communicate(b"\n")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("start", "--home", str(tmp_path / "file" / "home"), home=tmp_path)
    assert code == 1
    assert str(tmp_path / "file") in one_line(err)


def test_a_password_that_is_too_short_is_refused_and_not_shown(home: Path, tools: Path) -> None:
    program(tools, "java", JAVA)
    program(tools, "mvn", 'for a; do case $a in -DoutputDirectory=*) mkdir "${a#*=}";; esac; done')
    path = f"{tools}:/usr/bin:/bin"
    code, out, err = run("start", *ports(), home=home, path=path, NEO4J_PASSWORD="hush")
    assert code == 1
    assert "8 characters" in err
    assert "hush" not in out + err


def test_jars_that_are_not_the_pinned_ones_are_not_run(home: Path, tools: Path) -> None:
    program(tools, "java", 'echo \'openjdk version "17.0.1"\' >&2; touch "$0.ran"')
    made = 'mkdir "${a#*=}"; echo evil > "${a#*=}/neo4j-5.26.28.jar"'
    program(tools, "mvn", f"for a; do case $a in -DoutputDirectory=*) {made};; esac; done")
    path = f"{tools}:/usr/bin:/bin"
    code, _, err = run("start", *ports(), home=home, path=path)
    assert code == 1
    assert "are not the ones that are pinned in neo4j.sha256" in err
    assert list((home / "jars").iterdir()) == [], "they are not kept either"
    fetched = home / "jars" / "5.26.28"
    fetched.mkdir()
    (fetched / "neo4j-5.26.28.jar").write_text("evil")
    for command in (("start", *ports()), ("admin", "help")):
        code, _, err = run(*command, home=home, path=path)
        assert code == 1
        assert "are not the ones that are pinned" in one_line(err)
    assert not (home / "data").exists()


def test_ports_are_those_of_the_variables_that_compose_has(home: Path, tools: Path) -> None:
    program(tools, "java", JAVA)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        env = {
            "KGQA_NEO4J_BOLT_PORT": str(taken.getsockname()[1]),
            "KGQA_NEO4J_HTTP_PORT": str(free_ports(1)[0]),
        }
        code, _, err = run("start", home=home, path=str(tools), **env)
    assert code == 1
    assert f"Port {env['KGQA_NEO4J_BOLT_PORT']} cannot be used" in err
    code, _, err = run("start", home=home, KGQA_NEO4J_HTTP_PORT="many")
    assert code == 2
    assert "is not a port" in err
