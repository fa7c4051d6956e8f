"""What the README and the docs show is run: Python, consoles with their output, and links.

A block of Python is executed. A console (lines that begin with ``$ kgqa``) is run, and prints what
the page shows, numbers aside; a line ``…`` stands for lines that are left out. Other blocks of
commands are parsed by the command line itself, or name a script and flags that it has. A block
that cannot be run here says so on the page, in a line ``*Not run by our tests: …*`` below it;
``text`` is what was printed once.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import kgqa as kgqa  # a fixture
from tests.server.conftest import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Kgqa

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NOT_RUN = "*Not run by our tests: "
ELSEWHERE = {"extending.md"}  # tests/cli/test_extending.py
KGS = {"own-graph.md": "services"}  # that a page's commands mean without --kg


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
CONSOLES = [one for one in BLOCKS if one.language == "" and "$ " in one.text and one.runs]
COMMANDS = [one for one in BLOCKS if one.language == "" and "$ " not in one.text and one.runs]
PYTHON = [
    list(of)
    for page, of in groupby((o for o in BLOCKS if o.language == "python"), lambda one: one.page)
    if page not in ELSEWHERE
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the graphs of the docs: the bundled sample under both its names, and two more."""
    import kgqa as library

    folder = tmp_path_factory.mktemp("home")
    library.ingest("freebase", kg="freebase", home=folder).close()
    shutil.copytree(folder / "freebase", folder / "freebase-sample")
    for name, file in (
        ("services", "examples/services.tsv"),
        ("vineyard", "tests/data/own/vineyard/triples.tsv"),
    ):
        library.ingest("triples", ROOT / file, kg=name, home=folder).close()
    facts = folder / "facts.tsv"
    facts.write_text(
        "checkout-api\tdependsOn\tprice-feed\n"
        "checkout-api\tonCallEngineer\tAda Birch\n"
        "checkout-api\townedBy\tPayments\n"
        "price-feed\tonCallEngineer\tBo Lindt\n"
        "price-feed\townedBy\tPricing\n"
    )
    library.ingest("triples", facts, kg="on-call", home=folder).close()
    return folder


@pytest.fixture
def names(
    home: Path, smollm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What a page's Python may use without having made it."""
    monkeypatch.setenv("KGQA_HOME", str(home))
    given: dict[str, Any] = {"home": home, "folder": smollm_folder}
    yield given
    for name in ("kg", "store"):
        if name in given:
            given[name].close()


@pytest.mark.model
@pytest.mark.parametrize("blocks", PYTHON, ids=lambda blocks: blocks[0].page)
def test_the_python_of_a_page_runs_and_prints_what_the_page_shows(
    blocks: list[Block],
    names: dict[str, Any],
    model_cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = next(page for page in PAGES if page.name == blocks[0].page)
    if page.name == "serve.md":
        with serving(names["home"], model_cache) as server:
            address = blocks[0].text.replace("http://127.0.0.1:8080", server.url)
            exec(address, names)
    else:
        names |= given(page.name, names)
        for block in blocks:
            exec(block.text, names)
    printed = masked(page.read_text("utf-8"))
    for line in capsys.readouterr().out.splitlines():
        assert masked(line) in printed, line
    if page.name == "tries.md":
        assert len(names["read"]) == names["rows"][0]["paths"] > 1
        assert all(len(set(path)) > 2 for path in names["read"])


def given(page: str, names: dict[str, Any]) -> dict[str, Any]:
    """What a page speaks of before its Python uses it."""
    import kgqa as library

    if page == "tries.md":
        import json

        with (
            library.open("services", home=names["home"]) as kg,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr("kgqa.trie.index.shard.SMALL", 0)  # the layout that the page reads
            kg.index()
        (manifest,) = names["home"].glob("services/tries/*/manifest.json")
        width = json.loads(manifest.read_text("utf-8"))["token_width"]
        return {"width": width, "shard": next(manifest.parent.glob("shard-*.parquet"))}
    if page == "kg-cot.md":
        from kgqa.graph.sqlite import SqliteStore
        from kgqa.models.graph_reasoner_files import load_reasoner
        from kgqa.paths.walk import WalkRules
        from kgqa.progress import Silent

        cache = names["folder"].parents[1]
        return {
            "reasoner": load_reasoner("freebase", device="cpu", cache=cache, progress=Silent()),
            "store": SqliteStore(names["home"] / "freebase" / "graph.sqlite", name="freebase"),
            "rules": WalkRules(),
        }
    return {}


def masked(text: str) -> str:
    """Return a text without backticks, with its numbers and runs of blanks made equal."""
    return re.sub(r"-?\d+(?:[.,]\d+)*", "0", " ".join(text.replace("`", "").split()))


@pytest.mark.model
@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_a_console_prints_what_the_page_shows(
    block: Block, kgqa: Kgqa, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT if block.page == "README.md" else tmp_path)
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith("cat "):
            (tmp_path / command[4:]).write_text(shown.replace("    ", "\t"), "utf-8")
            continue
        words = shlex.split(command)[1:]
        kg = (
            []
            if "--kg" in words or "ingest" in words
            else ["--kg", KGS.get(block.page, "freebase")]
        )
        done = kgqa(*words, *kg, "--home", home)
        assert done.code == 0 or words[0] == "check", (command, done.err)
        said = [masked(line) for line in (done.out + done.err).splitlines()]
        for wanted in filter(str.strip, shown.splitlines()):
            assert wanted == "…" or masked(wanted) in said, (wanted, done.out, done.err)


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
def test_the_picture_of_the_readme_is_drawn_from_todays_answer(home: Path) -> None:
    import kgqa as library

    script = runpy.run_path(str(ROOT / "scripts" / "readme_picture"))
    with library.open("freebase-sample", home=home) as kg:
        drawn = script["picture"](kg.ask(script["QUESTION"]))
    assert drawn == (ROOT / "docs" / "answer.svg").read_text("utf-8")
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
