"""What the README and the docs show is run: Python, consoles with their output, and links.

Each page is run from top to bottom in a home of its own, with only what the page itself made.
Python is executed, and prints what the page shows; a console (lines that begin with ``$ kgqa``)
prints what stands below it, numbers aside; ``$ cat FILE`` makes the file; a line ``…`` stands for
lines that are left out. Other blocks of commands are parsed by the command line itself, or name a
script and flags that it has. A block that cannot be run here says so on the page, in a line
``*Not run by our tests: …*`` below it; ``text`` is what was printed.
"""

from __future__ import annotations

import re
import runpy
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import kgqa as kgqa  # a fixture
from tests.server.conftest import serving

if TYPE_CHECKING:
    from tests.cli.conftest import Kgqa

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NOT_RUN = "*Not run by our tests: "
ELSEWHERE = {"extending.md", "tries.md"}  # tests/cli/test_extending.py, tests/trie/test_index.py


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: str
    line: int
    language: str
    text: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page.name, text[: one.start()].count("\n") + 1, one[1], one[2], NOT_RUN not in below)
        for one in re.finditer(r"^```([\w{}-]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for below in [text[one.end() :].lstrip("\n").partition("\n")[0]]
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
COMMANDS = [one for one in BLOCKS if one.language == "" and "$ " not in one.text and one.runs]
RUN = [
    one
    for one in BLOCKS
    if one.runs and (one.language == "python" or (one.language == "" and "$ " in one.text))
]
RUN_PAGES = [
    page for page in PAGES if page.name not in ELSEWHERE and page.name in {one.page for one in RUN}
]


@pytest.mark.model
@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.name)
def test_a_page_is_run_and_prints_what_it_shows(
    page: Path,
    kgqa: Kgqa,
    model_cache: Path,
    smollm_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("KGQA_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {"folder": smollm_folder}
    printed = masked(page.read_text("utf-8"))
    for block in (one for one in RUN if one.page == page.name):
        if block.language == "":
            run_console(block, kgqa, home)
            continue
        if page.name == "serve.md":
            with serving(home, model_cache) as server:
                exec(block.text.replace("http://127.0.0.1:8080", server.url), names)
        else:
            exec(block.text, names)
        for line in capsys.readouterr().out.splitlines():
            assert masked(line) in printed, line
    if "kg" in names:
        names["kg"].close()


def masked(text: str) -> str:
    """Return a text without backticks, with its numbers and runs of blanks made equal."""
    return re.sub(r"-?\d+(?:[.,]\d+)*", "0", " ".join(text.replace("`", "").split()))


def run_console(block: Block, kgqa: Kgqa, home: Path) -> None:
    """Run the commands of a console, and compare what they print."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith("cat "):
            Path(command[4:]).write_text(shown, "utf-8")
            continue
        words = shlex.split(command)[1:]
        done = kgqa(*words, "--home", home)
        assert done.code == 0 or words[0] == "check", (str(block), command, done.err)
        lines = [masked(line) for line in (done.out + done.err).splitlines()]
        for wanted in filter(str.strip, shown.splitlines()):
            assert wanted == "…" or masked(wanted) in lines, (wanted, done.out, done.err)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_a_command_of_a_list_is_one_that_there_is(block: Block) -> None:
    from typer.main import get_command

    from kgqa.cli.app import app

    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in ("export", "…"):
            continue
        if words[0] == "kgqa":
            command = get_command(app)
            context = command.make_context("kgqa", words[1:])  # raises if a flag is unknown
            while hasattr(command, "list_commands"):
                rest = [*context._protected_args, *context.args]
                name, command, rest = command.resolve_command(context, rest)
                context = command.make_context(name, list(rest), parent=context)
            continue
        script = ROOT / words[0]
        assert words[0].startswith(("scripts/", "./scripts/")), line
        text = script.read_text("utf-8")
        for flag in words[1:]:
            assert not flag.startswith("-") or flag in text, line


@pytest.mark.model
def test_the_picture_of_the_readme_is_drawn_from_todays_answer(tmp_path: Path) -> None:
    import kgqa as library

    script = runpy.run_path(str(ROOT / "scripts" / "readme_picture"))
    with library.ingest("triples", script["TRIPLES"], home=tmp_path) as kg:
        assert script["picture"](kg) == (ROOT / "docs" / "idea.svg").read_text("utf-8")
    assert f'ask "{script["QUESTION"]}"' in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            heads = re.findall(r"^#+ (.*)", file.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, target
